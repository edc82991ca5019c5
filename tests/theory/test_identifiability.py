"""Which tasks can be told apart and which determine others: exact, against integration and enumeration."""

from fractions import Fraction as F
from itertools import combinations

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from strategies import hyperteachers
from theory import Hyperteacher, Supports
from theory.domains import Tasks
from theory.identifiability import (
    chain,
    decodable_share,
    fewest_supports,
    fewest_tasks,
    separation,
    undetermined,
)


@st.composite
def one_input(draw):
    """A family with one input, and two tasks."""
    seed, weights = draw(st.integers(0, 999)), draw(st.sampled_from(["khot", "discrete", "continuous"]))
    modules = draw(st.integers(1, 4))
    family = Hyperteacher.sample(modules, 1, 1, (draw(st.integers(1, 4)),), 2, weights, seed, box=(-2.0, 1.5))
    return family, family.z_domain.sample(2, np.random.default_rng(seed))


@given(one_input())
@settings(max_examples=40)
def test_separation_by_integration(case):
    family, (z, other) = case
    found = separation(family, z, other)
    x = np.linspace(-2, 1.5, 20_001)[:, None]
    values = [family(*map(torch.from_numpy, (x[None], t[None])))[0].numpy() for t in (z, other)]
    gap = ((values[0] - values[1]) ** 2).sum(axis=1)
    assert float(found.square) == pytest.approx(np.trapezoid(gap, x[:, 0]) / 3.5, rel=1e-4, abs=1e-9)
    assert float(found.delta) == pytest.approx((gap > 1e-18).mean(), abs=1e-3)
    assert separation(family, other, z) == found and separation(family, z, z).square == 0


