"""Words: compositions in order, and what is refused."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from strategies import points, words
from theory.arithmetic import as_exact
from theory.domains import OneHot
from theory.families import Words

F = Fraction


@settings(max_examples=30, deadline=None)
@given(words(), st.integers(0, 2**32 - 1))
def test_words_are_compositions(family, seed):
    matrices, offsets = as_exact(family.matrices), as_exact(family.offsets)
    x, z = points(family, 4, seed)
    assert isinstance(family.z_domain, OneHot) and family.z_domain.size == family.modules * family.length
    for a, b in zip(x, z, strict=True):
        state = as_exact(a)
        for letter in b.reshape(family.length, family.modules).argmax(axis=1):
            state = state @ matrices[letter] + offsets[letter]
        assert np.array_equal(family.exact(a, b), state)


def test_the_order_of_a_word_matters():
    """Double, then add one; or add one, then double: 2x + 1, 2x + 2. And rows times matrices, not columns."""
    family = Words([[[2.0]], [[1.0]]], [[0.0], [1.0]], length=2)
    assert family.exact([3], [1, 0, 0, 1]).tolist() == [7] and family.exact([3], [0, 1, 1, 0]).tolist() == [8]
    shear = Words([[[1.0, 5.0], [0.0, 1.0]]], length=1)
    assert shear.exact([2, 3], [1]).tolist() == [2, 13]


@settings(max_examples=30, deadline=None)
@given(words(max_modules=3, max_length=3))
def test_there_are_m_to_the_k_words(family):
    assert family.tasks == family.modules**family.length
    every = {word for word in product(range(family.modules), repeat=family.length)}
    assert family.tasks == len(every)
    drawn = family.z_domain.sample(400, np.random.default_rng(0))
    picks = drawn.reshape(-1, family.length, family.modules).argmax(axis=2)
    assert {tuple(p) for p in picks.tolist()} == every


def test_sampled_words():
    family = Words.sample(modules=5, length=3, state=4, seed=3)
    assert (family.modules, family.length, family.active, family.inputs, family.outputs) == (5, 3, 3, 4, 4)
    for matrix in family.matrices:
        assert np.abs(matrix @ matrix.T - np.eye(4)).max() < 1e-14
    assert family.offsets.min() >= -0.5 and family.offsets.max() < 0.5
    assert Words.sample(seed=3).matrices.tobytes() == Words.sample(seed=3).matrices.tobytes()
    assert Words.sample(seed=3).matrices.tobytes() != Words.sample(seed=4).matrices.tobytes()
    assert repr(family) == "Words(5 generators of R^4, length 3, 125 tasks)"


@pytest.mark.parametrize(
    ("arguments", "words_"),
    [
        ({"matrices": np.ones((2, 2, 3))}, ["(2, 2, 3)", "(modules, d, d)"]),
        ({"matrices": np.ones((2, 2))}, ["matrices", "2 dimensions, need 3"]),
        ({"matrices": np.ones((0, 2, 2))}, ["(modules, d, d)"]),
        ({"matrices": np.ones((2, 1, 1)), "offsets": np.ones((1, 1))}, ["offsets", "(1, 1)", "(2, 1)"]),
        ({"matrices": np.ones((2, 1, 1)), "length": 0}, ["length", "0"]),
        ({"matrices": np.full((2, 1, 1), np.nan)}, ["matrices", "NaN"]),
        ({"matrices": np.ones((2, 1, 1)), "offsets": np.full((2, 1), np.inf)}, ["offsets", "infinite"]),
        ({"matrices": np.ones((2, 1, 1)), "box": (1, -1)}, ["box", "(lower, upper)"]),
        ({"matrices": np.ones((2, 2, 2)), "box": (np.zeros(3), np.ones(3))}, ["box", "2 numbers"]),
    ],
)
def test_bad_words_are_refused_in_one_line(arguments, words_):
    assert_refused(lambda: Words(**arguments), words_)


def test_bad_samples_of_words_are_refused():
    assert_refused(lambda: Words.sample(modules=0), ["0 generators", "at least 1"])
    assert_refused(lambda: Words.sample(seed=-1), ["seed", "-1"])
