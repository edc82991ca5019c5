"""The two support conditions of the paper (section 2), decided with a witness.

Compositional support: every module occurs in a training task. Connected support: the graph on the modules in which two
are joined that occur together in a training task has one component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from theory.splits.orders import Integers
from theory.splits.pools import Pool, Stretch

#: Supports drawn for each module before giving up on a proof by example, and how many are gone through one by one.
DRAWN, WALKED = 256, 2**22
CHUNK = 2**18


@dataclass(frozen=True)
class Conditions:
    """missing: modules without a training task (none: compositional). blocks: components of "occur together".

    decided: False where neither examples nor a walk through all supports settled it; then the truth may be better
    (fewer missing, fewer blocks), never worse.
    """

    missing: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    decided: bool = True

    @property
    def compositional(self) -> bool | None:
        """Whether every module occurs; None where that is not known."""
        return not self.missing if self.decided or not self.missing else None

    @property
    def connected(self) -> bool | None:
        """Whether every module occurs and the graph has one component; None where that is not known."""
        one = not self.missing and len(self.blocks) == 1
        return one if self.decided or one else None

    def __str__(self) -> str:
        parts = [
            f"modules {', '.join(map(str, self.missing[:5]))}{', ..' if len(self.missing) > 5 else ''} never seen"
            if self.missing
            else "every module seen",
            "connected"
            if len(self.blocks) == 1 and not self.missing
            else f"{len(self.blocks)} block{'s' if len(self.blocks) > 1 else ''}",
        ]
        return ", ".join(parts) + ("" if self.decided else " (as far as was looked)")


def conditions(pool: Pool, modules: int) -> Conditions:
    """Decide both conditions for a pool of training supports over ``modules`` modules.

    By example where that is enough: drawn supports that show every module, all joined, are a proof. Else against what
    the pool's cells allow at all, else by walking through all its supports (up to WALKED), as is done with few at once.
    """
    seen, joined = np.zeros(modules, dtype=bool), Components(modules)
    if isinstance(pool, Stretch) and len(pool.order.cover):
        _note(pool.order.cover[pool.contains(pool.order.cover)], seen, joined)
    draws = min(DRAWN * modules, CHUNK)
    if pool.count > draws:
        generator = np.random.default_rng(0)
        for _ in range(4):
            _note(pool.sample(draws, generator), seen, joined)
            if seen.all() and joined.count == 1:
                return _result(seen, joined, decided=True)
    decided = _exhausted(pool, seen, joined)
    if not decided and pool.count <= WALKED:
        for supports in pool.chunks(CHUNK):
            _note(supports, seen, joined)
        decided = True
    return _result(seen, joined, decided)


class Components:
    """Components of a growing graph on 0..n-1."""

    def __init__(self, n: int) -> None:
        self.labels = np.arange(n)

    @property
    def count(self) -> int:
        """How many components."""
        return len(np.unique(self.labels))

    def join(self, first: Integers, second: Integers) -> None:
        """Add the edges first[i] - second[i]."""
        n = len(self.labels)
        pairs = np.unique(self.labels[first] * n + self.labels[second])
        edges = (np.ones(len(pairs), dtype=bool), (pairs // n, pairs % n))
        _, parts = connected_components(sp.csr_matrix(edges, shape=(n, n)), directed=False)
        self.labels = parts[self.labels].astype(np.int64)  # scipy's are int32: label n + label would overflow


def _note(supports: Integers, seen: np.ndarray, joined: Components) -> None:
    """Mark the modules of the supports (n, width) and join those that occur together."""
    if not len(supports):
        return
    seen[supports[supports >= 0]] = True
    anchors = np.repeat(supports.max(axis=1), supports.shape[1])
    others = supports.ravel()
    joined.join(anchors[others >= 0], others[others >= 0])


def _exhausted(pool: Pool, seen: np.ndarray, joined: Components) -> bool:
    """Whether what was seen is all that the cells of the pool's order allow."""
    if not isinstance(pool, Stretch):
        return False
    order = pool.order
    allowed, possible = np.zeros(len(seen), dtype=bool), Components(len(seen))
    for segment, start in zip(order.segments, order.starts, strict=False):
        if start < pool.stop and start + segment.count > pool.start:
            for sizes in segment.cells:
                used = [list(group) for group, size in zip(order.groups, sizes, strict=True) if size and group]
                allowed[[m for group in used for m in group]] = True
                for group, size in zip(order.groups, sizes, strict=True):
                    if size > 1:
                        possible.join(np.array(group), np.full(len(group), group[0]))
                if len(used) > 1:
                    together = np.array([m for group in used for m in group])
                    possible.join(together, np.full(len(together), together[0]))
    _note(order.supports(order.exchanged), allowed, possible)  # these may be from other cells
    return bool((allowed == seen).all()) and possible.count == joined.count


def _result(seen: np.ndarray, joined: Components, decided: bool) -> Conditions:
    blocks: dict[int, list[int]] = {}
    for module in np.flatnonzero(seen):
        blocks.setdefault(int(joined.labels[module]), []).append(int(module))
    missing = tuple(int(m) for m in np.flatnonzero(~seen))
    return Conditions(missing, tuple(tuple(block) for block in blocks.values()), decided)
