"""What each construction costs, in closed form: neurons, hidden layers, error.

Every `Bound` belongs to a claim of `theory.claims` and is a triple of sympy expressions in the symbols of
`SYMBOLS`, so that it can be printed (`latex`), evaluated (`evaluate`) and reasoned about (the proofs in
`theory.claims` use these very expressions). An upper bound counts what suffices, a lower bound what no
network of that kind can undercut.

Two conventions. `c` is always the half-range of one product: for u v with |u| <= U and |v| <= V it is U V,
for a weight in {0} + [lo, hi] times |a| <= A it is (hi - lo)/2 A. `omega` is the largest sum_h |Omega_ho|
over outputs o, so that an error e before the task's ReLU in every unit is at most omega e in the output (ReLU
is 1-Lipschitz).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Literal, NamedTuple

import sympy as sp

Kind = Literal["upper", "lower"]


def _whole(name: str) -> sp.Symbol:
    return sp.Symbol(name, integer=True, positive=True)


def _real(name: str) -> sp.Symbol:
    return sp.Symbol(name, positive=True)


M, N, H, O, K, L = (_whole(name) for name in "MNHOKL")
R, P, n, q, Q, D = (_whole(name) for name in "RPnqQD")
q_sum, ranks, widths = (_whole(name) for name in ("q_sum", "ranks", "widths"))
H1, Hd, d, s = (_whole(name) for name in ("H1", "Hd", "d", "s"))
eps, c, omega, kappa, length, lo, hi, A = (
    _real(name) for name in ("eps", "c", "omega", "kappa", "length", "lo", "hi", "A")
)
_k = _whole("k")

SYMBOLS: Mapping[sp.Symbol, str] = {
    M: "modules",
    N: "inputs",
    H: "hidden units of the task network",
    O: "outputs",
    K: "modules active together, at most",
    L: "levels of a weight besides 0",
    R: "rank-one terms of the bilinear part",
    P: "sum over the terms of their numbers of pieces n_r",
    n: "pieces of the square's interpolant, the fewest of any term",
    q: "radix of the deep square, the same at every step",
    Q: "product of the radices",
    q_sum: "sum of the radices",
    D: "steps (radices) of the deep product",
    s: "terms of one unit that can be nonzero together (K on the M-route, N on the N-route)",
    ranks: "sum_m rank(Theta_m)",
    widths: "sum of the widths H_l of the task's modulated layers",
    H1: "width of the task's first modulated layer",
    Hd: "width of the task's last modulated layer",
    d: "dimension of the state",
    eps: "largest error allowed at any output",
    c: "half-range of a product, its coefficient included, the largest of any term",
    omega: "largest sum_h |Omega_ho| over the outputs o",
    kappa: "least |f''| along the segment",
    length: "length of the segment",
    lo: "least nonzero weight",
    hi: "largest weight",
    A: "largest |a_mh| after centring",
}


class Evaluated(NamedTuple):
    """A bound at given numbers: whole neurons and layers, the error exact wherever it is rational."""

    neurons: int
    depth: int
    error: Fraction | float


@dataclass(frozen=True)
class Bound:
    """Neurons, hidden layers and sup-norm error of one construction, as sympy expressions.

    `claim` is a key of `theory.claims.CLAIMS`. `meaning` says in words what each symbol is, by its name.
    `kind` says whether the neurons are enough ("upper") or necessary ("lower"). `requires` are the conditions
    on the numbers without which the bound is not a theorem, each with its words.
    """

    claim: str
    method: str
    neurons: sp.Expr
    depth: sp.Expr
    error: sp.Expr
    meaning: Mapping[str, str]
    kind: Kind = "upper"
    requires: Mapping[str, sp.Basic] = field(default_factory=dict)

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The symbols that `evaluate` needs, by name."""
        free: set[sp.Symbol] = set().union(*(e.free_symbols for e in (self.neurons, self.depth, self.error)))
        for condition in self.requires.values():
            free |= condition.free_symbols
        return tuple(sorted(free, key=str))

    def latex(self) -> str:
        """The bound as one line of LaTeX, without dollar signs."""
        names = {eps: r"\varepsilon", length: r"\ell", lo: r"\mathrm{lo}", hi: r"\mathrm{hi}", Hd: "H_{D}"}
        names |= {q_sum: r"\Sigma_{q}", ranks: r"\Sigma_{\mathrm{rank}}", widths: r"\Sigma_{H}"}
        relation = r"\le" if self.kind == "upper" else r"\ge"
        # A lower bound speaks of every network of that depth and error: only its neurons bear the relation.
        others = r"\le" if self.kind == "upper" else "="
        neurons, depth, error = (sp.latex(e, symbol_names=names) for e in (self.neurons, self.depth, self.error))
        return (
            rf"\text{{neurons}} {relation} {neurons},\quad \text{{depth}} {others} {depth},"
            rf"\quad \text{{error}} \le {error}"
        )

    def evaluate(self, **numbers: int | float | Fraction) -> Evaluated:
        """The bound at these numbers, one for each symbol (floats are taken as the exact rationals they are).

        An upper bound on a whole number is rounded down and a lower one up: both stay true. ValueError: a
        symbol is missing, unknown, not positive, not whole where it counts something, or breaks a condition.
        """
        values = self._values(numbers)
        for words, condition in self.requires.items():
            if condition.subs(values) != sp.true:
                wrong = sorted(condition.free_symbols, key=str)
                given = ", ".join(f"{symbol} = {float(values[symbol]):g}" for symbol in wrong)
                raise ValueError(f"{self.claim} {self.method}: needs {words}, not {given}")
        neurons, depth, error = (e.subs(values).doit() for e in (self.neurons, self.depth, self.error))
        whole = sp.floor if self.kind == "upper" else sp.ceiling
        exact = Fraction(int(error.p), int(error.q)) if error.is_Rational else float(error)
        return Evaluated(int(whole(neurons)), int(whole(depth)), exact)

    def _values(self, numbers: Mapping[str, int | float | Fraction]) -> dict[sp.Symbol, sp.Rational]:
        by_name = {str(symbol): symbol for symbol in self.symbols}
        who = f"{self.claim} {self.method}"
        if unknown := sorted(set(numbers) - set(by_name)):
            raise ValueError(f"{who}: unknown symbol {', '.join(unknown)}; it has {', '.join(by_name)}")
        if missing := [name for name in by_name if name not in numbers]:
            named = ", ".join(f"{name} ({self.meaning[name]})" for name in missing)
            raise ValueError(f"{who}: missing {named}")
        return {symbol: _exact(who, symbol, numbers[name]) for name, symbol in by_name.items()}


