"""Exact gadgets: G1 and G2 (a gate on a grid), G7 (maximum)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from constructions.gadgets.ridges import Hinges, Ridges, Shared, lift, none, pad
from theory.arithmetic import Array, as_float


def gate(levels: tuple[Fraction, ...], low: Array, high: Array, exact: bool) -> Ridges:
    """G1 and G2: z v, exactly, for z in {0 = s_0 < s_1 < .. < s_L} and low <= v <= high (theory.md, G1, G2).

    With d_j = s_j - s_{j-1} and any W >= high - low:

        z v = sum_{j<=L} d_j ReLU(v - low + W (z - s_j)/d_j) - sum_{j<L} W ReLU(z - s_j) + low z.

    Proof, at z = s_i. j > i: z - s_j <= -d_j, the argument is <= v - low - W <= 0, the hinge is off. j <= i: the
    argument is >= 0 and d_j times it is d_j (v - low) + W (s_i - s_j); the second sum removes W (s_i - s_j), and
    the d_j add up to s_i. There remains s_i (v - low) + low s_i = s_i v.  QED. L = 1, s_1 = 1 is G1.

    L hinges a term, L - 1 a module shared by its terms. Off the grid, between two levels, the slope in z is low or
    high (up to the padding of W): the gate is as Lipschitz in z as the product. Where low = 0 (v >= 0) nothing remains
    to be carried; where low = high, v is a constant and no hinge is needed.
    low, high: (terms,) float64.
    """
    terms, count = len(low), len(levels)
    live = np.flatnonzero(high > low)
    width = pad(high - low)
    s = np.array([Fraction(0), *levels], dtype=object)
    d, s = np.diff(s), s[1:]
    if not exact:
        d, s = as_float(d), as_float(s)
    term = np.repeat(live, count)
    j = np.tile(np.arange(count), len(live))
    slope = lift(width, exact)[term] / d[j]
    rise = as_float(s)[-1] - as_float(s)[j]
    spread = (high - low)[term]
    hinges = Hinges(
        term,
        on_u=slope,
        on_v=lift(np.ones(len(term)), exact),
        bias=-lift(low, exact)[term] - slope * s[j],
        weight=d[j],
        upper=(spread + as_float(slope) * rise) * (1 + 2.0**-40),
        margin=(width[term] - spread) * (1 - 2.0**-10),
    )
    shared = None
    if count > 1:
        weight = -lift(np.where(high > low, width, 0.0), exact)
        shared = Shared(s[:-1], np.repeat(weight[:, None], count - 1, axis=1), as_float(s)[-1] - as_float(s)[:-1])
    zero = none(terms, exact)
    return Ridges(hinges, lift(low, exact), zero, zero, shared, np.zeros(terms))


def maximum_weights() -> tuple[int, int]:
    """G7: max(a, b) = a + ReLU(b - a), exactly: the coefficients of a and b inside the hinge.

    Proof. b >= a: a + b - a = b. b < a: a + 0 = a.  QED. One neuron; a minimum is -max(-a, -b).
    """
    return -1, 1
