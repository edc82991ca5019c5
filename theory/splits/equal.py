"""Splits from a list: every module equally often, and supports that were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.splits.counts import count_trained
from theory.splits.orders import CHOICE, ORDER, stream
from theory.splits.pools import Listed
from theory.splits.split import Split
from theory.supports import Supports

#: More supports than this are not listed (a few hundred MB), nor are masks of more modules than an integer has bits.
MOST, BITS = 2**23, 63


def equal(supports: Supports, fraction: float, seed: int = 0) -> Split:
    """Hold out about floor(fraction T) supports, so that every module occurs in equally many training supports.

    The modules, in a random order, are put on a circle; supports are trained on together with all their rotations.
    Such orbits have as many supports as a divisor of M says; the count nearest to T - floor(fraction T) that they add
    up to is trained on (``split.fraction`` says which it is), of each size its share, drawn uniformly.
    Raises ValueError for an impossible fraction, and for too many supports or modules to list them.
    """
    m = supports.modules
    if supports.active == 1:
        raise ValueError("equal: supports of one module are rotations of one; use active of at least 2")
    if supports.count > MOST or m > BITS:
        raise ValueError(
            f"equal: {supports.count:,} supports of {m} modules; needs a list, of at most {MOST:,} and {BITS} modules"
        )
    trained = count_trained("equal", supports, fraction, [(1, supports.count)])
    orbit = _orbits(supports, stream(seed, CHOICE).permutation(m))
    _, which, sizes = np.unique(orbit, return_inverse=True, return_counts=True)
    generator, taken = stream(seed, ORDER), np.zeros(len(sizes), dtype=bool)
    kinds, counts = np.unique(sizes, return_counts=True)
    for size, count in zip(kinds, _shares(kinds.tolist(), counts.tolist(), trained), strict=True):
        taken[generator.permutation(np.flatnonzero(sizes == size))[:count]] = True
    chosen, ranks = taken[which], np.arange(supports.count)
    return Split("equal", supports, Listed(supports, ranks[chosen]), Listed(supports, ranks[~chosen]))


def given(supports: Supports, train: Any, held_out: Any, name: str = "given") -> Split:
    """The split with these supports: boolean masks (tasks, M) of what is trained on and what is held out.

    Raises ValueError for masks of other shapes, repeated supports, and supports that are in both.
    """
    trained, held = _ranks(supports, train, "train"), _ranks(supports, held_out, "held out")
    both = np.intersect1d(trained, held)
    if len(both):
        modules = supports.unrank(both[:1])[0]
        raise ValueError(f"supports: {modules[modules >= 0].tolist()} is in training and held out; it must be in one")
    return Split(name, supports, Listed(supports, trained), Listed(supports, held))


def _ranks(supports: Supports, masks: Any, what: str) -> NDArray[np.int64]:
    masks = np.asarray(masks)
    if masks.ndim != 2 or masks.shape[1] != supports.modules or not len(masks):
        raise ValueError(f"supports {what}: shape {masks.shape}, need (tasks, {supports.modules}) with at least 1 task")
    on = np.argsort(masks == 0, axis=1, kind="stable")
    rows = np.where(np.arange(supports.modules) < (masks != 0).sum(axis=1)[:, None], on, -1)
    ranks = np.sort(supports.rank(rows))
    if len(np.unique(ranks)) < len(ranks):
        raise ValueError(f"supports {what}: a support is listed twice; list each once")
    return ranks


def _orbits(supports: Supports, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A number for each support (count,), the same for all its rotations; module m sits at places[m] of the circle."""
    m, one = np.uint64(supports.modules), np.uint64(1)
    full = (one << m) - one
    found = []
    for rows in supports.chunks(2**17):
        bits = np.where(rows >= 0, one << places[rows].astype(np.uint64), np.uint64(0)).sum(axis=1, dtype=np.uint64)
        least = bits.copy()
        for _ in range(supports.modules - 1):
            bits = ((bits << one) & full) | (bits >> (m - one))
            np.minimum(least, bits, out=least)
        found.append(least)
    return np.concatenate(found)


def _shares(sizes: list[int], counts: list[int], wanted: int) -> list[int]:
    """How many orbits of each size (there are ``counts``) to take, so that the total is as near ``wanted`` as can be.

    Never none and never all. Of the ways to get there the most proportional one, largest size first.
    """
    total = sum(size * count for size, count in zip(sizes, counts, strict=True))
    reached = [1]  # bit t of entry i: t is a sum of orbits of the first i sizes
    for size, count in zip(sizes, counts, strict=True):
        bits, step = reached[-1], 1
        while count:  # the steps 1, 2, 4, .. and a last one add up to every number up to count
            step = min(step, count)
            bits |= bits << (step * size)
            count, step = count - step, 2 * step
        reached.append(bits)
    goal = next((t for t in _outwards(wanted, 1, total - 1) if reached[-1] >> t & 1), None)
    if goal is None:
        raise ValueError(f"equal: all {total} supports are rotations of one; use more modules or active ones")
    shares, left = [], goal
    for place in reversed(range(len(sizes))):
        size, even = sizes[place], round(counts[place] * goal / total)
        most = min(counts[place], left // size)
        share = next(k for k in _outwards(even, 0, most) if reached[place] >> (left - size * k) & 1)
        shares.append(share)
        left -= size * share
    return shares[::-1]


def _outwards(centre: int, least: int, most: int) -> Iterator[int]:
    """The numbers least..most, those nearest to the centre first."""
    for gap in range(max(abs(centre - least), abs(most - centre)) + 1):
        yield from (n for n in dict.fromkeys((centre - gap, centre + gap)) if least <= n <= most)
