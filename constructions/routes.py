"""Routes: ways to write sum_{m,i} T[m,i,h] u_m v_i as a sum of rank-one terms (form in u) x (form in v).

    M     u_m x (sum_i T[m,i,h] v_i)         a term for each module and unit
    N     (sum_m T[m,i,h] u_m) x v_i         a term for each input and unit; independent of M
    MN    u_m x v_i                          a term for each module and input, shared by all units
    rank  u_m x (v @ pivot column of T_m)    rank(T_m) terms a module, shared by all units

There is no other source of products: every Bilinear of every circuit goes through one of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from constructions.sparse import Sparse, ones, stack_columns, stack_rows
from theory.arithmetic import Array, as_exact, as_float
from theory.ranks import Basis

ROUTES = ("M", "N", "MN", "rank")


@dataclass(frozen=True, eq=False)
class Terms:
    """value = sum_r (u @ left)_r (v @ right)_r out[r]: left (u, R), right (v, R), out (R, width).

    coordinate (R,): the entry of u that is the left form, or -1 where it is a mixture.
    unit (R,): the only column that out[r] feeds, or -1 where it is shared.
    """

    left: Sparse
    right: Sparse
    out: Sparse
    coordinate: Array
    unit: Array

    @property
    def count(self) -> int:
        """Number of rank-one terms R."""
        return len(self.coordinate)

    def keep(self, chosen: Array) -> Terms:
        """Only the terms where ``chosen`` is true."""
        if np.all(chosen):
            return self
        r = np.flatnonzero(chosen)
        return Terms(
            self.left.take_columns(r),
            self.right.take_columns(r),
            self.out.take_rows(r),
            self.coordinate[r],
            self.unit[r],
        )


def decompose(tensor: Array, route: str, exact: bool, basis: Basis | None = None) -> Terms:
    """The terms of a tensor (u, v, width) along a route, in either arithmetic; terms that are 0 do not occur.

    ``basis`` (theory.ranks) is needed for the rank route, so that floats and Fractions choose the same pivots.
    """
    tensor = as_exact(tensor) if exact else as_float(tensor)
    if route == "M":
        return _modules(tensor, exact)
    if route == "N":
        swapped = _modules(tensor.transpose(1, 0, 2), exact)
        none = np.full(swapped.count, -1)
        return Terms(swapped.right, swapped.left, swapped.out, none, swapped.unit)
    if route == "MN":
        return _pairs(tensor, exact)
    if route == "rank":
        assert basis is not None
        return _pivots(tensor, basis, exact)
    raise ValueError(f"route: {route!r} is unknown; use auto or one of {', '.join(ROUTES)}")


def _modules(tensor: Array, exact: bool) -> Terms:
    m, h = np.nonzero((tensor != 0).any(axis=1))
    r = np.arange(len(m))
    right = Sparse.dense(np.ascontiguousarray(tensor[m, :, h].T))
    return Terms(
        Sparse.units(m, tensor.shape[0], exact),
        right,
        Sparse.build(r, h, ones(len(r), exact), (len(r), tensor.shape[2])),
        m,
        h,
    )


def _pairs(tensor: Array, exact: bool) -> Terms:
    m, i = np.nonzero((tensor != 0).any(axis=2))
    out = tensor[m, i]
    lone = (out != 0).sum(axis=1) == 1
    unit = np.where(lone, (out != 0).argmax(axis=1), -1)
    return Terms(
        Sparse.units(m, tensor.shape[0], exact), Sparse.units(i, tensor.shape[1], exact), Sparse.dense(out), m, unit
    )


def _pivots(tensor: Array, basis: Basis, exact: bool) -> Terms:
    """T_m = (pivot columns) @ (coefficients), or plain inputs where T_m has full row rank (then MN is the same)."""
    pairs = _pairs(tensor * as_mask(basis.by_input, exact), exact)
    m, h = np.nonzero(basis.pivots)
    right = Sparse.dense(np.ascontiguousarray(tensor[m, :, h].T))
    out = Sparse.dense(basis.coefficients(m, h, exact))
    counts = np.bincount(out.row, minlength=len(m))
    only = np.full(len(m), -1)
    only[out.row] = out.col
    pivots = Terms(Sparse.units(m, tensor.shape[0], exact), right, out, m, np.where(counts == 1, only, -1))
    if pairs.count == 0 or pivots.count == 0:
        return pivots if pairs.count == 0 else pairs
    return _join(pairs, pivots)


def as_mask(modules: Array, exact: bool) -> Array:
    """A 0/1 factor per module that broadcasts over (modules, v, width)."""
    mask = modules[:, None, None].astype(float)
    return as_exact(mask) if exact else mask


def _join(a: Terms, b: Terms) -> Terms:
    return Terms(
        stack_columns([a.left, b.left]),
        stack_columns([a.right, b.right]),
        stack_rows([a.out, b.out]),
        np.concatenate([a.coordinate, b.coordinate]),
        np.concatenate([a.unit, b.unit]),
    )
