"""Exact ranks of the modules, and a basis of the columns of each: what an exact network must gate (claim C2).

Almost every module has full rank, and that is PROVED in floats: if |I - A B| < 1 for some B, the rows of A are
independent. Only where this test fails are Fractions eliminated. Nothing here is a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from theory.arithmetic import Array, as_exact, as_float


@dataclass(frozen=True, eq=False)
class Basis:
    """For each module either its nonzero rows are independent (``by_input``), or ``pivots`` name independent columns.

    rank: (modules,). by_input: (modules,) of bool. pivots: (modules, width) of bool, empty where by_input.
    reduced: module -> (rank, width) Fractions C with T_m = T_m[:, pivots] @ C, only where C is not a selection.
    """

    rank: Array
    by_input: Array
    pivots: Array
    reduced: dict[int, Array]

    def coefficients(self, m: Array, h: Array, exact: bool) -> Array:
        """For pivots (m_r, h_r), listed module by module: how each feeds the columns, (R, width)."""
        width = self.pivots.shape[1]
        out = np.zeros((len(m), width))
        out[np.arange(len(m)), h] = 1
        if not exact and not self.reduced:
            return out
        out = as_exact(out)
        for module, block in self.reduced.items():
            out[m == module] = block
        return out if exact else as_float(out)


def column_basis(tensor: Array) -> Basis:
    """Ranks and bases of T_m = tensor[m], tensor (modules, fan_in, width), exactly."""
    floats = as_float(tensor)
    nonzero = tensor != 0
    rows, columns = nonzero.any(axis=2), nonzero.any(axis=1)
    rank = np.zeros(len(tensor), dtype=int)
    by_input = np.zeros(len(tensor), dtype=bool)
    pivots = np.zeros(columns.shape, dtype=bool)

    wide = rows.sum(axis=1) <= columns.sum(axis=1)
    full = np.zeros(len(tensor), dtype=bool)
    full[wide] = _independent_rows(floats[wide], rows[wide])
    full[~wide] = _independent_rows(floats[~wide].transpose(0, 2, 1), columns[~wide])
    by_input[full & wide] = True
    pivots[full & ~wide] = columns[full & ~wide]
    rank[full] = np.minimum(rows.sum(axis=1), columns.sum(axis=1))[full]

    reduced: dict[int, Array] = {}
    for m in np.flatnonzero(~full):
        chosen, block = reduce_columns(tensor[m])
        rank[m] = len(chosen)
        if len(chosen) == rows[m].sum():
            by_input[m] = True
            continue
        pivots[m, chosen] = True
        if not np.array_equal(block != 0, np.eye(pivots.shape[1], dtype=bool)[chosen]):
            reduced[int(m)] = block
    return Basis(rank, by_input, pivots, reduced)


def reduce_columns(matrix: Array) -> tuple[list[int], Array]:
    """Reduced row echelon form in Fractions: (pivot columns, C) with matrix = matrix[:, pivots] @ C."""
    work = as_exact(matrix).copy()
    chosen: list[int] = []
    for column in range(work.shape[1]):
        place = len(chosen)
        below = np.flatnonzero(work[place:, column] != 0)
        if len(below) == 0:
            continue
        work[[place, place + below[0]]] = work[[place + below[0], place]]
        work[place] = work[place] / work[place, column]
        factors = work[:, column].copy()
        factors[place] = Fraction(0)
        work = work - factors[:, None] * work[place][None, :]
        chosen.append(column)
        if len(chosen) == work.shape[0]:
            break
    return chosen, work[: len(chosen)]


def _independent_rows(matrices: Array, rows: Array) -> Array:
    """Which matrices (n, a, b) provably have independent nonzero rows; ``rows`` (n, a) says which are nonzero."""
    if len(matrices) == 0:
        return np.zeros(0, dtype=bool)
    scale = np.abs(matrices).max(axis=(1, 2), keepdims=True)
    matrices = matrices / np.where(scale == 0, 1, scale)
    gram = matrices @ matrices.transpose(0, 2, 1)
    idle = np.arange(rows.shape[1])
    gram[:, idle, idle] += ~rows
    inverse, solvable = _inverses(gram)
    residual = gram @ inverse - np.eye(rows.shape[1])
    # |I - A B| < 1 in the maximum row sum; 1/2 leaves room for the rounding of gram and of the residual, which
    # is below n^2 u |inverse| and checked against the other half.
    error = np.abs(residual).sum(axis=2).max(axis=1)
    rounding = matrices.shape[1] * matrices.shape[2] * 2.0**-50 * np.abs(inverse).sum(axis=2).max(axis=1)
    return solvable & (error < 0.5) & (rounding < 0.25)


def _inverses(matrices: Array) -> tuple[Array, Array]:
    """Inverses (n, a, a), and which of them exist, (n,) of bool; the others are left 0."""
    try:
        return np.linalg.inv(matrices), np.ones(len(matrices), dtype=bool)
    except np.linalg.LinAlgError:  # one of them is singular: find out which
        solvable = np.linalg.slogdet(matrices)[0] != 0
        inverse = np.zeros_like(matrices)
        inverse[solvable] = np.linalg.inv(matrices[solvable])
        return inverse, solvable
