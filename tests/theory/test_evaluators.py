"""Evaluators check one another, and a plain formula, on the shared table and on random circuits."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from strategies import TABLE, CircuitFamily, circuits, hyperteachers, points, tensors
from theory.arithmetic import as_exact, as_float, is_exact
from theory.circuit import Bilinear, Circuit, Input, Maximum, ReLU, affine, box, concat, take
from theory.domains import Tasks
from theory.evaluators import Exact, Interval, enclose, evaluate, exact
from theory.families import Hyperteacher

F = Fraction
TABLE_IDS = [c.name for c in TABLE]
SEEDS = st.integers(0, 2**32 - 1)


def size_of(circuit):
    """A bound of every value met in the circuit: float64 errors are relative to it."""
    return max(max(np.abs(n.domain.lower).max(), np.abs(n.domain.upper).max()) for n in circuit.nodes)


def by_formula(family, x, z):
    """The definition of a hyperteacher once more, in Fractions and without the package's evaluators."""
    value = x
    for theta, bias in zip(family.layers, family.biases, strict=True):
        mixed = sum((as_exact(theta[m]) * z[m] for m in range(family.modules)), as_exact(np.zeros(theta.shape[1:])))
        offset = sum((as_exact(bias[m]) * z[m] for m in range(family.modules)), as_exact(np.zeros(bias.shape[1])))
        value = [max(F(family.scale) * h, F(0)) for h in np.array(value, dtype=object) @ mixed + offset]
    return np.array(value, dtype=object) @ as_exact(family.readout)


@pytest.mark.parametrize("case", [c for c in TABLE if isinstance(c.family, Hyperteacher)], ids=lambda c: c.name)
def test_exact_is_the_definition(case):
    x, z = points(case.family, 6)
    for a, b in zip(case.family.x_domain.exact(x), case.family.z_domain.exact(z), strict=True):
        value = exact(case.circuit, a, b)
        assert value.shape == (case.family.outputs,)
        assert np.array_equal(value, by_formula(case.family, a, b))


@settings(max_examples=15, deadline=None)
@given(hyperteachers(), SEEDS)
def test_exact_is_the_definition_for_random_hyperteachers(family, seed):
    x, z = points(family, 2, seed)
    for a, b in zip(x, z, strict=True):
        wanted = by_formula(family, family.x_domain.exact(a), family.z_domain.exact(b))
        assert np.array_equal(family.exact(a, b), wanted)


def test_exact_by_hand():
    x, z = Input("x", box([-1, -1], [1, 1])), Input("z", Tasks(2, 2, levels=(F(1, 3), F(1))))
    tensor = np.array([[[1.0, 2, 3], [4, 5, 6]], [[-1, 0, 1], [0, 0, 2]]])
    node = Maximum(Bilinear(tensor, z, x), affine([(x, np.zeros((2, 3)))], [0.0, 0, 1]))
    value = exact(Circuit(x, z, ReLU(affine([(node, 2.0), (x, np.ones((2, 3)))]))), [0.5, -0.25], [F(1, 3), 1])
    # module 0: (-.5, -.25, 0), module 1: (-.5, 0, 0); a third of the first plus the second; max
    assert value.tolist() == [F(1, 4), F(1, 4), F(9, 4)]


def test_exact_reads_only_what_is_not_zero():
    """M = 10^5 costs what K modules cost: entries that meet a zero are not even converted."""
    tensor = np.full((3, 2, 1), object(), dtype=object)
    tensor[1, 0, 0] = F(7)
    node = Bilinear(tensor, Input("z", Tasks(3, 1)), Input("x", box([-1, -1], [1, 1])))
    assert Exact().bilinear(node, as_exact([0, 2, 0]), as_exact([3, 0])).tolist() == [42]
    assert Exact().bilinear(node, as_exact([0, 0, 0]), as_exact([3, 1])).tolist() == [0]


