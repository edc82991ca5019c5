from fractions import Fraction
from itertools import pairwise
from math import comb

import pytest

from theory import bounds, claims
from theory.bounds import BOUNDS

DEFAULT = {"M": 16, "N": 16, "H": 16}
# Some admissible numbers for every symbol; a bound takes those it knows.
NUMBERS = {
    **dict(zip(("M", "N", "H", "K", "L", "R", "P", "n", "D"), (8, 6, 5, 3, 6, 4, 40, 9, 3), strict=True)),
    **{"q": 3, "Q": 27, "q_sum": 9, "ranks": 30, "widths": 12, "H1": 5, "Hd": 7, "d": 4, "s": 3},
    **{"eps": Fraction(1, 100), "c": 2, "omega": 3, "kappa": 1, "length": 4},
    **{"lo": Fraction(1, 2), "hi": 1, "A": 2},
}


def evaluated(key: str, **changes: object) -> bounds.Evaluated:
    names = {str(symbol) for symbol in BOUNDS[key].symbols}
    return BOUNDS[key].evaluate(**{name: value for name, value in (NUMBERS | changes).items() if name in names})


@pytest.mark.parametrize(
    ("key", "numbers", "neurons", "depth", "error"),
    [
        ("exact-khot", DEFAULT, 288, 2, 0),
        ("exact-khot-rank", {"M": 16, "H": 16, "ranks": 200}, 232, 2, 0),
        ("exact-grid", DEFAULT | {"L": 6}, 1648, 2, 0),
        ("memorise", {"M": 16, "K": 3, "H": 16}, 16 * (16 + 120 + 560), 1, 0),
        ("memorise", {"M": 3, "K": 5, "H": 1}, 7, 1, 0),
        ("layers-khot", {"M": 8, "N": 8, "H1": 8, "Hd": 8, "widths": 16, "D": 2}, 168, 4, 0),
        ("product-interval", {"n": 5, "c": 1}, 8, 1, Fraction(1, 25)),
        ("product-split", {"n": 4, "A": 1, "lo": 0.5, "hi": 1}, 7, 1, Fraction(1, 64)),
        ("product-deep", {"q_sum": 11, "Q": 54, "D": 4, "c": 1}, 22, 4, Fraction(1, 2916)),
        ("one-layer", {"M": 100, "N": 4, "H": 4}, 16, 1, 0),
        ("rank-terms", {"M": 8, "N": 8, "H": 8, "D": 3}, 24, 3, 0),
        ("rank-terms", {"M": 16, "N": 16, "H": 16, "D": 3}, 90, 3, 0),
        # 4/4 sqrt(1/eps) = 8 pieces: 2 (sqrt 8 - 1) = 3.66 neurons, so 4.
        ("pieces", {"length": 4, "kappa": 1, "eps": Fraction(1, 64), "D": 2}, 4, 2, Fraction(1, 64)),
        ("pieces", {"length": 4, "kappa": 1, "eps": Fraction(1, 64), "D": 3}, 3, 3, Fraction(1, 64)),
        ("pieces", {"length": 1, "kappa": 1, "eps": 100, "D": 2}, 0, 2, 100),
        ("chain", {"K": 4, "M": 5, "d": 3}, 60 + 30, 4, 0),
    ],
)
def test_numbers(key: str, numbers: dict, neurons: int, depth: int, error: Fraction) -> None:
    assert BOUNDS[key].evaluate(**numbers) == (neurons, depth, error)


@pytest.mark.parametrize(("key", "step"), [("exact-khot", 16), ("exact-grid", 6 * 16 + 5)])
def test_linear_in_modules_from_hidden_on(key: str, step: int) -> None:
    counts = [evaluated(key, M=m, N=16, H=16).neurons for m in range(14, 24)]
    differences = [b - a for a, b in pairwise(counts)]
    assert differences[2:] == [step] * 7  # M >= 16
    assert differences[:2] == [step + 1] * 2  # M < 16: one more carrier a module


def test_shallow_counts_are_those_of_whole_pieces() -> None:
    # The a-priori forms must not undercut the count of the networks they stand for.
    for inverse in (3, 10, 97, 1000, 12345):
        eps = Fraction(1, inverse)
        ratio = NUMBERS["c"] * NUMBERS["omega"] * inverse
        modules, inputs, hidden, active = (NUMBERS[name] for name in "MNHK")
        split = next(n for n in range(1, 10**6) if n * n >= active * ratio)
        odd = next(n for n in range(1, 10**6, 2) if n * n >= inputs * ratio)
        products = modules * hidden
        by_modules = evaluated("shallow-split", P=products * split, R=products, n=split, A=8)
        by_inputs = evaluated("shallow-interval", P=inputs * hidden * odd, R=inputs * hidden, n=odd, s=inputs)
        assert by_modules.error <= eps and by_inputs.error <= eps  # (hi - lo)/2 A = 2 = c
        assert by_modules.neurons <= evaluated("shallow-M", eps=eps).neurons
        assert by_inputs.neurons <= evaluated("shallow-N", eps=eps).neurons


