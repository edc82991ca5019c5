"""Splits from a list: every module equally often, and supports that were given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.splits.named import CHOICE, ORDER, _held, _stream
from theory.splits.pools import Listed
from theory.splits.split import Split
from theory.supports import Supports

#: More supports than this are not listed (a few hundred MB), nor are masks of more modules than an integer has bits.
MOST, BITS = 2**23, 62


def equal(supports: Supports, fraction: float, seed: int = 0) -> Split:
    """Hold out about floor(fraction T) supports, so that every module occurs in equally many training supports.

    The modules, in a random order, are put on a circle; supports are trained on together with all their rotations.
    Orbits are drawn at random until no other fits; the fraction reached is ``split.fraction``. Raises ValueError where
    there are too many supports or modules to list them, and where no orbit fits.
    """
    m = supports.modules
    if supports.count > MOST or m > BITS:
        raise ValueError(
            f"equal: {supports.count:,} supports of {m} modules; needs a list, of at most {MOST:,} and {BITS} modules"
        )
    trained = supports.count - _held(supports, fraction)
    ranks = np.arange(supports.count)
    orbit = _orbits(supports, _stream(seed, CHOICE).permutation(m))
    _, which, sizes = np.unique(orbit, return_inverse=True, return_counts=True)
    order = _stream(seed, ORDER).permutation(len(sizes))
    fits = np.zeros(len(sizes), dtype=bool)
    fits[order] = _fitting(sizes[order], trained)
    chosen = fits[which]
    if not chosen.any() or chosen.all():
        least = int(sizes.min())
        nearest = (supports.count - least if chosen.any() else least) / supports.count
        raise ValueError(
            f"fraction: {fraction:g} leaves {trained:,} training supports; supports come in orbits of {least} or more: "
            f"the nearest possible fraction is {1 - nearest:.6g}"
        )
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
    for rows in supports.chunks(2**20):
        bits = np.where(rows >= 0, one << places[rows].astype(np.uint64), np.uint64(0)).sum(axis=1, dtype=np.uint64)
        least = bits.copy()
        for _ in range(supports.modules - 1):
            bits = ((bits << one) & full) | (bits >> (m - one))
            np.minimum(least, bits, out=least)
        found.append(least)
    return np.concatenate(found)


def _fitting(sizes: NDArray[np.int64], total: int) -> NDArray[np.bool_]:
    """Which of the sizes, taken in order, fit into the total: as many of the first as do, then what still fits."""
    taken = np.cumsum(sizes) <= total
    left = total - int(sizes[taken].sum())
    for at in np.flatnonzero(~taken & (sizes <= left)):
        if sizes[at] <= left:
            taken[at] = True
            left -= int(sizes[at])
        if left < sizes.min():
            break
    return taken
