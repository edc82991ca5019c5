"""Splits: counts exact, pools disjoint, conditions as brute force finds them; the traps of the paper's code."""

import tracemalloc
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from theory import Supports, splits
from theory.splits.conditions import conditions
from theory.splits.orders import TABLE, Order, Permutation
from theory.splits.pools import Listed
from theory.splits.split import chain, partition

FRACTIONS = (0.05, 0.25, 0.5, 0.72, 0.9)
NAMES = ("random", "equal", "popular", "unpopular", "disconnected", "non-compositional")


def listed(pool):
    return {tuple(int(m) for m in row if m >= 0) for row in pool.listed()}


def brute_force(supports, modules):
    """Missing modules, and components by merging sets."""
    blocks = [{m} for m in {m for s in supports for m in s}]
    for support in supports:
        touched = [b for b in blocks if b & set(support)]
        blocks = [b for b in blocks if not b & set(support)] + [set().union(*touched)]
    seen = set().union(*blocks) if blocks else set()
    return tuple(m for m in range(modules) if m not in seen), {tuple(sorted(b)) for b in blocks}


@st.composite
def made(draw, names=NAMES):
    """A split that exists, with the supports and the fraction asked for (None: not given)."""
    modules = draw(st.integers(2, 9))
    supports = Supports(modules, draw(st.integers(1, min(4, modules))))
    name, fraction = draw(st.sampled_from(names)), draw(st.sampled_from(FRACTIONS))
    if name in ("disconnected", "non-compositional") and draw(st.booleans()):
        fraction = None
    try:
        return splits.make(name, supports, fraction, draw(st.integers(0, 5))), fraction
    except ValueError as reason:  # only for a reason that brute force agrees with
        text = str(reason)
        assert "\n" not in text
        if name == "disconnected" and supports.active < 2:
            assert "K" in text or "active" in text
        elif fraction is not None:
            assert text.startswith("fraction: ")
        return None, fraction


