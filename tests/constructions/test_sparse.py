"""Sparse matrices: every operation against a dense array, in both arithmetics, and no zero is ever stored."""

import numpy as np
import pytest

from constructions.sparse import Sparse, ones, stack_columns, stack_rows, zeros
from theory.arithmetic import as_exact, as_float


def dense(shape, seed, exact):
    generator = np.random.default_rng(seed)
    values = generator.integers(-3, 4, shape) * (generator.random(shape) < 0.6) / 4
    return as_exact(values) if exact else values


def check(sparse, expected):
    """Same entries, sorted, without zeros or duplicates, in the arithmetic."""
    assert sparse.shape == expected.shape
    assert np.array_equal(sparse.toarray(), expected)
    assert sparse.exact == (expected.dtype == object)
    assert np.all(sparse.val != 0)
    key = sparse.row.astype(int) * expected.shape[1] + sparse.col
    assert np.all(np.diff(key) > 0)
    assert sparse.nnz == (expected != 0).sum()


@pytest.fixture(params=[False, True], ids=["float", "fraction"])
def exact(request):
    return request.param


def test_build_sums_duplicates_and_drops_zeros(exact):
    row, col = [2, 0, 2, 1, 1], [1, 0, 1, 2, 2]
    values = np.array([1.0, 2.0, 0.5, 3.0, -3.0])
    built = Sparse.build(row, col, as_exact(values) if exact else values, (3, 4))
    expected = np.zeros((3, 4))
    expected[2, 1], expected[0, 0] = 1.5, 2.0
    check(built, as_exact(expected) if exact else expected)
    assert built.nnz == 2


@pytest.mark.parametrize("seed", range(4))
def test_algebra(exact, seed):
    a, b, c = dense((5, 4), seed, exact), dense((4, 6), seed + 10, exact), dense((5, 4), seed + 20, exact)
    sa, sb, sc = map(Sparse.dense, (a, b, c))
    check(sa, a)
    check(sa @ sb, a @ b)
    check(sa + sc, a + c)
    check(sa + Sparse.dense(-a), 0 * a)
    check(sa.T, a.T)
    factors = as_exact(np.array([2.0, 0.0, -1.0, 0.5, 1.0])) if exact else np.array([2.0, 0.0, -1.0, 0.5, 1.0])
    check(sa.scale_rows(factors), a * factors[:, None])
    check(sa.scale_columns(factors[:4]), a * factors[:4])
    picks = np.array([3, 0, 0, 2])
    check(sa.take_columns(picks), a[:, picks])
    check(sa.take_rows(picks), a[picks])
    assert np.array_equal(sa.left(factors), factors @ a)
    check(stack_columns([sa, sc, sa]), np.concatenate([a, c, a], axis=1))
    check(stack_rows([sa, sc]), np.concatenate([a, c]))
    assert sa.nonzero_rows().tolist() == np.flatnonzero((a != 0).any(axis=1)).tolist()
    assert sa.nonzero_columns().tolist() == np.flatnonzero((a != 0).any(axis=0)).tolist()
    assert np.array_equal(sa.csr().toarray(), as_float(a))
    assert np.all(sa.absolute().toarray() >= np.abs(as_float(a)))


def test_special_matrices(exact):
    eye = np.eye(4)[:, [2, 0, 2]]
    check(Sparse.units(np.array([2, 0, 2]), 4, exact), as_exact(eye) if exact else eye)
    nothing = np.zeros((3, 2))
    check(Sparse.zero((3, 2), exact), as_exact(nothing) if exact else nothing)
    assert (ones(3, exact) == 1).all() and (zeros(3, exact) == 0).all()
    assert ones(3, exact).dtype == zeros(3, exact).dtype == (object if exact else float)


def test_empty_products_and_picks(exact):
    a = Sparse.zero((3, 0), exact) @ Sparse.zero((0, 2), exact)
    assert a.shape == (3, 2) and a.nnz == 0
    b = Sparse.dense(dense((3, 4), 1, exact)).take_columns(np.zeros(0, dtype=int))
    assert b.shape == (3, 0)


def test_absolute_is_rounded_up():
    thirds = as_exact(np.array([[1.0]])) / 3
    up = Sparse.dense(-thirds).absolute().toarray()[0, 0]
    assert as_exact(up).item() > thirds[0, 0]
