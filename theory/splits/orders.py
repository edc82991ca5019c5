"""Random orders of supports that are never listed.

The modules are cut into groups; a CELL is all supports with the same number of modules from each group, so that a
place in it is a number in mixed radix, one digit a group. An ``Order`` is a list of segments, each some cells in random
order: a keyed permutation of their numbers. Every split is one order, cut in two or three places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.supports import INT64_COUNTS, Supports, _integer

Integers = NDArray[np.int64]
#: Sizes of one cell: how many modules of each group.
Sizes = tuple[int, ...]

#: Streams of one seed: the modules that are singled out, the order, the cover.
CHOICE, ORDER, COVER = range(3)

#: Up to here a permutation is a table, drawn uniformly (8 MiB); above, a Feistel network.
TABLE = 2**20
#: Four rounds with independent round functions suffice in theory (Luby & Rackoff 1988); these are hashes.
ROUNDS = 8


class Permutation:
    """A permutation of 0..n-1 that depends on the key (words for a SeedSequence) alone, and its inverse.

    A table where n is small; else a balanced Feistel network on the next power of 4, walked until it is back below n.
    """

    def __init__(self, n: int, key: Sequence[int]) -> None:
        if n >= INT64_COUNTS:
            raise ValueError(
                f"supports: {n:,} are too many to be split; at most 2^62: use fewer modules or active ones"
            )
        self.n = n
        generator = np.random.default_rng(np.random.SeedSequence([_integer(word, "seed", least=0) for word in key]))
        self._table = generator.permutation(n) if n <= TABLE else None
        self._half = np.uint64(((n - 1).bit_length() + 1) // 2)
        self._keys = generator.integers(2**64, size=ROUNDS, dtype=np.uint64)

    def __call__(self, places: Integers) -> Integers:
        """Where each of the places (n,) goes."""
        if self._table is not None:
            return self._table[places]
        return self._walk(places, self._keys, flip=False)

    def inverse(self, values: Integers) -> Integers:
        """What goes to each of the values (n,)."""
        if self._table is not None:
            return self._inverse_table[values]
        return self._walk(values, self._keys[::-1], flip=True)

    @cached_property
    def _inverse_table(self) -> Integers:
        assert self._table is not None
        return np.argsort(self._table)

    def _walk(self, numbers: Integers, keys: NDArray[np.uint64], flip: bool) -> Integers:
        found = self._rounds(numbers.astype(np.uint64), keys, flip)
        while True:  # at most 3 of 4 numbers lie outside, so that this ends soon
            out = np.flatnonzero(found >= self.n)
            if not len(out):
                return found.astype(np.int64)
            found[out] = self._rounds(found[out], keys, flip)

    def _rounds(self, numbers: NDArray[np.uint64], keys: NDArray[np.uint64], flip: bool) -> NDArray[np.uint64]:
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = numbers >> self._half, numbers & mask
        if flip:  # a Feistel network run backwards is itself, with the halves exchanged
            left, right = right, left
        for key in keys:
            left, right = right, left ^ (_hash(right ^ key) & mask)
        if flip:
            left, right = right, left
        return (left << self._half) | right


def stream(seed: int, part: int) -> np.random.Generator:
    """The random numbers of one part of a split. Raises ValueError unless seed is an integer >= 0."""
    return np.random.default_rng(np.random.SeedSequence(_integer(seed, "seed", least=0), spawn_key=(part,)))


def canonical(supports: Any, modules: int) -> tuple[Integers, Integers]:
    """Supports (n, width) of any size with -1 first and ascending, and their sizes (n,).

    Raises ValueError for rows that are no supports, as Supports.rank does.
    """
    return Supports(modules, modules)._checked(supports)


def _hash(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea & Flood 2014): every bit depends on every bit."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True)
class Segment:
    """The supports of some cells, in a random order of their own."""

    cells: tuple[Sizes, ...]
    counts: tuple[int, ...]
    permutation: Permutation

    @property
    def count(self) -> int:
        """How many supports."""
        return sum(self.counts)


class Order:
    """All supports of some cells, segment after segment, at places 0, 1, ..; each segment in a random order.

    groups: a partition of the modules 0..M-1. segments: for each the sizes of its cells. width: of the arrays returned.
    ``exchange`` swaps a few places, so that chosen supports can be put where they are wanted.
    """

    def __init__(
        self, groups: Sequence[Sequence[int]], segments: Sequence[Sequence[Sizes]], width: int, key: Sequence[int]
    ) -> None:
        self.groups = tuple(tuple(sorted(group)) for group in groups)
        self.modules, self.width = sum(map(len, self.groups)), width
        self.segments = []
        for number, cells in enumerate(segments):
            counts = tuple(self._count(sizes) for sizes in cells)
            self.segments.append(Segment(tuple(cells), counts, Permutation(sum(counts), [*key, number])))
        self.starts = np.cumsum([0] + [segment.count for segment in self.segments]).tolist()
        self.count: int = self.starts[-1]
        if self.count >= INT64_COUNTS:
            raise ValueError(f"supports: {self.count:,} are too many to be split; at most 2^62")
        self._of = np.empty(self.modules, dtype=np.int64)  # the group of each module
        self._place = np.empty(self.modules, dtype=np.int64)  # its place in it
        for number, group in enumerate(self.groups):
            self._of[list(group)], self._place[list(group)] = number, np.arange(len(group))
        self.cover = np.zeros((0, width), dtype=np.int64)  # supports known to matter, where conditions are looked for
        self._swapped: tuple[Integers, Integers] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _count(self, sizes: Sizes) -> int:
        return prod(comb(len(group), size) for group, size in zip(self.groups, sizes, strict=True))

    def supports(self, places: Integers) -> Integers:
        """The supports at the places (n,): (n, width), ascending, padded with -1."""
        places = self._exchanged(np.asarray(places, dtype=np.int64))
        found = np.full((len(places), self.width), -1, dtype=np.int64)
        which = np.searchsorted(self.starts, places, side="right") - 1
        for number, segment in enumerate(self.segments):
            rows = np.flatnonzero(which == number)
            if len(rows):
                inside = segment.permutation(places[rows] - self.starts[number])
                starts = np.cumsum([0, *segment.counts])
                cell = np.searchsorted(starts, inside, side="right") - 1
                for c in np.unique(cell):
                    here = cell == c
                    found[rows[here]] = self._unrank(segment.cells[c], inside[here] - starts[c])
        return found

    def places(self, supports: Any) -> Integers:
        """Where the supports (n, ..), padded with -1, are: (n,); -1 for those that are in no cell of this order.

        Raises ValueError for rows that are no supports, as Supports.rank does.
        """
        rows, _ = canonical(supports, self.modules)
        sizes = np.stack([((self._of[rows] == g) & (rows >= 0)).sum(axis=1) for g in range(len(self.groups))], axis=1)
        found = np.full(len(rows), -1, dtype=np.int64)
        for number, segment in enumerate(self.segments):
            offset = 0
            for cell, count in zip(segment.cells, segment.counts, strict=True):
                here = np.flatnonzero((sizes == cell).all(axis=1))
                if len(here) and count:
                    inside = offset + self._rank(cell, rows[here])
                    found[here] = self.starts[number] + segment.permutation.inverse(inside)
                offset += count
        known = found >= 0
        found[known] = self._exchanged(found[known])
        return found

    def exchange(self, first: Integers, second: Integers) -> None:
        """From now on first[i] and second[i] have changed places; all places must be different."""
        both, other = np.concatenate([first, second]), np.concatenate([second, first])
        if len(np.unique(both)) < len(both) or len(self._swapped[0]):
            raise ValueError("exchange: once, and with different places")
        by_place = np.argsort(both)
        self._swapped = (both[by_place], other[by_place])

    @property
    def exchanged(self) -> Integers:
        """The places that ``exchange`` touched."""
        return self._swapped[0]

    def _exchanged(self, places: Integers) -> Integers:
        known, other = self._swapped
        if not len(known):
            return places
        at = np.minimum(np.searchsorted(known, places), len(known) - 1)
        return np.where(known[at] == places, other[at], places)

    def _unrank(self, sizes: Sizes, numbers: Integers) -> Integers:
        """Supports of one cell by number: one digit a group, the first group's changing fastest."""
        found = np.full((len(numbers), self.width), -1, dtype=np.int64)
        used = 0
        for group, size in zip(self.groups, sizes, strict=True):
            radix = comb(len(group), size)
            numbers, digit = numbers // radix, numbers % radix
            if size:
                alike = Supports(len(group), size)  # those of this very size are its last ones
                found[:, used : used + size] = np.asarray(group)[alike.unrank(digit + (alike.count - radix))]
            used += size
        found[:, :used].sort(axis=1)
        return found

    def _rank(self, sizes: Sizes, rows: Integers) -> Integers:
        number, radix = np.zeros(len(rows), dtype=np.int64), 1
        for g, (group, size) in enumerate(zip(self.groups, sizes, strict=True)):
            if size:
                inside = (self._of[rows] == g) & (rows >= 0)
                alike = Supports(len(group), size)
                members = self._place[rows[inside]].reshape(len(rows), size)
                number += radix * (alike.rank(members) - (alike.count - comb(len(group), size)))
            radix *= comb(len(group), size)
        return number
