"""Shallow products: G3 (square), G4 (interval times interval), G4' ({0} + interval times interval)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from constructions.gadgets.ridges import Hinges, Ridges, Shared, lift, none, pad, ragged, ratio
from theory.arithmetic import Array, as_float


def square_knots(pieces: Array) -> tuple[Array, Array]:
    """G3: knots of the interpolant S of t^2 on [-1, 1] with n equal pieces, n odd (theory.md, G3).

    S(t) = 1/n^2 + sum_k (4/n) [ReLU(t - kappa_k) + ReLU(-t - kappa_k)], kappa_k = (2k - 1)/n, k = 1 .. (n-1)/2.
    Proof. The chord of t^2 over [a, b] has slope a + b; between kappa_k and kappa_{k+1} that is 4k/n, so slopes
    jump by 4/n; the middle piece is flat at (1/n)^2. On a piece of length 2/n the chord lies above t^2 by at
    most (1/n)^2, attained at the middle.  QED. Error exactly 1/n^2, n - 1 neurons and a constant.

    pieces: (terms,) odd. Returns (term, numerator 2k-1) of the positive knots, ragged.
    """
    term, place = ragged((np.asarray(pieces) - 1) // 2)
    return term, 2 * place + 1


def product(pieces: Array, u: tuple[Array, Array], v: tuple[Array, Array], exact: bool) -> Ridges:
    """G4: u v for |u - u_mid| <= U, |v - v_mid| <= V, by polarisation (theory.md, G4).

    With t = (u - u_mid)/U, s = (v - v_mid)/V, p = (t + s)/2, q = (t - s)/2:  t s = p^2 - q^2 ~ S(p) - S(q).
    Error exactly U V / n^2: S(t) - t^2 lies in [0, 1/n^2], and p at a knot with q at a middle is possible. The
    constants of S cancel. If u = u_mid then p = -q, S is even, and the product is exactly 0; so for s = 0.
    (u - u_mid)(v - v_mid) + u_mid v + v_mid u - u_mid v_mid = u v gives the linear remainder.  2 (n - 1) neurons.

    pieces: (terms,) odd; u, v: (middle, half-range), each (terms,) float64, half-ranges > 0.
    """
    u_mid, u_half = (lift(a, exact) for a in u)
    v_mid, v_half = (lift(a, exact) for a in v)
    base, knot = square_knots(pieces)
    n = len(base)
    term = np.tile(base, 4)
    on_p = np.repeat([1, 1, -1, -1], n)  # p, -p enter S(p); then q, -q enter S(q) with the opposite sign
    side = np.repeat([1, -1, 1, -1], n)
    number = np.asarray(pieces)[term]
    half = Fraction(1, 2) if exact else 0.5
    sign, mirror = lift(side, exact), lift(side * on_p, exact)
    on_u, on_v = sign * half / u_half[term], mirror * half / v_half[term]
    kappa = ratio(np.tile(knot, 4), number, exact)
    hinges = Hinges(
        term,
        on_u,
        on_v,
        bias=-on_u * u_mid[term] - on_v * v_mid[term] - kappa,
        weight=lift(on_p, exact) * ratio(4, number, exact) * (u_half * v_half)[term],
        upper=(1 - as_float(kappa)) * (1 + 2.0**-40),
        margin=np.zeros(len(term)),
    )
    error = u[1] * v[1] / np.asarray(pieces, dtype=float) ** 2
    return Ridges(hinges, v_mid, u_mid, -u_mid * v_mid, None, error * (1 + 2.0**-50))


def split_applies(interval: tuple[Fraction, Fraction]) -> bool:
    """G4' needs lo >= hi/2: otherwise hinges are on at z = 0 (counterexample: lo = .1, hi = 1, n = 3)."""
    return 2 * interval[0] >= interval[1]


def split(pieces: Array, interval: tuple[Fraction, Fraction], v: tuple[Array, Array], exact: bool) -> Ridges:
    """G4': z v for z in {0} + [lo, hi], |v - v_mid| <= A, lo >= hi/2; error rho A / n^2, 0 at z = 0.

    With mu = (lo + hi)/2, rho = (hi - lo)/2, t = (z - mu)/rho, w = v - v_mid, p, q = (t +- w/A)/2, s = 1 where z > 0:

        s w = ReLU(w - A + (2A/lo) z) - (2A/lo) ReLU(z - lo/2)
        z w = mu s w + rho A (p^2 - q^2)
            ~ (mu + rho beta) s w + rho A sum_{k<n} (4/n) [ReLU(p - kappa_k) - ReLU(q - kappa_k)]

    kappa_k = -1 + 2k/n, beta = -2 + 2/n: slope jumps and first slope of the n-piece interpolant of t^2.
    Proof. z = 0: the first hinge is w - A <= 0, the second is off, so s w = 0; t = -mu/rho <= -3 (as lo >= hi/2), so
    p, q <= -1 < kappa_k: all off, the sum is 0 = z w. z in [lo, hi]: the first argument is >= w + A >= 0, so s w = w.
    p - q = w/A, so beta (p - q) is the first-slope part, and the sum is I(p) - I(q) with |I - t^2| in [0, 1/n^2].  QED.

    2 (n - 1) + 1 neurons a term, one a module shared by its terms; v_mid z is the linear remainder. A is padded (see
    ``pad``), which keeps rounding from switching a neuron on. pieces: (terms,) >= 1; v: (middle, half-range) (terms,).
    """
    pieces = np.asarray(pieces)
    lo, hi = interval
    mu, rho = (lo + hi) / 2, (hi - lo) / 2
    terms = len(pieces)
    half_range = pad(v[1])
    v_mid, a = lift(v[0], exact), lift(half_range, exact)
    if not exact:
        lo, mu, rho = float(lo), float(mu), float(rho)  # type: ignore[assignment]
    beta = ratio(2, pieces, exact) - 2

    base, place = ragged(pieces - 1)
    term = np.tile(base, 2)
    sign = np.repeat([1, -1], len(base))
    half = Fraction(1, 2) if exact else 0.5
    on_v = lift(sign, exact) * half / a[term]
    kappa = ratio(2 * (np.tile(place, 2) + 1) - pieces[term], pieces[term], exact)
    everyone = np.arange(terms)
    hinges = Hinges(
        np.concatenate([everyone, term]),
        on_u=np.concatenate([2 * a / lo, np.full(len(term), half / rho)]),
        on_v=np.concatenate([lift(np.ones(terms), exact), on_v]),
        bias=np.concatenate([-v_mid - a, -half * mu / rho - on_v * v_mid[term] - kappa]),
        weight=np.concatenate([mu + rho * beta, lift(sign, exact) * ratio(4, pieces[term], exact) * rho * a[term]]),
        upper=np.concatenate(
            [v[1] + half_range * (2 * float(hi) / float(lo) - 1), 1 - as_float(kappa)]
        ) * (1 + 2.0**-40),
        margin=np.concatenate([half_range - v[1], 1 + as_float(kappa)]) * (1 - 2.0**-10),
    )  # fmt: skip
    weight = -(mu + rho * beta) * 2 * a / lo
    knot = np.array([lo / 2], dtype=object if exact else float)
    shared = Shared(knot, weight[:, None], np.array([float(hi - lo / 2)]))
    error = float(rho) * half_range / pieces.astype(float) ** 2
    zero = none(terms, exact)
    return Ridges(hinges, v_mid, zero, zero, shared, error * (1 + 2.0**-50))