def test_separation_by_hand():
    """Module 0 is 0 everywhere, module 1 is ReLU(x - 1/2): they differ on a quarter of [-1, 1]."""
    family = Hyperteacher([np.array([[[0.0]], [[1.0]]])], [np.array([[0.0], [-0.5]])], [[1.0]], 1)
    found = separation(family, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert found.delta == F(1, 4) and found.square == F(1, 2) * F(1, 24)


def test_continuous_tasks_come_near_in_the_mean_but_not_in_probability():
    """ReLU(z x): D^2 = (z - z')^2/6 goes to 0, Delta stays 1/2."""
    family = Hyperteacher([np.ones((1, 1, 1))], None, [[1.0]], 1, "continuous")
    for step in (F(1, 4), F(1, 2**20)):
        found = separation(family, np.array([0.5]), np.array([0.5 + float(step)]))
        assert found.delta == F(1, 2) and found.square == step**2 / 6


def test_separation_refuses_what_it_cannot_do():
    z = np.eye(3)
    wide = Hyperteacher.sample(3, 2, 2, (3,), 1, "khot", seed=0)
    assert_refused(lambda: separation(wide, z[0], z[1]), ["2 inputs", "exact only for one"])
    deep = Hyperteacher.sample(3, 2, 1, (3, 3), 1, "khot", seed=0)
    assert_refused(lambda: separation(deep, z[0], z[1]), ["2 layers"])
    point = Hyperteacher.sample(3, 2, 1, (3,), 1, "khot", seed=0, box=(0.5, 0.5))
    assert_refused(lambda: separation(point, z[0], z[1]), ["a point"])


@pytest.mark.parametrize(
    ("modules", "active"), [(2, 2), (3, 2), (4, 2), (4, 3), (5, 2), (5, 3), (5, 4), (6, 3), (6, 4)]
)
def test_the_floor_is_what_enumeration_finds(modules, active):
    """No fewer supports are compositional and connected, and so many are enough."""

    def joined(supports):
        blocks = [set(s) for s in supports]
        while True:
            for a, b in combinations(range(len(blocks)), 2):
                if blocks[a] & blocks[b]:
                    blocks[a] |= blocks.pop(b)
                    break
            else:
                return blocks == [set(range(modules))]

    floor = fewest_supports(modules, active)
    assert floor >= -(-modules // active)
    linked = chain(modules, active)
    assert len(linked) == floor and joined([set(s[s >= 0].tolist()) for s in linked])
    every = list(Supports(modules, active))
    assert any(joined(chosen) for chosen in combinations(every, floor))
    assert floor == 1 or not any(joined(chosen) for chosen in combinations(every, floor - 1))


def test_floor_refusals():
    assert fewest_supports(1, 1) == 1
    assert_refused(lambda: fewest_supports(3, 1), ["join no two"])
    assert_refused(lambda: fewest_supports(3, 4), ["1 <= active <= modules"])


@given(hyperteachers(max_modules=5), st.integers(0, 99), st.integers(1, 6))
@settings(max_examples=60)
def test_a_twin_agrees_in_training_and_differs_outside_the_span(family, seed, count):
    """Exactly: equality in Fractions on training tasks at any x, inequality at z* for the x that was asked for."""
    generator = np.random.default_rng(seed)
    z, star = family.z_domain.sample(count, generator), family.z_domain.sample(1, generator)[0]
    x = family.x_domain.sample(1, generator)[0]
    twin = undetermined(family, z, star, x)
    exact = sp.Matrix([[sp.Rational(str(v)) for v in family.z_domain.exact(row)] for row in (*z, star)])
    inside = exact[:-1, :].rank() == exact.rank()
    if twin is None:
        assert inside or not family.readout.any()
        return
    assert not inside
    for point in (x, family.box.upper, *family.x_domain.sample(2, generator)):
        for task in z:
            assert list(family.exact(point, task)) == list(twin.exact(point, task))
    assert list(family.exact(x, star)) != list(twin.exact(x, star))
    default = undetermined(family, z, star)
    assert list(family.exact(family.box.upper, star)) != list(default.exact(family.box.upper, star))


@pytest.mark.parametrize(
    ("scale", "readout"), [(1.0, [[1.0], [-1.0]]), (-1.0, [[1.0], [1.0]]), (-0.75, [[0.0], [2.0]])]
)
def test_a_twin_differs_whatever_the_signs(scale, readout):
    """Rises of two units cancel in this readout, and under a negative scale biases pull down: one unit must go up."""
    family = Hyperteacher([np.ones((2, 1, 2))], [np.ones((2, 2))], readout, 1, scale=scale)
    for x in (np.array([-1.0]), np.array([0.0]), np.array([1.0])):
        twin = undetermined(family, np.eye(2)[:1], np.eye(2)[1], x)
        assert list(twin.exact(x, np.eye(2)[1])) != list(family.exact(x, np.eye(2)[1]))
        assert list(twin.exact(x, np.eye(2)[0])) == list(family.exact(x, np.eye(2)[0]))


def test_a_twin_changes_biases_only_where_weights_do_not_matter():
    family = Hyperteacher([np.ones((2, 1, 2))], None, np.ones((2, 1)), 1)
    assert not undetermined(family, np.eye(2)[:1], np.eye(2)[1]).biases[0].any()
    assert undetermined(family, np.eye(2)[:1], np.eye(2)[1], np.zeros(1)).biases[0].any()


def test_where_all_tasks_are_zero_nothing_is_open():
    for silent in ({"scale": 0.0}, {"readout": [[0.0]]}):
        family = Hyperteacher([np.ones((2, 1, 1))], None, **({"readout": [[1.0]], "active": 1} | silent))
        assert undetermined(family, np.eye(2)[:1], np.eye(2)[1]) is None


def test_the_span_alone_determines_nothing():
    """Two families agree on the tasks of one module each, which span everything, and differ on the pair."""
    rows = np.array([[[1.0, -1.0]], [[1.0, -1.0]]])
    swapped = rows.copy()
    swapped[1] = swapped[1, :, ::-1]
    one, other = (Hyperteacher([theta], None, np.ones((2, 1)), 2) for theta in (rows, swapped))
    for x in np.linspace(-1, 1, 9)[:, None]:
        for task in np.eye(2):
            assert one.exact(x, task) == other.exact(x, task)
    assert undetermined(one, np.eye(2), np.ones(2)) is None
    assert one.exact([1.0], np.ones(2)) == 2 and other.exact([1.0], np.ones(2)) == 0


@pytest.mark.parametrize("levels", [(F(1),), (F(1, 2), F(1))])
@pytest.mark.parametrize(("modules", "active"), [(2, 2), (4, 2), (5, 3), (6, 3)])
def test_the_fewest_tasks_are_enough(modules, active, levels):
    """So many supports, in blocks, hold M independent tasks; and no M - 1 tasks span."""
    tasks, supports = fewest_tasks(Tasks(modules, active, levels=levels))
    assert tasks == modules
    blocks = np.array_split(np.arange(modules), supports)
    assert max(map(len, blocks)) <= active
    rows = []
    for block in blocks:
        low = np.zeros(modules)
        low[block] = float(levels[0])
        for m in (None, *block[1:]):
            raised = low.copy()
            if m is not None:
                raised[m] = float(levels[-1])
            rows.append(raised)
    assert len(rows) == tasks and np.linalg.matrix_rank(np.array(rows)) == modules
    if len(levels) == 1:
        assert supports == modules  # a support is a single task


@given(st.integers(2, 6), st.integers(1, 4), st.sampled_from(["khot", "discrete", "continuous"]), st.integers(0, 7))
@settings(max_examples=30)
def test_the_decodable_share_is_that_of_the_covariance(modules, active, weights, width):
    """Against the eigenvalues of the sample covariance of all supports with very many weights."""
    family = Hyperteacher.sample(modules, min(active, modules), 1, (1,), 1, weights, seed=0)
    domain, generator = family.z_domain, np.random.default_rng(0)
    supports = domain.supports.unrank(np.arange(domain.supports.count))
    z = domain.weights(np.repeat(supports, 20_000 // len(supports) + 1, axis=0), generator)
    values = np.linalg.eigvalsh(np.cov(z.T, bias=True))[::-1]
    assert float(decodable_share(width, domain)) == pytest.approx(values[:width].sum() / values.sum(), abs=0.02)
    assert decodable_share(modules, domain) == 1 and decodable_share(0, domain) == 0


def test_decodable_share_by_hand():
    """All tasks of one of M modules: M - 1 equal eigenvalues and none along (1, .., 1)."""
    assert [decodable_share(w, Tasks(5, 1)) for w in range(6)] == [0, F(1, 4), F(1, 2), F(3, 4), 1, 1]
    assert_refused(lambda: decodable_share(-1, Tasks(5, 1)), ["width"])
    assert_refused(lambda: decodable_share(1, Tasks(1, 1)), ["one task only"])


def test_m_tasks_in_general_position_determine_all():
    family = Hyperteacher.sample(4, 2, 2, (3,), 1, "khot", seed=0)
    assert undetermined(family, np.eye(4), np.array([1.0, 1, 0, 0])) is None
    assert undetermined(family, np.eye(4)[:3], np.eye(4)[3]) is not None  # one fewer does not


def test_unweighted_pairs_on_a_bipartite_graph_leave_a_direction_open():
    """Compositional and connected, any number of tasks, and yet of rank M - 1: single modules are not determined."""
    family = Hyperteacher.sample(5, 2, 2, (3,), 1, "khot", seed=0)
    pairs = [(a, b) for a in (0, 1) for b in (2, 3, 4)]
    z = np.zeros((len(pairs), 5))
    for row, pair in zip(z, pairs, strict=True):
        row[list(pair)] = 1
    assert sp.Matrix(z.astype(int)).rank() == 4
    assert undetermined(family, z, np.eye(5)[0]) is not None
    assert undetermined(family, z, np.array([0.0, 0, 1, 1, 0])) is not None  # a pair within a side
    assert undetermined(family, z, z[3]) is None
    triangle = np.concatenate([z, [[1, 1, 0, 0, 0]]])  # an odd cycle closes it
    assert undetermined(family, triangle, np.eye(5)[0]) is None
