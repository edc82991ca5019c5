"""Linear decodability: what a ridge regression reads from the layers of a network about the task.

    weights    the module weights z                    presence   which modules are active
    mixed      the task network's mixed weights, scale * sum_m z_m Theta_m and biases likewise, of all modulated layers

Features are standardised and the penalty cross-validated (leave one task out) on TRAINING tasks; R2 is that on HELD-OUT
ones. Each row carries R2 for shuffled labels beside it; the encoding itself is layer -1; an untrained network of the
same shape is probed like any other. Only the excess over these is evidence: z and random networks decode well too.

Protocols: "fresh", an x of its own for each task (the paper's), or "shared", one x for all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import LinAlgWarning
from scipy.sparse.linalg import cg
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler
from torch import nn

from theory import Hyperteacher
from theory.arithmetic import Array, as_float
from theory.encodings import Encoding, Identity
from theory.families.family import Family
from verify.activations import activations

#: Penalties tried, as multiples of the number of tasks (features have variance 1).
PENALTIES = tuple(float(v) for v in np.logspace(-8, 2, 21))
TARGETS, PROTOCOLS, STAGES = ("weights", "presence", "mixed"), ("fresh", "shared"), ("pre", "post")
#: The layer that is the encoding itself.
ENCODING = -1
#: The paper's probe: its penalty, and the steps of conjugate gradients after which it stops.
PAPER_PENALTY, PAPER_STEPS = 1.0, 10


@dataclass(frozen=True)
class Fit:
    """One regression. r2: 1 - squared errors / squares about the mean, held out, summed over all labels that vary.

    r2_mean: mean over these labels of each one's R2; constant: labels that do not vary on held-out tasks (no R2; None
    for all where none varies). shuffled: r2 with the labels of the training tasks permuted. penalty: chosen.
    """

    r2: float | None
    r2_mean: float | None
    shuffled: float | None
    constant: int
    penalty: float
    tasks_fit: int
    tasks_held_out: int
    width: int


@dataclass(frozen=True)
class Decodability:
    """One layer of one network: layer -1 is the encoding, 0 the first hidden layer, and so on to the output."""

    layer: int
    stage: str
    target: str
    protocol: str
    fit: Fit

    def as_dict(self) -> dict[str, Any]:
        """Plain types for a table."""
        return {k: getattr(self, k) for k in ("layer", "stage", "target", "protocol")} | asdict(self.fit)


def fit(
    features: Array, labels: Array, features_held_out: Array, labels_held_out: Array, seed: int = 0, paper: bool = False
) -> Fit:
    """Ridge regression of labels (tasks, q) on features (tasks, width), scored on held-out tasks.

    paper: the paper's own settings (penalty 1, no standardisation, conjugate gradients stopped after 10 steps), which
    are not converged. Raises ValueError for arrays that do not fit together or are not finite.
    """
    pairs = ((features, labels), (features_held_out, labels_held_out))
    for x, y in pairs:
        if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) < 2:
            raise ValueError(f"features {x.shape}, labels {y.shape}: need (tasks, width), (tasks, q), at least 2 tasks")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError("features or labels: some are NaN or infinite")
    if features.shape[1] != features_held_out.shape[1] or labels.shape[1] != labels_held_out.shape[1]:
        raise ValueError("features, labels: training and held-out tasks have different widths")
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))).permutation(len(labels))
    solve = _paper if paper else _ridge
    predicted, penalty = solve(features, labels, features_held_out)
    shuffled, _ = solve(features, labels[order], features_held_out)  # with a penalty of its own
    r2, mean, constant = _r2(predicted, labels_held_out)
    noise, _, _ = _r2(shuffled, labels_held_out)
    return Fit(r2, mean, noise, constant, penalty, len(labels), len(labels_held_out), features.shape[1])


def decodability(
    net: nn.Module,
    family: Family,
    z_fit: Array,
    z_held_out: Array,
    encoding: Encoding | None = None,
    *,
    targets: Sequence[str] = ("weights",),
    protocols: Sequence[str] = ("fresh",),
    stages: Sequence[str] = ("post",),
    seed: int = 0,
    paper: bool = False,
) -> list[Decodability]:
    """Every layer of ``net`` (on rows [encoding, x]) probed for every target, protocol and stage, and the encoding too.

    z_fit, z_held_out: tasks (tasks, M). Raises ValueError for unknown names, and for a network that is more than linear
    layers and ReLU.
    """
    for what, names, known in (
        ("target", targets, TARGETS),
        ("protocol", protocols, PROTOCOLS),
        ("stage", stages, STAGES),
    ):
        for name in names:
            if name not in known:
                raise ValueError(f"{what}: {name!r} is unknown; use one of {', '.join(known)}")
    if encoding is None:
        encoding = Identity(family.z_domain)  # type: ignore[arg-type]
    labels = {target: [labels_of(family, z, target) for z in (z_fit, z_held_out)] for target in targets}
    found = []
    for protocol in protocols:
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, PROTOCOLS.index(protocol))))
        x = family.x_domain.sample(1 if protocol == "shared" else len(z_fit) + len(z_held_out), generator)
        z = np.concatenate([z_fit, z_held_out])
        x = np.broadcast_to(x, (len(z), family.inputs)).astype(np.float32)
        shown = encoding(torch.from_numpy(z.astype(np.float32)), generator)
        layers = activations(net, torch.cat([shown, torch.from_numpy(x)], dim=1))
        features = {(ENCODING, "post"): shown}
        for layer, values in enumerate(layers):
            # Without a ReLU, as at the output, the stages are the same.
            own = STAGES if not torch.equal(values.pre, values.post) else ("post",)
            features |= {(layer, stage): getattr(values, stage) for stage in own if stage in stages or own == ("post",)}
        for (layer, stage), values_t in features.items():
            values_n = values_t.double().numpy()
            parts = values_n[: len(z_fit)], values_n[len(z_fit) :]
            for target in targets:
                one = fit(parts[0], labels[target][0], parts[1], labels[target][1], seed, paper)
                found.append(Decodability(layer, stage, target, protocol, one))
    return found


def labels_of(family: Family, z: Array, target: str) -> Array:
    """What is to be decoded of tasks z (tasks, M): (tasks, q). Raises ValueError where a family has no such labels."""
    if target == "weights":
        return z.astype(float)
    if target == "presence":
        return (z != 0).astype(float)
    if not isinstance(family, Hyperteacher):
        raise ValueError(f"mixed: the tasks of {family.name} mix no weights; use weights or presence")
    arrays = [as_float(a).reshape(family.modules, -1) for a in (*family.layers, *family.biases)]
    return float(family.scale) * z @ np.concatenate(arrays, axis=1)


def _ridge(features: Array, labels: Array, held_out: Array) -> tuple[Array, float]:
    scaler = StandardScaler().fit(features)  # a feature that does not vary is only centred
    penalties = [len(features) * p for p in PENALTIES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)
        model = RidgeCV(penalties).fit(scaler.transform(features), labels)
    predicted = model.predict(scaler.transform(held_out)).reshape(len(held_out), -1)
    return predicted, float(model.alpha_)


def _paper(features: Array, labels: Array, held_out: Array) -> tuple[Array, float]:
    with_one, held_out_one = (np.concatenate([a, np.ones((len(a), 1))], axis=1) for a in (features, held_out))
    gram = with_one.T @ with_one + PAPER_PENALTY * np.eye(with_one.shape[1])
    columns = [cg(gram, with_one.T @ label, rtol=0, maxiter=PAPER_STEPS)[0] for label in labels.T]
    return held_out_one @ np.stack(columns, axis=1), PAPER_PENALTY


def _r2(predicted: Array, labels: Array) -> tuple[float | None, float | None, int]:
    error = ((predicted - labels) ** 2).sum(axis=0)
    spread = ((labels - labels.mean(axis=0)) ** 2).sum(axis=0)
    varies = spread > 1e-12 * len(labels) * (labels**2).max(axis=0, initial=1e-300)
    if not varies.any():
        return None, None, len(spread)
    r2 = 1 - error[varies].sum() / spread[varies].sum()
    return float(r2), float((1 - error[varies] / spread[varies]).mean()), int((~varies).sum())
