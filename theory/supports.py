"""The supports of a task family: which of the M modules are active, 1 to K at a time.

Supports are numbered by size, then lexicographically (the order of itertools.combinations), so any of them
can be named, drawn or counted without listing them: with M = 64 and K = 8 there are five thousand million.

The numbering is the combinatorial number system. For a k-subset c_1 < ... < c_k of 0..M-1 put d_i = M-1-c_i;
then C(d_1, k) + C(d_2, k-1) + ... + C(d_k, 1) counts the k-subsets that come after it. Each d_i is found
greedily, as the largest d with C(d, k-i+1) at most what is left: the later terms together stay below
C(d_i, k-i), so that what is left stays below C(d_i + 1, k-i+1).
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import comb
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Below this count ranks are int64: every binomial and every sum met on the way is at most the count.
INT64_COUNTS = 2**62
# Binomials are looked up in a table of at most this many entries (128 MB), else computed one by one.
TABLE_ENTRIES = 2**24


@dataclass(frozen=True)
class Supports:
    """The sets of 1 to `active` (K) out of `modules` (M) modules, in order of size, then lexicographically.

    An array of supports has shape (n, K): a row a support, its modules ascending, then -1 as padding.
    Nothing is listed, and no table made, before a method needs it.

    Raises ValueError unless 1 <= active <= modules, both integers.
    """

    modules: int
    active: int

    def __post_init__(self) -> None:
        for name in ("modules", "active"):
            value = _integer(getattr(self, name), name, least=1)
            object.__setattr__(self, name, value)
        if self.active > self.modules:
            raise ValueError(f"active must be at most modules = {self.modules}, got {self.active}")

    @property
    def count(self) -> int:
        """The exact number of supports, C(M, 1) + ... + C(M, K), however large."""
        return self._starts[-1]

    def __len__(self) -> int:
        """The count, where len() can express it; OverflowError (use `count`) from 2**63 on."""
        return self.count

    def __bool__(self) -> bool:
        # Never empty, and bool() must not fail where len() does.
        return True

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """All supports in order, lazily, as tuples of 1 to K modules."""
        sizes = range(1, self.active + 1)
        return chain.from_iterable(combinations(range(self.modules), size) for size in sizes)

    def chunks(self, size: int) -> Iterator[NDArray[np.int64]]:
        """All supports in order, lazily, as padded arrays of shape (size, K); the last one may be shorter.

        Raises ValueError unless size is an integer >= 1.
        """
        size = _integer(size, "size", least=1)
        dtype = np.int64 if self.count < INT64_COUNTS else object
        starts = range(0, self.count, size)
        return (self.unrank(np.arange(start, min(start + size, self.count), dtype=dtype)) for start in starts)

    def unrank(self, ranks: ArrayLike) -> NDArray[np.int64]:
        """The supports with the given numbers: ranks of shape (n,), result (n, K), padded with -1.

        Raises ValueError for ranks that are not integers in 0..count-1.
        """
        numbers = _ranks(ranks)
        wrong = numbers[(numbers < 0) | (numbers >= self.count)]
        if wrong.size:
            raise ValueError(f"ranks must lie in 0..{self.count - 1}, got {wrong[0]}")
        numbers = numbers.astype(self._arithmetic)
        sizes = self._sizes(numbers)
        supports = np.full((len(numbers), self.active), -1, dtype=np.int64)
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            after = self._starts[size] - 1 - numbers[rows]
            for place in range(size):
                below, term = self._largest(after, size - place)
                supports[rows, place] = self.modules - 1 - below
                after = after - term
        return supports

    def rank(self, supports: ArrayLike) -> NDArray[Any]:
        """The numbers of the given supports: shape (n, width) with -1 for padding, result (n,).

        The modules of a row may come in any order, and width may differ from K. The result is int64, or
        Python integers (dtype object) where the count is 2**62 or more.
        Raises ValueError for entries that are not integers in -1..M-1, and for rows that are empty, repeat a
        module or have more than K.
        """
        rows, sizes = self._checked(supports)
        ranks: NDArray[Any] = np.zeros(len(rows), dtype=self._arithmetic)
        for size in np.unique(sizes):
            where = np.flatnonzero(sizes == size)
            # Padding is -1 and rows are sorted, so the modules are the last `size` entries.
            below = self.modules - 1 - rows[where, rows.shape[1] - size :]
            after: NDArray[Any] = np.zeros(len(where), dtype=self._arithmetic)
            for place in range(size):
                after = after + self._choose(below[:, place], size - place)
            ranks[where] = self._starts[size] - 1 - after
        return ranks.astype(np.int64 if self.count < INT64_COUNTS else object)

    def sample(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """n supports, uniform over all of them and with replacement: shape (n, K), padded with -1.

        A uniform rank gives the size, Floyd's algorithm (Bentley & Floyd, CACM 30(9), 1987) a uniform subset
        of that size: time n K^2, whatever M. Raises ValueError unless n is an integer >= 0.
        """
        n = _integer(n, "n", least=0)
        sizes = self._sizes(_uniform(self.count, n, generator))
        supports = np.full((n, self.active), -1, dtype=np.int64)
        for size in np.unique(sizes):
            rows = np.flatnonzero(sizes == size)
            supports[rows, :size] = _subsets(self.modules, int(size), len(rows), generator)
        return supports

    def masks(self, supports: ArrayLike) -> NDArray[np.bool_]:
        """Which modules are active: supports of shape (n, width) as in `rank`, result bool (n, M).

        Raises ValueError as `rank` does.
        """
        rows, _ = self._checked(supports)
        masks = np.zeros((len(rows), self.modules), dtype=np.bool_)
        row, place = np.nonzero(rows >= 0)
        masks[row, rows[row, place]] = True
        return masks

    @cached_property
    def _starts(self) -> list[int]:
        """Entry k-1 is the first rank of size k; the last entry is the count."""
        starts, binomial = [0], 1
        for size in range(1, self.active + 1):
            binomial = binomial * (self.modules - size + 1) // size
            starts.append(starts[-1] + binomial)
        return starts

    @cached_property
    def _table(self) -> NDArray[np.int64] | None:
        """C(d, j) at [j, d] for j <= K, d <= M; None where it would be too large or int64 would overflow."""
        if self.count >= INT64_COUNTS or (self.active + 1) * (self.modules + 1) > TABLE_ENTRIES:
            return None
        table = np.zeros((self.active + 1, self.modules + 1), dtype=np.int64)
        table[0] = 1
        for j in range(1, self.active + 1):
            np.cumsum(table[j - 1, :-1], out=table[j, 1:])
        return table

    @property
    def _arithmetic(self) -> type:
        return object if self._table is None else np.int64

    def _sizes(self, ranks: NDArray[Any]) -> NDArray[np.int64]:
        return np.searchsorted(np.array(self._starts, dtype=ranks.dtype), ranks, side="right")

    def _choose(self, d: NDArray[np.int64], j: int) -> NDArray[Any]:
        if self._table is not None:
            return self._table[j, d]
        return np.array([comb(int(e), j) for e in d], dtype=object)

    def _largest(self, values: NDArray[Any], j: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """For each value the largest d < M with C(d, j) <= value, and that C(d, j)."""
        if self._table is not None:
            d = np.searchsorted(self._table[j, : self.modules], values, side="right") - 1
        else:
            row = range(self.modules)
            found = [bisect_right(row, value, key=lambda e: comb(e, j)) - 1 for value in values]
            d = np.array(found, dtype=np.int64)
        return d, self._choose(d, j)

    def _checked(self, supports: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows sorted ascending, padding first, shape (n, width), and their sizes (n,)."""
        try:
            rows = np.asarray(supports)
        except ValueError:
            raise ValueError("supports must be rows of equal length: pad short ones with -1") from None
        if rows.ndim != 2 or rows.dtype.kind not in "iu":
            raise ValueError(
                f"supports must be an integer array of shape (n, width), got shape {rows.shape}, {rows.dtype}"
            )
        wrong = rows[(rows < -1) | (rows >= self.modules)]
        if wrong.size:
            raise ValueError(f"modules of a support must lie in 0..{self.modules - 1} (-1 for padding), got {wrong[0]}")
        rows = np.sort(rows.astype(np.int64), axis=1)
        sizes = np.count_nonzero(rows >= 0, axis=1)
        empty = np.flatnonzero(sizes == 0)
        if empty.size:
            raise ValueError(f"a support needs at least 1 module, row {empty[0]} has none")
        repeated = np.flatnonzero(((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] >= 0)).any(axis=1))
        if repeated.size:
            raise ValueError(f"a support has each module at most once, row {repeated[0]} repeats one")
        large = np.flatnonzero(sizes > self.active)
        if large.size:
            raise ValueError(f"a support has at most {self.active} modules, row {large[0]} has {sizes[large[0]]}")
        return rows, sizes.astype(np.int64)


