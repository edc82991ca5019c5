"""Every route rewrites the same tensor, exactly, with as many terms as it should need."""

import numpy as np
import pytest

from constructions.routes import ROUTES, decompose
from strategies import F
from theory.arithmetic import as_exact
from theory.ranks import column_basis


def random_tensor(shape, seed, kind):
    generator = np.random.default_rng(seed)
    tensor = generator.integers(-4, 5, shape) / 4 if kind == "dyadic" else generator.standard_normal(shape)
    tensor[0] = 0  # a module that does nothing
    tensor[1, :, 0] = 0
    tensor[1, 0, :] = 0
    if shape[0] > 2:
        tensor[2] = np.outer(tensor[2, :, 0], np.resize([1.0, 0.0, -2.0, 0.5], shape[2]))  # rank one
    return tensor


SHAPES = [(4, 3, 5), (4, 5, 2), (3, 1, 4), (3, 4, 1), (5, 6, 6)]


def rebuilt(terms):
    left, right, out = terms.left.toarray(), terms.right.toarray(), terms.out.toarray()
    total = np.full((left.shape[0], right.shape[0], out.shape[1]), F(0), dtype=object)
    for r in range(terms.count):
        total = total + left[:, None, None, r] * right[None, :, None, r] * out[None, None, r, :]
    return total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dyadic", "generic"])
@pytest.mark.parametrize("route", ROUTES)
def test_terms_add_up_to_the_tensor(shape, kind, route):
    tensor = random_tensor(shape, 1, kind)
    terms = decompose(tensor, route, True, column_basis(tensor))
    assert np.array_equal(rebuilt(terms), as_exact(tensor))
    floats = decompose(tensor, route, False, column_basis(tensor))
    assert np.allclose(rebuilt(floats).astype(float), tensor, rtol=0, atol=1e-12)
    assert floats.count == terms.count
    assert floats.coordinate.tolist() == terms.coordinate.tolist()
    assert floats.unit.tolist() == terms.unit.tolist()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("route", ROUTES)
def test_no_term_is_zero_and_labels_are_true(shape, route):
    tensor = random_tensor(shape, 2, "dyadic")
    terms = decompose(tensor, route, True, column_basis(tensor))
    left, right, out = (side.toarray() for side in (terms.left, terms.right, terms.out))
    for r in range(terms.count):
        assert (left[:, r] != 0).any() and (right[:, r] != 0).any() and (out[r] != 0).any()
        if terms.coordinate[r] >= 0:
            assert np.flatnonzero(left[:, r] != 0).tolist() == [terms.coordinate[r]]
            assert left[terms.coordinate[r], r] == 1
        else:
            assert route == "N"
        if terms.unit[r] >= 0:
            assert np.flatnonzero(out[r] != 0).tolist() == [terms.unit[r]]
        else:
            assert (out[r] != 0).sum() > 1


@pytest.mark.parametrize("shape", SHAPES)
def test_number_of_terms(shape):
    tensor = random_tensor(shape, 3, "generic")
    basis = column_basis(tensor)
    count = {route: decompose(tensor, route, True, basis).count for route in ROUTES}
    assert count["M"] == (tensor != 0).any(axis=1).sum()
    assert count["N"] == (tensor != 0).any(axis=0).sum()
    assert count["MN"] == (tensor != 0).any(axis=2).sum()
    assert count["rank"] == sum(np.linalg.matrix_rank(m) for m in tensor) == basis.rank.sum()
    assert count["rank"] <= min(count["M"], count["MN"])


def test_exact_rank_is_no_tolerance():
    nearly = np.array([[[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]])  # rank two, by one bit
    assert column_basis(nearly).rank.tolist() == [2]
    assert decompose(nearly, "rank", True, column_basis(nearly)).count == 2
    same = np.array([[[0.1, 0.3], [0.2, 0.6]]])
    assert column_basis(same).rank.tolist() == [2 if F(0.1) * F(0.6) != F(0.3) * F(0.2) else 1]


def test_keep_takes_only_the_chosen():
    tensor = random_tensor((4, 3, 5), 4, "dyadic")
    terms = decompose(tensor, "M", True)
    chosen = np.arange(terms.count) % 3 != 0
    parts = rebuilt(terms.keep(chosen)) + rebuilt(terms.keep(~chosen))
    assert np.array_equal(parts, as_exact(tensor))
    assert terms.keep(chosen).count == chosen.sum() < terms.count


def test_unknown_route():
    with pytest.raises(ValueError, match=r"route: 'X' is unknown; use auto or one of M, N, MN, rank"):
        decompose(np.ones((1, 1, 1)), "X", False)
