"""Proofs of the counts: how neurons are shared out, how bounds grow, and what no network can undercut.

The expressions checked here are those of `theory.bounds.BOUNDS`, so that a wrong closed form fails its claim.
"""

from __future__ import annotations

import sympy as sp

from theory import bounds
from theory.bounds import BOUNDS, D, H, K, M, N, R, c, d, eps, kappa, length, omega, q, s
from theory.claims.symbolic import nonnegative, zero, zeros

_j = sp.Symbol("j", integer=True, nonnegative=True)
_k = sp.Symbol("k", integer=True, positive=True)


def _growth(key: str) -> sp.Expr:
    """What one more module costs once M >= H."""
    neurons = BOUNDS[key].neurons
    return sp.expand(neurons.subs(M, H + _j + 1) - neurons.subs(M, H + _j))


def rank_form() -> bool:
    """C2: rank(Theta_m) <= min(N, H) for every module turns the sharp count into the upper one."""
    sharp = BOUNDS["exact-khot-rank"].neurons.subs(bounds.ranks, M * sp.Min(N, H))
    return zero(sharp - BOUNDS["exact-khot"].neurons)


def khot_is_linear() -> bool:
    """C2: for M >= H each further module costs exactly min(N, H) neurons."""
    return zero(_growth("exact-khot") - sp.Min(N, H))


def grid_is_linear() -> bool:
    """C3: for M >= H each further module costs exactly L min(N, H) + L - 1 neurons; one level gives C2's
    count.
    """
    one_level = BOUNDS["exact-grid"].neurons.subs(bounds.L, 1) - BOUNDS["exact-khot"].neurons
    return zeros(_growth("exact-grid") - (bounds.L * sp.Min(N, H) + bounds.L - 1), one_level)


def allocation_stationary() -> bool:
    """C4: n_r = c_r^(1/3) sqrt(S/e), S = sum_r c_r^(1/3), meets sum_r c_r/n_r^2 = e and is stationary for
    sum_r n_r.

    Each term spends e c_r^(1/3)/S, so all spend e; 1 = lambda 2 c_r/n_r^3 with one lambda for all r; c/n^2 is
    convex in n, so it is the least.
    """
    S, e, c_r, x = sp.symbols("S e c_r x", positive=True)
    n_r = sp.cbrt(c_r) * sp.sqrt(S / e)
    spends = c_r / n_r**2 - e * sp.cbrt(c_r) / S
    multiplier = (S / e) ** sp.Rational(3, 2) / 2
    convex = sp.diff(c_r / x**2, x, 2).is_positive is True
    return zeros(spends, 1 - multiplier * 2 * c_r / n_r**3) and convex


def allocation_count() -> bool:
    """C4: the pieces then number S^(3/2)/sqrt(e); for N equal terms sqrt(N c/e) each, which is the N-route's
    equal share.
    """
    S, e, c_r = sp.symbols("S e c_r", positive=True)
    total = S * sp.sqrt(S / e)  # sum_r c_r^(1/3) = S
    equal = (S ** sp.Rational(3, 2) / sp.sqrt(e)).subs(S, N * sp.cbrt(c_r))
    return zeros(total - S ** sp.Rational(3, 2) / sp.sqrt(e), equal - N * sp.sqrt(N * c_r / e))


def _share(terms: sp.Symbol) -> sp.Expr:
    """The real number of pieces at which `terms` products of half-range c err by eps/omega together."""
    return sp.sqrt(terms * c * omega / eps)


def equal_shares() -> bool:
    """C4: n = sqrt(s omega c/eps) pieces in each of s terms that act together give omega s c/n^2 = eps."""
    return zero(BOUNDS["shallow-interval"].error.subs(bounds.n, _share(s)) - eps)


def _ceiling_in_unit() -> bool:
    """w <= ceil(w) < w + 1 for all real w."""
    w = sp.Symbol("w", real=True)
    excess = sp.ceiling(w).rewrite(sp.frac) - w  # frac(-w)
    return (excess >= 0) == sp.true and (excess < 1) == sp.true


def split_count() -> bool:
    """C4, M-route: n = ceil(x) < x + 1 gives 2n - 1 < 2x + 1 neurons for each of M H products, which is
    'shallow-M'.
    """
    per_product = 2 * _share(K) + 1
    total = M * H * per_product + M + sp.Min(M, H) + H
    return _ceiling_in_unit() and zero(total - BOUNDS["shallow-M"].neurons)


