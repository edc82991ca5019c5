"""Pools: sets of supports that can be counted, drawn from, tested and gone through without being listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from theory.splits.orders import Integers, Order, canonical
from theory.supports import Supports, _integer

#: ``listed`` refuses more supports than this unless told otherwise.
LISTED = 2**22


class Pool(Protocol):
    """Some of the supports of a family. Arrays of supports are (n, width), rows ascending, padded with -1.

    Every method raises ValueError for numbers, sizes and supports that cannot be.
    """

    @property
    def count(self) -> int:
        """How many."""

    def at(self, numbers: Integers) -> Integers:
        """The supports with these numbers, each in 0..count-1: (n,) -> (n, width)."""

    def contains(self, supports: Any) -> NDArray[np.bool_]:
        """Which of the supports (n, ..), of any size and order, belong to the pool: (n,)."""

    def sample(self, n: int, generator: np.random.Generator) -> Integers:
        """n of them, uniform, with replacement: (n, width). ValueError for an empty pool."""

    def chunks(self, size: int) -> Iterator[Integers]:
        """All of them in the pool's order, at most ``size`` at a time."""

    def listed(self, limit: int = LISTED) -> Integers:
        """All of them: (count, width). ValueError above the limit."""


class _Numbered:
    """What follows from ``count`` and ``at``."""

    count: int

    def at(self, numbers: Integers) -> Integers:
        raise NotImplementedError

    def sample(self, n: int, generator: np.random.Generator) -> Integers:
        if not self.count:
            raise ValueError("supports: there are none to draw from")
        return self.at(generator.integers(self.count, size=_integer(n, "n", least=0)))

    def chunks(self, size: int) -> Iterator[Integers]:
        starts = range(0, self.count, _integer(size, "size", least=1))
        return (self.at(np.arange(start, min(start + size, self.count))) for start in starts)

    def listed(self, limit: int = LISTED) -> Integers:
        if self.count > limit:
            raise ValueError(f"supports: {self.count:,} are not listed; at most {limit:,}: draw some, or use chunks")
        return self.at(np.arange(self.count))

    def _inside(self, numbers: Integers) -> Integers:
        numbers = np.asarray(numbers, dtype=np.int64)
        wrong = numbers[(numbers < 0) | (numbers >= self.count)]
        if wrong.size:
            raise ValueError(f"numbers: {wrong[0]} must lie in 0..{self.count - 1}")
        return numbers


@dataclass(frozen=True, eq=False)
class Stretch(_Numbered):
    """The supports at the places start..stop-1 of an order."""

    order: Order
    start: int
    stop: int

    @property
    def count(self) -> int:  # type: ignore[override]
        return self.stop - self.start

    def at(self, numbers: Integers) -> Integers:
        return self.order.supports(self.start + self._inside(numbers))

    def contains(self, supports: Any) -> NDArray[np.bool_]:
        places = self.order.places(supports)
        return (places >= self.start) & (places < self.stop)


@dataclass(frozen=True, eq=False)
class Listed(_Numbered):
    """Supports of which there is a list: their numbers in ``supports``, ascending."""

    supports: Supports
    ranks: Integers

    @property
    def count(self) -> int:  # type: ignore[override]
        return len(self.ranks)

    def at(self, numbers: Integers) -> Integers:
        return self.supports.unrank(self.ranks[self._inside(numbers)])

    def contains(self, supports: Any) -> NDArray[np.bool_]:
        rows, sizes = canonical(supports, self.supports.modules)
        found = sizes <= self.supports.active
        if len(self.ranks):
            ranks = self.supports.rank(rows[found])
            at = np.minimum(np.searchsorted(self.ranks, ranks), len(self.ranks) - 1)
            found[found] = self.ranks[at] == ranks
        return found & bool(len(self.ranks))
