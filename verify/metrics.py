"""How well values follow a target: both R2 of the paper's experiments, RMS, the largest error; by hotness, by support.

    R2 (pooled)   1 - sum of squared errors / sum of squares about the mean of each task and output
    R2 (ratios)   the paper's: the mean over tasks and outputs of 1 - mean squared error / variance over the samples

The second is an average of ratios, which explodes where an output hardly varies. A pair of task and output that is
constant over its samples has no ratio: its error counts in the pooled R2, and how many there are is part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from theory.arithmetic import Array
from theory.families.family import Family

#: The target of a task and output is constant if it varies by less than this share of its size (float32: 6e-8).
CONSTANT = 1e-6
#: Bytes of one block of values.
MEMORY = 2**27


@dataclass(frozen=True)
class Scores:
    """Of values against a target, measured on these points. None: not defined (nothing varies).

    r2_pooled, r2_ratios: see the module. rms: root of the mean squared error. largest: the largest error met on these
    points (no search). pairs: of task and output; constant: those without a ratio, because the target does not vary.
    """

    r2_pooled: float | None
    r2_ratios: float | None
    rms: float
    largest: float
    pairs: int
    constant: int

    def as_dict(self) -> dict[str, Any]:
        """Plain types for a table."""
        return asdict(self)


class Sums:
    """What scores are made of, for each task and output: added up block by block, scored in any grouping."""

    def __init__(self) -> None:
        self.parts: list[
            tuple[Array, Array, Array, Array]
        ] = []  # squared error, variation, size, largest; (tasks, outputs)
        self.samples = 0

    def add(self, values: torch.Tensor, target: torch.Tensor) -> None:
        """values, target (tasks, samples, outputs). ValueError for other shapes, and for values that are not finite."""
        if values.shape != target.shape or target.dim() != 3 or 0 in target.shape:
            raise ValueError(
                f"values {tuple(values.shape)}, target {tuple(target.shape)}: need the same (tasks, samples, outputs)"
            )
        if self.samples not in (0, target.shape[1]):
            raise ValueError(f"samples: {target.shape[1]} to a task after {self.samples}; need the same in every block")
        values, target = values.double(), target.double()
        if not (bool(torch.isfinite(values).all()) and bool(torch.isfinite(target).all())):
            raise ValueError("values: some are NaN or infinite; their R2 does not exist")
        self.samples = target.shape[1]
        error = values - target
        spread = target - target.mean(dim=1, keepdim=True)
        found = (error.square().sum(1), spread.square().sum(1), target.square().sum(1), error.abs().amax(1))
        self.parts.append(tuple(part.cpu().numpy() for part in found))  # type: ignore[arg-type]

    def scores(self, tasks: Array | None = None) -> Scores:
        """Over all tasks, or those chosen (indices or bools)."""
        if not self.parts:
            raise ValueError("values: none were given; need at least one task")
        chosen = slice(None) if tasks is None else tasks
        error, spread, size, largest = (np.concatenate(column)[chosen] for column in zip(*self.parts, strict=True))
        varies = spread > CONSTANT**2 * size
        pooled = 1 - error.sum() / spread.sum() if varies.any() else None
        ratios = (1 - error[varies] / spread[varies]).mean() if varies.any() else None
        return Scores(
            r2_pooled=None if pooled is None else float(pooled),
            r2_ratios=None if ratios is None else float(ratios),
            rms=float(np.sqrt(error.sum() / (error.size * self.samples))),
            largest=float(largest.max()),
            pairs=error.size,
            constant=int((~varies).sum()),
        )


def scores(values: torch.Tensor, target: torch.Tensor) -> Scores:
    """Scores of values against a target, both (tasks, samples, outputs). Raises ValueError as ``Sums.add``."""
    sums = Sums()
    sums.add(values, target)
    return sums.scores()


#: From x (tasks, samples, inputs) and z (tasks, M) to values (tasks, samples, outputs).
Predict = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values against the target on tasks z (tasks, M), by hotness and by support."""

    z: Array
    sums: Sums

    @property
    def scores(self) -> Scores:
        """Over all tasks."""
        return self.sums.scores()

    def by_hotness(self) -> dict[int, Scores]:
        """For each number of active modules among the tasks."""
        hotness = (self.z != 0).sum(axis=1)
        return {int(k): self.sums.scores(hotness == k) for k in np.unique(hotness)}

    def by_support(self) -> dict[tuple[int, ...], Scores]:
        """For each support among the tasks."""
        patterns, which = np.unique(self.z != 0, axis=0, return_inverse=True)
        order = np.argsort(which, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(which))[:-1])
        found = {}
        for pattern, group in zip(patterns, groups, strict=True):
            found[tuple(int(m) for m in np.flatnonzero(pattern))] = self.sums.scores(group)
        return found


@torch.no_grad()
def evaluate(
    predict: Predict,
    family: Family,
    z: Array,
    samples: int,
    generator: np.random.Generator,
    dtype: torch.dtype = torch.float32,
) -> Evaluation:
    """Values of ``predict`` against the family's on tasks z (tasks, M), with fresh x for every task.

    x and z are numbers of the dtype; the target is computed in float64 at the same point. In blocks of MEMORY bytes.
    """
    sums = Sums()
    for x, block in blocks(family, z, samples, generator):
        x_t, z_t = torch.from_numpy(x).to(dtype), torch.from_numpy(block)
        sums.add(predict(x_t, z_t.to(dtype)), family(x_t.double(), z_t))
    return Evaluation(z, sums)


def blocks(family: Family, z: Array, samples: int, generator: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """x (tasks, samples, inputs) in float32 and z (tasks, M), block by block."""
    if samples < 2:
        raise ValueError(f"samples: {samples} to a task; R2 needs at least 2")
    size = max(1, MEMORY // (8 * samples * (family.inputs + 4 * family.outputs)))
    for start in range(0, len(z), size):
        block = z[start : start + size]
        x = family.x_domain.sample(len(block) * samples, generator).astype(np.float32)
        yield x.reshape(len(block), samples, -1), block
