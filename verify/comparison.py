"""Constructed and trained networks side by side: one row a network, with everything that is measured about it.

    rows = compare(family, split, {"exact": build(family), "mine": my_network})

A network is a ConstructedMLP, or any module that maps rows [encoding of z, x] to outputs. What only stacks of linear
layers and ReLU have (depth, decodability by layer, modularity, norms) is None for other modules.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from constructions import ConstructedMLP
from theory import Hyperteacher
from theory.arithmetic import Array
from theory.domains import Tasks
from theory.encodings import Encoding, Identity
from theory.families.family import Family
from theory.splits import Pool, Split
from verify import baselines
from verify.checking import CheckResult, check
from verify.decoding import recovery
from verify.matching import match
from verify.metrics import Predict, evaluate
from verify.modularity import modularity
from verify.networks import stack_of, weights_of
from verify.norms import norms
from verify.probing import PROTOCOLS, STAGES, TARGETS, decodability

Row = dict[str, Any]
PARTS = ("train", "held_out")
#: What every row has.
COMPLETE = (
    "network", "kind", "neurons", "parameters", "depth", "widths", "guaranteed", "rounding", "certified",
    "measured", "sup_train", "sup_held_out", "status", "reason", "train", "held_out", "train_by_hotness",
    "held_out_by_hotness", "train_worst_supports", "held_out_worst_supports", "decodability", "norms",
    "modularity", "matching", "recovery", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Measures:
    """How much is measured. tasks, samples: of the scores, for each part of the split. points: of each error search
    (0: none). probed: tasks that a probe is fitted on, and scored on. everything: all targets, protocols and stages of
    probes, modularity, matching and recovery of the task, instead of the weights alone.
    """

    tasks: int = 256
    samples: int = 32
    points: int = 1000
    probed: int = 1000
    everything: bool = False


def compare(
    family: Family,
    split: Split,
    networks: Mapping[str, nn.Module],
    encoding: Encoding | None = None,
    *,
    measures: Measures | None = None,
    seed: int = 0,
    device: str = "auto",
) -> list[Row]:
    """Measure each network on the split's training and held-out tasks; the two baselines come last.

    Constructed networks read z, the others ``encoding`` (default z itself). Deterministic from the seed. Raises
    ValueError, one line, for a network whose shapes do not fit.
    """
    measures = measures or Measures()
    if split.supports.modules != family.modules:
        raise ValueError(
            f"split: of {split.supports.modules} modules, the family has {family.modules}; make it of hers"
        )
    if encoding is not None and not hasattr(encoding, "width"):
        raise ValueError(f"encoding: {encoding!r} is none; make one, such as encodings.make('tokens', family)")
    if not isinstance(networks, Mapping):
        raise ValueError("networks: give a dict {name: network}")
    found = [measure(family, split, name, net, encoding, measures, seed, device) for name, net in networks.items()]
    return found + baseline_rows(family, split, measures, seed)


class Encoded(nn.Module):
    """A network on rows [encoding, x] as a function of (x, z), each (batch, width)."""

    def __init__(self, net: nn.Module, encoding: Encoding) -> None:
        super().__init__()
        self.net, self.encoding = net, encoding

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """(batch, inputs), (batch, M) -> (batch, outputs)."""
        result: torch.Tensor = self.net(torch.cat([self.encoding(z), x], dim=-1))
        return result


def measure(
    family: Family,
    split: Split,
    name: str,
    net: nn.Module,
    encoding: Encoding | None,
    measures: Measures,
    seed: int,
    device: str,
) -> Row:
    """The row of one network, measured in evaluation mode."""
    _require_fit(family, name, net, encoding)
    modes = {module: module.training for module in net.modules()}
    try:
        return _measure(family, split, name, net.eval(), encoding, measures, seed, device)
    finally:
        for module, mode in modes.items():
            module.training = mode


def _measure(
    family: Family, split: Split, name: str, net: nn.Module, encoding: Encoding | None, measures: Measures, seed: int,
    device: str,
) -> Row:  # fmt: skip
    started = time.perf_counter()
    constructed = isinstance(net, ConstructedMLP)
    shown = None if constructed or isinstance(encoding, Identity) else encoding
    row: Row = {"network": name, "kind": "constructed" if constructed else "trained"} | _size(net)
    as_function = net if constructed else nn.Sequential(net) if shown is None else Encoded(net, shown)
    row |= _bounds(family, split, as_function, shown, measures, seed, device)
    predict = predictor(net, shown, seed)
    row |= _scores(family, split, predict, measures, seed)
    if stack_of(net) is not None:
        row |= _layers(family, split, net, shown, measures, seed)
    grid = isinstance(family.z_domain, Tasks)
    if measures.everything and grid and not (shown is not None and shown.random):
        generator = _stream(seed, 5)
        row["recovery"] = recovery(predict, family, generator, supports_only=True).as_dict()
    return _complete(row | {"seconds": time.perf_counter() - started})


def _require_fit(family: Family, name: str, net: Any, encoding: Encoding | None) -> None:
    """ValueError, one line, for what is no network, or one that does not take rows [encoding, x]."""
    if not isinstance(net, nn.Module):
        hint = "; give its .network" if hasattr(net, "network") else ""
        raise ValueError(f"{name}: a {type(net).__name__} is no torch module{hint}")
    stack = stack_of(net)
    if stack is not None and not isinstance(net, ConstructedMLP):
        wide = (family.z_domain.size if encoding is None else encoding.width) + family.inputs
        takes = weights_of(stack[0][0])[0].shape[1]
        if takes != wide:
            raise ValueError(f"{name}: takes rows of length {takes}, the encoding and x have length {wide}")


def baseline_rows(family: Family, split: Split, measures: Measures, seed: int) -> list[Row]:
    """Scores of the predictor that is blind to z, and of the nearest training support."""
    found = []
    for name, make in (("blind to z", baselines.blind), ("nearest support", baselines.nearest)):
        started = time.perf_counter()
        row = {"network": name, "kind": "baseline", "status": "-"}
        row |= _scores(family, split, make(family, split.train, _stream(seed, 4)), measures, seed)
        found.append(_complete(row | {"seconds": time.perf_counter() - started}))
    return found


def predictor(net: nn.Module, encoding: Encoding | None, seed: int) -> Predict:
    """The network as a function of x (tasks, samples, inputs) and z (tasks, M), in its own dtype."""
    floats = [t.dtype for t in net.parameters() if t.is_floating_point()]
    dtype = floats[0] if floats else torch.float32
    generator = _stream(seed, 3)

    def predict(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        x, z = x.to(dtype), z.to(dtype)
        if isinstance(net, ConstructedMLP):
            return net(x, z)
        shown = z if encoding is None else encoding(z, generator)
        rows = torch.cat([shown.unsqueeze(1).expand(-1, x.shape[1], -1), x], dim=-1)
        values: torch.Tensor = net(rows.flatten(0, 1))
        return values.view(*x.shape[:2], -1)

    return predict


def _size(net: nn.Module) -> Row:
    stack = stack_of(net)
    if isinstance(net, ConstructedMLP):
        return {
            "neurons": net.neurons,
            "parameters": net.size.parameters,
            "depth": net.depth,
            "widths": list(net.widths),
        }
    parameters = sum(p.numel() for p in net.parameters())
    if stack is None:
        return {"neurons": None, "parameters": parameters, "depth": None, "widths": None}
    widths = [weights_of(module)[0].shape[0] for module, _ in stack[:-1]]
    return {"neurons": sum(widths), "parameters": parameters, "depth": len(widths), "widths": widths}


def _bounds(
    family: Family, split: Split, net: nn.Module, encoding: Encoding | None, measures: Measures, seed: int, device: str
) -> Row:
    """What is guaranteed, and the largest errors found by the search of ``check``: on all tasks, and on each part."""
    row: Row = dict.fromkeys(("guaranteed", "rounding", "certified", "measured", "sup_train", "sup_held_out"))
    row["status"] = "unknown"
    if encoding is not None and encoding.random:
        return row | {"reason": f"no search: the {encoding.name} encoding differs from call to call"}
    if not measures.points:
        return row | {"reason": "no search was asked for"}

    def searched(pool: Pool | None) -> CheckResult:
        return check(family, net, points=measures.points, seed=seed, device=device, tasks=pool)

    parts = {name: searched(getattr(split, name)) for name in PARTS}
    # Tasks beyond the family's own (hotness above K) are outside what a bound speaks of.
    whole = searched(None)
    inside = [whole, *(parts.values() if split.supports.active <= family.active else ())]
    worst = max(inside, key=lambda found: (found.status == "violated", found.measured))
    whole = worst if worst.status == "violated" else whole
    return row | {
        "guaranteed": whole.guaranteed,
        "rounding": whole.rounding,
        "measured": max(found.measured for found in inside),
        "sup_train": parts["train"].measured,
        "sup_held_out": parts["held_out"].measured,
        "status": whole.status,
        "reason": whole.reason,
    }


def _scores(family: Family, split: Split, predict: Predict, measures: Measures, seed: int) -> Row:
    row: Row = {}
    for number, part in enumerate(PARTS):
        generator = _stream(seed, 0, number)
        z = draw(family, getattr(split, part), measures.tasks, generator)
        found = evaluate(predict, family, z, measures.samples, generator)
        row[part] = found.scores.as_dict()
        row[f"{part}_by_hotness"] = {str(k): scores.as_dict() for k, scores in found.by_hotness().items()}
        if measures.everything:
            worst = sorted(found.by_support().items(), key=lambda item: -item[1].rms)[:5]
            row[f"{part}_worst_supports"] = [{"modules": list(s)} | scores.as_dict() for s, scores in worst]
    return row


def _layers(
    family: Family, split: Split, net: nn.Module, encoding: Encoding | None, measures: Measures, seed: int
) -> Row:
    generator = _stream(seed, 1)
    z_fit, z_held_out = (draw(family, getattr(split, part), measures.probed, generator) for part in PARTS)
    kinds: dict[str, Any] = {}
    if measures.everything:
        targets = TARGETS if isinstance(family, Hyperteacher) else TARGETS[:2]
        kinds = {"targets": targets, "protocols": PROTOCOLS, "stages": STAGES}
    probes = decodability(net, family, z_fit, z_held_out, encoding, seed=seed, **kinds)
    shown = torch.from_numpy(z_held_out.astype(np.float32))
    shown = shown if encoding is None else encoding(shown, generator)
    x = torch.from_numpy(family.x_domain.sample(len(shown), generator).astype(np.float32))
    row: Row = {
        "decodability": [probe.as_dict() for probe in probes],
        "norms": norms(net, torch.cat([shown, x], dim=1), shown.shape[1]).as_dict(),
    }
    if family.active < family.modules:
        row["modularity"] = [layer.as_dict() for layer in modularity(net, family, encoding, seed=seed)]
    if isinstance(family, Hyperteacher):
        row["matching"] = [found.as_dict() for found in match(net, family, z_held_out[:200], encoding, seed=seed)]
    return row


def draw(family: Family, pool: Pool, n: int, generator: np.random.Generator) -> Array:
    """n tasks z (n, M) on supports of the pool."""
    assert isinstance(family.z_domain, Tasks)
    return family.z_domain.weights(pool.sample(n, generator), generator)


def _complete(row: Row) -> Row:
    """The same keys in every row; numbers that are not finite become None."""
    return {key: _finite(row.get(key)) for key in COMPLETE}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
