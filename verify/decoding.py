"""Recovering the task from a network (claim C9): both sides of the bound, measured on the same points.

Let x be uniform on finitely many points, the same for all tasks, and D the smallest distance of two tasks, D^2 = E_x
|f_z - f_z'|^2. The decoder names the task whose function is nearest to the network's. Where |net - f_z| < D/2 it is
right, by the triangle inequality, so by Markov's it fails on at most a share 4 MSE / D^2 of the tasks: MSE is E |net
- f_z|^2, summed over outputs. Likewise 2 delta / Delta for agreement within a tolerance t: delta = P(|net - f_z| > t),
Delta the smallest P(|f_z - f_z'| > 2t), since a network within t of both is a proof that they are within 2t. Both hold
for THESE points and tasks whatever the network is: a measured failure above the bound would be an error in this file.
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
#: Further points x, on which the two nearest tasks are measured again.
FRESH = 4096
#: Values are equal if they differ by at most this share of their size.
EQUAL = 1e-5


@dataclass(frozen=True)
class Recovery:
    """tasks: among which the decoder chooses; every: whether these are all tasks of the family (else D is only an
    upper estimate of the family's own). square: D^2 at these points, None for a single task. square_box, square_95:
    what the two nearest tasks are apart over the whole box, from fresh points, and the half-width of its 95 %
    interval; an upper estimate of the box's own D^2, whose nearest tasks may be others. mse: of the network, summed
    over outputs. bound: 4 mse / D^2, at most 1 (then it says nothing). beyond: share of tasks with |net - f_z| >= D/2,
    between the other two. failures: share of tasks that the decoder gets wrong.
    """

    tasks: int
    every: bool
    points: int
    square: float | None
    square_box: float | None
    square_95: float | None
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

    supports_only: with all weights at their largest level. Raises ValueError for continuous weights, where D = 0,
    unless only their supports are asked for.
    """
    domain = family.z_domain
    if not isinstance(domain, Tasks) or (domain.levels is None and not supports_only):
        raise ValueError("decoding: needs tasks on a grid; continuous ones come as near one another as one likes")
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
    square = box = half = None
    if len(z) > 1:
        first, second, total = nearest_pair(wanted)
        square = total / points
        box, half = _apart(family, z_t[[first, second]], generator)
    errors = (found - wanted).square().sum(dim=1) / points
    mse = float(errors.mean())
    bound = 1.0 if not square else min(1.0, 4 * mse / square)
    beyond = 1.0 if not square else float((errors >= square / 4).double().mean())
    failures = float((nearest != torch.arange(len(z))).double().mean())
    return Recovery(len(z), every, points, square, box, half, mse, bound, beyond, failures)


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


def nearest_pair(rows: torch.Tensor) -> tuple[int, int, float]:
    """Numbers of the two different rows (m, d) that are nearest, over all pairs, and their squared distance; in blocks.

    As ``nearest_rows``: products give candidates, differences decide. Raises ValueError for a single row.
    """
    if len(rows) < 2:
        raise ValueError(f"rows: {len(rows)}; a pair needs at least 2")
    size = rows.square().sum(dim=1)
    best, step = (0, 1, torch.inf), max(1, ENTRIES // len(rows))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        rough = size[start : start + step, None] + size - 2 * part @ rows.T
        own = torch.arange(len(part))
        rough[own, start + own] = torch.inf
        near = rough.flatten().topk(min(16, rough.numel() - len(part)), largest=False).indices
        a, b = near // len(rows), near % len(rows)
        squares = (part[a] - rows[b]).square().sum(dim=1)
        at = int(squares.argmin())
        if float(squares[at]) < best[2]:
            best = int(a[at]) + start, int(b[at]), float(squares[at])
    first, second, square = best
    return min(first, second), max(first, second), square


def _apart(family: Family, pair: torch.Tensor, generator: np.random.Generator) -> tuple[float, float]:
    """E_x |f_z - f_z'|^2 of two tasks (2, M) over the box, from FRESH points, and the half-width of its 95 % interval.

    Fresh, since the pair was chosen for being near at the others.
    """
    x = torch.from_numpy(family.x_domain.sample(FRESH, generator))
    first, second = family(x.expand(2, -1, -1), pair)
    gap = (first - second).square().sum(dim=1)
    return float(gap.mean()), 1.96 * float(gap.std()) / FRESH**0.5


@dataclass(frozen=True)
class Agreement:
    """The same with agreement within ``tolerance``. delta: P(|net - f_z| > tolerance); smallest: Delta; bound: 2
    delta/Delta, at most 1.
    """

    tasks: int
    smallest: float
    delta: float
    bound: float
    failures: float
    tolerance: float


@torch.no_grad()
def agreement(values: torch.Tensor, target: torch.Tensor, tolerance: float | None = None) -> Agreement:
    """Of values (tasks, points, outputs) with the target's: the decoder names the task that disagrees at fewest points.

    tolerance: of an output, by default EQUAL of the largest target (what rounding may do). Ties go to the first task.
    Raises ValueError for other shapes, a single task, and a negative tolerance.
    """
    if values.shape != target.shape or target.dim() != 3 or len(target) < 2:
        raise ValueError(f"values {tuple(values.shape)}: need (tasks, points, outputs) as the target, at least 2 tasks")
    if tolerance is None:
        tolerance = EQUAL * float(target.abs().max())
    if not 0 <= tolerance < torch.inf:
        raise ValueError(f"tolerance: {tolerance} must be a finite number of at least 0")
    wrong = _disagreement(values, target, tolerance)
    pairs = _disagreement(target, target, 2 * tolerance)
    pairs.fill_diagonal_(torch.inf)
    delta, smallest = float(wrong.diagonal().mean()), float(pairs.min())
    failures = float((wrong.argmin(dim=1) != torch.arange(len(target))).double().mean())
    bound = 1.0 if smallest == 0 else min(1.0, 2 * delta / smallest)
    return Agreement(len(target), smallest, delta, bound, failures, tolerance)


def _disagreement(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Share of points at which a[i] and b[j] differ by more than the tolerance in some output: (n, m)."""
    found, step = [], max(1, ENTRIES // b.numel())
    for start in range(0, len(a), step):
        gap = (a[start : start + step, None] - b[None]).abs().amax(dim=3)
        found.append((gap > tolerance).double().mean(dim=2))
    return torch.cat(found)