def _integer(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)


def _ranks(ranks: ArrayLike) -> NDArray[Any]:
    """Ranks as an array of shape (n,) of integers, numpy's or Python's."""
    # numpy would make floats of a list that mixes integers from both ends of 64 bits.
    array = np.asarray(ranks) if isinstance(ranks, np.ndarray) else np.array(ranks, dtype=object)
    if array.ndim != 1:
        raise ValueError(f"ranks must have shape (n,), got shape {array.shape}")
    if array.dtype == object:
        # int64 and uint64 do not compare exactly with one another, Python's integers do.
        return np.array([_integer(rank, "a rank", least=0) for rank in array], dtype=object)
    if array.dtype.kind not in "iu":
        raise ValueError(f"ranks must be integers, got {array.dtype}")
    return array


def _uniform(count: int, n: int, generator: np.random.Generator) -> NDArray[Any]:
    """n integers uniform in 0..count-1, shape (n,): int64, or Python integers for large counts."""
    if count < INT64_COUNTS:
        return generator.integers(count, size=n, dtype=np.int64)
    bits = (count - 1).bit_length()
    width = (bits + 7) // 8
    found: list[int] = []
    while len(found) < n:
        # Rejection from `bits` random bits: more than half of the draws are kept, and no bias remains.
        raw = generator.bytes(width * (n - len(found)))
        words = (raw[at : at + width] for at in range(0, len(raw), width))
        draws = (int.from_bytes(word, "little") >> (8 * width - bits) for word in words)
        found += [draw for draw in draws if draw < count]
    return np.array(found, dtype=object)


def _subsets(modules: int, size: int, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """n uniform subsets of 0..modules-1 of one size, ascending, shape (n, size), by Floyd's algorithm."""
    chosen = np.empty((n, size), dtype=np.int64)
    for place in range(size):
        top = modules - size + place
        pick = generator.integers(top + 1, size=n)
        taken = (chosen[:, :place] == pick[:, None]).any(axis=1)
        chosen[:, place] = np.where(taken, top, pick)
    chosen.sort(axis=1)
    return chosen
