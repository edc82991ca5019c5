"""Domains: where the vectors of a circuit may lie, and the largest value of a linear form there.

A node of a circuit carries more than an interval. ``Tasks`` knows that at most K of the M weights are on,
``OneHot`` that exactly one entry of each group is; both turn a sum over all modules into a sum over those that
can meet. The single question everything else asks is ``worst``: given what each coordinate may contribute when
it is on, how much can be on together?

Bounds are float64 and rounded outwards, so that a gate built on them is exact although they are not tight.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from theory.arithmetic import Array, as_exact, down, outward, up
from theory.supports import Supports

KHOT = (Fraction(1),)

#: A float stands for the level that it is this close to, relatively: float32 keeps 6e-8.
NEAR = 1e-6


class Domain:
    """A set of vectors of length ``size`` inside the box [``lower``, ``upper``] (float64, rounded outwards)."""

    size: int
    lower: Array
    upper: Array

    #: True where a coordinate that is 0 switches off everything gated by it (it can own neurons).
    switches: bool = False

    def worst(self, contributions: sp.csr_matrix) -> Array:
        """Upper bound of the sum of what can be on together.

        ``contributions`` (rows, size), sparse and >= 0: what coordinate i adds when it is on. Returns (rows,).
        """
        return up(np.asarray(contributions.sum(axis=1)).ravel(), contributions.shape[1])

    def linear_range(self, matrix: Array | sp.spmatrix) -> tuple[Array, Array]:
        """Bounds (lower, upper), each (width,), of v @ matrix for v in the domain; matrix is (size, width)."""
        matrix = sp.csr_matrix(matrix).T.tocsr()
        low, high = _scaled_range(matrix, self.lower, self.upper)
        return -self.worst(_positive(-low)), self.worst(_positive(high))

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        """n random points, (n, size) float64."""
        raise NotImplementedError

    def corners(self, n: int, generator: np.random.Generator) -> Array:
        """n random extreme points, (n, size) float64."""
        raise NotImplementedError

    def exact(self, points: Array) -> Array:
        """The exact rationals that float points stand for, same shape, of Fraction."""
        return as_exact(points)

    def contains(self, points: Array) -> Array:
        """Which of the points (n, size) lie in the domain, (n,) of bool."""
        points = np.asarray(points, dtype=float)
        return np.all((points >= self.lower) & (points <= self.upper), axis=1)


@dataclass(frozen=True, eq=False)
class Box(Domain):
    """The product of the intervals [lower_i, upper_i]."""

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        if np.shape(self.lower) != np.shape(self.upper) or np.ndim(self.lower) != 1:
            raise ValueError(f"box: bounds of shapes {np.shape(self.lower)} and {np.shape(self.upper)}, need (size,)")
        if not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all()):
            raise ValueError("box: the bounds must be finite")
        if np.any(self.lower > self.upper):
            raise ValueError("box: a lower bound lies above the upper one; give (lower, upper) in that order")

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.lower)

    def linear_range(self, matrix: Array | sp.spmatrix) -> tuple[Array, Array]:
        """As in Domain, without clipping at 0: every coordinate always contributes."""
        low, high = _scaled_range(sp.csr_matrix(matrix).T.tocsr(), self.lower, self.upper)
        return down_sum(low), -down_sum(-high)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        points = self.lower + (self.upper - self.lower) * generator.random((n, self.size))
        return np.clip(points, self.lower, self.upper)

    def corners(self, n: int, generator: np.random.Generator) -> Array:
        return np.where(generator.random((n, self.size)) < 0.5, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class Tasks(Domain):
    """Module weights: at most ``active`` of ``modules`` are not 0, and those lie on ``levels`` or in ``interval``.

    ``levels`` are exact rationals 0 < s_1 < .. < s_L; ``interval`` is (lo, hi) with 0 < lo < hi. Exactly one of
    the two is given. Floats near a level stand for that level (``exact``).
    """

    modules: int
    active: int
    levels: tuple[Fraction, ...] | None = KHOT
    interval: tuple[Fraction, Fraction] | None = None

    switches = True

    def __post_init__(self) -> None:
        Supports(self.modules, self.active)  # refuses impossible sizes in its own words
        if (self.levels is None) == (self.interval is None):
            raise ValueError("tasks: give either levels or an interval of weights")
        values = self.levels if self.levels is not None else self.interval
        assert values is not None
        if not values or values[0] <= 0 or any(b <= a for a, b in pairwise(values)):
            raise ValueError(f"levels must increase and lie above 0, got {[float(v) for v in values]}")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.modules

    @property
    def values(self) -> tuple[Fraction, ...]:
        """The levels, or the two ends of the interval."""
        return self.levels if self.levels is not None else self.interval  # type: ignore[return-value]

    @cached_property
    def lower(self) -> Array:  # type: ignore[override]
        return np.zeros(self.modules)

    @cached_property
    def upper(self) -> Array:  # type: ignore[override]
        return np.full(self.modules, outward(self.values[-1])[1])

    @property
    def supports(self) -> Supports:
        """The supports of the tasks, unranked on demand."""
        return Supports(self.modules, self.active)

    def worst(self, contributions: sp.csr_matrix) -> Array:
        """Sum of the K largest contributions of each row: no more modules act together."""
        return largest_sums(contributions, self.active)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        return self.weights(self.supports.sample(n, generator), generator)

    def corners(self, n: int, generator: np.random.Generator) -> Array:
        return self.weights(self.supports.sample(n, generator), generator, extreme=True)

    def weights(self, supports: Array, generator: np.random.Generator, extreme: bool = False) -> Array:
        """Random weights (n, modules) on the given supports (n, active), padded with -1; ``extreme``: ends only."""
        values = np.array([float(v) for v in self.values])
        shape = supports.shape
        if self.levels is not None or extreme:
            picks = [0, len(values) - 1] if extreme else range(len(values))
            drawn = values[generator.choice(np.asarray(picks), shape)]
        else:
            drawn = np.clip(values[0] + (values[1] - values[0]) * generator.random(shape), values[0], values[1])
        z = np.zeros((shape[0], self.modules))
        row, place = np.nonzero(supports >= 0)
        z[row, supports[row, place]] = drawn[row, place]
        return z

    def exact(self, points: Array) -> Array:
        """Each positive weight becomes the nearest level (float levels need not be representable)."""
        if self.levels is None:
            return as_exact(points)
        floats = np.array([0.0] + [float(v) for v in self.levels])
        exact = np.array([Fraction(0), *self.levels], dtype=object)
        points = np.asarray(points, dtype=float)
        distance = np.abs(points[..., None] - floats)
        far = distance.min(axis=-1) > NEAR * np.abs(points)
        if far.any():
            known = ", ".join(f"{v:g}" for v in floats[:9]) + (", .." if len(floats) > 9 else "")
            raise ValueError(f"z: {points[far].flat[0]:g} is near no level; the levels are {known}")
        return exact[distance.argmin(axis=-1)]

    def contains(self, points: Array) -> Array:
        points = np.asarray(points, dtype=float)
        on = points != 0
        values = np.array([float(v) for v in self.values])
        if self.levels is not None:
            good = np.isclose(points[..., None], values, rtol=NEAR, atol=0).any(axis=-1)
        else:
            good = (points >= values[0]) & (points <= values[1])
        return (on.sum(axis=1) <= self.active) & np.all(good | ~on, axis=1)

    def representation_error(self, unit: float) -> float:
        """Largest distance of a level from the float that is fed in its place (unit roundoff ``unit``)."""
        if self.levels is None:
            return 0.0
        kind = np.float32 if unit > 1e-10 else np.float64
        return max(outward(abs(Fraction(float(kind(float(v)))) - v))[1] for v in self.levels)


@dataclass(frozen=True, eq=False)
class OneHot(Domain):
    """Groups of ``width`` entries each, exactly one of each group is 1 and the others are 0."""

    groups: int
    width: int

    switches = True

    def __post_init__(self) -> None:
        if self.groups < 1 or self.width < 1:
            raise ValueError(f"one-hot groups: {self.groups} groups of {self.width} entries, need at least 1 of each")

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.groups * self.width

    @cached_property
    def lower(self) -> Array:  # type: ignore[override]
        return np.zeros(self.size)

    @cached_property
    def upper(self) -> Array:  # type: ignore[override]
        return np.ones(self.size)

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """One level: the entries are 0 or 1."""
        return KHOT

    def worst(self, contributions: sp.csr_matrix) -> Array:
        """Sum over the groups of the largest contribution in each."""
        rows = contributions.shape[0]
        coo = contributions.tocoo()
        best = np.zeros(rows * self.groups)
        np.maximum.at(best, coo.row.astype(np.int64) * self.groups + coo.col // self.width, coo.data)
        return up(best.reshape(rows, self.groups).sum(axis=1), self.groups)

    def linear_range(self, matrix: Array | sp.spmatrix) -> tuple[Array, Array]:
        """Exactly one entry of each group is on, so a group can also force a value away from 0."""
        dense = np.asarray(sp.csr_matrix(matrix).todense()).reshape(self.groups, self.width, -1)
        size = np.abs(dense).max(axis=1).sum(axis=0)
        low, high = dense.min(axis=1).sum(axis=0), dense.max(axis=1).sum(axis=0)
        return down(low, self.groups, size), up(high, self.groups, size)

    def sample(self, n: int, generator: np.random.Generator) -> Array:
        picks = generator.integers(self.width, size=(n, self.groups))
        z = np.zeros((n, self.groups, self.width))
        np.put_along_axis(z, picks[..., None], 1.0, axis=2)
        return z.reshape(n, self.size)

    corners = sample

    def contains(self, points: Array) -> Array:
        grouped = np.asarray(points, dtype=float).reshape(-1, self.groups, self.width)
        return np.all(((grouped == 0) | (grouped == 1)).all(axis=2) & (grouped.sum(axis=2) == 1), axis=1)


def largest_sums(values: sp.csr_matrix, count: int) -> Array:
    """Sum of the ``count`` largest entries of each row of a sparse matrix (rows, n) >= 0, rounded up; (rows,)."""
    values = values.tocsr()
    rows, width = values.shape
    if width > count and values.nnz >= 0.25 * rows * width:  # nearly full: a partition is faster than sorting
        largest = np.partition(values.toarray(), width - count, axis=1)[:, width - count :]
        return up(largest.sum(axis=1), count + 1)
    lengths = np.diff(values.indptr)
    row = np.repeat(np.arange(rows), lengths)
    data = values.data
    if lengths.size and lengths.max() > count:
        order = np.lexsort((-data, row))
        place = np.arange(len(data)) - np.repeat(values.indptr[:-1], lengths)
        row, data = row[order][place < count], data[order][place < count]
    return up(np.bincount(row, weights=data, minlength=rows), count + 1)


def down_sum(matrix: sp.csr_matrix) -> Array:
    """Row sums of a sparse matrix of lower bounds, rounded down; (rows,). A single addend is not rounded at all."""
    total = np.asarray(matrix.sum(axis=1)).ravel()
    lengths = np.diff(matrix.indptr)
    size = np.asarray(abs(matrix).sum(axis=1)).ravel() * (lengths > 1)
    return down(total, int(lengths.max(initial=0)) + 1, size)


def _positive(matrix: sp.csr_matrix) -> sp.csr_matrix:
    return matrix.maximum(0).tocsr()


def _scaled_range(rows: sp.csr_matrix, lower: Array, upper: Array) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Entrywise bounds of rows[h, i] * v_i for lower_i <= v_i <= upper_i, as two sparse matrices (one rounding)."""
    first, second = rows.data * lower[rows.indices], rows.data * upper[rows.indices]
    low, high = np.minimum(first, second), np.maximum(first, second)
    inexact = np.frexp(np.abs(rows.data))[0] != 0.5  # a power of two multiplies without rounding
    low = np.where(inexact & (low != 0), np.nextafter(low, -np.inf), low)
    high = np.where(inexact & (high != 0), np.nextafter(high, np.inf), high)
    return (
        sp.csr_matrix((low, rows.indices, rows.indptr), shape=rows.shape),
        sp.csr_matrix((high, rows.indices, rows.indptr), shape=rows.shape),
    )
