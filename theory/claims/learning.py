"""Proofs about what can be learned and decoded: which tasks a network's errors let one recover, which tasks determine
others.
"""

from __future__ import annotations

import sympy as sp

from theory.claims.symbolic import nonnegative, zero, zeros

_delta, _Delta, _share, _D, _t = sp.symbols("delta Delta share D t", positive=True)


def nearest_task() -> bool:
    """C9: where a network differs from f_z on less than Delta/2 of the x, every other task differs from it on more.

    P(net != f_z') >= P(f_z != f_z') - P(net != f_z) >= Delta - d, and Delta - d > d for d = Delta/2 - t, t > 0. The
    same with L2 distances: D - d > d for d < D/2.
    """
    d = _Delta / 2 - _t
    return sp.expand(_Delta - d - d).is_positive is True and zero(_Delta - d - d - 2 * _t)


def markov_is_attained() -> bool:
    """C9: the bounds 2 delta/Delta and 4 MSE/D^2 are attained, where ties go wrong.

    On a share of the tasks the network is half-way between two, elsewhere right: delta = share Delta/2 and MSE = share
    (D/2)^2, and exactly this share fails.
    """
    return zeros(
        2 * (_share * _Delta / 2) / _Delta - _share,
        4 * (_share * (_D / 2) ** 2) / _D**2 - _share,
    )


def without_separation() -> bool:
    """C9: a constant encoding of two tasks that differ with probability 2 delta is right with probability 1 - delta,
    and no decoder recovers the task with probability above 1/2 < 1 - sqrt(delta), for delta < 1/4.

    The network computes one of the two tasks: wrong on half of the tasks with probability 2 delta. With sqrt(delta) =
    1/2 - t, t > 0: 1 - sqrt(delta) - 1/2 = t.
    """
    wrong = sp.Rational(1, 2) * 2 * _delta
    root = sp.Rational(1, 2) - _t
    return zeros(wrong - _delta, 1 - root - sp.Rational(1, 2) - _t)


def twins_agree() -> bool:
    """C15: if b_m becomes b_m + v_m c, the mixture sum_m z_m b_m changes by (z . v) c: by 0 for every z orthogonal to
    v.

    For any number of modules: the summands agree one by one.
    """
    m = sp.Symbol("m", integer=True, positive=True)
    z, b, v = (sp.IndexedBase(name) for name in "zbv")
    c = sp.Symbol("c", real=True)
    return zero(z[m] * (b[m] + v[m] * c) - z[m] * b[m] - c * z[m] * v[m])


def chain_attains_the_floor() -> bool:
    """C15: T supports of K modules in a chain join T (K - 1) + 1 modules, so that ceil((M - 1)/(K - 1)) join M; and
    this is never fewer than ceil(M/K), for M >= K.

    (M - 1)/(K - 1) - M/K = (M - K)/(K (K - 1)) >= 0.
    """
    K, more = sp.Symbol("K", integer=True, positive=True), sp.Symbol("j", integer=True, nonnegative=True)
    k = K + 1  # K >= 2
    M = k + more
    T = sp.Symbol("T", integer=True, positive=True)
    joined = k + (T - 1) * (k - 1) - (T * (k - 1) + 1)
    gap = (M - 1) / (k - 1) - M / k - more / (k * (k - 1))
    return zeros(joined, gap) and nonnegative(more / (k * (k - 1)))


def pairs_miss_a_direction() -> bool:
    """C15: on a bipartite graph the vector of +1 on one side and -1 on the other is orthogonal to every unweighted
    pair.

    A pair has one module on each side: 1 - 1 = 0. So their rank is at most M - 1, however many pairs there are.
    """
    first, second = sp.Integer(1), sp.Integer(-1)
    return zero(1 * first + 1 * second)


def passing_through() -> bool:
    """C14: ReLU(z) = z for z >= 0, so a layer that passes z on decodes it with R2 = 1, whatever the outputs are."""
    z = sp.Symbol("z", nonnegative=True)
    return zero(sp.Max(z, 0) - z)


def gate_reveals() -> bool:
    """C14: for khot weights the first hidden layer reveals z_m: the gate of a form with |a| <= A, at any x with a >
    -A, is above 0 if z_m = 1 and is 0 if z_m = 0.

    ReLU(a + A + 2A(z - 1)) is a + A = t > 0 at z = 1, and ReLU(a - A) = 0 at z = 0, since a <= A.
    """
    a, A = sp.Symbol("a", real=True), sp.Symbol("A", positive=True)
    on = (a + A + 2 * A * (1 - 1)).subs(a, _t - A)
    below = sp.Symbol("s", nonnegative=True)
    off = (a + A + 2 * A * (0 - 1)).subs(a, A - below)
    return sp.expand(on).is_positive is True and sp.expand(off).is_nonpositive is True
