import inspect
from dataclasses import replace

import pytest
import sympy as sp

from theory import claims
from theory.bounds import BOUNDS
from theory.claims import counts, decoding, gates, learning, products, symbolic
from theory.claims.record import Claim, Step, run_steps

STEPS = [(claim.key, step) for claim in claims.CLAIMS.values() for step in claim.steps]
CHECKED = [(key, step) for key, step in STEPS if step.check is not None]


def claim_of(*steps: Step) -> Claim:
    return Claim("X", "title", "statement", "kofm", ("none",), "nothing", steps)


@pytest.mark.parametrize(("key", "step"), CHECKED, ids=[f"{key}-{s.check.__name__}" for key, s in CHECKED])
def test_every_checked_step_is_proved(key: str, step: Step) -> None:
    text, state = step.run()
    assert state == claims.PROVED, text


def test_registry() -> None:
    assert [*claims.CLAIMS] == [f"C{i}" for i in range(1, 16) if i != 10]
    assert all(key == claim.key for key, claim in claims.CLAIMS.items())


@pytest.mark.parametrize("claim", claims.CLAIMS.values(), ids=claims.CLAIMS)
def test_nothing_is_left_unsaid(claim: Claim) -> None:
    assert claim.title and claim.statement and claim.fixed and claim.steps
    assert claim.assumptions and all(claim.assumptions)
    assert claim.source.startswith(("paper", "kofm"))
    assert set(claim.bounds) <= set(BOUNDS)
    assert any(step.check for step in claim.steps)
    for step in claim.steps:
        assert "\n" not in step.text and not step.text.endswith(" ")
        # A step nobody has checked by machine says who answers for it.
        assert (step.check is None) == step.text.startswith(("by hand: ", "checked numerically by tests: "))


def test_every_proof_belongs_to_a_claim() -> None:
    used = {step.check for _, step in CHECKED}
    for module in (counts, decoding, gates, learning, products):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                assert function in used, name


def test_a_false_step_fails() -> None:
    a, A = symbolic.symmetric()

    def half_the_offset() -> bool:
        return symbolic.zero(symbolic.relu(a + A) - A / 2 - a)

    def chord_error_too_small() -> bool:
        t, n = sp.symbols("t n", positive=True)
        return symbolic.zero(products._chord_excess(t, t - 1 / n, t + 1 / n) - 1 / (2 * n**2))

    for check in (half_the_offset, chord_error_too_small, lambda: False):
        assert run_steps(claim_of(Step("no", check))) == [("no", "failed")]


def test_an_undecided_step_fails() -> None:
    x = sp.Symbol("x", real=True)
    assert run_steps(claim_of(Step("maybe", lambda: x > 0), Step("almost", lambda: 1))) == [
        ("maybe", "failed"),
        ("almost", "failed"),
    ]


def test_a_step_that_raises_fails_with_its_reason() -> None:
    x = sp.Symbol("x", real=True)
    (crashed,) = run_steps(claim_of(Step("crash", lambda: 1 / 0 == 0)))
    assert crashed == ("crash [ZeroDivisionError: division by zero]", "failed")
    ((text, state),) = run_steps(claim_of(Step("sign", lambda: symbolic.relu(x) == x)))
    assert state == "failed" and "the sign of x does not follow" in text


def test_a_step_without_check_is_not_proved() -> None:
    assert run_steps(claim_of(Step("by hand: so"))) == [("by hand: so", "not machine-checked")]


@pytest.mark.parametrize(
    ("module", "name", "wrong", "check"),
    [
        # Each replaces a piece of a proof by something false: the proof must notice.
        (products, "_knot", lambda k, n: -1 + 3 * sp.sympify(k) / n, products.square_error),
        (products, "_knot", lambda k, n: -1 + 3 * sp.sympify(k) / n, products.split_slopes),
        (products, "_knot", lambda k, n: -1 + (2 * sp.sympify(k) + 1) / n, products.product_exact_on_axes),
        (products, "_chord_excess", lambda t, a, b: a**2 + b * (t - a) - t**2, products.chord_error),
        (products, "_dip", lambda s: s - s**3, products.radix_step),
        (products, "_dip", lambda s: s - s**3, products.radix_hinges),
        (products, "_dip", lambda s: s - s**3, products.radix_slopes),
        (products, "_dip", lambda s: 2 * s - s**2, products.deep_product_error),
        (products, "relu", lambda a: a, products.support_gate),
        (products, "relu", lambda a: a, products.radix_two_start),
        (learning, "_joined", lambda modules, pairs: True, learning.rank_of_pairs),
        (learning, "reduce_columns", lambda tasks: (range(tasks.shape[1]), tasks), learning.rank_of_pairs),
        (decoding, "relu", lambda a: a, decoding.continuous_weights),
        (learning, "relu", lambda a: a, learning.twins_differ),
        (learning, "product", lambda values, repeat: [(0, 1, 2, 3)], learning.last_layer_is_silent),
        (decoding, "combinations", lambda values, size: [(values[0], values[0])], decoding.no_decoder_does_better),
        (gates, "relu", lambda a: a, gates.grid_written_out),
        (gates, "relu", lambda a: a, gates.indicator),
        (gates, "_grid_contribution", lambda distance, d: d * symbolic.p, gates.grid_term),
        (gates, "_grid_contribution", lambda distance, d: d * symbolic.r, gates.grid_telescopes),
        (gates, "_grid_contribution", lambda distance, d: d * symbolic.p, gates.grid_between_levels),
    ],
)
def test_a_wrong_ingredient_is_noticed(monkeypatch, module, name, wrong, check) -> None:
    monkeypatch.setattr(module, name, wrong)
    assert Step("wrong", check).run()[1] == "failed"


@pytest.mark.parametrize(
    ("key", "check"),
    [
        ("exact-khot", counts.khot_is_linear),
        ("exact-khot", counts.rank_form),
        ("exact-grid", counts.grid_is_linear),
        ("shallow-M", counts.split_count),
        ("shallow-N", counts.interval_count),
        ("shallow-N", counts.shallow_rate),
        ("deep-eps", counts.deep_steps),
        ("deep-eps", counts.deep_rate),
        ("rank-terms", counts.rank_terms),
        ("memorise", counts.memorise_form),
        ("pieces", counts.piece_count),
        ("layers-khot", counts.layered_count),
        ("layers-grid", counts.layered_count),
        ("chain", counts.chain_count),
    ],
)
def test_a_wrong_closed_form_is_noticed(monkeypatch, key: str, check) -> None:
    wrong = replace(BOUNDS[key], neurons=BOUNDS[key].neurons * sp.Rational(11, 10))
    monkeypatch.setitem(counts.BOUNDS, key, wrong)
    assert Step("wrong", check).run()[1] == "failed"


def test_rows() -> None:
    rows = claims.as_rows(claims.CLAIMS[key] for key in ("C2", "C12"))
    assert [row["key"] for row in rows] == ["C2", "C12"]
    assert all(row["failed"] == 0 and row["proved"] > 0 and row["by_hand"] > 0 for row in rows)
    for row in rows:
        assert row["proved"] + row["by_hand"] == len(claims.CLAIMS[row["key"]].steps)
    (bad,) = claims.as_rows([claim_of(Step("no", lambda: False))])
    assert (bad["proved"], bad["failed"], bad["by_hand"]) == (0, 1, 0)
