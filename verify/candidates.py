"""Candidates: where the search looks first. Every point lies in the domain, and in the network's number format.

Tasks come from the domain of z (all supports in turn when they are few, drawn ones otherwise), several x to a task:
random, corners, the centre with one coordinate at an end. A second kind of point is put on the worst points of gadgets,
found from the first layer alone: where one bundle of parallel hinges is at a knot and another is between two knots.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from theory.arithmetic import Array, outward
from theory.domains import Box, Domain, OneHot, Tasks
from theory.families.family import Family
from theory.splits.pools import Pool
from verify.networks import Network, weights_of

#: x to a task, where supports are few enough to allow it.
SAMPLES = 8
#: One point in so many is put on the hinges of the first layer.
HINGE_SHARE = 8
#: Above this many entries (directions x inputs) the hinges are not looked at.
HINGE_ENTRIES = 2**23
#: How often a point is moved, alternately to a knot and to a middle.
HINGE_MOVES = 4

#: Kinds of x and their shares: random, corner, one coordinate at an end, centre.
KINDS = (0.5, 0.3, 0.18, 0.02)


def free_range(domain: Domain, points: Array, kind: type) -> tuple[Array, Array]:
    """How far each coordinate may move with the support fixed: (low, high), each of the shape of ``points`` (n, size).

    The ends are numbers of the format ``kind`` inside the domain. What is discrete, or of an unknown domain, may not
    move: low = high = the point. Raises ValueError where the format has no number inside.
    """
    if isinstance(domain, Box):
        low, high = _inner(domain.lower, kind, up=True), _inner(domain.upper, kind, up=False)
        if np.any(low > high):
            at = int(np.argmax(low > high))
            ends = f"{domain.lower[at]} and {domain.upper[at]}"
            raise ValueError(f"x: no {np.dtype(kind).name} number lies between {ends}; use float64 or a wider box")
        return np.broadcast_to(low, points.shape), np.broadcast_to(high, points.shape)
    if isinstance(domain, Tasks) and domain.interval is not None:
        lo, hi = (outward(Fraction(v)) for v in domain.interval)
        least, most = _inner(np.array([lo[1]]), kind, up=True), _inner(np.array([hi[0]]), kind, up=False)
        if least > most:
            raise ValueError(f"z: no {np.dtype(kind).name} number lies in the interval of weights; use float64")
        return np.where(points != 0, least, points), np.where(points != 0, most, points)
    return points, points


def settle(points: Array, low: Array, high: Array, kind: type) -> Array:
    """The points rounded to the format and put back between low and high; discrete coordinates stay as they are."""
    return np.clip(points.astype(kind).astype(np.float64), low, high)


def _inner(values: Array, kind: type, up: bool) -> Array:
    near: Array = values.astype(kind)
    wrong = near.astype(np.float64) < values if up else near.astype(np.float64) > values
    towards = kind(np.inf if up else -np.inf)
    return np.where(wrong, np.nextafter(near, towards), near).astype(np.float64)


class Draws:
    """Blocks of points (x, z, task number): x (tasks, samples, inputs), z (tasks, width of z), float64.

    With a pool the tasks lie on its supports only. Deterministic from the generator, the number of points and the rows
    of a block.
    """

    def __init__(
        self, family: Family, network: Network, points: int, generator: np.random.Generator, pool: Pool | None = None
    ) -> None:
        if pool is not None and not isinstance(family.z_domain, Tasks):
            raise ValueError(f"pool: the tasks of {family.name} have no supports; leave it out")
        self.pool = pool
        self.family, self.generator = family, generator
        self.kind: type = np.float32 if network.dtype.itemsize == 4 else np.float64
        self.hinges = Hinges.of(network)
        self.near_hinges = points // HINGE_SHARE if self.hinges is not None else 0
        self.drawn = points - self.near_hinges
        self.count = _count(family.z_domain)
        self.few = pool is None and self.count is not None and self.count <= self.drawn
        self.samples = SAMPLES
        if self.few and self.count is not None:
            self.samples = max(1, min(SAMPLES, self.drawn // self.count))
        self._next = 0

    def blocks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """All points, at most ``rows`` at a time."""
        samples = min(self.samples, rows)
        left = self.drawn
        while left > 0:
            samples = min(samples, left)
            tasks = max(1, min(rows, left) // samples)
            z = self._tasks(tasks)
            yield self._inputs(tasks, samples), z
            left -= tasks * samples
        left = self.near_hinges
        while left > 0:
            tasks = min(rows, left)
            yield self._on_hinges(self._inputs(tasks, 1), self._tasks(tasks))
            left -= tasks

    def _tasks(self, n: int) -> Array:
        domain, generator = self.family.z_domain, self.generator
        extreme = generator.random(n) < 0.3
        if self.pool is not None:
            assert isinstance(domain, Tasks)
            supports = self.pool.sample(n, generator)
            ends = domain.weights(supports, generator, extreme=True)
            z = np.where(extreme[:, None], ends, domain.weights(supports, generator))
        elif not self.few:
            z = np.where(extreme[:, None], domain.corners(n, generator), domain.sample(n, generator))
        else:
            assert self.count is not None
            ranks = (self._next + np.arange(n)) % self.count
            self._next += n
            if isinstance(domain, Tasks):
                supports = domain.supports.unrank(ranks)
                ends = domain.weights(supports, generator, extreme=True)
                z = np.where(extreme[:, None], ends, domain.weights(supports, generator))
            else:
                assert isinstance(domain, OneHot)
                digits = ranks[:, None] // domain.width ** np.arange(domain.groups) % domain.width
                z = (digits[:, :, None] == np.arange(domain.width)).astype(float).reshape(n, -1)
        return settle(z, *free_range(domain, z, self.kind), self.kind)

    def _inputs(self, tasks: int, samples: int) -> Array:
        domain, generator = self.family.x_domain, self.generator
        n = tasks * samples
        x = domain.sample(n, generator)
        kind = generator.choice(len(KINDS), size=n, p=KINDS)
        ends = domain.corners(n, generator)
        x[kind == 1] = ends[kind == 1]
        if isinstance(domain, Box):
            single, centre = kind == 2, kind >= 2
            x[centre] = domain.lower + (domain.upper - domain.lower) / 2
            at = generator.integers(domain.size, size=n)[single]
            x[single, at] = ends[single, at]
        x = settle(x, *free_range(domain, x, self.kind), self.kind)
        return x.reshape(tasks, samples, -1)

    def _on_hinges(self, x: Array, z: Array) -> tuple[Array, Array]:
        assert self.hinges is not None
        z_range = free_range(self.family.z_domain, z, self.kind)
        x_range = free_range(self.family.x_domain, x[:, 0], self.kind)
        low, high = (np.concatenate(pair, axis=1) for pair in zip(z_range, x_range, strict=True))
        rows = np.concatenate([z, x[:, 0]], axis=1)
        for move in range(HINGE_MOVES):
            rows = np.clip(self.hinges.move(rows, low, high, move % 2 == 0, self.generator), low, high)
        rows = settle(rows, low, high, self.kind)
        return rows[:, None, z.shape[1] :], rows[:, : z.shape[1]]


def _count(domain: Domain) -> int | None:
    """Number of supports, where the domain has any."""
    if isinstance(domain, Tasks):
        return domain.supports.count
    return domain.width**domain.groups if isinstance(domain, OneHot) else None


class Hinges:
    """Bundles of parallel hinges of the first layer: directions (bundles, fan_in), and where along each they bend."""

    def __init__(self, directions: Array, places: list[Array]) -> None:
        self.directions = directions
        self.first = np.array([p[0] for p in places])
        self.last = np.array([p[-1] for p in places])
        self.starts = np.concatenate([[0], np.cumsum([len(p) for p in places])])
        self.knots = np.concatenate(places)

    @classmethod
    def of(cls, network: Network) -> Hinges | None:
        """From the weights of the first layer; None where there are no bundles, or they are too large to look at."""
        if network.stack is None or not network.finite or not network.stack[0][1]:
            return None
        stored, offsets = weights_of(network.stack[0][0])
        if stored.numel() > HINGE_ENTRIES:
            return None
        weight = stored.to_dense().cpu().double().numpy()
        bias = offsets.cpu().double().numpy()
        size = np.linalg.norm(weight, axis=1)
        weight, bias, size = weight[size > 0], bias[size > 0], size[size > 0]
        # Parallel neurons share a key: the product of their direction with one fixed random vector.
        lots = np.random.default_rng(0).standard_normal((2, weight.shape[1]))
        sign = np.where(weight @ lots[0] < 0, -1.0, 1.0)
        directions, place = weight * (sign / size)[:, None], -bias * sign / size
        key = directions @ lots[1]
        order = np.lexsort((place, key))
        tolerance = 1e-6 if network.dtype.itemsize == 4 else 1e-12
        cuts = np.flatnonzero(np.diff(key[order]) > tolerance) + 1
        bundles = [b for b in np.split(order, cuts) if len(b) > 1]
        places = [np.unique(place[b]) for b in bundles]
        kept = [(b[0], p) for b, p in zip(bundles, places, strict=True) if len(p) > 1]
        return cls(directions[[b for b, _ in kept]], [p for _, p in kept]) if kept else None

    def move(self, rows: Array, low: Array, high: Array, to_knot: bool, generator: np.random.Generator) -> Array:
        """Each row, moved as little as possible to the nearest knot (or middle) of one bundle that it lies within."""
        values = rows @ self.directions.T
        within = (values >= self.first) & (values <= self.last)
        chosen = np.where(within, generator.random(values.shape), -1.0).argmax(axis=1)
        value = values[np.arange(len(rows)), chosen]
        goal = np.array([self._goal(c, v, to_knot) for c, v in zip(chosen, value, strict=True)])
        free = self.directions[chosen] * (high > low)
        size = (free**2).sum(axis=1)
        able = within[np.arange(len(rows)), chosen] & (size > 0)
        step = np.where(able, (goal - value) / np.where(size > 0, size, 1.0), 0.0)
        return rows + step[:, None] * free

    def _goal(self, bundle: int, value: float, to_knot: bool) -> float:
        knots = self.knots[self.starts[bundle] : self.starts[bundle + 1]]
        if not to_knot:
            knots = (knots[1:] + knots[:-1]) / 2
        return float(knots[np.abs(knots - value).argmin()])
