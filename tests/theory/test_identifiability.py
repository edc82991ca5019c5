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
from theory.identifiability import fewest_supports, separation, undetermined


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
    """Exactly: equality in Fractions on training tasks at any x, inequality at z* for some x."""
    generator = np.random.default_rng(seed)
    z, star = family.z_domain.sample(count, generator), family.z_domain.sample(1, generator)[0]
    twin = undetermined(family, z, star)
    exact = sp.Matrix([[sp.Rational(str(v)) for v in family.z_domain.exact(row)] for row in (*z, star)])
    inside = exact[:-1, :].rank() == exact.rank()
    if twin is None:
        assert inside or not family.readout.any()
        return
    assert not inside
    points = [family.x_domain.sample(1, generator)[0] for _ in range(3)]
    for x in points:
        for task in z:
            assert list(family.exact(x, task)) == list(twin.exact(x, task))
    assert any(list(family.exact(x, star)) != list(twin.exact(x, star)) for x in points)


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
    triangle = np.concatenate([z, [[1, 1, 0, 0, 0]]])  # an odd cycle closes it
    assert undetermined(family, triangle, np.eye(5)[0]) is None
