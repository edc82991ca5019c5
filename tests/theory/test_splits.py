"""Splits: counts exact, pools disjoint, conditions as brute force finds them; the traps of the paper's code."""

import tracemalloc
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from theory import Supports, splits
from theory.splits.conditions import Components, conditions
from theory.splits.counts import floor_share, share
from theory.splits.orders import TABLE, Order, Permutation
from theory.splits.pools import Listed
from theory.splits.split import chain, joining, partition, star

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


def needed(modules, active):
    """Fewest supports that join the modules (claim C15); for K = 1 nothing does, and each must be seen."""
    return max(1, -(-(modules - 1) // (active - 1))) if active > 1 else modules


def possible(name, supports):
    """How many supports each split can train on."""
    m, k, total = supports.modules, supports.active, supports.count
    if name == "equal":
        return set(range(1, total)) if k > 1 else set()  # for K = 1 all supports are rotations of one
    if name == "non-compositional":
        return set(range(needed(m - 1, k), Supports(m - 1, min(m - 1, k)).count + 1))
    if name == "disconnected":
        inside = [[len(list(Supports(b, min(b, k)))) for b in (a, m - a)] for a in range(1, m // 2 + 1)]
        least = [needed(a, k) + needed(m - a, k) for a in range(1, m // 2 + 1)]
        return (
            {t for low, most in zip(least, inside, strict=True) for t in range(low, sum(most) + 1)} if k > 1 else set()
        )
    return set(range(-(-m // k), total))


@st.composite
def small(draw, most_modules=9):
    modules = draw(st.integers(2, most_modules))
    return Supports(modules, draw(st.integers(1, min(4, modules))))


@st.composite
def made(draw, names=NAMES):
    """A split that exists, with the supports and the fraction asked for (None: not given)."""
    supports, name, fraction = draw(small()), draw(st.sampled_from(names)), draw(st.sampled_from(FRACTIONS))
    if name in ("disconnected", "non-compositional") and draw(st.booleans()):
        fraction = None
    assume(supports.active > 1 or name not in ("disconnected", "equal"))
    if fraction is not None:
        assume(supports.count - fraction_floor(fraction, supports) in possible(name, supports))
    return splits.make(name, supports, fraction, draw(st.integers(0, 5))), fraction


def fraction_floor(fraction, supports):
    """floor(fraction T) for a fraction of whole percents."""
    return round(fraction * 100) * supports.count // 100


@given(small(6), st.sampled_from(NAMES), st.data())
@settings(max_examples=40)
def test_a_split_is_refused_only_where_it_cannot_be_and_the_fraction_named_instead_works(supports, name, data):
    total, counts = supports.count, possible(name, supports)
    trained = data.draw(st.integers(1, total))
    fraction = max(share(total - trained, total, up=True), 1 / (2 * total))
    try:
        split = splits.make(name, supports, fraction)
    except ValueError as reason:
        text = str(reason)
        assert "\n" not in text and trained not in counts
        if not counts:
            return
        assert text.startswith("fraction: ")
        split = splits.make(name, supports, float(text.rsplit(" ", 1)[1]))
        if name != "equal":
            assert abs(split.train.count - trained) == min(abs(count - trained) for count in counts)
    else:
        assert trained in counts
        assert name == "equal" or split.train.count == trained


@given(st.integers(2, 2**62), st.data())
def test_shares_are_of_exactly_that_many_or_of_the_next_that_a_float_can_say(total, data):
    count = data.draw(st.integers(1, total - 1) | st.integers(1, min(9, total - 1)))
    for up in (True, False):
        near = share(count, total, up)
        off = floor_share(near, total) - count
        assert (off >= 0) if up else (off <= 0)
        assert abs(off) <= total * 2.0**-52
        assert off == 0 or total > 2**50


def test_a_fraction_is_the_decimal_that_was_written():
    assert floor_share(0.29, 100) == 29  # int(.29 * 100) is 28
    assert share(46, 175, up=True) == 0.263  # 46 / 175 printed with six digits is below it: a floor of 45
    assert floor_share(0.262857, 175) == 45


@given(made())
@settings(max_examples=40)
def test_a_split_is_a_partition_with_exact_counts(case):
    split, fraction = case
    every = set(split.supports)
    train, held = listed(split.train), listed(split.held_out)
    assert not train & held and train | held <= every
    assert (len(train), len(held)) == (split.train.count, split.held_out.count)
    assert split.unused == len(every) - len(train) - len(held)
    if fraction is not None and split.name != "equal":
        assert len(train) == len(every) - fraction_floor(fraction, split.supports)
    if split.name in ("random", "equal", "popular", "unpopular"):
        assert split.unused == 0
    for pool, members in ((split.train, train), (split.held_out, held)):
        good = pool.contains(split.supports.unrank(range(split.supports.count)))
        assert {s for s, inside in zip(split.supports, good, strict=True) if inside} == members
        drawn = pool.sample(200, np.random.default_rng(0))
        assert {tuple(int(m) for m in row if m >= 0) for row in drawn} <= members
        again = np.concatenate(list(pool.chunks(7)))
        assert np.array_equal(again, pool.listed())


@given(made())
@settings(max_examples=40)
def test_conditions_are_those_of_brute_force(case):
    split, _ = case
    found = split.conditions
    missing, blocks = brute_force(listed(split.train), split.supports.modules)
    assert found.decided and found.missing == missing and set(found.blocks) == blocks
    assert found.compositional is (not missing)
    assert found.connected is (not missing and len(blocks) == 1)


@given(made(("random", "popular", "unpopular")))
@settings(max_examples=40)
def test_training_is_connected_wherever_that_is_possible(case):
    split, _ = case
    m, k = split.supports.modules, split.supports.active
    joining = -(-(m - 1) // (k - 1)) if k > 1 else None
    assert split.conditions.compositional
    assert split.conditions.connected is (joining is not None and split.train.count >= joining)


@given(made(("disconnected", "non-compositional", "equal")))
@settings(max_examples=40)
def test_what_each_split_promises(case):
    split, _ = case
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
@settings(max_examples=40)
def test_a_popular_module_is_trained_on_as_often_as_can_be_an_unpopular_one_as_rarely(modules, active, fraction, seed):
    supports = Supports(modules, active)
    trained = supports.count - fraction_floor(fraction, supports)
    assume(trained in possible("popular", supports))
    containing = supports.count - Supports(modules - 1, min(active, modules - 1)).count
    often, rarely = (
        sum(set(split.chosen) <= set(s) for s in listed(split.train))
        for split in (splits.popular(supports, fraction, seed), splits.unpopular(supports, fraction, seed))
    )
    if trained >= needed(modules, active):
        assert often == min(containing, trained)
    assert rarely == max(trained - (supports.count - containing), 1)


@given(st.integers(5, 9), st.sampled_from(FRACTIONS), st.integers(0, 5), st.sampled_from(("popular", "unpopular")))
@settings(max_examples=40)
def test_several_modules_are_singled_out(modules, fraction, seed, name):
    supports = Supports(modules, 3)
    trained = supports.count - fraction_floor(fraction, supports)
    assume(trained >= needed(modules, 3))
    split = getattr(splits, name)(supports, fraction, seed, modules=2)
    containing = supports.count - Supports(modules - 2, 3).count
    found = sum(bool(set(split.chosen) & set(s)) for s in listed(split.train))
    assert len(split.chosen) == 2 and split.conditions.connected
    if name == "popular":
        assert found == min(containing, trained)
    else:  # one support of the chain has both
        assert found == max(trained - (supports.count - containing), 1)


@given(st.integers(3, 9), st.integers(2, 4), st.integers(1, 60), st.integers(0, 5))
@settings(max_examples=40)
def test_single_modules_are_never_held_out_where_they_are_to_be_kept(modules, active, trained, seed):
    """The trap: supports of one module are held out too."""
    supports = Supports(modules, min(active, modules))
    assume(trained < supports.count)
    fraction = share(supports.count - trained, supports.count, up=True)
    if trained < modules:
        refuse = lambda: splits.random(supports, fraction, seed, keep_single=True)  # noqa: E731
        assert_refused(refuse, ["fraction: ", f"at least {modules}"])
        return
    split = splits.random(supports, fraction, seed, keep_single=True)
    assert split.train.count == trained and all(len(s) > 1 for s in listed(split.held_out))
    assert split.conditions.compositional
    assert split.conditions.connected or trained < modules + needed(modules, supports.active)


@given(st.integers(2, 9), st.integers(2, 4), st.floats(0.02, 0.98), st.integers(0, 5))
def test_equal_comes_as_near_as_orbits_can(modules, active, fraction, seed):
    supports = Supports(modules, min(active, modules))
    trained = supports.count - int(Fraction(str(fraction)) * supports.count)
    assume(0 < trained < supports.count)
    turned = ({tuple(sorted((m + turn) % modules for m in s)) for turn in range(modules)} for s in supports)
    reached = {0}
    for orbit in {frozenset(orbit) for orbit in turned}:
        reached |= {total + len(orbit) for total in reached}
    found = splits.equal(supports, fraction, seed).train.count
    assert found in reached
    assert abs(found - trained) == min(abs(t - trained) for t in reached - {0, supports.count})


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
    assert any(len(s) == 1 for s in listed(splits.random(ten, 0.25).held_out))
    assert splits.random(ten, 0.25, keep_single=True).train.count == 132


def test_hotness():
    split = splits.hotness(6, 2, 4)
    assert listed(split.train) == set(Supports(6, 2))
    assert listed(split.held_out) == set(Supports(6, 4)) - set(Supports(6, 2))
    named = splits.make("hotness", Supports(6, 2))
    assert listed(named.train) == set(Supports(6, 2))
    assert listed(named.held_out) == set(Supports(6, 6)) - set(Supports(6, 2))
    assert_refused(lambda: splits.make("hotness", Supports(6, 2), 0.5), ["so give none"])
    assert_refused(lambda: splits.make("hotness", Supports(3, 3)), ["trained < tested"])


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


@contextmanager
def within(most):
    """Checks that no more bytes are allocated at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def test_large_families_are_split_without_a_list():
    with within(100e6):
        for modules, active in ((32, 7), (64, 8)):
            for name in ("random", "popular", "unpopular", "disconnected", "non-compositional"):
                split = splits.make(name, Supports(modules, active), 0.9, 1)
                assert split.conditions.decided
                for pool, other in ((split.train, split.held_out), (split.held_out, split.train)):
                    drawn = pool.sample(300, np.random.default_rng(0))
                    assert pool.contains(drawn).all() and not other.contains(drawn).any()


def test_supports_of_very_many_modules_are_found_without_a_row_of_all_modules_each():
    order = Order([range(10**5)], [[(2,)]], 2, [0])
    with within(10e6):
        places = np.arange(0, order.count, order.count // 5000)
        assert np.array_equal(order.places(order.supports(places)), places)


def test_four_million_supports_are_split_equally_from_a_list():
    with within(400e6):
        split = splits.equal(Supports(32, 7), 0.25)
        assert abs(split.train.count - 3_386_154) < 32
        seen = np.bincount(np.concatenate([s[s >= 0] for s in split.train.chunks(2**17)]))
    assert len(set(seen.tolist())) == 1


def test_components_of_very_many_modules():
    """Edges are numbers below n^2: more than 32 bits."""
    n, joined = 70_000, Components(70_000)
    joined.join(np.arange(0, n - 2, 2), np.arange(2, n, 2))
    assert joined.count == 1 + n // 2
    joined.join(np.arange(1, n - 2, 2), np.arange(3, n, 2))
    assert joined.count == 2 and len(np.unique(joined.labels[::2])) == 1
    joined.join(np.array([n - 1]), np.array([n - 2]))
    assert joined.count == 1


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
    assert not np.array_equal(values[:100], Permutation(n, [4])(np.arange(100)))


@given(st.integers(2, 12), st.integers(2, 5), st.integers(0, 3))
def test_covers_are_as_small_as_they_can_be(m, k, seed):
    modules = np.random.default_rng(seed).permutation(m)
    as_sets = {
        make: [tuple(int(v) for v in row if v >= 0) for row in make(modules, k)] for make in (chain, star, partition)
    }
    assert len(as_sets[chain]) == len(as_sets[star]) == joining(m, k) == max(-(-m // k), -(-(m - 1) // (k - 1)))
    assert len(as_sets[partition]) == -(-m // k)
    assert brute_force(as_sets[partition], m)[0] == ()
    for make in (chain, star):
        assert brute_force(as_sets[make], m) == ((), {tuple(range(m))})
    assert all(modules[0] in s for s in as_sets[star])
    assert all(sum(first in s for s in as_sets[chain]) == 1 for first in modules[: k - 1])


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
    assert_refused(lambda: splits.disconnected(ten, 0.2), ["at most 130", "nearest possible fraction is 0.26"])
    assert_refused(lambda: splits.non_compositional(ten, 0.2), ["at most 129", "nearest possible fraction is 0.263"])
    assert_refused(lambda: splits.random(Supports(16, 3), 0.995), ["at least 6", "fraction is 0.992"])
    assert_refused(lambda: splits.disconnected(Supports(5, 1)), ["at least 2"])
    assert_refused(lambda: splits.disconnected(ten, 0.99), ["at least 4"])
    assert_refused(lambda: splits.equal(Supports(64, 8), 0.5), ["needs a list"])
    assert_refused(lambda: splits.random(Supports(64, 40), 0.5), ["too many"])
    assert_refused(lambda: splits.popular(ten, 0.5, modules=10), ["single out"])
    assert_refused(lambda: splits.hotness(5, 3, 3), ["trained < tested"])
    assert_refused(lambda: splits.hotness(5, 1.5, 3), ["trained must be an integer"])
    for modules, fraction in ((4, 0.5), (3, 0.25), (2, 0.5)):
        assert_refused(lambda m=modules, f=fraction: splits.equal(Supports(m, 1), f), ["rotations of one"])
    assert_refused(lambda: splits.random(Supports(1, 1), 0.5), ["holds out none"])
    assert_refused(lambda: splits.random(Supports(4, 1), 0.5, keep_single=True), ["holds out none"])
    for seed in (-1, 1.5, "a", None, True):
        for name in NAMES:
            assert_refused(lambda n=name, s=seed: splits.make(n, ten, 0.5, s), ["seed must be an integer >= 0"])
    for modules in (0, 1.5, True):
        for make in (splits.popular, splits.unpopular, splits.non_compositional):
            assert_refused(lambda f=make, m=modules: f(ten, 0.5, 0, m), ["modules must be an integer >= 1"])
    for fraction in (None, "half", [0.5]):
        assert_refused(lambda f=fraction: splits.random(ten, f), ["fraction: ", "between 0 and 1"])
    assert_refused(lambda: splits.random(Supports(64, 8), 0.5).train.listed(), ["are not listed"])
    assert_refused(lambda: Listed(ten, np.zeros(0, np.int64)).sample(1, np.random.default_rng(0)), ["none to draw"])


@pytest.mark.parametrize("name", ["random", "equal"])
def test_pools_refuse_what_cannot_be(name):
    pool = splits.make(name, Supports(10, 3), 0.5).train
    assert pool.contains([[0, 1, 2, 3], [4, 5, 6, 7]]).tolist() == [
        False,
        False,
    ]  # supports, but of more than K modules
    assert pool.contains(np.zeros((0, 3), dtype=int)).shape == (0,)
    rows = np.pad(pool.listed()[:, ::-1], ((0, 0), (1, 2)), constant_values=-1)
    assert pool.contains(rows).all()  # whatever their order and width
    for numbers in ([-1], [pool.count]):
        assert_refused(lambda n=numbers: pool.at(n), ["numbers: ", f"0..{pool.count - 1}"])
    for n in (-1, 1.5):
        assert_refused(lambda n=n: pool.sample(n, np.random.default_rng(0)), ["n must be an integer >= 0"])
    for size in (0, -1, 1.5):
        assert_refused(lambda n=size: pool.chunks(n), ["size must be an integer >= 1"])
    for rows in ([0, 1], [[0.0, 1.0]], [[0, 0]], [[10, 1]], [[-1, -1]]):
        assert_refused(lambda r=rows: pool.contains(r), [""])


def test_a_split_is_shown_on_one_line():
    split = splits.non_compositional(Supports(10, 3), 0.9, modules=2)
    missing = ", ".join(map(str, split.conditions.missing))
    expected = f"18 supports trained on, 83 held out, 74 unused of 175; modules {missing} never seen, 1 block"
    assert str(split) == f"non-compositional: {expected}" and repr(split) == f"<Split {split}>"
