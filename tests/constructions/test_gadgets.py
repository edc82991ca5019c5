"""Each gadget has exactly the error its docstring proves: nowhere more, somewhere that much. In Fractions."""

from fractions import Fraction
from itertools import product as pairs
from math import log, prod

import numpy as np
import pytest

from constructions.gadgets import (
    deep_product,
    gate,
    maximum_weights,
    product,
    split,
    split_applies,
    square_knots,
)
from constructions.gadgets.ridges import pad

F = Fraction
ZERO = F(0)
HALF_ONE = (F(1, 2), F(1))
COARSE = (F(1, 3), F(2, 5), F(1), F(9, 7))  # neither dyadic, nor equally spaced, nor ending at 1


def relu(value):
    return max(value, ZERO)


def hinge_values(ridges, term, u, v):
    """(hinge numbers, pre-activations) of one term's own hinges."""
    h = ridges.hinges
    mine = np.flatnonzero(h.term == term)
    return mine, [h.on_u[j] * u + h.on_v[j] * v + h.bias[j] for j in mine]


def ridge(ridges, term, u, v):
    """The gadget's value at u, v in Fractions, straight from its table."""
    mine, inside = hinge_values(ridges, term, u, v)
    total = sum((ridges.hinges.weight[j] * relu(a) for j, a in zip(mine, inside, strict=True)), ZERO)
    if ridges.shared is not None:
        for knot, weight in zip(ridges.shared.knots, ridges.shared.weight[term], strict=True):
            total += weight * relu(u - knot)
    return total + ridges.linear_u[term] * u + ridges.linear_v[term] * v + ridges.constant[term]


def chain(deep, term, u, v):
    """(value of a deep gadget at u, v; the values of its hinges, a dict a step)."""
    total = deep.linear_u[term] * u + deep.linear_v[term] * v + deep.constant[term]
    before, seen = {}, []
    for step in deep.steps:
        h, now = step.hinges, {}
        reads = None if step.reads is None else step.reads.toarray()
        for j in np.flatnonzero(h.term == term):
            inside = h.on_u[j] * u + h.on_v[j] * v + h.bias[j]
            if reads is not None:
                assert set(np.flatnonzero(reads[:, j] != 0)) <= set(before)  # a hinge reads its own term only
                inside += sum((reads[i, j] * value for i, value in before.items()), ZERO)
            now[j] = relu(inside)
            total += h.weight[j] * now[j]
        seen.append(now)
        before = now
    return total, seen


def grid(middle, half, points):
    """Rationals from middle - half to middle + half, both ends included."""
    return [F(middle) + F(half) * F(2 * i - points, points) for i in range(points + 1)]


def column(*values):
    return np.array(values, dtype=float)


# --- G1, G2 ---


@pytest.mark.parametrize("levels", [(F(1),), (F(1, 2), F(1)), COARSE])
@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (0.0, 3.0), (1.0, 4.0), (-5.0, -2.5), (0.1, 0.3)])
def test_gate_is_exact_on_the_grid(levels, bounds):
    low, high = bounds
    ridges = gate(levels, column(low), column(high), exact=True)
    assert ridges.error[0] == 0
    for z in (ZERO, *levels):
        for v in grid(*((F(low) + s * F(high)) / 2 for s in (1, -1)), 12):
            assert ridge(ridges, 0, z, v) == z * v
            mine, inside = hinge_values(ridges, 0, z, v)
            for j, a in zip(mine, inside, strict=True):
                assert relu(a) <= F(float(ridges.hinges.upper[j]))
                if z == 0:
                    assert a <= -F(float(ridges.hinges.margin[j])) < 0


def test_gate_off_the_grid_is_not_a_product():
    ridges = gate(HALF_ONE, column(-1.0), column(1.0), exact=True)
    wrong = max(abs(ridge(ridges, 0, F(3, 4), v) - F(3, 4) * v) for v in grid(0, 1, 8))
    assert 0 < wrong <= F(float(pad(column(2.0))[0])) / 4  # Lipschitz, a distance of 1/4 from the grid


