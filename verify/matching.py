"""Which hidden neuron stands for which unit of the task network: aligned by permutation and positive scale.

A unit u_h(x, z) = ReLU(..)_h of the hyperteacher is matched with the neuron that follows it best: the assignment with
the largest sum of squared (positive) correlations. Upper reference: how well ALL neurons of the layer explain the
unit linearly. Chance: the same assignment when the points of the units are permuted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from theory import Hyperteacher
from theory.arithmetic import Array
from theory.circuit import Circuit, ReLU
from theory.encodings import Encoding
from theory.evaluators import evaluate
from verify.activations import activations

#: Samples to a task.
SAMPLES = 8


@dataclass(frozen=True, eq=False)
class Match:
    """A layer of a network against a modulated layer of the task network, on held-out points.

    neuron (units,): matched neuron, -1 where there are fewer neurons than units. r2 (units,): squared correlation with
    it (0 where negative): the R2 of the neuron after scale and offset. linear: R2 of all neurons together, pooled over
    the units. chance: the mean of r2 for permuted points.
    """

    layer: int
    units_of: int
    neuron: Array
    r2: Array
    linear: float | None
    chance: float

    @property
    def mean(self) -> float:
        """Mean R2 of the matched neurons."""
        return float(self.r2.mean())

    def as_dict(self) -> dict[str, Any]:
        """Plain types for a table."""
        return {"layer": self.layer, "units_of": self.units_of, "r2": self.mean} | {
            "linear": self.linear,
            "chance": self.chance,
            "neuron": self.neuron.tolist(),
            "r2_of_unit": self.r2.tolist(),
        }


def match(
    net: nn.Module, family: Hyperteacher, z: Array, encoding: Encoding | None = None, *, seed: int = 0
) -> list[Match]:
    """Every hidden layer of ``net`` (on rows [encoding, x]) against every modulated layer, on tasks z (tasks, M).

    Fresh x for each task. Raises ValueError for families without units, and networks that are more than linear layers
    and ReLU.
    """
    if not isinstance(family, Hyperteacher):
        raise ValueError("match: this family has no units; needs a hyperteacher")
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    x = family.x_domain.sample(len(z) * SAMPLES, generator).reshape(len(z), SAMPLES, -1)
    z_t, x_t = (torch.from_numpy(a.astype(np.float32)) for a in (z, x))
    shown = z_t if encoding is None else encoding(z_t, generator)
    rows = torch.cat([shown.unsqueeze(1).expand(-1, SAMPLES, -1), x_t], dim=-1).flatten(0, 1)
    found = []
    for units_of, unit in enumerate(units(family, x_t.double(), z_t.double())):
        for layer, values in enumerate(activations(net, rows)[:-1]):
            pair = values.post.double().numpy(), unit.flatten(0, 1).numpy()
            found.append(Match(layer, units_of, *assign(*pair), *_references(*pair, generator)))
    return found


def units(family: Hyperteacher, x: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
    """The task network's units after ReLU, (tasks, samples, width) for each modulated layer, as ``family(x, z)``."""
    circuit = family.circuit
    return [evaluate(Circuit(circuit.x, circuit.z, node), x, z) for node in circuit.nodes if isinstance(node, ReLU)]


def assign(values: Array, wanted: Array) -> tuple[Array, Array]:
    """The best assignment of neurons (points, n) to units (points, u): neuron (u,) or -1, and R2 (u,)."""
    squared = np.maximum(_correlation(wanted, values), 0) ** 2
    unit, neuron = linear_sum_assignment(squared, maximize=True)
    chosen = np.full(wanted.shape[1], -1)
    chosen[unit] = neuron
    r2 = np.zeros(wanted.shape[1])
    r2[unit] = squared[unit, neuron]
    return chosen, r2


def _correlation(a: Array, b: Array) -> Array:
    """Pearson's (columns of a, columns of b); 0 where one does not vary."""
    standard = []
    for values in (a, b):
        centred = values - values.mean(axis=0)
        size = np.sqrt((centred**2).sum(axis=0))
        varies = size > 1e-9 * np.sqrt(len(values)) * np.abs(values).max(axis=0, initial=1e-300)
        standard.append(np.where(varies, centred / np.where(varies, size, 1.0), 0.0))
    return standard[0].T @ standard[1]


def _references(values: Array, wanted: Array, generator: np.random.Generator) -> tuple[float | None, float]:
    """R2 of the best linear map from all neurons (fitted on one half, scored on the other), and R2 by chance."""
    half = len(values) // 2
    features = np.concatenate([values, np.ones((len(values), 1))], axis=1)
    fitted, *_ = np.linalg.lstsq(features[:half], wanted[:half], rcond=1e-9)
    left = ((wanted[half:] - features[half:] @ fitted) ** 2).sum()
    spread = ((wanted[half:] - wanted[half:].mean(axis=0)) ** 2).sum()
    chance = assign(values, wanted[generator.permutation(len(wanted))])[1].mean()
    return (float(1 - left / spread) if spread > 0 else None), float(chance)
