"""Ranks against sympy, and bases that give the modules back exactly."""

from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.arithmetic import as_exact, as_float
from theory.ranks import column_basis, reduce_columns

F = Fraction
SEEDS = st.integers(0, 2**32 - 1)


def sympy_rank(matrix):
    exact = as_exact(matrix)
    return sympy.Matrix(*exact.shape, [sympy.Rational(v.numerator, v.denominator) for v in exact.ravel()]).rank()


@st.composite
def integer_tensors(draw, entries=3):
    """Modules of small integers, most of them deficient: products of thin factors, zero rows and columns."""
    modules, a, b = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    generator = np.random.default_rng(draw(SEEDS))
    tensor = np.empty((modules, a, b))
    for m in range(modules):
        inner = draw(st.integers(0, min(a, b)))
        left, right = (generator.integers(-entries, entries + 1, s) for s in ((a, inner), (inner, b)))
        tensor[m] = left @ right if draw(st.booleans()) else generator.integers(-1, 2, (a, b))
        if draw(st.booleans()):
            tensor[m, draw(st.integers(0, a - 1))] = 0
            tensor[m, :, draw(st.integers(0, b - 1))] = 0
    return tensor


def check_basis(tensor):
    """Every promise of Basis: the rank, independent rows or columns, and T_m = T_m[:, pivots] @ C exactly."""
    basis = column_basis(tensor)
    exact = as_exact(tensor)
    m, h = np.nonzero(basis.pivots)
    coefficients = basis.coefficients(m, h, exact=True)
    assert np.abs(basis.coefficients(m, h, exact=False) - as_float(coefficients)).max(initial=0) == 0
    for k, module in enumerate(exact):
        rank = sympy_rank(module)
        assert basis.rank[k] == rank
        if basis.by_input[k]:
            assert np.count_nonzero((module != 0).any(axis=1)) == rank and not basis.pivots[k].any()
            continue
        chosen = module[:, basis.pivots[k]]
        assert chosen.shape[1] == rank
        if rank:
            assert np.array_equal(chosen @ coefficients[m == k], module)
        else:
            assert not (module != 0).any()


@settings(max_examples=80, deadline=None)
@given(integer_tensors())
def test_bases_of_small_integer_modules(tensor):
    check_basis(tensor)


@settings(max_examples=30, deadline=None)
@given(integer_tensors(), st.sampled_from([F(1, 3), F(2, 7)]))
def test_bases_of_modules_in_fractions(tensor, factor):
    check_basis(as_exact(tensor) * factor)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 6), st.integers(1, 6))
def test_generic_modules_have_full_rank_by_floats_alone(seed, a, b):
    tensor = np.random.default_rng(seed).standard_normal((3, a, b))
    basis = column_basis(tensor)
    assert basis.rank.tolist() == [min(a, b)] * 3 and not basis.reduced
    assert basis.by_input.tolist() == [a <= b] * 3
    check_basis(tensor)


@pytest.mark.parametrize(
    ("matrix", "rank"),
    [
        ([[1, 1], [1, 1 + 2.0**-52]], 2),  # one ulp from deficient: no tolerance may decide
        ([[1, 2], [2, 4]], 1),
        ([[0.1, 0.3], [0.2, 0.6]], 1),  # floats: .2 = 2 x .1 and .6 = 2 x .3 exactly
        ([[0.1, 0.1], [0.3, 0.3 + 2.0**-54]], 2),
        ([[0.1, 0.3], [0.3, 0.9]], 2),  # .3 is not 3 x .1 in float64
        ([[1e200, 0], [0, 1e-200]], 2),
        ([[1e-300, 2e-300], [3e-300, 4e-300]], 2),
        ([[1e300, 2e300], [3e300, 4e300]], 2),
        ([[1e200, 1e200], [1e-200, 1e-200]], 1),
        ([[0, 0], [0, 0]], 0),
        ([[0, 5e-324], [0, 0]], 1),
        ([[1, 0, 0], [0, 0, 0]], 1),
    ],
)
def test_nothing_is_a_tolerance(matrix, rank):
    matrix = np.array(matrix, dtype=float)
    assert sympy_rank(matrix) == rank
    for turned in (matrix, matrix.T):
        assert column_basis(turned[None]).rank.tolist() == [rank]
        check_basis(turned[None])


def test_hilbert_matrices_are_not_taken_for_deficient():
    """Condition 1e13: floats prove nothing, Fractions must decide."""
    n = 10
    hilbert = 1 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1.0)
    assert np.linalg.cond(hilbert) > 1e12
    assert column_basis(hilbert[None]).rank.tolist() == [n]


@settings(max_examples=80, deadline=None)
@given(integer_tensors())
def test_reduced_columns_give_the_matrix_back(tensor):
    for matrix in tensor:
        chosen, block = reduce_columns(matrix)
        assert len(chosen) == len(block) == sympy_rank(matrix) and chosen == sorted(set(chosen))
        assert np.array_equal(block[:, chosen], as_exact(np.eye(len(chosen))))
        if chosen:
            assert np.array_equal(as_exact(matrix)[:, chosen] @ block, as_exact(matrix))


def test_reduction_leaves_its_argument_alone():
    matrix = as_exact([[1, 2], [3, 4]])
    reduce_columns(matrix)
    assert matrix.tolist() == [[1, 2], [3, 4]]
