"""Circuits: what nodes refuse, what a slice keeps, and that every value lies in the domain of its node."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import TABLE, circuits, hyperteachers, points, words
from theory.arithmetic import UNIT64, as_exact
from theory.circuit import (
    Affine,
    Assume,
    Bilinear,
    Circuit,
    Input,
    Maximum,
    ReLU,
    affine,
    box,
    concat,
    selection,
    take,
)
from theory.domains import Box, OneHot, Tasks
from theory.evaluators import exact
from theory.ranges import bilinear_range, domain_of, module_ranges

F = Fraction


def inputs(x=3, z=None):
    return Input("x", box(-np.ones(x), np.ones(x))), Input("z", z or Tasks(4, 2))


def check_domains(circuit, n):
    """The exact value of every node at n points lies in the bounds of its domain, compared in Fractions."""
    x, z = points(circuit, n)
    for a, b in zip(circuit.x.of.exact(x), circuit.z.of.exact(z), strict=True):
        for node in circuit.nodes:
            value = exact(Circuit(circuit.x, circuit.z, node), a, b)
            assert value.shape == (node.width,) == node.domain.lower.shape == node.domain.upper.shape
            assert np.all(as_exact(node.domain.lower) <= value), (node, value)
            assert np.all(value <= as_exact(node.domain.upper)), (node, value)


@pytest.mark.parametrize("case", TABLE, ids=lambda c: c.name)
def test_domains_of_the_table_are_sound(case):
    check_domains(case.circuit, 8)


@settings(max_examples=60, deadline=None)
@given(circuits())
def test_domains_of_random_circuits_are_sound(circuit):
    check_domains(circuit, 12)


@settings(max_examples=25, deadline=None)
@given(hyperteachers() | words())
def test_domains_of_random_families_are_sound(family):
    check_domains(family.circuit, 6)


def fraction_matrix(generator, shape):
    values = generator.integers(-9, 10, shape)
    return np.array([F(int(v), 7) for v in values.ravel()], dtype=object).reshape(shape)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([Tasks(4, 2, levels=(F(1, 3), F(2, 3))), OneHot(2, 2)]))
def test_domains_hold_for_coefficients_that_float64_cannot_hold(seed, domain):
    """Sevenths and thirds, with cancellation: what rounding the coefficients loses must be in the bounds."""
    generator = np.random.default_rng(seed)
    x, z = Input("x", box([-0.7, 0.1], [0.9, 0.1])), Input("z", domain)
    mixed = Bilinear(fraction_matrix(generator, (4, 2, 3)), z, x)
    matrix = fraction_matrix(generator, (3, 2))
    tiny = affine(
        [(mixed, matrix), (z, fraction_matrix(generator, (4, 2))), (mixed, -matrix)],
        fraction_matrix(generator, 2),
    )
    check_domains(Circuit(x, z, tiny), 8)


# Sharpness where it is claimed


def brute(node, x, z, corners, tasks):
    circuit = Circuit(x, z, node)
    values = np.array([exact(circuit, a, b) for a in corners for b in tasks])
    return values.min(axis=0), values.max(axis=0)


def assert_attained(domain, least, most, size):
    for h in range(len(least)):
        assert F(domain.lower[h]) <= least[h] and most[h] <= F(domain.upper[h])
        assert float(least[h]) - domain.lower[h] <= 200 * UNIT64 * size
        assert domain.upper[h] - float(most[h]) <= 200 * UNIT64 * size


@pytest.mark.parametrize("indices", [[0, 1, 2, 3, 4], [4, 0, 2], [3]])
def test_the_range_of_a_mixture_is_attained_where_x_is_a_point(indices):
    """At most K of the modules that are looked at, whichever slice of z the tensor takes."""
    generator = np.random.default_rng(3)
    x, z = Input("x", box([0.5, -2.0], [0.5, -2.0])), Input("z", Tasks(5, 2, levels=(F(1, 2), F(3, 2))))
    node = Bilinear(generator.standard_normal((len(indices), 2, 3)), take(z, indices), x)
    tasks = [t for t in product((F(0), F(3, 2)), repeat=5) if sum(v != 0 for v in t) <= 2]
    least, most = brute(node, x, z, [(0.5, -2.0)], [np.array(t, dtype=object) for t in tasks])
    assert_attained(node.domain, least, most, 20)


def test_the_range_of_a_mixture_is_attained_where_all_modules_agree_on_x():
    generator = np.random.default_rng(4)
    x, z = inputs(2, Tasks(4, 2))
    node = Bilinear(np.abs(generator.standard_normal((4, 2, 3))), z, x)
    tasks = [np.array(t) for t in product((0, 1), repeat=4) if sum(t) <= 2]
    least, most = brute(node, x, z, list(product((-1, 1), repeat=2)), tasks)
    assert_attained(node.domain, least, most, 20)


def test_one_entry_of_each_group_counts():
    generator = np.random.default_rng(5)
    x, z = Input("x", box([1.0], [1.0])), Input("z", OneHot(2, 3))
    node = Bilinear(np.abs(generator.standard_normal((6, 1, 2))), z, x)
    tasks = [np.eye(6)[a] + np.eye(6)[b] for a in range(3) for b in range(3, 6)]
    _, most = brute(node, x, z, [(1,)], tasks)
    assert_attained(Box(np.zeros(2), node.domain.upper), np.zeros(2) * F(0), most, 20)


def test_a_slice_of_groups_remembers_the_groups():
    """Entries of two groups can be on together, entries of one cannot."""
    x, z = Input("x", box([1.0], [1.0])), Input("z", OneHot(2, 2))
    for indices, most in (([0, 2], 2), ([3, 1], 2), ([0, 1], 1), ([3, 2], 1)):
        upper = Bilinear(np.ones((2, 1, 1)), take(z, indices), x).domain.upper
        assert upper >= most and upper == pytest.approx([most])


def test_ranges_of_the_modules_are_those_of_the_box():
    tensor = np.array([[[1.0], [-2.0]], [[0.0], [4.0]]])
    low, high = module_ranges(tensor, box([0.0, 0.0], [1.0, 0.5]))
    assert low.ravel() == pytest.approx([-1, 0]) and high.ravel() == pytest.approx([1, 2])


@pytest.mark.parametrize("signs", list(product(((-2.0, 3.0), (1.0, 2.0), (-3.0, -1.0)), repeat=2)))
def test_the_range_of_a_plain_product_is_that_of_intervals(signs):
    """u is a function of x: every combination of signs, against the four products of the ends."""
    (a, b), (c, d) = signs
    x = Input("x", box([a, c], [b, d]))
    low, high = bilinear_range(np.ones((1, 1, 1)), take(x, [0]), take(x, [1]))
    ends = [p * q for p in (a, b) for q in (c, d)]
    assert low == pytest.approx([min(ends)]) and high == pytest.approx([max(ends)])
    assert low <= min(ends) and high >= max(ends)


def test_elementwise_ranges_are_exact():
    x = Input("x", box([-1.0, -3.0, 2.0], [2.0, -1.0, 3.0]))
    assert ReLU(x).domain.lower.tolist() == [0, 0, 2] and ReLU(x).domain.upper.tolist() == [2, 0, 3]
    other = take(x, [1, 0, 2])
    top = Maximum(x, other).domain
    assert top.lower.tolist() == [-1, -1, 2] and top.upper.tolist() == [2, 2, 3]


# Slices


def test_a_slice_keeps_the_domain_of_its_source():
    x, z = inputs()
    part = take(take(z, [3, 1, 0]), [2, 0])
    root, indices = selection(part)
    assert root is z and indices.tolist() == [0, 3]
    assert take(z, range(4)).domain is z.of
    bounds = take(Input("x", box([0.0, 1.0, 2.0], [5.0, 6.0, 7.0])), [2, 0]).domain
    assert bounds.lower.tolist() == [2, 0] and bounds.upper.tolist() == [7, 5]
    declared = Assume(z, Tasks(4, 1), "why")
    assert selection(take(declared, [1]))[0] is declared
    assert selection(x)[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda x, z: take(z, [1, 1]),
        lambda x, z: affine([(z, 2.0)]),
        lambda x, z: affine([(z, 1.0)], [0, 0, 0, 1]),
        lambda x, z: affine([(z, [[1.0], [1], [0], [0]])]),
        lambda x, z: affine([(z, [[1.0, 1], [0, 0], [0, 0], [0, 0]])]),
        lambda x, z: affine([(z, [[1.0, 0], [0, 0], [0, 0], [0, 0]])]),
        lambda x, z: concat([x, z]),
        lambda x, z: concat([x], [1.0]),
        lambda x, z: ReLU(z),
        lambda x, z: take(ReLU(z), [0]),
    ],
)
def test_what_is_not_a_slice(make):
    assert selection(make(*inputs())) is None


def test_concat_and_take_place_their_entries():
    x, z = inputs(2, Tasks(3, 3, levels=(F(1, 2), F(1))))
    joined = concat([z, x], constant=[7.0, -1.0])
    a, b = as_exact([0.25, -0.5]), as_exact([0.5, 0, 1])
    assert exact(Circuit(x, z, joined), a, b).tolist() == [*b, *a, 7, -1]
    assert exact(Circuit(x, z, take(joined, [6, 0, 0, 4])), a, b).tolist() == [-1, F(1, 2), F(1, 2), F(-1, 2)]


# Graphs


@settings(max_examples=30, deadline=None)
@given(circuits())
def test_nodes_come_once_and_after_their_parents(circuit):
    place = {id(n): i for i, n in enumerate(circuit.nodes)}
    assert len(place) == len(circuit.nodes) and circuit.nodes[-1] is circuit.output
    assert all(place[id(p)] < place[id(n)] for n in circuit.nodes for p in n.parents)


def test_a_long_chain_does_not_exhaust_the_stack():
    x, z = inputs(1)
    node = x
    for _ in range(3000):
        node = ReLU(node)
    circuit = Circuit(x, z, node)
    assert len(circuit.nodes) == 3001 and exact(circuit, [0.5], [0, 0, 0, 0]).tolist() == [F(1, 2)]


def test_what_was_declared_is_listed():
    x, z = inputs()
    inner = Assume(x, box(np.zeros(3), np.ones(3)), "x is a share")
    outer = Assume(affine([(inner, 2.0)]), box(np.zeros(3), np.full(3, 2.0)), "twice a share")
    assert Circuit(x, z, outer).trusted == ("x is a share", "twice a share")
    assert inner.domain.lower.tolist() == [0, 0, 0] and Circuit(x, z, x).trusted == ()


def test_a_node_without_a_rule_is_refused():
    with pytest.raises(TypeError, match="int"):
        domain_of(3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda x, z: Affine(((x, np.ones((2, 3))),), np.zeros(2)),
            ["(2, 3)", "(3, 2)", "(fan-in, fan-out)"],
        ),
        (lambda x, z: affine([(x, np.ones((4, 2)))]), ["(4, 2)", "(3, 2)"]),
        (lambda x, z: affine([(x, np.full((3, 2), np.nan))]), ["affine", "finite"]),
        (lambda x, z: affine([(x, np.ones((3, 2)))], [0, np.inf]), ["affine", "finite"]),
        (lambda x, z: affine([]), ["affine", "at least one"]),
        (lambda x, z: concat([], [1.0]), ["affine", "at least one"]),
        (lambda x, z: Maximum(x, z), ["3", "4", "equal"]),
        (lambda x, z: Bilinear(np.ones((3, 4, 2)), z, x), ["(3, 4, 2)", "(4, 3, width)"]),
        (lambda x, z: Bilinear(np.ones((4, 3)), z, x), ["(4, 3)", "(4, 3, width)"]),
        (lambda x, z: Bilinear(np.full((4, 3, 1), np.inf), z, x), ["bilinear", "finite"]),
        (lambda x, z: Assume(x, Tasks(4, 2), "no"), ["4", "3"]),
        (lambda x, z: Circuit(x, z, Input("y", x.of)), ["neither x nor z"]),
        (lambda x, z: Circuit(z, z, ReLU(x)), ["neither x nor z"]),
    ],
)
def test_bad_nodes_are_refused_in_one_line(make, words):
    with pytest.raises(ValueError) as error:
        make(*inputs())
    text = str(error.value)
    assert "\n" not in text and all(word in text for word in words), text
