"""Recovering the task from a network (claim C9): both sides of the bound, measured on the same points.

Let x be uniform on finitely many points, the same for all tasks, and D the smallest distance of two tasks, D^2 = E_x
|f_z - f_z'|^2. The decoder names the task whose function is nearest to the network's. Where |net - f_z| < D/2 it is
right, by the triangle inequality, so by Markov's it fails on at most a share 4 MSE / D^2 of the tasks: MSE is E |net
- f_z|^2, summed over outputs. Likewise 2 delta / Delta for exact agreement. Both hold for THESE points and tasks
whatever the network is: a measured failure above the bound would be an error in this file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np
import torch

from theory.arithmetic import Array
from theory.domains import Tasks
from theory.families.family import Family
from verify.metrics import Predict

#: Tasks that are listed, points x, and entries of one block of distances.
TASKS, POINTS, ENTRIES = 4096, 64, 2**24
#: Values are equal if they differ by at most this share of their size.
EQUAL = 1e-5


@dataclass(frozen=True)
class Recovery:
    """tasks: among which the decoder chooses; every: whether these are all tasks of the family (else D is only an
    upper estimate of the family's own). square: D^2, None for a single task. mse: of the network, summed over
    outputs. bound: 4 mse / D^2, at most 1 (then it says nothing). beyond: share of tasks with |net - f_z| >= D/2,
    between the other two. failures: share of tasks that the decoder gets wrong.
    """

    tasks: int
    every: bool
    points: int
    square: float | None
    mse: float
    bound: float
    beyond: float
    failures: float

    def as_dict(self) -> dict[str, Any]:
        """Plain types for a table."""
        return asdict(self)


def list_tasks(
    family: Family, generator: np.random.Generator, limit: int = TASKS, supports_only: bool = False
) -> tuple[Array, bool]:
    """Tasks z (tasks, M), all different, and whether they are all there are; more than ``limit`` are drawn.

    supports_only: with all weights at their largest level. Raises ValueError for continuous weights, where no two tasks
    are far apart, unless only their supports are asked for.
    """
    domain = family.z_domain
    if not isinstance(domain, Tasks) or (domain.levels is None and not supports_only):
        raise ValueError("decoding: needs tasks on a grid; with continuous weights neither Delta nor D is above 0")
    values = domain.values[-1:] if supports_only else domain.values
    grid = Tasks(domain.modules, domain.active, levels=values)
    total = sum(comb(domain.modules, k) * len(values) ** k for k in range(1, domain.active + 1))
    if total > limit:
        z = np.unique(grid.sample(2 * limit, generator), axis=0)
        return generator.permutation(z)[:limit], False
    levels, found = np.array([float(v) for v in values]), []
    for support in domain.supports:
        corners = np.stack(np.meshgrid(*[levels] * len(support), indexing="ij"), axis=-1).reshape(-1, len(support))
        z = np.zeros((len(corners), domain.modules))
        z[:, list(support)] = corners
        found.append(z)
    return np.concatenate(found), True


@torch.no_grad()
def recovery(
    predict: Predict,
    family: Family,
    generator: np.random.Generator,
    *,
    limit: int = TASKS,
    points: int = POINTS,
    supports_only: bool = False,
) -> Recovery:
    """How often the nearest-task decoder fails on ``predict`` (x (tasks, points, inputs), z (tasks, M)), and its
    bound.
    """
    z, every = list_tasks(family, generator, limit, supports_only)
    x = torch.from_numpy(family.x_domain.sample(points, generator).astype(np.float32))
    z_t = torch.from_numpy(z)
    step = max(1, ENTRIES // (points * (family.inputs + family.outputs) * 4))
    target, values = [], []
    for start in range(0, len(z), step):
        block = z_t[start : start + step]
        shared = x.expand(len(block), -1, -1)
        target.append(family(shared.double(), block).flatten(1))
        values.append(predict(shared, block.float()).double().flatten(1))
    wanted, found = torch.cat(target), torch.cat(values)
    nearest, _ = nearest_rows(found, wanted)
    square = smallest_square(wanted) / points if len(z) > 1 else None
    errors = (found - wanted).square().sum(dim=1) / points
    mse = float(errors.mean())
    bound = 1.0 if not square else min(1.0, 4 * mse / square)
    beyond = 1.0 if not square else float((errors >= square / 4).double().mean())
    failures = float((nearest != torch.arange(len(z))).double().mean())
    return Recovery(len(z), every, points, square, mse, bound, beyond, failures)


def nearest_rows(values: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of ``values`` (n, d) the nearest of ``rows`` (m, d), its number and squared distance; in blocks.

    Products give candidates fast, but cancel for near ones: the closest few are compared again by their difference.
    """
    size = rows.square().sum(dim=1)
    step, few = max(1, ENTRIES // len(rows)), min(4, len(rows))
    chosen, squares = [], []
    for start in range(0, len(values), step):
        part = values[start : start + step]
        rough = size - 2 * part @ rows.T
        candidates = rough.topk(few, dim=1, largest=False).indices.sort(dim=1).values
        exact = (rows[candidates] - part.unsqueeze(1)).square().sum(dim=2)
        best = exact.argmin(dim=1, keepdim=True)
        chosen.append(candidates.gather(1, best)[:, 0])
        squares.append(exact.gather(1, best)[:, 0])
    return torch.cat(chosen), torch.cat(squares)


def smallest_square(rows: torch.Tensor) -> float:
    """Smallest squared distance of two different rows (m, d), over all pairs, in blocks."""
    size = rows.square().sum(dim=1)
    least, step = torch.inf, max(1, ENTRIES // len(rows))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        rough = size[start : start + step, None] + size - 2 * part @ rows.T
        own = torch.arange(len(part))
        rough[own, start + own] = torch.inf
        near = rough.flatten().topk(min(16, rough.numel() - len(part) or 1), largest=False).indices
        a, b = near // len(rows), near % len(rows)
        keep = a + start != b
        if bool(keep.any()):
            least = min(least, float((part[a[keep]] - rows[b[keep]]).square().sum(dim=1).min()))
    return float(least)


@dataclass(frozen=True)
class Agreement:
    """The same with exact agreement. delta: P(net != f_z); smallest: Delta; bound: 2 delta/Delta, at most 1."""

    tasks: int
    smallest: float
    delta: float
    bound: float
    failures: float


@torch.no_grad()
def agreement(values: torch.Tensor, target: torch.Tensor) -> Agreement:
    """Of values (tasks, points, outputs) with the target's: the decoder names the task that disagrees at fewest points.

    Ties go to the first task. Raises ValueError for other shapes and for a single task.
    """
    if values.shape != target.shape or target.dim() != 3 or len(target) < 2:
        raise ValueError(f"values {tuple(values.shape)}: need (tasks, points, outputs) as the target, at least 2 tasks")
    wrong = _disagreement(values, target)
    pairs = _disagreement(target, target)
    pairs.fill_diagonal_(torch.inf)
    delta, smallest = float(wrong.diagonal().mean()), float(pairs.min())
    failures = float((wrong.argmin(dim=1) != torch.arange(len(target))).double().mean())
    return Agreement(len(target), smallest, delta, 1.0 if smallest == 0 else min(1.0, 2 * delta / smallest), failures)


def _disagreement(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Share of points at which a[i] and b[j] differ (in some output): (n, m)."""
    tolerance = EQUAL * float(b.abs().max())
    found, step = [], max(1, ENTRIES // b.numel())
    for start in range(0, len(a), step):
        gap = (a[start : start + step, None] - b[None]).abs().amax(dim=3)
        found.append((gap > tolerance).double().mean(dim=2))
    return torch.cat(found)