def _exact(who: str, symbol: sp.Symbol, number: int | float | Fraction) -> sp.Rational:
    """The number as an exact positive rational; ValueError says what is wrong with it."""
    if isinstance(number, bool) or not isinstance(number, Real) or not math.isfinite(number) or number <= 0:
        raise ValueError(f"{who}: {symbol} must be a positive finite number, not {number!r}")
    if isinstance(number, Integral):
        exact = Fraction(int(number))
    else:
        exact = Fraction(number) if isinstance(number, Rational) else Fraction(float(number))
    if symbol.is_integer and exact.denominator != 1:
        raise ValueError(f"{who}: {symbol} must be a whole number, not {number!r}")
    return sp.Rational(exact.numerator, exact.denominator)


def _bound(
    claim: str,
    method: str,
    neurons: sp.Expr | int,
    depth: sp.Expr | int,
    error: sp.Expr | int,
    *,
    kind: Kind = "upper",
    requires: Mapping[str, sp.Basic] | None = None,
    means: Mapping[str, str] | None = None,
) -> Bound:
    """A bound whose symbols mean what SYMBOLS says, except where the construction reads one otherwise."""
    meaning = {str(symbol): text for symbol, text in SYMBOLS.items()} | dict(means or {})
    bound = Bound(
        claim,
        method,
        sp.sympify(neurons),
        sp.sympify(depth),
        sp.sympify(error),
        meaning,
        kind,
        requires or {},
    )
    return replace(bound, meaning={str(symbol): meaning[str(symbol)] for symbol in bound.symbols})


# Every unit of the task is one ReLU of the last hidden layer, and what its gates leave linear in z is
# passed through the layer before it, per module or per unit, whichever is fewer.
_CARRY_AND_RELU = sp.Min(M, H) + H
_SUPPORTS = sp.Sum(sp.binomial(M, _k), (_k, 1, K))
_ODD = {"n odd": sp.Eq(sp.Mod(n, 2), 1)}
_FEWEST = {"P >= R n": sp.Ge(P, R * n)}
# G4' leaves modules that are off untouched only if its hinges are off at z = 0 (proved in theory.claims).
_HALF = {"lo >= hi/2": sp.Ge(lo, hi / 2), "lo <= hi": sp.Ge(hi, lo)}
# D numbers of a given sum have the largest product where they are equal.
_RADICES = {"Q <= (q_sum/D)^D": sp.Le(Q * D**D, q_sum**D)}
# ceil(x) <= Max(0, x) + 1 radices, and at least one, reach the error eps.
_STEPS = sp.Max(0, sp.log(s * c * omega / eps) / (2 * sp.log(q))) + 1
_PIECES = length / 4 * sp.sqrt(kappa / eps)

