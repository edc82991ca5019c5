"""Proofs of the exact gadgets: gates (G1, G2), maximum (G7), indicator of a support, words.

Each function proves one step of `theory.claims.statements` and returns whether the proof went through. What
the symbols p, r, x, y, g >= 0 stand for is said in `theory.claims.symbolic`.
"""

from __future__ import annotations

import sympy as sp

from theory.claims.symbolic import g as gap
from theory.claims.symbolic import lo, p, r, relu, symmetric, x, y, zero, zeros


def gate() -> bool:
    """G1: z a = ReLU(a + A + 2A(z - 1)) - A z for z = 0, 1 and all |a| <= A."""
    a, A = symmetric()
    return zeros(*(relu(a + A + 2 * A * (z - 1)) - A * z - z * a for z in (0, 1)))


def gate_interval() -> bool:
    """G1: z v = ReLU(v - lo + W(z - 1)) + lo z for z = 0, 1 and all lo <= v <= hi, W = hi - lo."""
    v, W = lo + p, p + r
    return zeros(*(relu(v - lo + W * (z - 1)) + lo * z - z * v for z in (0, 1)))


def gate_nonnegative() -> bool:
    """G1: z a = ReLU(a - B(1 - z)) for z = 0, 1 and all 0 <= a <= B: nothing to carry."""
    return zeros(*(relu(p - (p + r) * (1 - z)) - z * p for z in (0, 1)))


def _grid_contribution(distance: sp.Expr, d_j: sp.Expr) -> sp.Expr:
    """The j-th term of G2, d_j ReLU(v - lo + W distance/d_j) - W ReLU(distance), where distance = z - s_j."""
    W = p + r
    return d_j * relu(p + W * distance / d_j) - W * relu(distance)


def grid_term() -> bool:
    """G2, one term j at z = s_i, any gaps and any j: d_j (v - lo) if j <= i, else 0.

    j < i: z - s_j is a sum of gaps, any number g >= 0. j = i: it is 0. j > i: it is -(d_j + g).
    """
    d_j = sp.Symbol("d_j", positive=True)
    below, at, above = (_grid_contribution(z, d_j) for z in (gap, sp.Integer(0), -d_j - gap))
    return zeros(below - d_j * p, at - d_j * p, above)


def grid_telescopes() -> bool:
    """G2, induction on i: the terms sum to s_i (v - lo) at z = s_i, and with lo z added to z v.

    At z = 0 all terms are 0 (each has j > i). From s_{i-1} to s_i the terms j < i keep their d_j (v - lo) and
    the term i joins them.
    """
    s, d_i = sp.symbols("s d_i", positive=True)
    step = zero(s * p + _grid_contribution(sp.Integer(0), d_i) - (s + d_i) * p)
    return step and zero(s * p + lo * s - s * (lo + p))


def grid_written_out() -> bool:
    """G2 with every term written out, for L = 1..6 levels at every level, gaps symbolic; no ReLU(z - s_L)."""
    v, W = lo + p, p + r
    for levels in range(1, 7):
        d = sp.symbols(f"d1:{levels + 1}", positive=True)
        s = [sum(d[:j], sp.Integer(0)) for j in range(levels + 1)]
        for z in s:
            gates = sum(d[j] * relu(v - lo + W * (z - s[j + 1]) / d[j]) for j in range(levels))
            offsets = sum((W * relu(z - s[j]) for j in range(1, levels)), sp.Integer(0))
            if not zero(gates - offsets + lo * z - z * v):
                return False
    return True


