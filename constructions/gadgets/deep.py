"""Deep products: G5 (square by self-similarity) and G6 (product), with a radix chosen for each step.

For s in [0, 1] let T_q be the zigzag of q linear pieces and g_q the interpolant of s - s^2 with q pieces. Then

    s - s^2 = g_q(s) + q^-2 (T_q(s) - T_q(s)^2)                                                  (*)

Proof. On piece i, s = (i + r)/q with r in [0, 1], and g_q is the chord: s - s^2 - g_q(s) = r(1 - r)/q^2; T_q(s) is r or
1 - r, and r - r^2 is the same for both.  QED. Iterating (*) with radices q_1 .. q_D, Q their product, and leaving
out the last remainder, which lies in [0, 1/4], gives s - s^2 with error exactly 1/(4 Q^2), one-sided,
attained at the midpoints.

Hinges of one step: ReLU(y - j/q), j = 0 .. q-1, y = T(..) in [0, 1]:
    g_q(y) = (1 - 1/q) y - (2/q) sum_{j>=1} ReLU(y - j/q),    T_q(y) = q y + sum_{j>=1} (-1)^j 2q ReLU(y - j/q).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from constructions.gadgets.ridges import Hinges, lift, none, pad, ragged, ratio
from constructions.sparse import Sparse, zeros
from theory.arithmetic import Array, as_float

RADICES = (2, 3, 4)


@cache
def radices(pieces: int) -> tuple[int, ...]:
    """Cheapest radices 2, 3, 4 whose product is at least ``pieces``: fewest hinges, then fewest steps (G5)."""
    best: tuple[int, int, tuple[int, ...]] | None = None
    for first in RADICES:
        rest = radices(-(-pieces // first)) if first < pieces else ()
        found = (first + sum(rest), 1 + len(rest), (first, *rest))
        best = found if best is None or found < best else best
    assert best is not None
    return best[2]


@dataclass(frozen=True, eq=False)
class Step:
    """One step of the chain for the terms still running: hinges of y, columns (n,), and how they read the step before.

    reads: (hinges of the step before, n) or None at the first step. weight: what each hinge adds to its term.
    """

    hinges: Hinges
    reads: Sparse | None


@dataclass(frozen=True, eq=False)
class Chain:
    """A deep gadget for all terms: steps, the linear remainder, and the exact error (terms,)."""

    steps: tuple[Step, ...]
    linear_u: Array
    linear_v: Array
    constant: Array
    error: Array


def deep_product(
    plans: list[tuple[int, ...]],
    u: tuple[Array, Array],
    v: tuple[Array, Array],
    exact: bool,
    interval: tuple[Fraction, Fraction] | None = None,
) -> Chain:
    """G6: u v from two squares, s_p = (1 + p)/2, s_q = (1 + q)/2, p, q = (t +- w)/2 (theory.md, G5, G6).

    p^2 = 1 - 4 (s_p - s_p^2), so U V t w = -4 U V [(s_p - s_p^2) - (s_q - s_q^2)]: error exactly U V / Q^2, one-sided
    errors cancelling; 2 sum q_k neurons. On the axes s_p and s_q are mirror images, and the product is exactly 0.

    With ``interval`` (lo, hi), lo >= hi/2, u is z in {0} + [lo, hi]: t = (z - mu)/rho, and z w = mu s w + rho A t w s,
    where s w = 2 A (ReLU(s_p) - ReLU(s_q)) is free: at z = 0, p, q <= -1, every hinge is off. Error rho A / Q^2.

    plans: radices of each term; u, v: (middle, half-range), (terms,) float64. With ``interval`` u is ignored.
    """
    terms = len(plans)
    half_range = pad(v[1]) if interval else v[1]
    v_mid, v_half = lift(v[0], exact), lift(half_range, exact)
    if interval:
        mu, rho = (interval[0] + interval[1]) / 2, (interval[1] - interval[0]) / 2
        u_mid, u_half = (np.full(terms, c if exact else float(c)) for c in (mu, rho))
        free = 2 * u_mid * v_half
    else:
        u_mid, u_half = (lift(a, exact) for a in u)
        free = none(terms, exact)
    depth = max((len(p) for p in plans), default=0)
    table = np.ones((terms, depth + 1), dtype=int)
    for k in range(depth):
        table[:, k] = [p[k] if k < len(p) else 1 for p in plans]

    steps: list[Step] = []
    scale = np.cumprod(table.astype(object), axis=1)  # Python integers: Q^2 may exceed 64 bits
    before: tuple[Array, Array, Array] | None = None
    for k in range(depth):
        running = np.flatnonzero(table[:, k] > 1)
        if len(running) == 0:
            break
        q = table[running, k]
        slot, j = ragged(np.repeat(q, 2))  # two signs a term, q hinges a sign
        term, sign = running[slot // 2], 1 - 2 * (slot % 2)
        number = table[term, k]
        knot = ratio(j, number, exact)
        shrink = ratio(1, scale[term, k - 1] ** 2 if k else np.ones(len(term), dtype=int), exact)
        slope = np.where(j == 0, 1 - ratio(1, number, exact), -ratio(2, number, exact))
        weight = lift(sign, exact) * shrink * slope * -4 * (u_half * v_half)[term]
        if k == 0:
            weight = weight + np.where(j == 0, 1, 0) * lift(sign, exact) * free[term]
        quarter = Fraction(1, 4) if exact else 0.25
        on_u = quarter / u_half[term]
        on_v = lift(sign, exact) * quarter / v_half[term]
        bias = (quarter * 2 if k == 0 else quarter * 0) - knot
        if k == 0:
            bias = bias - on_u * u_mid[term] - on_v * v_mid[term]
            reads = None
            margin = _first_margin(interval, v[1], half_range, term) + as_float(knot)
        else:
            reads = _zigzag(before, term, sign, exact)
            on_u, on_v = zeros(len(term), exact), zeros(len(term), exact)
            margin = as_float(knot)
        off = margin * (1 - 2.0**-40) if interval else np.zeros(len(term))
        steps.append(Step(Hinges(term, on_u, on_v, bias, weight, (1 - as_float(knot)) * (1 + 2.0**-40), off), reads))
        before = (2 * term + (sign < 0), j, number)
    error = as_float(u_half) * half_range / np.array([float(np.prod(p)) for p in plans]) ** 2 * (1 + 2.0**-50)
    if interval:
        zero = none(terms, exact)
        return Chain(tuple(steps), v_mid, zero, zero, error)
    return Chain(tuple(steps), v_mid, u_mid, -u_mid * v_mid, error)


def _zigzag(before: tuple[Array, Array, Array] | None, term: Array, sign: Array, exact: bool) -> Sparse:
    """(hinges before, hinges now): T_q of the step before, read by every hinge of the same term and sign."""
    assert before is not None
    strand, j, number = before
    slope = np.where(j == 0, lift(number, exact), lift(np.where(j % 2, -2, 2) * number, exact))
    now = term * 2 + (sign < 0)
    starts = np.searchsorted(strand, now, side="left")
    lengths = np.searchsorted(strand, now, side="right") - starts
    column, place = ragged(lengths)
    row = starts[column] + place
    return Sparse.build(row, column, slope[row], (len(strand), len(now)))


def _first_margin(interval: tuple[Fraction, Fraction] | None, reach: Array, padded: Array, term: Array) -> Array:
    """How far s_p and s_q lie below 0 at z = 0: (1 + (t + w/A)/2)/2 with t = -mu/rho <= -3."""
    if interval is None:
        return np.zeros(len(term))
    mu, rho = (interval[0] + interval[1]) / 2, (interval[1] - interval[0]) / 2
    highest = (1 + (-float(mu / rho) + reach / padded) / 2) / 2
    return np.maximum(-highest[term], 0) * (1 - 2.0**-10)
