"""The compiled network is the circuit, within the guarantee; and what its layers say about themselves is true."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import build, compiler
from replaying import trace
from strategies import TABLE, CircuitFamily, F, circuits, hyperteachers, points, teacher
from theory import Hyperteacher, Words
from theory.arithmetic import as_exact
from theory.circuit import Bilinear, Circuit, Input, ReLU, affine, box
from theory.domains import Tasks

modest = settings(max_examples=15, deadline=None, derandomize=True)
methods = st.sampled_from(["shallow", "deep"])
routes = st.sampled_from(["auto", "M", "N", "MN", "rank"])


def assert_within(family, net, eps, n=6):
    """|network - target| <= guaranteed <= eps in Fractions, and the labels of the layers hold."""
    guaranteed = F(net.guaranteed_error)
    assert guaranteed <= F(eps)
    x, z = points(family, n, seed=5)
    for a, b in zip(x, z, strict=True):
        task = family.z_domain.exact(b)
        seen = trace(net, [*task, *as_exact(a)])
        for got, wanted in zip(seen[-1][1], family.exact(a, b), strict=True):
            assert abs(got - wanted) <= guaranteed
        assert_labels(net, seen, task)


def assert_labels(net, seen, task):
    for layer, (inside, values) in zip(net.layers[:-1], seen, strict=False):
        for j, (before, value) in enumerate(zip(inside, values, strict=True)):
            assert value <= F(float(layer.upper[j]))
            if layer.owner[j] >= 0 and task[layer.owner[j]] == 0:
                assert value == 0
                assert layer.margin[j] == 0 or before <= -F(float(layer.margin[j]))
            if layer.labels.gadget[j] in ("carrier", "accumulator"):
                assert before >= 0  # a carrier is never bent


@settings(max_examples=30, deadline=None, derandomize=True)
@given(circuits(), routes, methods, st.sampled_from([1.0, 0.3]))
def test_any_circuit(circuit, route, method, eps):
    family = CircuitFamily(circuit)
    net = build(family, eps, method, route)
    if net.exact:
        assert_within(family, net, eps)


@modest
@given(hyperteachers(bounds=(-1.0, 1.0), layers=(1, 2), max_width=4), routes, methods, st.sampled_from([0.5, 0.1]))
def test_any_hyperteacher(family, route, method, eps):
    net = build(family, eps, method, route)
    if net.exact:
        assert_within(family, net, eps)


@pytest.mark.parametrize("case", TABLE, ids=lambda c: c.name)
def test_table(case):
    net = build(case.family, 0.25)
    assert net.exact
    assert_within(case.family, net, 0.25)


@pytest.mark.parametrize("levels", [None, (F(1, 8), F(3))])  # G4', and G4 whose neurons only cancel
@pytest.mark.parametrize("method", ["shallow", "deep"])
def test_modules_that_are_off_cost_no_error(levels, method):
    family = teacher(6, 1, (2, 3, 2), "continuous", seed=4, levels=levels)
    net = build(family, 0.2, method, "M")
    nothing = [F(0)] * 6
    x, _ = points(family, 6, seed=1)
    for a in x:  # at z = 0 the network is exact: every module is off
        assert trace(net, [*nothing, *as_exact(a)])[-1][1] == list(family.exact(a, np.zeros(6)))
    assert_within(family, net, 0.2)
    owners = np.concatenate([layer.owner for layer in net.layers[:-1]])
    modules = net.labels["module"]
    assert np.all((owners == modules) | (owners == -1))
    gadgets = np.isin(net.labels["gadget"], ["split", "product", "square", "split (shared)"])
    assert np.all(modules[gadgets] >= 0)
    if levels is None:
        assert np.all(owners[gadgets] >= 0)
    else:
        assert np.all(owners[gadgets] == -1)  # these neurons are not 0 at z = 0


@pytest.mark.parametrize("weights", ["khot", "discrete", "continuous"])
@pytest.mark.parametrize("method", ["shallow", "deep"])
def test_modules_that_are_off_are_exactly_zero_in_float32(weights, method):
    family = teacher(9, 3, (4, 5, 2), weights, seed=8, box=([-1.0, 3.0, 100.0, 0.1], [1.0, 3.5, 101.0, 0.7]))
    net = build(family, 0.5, method, "M" if weights == "continuous" else "auto", torch.float32)
    x, z = (torch.as_tensor(side, dtype=torch.float32) for side in points(family, 300, seed=2))
    value, owned = torch.cat([z, x], dim=1), 0
    for layer, linear in zip(net.layers[:-1], net.linear[:-1], strict=True):
        value = torch.relu(linear(value))
        for j in np.flatnonzero(layer.owner >= 0):
            if layer.labels.gadget[j] != "carrier":
                assert torch.all(value[z[:, layer.owner[j]] == 0, j] == 0)
                owned += 1
    assert owned >= 9


def test_auto_takes_the_cheaper_method():
    family = teacher(3, 2, (2, 3, 2), "continuous", seed=1)
    for eps in (0.5, 1e-4):
        shallow, deep, auto = (build(family, eps, m).neurons for m in ("shallow", "deep", "auto"))
        assert auto == min(shallow, deep)
    assert build(family, 1e-4).method == "deep"
    assert build(family, 0.5).method == "shallow"
    exact = teacher(3, 2, (2, 3, 2), "khot", seed=1)
    assert build(exact).method == build(exact, 0.1).method == "exact"
    assert build(exact).neurons == build(exact, 1e-9).neurons  # eps does not change an exact network
    assert build(Words.sample()).method == "exact"


def test_auto_takes_the_cheapest_route():
    few_inputs = teacher(8, 2, (1, 4, 2), "continuous", seed=1)
    counts = {r: build(few_inputs, 0.05, "shallow", r).neurons for r in ("M", "N", "MN", "rank")}
    net = build(few_inputs, 0.05, "shallow")
    assert net.neurons == min(counts.values()) < max(counts.values())
    assert counts[net.route] == net.neurons


@pytest.mark.parametrize("method", ["shallow", "deep"])
def test_smaller_eps_needs_more_neurons(method):
    family = teacher(3, 2, (2, 3, 2), "continuous", seed=2)
    nets = [build(family, eps, method) for eps in (0.3, 0.1, 0.01, 0.001)]
    assert all(a.neurons < b.neurons for a, b in pairwise(nets))
    assert all(net.eps >= net.guaranteed_error > 0.1 * net.eps for net in nets)


def test_the_budget_leaves_room_for_rounding():
    family = teacher(4, 2, (3, 4, 2), "continuous", seed=3)
    for eps, dtype in ((1e-2, torch.float32), (1e-2, torch.float64), (1e-3, torch.float64)):
        net = build(family, eps, dtype=dtype)
        assert net.guaranteed_error + net.rounding_error <= eps


def test_inherited_errors_are_part_of_the_guarantee():
    """Two products in a row: the first one's error, amplified by the second, must be paid for as well."""
    x, z = Input("x", box([-1.0], [1.0])), Input("z", Tasks(1, 1, levels=None, interval=(F(1, 2), F(4))))
    square = Bilinear(np.ones((1, 1, 1)), z, x)
    family = CircuitFamily(Circuit(x, z, Bilinear(np.ones((1, 1, 1)), z, affine([(ReLU(square), 8.0)]))))
    for method in ("shallow", "deep"):
        net = build(family, 0.5, method)
        assert_within(family, net, 0.5, n=12)
        ends = [F(1, 2) + F(7 * i, 48) for i in range(25)]
        worst = max(
            abs(trace(net, [w, F(a, 12)])[-1][1][0] - 8 * w * w * max(F(a, 12), F(0)))
            for w in ends
            for a in range(0, 13, 2)
        )
        assert F(net.guaranteed_error) / 50 < worst <= F(net.guaranteed_error)


