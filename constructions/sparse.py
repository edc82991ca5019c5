"""Sparse matrices over either arithmetic: the one matrix type of the compiler.

A row vector times a matrix, as everywhere: shape is (fan_in, fan_out). Entries are float64 or Fraction; scipy sums
the floats, sorting and ``np.add.reduceat`` the Fractions. Explicit zeros are never stored, so that counting
entries and asking what a neuron reads are the same question.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from theory.arithmetic import Array, as_exact, as_float


class Sparse:
    """Entries (row, col, val), sorted by row then column, without duplicates or zeros."""

    __slots__ = ("col", "row", "shape", "val")

    def __init__(self, row: Array, col: Array, val: Array, shape: tuple[int, int]) -> None:
        self.row, self.col, self.val, self.shape = row, col, val, shape

    @classmethod
    def build(cls, row: Any, col: Any, val: Array, shape: tuple[int, int]) -> Sparse:
        """From entries in any order; duplicates are summed."""
        if val.dtype != object:
            summed = sp.coo_matrix((val, (row, col)), shape=shape).tocsr()
            return cls.of_csr(summed)
        key = np.asarray(row, dtype=np.int64) * shape[1] + np.asarray(col, dtype=np.int64)
        order = np.argsort(key, kind="stable")
        key, val = key[order], val[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        if len(starts) < len(key):
            val, key = np.add.reduceat(val, starts), key[starts]
        keep = val != 0
        key, val = key[keep], val[keep]
        return cls((key // shape[1]).astype(np.int32), (key % shape[1]).astype(np.int32), val, shape)

    @classmethod
    def of_csr(cls, matrix: sp.csr_matrix) -> Sparse:
        """From a scipy matrix (summed, sorted, zeros dropped in place)."""
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        coo = matrix.tocoo()
        return cls(coo.row, coo.col, coo.data, matrix.shape)

    @classmethod
    def dense(cls, array: Array) -> Sparse:
        """From a dense array (fan_in, fan_out)."""
        row, col = np.nonzero(array)
        return cls(row.astype(np.int32), col.astype(np.int32), array[row, col], array.shape)

    @classmethod
    def units(cls, picks: Array, size: int, exact: bool) -> Sparse:
        """(size, len(picks)): column j selects coordinate picks[j]."""
        n = len(picks)
        return cls.build(np.asarray(picks), np.arange(n), ones(n, exact), (size, n))

    @classmethod
    def zero(cls, shape: tuple[int, int], exact: bool) -> Sparse:
        """All entries 0."""
        none = np.zeros(0, dtype=np.int32)
        return cls(none, none, ones(0, exact), shape)

    @property
    def nnz(self) -> int:
        """Number of nonzero entries."""
        return len(self.val)

    @property
    def exact(self) -> bool:
        """Whether the entries are Fractions."""
        return self.val.dtype == object

    @property
    def is_diagonal(self) -> bool:
        """Whether only the diagonal of a square matrix holds entries."""
        return self.shape[0] == self.shape[1] and self.nnz <= self.shape[0] and bool(np.all(self.row == self.col))

    def diagonal(self) -> Array:
        """The diagonal of a square matrix, (fan_in,)."""
        values = zeros(self.shape[0], self.exact)
        keep = self.row == self.col
        values[self.row[keep]] = self.val[keep]
        return values

    @property
    def T(self) -> Sparse:
        """Transpose."""
        return Sparse.build(self.col, self.row, self.val, self.shape[::-1])

    def __matmul__(self, other: Sparse) -> Sparse:
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"sparse product: {self.shape} times {other.shape}")
        shape = (self.shape[0], other.shape[1])
        if other.is_diagonal:
            return self.scale_columns(other.diagonal())
        if self.is_diagonal:
            return other.scale_rows(self.diagonal())
        if not self.exact:
            return Sparse.of_csr(self.csr() @ other.csr())
        starts = np.searchsorted(other.row, np.arange(other.shape[0] + 1))
        lengths = np.diff(starts)[self.col]
        place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        index = np.repeat(starts[self.col], lengths) + place
        value = np.repeat(self.val, lengths) * other.val[index]
        return Sparse.build(np.repeat(self.row, lengths), other.col[index], value, shape)

    def __add__(self, other: Sparse) -> Sparse:
        if self.shape != other.shape:
            raise ValueError(f"sparse sum: {self.shape} and {other.shape}")
        if other.nnz == 0 or self.nnz == 0:
            return self if other.nnz == 0 else other
        return Sparse.build(
            np.concatenate([self.row, other.row]),
            np.concatenate([self.col, other.col]),
            np.concatenate([self.val, other.val]),
            self.shape,
        )

    def scale_rows(self, factors: Array) -> Sparse:
        """Row i times factors[i]."""
        return self._with(self.val * factors[self.row])

    def scale_columns(self, factors: Array) -> Sparse:
        """Column j times factors[j]."""
        return self._with(self.val * factors[self.col])

    def take_columns(self, picks: Array) -> Sparse:
        """Columns ``picks``, in that order, repeats allowed."""
        return (self.T.take_rows(picks)).T

    def take_rows(self, picks: Array) -> Sparse:
        """Rows ``picks``, in that order, repeats allowed."""
        picks = np.asarray(picks)
        starts = np.searchsorted(self.row, np.arange(self.shape[0] + 1))
        lengths = np.diff(starts)[picks]
        place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        index = np.repeat(starts[picks], lengths) + place
        row = np.repeat(np.arange(len(picks), dtype=np.int32), lengths)
        return Sparse(row, self.col[index], self.val[index], (len(picks), self.shape[1]))

    def left(self, vector: Array) -> Array:
        """vector @ self, (fan_out,)."""
        if not self.exact:
            return np.bincount(self.col, weights=vector[self.row] * self.val, minlength=self.shape[1])
        total = np.full(self.shape[1], Fraction(0), dtype=object)
        np.add.at(total, self.col, vector[self.row] * self.val)
        return total

    def nonzero_rows(self) -> Array:
        """Indices of the rows that hold an entry."""
        return np.unique(self.row)

    def nonzero_columns(self) -> Array:
        """Indices of the columns that hold an entry."""
        return np.unique(self.col)

    def csr(self) -> sp.csr_matrix:
        """As a scipy float64 matrix (rounded if the entries are Fractions)."""
        return sp.csr_matrix((as_float(self.val), (self.row, self.col)), shape=self.shape)

    def absolute(self) -> sp.csr_matrix:
        """|entries| as a scipy float64 matrix (fan_in, fan_out), rounded up where the entries are Fractions."""
        size = np.abs(as_float(self.val))
        if self.exact:
            size = np.nextafter(size, np.inf)
        return sp.csr_matrix((size, (self.row, self.col)), shape=self.shape)

    def toarray(self) -> Array:
        """Dense, in the arithmetic of the entries."""
        dense = as_exact(np.zeros(self.shape)) if self.exact else np.zeros(self.shape)
        dense[self.row, self.col] = self.val
        return dense

    def _with(self, val: Array) -> Sparse:
        keep = val != 0
        if np.all(keep):
            return Sparse(self.row, self.col, val, self.shape)
        return Sparse(self.row[keep], self.col[keep], val[keep], self.shape)


def ones(n: int, exact: bool) -> Array:
    """n ones in the arithmetic."""
    return np.full(n, Fraction(1), dtype=object) if exact else np.ones(n)


def zeros(n: int, exact: bool) -> Array:
    """n zeros in the arithmetic."""
    return np.full(n, Fraction(0), dtype=object) if exact else np.zeros(n)


def stack_columns(blocks: list[Sparse]) -> Sparse:
    """[A | B | ..], all of the same height."""
    starts = np.cumsum([0] + [b.shape[1] for b in blocks])
    return Sparse.build(
        np.concatenate([b.row for b in blocks]),
        np.concatenate([b.col + s for b, s in zip(blocks, starts, strict=False)]),
        np.concatenate([b.val for b in blocks]),
        (blocks[0].shape[0], int(starts[-1])),
    )


def stack_rows(blocks: list[Sparse]) -> Sparse:
    """One under the other, all of the same width; the order of the entries stays sorted."""
    starts = np.cumsum([0] + [b.shape[0] for b in blocks])
    return Sparse(
        np.concatenate([b.row + s for b, s in zip(blocks, starts, strict=False)]).astype(np.int32),
        np.concatenate([b.col for b in blocks]),
        np.concatenate([b.val for b in blocks]),
        (int(starts[-1]), blocks[0].shape[1]),
    )
