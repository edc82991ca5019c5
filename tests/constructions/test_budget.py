"""The error budget: always kept, and spent almost as well as the best integers."""

from itertools import product
from math import prod

import numpy as np
import pytest
from scipy.optimize import minimize

from constructions.budget import allocate
from constructions.gadgets import radices


def odd(pieces):
    whole = np.ceil(pieces)
    return whole + (whole % 2 == 0)


def radix_product(pieces):
    return np.array([float(prod(radices(int(v)))) for v in np.ceil(pieces)])


def problem(terms, outputs, groups, seed):
    generator = np.random.default_rng(seed)
    half = 10.0 ** generator.uniform(-2, 1, terms)
    weight = np.abs(generator.standard_normal((terms, outputs))) * (generator.random((terms, outputs)) < 0.8)
    return half, weight, np.sort(np.concatenate([np.arange(groups), generator.integers(groups, size=terms - groups)]))


def load(pieces, half, weight, group):
    spent = weight * half[:, None] / np.asarray(pieces, dtype=float)[:, None] ** 2
    return np.array([spent[group == g].sum(axis=0) for g in range(group.max() + 1)])


ROUNDINGS = [(1 / 3, odd), (1 / 3, np.ceil), (1 / 2, radix_product)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("exponent", "round_up"), ROUNDINGS)
def test_every_group_keeps_its_budget(seed, exponent, round_up):
    half, weight, group = problem(12, 3, 1 + seed % 4, seed)
    budget = 10.0 ** -(1 + seed % 5)
    pieces = allocate(half, weight, group, budget, exponent, round_up)
    assert pieces.dtype.kind == "i" and pieces.min() >= 1
    assert np.array_equal(pieces, round_up(pieces.astype(float)))  # numbers that can be built
    spent = load(pieces, half, weight, group).max(axis=1)
    assert np.all(spent <= budget)
    # No more than it must: with a fifth fewer pieces everywhere some group would overspend.
    fewer = load(np.maximum(pieces * 0.5, 1), half, weight, group).max(axis=1)
    busy = np.array([pieces[group == g].max() > 3 for g in range(group.max() + 1)])
    assert np.all(fewer[busy] > budget)


@pytest.mark.parametrize("seed", range(6))
def test_close_to_the_best_integers(seed):
    half, weight, group = problem(3, 2, 1, seed)
    budget = 0.05
    pieces = allocate(half, weight, group, budget, 1 / 3, np.ceil)
    best = min(
        sum(n) for n in product(range(1, 41), repeat=3) if load(np.array(n), half, weight, group).max() <= budget
    )
    assert best <= pieces.sum() <= 1.15 * best + 2


@pytest.mark.parametrize("seed", range(3))
def test_close_to_the_continuous_optimum(seed):
    """Several outputs at once: against scipy's solution of the convex problem."""
    generator = np.random.default_rng(seed)
    half, weight = 10.0 ** generator.uniform(-2, 1, 12), 10.0 ** generator.uniform(-2, 1, (12, 3))
    group, budget = np.zeros(12, dtype=int), 1e-4
    pieces = allocate(half, weight, group, budget, 1 / 3, np.ceil)

    def room(logs):
        return 1 - load(np.exp(logs), half, weight, group)[0] / budget

    best = minimize(
        lambda logs: np.exp(logs).sum() / 1e3,
        np.log(pieces),
        constraints={"type": "ineq", "fun": room},
        method="SLSQP",
        options={"maxiter": 300},
    )
    assert best.success and room(best.x).min() > -1e-6
    assert pieces.sum() <= 1.02 * np.exp(best.x).sum() + 12


def test_shallow_pieces_grow_like_the_cube_root_and_deep_like_the_square_root():
    half, group = np.array([1.0, 8.0, 64.0, 512.0]), np.zeros(4, dtype=int)
    for exponent, ratio in ((1 / 3, 2.0), (1 / 2, 8.0**0.5)):
        pieces = allocate(half, np.ones((4, 1)), group, 1e-4, exponent, np.ceil)
        assert pieces[1:] / pieces[:-1] == pytest.approx([ratio] * 3, rel=0.02)


def test_groups_that_cannot_meet_do_not_share():
    half, weight = np.ones(6), np.ones((6, 1))
    alone = allocate(half[:2], weight[:2], np.zeros(2, dtype=int), 1e-3, 1 / 3, np.ceil)
    three = allocate(half, weight, np.arange(6) // 2, 1e-3, 1 / 3, np.ceil)
    assert three.tolist() == alone.tolist() * 3
    shared = allocate(half, weight, np.zeros(6, dtype=int), 1e-3, 1 / 3, np.ceil)
    assert shared.min() > three.max()


def test_terms_without_effect_get_one_piece():
    pieces = allocate(np.ones(3), np.array([[1.0], [0.0], [1.0]]), np.zeros(3, dtype=int), 1e-3, 1 / 3, np.ceil)
    assert pieces[1] == 1 and pieces[0] > 10
    nothing = allocate(np.zeros(0), np.zeros((0, 2)), np.zeros(0, dtype=int), 1.0, 1 / 3, np.ceil)
    assert nothing.shape == (0,)


@pytest.mark.parametrize("seed", range(4))
def test_no_worse_than_equal_shares(seed):
    half, weight, group = problem(10, 3, 1, seed)
    budget = 1e-3
    pieces = allocate(half, weight, group, budget, 1 / 3, odd)
    equal = odd(np.maximum(np.sqrt(len(half) * half * weight.max(axis=1) / budget), 1))
    assert load(equal, half, weight, group).max() <= budget * (1 + 1e-12)
    assert pieces.sum() < equal.sum()


@pytest.mark.parametrize("pieces", range(1, 60))
def test_radices_have_the_least_sum(pieces):
    found = radices(pieces)
    assert prod(found) >= pieces
    best = [0, 0]  # least sum of radices 2, 3, 4 with a product of at least n, for n = 1, 2, ..
    for n in range(2, pieces + 1):
        best.append(min(q + best[-(-n // q)] for q in (2, 3, 4)))
    assert sum(found) == (best[pieces] if pieces > 1 else 2)  # a deep product has a step at least


def test_radices_by_enumeration():
    for pieces in (2, 5, 7, 13, 17, 25, 37):
        sums = [sum(c) for n in range(1, 7) for c in product((2, 3, 4), repeat=n) if prod(c) >= pieces]
        assert sum(radices(pieces)) == min(sums)