def test_deep_form_covers_whole_steps() -> None:
    for inverse in (1, 3, 97, 10**4, 10**9):
        ratio = NUMBERS["s"] * NUMBERS["c"] * NUMBERS["omega"] * inverse
        for q in (2, 3, 4):
            D = next(D for D in range(1, 200) if q ** (2 * D) >= ratio)
            built = evaluated("deep", D=D, Q=q**D, q_sum=q * D)
            bound = evaluated("deep-eps", eps=Fraction(1, inverse), q=q)
            assert built.error <= Fraction(1, inverse)
            assert built.neurons <= bound.neurons and built.depth <= bound.depth


def test_route_through_inputs_does_not_know_the_number_of_modules() -> None:
    assert "M" not in {str(symbol) for symbol in BOUNDS["shallow-N"].symbols}
    assert evaluated("shallow-M", M=16).neurons > evaluated("shallow-M", M=8).neurons


def test_shallow_rate() -> None:
    coarse, fine = (evaluated("shallow-N", eps=Fraction(1, 10**power)).neurons for power in (8, 12))
    assert fine / coarse == pytest.approx(100, rel=1e-3)


def test_memorising_is_exponential() -> None:
    bound = BOUNDS["memorise"].evaluate(M=100, K=10, H=1)
    assert bound.neurons == sum(comb(100, k) for k in range(1, 11)) > 10**13


@pytest.mark.parametrize("key", BOUNDS)
def test_every_bound_prints_and_evaluates(key: str) -> None:
    bound = BOUNDS[key]
    text = bound.latex()
    assert text.startswith(r"\text{neurons}") and "\n" not in text and text.count("{") == text.count("}")
    assert (r"\ge" in text.split(r"\quad")[0]) == (bound.kind == "lower")
    assert set(bound.meaning) == {str(symbol) for symbol in bound.symbols} and all(bound.meaning.values())
    assert bound.claim in claims.CLAIMS and key in claims.CLAIMS[bound.claim].bounds
    neurons, depth, error = evaluated(key)
    assert isinstance(neurons, int) and isinstance(depth, int) and isinstance(error, Fraction)
    assert neurons >= 0 and depth >= 1 and error >= 0


def test_latex_writes_the_usual_letters() -> None:
    assert r"\varepsilon" in BOUNDS["shallow-N"].latex() and " eps" not in BOUNDS["shallow-N"].latex()
    assert BOUNDS["exact-khot-rank"].latex() == (
        r"\text{neurons} \le H + \Sigma_{\mathrm{rank}} + \min\left(H, M\right),"
        r"\quad \text{depth} \le 2,\quad \text{error} \le 0"
    )


@pytest.mark.parametrize(
    ("key", "numbers", "said"),
    [
        ("exact-khot", {"M": 4, "H": 4}, "missing N (inputs)"),
        ("exact-khot", DEFAULT | {"modules": 3}, "unknown symbol modules; it has H, M, N"),
        ("exact-khot", DEFAULT | {"M": 2.5}, "M must be a whole number, not 2.5"),
        ("exact-khot", DEFAULT | {"M": 0}, "M must be a positive finite number, not 0"),
        ("exact-khot", DEFAULT | {"M": True}, "not True"),
        ("exact-khot", DEFAULT | {"M": "4"}, "not '4'"),
        ("product-interval", {"n": 3, "c": float("nan")}, "c must be a positive finite number"),
        ("product-interval", {"n": 4, "c": 1}, "needs n odd, not n = 4"),
        # The split product of theory.md: not a theorem where lo < hi/2.
        ("product-split", {"n": 3, "A": 1, "lo": 0.1, "hi": 1}, "needs lo >= hi/2"),
        ("product-split", {"n": 3, "A": 1, "lo": 2, "hi": 1}, "needs lo <= hi"),
        ("product-deep", {"q_sum": 2, "Q": 1000, "D": 2, "c": 1}, r"needs Q <= (q_sum/D)^D"),
        ("deep-eps", {"q": 1, "R": 1, "H": 1, "s": 1, "c": 1, "omega": 1, "eps": 0.1}, "needs q >= 2"),
    ],
)
def test_bad_numbers_say_what_is_wrong(key: str, numbers: dict, said: str) -> None:
    with pytest.raises(ValueError) as error:
        BOUNDS[key].evaluate(**numbers)
    message = str(error.value)
    assert said in message and "\n" not in message
    assert message.startswith(f"{BOUNDS[key].claim} {BOUNDS[key].method}: ")


def test_floats_are_taken_exactly_and_irrational_errors_are_floats() -> None:
    assert BOUNDS["product-interval"].evaluate(n=3, c=0.1).error == Fraction(0.1) / 9
    assert isinstance(evaluated("shallow-N", eps=0.01).error, Fraction)
