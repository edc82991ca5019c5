"""Proofs about decoding: when a network's function gives its task away (C9).

The two distances are treated alike: d(f, g) = P_x(f != g) and d(f, g) = E_x |f - g|^2 both satisfy d(f, f') <= (c/2)
(d(g, f) + d(g, f')), with c = 2 and c = 4, and nothing else is used of them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import sympy as sp

from theory.claims.symbolic import g as gap
from theory.claims.symbolic import nonnegative, p, r, relu, zero, zeros

_t = sp.Symbol("t", positive=True)


def one_of_two_is_missed() -> bool:
    """C9, c = 2: where f != f', every g differs from f or from f'; with a tolerance t, where |f - f'| > 2t, from one of
    them by more than t.

    All equality patterns of three values occur among three labels. If a = g - f and b = g - f' are within t, then 2t -
    (a - b) = (t - a) + (t + b) >= 0, and 2t + (a - b) = (t + a) + (t - b) >= 0.
    """
    patterns = all((f != h) <= (g != f) + (g != h) for f, g, h in product(range(3), repeat=3))
    above, below = 2 * _t - ((_t - p) - (r - _t)), 2 * _t + ((p - _t) - (_t - r))
    return patterns and nonnegative(above) and nonnegative(below)


def squares_between_two() -> bool:
    """C9, c = 4: (f - f')^2 <= 2 (g - f)^2 + 2 (g - f')^2 for all reals; summed over outputs and averaged over x.

    With a = g - f and b = g - f' the difference is (a + b)^2.
    """
    a, b = sp.symbols("a b", real=True)
    square = (a + b) ** 2
    return zero(2 * a**2 + 2 * b**2 - (b - a) ** 2 - square) and square.is_nonnegative is True


def failing_means_far() -> bool:
    """C9: where the network is at least as near to another task as to its own, its error d is at least 1/c of the
    smallest distance of two tasks.

    The other's distance is d - g >= 0 and the smallest distance of two tasks is (c/2) (d + d - g) - p: c d exceeds it
    by (c/2) g + p.
    """
    d, c = sp.symbols("d c", positive=True)
    smallest = c / 2 * (d + d - gap) - p
    surplus = sp.expand(c * d - smallest)
    return zero(surplus - (c / 2 * gap + p)) and nonnegative(surplus)


def markov() -> bool:
    """C9: t [X >= t] <= X for X >= 0, so P(X >= t) <= E X/t: the nearest task is wrong with probability at most c E d
    over the smallest distance, 2 delta/Delta and 4 MSE/D^2.

    X = t + p, where the indicator is 1, and X = p below t, where it is 0.
    """
    return nonnegative((_t + p) - _t * 1) and nonnegative(p - _t * 0)


def ties_attain() -> bool:
    """C9: both bounds are attained by the nearest-task decoder: a network half-way between two tasks on a share s of
    the tasks, right elsewhere, has delta = s Delta/2 and MSE = s D^2/4, and where ties go wrong s of the tasks fail.

    Half-way: equal to f on half of where f and f' differ, to f' on the other half; or (f + f')/2.
    """
    f, h, s, Delta, D = sp.symbols("f h s Delta D", positive=True)
    middle = (f + h) / 2
    tie = (middle - f) ** 2 - (middle - h) ** 2
    quarter = (middle - f) ** 2 - (f - h) ** 2 / 4
    return zeros(tie, quarter, 2 * (s * Delta / 2) / Delta - s, 4 * (s * D**2 / 4) / D**2 - s)


def no_decoder_does_better() -> bool:
    """C9: 2 delta/Delta cannot be improved for ANY decoder: T equally likely tasks, the i-th 1 on a set B_i and else 0,
    the B_i disjoint and equally likely, a constant encoding and the network 0 fail with 1 - 1/T -> 1 = 2 delta/Delta.

    For T = 2..6 with all probabilities counted; one encoding can be given one name only. Showing the encoding on all
    but a share s of the tasks scales both sides by s.
    """
    T = sp.Symbol("T", positive=True)
    for tasks in range(2, 7):
        functions = np.eye(tasks, tasks + 1, dtype=int)
        points = functions.shape[1]
        apart = {Fraction(int((a != b).sum()), points) for a, b in combinations(functions, 2)}
        errors = Fraction(int((functions != 0).sum()), tasks * points)
        best = max(Fraction(sum(name == task for task in range(tasks)), tasks) for name in range(tasks))
        if len(apart) != 1 or 2 * errors != apart.pop() or 1 - best != 1 - Fraction(1, tasks):
            return False
    return sp.limit(1 - 1 / T, T, sp.oo) == 1


def best_decoder_for_squares() -> bool:
    """C9: given p_i, the chances of the tasks under one encoding, sum_i p_i |g - f_i|^2 >= (D^2/2) (1 - max p) for
    every g: naming the likeliest task fails with at most 2 MSE/D^2, and two tasks with g half-way attain it.

    sum p_i |g - f_i|^2 = sum_{i<j} p_i p_j |f_i - f_j|^2 + |g - mean|^2, the pairs' products sum to (1 - sum p_i^2)/2,
    and max p - sum p_i^2 = sum p_i (max p - p_i) >= 0. For T = 2..4; the same by hand for more.
    """
    point = sp.Symbol("g0", real=True)
    for tasks in (2, 3, 4):
        f = sp.symbols(f"f0:{tasks}", real=True)
        w = sp.symbols(f"w0:{tasks}", positive=True)
        chances = [v / sum(w) for v in w]
        pairs = [(i, j) for i in range(tasks) for j in range(i)]
        spread = sum(chances[i] * chances[j] * (f[i] - f[j]) ** 2 for i, j in pairs)
        mean = sum(c * v for c, v in zip(chances, f, strict=True))
        error = sum(c * (point - v) ** 2 for c, v in zip(chances, f, strict=True))
        products = sum(chances[i] * chances[j] for i, j in pairs) - (1 - sum(c**2 for c in chances)) / 2
        likeliest = sum(c * (chances[0] - c) for c in chances) - (chances[0] - sum(c**2 for c in chances))
        if not zeros(error - spread - (point - mean) ** 2, products, likeliest):
            return False
    D = sp.Symbol("D", positive=True)
    return zero(2 * (D**2 / 4) / D**2 - (1 - sp.Rational(1, 2)))


def without_separation() -> bool:
    """C9: without separation it fails: the tasks 0 and ReLU(x - 1 + 4 delta) on [-1, 1] differ with probability 2
    delta; a constant encoding with the network 0 is right with probability 1 - delta, and no decoder is with more than
    1/2, which is below 1 - sqrt(delta) for all delta < 1/4.

    With sqrt(delta) = 1/2 - t, t > 0, the gap 1 - sqrt(delta) - 1/2 is t.
    """
    delta = sp.Symbol("delta", positive=True)
    differ = (1 - (1 - 4 * delta)) / 2  # the share of [-1, 1] above the kink
    wrong = sp.Rational(1, 2) * differ  # two equally likely tasks
    root = sp.Rational(1, 2) - _t
    positive = (1 - root - sp.Rational(1, 2)).is_positive is True
    return positive and zeros(differ - 2 * delta, wrong - delta)


def with_separation() -> bool:
    """C9: with it, Delta >= 2 sqrt(delta), the paper's form follows: 2 delta/Delta <= sqrt(delta).

    With s = sqrt(delta) and Delta = 2s + p the difference is s p/(2s + p) >= 0.
    """
    s = sp.Symbol("s", positive=True)
    surplus = s - 2 * s**2 / (2 * s + p)
    return zero(surplus - s * p / (2 * s + p)) and (s * p / (2 * s + p)).is_nonnegative is True


def continuous_weights() -> bool:
    """C9: for continuous z the squared form says nothing, D = 0, and Delta may yet be positive: ReLU(z x), x in [-1,
    1], has D^2 = (z - z')^2/6 and Delta = 1/2 for every two weights.

    Where x <= 0 both are 0, where x > 0 they differ by (z - z') x.
    """
    first, second, more = sp.symbols("z z' more", positive=True)
    at = sp.Symbol("x", positive=True)
    difference = relu(first * at) - relu(second * at)
    same = relu(-first * at) - relu(-second * at)
    square = sp.integrate(sp.expand(difference**2), (at, 0, 1)) / 2
    distinct = difference.subs(first, second + more)
    return zeros(same, square - (first - second) ** 2 / 6) and sp.expand(distinct).is_positive is True