REFUSED = [
    ({"method": "best"}, "method: 'best' is unknown; use one of auto, exact, shallow, deep, memorise"),
    ({"route": "X"}, "route: 'X' is unknown; use auto or one of M, N, MN, rank"),
    ({"dtype": torch.float16}, "dtype: torch.float16 is not supported; use torch.float32 or torch.float64"),
    ({"method": "shallow"}, "eps: method shallow approximates; give the error you accept, such as eps=1e-2"),
    ({}, "approximates; give the error you accept, such as eps=1e-2"),
    ({"method": "exact"}, "exact: continuous weights have no exact ReLU network"),
    ({"method": "memorise"}, "memorise: needs khot weights"),
    *(({"eps": e}, "must be a finite number above 0") for e in (0, -1.0, float("nan"), float("inf"))),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_refusals(arguments, message):
    with pytest.raises(ValueError) as refusal:
        build(teacher(3, 2, (2, 3, 2), "continuous"), **arguments)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_exact_refuses_the_inputs_route():
    with pytest.raises(ValueError, match=r"exact: route N .* use .*M, MN, rank"):
        build(teacher(3, 2, (2, 3, 2), "khot"), method="exact", route="N")


@pytest.mark.parametrize(("weights", "method", "eps"), [("khot", "exact", None), ("continuous", "deep", 0.1)])
def test_built_twice_is_the_same_to_the_byte(weights, method, eps):
    def image():
        net = build(Hyperteacher.sample(6, 2, 4, (5,), 3, weights, seed=3), eps, method)
        return [t.numpy().tobytes() for t in net.state_dict().values()], repr(net), net.labels["gadget"].tolist()

    assert image() == image()


def test_methods_are_the_contract():
    assert compiler.METHODS == ("auto", "exact", "shallow", "deep", "memorise")


@pytest.mark.parametrize("route", ["M", "N"])
def test_a_deep_guarantee_holds_beyond_64_bits(route):
    """Q^2 passes 2^63 here: Python integers are needed."""
    bias, readout = [np.full((1, 1), 0.3)], np.full((1, 1), 0.7)
    family = Hyperteacher([np.full((1, 1, 1), 1.3)], bias, readout, 1, "continuous", 1.0, (0, 1), [1, 2])
    net = build(family, 1e-22, "deep", route)
    for x in np.linspace(0, 1, 7):
        for z in np.linspace(1, 2, 7):
            (got,) = trace(net, [F(float(z)), F(float(x))])[-1][1]
            (wanted,) = family.exact(np.array([x]), np.array([z]))
            assert abs(got - wanted) <= F(net.guaranteed_error) <= F(1e-22)


def test_products_that_would_need_too_many_pieces_or_weights_are_refused():
    family = Hyperteacher.sample(modules=4, weights="continuous")
    for eps in (1e-9, 1e-40):
        with pytest.raises(ValueError, match="larger eps"):
            build(family, eps, "shallow")


def test_a_product_of_functions_of_x_is_named_as_the_reason():
    x, z = Input("x", box([-1], [1])), Input("z", Tasks(2, 1))
    square = Bilinear(np.ones((1, 1, 1)), x, x)
    with pytest.raises(ValueError, match="vary continuously"):
        build(CircuitFamily(Circuit(x, z, square)), method="exact")