def test_gate_breaks_with_too_narrow_a_range():
    ridges = gate((F(1),), column(-1.0), column(1.0), exact=True)
    assert ridge(ridges, 0, ZERO, F(2)) != 0


@pytest.mark.parametrize("count", [1, 2, 6])
def test_gate_counts(count):
    levels = tuple(F(j + 1, count) for j in range(count))
    ridges = gate(levels, column(-1.0, 0.0, 2.0), column(1.0, 1.0, 2.0), exact=True)
    assert np.bincount(ridges.hinges.term, minlength=3).tolist() == [count, count, 0]  # constants: none
    knots = 0 if ridges.shared is None else len(ridges.shared.knots)
    assert knots == count - 1
    assert ridges.linear_u.tolist() == [-1, 0, 2]  # nothing is carried where v >= 0 starts at 0


# --- G3, G4 ---


def square(pieces, t):
    _, knots = square_knots(np.array([pieces]))
    jumps = (F(4, pieces) * (relu(t - F(int(k), pieces)) + relu(-t - F(int(k), pieces))) for k in knots)
    return F(1, pieces**2) + sum(jumps, ZERO)


@pytest.mark.parametrize("pieces", [1, 3, 5, 9])
def test_square_error_is_exactly_one_over_n_squared(pieces):
    errors = [square(pieces, t) - t * t for t in grid(0, 1, 8 * pieces)]
    assert min(errors) == 0
    assert max(errors) == F(1, pieces**2)
    middles = [F(2 * k, pieces) for k in range(-(pieces // 2), pieces // 2 + 1)]
    assert all(square(pieces, t) - t * t == F(1, pieces**2) for t in middles)
    assert 2 * len(square_knots(np.array([pieces]))[1]) == pieces - 1


@pytest.mark.parametrize("pieces", [1, 3, 7])
@pytest.mark.parametrize(("u", "v"), [((0.0, 1.0), (0.0, 1.0)), ((0.25, 3.0), (-2.0, 0.1))])
def test_product_error_is_exact(pieces, u, v):
    ridges = product(np.array([pieces]), tuple(map(column, u)), tuple(map(column, v)), exact=True)
    claimed = F(u[1]) * F(v[1]) / pieces**2
    assert claimed <= F(float(ridges.error[0])) <= claimed * (1 + F(1, 2**48))
    us, vs = grid(*u, 4 * pieces), grid(*v, 4 * pieces)
    assert max(abs(ridge(ridges, 0, a, b) - a * b) for a, b in pairs(us, vs)) <= claimed
    for sign in (1, -1):  # p at a knot, q at a middle
        a, b = F(u[0]) + sign * F(u[1]) / pieces, F(v[0]) + F(v[1]) / pieces
        assert abs(ridge(ridges, 0, a, b) - a * b) == claimed
    assert len(ridges.hinges.term) == 2 * (pieces - 1)
    uppers = [F(float(x)) for x in ridges.hinges.upper]
    for a, b in pairs(us, vs):
        mine, inside = hinge_values(ridges, 0, a, b)
        assert all(relu(x) <= uppers[j] for j, x in zip(mine, inside, strict=True))


def test_product_is_zero_on_the_axes():
    ridges = product(np.array([5]), (column(0.0), column(2.0)), (column(0.0), column(3.0)), exact=True)
    assert all(ridge(ridges, 0, a, ZERO) == 0 for a in grid(0, 2, 17))
    assert all(ridge(ridges, 0, ZERO, b) == 0 for b in grid(0, 3, 17))
    assert any(ridge(ridges, 0, a, a) != a * a for a in grid(0, 2, 17))


# --- G4' ---

INTERVALS = [HALF_ONE, (F(2, 3), F(3, 4)), (F(1), F(2)), (F(3, 10), F(11, 20))]


def split_points(pieces, interval, half):
    """(z, w) with p at a knot and q at a middle."""
    mu, rho = (interval[0] + interval[1]) / 2, (interval[1] - interval[0]) / 2
    times = [F(4 * k - 1, pieces) - 2 for k in range(2 * pieces)]
    return [(mu + rho * t, half / pieces) for t in times if abs(t) <= 1]


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("v", [(0.0, 1.0), (1.5, 0.3)])
def test_split_product_error_is_exact(interval, pieces, v):
    ridges = split(np.array([pieces]), interval, tuple(map(column, v)), exact=True)
    half, rho = F(float(pad(column(v[1]))[0])), (interval[1] - interval[0]) / 2
    claimed = rho * half / pieces**2
    assert claimed * (1 - F(1, 2**48)) <= F(float(ridges.error[0])) <= claimed * (1 + F(1, 2**48))
    zs = grid((interval[0] + interval[1]) / 2, rho, 4 * pieces)
    vs = grid(*v, 8)
    assert max(abs(ridge(ridges, 0, z, a) - z * a) for z, a in pairs(zs, vs)) <= claimed
    worst = split_points(pieces, interval, half)
    assert worst
    assert all(abs(ridge(ridges, 0, z, F(v[0]) + w) - z * (F(v[0]) + w)) == claimed for z, w in worst)
    h = ridges.hinges
    for a in vs:
        assert ridge(ridges, 0, ZERO, a) == 0
        mine, inside = hinge_values(ridges, 0, ZERO, a)
        assert all(x <= -F(float(h.margin[j])) <= 0 for j, x in zip(mine, inside, strict=True))
    for z, a in pairs(zs, vs):
        mine, inside = hinge_values(ridges, 0, z, a)
        assert all(relu(x) <= F(float(h.upper[j])) for j, x in zip(mine, inside, strict=True))
    assert len(h.term) + len(ridges.shared.knots) == 2 * (pieces - 1) + 1 + 1


def test_split_needs_lo_at_least_half_hi():
    assert split_applies((F(1, 2), F(1)))
    assert not split_applies((F(1, 2) - F(1, 10**9), F(1)))
    too_wide = (F(1, 10), F(1))
    assert not split_applies(too_wide)
    ridges = split(np.array([3]), too_wide, (column(0.0), column(1.0)), exact=True)  # the counterexample
    assert ridge(ridges, 0, ZERO, F(1)) != 0


# --- G5, G6 ---


def deep_worst(size):
    """(t, w) with s_p at a midpoint of the finest grid and s_q at a knot."""
    return F(4 * (size // 2) + 1, size) - 2, F(1, size)


@pytest.mark.parametrize("steps", [(2,), (3,), (2, 2), (3, 2), (4, 3), (2, 3, 2)])
@pytest.mark.parametrize(("u", "v"), [((0.0, 1.0), (0.0, 1.0)), ((-1.0, 0.5), (0.25, 3.0))])
def test_deep_product_error_is_exact(steps, u, v):
    deep = deep_product([steps], tuple(map(column, u)), tuple(map(column, v)), exact=True)
    size = prod(steps)
    claimed = F(u[1]) * F(v[1]) / size**2
    assert claimed <= F(float(deep.error[0])) <= claimed * (1 + F(1, 2**48))
    for a, b in pairs(grid(*u, min(2 * size, 24)), grid(*v, 12)):
        value, seen = chain(deep, 0, a, b)
        assert abs(value - a * b) <= claimed
        for step, now in zip(deep.steps, seen, strict=True):
            assert all(x <= F(float(step.hinges.upper[j])) for j, x in now.items())
    t, w = deep_worst(size)
    a, b = F(u[0]) + t * F(u[1]), F(v[0]) + w * F(v[1])
    assert abs(chain(deep, 0, a, b)[0] - a * b) == claimed
    assert sum(len(step.hinges.term) for step in deep.steps) == 2 * sum(steps)
    assert all(chain(deep, 0, F(u[0]), b)[0] == F(u[0]) * b for b in grid(*v, 10))  # exact on both axes
    assert all(chain(deep, 0, a, F(v[0]))[0] == a * F(v[0]) for a in grid(*u, 10))


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("steps", [(2,), (3, 2), (2, 4)])
def test_deep_split_product_error_is_exact(interval, steps):
    v = (0.5, 2.0)
    deep = deep_product([steps], (column(0.0), column(1.0)), tuple(map(column, v)), True, interval)
    half, rho = F(float(pad(column(v[1]))[0])), (interval[1] - interval[0]) / 2
    mu, size = (interval[0] + interval[1]) / 2, prod(steps)
    claimed = rho * half / size**2
    assert claimed * (1 - F(1, 2**48)) <= F(float(deep.error[0])) <= claimed * (1 + F(1, 2**48))
    for z, a in pairs([ZERO, *grid(mu, rho, 2 * size)], grid(*v, 10)):
        value, seen = chain(deep, 0, z, a)
        assert abs(value - z * a) <= (claimed if z else 0)
        for step, now in zip(deep.steps, seen, strict=True):
            assert all(x <= F(float(step.hinges.upper[j])) and (z or x == 0) for j, x in now.items())
    t, w = deep_worst(size)
    z, a = mu + rho * t, F(v[0]) + w * half
    assert abs(chain(deep, 0, z, a)[0] - z * a) == claimed


def test_terms_of_one_table_do_not_mix():
    steps = [(2, 3), (4,), (3, 3, 2)]
    u, v = (column(0.0, 1.0, -1.0), column(1.0, 2.0, 0.5)), (column(0.5, 0.0, 2.0), column(1.0, 3.0, 0.25))
    together = deep_product(steps, u, v, exact=True)
    for r, plan in enumerate(steps):
        alone = deep_product([plan], *((m[r : r + 1], h[r : r + 1]) for m, h in (u, v)), exact=True)
        for a, b in pairs(grid(u[0][r], u[1][r], 5), grid(v[0][r], v[1][r], 5)):
            assert chain(together, r, a, b)[0] == chain(alone, 0, a, b)[0]


# --- rates, G7 ---


def slope(x, y):
    return np.polyfit(x, y, 1)[0]


def measured(gadget, points, evaluate):
    return float(max(abs(evaluate(gadget, 0, a, b) - a * b) for a, b in points))


def test_shallow_error_falls_like_n_to_the_minus_two():
    sizes = [3, 5, 9, 17, 33]
    one = (column(0.0), column(1.0))
    errors = []
    for n in sizes:
        points = [(F(1, n), F(1, n)), *pairs(grid(0, 1, 6), grid(0, 1, 5))]
        errors.append(measured(product(np.array([n]), one, one, exact=True), points, ridge))
    assert slope(np.log(sizes), np.log(errors)) == pytest.approx(-2, abs=1e-9)


@pytest.mark.parametrize("q", [2, 3, 4])
def test_deep_error_falls_by_q_squared_a_layer(q):
    one = (column(0.0), column(1.0))
    depths, errors = range(1, 6), []
    for depth in depths:
        points = [deep_worst(q**depth), *pairs(grid(0, 1, 6), grid(0, 1, 5))]
        deep = deep_product([(q,) * depth], one, one, exact=True)
        errors.append(measured(deep, points, lambda g, r, a, b: chain(g, r, a, b)[0]))
    assert slope(list(depths), np.log(errors)) == pytest.approx(-2 * log(q), abs=1e-9)


def test_maximum():
    on_left, on_right = maximum_weights()
    for a, b in pairs(grid(0, 2, 7), repeat=2):
        assert a + relu(on_left * a + on_right * b) == max(a, b)