def grid_between_levels() -> bool:
    """G2 off the grid, z = s_{i-1} + x with d_i = x + y: z v - G2 = min(x p, y r), hence in [0, W d_i/4].

    Terms j < i and j > i are as on the grid; term i is ReLU(x p - y r). min(s, t)^2 <= s t, and p r <=
    (W/2)^2, x y <= (d_i/2)^2.
    """
    W, d_i, s = p + r, x + y, sp.Symbol("s", nonnegative=True)
    d_j = sp.Symbol("d_j", positive=True)
    below = zero(_grid_contribution(x + gap, d_j) - d_j * p)
    above = zero(_grid_contribution(-y - gap - d_j, d_j))
    argument = sp.expand(d_i * p - W * y)  # d_i times the argument of term i, whose distance is z - s_i = -y
    kink = zero(argument - (x * p - y * r))
    miss = (lo + p) * (s + x) - (s * p + lo * (s + x))  # z v minus everything but term i
    both = zeros(miss - x * p, miss - argument - y * r)  # term i off: x p; on: y r
    products = zeros(W**2 - 4 * p * r - (p - r) ** 2, d_i**2 - 4 * x * y - (x - y) ** 2)
    return below and above and kink and both and products


def grid_slopes() -> bool:
    """G2 between two levels: slope lo in z where term i is off, hi where it is on, so max(|lo|,
    |hi|)-Lipschitz.
    """
    z, s, d_i, v, W = sp.symbols("z s d_i v W", real=True)
    off = s * (v - lo) + lo * z
    on = off + d_i * (v - lo) + W * (z - (s + d_i))
    return zeros(sp.diff(off, z) - lo, sp.diff(on, z) - (lo + W))


def linear_forms() -> bool:
    """z (x Theta) = (z x U) V for Theta = U V: gating rank-many linear forms of x gates every unit."""
    N, H, rank = sp.symbols("N H rank", integer=True, positive=True)
    z = sp.Symbol("z")
    row, U, V = sp.MatrixSymbol("x", 1, N), sp.MatrixSymbol("U", N, rank), sp.MatrixSymbol("V", rank, H)
    difference = z * (row * (U * V)) - (z * row * U) * V
    return sp.simplify(difference) == sp.ZeroMatrix(1, H)


def maximum() -> bool:
    """G7: max(a, b) = a + ReLU(b - a) and min(a, b) = a - ReLU(a - b), for b = a + p and for b = a - p."""
    a = sp.Symbol("a", real=True)
    above = zeros(a + relu(p) - (a + p), a - relu(-p) - a)
    return above and zeros(a + relu(-p) - a, a - relu(p) - (a - p))


def absolute_value() -> bool:
    """|a| = ReLU(a) + ReLU(-a) for a = p and for a = -p."""
    return zeros(*(relu(a) + relu(-a) - p for a in (p, -p)))


def indicator() -> bool:
    """C7: ReLU(a - B k) is ReLU(a) at k = 0 and 0 at every k >= 1, for all |a| <= B.

    k = |S| - sum_S z + sum_notS z counts the modules in which the task differs from the support S.
    """
    a, B = symmetric()
    others = sp.Symbol("j", integer=True, nonnegative=True)
    return relu(a - B * (1 + others)) == 0


def one_hot_gates() -> bool:
    """C13: one bound A >= |a_m| for all generators gives sum_m z_m a_m = sum_m ReLU(a_m + A + 2A(z_m - 1)) -
    A.

    z is one-hot: the letter's own gate is a + A, every other is off, and sum_m A z_m = A needs no neuron.
    """
    a, A = symmetric()
    own, other = relu(a + A), relu(a + A - 2 * A)
    return zero(own - A - a) and other == 0


def carrying() -> bool:
    """C11: ReLU(z) = z for z >= 0, so a weight passes any number of layers with one neuron each."""
    return relu(relu(p)) == p


def positive_scaling() -> bool:
    """C8c: ReLU(t a) (w / t) = ReLU(a) w for t > 0, both signs of a: each unit has a free scale, H in all."""
    t, w = sp.Symbol("t", positive=True), sp.Symbol("w", real=True)
    return zeros(*(relu(t * a) * (w / t) - relu(a) * w for a in (p, -p)))