def check_torch(circuit, n, seed=0):
    x, z = points(circuit, n, seed)
    found = evaluate(circuit, *tensors(x, z))
    assert found.shape == (n, 1, circuit.output.width) and found.dtype == torch.float64
    scale = size_of(circuit)
    for a, b, row in zip(x, z, found[:, 0].numpy(), strict=True):
        assert np.abs(row - as_float(exact(circuit, a, b))).max() <= 1e-12 * max(scale, 1)


@pytest.mark.parametrize("case", TABLE, ids=TABLE_IDS)
def test_torch_agrees_with_exact_on_the_table(case):
    check_torch(case.circuit, 8)


@settings(max_examples=40, deadline=None)
@given(circuits(), SEEDS)
def test_torch_agrees_with_exact_on_random_circuits(circuit, seed):
    check_torch(circuit, 6, seed)


@settings(max_examples=30, deadline=None)
@given(circuits(), SEEDS, st.integers(1, 3), st.integers(1, 4))
def test_batches_are_rows(circuit, seed, tasks, samples):
    """Sample s of task t is f(x_ts, z_t), even where the output depends on x alone or z alone."""
    generator = np.random.default_rng(seed)
    z = torch.as_tensor(circuit.z.of.sample(tasks, generator))
    x = torch.as_tensor(circuit.x.of.sample(tasks * samples, generator)).reshape(tasks, samples, -1)
    found = evaluate(circuit, x, z)
    assert found.shape == (tasks, samples, circuit.output.width)
    for t, s in product(range(tasks), range(samples)):
        alone = evaluate(circuit, x[t : t + 1, s : s + 1], z[t : t + 1])[0, 0]
        assert torch.allclose(found[t, s], alone, rtol=0, atol=1e-12 * max(size_of(circuit), 1))


@pytest.mark.parametrize("case", TABLE, ids=TABLE_IDS)
def test_single_precision_stays_single(case):
    x, z = points(case.circuit, 16)
    found = evaluate(case.circuit, *tensors(x, z, torch.float32))
    wanted = evaluate(case.circuit, *tensors(x, z))
    assert found.dtype == torch.float32
    assert (found - wanted).abs().max() <= 1e-4 * max(size_of(case.circuit), 1)


@pytest.mark.parametrize("name", ["continuous", "three-layers", "everything", "words"])
def test_torch_is_differentiable_in_x_and_z(name):
    case = next(c for c in TABLE if c.name == name)
    generator = np.random.default_rng(3)
    x = torch.as_tensor(case.circuit.x.of.sample(4, generator)).reshape(2, 2, -1).requires_grad_()
    z = torch.as_tensor(case.circuit.z.of.sample(2, generator)).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: evaluate(case.circuit, a, b), (x, z))


