"""Exact methods: the Fraction network equals the target with ==, at every point of every family and circuit."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import build
from constructions.planning import gate_kind
from replaying import replay
from strategies import TABLE, CircuitFamily, F, circuits, hyperteachers, points, teacher, words
from theory import Hyperteacher
from theory.arithmetic import as_exact
from theory.circuit import Bilinear
from theory.evaluators import exact

EXACT_CASES = [c for c in TABLE if getattr(c.family, "weights", "khot") != "continuous" and c.name != "everything"]
modest = settings(max_examples=20, deadline=None, derandomize=True)


def assert_equal(family, net, n=8, seed=0):
    x, z = points(family, n, seed)
    assert net.guaranteed_error == 0
    for a, b in zip(x, z, strict=True):
        exact_z = family.z_domain.exact(b)
        assert replay(net, [*exact_z, *as_exact(a)]) == list(family.exact(a, b))


def gated(family, route="auto"):
    return all(gate_kind(n, route)[0] == "gate" for n in family.circuit.nodes if isinstance(n, Bilinear))


@pytest.mark.parametrize("case", EXACT_CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("route", ["auto", "M", "MN", "rank"])
def test_table(case, route):
    assert_equal(case.family, build(case.family, method="exact", route=route), n=12)


@modest
@given(hyperteachers(weights=("khot", "discrete"), layers=(1, 3)), st.sampled_from(["auto", "M", "MN", "rank"]))
def test_hyperteachers(family, route):
    assert_equal(family, build(family, method="exact", route=route))


@modest
@given(words(), st.sampled_from(["auto", "M", "MN", "rank"]))
def test_words(family, route):
    assert_equal(family, build(family, method="exact", route=route))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(circuits(exact=True), st.sampled_from(["auto", "M", "MN", "rank"]))
def test_circuits(circuit, route):
    family = CircuitFamily(circuit)
    assert gated(family)
    assert_equal(family, build(family, method="exact", route=route))


@modest
@given(hyperteachers(weights="khot", layers=1, max_modules=4))
def test_memorise(family):
    net = build(family, method="memorise")
    assert net.depth <= 1
    assert net.neurons <= family.tasks * family.hidden[0]
    assert_equal(family, net)


def test_every_task_of_a_small_grid():
    family = teacher(3, 2, (2, 3, 1), "discrete", levels=(F(1, 3), F(2, 5), F(9, 10)), seed=3)
    net = build(family)
    x = family.x_domain.exact(np.array([0.3, -0.7]))
    grid = (F(0), F(1, 3), F(2, 5), F(9, 10))
    tasks = [(a, b, c) for a in grid for b in grid for c in grid if 0 in (a, b, c)]
    for z in tasks:
        assert replay(net, [*z, *x]) == list(exact(family.circuit, x, np.array(z, dtype=object)))
    # The tests can say no: off the grid, and with one module too many, the same network errs.
    off = (F(1, 2), F(0), F(0))
    assert replay(net, [*off, *x]) != list(exact(family.circuit, x, np.array(off, dtype=object)))


def test_memorise_is_wrong_where_it_must_be():
    family = teacher(4, 2, (3, 5, 2), "khot", seed=5)
    net = build(family, method="memorise")
    three = [F(1), F(1), F(1), F(0)]
    x = as_exact(np.array([0.25, -0.5, 0.125]))
    assert replay(net, [*three, *x]) != list(exact(family.circuit, x, np.array(three, dtype=object)))
    assert net.neurons <= family.tasks * 5


@pytest.mark.parametrize("name", ["small-khot", "deep-khot"])
def test_teacher_files(name):
    family = Hyperteacher.load(Path(__file__).parent.parent / "data" / "teachers" / f"{name}.npz")
    net = build(family)
    assert net.exact
    assert_equal(family, net, n=6)


def test_modules_that_no_float_holds():
    """The ranges come from rounded forms, and must still contain the exact ones."""
    for k in range(1, 40):
        modules = np.array([1 + F(2 * k + 1, 2**62), F(1)], dtype=object).reshape(2, 1, 1)
        family = Hyperteacher([modules], [np.full((2, 1), 1e8)], [[1.0]], 1, "khot", F(1))
        for route in ("M", "MN", "rank"):
            net = build(family, method="exact", route=route)
            for x, z in (([-1.0], [1, 0]), ([1.0], [1, 0]), ([-1.0], [0, 1])):
                row = [*map(F, z), *map(F, x)]
                assert replay(net, row) == list(family.exact(np.array(x), np.array(z)))


def test_units_that_are_identically_zero_cost_nothing():
    net = build(Hyperteacher([np.zeros((3, 2, 4))], None, np.ones((4, 2)), 2))
    assert (net.neurons, net.formula_neurons, net.depth) == (0, 0, 0)


def test_memorising_values_beyond_the_integers_of_float64():
    family = Hyperteacher([np.array([[[1.1e17]], [[1e17]], [[1e17]]])], None, np.ones((1, 1)), 3)
    net = build(family, method="memorise")
    for z in ([1, 1, 1], [1, 0, 1], [0, 1, 0]):
        for x in (-1.0, 0.3, 1.0):
            assert replay(net, [*map(F, z), F(x)]) == list(family.exact(np.array([x]), np.array(z)))


def test_a_fraction_scale_stays_exact():
    family = Hyperteacher([np.ones((2, 1, 1))], None, [[1.0]], 1, scale=F(1, 3))
    assert family.exact(np.ones(1), np.array([1, 0])) == [F(1, 3)]
    assert replay(build(family), [F(1), F(0), F(1)]) == [F(1, 3)]