def interval_count() -> bool:
    """C4, N-route: the least odd n >= x is below x + 2, so 2(n - 1) < 2x + 2 for each of N H products:
    'shallow-N', free of M.

    That n is at most 2 ceil(w) + 1 with w = (x - 1)/2, and w <= ceil(w) < w + 1. Carriers per unit: H more.
    """
    w, x = sp.Symbol("w", real=True), sp.Symbol("x", positive=True)
    ends = zeros((2 * w + 1).subs(w, (x - 1) / 2) - x, (2 * (w + 1) + 1).subs(w, (x - 1) / 2) - (x + 2))
    neurons = BOUNDS["shallow-N"].neurons
    total = N * H * (2 * _share(N) + 2) + 2 * H
    return _ceiling_in_unit() and ends and zero(total - neurons) and M not in neurons.free_symbols


def shallow_rate() -> bool:
    """C1, C4: sqrt(eps) times the N-route's count tends to 2 N H sqrt(N c omega), which is free of M."""
    limit = sp.limit(sp.expand(sp.sqrt(eps) * BOUNDS["shallow-N"].neurons), eps, 0, "+")
    return zero(limit - 2 * N * H * sp.sqrt(N * c * omega)) and M not in limit.free_symbols


def deep_steps() -> bool:
    """C5: D = log(s c omega/eps)/(2 log q) steps of radix q (Q = q^D) give exactly eps, more give less;
    'deep-eps' rounds D up.
    """
    radix = sp.Symbol("q", positive=True)
    steps = sp.log(s * c * omega / eps) / (2 * sp.log(radix))
    # Q^2 = q^(2D) = exp(2 D log q)
    exact = sp.exp(sp.expand(2 * steps * sp.log(radix))) - s * c * omega / eps
    rounded = sp.Max(0, steps.subs(radix, q)) + 1
    form = BOUNDS["deep"].neurons.subs(bounds.q_sum, q * D).subs(D, rounded)
    depth = BOUNDS["deep"].depth.subs(D, rounded) - BOUNDS["deep-eps"].depth
    return zeros(exact, form - BOUNDS["deep-eps"].neurons, depth)


def deep_rate() -> bool:
    """C5: with e = log(1/eps) >= log(1/(s c omega)) the count is affine in e, slope (2 q R + H)/(2 log q):
    O(R log(1/eps)).
    """
    excess = sp.Symbol("t", nonnegative=True)
    # eps = s c omega exp(-t): then log(s c omega/eps) = t >= 0 and d/dt = d/de.
    neurons = BOUNDS["deep-eps"].neurons.subs(eps, s * c * omega * sp.exp(-excess))
    slope = sp.diff(neurons.subs(sp.Max(0, excess / (2 * sp.log(q))), excess / (2 * sp.log(q))), excess)
    return zero(slope - (2 * q * R + H) / (2 * sp.log(q)))


def rank_one_freedom() -> bool:
    """C6: rank-one tensors of M x N x H form a set of dimension M + N + H - 2, shown here for sizes up to 3 x
    3 x 3.

    The Jacobian of (a, b, c) -> a b c kills (a, -b, 0) and (a, 0, -c) everywhere (symbolic), so its rank is
    at most that; where all entries are 1 it is that (exact), hence almost everywhere.
    """
    for sizes in ((2, 2, 2), (3, 2, 2), (3, 3, 2), (3, 3, 3)):
        vectors = [sp.symbols(f"{name}:{size}") for name, size in zip("abc", sizes, strict=True)]
        first, second, third = vectors
        products = sp.Matrix([u * v * w for u in first for v in second for w in third])
        jacobian = products.jacobian([*first, *second, *third])
        scale_b = sp.Matrix([*first, *(-v for v in second), *(0 * w for w in third)])
        scale_c = sp.Matrix([*first, *(0 * v for v in second), *(-w for w in third)])
        killed = all(sp.expand(entry) == 0 for kernel in (scale_b, scale_c) for entry in jacobian * kernel)
        at_ones = jacobian.subs({symbol: 1 for vector in vectors for symbol in vector})
        if not killed or at_ones.rank() != sum(sizes) - 2:
            return False
    return True


def rank_terms() -> bool:
    """C6: R terms have at most R (M + N + H - 2) degrees of freedom; the bound is the least R that reaches M
    N H.
    """
    needed = M * N * H / (M + N + H - 2)
    return zeros(BOUNDS["rank-terms"].neurons - sp.ceiling(needed), needed * (M + N + H - 2) - M * N * H)


def deep_is_linear_in_terms() -> bool:
    """C6: the deep count is affine in the number of terms R, so fewer terms pay in proportion."""
    return zero(sp.diff(BOUNDS["deep"].neurons, R) - 2 * bounds.q_sum)


def support_count() -> bool:
    """C7: T(M, K) = T(M - 1, K) + T(M - 1, K - 1) + 1 (Pascal's rule summed), and T(M, M) = 2^M - 1."""
    pascal = sp.binomial(M, _k) - sp.binomial(M - 1, _k) - sp.binomial(M - 1, _k - 1)
    # In the sum over k = 1..K the last term runs over K' = 0..K-1, and its K' = 0 is the 1.
    empty = sp.binomial(M - 1, 0) - 1
    every = sp.summation(sp.binomial(M, _k), (_k, 1, M)) - (2**M - 1)
    return sp.combsimp(pascal) == 0 and empty == 0 and zero(every)