@given(made())
def test_a_split_is_a_partition_with_exact_counts(case):
    split, fraction = case
    if split is None:
        return
    every = set(split.supports)
    train, held = listed(split.train), listed(split.held_out)
    assert not train & held and train | held <= every
    assert (len(train), len(held)) == (split.train.count, split.held_out.count)
    assert split.unused == len(every) - len(train) - len(held)
    if fraction is not None and split.name != "equal":
        assert len(train) == len(every) - int(round(fraction * 100) * len(every) // 100)
    if split.name in ("random", "equal", "popular", "unpopular"):
        assert split.unused == 0
    for pool, members in ((split.train, train), (split.held_out, held)):
        everything = split.supports.unrank(range(split.supports.count))
        inside = {s for s, good in zip(every and list(split.supports), pool.contains(everything), strict=True) if good}
        assert inside == members
        drawn = pool.sample(200, np.random.default_rng(0))
        assert {tuple(int(m) for m in row if m >= 0) for row in drawn} <= members
        again = np.concatenate(list(pool.chunks(7)))
        assert np.array_equal(again, pool.listed())


@given(made())
def test_conditions_are_those_of_brute_force(case):
    split, _ = case
    if split is None:
        return
    found = split.conditions
    missing, blocks = brute_force(listed(split.train), split.supports.modules)
    assert found.decided and found.missing == missing and set(found.blocks) == blocks
    assert found.compositional is (not missing)
    assert found.connected is (not missing and len(blocks) == 1)


@given(made(("random", "popular", "unpopular")))
def test_training_is_connected_wherever_that_is_possible(case):
    split, _ = case
    if split is None:
        return
    m, k = split.supports.modules, split.supports.active
    joining = -(-(m - 1) // (k - 1)) if k > 1 else None
    assert split.conditions.compositional
    assert split.conditions.connected is (joining is not None and split.train.count >= joining)


@given(made(("disconnected", "non-compositional", "equal")))
def test_what_each_split_promises(case):
    split, _ = case
    if split is None:
        return
    train, held = listed(split.train), listed(split.held_out)
    chosen = set(split.chosen)
    if split.name == "disconnected":
        assert len(split.conditions.blocks) == 2 and not split.conditions.missing
        assert set(split.conditions.blocks[0]) in (chosen, set(range(split.supports.modules)) - chosen)
        # the trap: supports inside a block are no held-out tasks; all those across are
        assert held == {s for s in split.supports if set(s) & chosen and set(s) - chosen}
    elif split.name == "non-compositional":
        assert set(split.conditions.missing) == chosen
        assert held == {s for s in split.supports if set(s) & chosen}
    else:
        counts = np.bincount([m for s in train for m in s], minlength=split.supports.modules)
        assert len(set(counts.tolist())) == 1


@given(st.integers(3, 9), st.integers(2, 3), st.sampled_from(FRACTIONS), st.integers(0, 9))
def test_popular_modules_are_held_out_last_and_unpopular_ones_first(modules, active, fraction, seed):
    supports = Supports(modules, active)
    for make, first in ((splits.popular, False), (splits.unpopular, True)):
        try:
            split = make(supports, fraction, seed)
        except ValueError:
            held = int(fraction * supports.count)
            assert held == 0 or supports.count - held < modules / active
            continue
        containing = sum(bool(set(s) & set(split.chosen)) for s in supports)
        in_first = containing if first else supports.count - containing
        held = sum(bool(set(s) & set(split.chosen)) is first for s in listed(split.held_out))
        wanted = min(in_first, split.held_out.count)
        assert wanted - 2 * modules <= held <= wanted  # a chain may stay in training


def test_which_modules_are_singled_out_is_random():
    supports = Supports(10, 3)
    for name in ("popular", "unpopular", "non-compositional", "disconnected"):
        assert len({splits.make(name, supports, None if "c" in name else 0.5, s).chosen for s in range(20)}) > 4


@pytest.mark.parametrize(("fraction", "trained"), [(0.25, 132), (0.5, 88), (0.72, 49), (0.9, 18), (0.95, 9)])
def test_the_paper_counts(fraction, trained):
    assert splits.random(Supports(10, 3), fraction, 3).train.count == trained


def test_the_paper_traps():
    ten = Supports(10, 3)
    assert splits.non_compositional(ten).train.count == 129
    assert splits.non_compositional(ten, 0.6).train.count == 70  # the fraction is not ignored
    assert splits.disconnected(ten).train.count == 50
    for fraction in (0.3, 0.5, 0.72, 0.9):  # ordinary fractions do not raise, no module is without a task
        for seed in range(20):
            split = splits.disconnected(ten, fraction, seed)
            assert split.conditions.compositional and len(split.conditions.blocks) == 2
    few = splits.random(Supports(16, 3), 0.99)  # 7 supports: every module, though they cannot be connected
    assert few.train.count == 7 and few.conditions.compositional and not few.conditions.connected
    kept = splits.random(ten, 0.25, keep_single=True)
    assert all(len(s) > 1 for s in listed(kept.held_out)) and kept.train.count == 132


def test_hotness():
    split = splits.hotness(6, 2, 4)
    assert listed(split.train) == set(Supports(6, 2))
    assert listed(split.held_out) == set(Supports(6, 4)) - set(Supports(6, 2))


def test_a_random_split_is_uniform():
    """Each support is held out as often as any other: chi-square over 400 seeds."""
    supports = Supports(6, 2)
    held = np.zeros(supports.count)
    for seed in range(400):
        split = splits.random(supports, 0.3, seed)
        held[supports.rank(split.held_out.listed())] += 1
    expected = 400 * 6 / 21
    assert ((held - expected) ** 2 / expected).sum() < 45  # 20 degrees of freedom: above 45 once in a thousand


def test_seeds():
    supports = Supports(12, 3)
    for name in NAMES:
        a, b, c = (splits.make(name, supports, 0.8, seed).train.listed() for seed in (1, 1, 2))
        assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_large_families_are_split_without_a_list():
    tracemalloc.start()
    try:
        for modules, active in ((32, 7), (64, 8)):
            for name in ("random", "popular", "unpopular", "disconnected", "non-compositional"):
                split = splits.make(name, Supports(modules, active), 0.9, 1)
                assert split.conditions.decided
                for pool, other in ((split.train, split.held_out), (split.held_out, split.train)):
                    drawn = pool.sample(300, np.random.default_rng(0))
                    assert pool.contains(drawn).all() and not other.contains(drawn).any()
        assert tracemalloc.get_traced_memory()[1] < 150e6
    finally:
        tracemalloc.stop()


def test_undecided_is_said():
    """Where drawing misses what cells allow and there is too much to walk, the answer is None, never a guess."""
    split = splits.unpopular(Supports(64, 8), 0.9, 1)
    split.train.order.cover = split.train.order.cover[:0]
    found = conditions(split.train, 64)
    assert not found.decided and found.compositional is None and found.connected is None


@given(st.integers(1, 500), st.integers(0, 9))
def test_small_permutations(n, key):
    order = Permutation(n, [key])
    values = order(np.arange(n))
    assert sorted(values) == list(range(n)) and np.array_equal(order.inverse(values), np.arange(n))


@given(st.integers(TABLE + 1, 2**62 - 1), st.integers(0, 9))
@settings(max_examples=50)
def test_large_permutations(n, key):
    order, places = Permutation(n, [key]), np.random.default_rng(key).integers(n, size=300)
    values = order(places)
    assert values.min() >= 0 and values.max() < n
    assert np.array_equal(order.inverse(values), places)
    assert abs(values.mean() / n - 0.5) < 0.09  # 5 standard errors
    assert abs(np.corrcoef(places, values)[0, 1]) < 0.3


def test_a_large_permutation_is_a_bijection_and_mixes():
    n = TABLE + 5
    values = Permutation(n, [3])(np.arange(n))
    assert len(np.unique(values)) == n
    assert abs(np.corrcoef(np.arange(n), values)[0, 1]) < 5e-3
    assert not np.array_equal(values, Permutation(n, [4])(np.arange(n)))


@given(st.integers(2, 12), st.integers(2, 5), st.integers(0, 3))
def test_covers_are_as_small_as_they_can_be(m, k, seed):
    generator = np.random.default_rng(seed)
    joined, seen = chain(np.arange(m), k, generator), partition(np.arange(m), k, generator)
    assert len(joined) == max(-(-m // k), -(-(m - 1) // (k - 1))) and len(seen) == -(-m // k)
    as_sets = [tuple(int(v) for v in row if v >= 0) for row in joined]
    assert brute_force(as_sets, m) == ((), {tuple(range(m))})
    assert brute_force([tuple(int(v) for v in row if v >= 0) for row in seen], m)[0] == ()


def test_orders_of_two_groups_agree_with_enumeration():
    order = Order([[0, 2, 5], [1, 3, 4, 6]], [[(1, 2), (2, 0)], [(0, 3)]], 3, [7])
    assert order.count == 3 * comb(4, 2) + 3 + 4
    rows = order.supports(np.arange(order.count))
    found = [tuple(int(m) for m in row if m >= 0) for row in rows]
    wanted = {s for s in combinations(range(7), 3) if len(set(s) & {0, 2, 5}) == 1} | set(combinations((0, 2, 5), 2))
    assert set(found[:21]) == wanted and set(found[21:]) == set(combinations((1, 3, 4, 6), 3))
    assert np.array_equal(order.places(rows), np.arange(order.count))
    assert order.places(np.array([[0, 1, -1]])).tolist() == [-1]


def test_given_supports():
    supports = Supports(4, 2)
    split = splits.given(supports, [[1, 0, 0, 0], [1, 1, 0, 0]], [[0, 0, 1, 1]])
    assert listed(split.train) == {(0,), (0, 1)} and listed(split.held_out) == {(2, 3)}
    assert split.conditions.missing == (2, 3)
    assert_refused(lambda: splits.given(supports, [[1, 0, 0, 0]], [[1, 0, 0, 0]]), ["in training and held out"])
    assert_refused(lambda: splits.given(supports, [[1, 0, 0, 0]] * 2, [[0, 1, 0, 0]]), ["twice"])
    assert_refused(lambda: splits.given(supports, [[1, 0, 0]], [[0, 1, 0, 0]]), ["shape"])
    assert_refused(lambda: splits.given(supports, [[1, 1, 1, 0]], [[0, 1, 0, 0]]), ["at most 2 modules"])


def test_refusals():
    ten = Supports(10, 3)
    for fraction in (0, 1, -0.1, 1.5, float("nan"), True, 0.001):
        for name in NAMES:
            assert_refused(lambda n=name, f=fraction: splits.make(n, ten, f), ["fraction: "])
    assert_refused(lambda: splits.make("odd", ten, 0.5), ["random, equal, popular"])
    assert_refused(lambda: splits.make("random", ten), ["needs the fraction"])
    assert_refused(lambda: splits.disconnected(ten, 0.2), ["nearest possible fraction is 0.257143"])
    assert_refused(lambda: splits.non_compositional(ten, 0.2), ["nearest possible fraction is 0.262857"])
    assert splits.disconnected(ten, 0.257143).train.count == 130
    assert_refused(lambda: splits.random(Supports(16, 3), 0.995), ["at most 0.992098"])
    assert splits.random(Supports(16, 3), 0.992098).train.count == 6
    assert_refused(lambda: splits.disconnected(Supports(5, 1)), ["at least 2"])
    assert_refused(lambda: splits.disconnected(ten, 0.99), ["needed to join"])
    assert_refused(lambda: splits.equal(Supports(64, 8), 0.5), ["needs a list"])
    assert_refused(lambda: splits.random(Supports(64, 40), 0.5), ["too many"])
    assert_refused(lambda: splits.popular(ten, 0.5, modules=10), ["single out"])
    assert_refused(lambda: splits.hotness(5, 3, 3), ["trained < tested"])
    assert_refused(lambda: splits.random(ten, 0.5, -1), ["seed"])
    assert_refused(lambda: splits.random(Supports(64, 8), 0.5).train.listed(), ["are not listed"])
    assert_refused(lambda: Listed(ten, np.zeros(0, np.int64)).sample(1, np.random.default_rng(0)), ["none to draw"])