class Sizes(TorchDispatchMode):
    """Records the number of entries of every tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.made = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.made[out.numel()] += 1
        return out


def largest(circuit, tasks, samples):
    generator = np.random.default_rng(0)
    x = torch.as_tensor(circuit.x.of.sample(tasks * samples, generator)).reshape(tasks, samples, -1)
    z = torch.as_tensor(circuit.z.of.sample(tasks, generator))
    with Sizes() as sizes:
        evaluate(circuit, x, z)
    return max(sizes.made)


@pytest.mark.parametrize("swapped", [False, True], ids=["z first", "x first"])
def test_mixed_weights_exist_once_a_task_never_once_a_sample(swapped):
    modules, inputs, width, tasks, samples = 5, 11, 7, 3, 200
    x, z = Input("x", box(-np.ones(inputs), np.ones(inputs))), Input("z", Tasks(modules, 2))
    tensor = np.random.default_rng(1).standard_normal((modules, inputs, width))
    node = Bilinear(tensor.transpose(1, 0, 2), x, z) if swapped else Bilinear(tensor, z, x)
    circuit = Circuit(x, z, ReLU(node))
    assert largest(circuit, tasks, samples) == tasks * samples * width  # the output itself
    assert largest(circuit, tasks, samples) < tasks * samples * inputs * width
    assert largest(circuit, tasks, 1) == modules * inputs * width  # the tensor itself
    check_torch(circuit, 5)


def test_what_depends_on_the_task_alone_is_computed_once_a_task():
    z = Input("z", Tasks(50, 2))
    x = Input("x", box([-1.0], [1.0]))
    wide = ReLU(affine([(z, np.ones((50, 40)))]))
    narrow = affine([(wide, np.ones((40, 2))), (x, np.ones((1, 2)))])
    assert largest(Circuit(x, z, narrow), 3, 500) == 3 * 500 * 2


def test_shared_nodes_are_evaluated_once(monkeypatch):
    calls = []
    relu = Exact.relu
    monkeypatch.setattr(Exact, "relu", lambda self, v: calls.append(1) or relu(self, v))
    x, z = Input("x", box([-1.0], [1.0])), Input("z", Tasks(1, 1))
    node = x
    for _ in range(12):  # without sharing: 2^12 evaluations
        top = ReLU(node)
        node = affine([(top, 0.5), (Maximum(top, top), 0.5)])
    assert exact(Circuit(x, z, node), [0.5], [1]).tolist() == [F(1, 2)] and len(calls) == 12


# Intervals


def inside(circuit, seed):
    """A random pair of nested boxes inside the hull of the inputs, and exact points of the inner one."""
    generator = np.random.default_rng(seed)

    def nested(domain):
        ends = np.sort(domain.lower + (domain.upper - domain.lower) * generator.random((4, domain.size)), axis=0)
        ends = np.clip(ends, domain.lower, domain.upper)
        picks = generator.integers(0, 3, (5, domain.size))
        middle = (ends[1] + (ends[2] - ends[1]) * generator.random(domain.size)).clip(ends[1], ends[2])
        return (
            Interval(ends[0], ends[3]),
            Interval(ends[1], ends[2]),
            np.choose(picks, [ends[1], middle, ends[2]]),
        )

    return nested(circuit.x.of), nested(circuit.z.of)


def in_fractions(interval):
    return Interval(as_exact(interval.lower), as_exact(interval.upper))


def check_intervals(circuit, seed):
    (x_outer, x_inner, x), (z_outer, z_inner, z) = inside(circuit, seed)
    floats = enclose(circuit, x_inner, z_inner)
    fractions = enclose(circuit, in_fractions(x_inner), in_fractions(z_inner))
    outer = enclose(circuit, in_fractions(x_outer), in_fractions(z_outer))
    assert is_exact(fractions.lower) and is_exact(fractions.upper)
    assert floats.lower.dtype == floats.upper.dtype == np.float64
    # the ladder: exact values in Fraction intervals in float intervals, and wider inputs give wider outputs
    assert np.all(as_exact(floats.lower) <= fractions.lower) and np.all(fractions.upper <= as_exact(floats.upper))
    assert np.all(outer.lower <= fractions.lower) and np.all(fractions.upper <= outer.upper)
    for a, b in zip(x, z, strict=True):
        value = exact(circuit, a, b)
        assert np.all(fractions.lower <= value) and np.all(value <= fractions.upper)
        point = enclose(circuit, Interval(as_exact(a), as_exact(a)), Interval(as_exact(b), as_exact(b)))
        assert np.array_equal(point.lower, value) and np.array_equal(point.upper, value)
        near = enclose(circuit, Interval(a, a), Interval(b, b))
        assert np.all(as_exact(near.lower) <= value) and np.all(value <= as_exact(near.upper))
    # the hull of z leaves the domain (more than K on), so that domains do not bound what is met
    magnitude = max(1.0, *(float(v) for v in np.abs(np.concatenate([outer.lower, outer.upper]))))
    assert (floats.upper - as_float(fractions.upper)).max() <= 1e-9 * magnitude * max(size_of(circuit), 1)


@pytest.mark.parametrize("case", TABLE, ids=TABLE_IDS)
def test_intervals_enclose_on_the_table(case):
    check_intervals(case.circuit, 1)


@settings(max_examples=40, deadline=None)
@given(circuits(), SEEDS)
def test_intervals_enclose_on_random_circuits(circuit, seed):
    check_intervals(circuit, seed)


@pytest.mark.parametrize("signs", list(product(((-2, 3), (1, 2), (-3, -1)), repeat=2)))
def test_the_interval_of_a_product_is_the_hull(signs):
    (a, b), (c, d) = signs
    x, z = Input("x", box([-9.0], [9.0])), Input("z", Tasks(1, 1, levels=(F(9),)))
    circuit = Circuit(x, z, Bilinear(np.array([[[-1.5]]]), z, x))
    found = enclose(circuit, Interval(as_exact([a]), as_exact([b])), Interval(as_exact([c]), as_exact([d])))
    ends = [F(-3, 2) * p * q for p in (a, b) for q in (c, d)]
    assert (found.lower[0], found.upper[0]) == (min(ends), max(ends))


def test_the_interval_of_an_affine_form_is_attained():
    generator = np.random.default_rng(2)
    x, z = Input("x", box(-np.ones(3), np.ones(3))), Input("z", Tasks(2, 2))
    circuit = Circuit(x, z, affine([(concat([x, z]), generator.standard_normal((5, 4)))], generator.standard_normal(4)))
    corners = list(product((-1, 1), repeat=3)), list(product((0, 1), repeat=2))
    values = np.array([exact(circuit, list(a), list(b)) for a in corners[0] for b in corners[1]])
    ends = Interval(as_exact([-1] * 3), as_exact([1] * 3)), Interval(as_exact([0] * 2), as_exact([1] * 2))
    found = enclose(circuit, *ends)
    assert np.array_equal(found.lower, values.min(axis=0)) and np.array_equal(found.upper, values.max(axis=0))


def test_float_intervals_hold_coefficients_that_float64_cannot_hold():
    x, z = Input("x", box([1.0], [1.0])), Input("z", Tasks(1, 1))
    thirds = np.array([[[F(1, 3), F(-2, 7)]]], dtype=object)
    for node in (
        affine([(x, thirds[0])]),
        Bilinear(thirds, z, x),
        affine([(x, np.zeros((1, 2)))], thirds[0, 0]),
    ):
        found = enclose(Circuit(x, z, node), *(Interval(np.ones(1), np.ones(1)) for _ in range(2)))
        assert np.all(as_exact(found.lower) < thirds[0, 0]) and np.all(thirds[0, 0] < as_exact(found.upper))
        assert np.all(found.upper - found.lower < 1e-14)
        point = Interval(as_exact([1]), as_exact([1]))
        found = enclose(Circuit(x, z, node), point, point)
        assert np.array_equal(found.lower, thirds[0, 0]) and np.array_equal(found.upper, thirds[0, 0])


# Families


@pytest.mark.parametrize("case", TABLE, ids=TABLE_IDS)
def test_families_call_their_circuit(case):
    x, z = points(case.family, 6)
    found = case.family(*tensors(x, z))
    assert torch.equal(found, evaluate(case.circuit, *tensors(x, z)))
    assert (case.family.inputs, case.family.outputs) == (case.circuit.x.width, case.circuit.output.width)


@pytest.mark.parametrize(
    ("x", "z"),
    [((2, 3), (2, 5)), ((2, 4, 3), (3, 5)), ((2, 4, 5), (2, 5)), ((2, 4, 3), (2, 3)), ((2, 4, 3), (2, 1, 5))],
)
def test_calls_with_other_shapes_are_refused(x, z):
    family = TABLE[0].family
    assert (family.inputs, family.modules) == (3, 5)
    with pytest.raises(ValueError) as error:
        family(torch.zeros(x), torch.zeros(z))
    text = str(error.value)
    assert "\n" not in text and str(x) in text and "(tasks, samples, 3)" in text and "(tasks, 5)" in text


def test_any_circuit_is_a_family():
    x, z = Input("x", box([-1.0], [1.0])), Input("z", Tasks(3, 2))
    family = CircuitFamily(Circuit(x, z, take(z, [2, 0])))
    assert family(torch.zeros(2, 4, 1), torch.eye(3)[:2]).tolist() == [[[0, 1]] * 4, [[0, 0]] * 4]
    assert family.exact([0.5], [0, 0, 1]).tolist() == [1, 0]