def memorise_form() -> bool:
    """C7: 'memorise' is T H."""
    supports = sp.Sum(sp.binomial(M, _k), (_k, 1, K))
    return BOUNDS["memorise"].neurons.dummy_eq(supports * H) is True


def curvature() -> bool:
    """C8a: if f'' >= kappa on a piece of length s, every affine l has max |f - l| >= kappa s^2/16 there.

    f = kappa t^2/2 + e with e convex; the second difference at distance h = s/2 about the midpoint m is kappa
    h^2 plus that of e, which is >= 0, and l drops out of it; it is at most 4 max |f - l|.
    """
    m, h, slope, height = sp.symbols("m h slope height", real=True)
    convex = sp.Symbol("e2", nonnegative=True)  # e(m + h) + e(m - h) - 2 e(m)
    piece = sp.Symbol("s", positive=True)

    def rest(t: sp.Expr) -> sp.Expr:
        return kappa * t**2 / 2 - slope * t - height

    second = sp.expand(rest(m + h) + rest(m - h) - 2 * rest(m)) + convex
    surplus = sp.expand(second.subs(h, piece / 2) / 4 - kappa * piece**2 / 16)
    return zero(second - kappa * h**2 - convex) and nonnegative(surplus)


def piece_count() -> bool:
    """C8a: kappa s^2/16 <= eps bounds a piece by s = 4 sqrt(eps/kappa), so a segment of length l has at least
    (l/4) sqrt(kappa/eps).
    """
    piece = sp.Symbol("s", positive=True)
    longest = sp.solve(sp.Eq(kappa * piece**2 / 16, eps), piece)
    pieces = length / 4 * sp.sqrt(kappa / eps)
    one_layer = BOUNDS["pieces"].neurons.subs(D, 1) - sp.Max(0, pieces - 1)
    return len(longest) == 1 and zeros(longest[0] - 4 * sp.sqrt(eps / kappa), length / longest[0] - pieces, one_layer)


def layers_balance() -> bool:
    """C8a: of two layers' 1 + w the equal split has the larger product: ((a + b)/2)^2 - a b = ((a - b)/2)^2
    >= 0.
    """
    a, b = sp.symbols("a b", real=True)
    square = ((a - b) / 2) ** 2
    return zero(((a + b) / 2) ** 2 - a * b - square) and square.is_nonnegative is True


def layers_invert() -> bool:
    """C8a: (1 + U/D)^D = p exactly at U = D (p^(1/D) - 1), and it grows with U."""
    pieces, neurons = sp.symbols("p U", positive=True)
    least = D * (pieces ** (1 / D) - 1)
    grows = sp.simplify(sp.diff((1 + neurons / D) ** D, neurons)).is_positive is True
    return grows and zero(sp.powdenest((1 + least / D) ** D, force=True) - pieces)


def freedom_ratio() -> bool:
    """C8c: a module has N H weights and H biases, so M N H (1 + 1/N) parameters but for terms free of M."""
    outputs = bounds.O
    freedom = M * N * H + M * H + outputs * H - H
    return zeros(sp.limit(freedom / M, M, sp.oo) - N * H * (1 + 1 / N))


def layered_count() -> bool:
    """C11: one modulated layer is C2 or C3; a further layer of width h costs its gates, h ReLUs and 2M
    carriers, by induction on the layers.

    Gates: per form on M h forms, and per module M more. The carrier of the last layer moves from width H_D to
    h.
    """
    h = sp.Symbol("h", integer=True, positive=True)
    single = {bounds.widths: H, bounds.H1: H, bounds.Hd: H, D: 1}
    grow = {bounds.widths: bounds.widths + h, bounds.Hd: h, D: D + 1}
    levels = bounds.L
    for key, flat, gates in (
        ("layers-khot", "exact-khot", M * h),
        ("layers-grid", "exact-grid", M * levels * h + M * (levels - 1)),
    ):
        neurons = BOUNDS[key].neurons
        more = neurons.subs(grow, simultaneous=True) - neurons
        expected = gates + h + 2 * M + sp.Min(M, h) - sp.Min(M, bounds.Hd)
        if not zeros(neurons.subs(single, simultaneous=True) - BOUNDS[flat].neurons, more - expected):
            return False
    return True


def chain_count() -> bool:
    """C13: K layers of M d gates, and M carriers in each of the k - 1 layers z_k waits: M K (K - 1)/2."""
    waiting = sp.summation(M * (_k - 1), (_k, 1, K))
    return zeros(waiting - M * K * (K - 1) / 2, BOUNDS["chain"].neurons - (K * M * d + waiting))
