"""Proofs of the approximate gadgets: square (G3, G5) and product (G4, G4', G6), each with its exact error.

Each function proves one step of `theory.claims.statements` for symbolic numbers of pieces, radices and
ranges, and returns whether the proof went through.
"""

from __future__ import annotations

import sympy as sp

from theory.claims.symbolic import nonnegative, p, r, relu, symmetric, x, y, zero, zeros

_t, _u, _v, _w, _a, _b = sp.symbols("t u v w a b", real=True)
_n, _q, _k = sp.symbols("n q k", integer=True, positive=True)


def _chord_excess(t: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The chord of t^2 over [a, b] minus t^2."""
    return a**2 + (a + b) * (t - a) - t**2


def _knot(k: sp.Expr | int, n: sp.Expr) -> sp.Expr:
    """The k-th knot of [-1, 1] in n equal pieces."""
    return -1 + 2 * k / n


def _dip(s: sp.Expr) -> sp.Expr:
    """s - s^2, what the deep square interpolates."""
    return s - s**2


def chord_error() -> bool:
    """G3: on a piece of length b - a the chord exceeds t^2 by (t - a)(b - t): 0 at the ends, (b - a)^2/4 at
    the middle, its most.
    """
    excess = _chord_excess(_t, _a, _b)
    middle = (_a + _b) / 2
    factored = zero(excess - (_t - _a) * (_b - _t))
    return factored and zero((_b - _a) ** 2 / 4 - excess - (_t - middle) ** 2)


def square_error() -> bool:
    """G3: n equal pieces of [-1, 1] have length 2/n, so the error is in [0, 1/n^2], and 1/n^2 at every
    midpoint.
    """
    left, right = _knot(_k, _n), _knot(_k + 1, _n)
    middle = (left + right) / 2
    return zeros(right - left - 2 / _n, _chord_excess(middle, left, right) - 1 / _n**2)


def odd_pieces_are_flat() -> bool:
    """G3: a chord's slope is a + b, which is 0 on the middle piece of n = 2k + 1: n - 1 hinges and a
    constant.
    """
    n = 2 * _k + 1
    slope = sp.diff(_chord_excess(_t, _a, _b) + _t**2, _t)
    return zeros(slope - (_a + _b), _knot(_k, n) + _knot(_k + 1, n))


def shifted_square() -> bool:
    """G3: shifted down by 1/(2 n^2) the error lies in [-h, h], h = 1/(2 n^2); and no affine function does
    better on a piece.

    For affine l the error E = max |t^2 - l| has 4 E >= (a^2 + b^2 - 2 m^2) = (b - a)^2/2 (m the midpoint; l
    drops out).
    """
    middle, slope, height = (_a + _b) / 2, sp.Symbol("slope"), sp.Symbol("height")
    miss = [t**2 - slope * t - height for t in (_a, middle, _b)]
    piece = sp.expand(miss[0] - 2 * miss[1] + miss[2]) - (_b - _a) ** 2 / 2
    return zeros(piece, ((2 / _n) ** 2 / 2) / 4 - 1 / (2 * _n**2))


def polarisation() -> bool:
    """G4: u v = ((u + v)/2)^2 - ((u - v)/2)^2."""
    return zero(((_u + _v) / 2) ** 2 - ((_u - _v) / 2) ** 2 - _u * _v)


def product_error_attained() -> bool:
    """G4: the error is e((u+v)/2) - e((u-v)/2) with both in [0, 1/n^2], so at most 1/n^2; attained for odd
    and even n.

    Odd n = 2k + 1: u = 1/n, v = -1/n, the midpoint 0 and the knot 1/n. Even n = 2k: u = v = 1/n, the midpoint
    1/n and the knot 0.
    """
    odd, even = 2 * _k + 1, 2 * _k
    odd_sum = _chord_excess(sp.Integer(0), _knot(_k, odd), _knot(_k + 1, odd))
    odd_knot = _knot(_k + 1, odd) - 1 / odd
    even_sum = _chord_excess(1 / even, _knot(_k, even), _knot(_k + 1, even))
    return zeros(odd_sum - 1 / odd**2, odd_knot, even_sum - 1 / even**2, _knot(_k, even))


def product_exact_on_axes() -> bool:
    """G4: no error where u = 0 or v = 0. The knots are symmetric, so e is even; v = 0 compares equal
    arguments, u = 0 opposite ones.
    """
    symmetric_knots = zero(_knot(_k, _n) + _knot(_n - _k, _n))
    even = zero(_chord_excess(-_t, -_b, -_a) - _chord_excess(_t, _a, _b))
    arguments = zeros((_u + 0) / 2 - (_u - 0) / 2, (0 + _v) / 2 + (0 - _v) / 2)
    return symmetric_knots and even and arguments


# G4': u in {0} + [a, b] with a > 0, |v| <= A. On the support u = a + x.
_least = sp.Symbol("a", positive=True)
_value, _bound = symmetric()


def support_gate() -> bool:
    """G4': ReLU(v - A + (2A/a) u) - (2A/a) ReLU(u - a/2) is 0 at u = 0 and v for every u >= a."""

    def gated(u: sp.Expr) -> sp.Expr:
        scale = 2 * _bound / _least
        return relu(_value - _bound + scale * u) - scale * relu(u - _least / 2)

    return zeros(gated(sp.Integer(0)), gated(_least + x) - _value)


def split_on_support() -> bool:
    """G4': u v = mu v + rho A (P^2 - Q^2), P, Q = (t +- v/A)/2, t = (u - mu)/rho in [-1, 1]: error exactly
    rho A/n^2.

    Both of (t, v/A) run through [-1, 1], so the error is rho A times that of G4.
    """
    A = sp.Symbol("A", positive=True)
    mu, rho = (_a + _b) / 2, (_b - _a) / 2
    t = (_u - mu) / rho
    squares = ((t + _v / A) / 2) ** 2 - ((t - _v / A) / 2) ** 2
    ends = zeros(t.subs(_u, _a) + 1, t.subs(_u, _b) - 1)
    return ends and zero(mu * _v + rho * A * squares - _u * _v)


def split_slopes() -> bool:
    """G4': the interpolant of t^2 has first slope beta = -2 + 2/n and jumps by 4/n at each of its n - 1 inner
    knots.

    So I(P) - I(Q) = beta (P - Q) + (4/n) sum_k [ReLU(P - kappa_k) - ReLU(Q - kappa_k)], and P - Q = v/A makes
    mu + rho beta of v.
    """
    first = _knot(0, _n) + _knot(1, _n)
    jump = (_knot(_k, _n) + _knot(_k + 1, _n)) - (_knot(_k - 1, _n) + _knot(_k, _n))
    A = sp.Symbol("A", positive=True)
    difference = (_t + _v / A) / 2 - (_t - _v / A) / 2
    return zeros(first - (-2 + 2 / _n), jump - 4 / _n, difference - _v / A)


def split_off() -> bool:
    """G4' at u = 0: if a >= b/2, every hinge is off, for every n and |v| <= A, so the value is exactly 0.

    With b = a + w, a = w + g: mu/rho = (a + b)/(b - a) = 3 + 2g/w, so P, Q <= (1 - mu/rho)/2 <= -1 <=
    kappa_k.
    """
    w, g = sp.Symbol("w", positive=True), sp.Symbol("g", nonnegative=True)
    a = w + g
    b = a + w
    ratio = zero((a + b) / (b - a) - (3 + 2 * g / w))
    half = zero(a - b / 2 - g / 2)  # g >= 0 is exactly a >= b/2
    largest = (1 - (3 + 2 * g / w)) / 2
    first_knot = _knot(1, _n)
    return ratio and half and nonnegative(-1 - largest) and nonnegative(first_knot + 1)


def split_needs_half() -> bool:
    """G4' is FALSE for a < b/2: a = 1/10, b = 1, n = 3 gives 2A/15 at u = 0, v = A, above the promised A/20.

    And for any a < b/2 large n fail: there P = (1 - mu/rho)/2 > -1 at v = A, and kappa_1 -> -1.
    """
    A = sp.Symbol("A", positive=True)
    a, b, n = sp.Rational(1, 10), sp.Integer(1), sp.Integer(3)
    mu, rho = (a + b) / 2, (b - a) / 2
    arguments = [(-mu / rho + sign) / 2 for sign in (1, -1)]
    hinges = [sum(relu(t - _knot(k, n)) for k in (1, 2)) for t in arguments]
    at_zero = rho * A * 4 / n * (hinges[0] - hinges[1])
    w, g = sp.symbols("w g", positive=True)  # b - a = w, a = w - g, so a < b/2
    above = (1 - ((w - g) + (2 * w - g)) / w) / 2 + 1
    every = zero(above - g / w) and zero(sp.limit(_knot(1, _n), _n, sp.oo) + 1)
    return zero(at_zero - 2 * A / 15) and (at_zero - rho * A / n**2).is_positive is True and every


def radix_step() -> bool:
    """G5: s - s^2 = g_q(s) + q^-2 (T - T^2), T = T_q(s), on every piece s = (k + w)/q, for every radix q and
    piece k.

    g_q is the chord, T is w on even pieces and 1 - w on odd ones, and w - w^2 is the same for both.
    """
    s = (_k + _w) / _q
    chord = (1 - _w) * _dip(_k / _q) + _w * _dip((_k + 1) / _q)
    return zeros(*(_dip(s) - chord - _dip(T) / _q**2 for T in (_w, 1 - _w)))


def radix_hinges() -> bool:
    """G5: q hinges at 0, 1/q, .., (q-1)/q give T_q and g_q, piece by piece for q = 2, 3, 4, 5.

    T_q(s) = q s + 2q sum_k (-1)^k ReLU(s - k/q), g_q(s) = (1 - 1/q) s - (2/q) sum_k ReLU(s - k/q). All is
    scaled by x + y > 0, where w = x/(x + y) runs through [0, 1]: ReLU is positively homogeneous.
    """
    unit = x + y
    for radix in range(2, 6):
        for piece in range(radix):
            s = (piece * unit + x) / radix
            hinges = [relu(s - sp.Rational(k, radix) * unit) for k in range(1, radix)]
            zigzag = radix * s + 2 * radix * sum((-1) ** k * h for k, h in enumerate(hinges, 1))
            dip = (1 - sp.Rational(1, radix)) * s - sp.Rational(2, radix) * sum(hinges)
            ends = [_dip(sp.Rational(k, radix)) for k in (piece, piece + 1)]
            if not zeros(zigzag - (y if piece % 2 else x), dip - (y * ends[0] + x * ends[1])):
                return False
    return True


def radix_slopes() -> bool:
    """G5, every q: by induction on the piece, hinge j turns the slope of T_q into q(-1)^j, and of g_q into
    the chord's, 1 - (2j+1)/q.
    """
    j = sp.Symbol("j", integer=True, nonnegative=True)

    def chord(k: sp.Expr) -> sp.Expr:
        return _q * (_dip((k + 1) / _q) - _dip(k / _q))

    zigzag = _q * (-1) ** j + 2 * _q * (-1) ** (j + 1) - _q * (-1) ** (j + 1)
    first = chord(sp.Integer(0)) - (1 - 1 / _q)
    return zeros(zigzag, first, chord(j) - 2 / _q - chord(j + 1), chord(j) - (1 - (2 * j + 1) / _q))


def deep_square_error() -> bool:
    """G5: after radices of product Q the rest is Q^-2 (T - T^2), so the error is in [0, 1/(4 Q^2)], the most
    at T = 1/2.

    Induction: the rest Q^-2 (T - T^2) is Q^-2 g_q(T) plus (Q q)^-2 (T' - T'^2) by the radix step. Radix q at
    all D steps: Q = q^D.
    """
    Q = sp.Symbol("Q", positive=True)
    D = sp.Symbol("D", integer=True, positive=True)
    step = zero(_dip(_w) / _q**2 / Q**2 - _dip(_w) / (Q * _q) ** 2)
    most = zeros(
        sp.Rational(1, 4) - _dip(_w) - (_w - sp.Rational(1, 2)) ** 2,
        _dip(sp.Rational(1, 2)) - sp.Rational(1, 4),
    )
    return step and most and zero(1 / (4 * (_q**D) ** 2) - _q ** (-2 * D) / 4)


def deep_product_error() -> bool:
    """G6: t^2 = 1 - 4(s - s^2) with s = (1 + t)/2, so u v errs by 4 Q^-2 [(S - S^2) - (T - T^2)], at most
    1/Q^2 in size.

    One-sided errors: each is in [0, 1/4], their difference in [-1/4, 1/4]. It is G4 with n = Q pieces, so
    attained and 0 on the axes alike. With the start |t|, a step of radix 2, and D
    more of radix q, Q = 2 q^D and the error is 1/(4 q^(2D)).
    """
    D, Q = sp.Symbol("D", integer=True, positive=True), sp.Symbol("Q", positive=True)
    square = zero(1 - 4 * _dip((1 + _t) / 2) - _t**2)
    pieces = zero(4 * (1 / (4 * Q**2)) - 1 / Q**2)
    return square and pieces and zero(1 / (2 * _q**D) ** 2 - 1 / (4 * _q ** (2 * D)))


def radix_two_start() -> bool:
    """G6: a first step of radix 2 is T_2((1 + t)/2) = 1 - |t|: two neurons, ReLU(t) and ReLU(-t)."""
    unit = p + r  # everything is scaled by unit > 0: t = p and t = -p run through [-1, 1] times it

    def folded(t: sp.Expr) -> sp.Expr:
        s = (unit + t) / 2
        return 2 * s - 4 * relu(s - unit / 2)

    return zeros(*(folded(t) - (unit - relu(t) - relu(-t)) for t in (p, -p)))
