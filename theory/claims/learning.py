"""Proofs about learning: what layers need not show (C14), and which tasks no training settles (C15)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import sympy as sp

from theory.claims.symbolic import p, r, relu, x, y, zero, zeros
from theory.ranks import reduce_columns

_t = sp.Symbol("t", positive=True)


def twins_agree() -> bool:
    """C15: if Theta becomes Theta + v W, the mixture z Theta changes by (z v) W, so not at all for z orthogonal to v;
    the biases likewise.

    For any sizes: Theta is (M, weights and biases of a layer), v (M, 1), W (1, the same).
    """
    M, size = sp.symbols("M size", integer=True, positive=True)
    z, theta = sp.MatrixSymbol("z", 1, M), sp.MatrixSymbol("Theta", M, size)
    v, W = sp.MatrixSymbol("v", M, 1), sp.MatrixSymbol("W", 1, size)
    change = z * (theta + v * W) - z * theta - (z * v) * W
    return sp.expand(change) == sp.ZeroMatrix(1, size)


def twins_differ() -> bool:
    """C15: raising one pre-activation a by t > max(0, -a) raises its ReLU, from 0 or from a, so a unit whose readout is
    not 0 changes an output; one unit alone, since the rises of several can cancel.

    a = p: p + t - p = t. a = -p and t = p + s: s - 0. Cancelling: readout (1, -1) and both raised by t from 0.
    """
    s = sp.Symbol("s", positive=True)
    on = relu(p + _t) - relu(p)
    off = relu(-p + (p + s)) - relu(-p)
    cancels = 1 * relu(_t) + (-1) * relu(_t)
    return zeros(on - _t, off - s, cancels)


def chain_attains_the_floor() -> bool:
    """C15: T supports of K modules in a chain join T (K - 1) + 1 modules, so that ceil((M - 1)/(K - 1)) join M; this is
    never fewer than ceil(M/K), for M >= K >= 2.

    (M - 1)/(K - 1) - M/K = (M - K)/(K (K - 1)) >= 0.
    """
    T = sp.Symbol("T", integer=True, positive=True)
    k = sp.Symbol("K", integer=True, positive=True) + 1
    M = k + sp.Symbol("j", integer=True, nonnegative=True)
    surplus = (M - k) / (k * (k - 1))
    joined = k + (T - 1) * (k - 1) - (T * (k - 1) + 1)
    return zeros(joined, (M - 1) / (k - 1) - M / k - surplus) and surplus.is_nonnegative is True


def _joined(modules: int, pairs: tuple[tuple[int, int], ...]) -> bool:
    """Whether the graph of the pairs is connected."""
    reached = {0}
    for _ in range(modules):
        reached |= {m for pair in pairs if reached & set(pair) for m in pair}
    return len(reached) == modules


def rank_of_pairs() -> bool:
    """C15: the unweighted pairs of a connected graph have rank M - 1 if it is bipartite, else M: for every graph on up
    to 5 modules, by exact elimination.

    Bipartite: some colouring puts the modules of each pair on two sides.
    """
    for modules in range(2, 6):
        every = list(combinations(range(modules), 2))
        for size in range(modules - 1, len(every) + 1):
            for pairs in combinations(every, size):
                if not _joined(modules, pairs):
                    continue
                tasks = np.zeros((size, modules), dtype=int)
                for row, pair in zip(tasks, pairs, strict=True):
                    row[list(pair)] = 1
                sides = product((0, 1), repeat=modules)
                bipartite = any(all(side[a] != side[b] for a, b in pairs) for side in sides)
                if len(reduce_columns(tasks)[0]) != modules - bipartite:
                    return False
    return True


def span_is_not_enough() -> bool:
    """C15: lying in the span determines nothing by itself: swap two units with equal readouts in module 2 alone, and
    the tasks e_1 and e_2 are as before, while e_1 + e_2 is not.

    f(e_1) = ReLU(a1) + ReLU(b1), f(e_2) = ReLU(a2) + ReLU(b2) is symmetric; f(e_1 + e_2) is 2 at a = 1, b = -1, and
    after the swap 0.
    """
    a, b = sp.symbols("a b", real=True)

    def units(first: sp.Expr, second: sp.Expr) -> sp.Expr:
        return sp.Max(first, 0) + sp.Max(second, 0)

    one, minus = sp.Integer(1), sp.Integer(-1)
    before, after = units(one + one, minus + minus), units(one + minus, minus + one)
    return zero(units(a, b) - units(b, a)) and (before, after) == (2, 0)


def passing_through() -> bool:
    """C14: ReLU(z) = z for z >= 0: M neurons a layer make z an affine function of every hidden layer, and change no
    output.
    """
    return relu(relu(p)) == p


def gate_decodes() -> bool:
    """C14: from the gate u = z (a + A) of a form a of a fresh x, with mean 0 and variance v, the best affine function
    finds z in {0, 1}, q its mean, with R2 = (1 - q)/(1 - q + v/A^2): at least (1 - q)/(4/3 - q) for uniform x, as v <=
    A^2/3; with one x for all tasks (a > -A) R2 = 1, u/(a + A) = z.

    R2 = cov(z, u)^2/(var z var u), E z u = E u = q A, E u^2 = q (A^2 + v). Uniform x_i in +-r_i: v = sum_i w_i^2
    r_i^2/3 and A = sum_i |w_i| r_i; for two inputs 3v + 2 |w_1 w_2| r_1 r_2 = A^2.
    """
    q, A = sp.symbols("q A", positive=True)
    variance = sp.Symbol("v", nonnegative=True)
    covariance = q * A - q * (q * A)
    spread = q * (A**2 + variance) - (q * A) ** 2
    r2 = covariance**2 / (q * (1 - q) * spread)
    shape = zero(r2 - (1 - q) / (1 - q + variance / A**2))
    off = sp.Symbol("o", positive=True)  # 1 - q
    # v/A^2 = x and 1/3 = x + y: the R2 exceeds the least one by off y over a product of positive numbers.
    surplus = off / (off + x) - off / (off + x + y) - off * y / ((off + x) * (off + x + y))
    bounded = zero(surplus) and (off * y / ((off + x) * (off + x + y))).is_nonnegative is True
    forms = zero((p + r) ** 2 - (p**2 + r**2) - 2 * p * r)
    return shape and bounded and forms


def last_layer_is_silent() -> bool:
    """C14: where module m reads x_m alone, the unit is ReLU(sum_{m in S} x_m), and for a fresh x with exchangeable
    entries it has one distribution for all supports S of a size: counted for M = 4, x uniform on {-1, 0, 1}^4.
    """
    cube = np.array(list(product((-1, 0, 1), repeat=4)))
    for size in range(1, 5):
        found = {
            tuple(np.sort(np.maximum(cube[:, list(support)].sum(axis=1), 0)))
            for support in combinations(range(4), size)
        }
        if len(found) != 1:
            return False
    return True