_WORD = {"K": "letters of a word", "M": "generators"}
_LAYERS = {"D": "modulated layers of the task, each two hidden layers of the network"}
_ALLOWED = {"eps": "largest error of the network on the segment", "D": "hidden layers of the network"}


def _layers(per_form: sp.Expr | int, per_module: sp.Expr | int) -> sp.Expr:
    """C11: gates on the first layer's linear forms of x and on every later unit, z carried raw in between."""
    forms = sp.Min(N, H1) + widths - H1
    return per_form * M * forms + per_module * M * D + widths + 2 * (D - 1) * M + sp.Min(M, Hd)


BOUNDS: Mapping[str, Bound] = {
    "exact-khot": _bound("C2", "exact", M * sp.Min(N, H) + _CARRY_AND_RELU, 2, 0),
    "exact-khot-rank": _bound("C2", "exact", ranks + _CARRY_AND_RELU, 2, 0),
    "exact-grid": _bound("C3", "exact", M * L * sp.Min(N, H) + M * (L - 1) + _CARRY_AND_RELU, 2, 0),
    # One product u v with |u| <= U, |v| <= V, c = U V.
    "product-interval": _bound("C4", "shallow", 2 * (n - 1), 1, c / n**2, requires=_ODD),
    # One product z a, z in {0} + [lo, hi]; one more neuron a module serves all its units.
    "product-split": _bound("C4", "shallow", 2 * n - 1, 1, (hi - lo) / 2 * A / n**2, requires=_HALF),
    "shallow-interval": _bound(
        "C4",
        "shallow",
        2 * (P - R) + _CARRY_AND_RELU,
        2,
        omega * s * c / n**2,
        requires=_ODD | _FEWEST,
        means={"P": SYMBOLS[P] + ", all odd"},
    ),
    "shallow-split": _bound(
        "C4",
        "shallow",
        2 * P - R + M + _CARRY_AND_RELU,
        2,
        omega * K * (hi - lo) / 2 * A / n**2,
        requires=_HALF | _FEWEST,
    ),
    # Equal shares eps/(K omega), n_mh = ceil(sqrt(K omega c/eps)), G4' throughout (so lo >= hi/2).
    "shallow-M": _bound(
        "C4",
        "shallow",
        2 * M * H * sp.sqrt(K * c * omega / eps) + M * H + M + _CARRY_AND_RELU,
        2,
        eps,
        means={"c": "largest (hi - lo)/2 A of any module and unit, with lo >= hi/2"},
    ),
    # Equal shares eps/(N omega), n_hi the least odd number >= sqrt(N omega c/eps). M could enter through c
    # only, and c needs just K modules: a count independent of M.
    "shallow-N": _bound(
        "C4",
        "shallow",
        2 * N * H * sp.sqrt(N * c * omega / eps) + 2 * N * H + 2 * H,
        2,
        eps,
        means={"c": "largest half-range of sum_m z_m Theta_mih over the tasks (K modules) times that of x_i"},
    ),
    "product-deep": _bound("C5", "deep", 2 * q_sum, D, c / Q**2, requires=_RADICES),
    # An accumulator a unit and a layer, which also holds what is affine in x and z.
    "deep": _bound("C5", "deep", 2 * q_sum * R + D * H + H, D + 1, omega * s * c / Q**2, requires=_RADICES),
    "deep-eps": _bound("C5", "deep", (2 * q * R + H) * _STEPS + H, _STEPS + 1, eps, requires={"q >= 2": sp.Ge(q, 2)}),
    # CP rank of almost every Theta, from below: R terms have at most R (M + N + H - 2) degrees of freedom, an
    # open set of Theta needs M N H. A term takes a neuron at least; the error is that of the decomposition.
    "rank-terms": _bound(
        "C6",
        "rank",
        sp.ceiling(M * N * H / (M + N + H - 2)),
        D,
        0,
        kind="lower",
        means={"D": "hidden layers of the network"},
    ),
    "memorise": _bound("C7", "memorise", _SUPPORTS * H, 1, 0),
    "pieces": _bound("C8", "any", sp.Max(0, D * (_PIECES ** (1 / D) - 1)), D, eps, kind="lower", means=_ALLOWED),
    "one-layer": _bound("C8", "any", sp.Min(M, N * H), 1, 0, kind="lower"),
    "layers-khot": _bound("C11", "exact", _layers(1, 0), 2 * D, 0, means=_LAYERS),
    "layers-grid": _bound("C11", "exact", _layers(L, L - 1), 2 * D, 0, means=_LAYERS),
    "chain": _bound("C13", "exact", K * M * d + M * K * (K - 1) / 2, K, 0, means=_WORD),
}
