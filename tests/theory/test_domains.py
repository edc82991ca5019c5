"""Domains: brute force over all supports and words, extreme points, membership, rounding."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import boxes, task_domains
from theory.arithmetic import (
    UNIT32,
    UNIT64,
    as_exact,
    as_float,
    down,
    is_exact,
    outward,
    representable,
    up,
)
from theory.domains import KHOT, Box, OneHot, Tasks, largest_sums
from theory.families.hyperteacher import DISCRETE

F = Fraction
SEEDS = st.integers(0, 2**32 - 1)
THIRDS = (F(1, 3), F(2, 5), F(9, 10))


def rng(seed=0):
    return np.random.default_rng(seed)


def wild(generator, shape):
    """Floats of very different sizes and both signs, some of them 0."""
    return (
        generator.standard_normal(shape) * 2.0 ** generator.integers(-40, 40, shape) * (generator.random(shape) < 0.8)
    )


def every_task(domain):
    """All extreme points in Fractions: 0, all supports with weights lo or hi; all words."""
    if isinstance(domain, OneHot):
        for word in product(range(domain.width), repeat=domain.groups):
            yield np.array([F(int(j == k)) for k in word for j in range(domain.width)], dtype=object)
        return
    for size in range(domain.active + 1):
        for support in combinations(range(domain.modules), size):
            for weights in product({domain.values[0], domain.values[-1]}, repeat=size):
                z = np.array([F(0)] * domain.modules, dtype=object)
                z[list(support)] = weights
                yield z


# Rounding


@given(SEEDS, st.integers(1, 30))
def test_rounded_sums_enclose_the_exact_sum(seed, n):
    values = wild(rng(seed), (20, n))
    exact = as_exact(values).sum(axis=1)
    total, size = values.sum(axis=1), np.abs(values).sum(axis=1)
    low, high = down(total, n, size), up(total, n, size)
    assert all(F(a) <= v <= F(b) for a, v, b in zip(low, exact, high, strict=True))
    # not looser than the a-priori bound says
    assert np.all(high - low <= 4 * (n + 2) * UNIT64 * size + 4 * np.spacing(np.abs(total)))


@given(SEEDS, st.integers(2, 30))
def test_a_sum_of_one_sign_needs_no_size(seed, n):
    values = np.abs(wild(rng(seed), (20, n)))
    exact = as_exact(values).sum(axis=1)
    assert all(
        F(a) <= v <= F(b) for a, v, b in zip(down(values.sum(axis=1), n), exact, up(values.sum(axis=1), n), strict=True)
    )


def test_plain_sums_would_not_enclose():
    """What the tests above protect from: float64 sums lie on the wrong side about every other time."""
    values = wild(rng(1), (200, 20))
    above = [F(a) > v for a, v in zip(values.sum(axis=1), as_exact(values).sum(axis=1), strict=True)]
    assert 20 < sum(above) < 180


def test_an_empty_sum_stays_as_it_is():
    assert up(np.array([0.0, 3.0]), 5, np.zeros(2)).tolist() == [0, 3]
    assert down(np.array([0.0, 3.0]), 5, np.zeros(2)).tolist() == [0, 3]


@given(st.fractions())
def test_outward_gives_the_neighbours(value):
    low, high = outward(value)
    assert F(low) <= value <= F(high)
    assert low == high if F(float(value)) == value else np.nextafter(low, np.inf) == high


def test_conversions_are_exact():
    exact = as_exact(np.array([0.1, 3, -2.5]))
    assert is_exact(exact) and exact.tolist() == [F(0.1), 3, F(-5, 2)]
    assert as_exact(np.float32([0.1])).tolist() == [F(float(np.float32(0.1)))]
    assert as_exact([1, F(1, 3)]).tolist() == [1, F(1, 3)]
    assert as_exact(np.array([2, 3])).tolist() == [2, 3] and all(type(v) is F for v in as_exact(np.array([2, 3])))
    assert as_exact(np.zeros((0, 2))).shape == (0, 2)
    assert as_float(as_exact([0.5, 0.25])).tolist() == [0.5, 0.25]
    assert representable(as_exact([0.1])) and not representable(as_exact(["1/10"]))


# Largest values of linear forms


@settings(max_examples=60, deadline=None)
@given(task_domains(), SEEDS, st.booleans())
def test_ranges_of_linear_forms_on_tasks_are_sound_and_attained(domain, seed, sparse):
    matrix = wild(rng(seed), (domain.size, 3)).round(6)
    values = np.array([z @ as_exact(matrix) for z in every_task(domain)])
    low, high = domain.linear_range(sp.csr_matrix(matrix) if sparse else matrix)
    for h in range(3):
        least, most = values[:, h].min(), values[:, h].max()
        assert F(low[h]) <= least and most <= F(high[h])
        slack = 100 * UNIT64 * float(np.abs(matrix[:, h]).sum()) * float(domain.upper.max())
        assert high[h] - float(most) <= slack and float(least) - low[h] <= slack


@settings(max_examples=60, deadline=None)
@given(task_domains(), SEEDS)
def test_worst_is_the_largest_sum_over_all_supports(domain, seed):
    contributions = np.abs(wild(rng(seed), (4, domain.size)))
    masks = np.array([z != 0 for z in every_task(domain)])
    brute = [max(sum(row[mask], F(0)) for mask in masks) for row in as_exact(contributions)]
    worst = domain.worst(sp.csr_matrix(contributions))
    assert worst.shape == (4,)
    for found, wanted in zip(worst, brute, strict=True):
        assert F(found) >= wanted
        assert found <= float(wanted) * (1 + 100 * UNIT64)


def test_worst_of_a_box_adds_everything_up():
    worst = Box(-np.ones(3), np.ones(3)).worst(sp.csr_matrix([[1.0, 2.0, 4.0], [0, 0, 0]]))
    assert worst == pytest.approx([7, 0]) and worst[0] >= 7 and worst[1] == 0


def test_more_modules_than_fit_are_not_counted():
    """K of M: the bound is that of K modules, not of M (a mutant without the cut would give 10)."""
    ones = sp.csr_matrix(np.ones((1, 10)))
    assert Tasks(10, 3).worst(ones) == pytest.approx(3)
    assert OneHot(2, 5).worst(ones) == pytest.approx(2)
    assert largest_sums(sp.csr_matrix([[5.0, 0, 1, 2], [0, 0, 0, 0]]), 2) == pytest.approx([7, 0])
    assert largest_sums(sp.csr_matrix((3, 0)), 2).tolist() == [0, 0, 0]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5).flatmap(boxes), SEEDS)
def test_ranges_of_linear_forms_on_a_box_are_sound_and_attained(bounds, seed):
    box = Box(*bounds)
    matrix = wild(rng(seed), (box.size, 3))
    low, high = box.linear_range(matrix)
    corners = product(*zip(as_exact(box.lower), as_exact(box.upper), strict=True))
    values = np.array([np.array(c, dtype=object) @ as_exact(matrix) for c in corners])
    size = np.maximum(np.abs(box.lower), np.abs(box.upper)) @ np.abs(matrix)
    for h in range(3):
        least, most = values[:, h].min(), values[:, h].max()
        assert F(low[h]) <= least and most <= F(high[h])
        assert high[h] - float(most) <= 100 * UNIT64 * size[h] and float(least) - low[h] <= 100 * UNIT64 * size[h]


def test_a_coordinate_times_a_power_of_two_is_not_rounded():
    """Gates are built on these ranges: rounding 1 up would make their weights ugly for nothing."""
    low, high = Box(np.array([-1.0, 0.1]), np.array([1.0, 0.3])).linear_range(np.array([[1.0, 0, 0], [0, 4.0, 0]]))
    assert low.tolist() == [-1, 0.4, 0] and high.tolist() == [1, 1.2, 0]


def test_a_group_that_is_always_on_moves_the_range_away_from_zero():
    low, high = OneHot(2, 2).linear_range(np.array([[1.0], [2.0], [4.0], [3.0]]))
    assert low == pytest.approx([4]) and high == pytest.approx([6])


# Points


@settings(max_examples=60, deadline=None)
@given(task_domains() | st.integers(1, 4).flatmap(boxes).map(lambda b: Box(*b)), SEEDS)
def test_points_lie_in_their_domain(domain, seed):
    for draw in (domain.sample, domain.corners):
        points = draw(50, rng(seed))
        assert points.shape == (50, domain.size) and points.dtype == np.float64
        assert domain.contains(points).all()
        exact = domain.exact(points)
        assert all(type(v) is F for v in exact.ravel())
        assert np.abs(as_float(exact) - points).max() <= 1e-15 * max(1, np.abs(points).max())
        assert np.all((as_exact(domain.lower) <= exact) & (exact <= as_exact(domain.upper)))
        assert draw(50, rng(seed)).tobytes() == points.tobytes()


@settings(max_examples=30, deadline=None)
@given(task_domains(), SEEDS)
def test_corners_of_tasks_reach_every_extreme_point(domain, seed):
    wanted = {tuple(as_float(z)) for z in every_task(domain) if isinstance(domain, OneHot) or any(z != 0)}
    found = {tuple(z) for z in domain.corners(300 + 60 * len(wanted), rng(seed))}
    assert found <= wanted
    assert len(found) >= 0.75 * len(wanted)  # supports are uniform, so that rare weights of many modules may miss


def test_samples_of_a_grid_reach_every_level_and_every_support():
    domain = Tasks(4, 2, levels=THIRDS)
    z = domain.sample(2000, rng())
    assert set(np.unique(z)) == {0.0, *(float(v) for v in THIRDS)}
    assert len(np.unique(z != 0, axis=0)) == domain.supports.count == 10
    counts = np.unique(z != 0, axis=0, return_counts=True)[1]
    assert counts.min() > 120 and counts.max() < 290  # 200 each, standard deviation 13
    share = np.unique(z[z > 0], return_counts=True)[1] / (z > 0).sum()
    assert share == pytest.approx([1 / 3] * 3, abs=0.05)


def test_samples_of_an_interval_fill_it():
    z = Tasks(3, 2, levels=None, interval=(F(1, 4), F(3))).sample(4000, rng())
    on = z[z != 0]
    assert on.min() >= 0.25 and on.min() < 0.26 and on.max() <= 3 and on.max() > 2.99
    assert on.mean() == pytest.approx(1.625, abs=0.05)


def test_samples_of_a_box_fill_it_and_corners_are_corners():
    box = Box(np.array([1000.0, -2.0, 0.5]), np.array([1001.0, -0.25, 0.5]))
    x = box.sample(4000, rng())
    assert x.mean(axis=0) == pytest.approx([1000.5, -1.125, 0.5], abs=0.05)
    assert x.std(axis=0) == pytest.approx([12**-0.5, 1.75 * 12**-0.5, 0], abs=0.02)
    corners = box.corners(200, rng())
    assert np.all((corners == box.lower) | (corners == box.upper))
    assert len(np.unique(corners, axis=0)) == 4


@pytest.mark.parametrize(
    ("domain", "inside", "outside"),
    [
        (
            Tasks(4, 2),
            [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]],
            [[1, 1, 1, 0], [0, 0.5, 0, 0], [0, -1, 0, 0]],
        ),
        (
            Tasks(3, 2, levels=(F(1, 3), F(1))),
            [[1 / 3, 0, 1], [np.float32(1 / 3), 0, 0]],
            [[1 / 3, 1 / 3, 1 / 3], [0.34, 0, 0], [2, 0, 0]],
        ),
        (
            Tasks(3, 1, levels=None, interval=(F(1, 2), F(1))),
            [[0.5, 0, 0], [0, 0.7, 0]],
            [[0.4, 0, 0], [0, 1.1, 0], [1, 1, 0]],
        ),
        (OneHot(2, 2), [[1, 0, 0, 1]], [[1, 1, 0, 1], [0, 0, 0, 1], [0.5, 0.5, 1, 0], [2, -1, 0, 1]]),
        (
            Box(np.array([0.0, 3.0]), np.array([1.0, 3.5])),
            [[0, 3.5], [1, 3]],
            [[-0.1, 3.2], [0.5, 2.9], [0.5, np.nan]],
        ),
    ],
)
def test_membership(domain, inside, outside):
    assert domain.contains(np.array(inside)).tolist() == [True] * len(inside)
    assert domain.contains(np.array(outside)).tolist() == [False] * len(outside)


def test_floats_stand_for_the_nearest_level():
    domain = Tasks(4, 4, levels=THIRDS)
    stored = np.array([1 / 3, np.float32(0.4), 0.0, np.float32(0.9)])
    assert domain.exact(stored).tolist() == [F(1, 3), F(2, 5), 0, F(9, 10)]
    assert domain.exact(np.tile(stored, (2, 1))).shape == (2, 4)
    assert Tasks(2, 2, levels=None, interval=(F(1, 3), F(1))).exact(np.array([0.4, 0.0])).tolist() == [
        F(0.4),
        0,
    ]
    assert OneHot(1, 2).exact(np.array([0.0, 1.0])).tolist() == [0, 1]


def test_representation_error_is_the_distance_to_what_is_fed():
    domain = Tasks(2, 1, levels=THIRDS)
    for unit, kind in ((UNIT32, np.float32), (UNIT64, np.float64)):
        wanted = max(abs(F(float(kind(float(v)))) - v) for v in THIRDS)
        assert wanted > 0
        assert F(domain.representation_error(unit)) >= wanted
        assert domain.representation_error(unit) == pytest.approx(float(wanted), rel=1e-12)
    assert Tasks(2, 1, levels=DISCRETE).representation_error(UNIT32) == 0
    assert Tasks(2, 1, levels=None, interval=(F(1, 3), F(1))).representation_error(UNIT32) == 0


def test_upper_bounds_lie_above_the_exact_level():
    upper = Tasks(2, 1, levels=(F(1, 3),)).upper
    assert np.all(as_exact(upper) > F(1, 3)) and upper == pytest.approx([1 / 3] * 2)
    assert Tasks(2, 1).upper.tolist() == [1, 1] and Tasks(2, 1).lower.tolist() == [0, 0]


def test_only_tasks_switch_modules_off():
    assert Tasks(2, 1).switches and OneHot(1, 2).switches and not Box(np.zeros(1), np.ones(1)).switches
    assert OneHot(1, 2).levels == KHOT


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Box(np.zeros(2), np.ones(3)), ["(2,)", "(3,)"]),
        (lambda: Box(np.zeros((2, 1)), np.ones((2, 1))), ["(size,)"]),
        (lambda: Box(np.array([0.0, np.nan]), np.ones(2)), ["finite"]),
        (lambda: Box(np.zeros(1), np.array([np.inf])), ["finite"]),
        (lambda: Box(np.ones(1), np.zeros(1)), ["(lower, upper)"]),
        (lambda: Tasks(3, 4), ["active", "modules = 3", "4"]),
        (lambda: Tasks(0, 1), ["modules", ">= 1"]),
        (lambda: Tasks(3, 1, levels=None), ["levels or an interval"]),
        (lambda: Tasks(3, 1, interval=(F(1, 2), F(1))), ["levels or an interval"]),
        (lambda: Tasks(3, 1, levels=()), ["levels"]),
        (lambda: Tasks(3, 1, levels=(F(1), F(1, 2))), ["increase", "[1.0, 0.5]"]),
        (lambda: Tasks(3, 1, levels=(F(0), F(1, 2))), ["above 0"]),
        (lambda: Tasks(3, 1, levels=None, interval=(F(1), F(1))), ["increase"]),
        (lambda: OneHot(0, 3), ["0 groups", "at least 1"]),
        (lambda: OneHot(2, 0), ["0 entries", "at least 1"]),
    ],
)
def test_bad_domains_are_refused_in_one_line(make, words):
    with pytest.raises(ValueError) as error:
        make()
    text = str(error.value)
    assert "\n" not in text and all(word in text for word in words), text
