"""Claim C9: the decoder fails no more often than the bound, whatever the network; and the bound can be attained."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import build
from refusals import assert_refused
from theory import Hyperteacher
from theory.identifiability import separation
from verify.decoding import agreement, list_tasks, nearest_rows, recovery, smallest_square

FAMILY = Hyperteacher.sample(7, 2, 3, (4,), 2, "khot", seed=0)


def noisy(family, size, share=1.0, seed=0):
    def predict(x, z):
        generator = torch.Generator().manual_seed(seed)
        y = family(x.double(), z.double())
        hit = torch.rand(len(y), 1, 1, generator=generator) < share
        return y + hit * size * torch.randn(len(y), 1, y.shape[2], generator=generator, dtype=torch.float64)

    return predict


@given(st.floats(0.0, 3.0), st.floats(0.0, 1.0), st.integers(0, 99))
@settings(max_examples=60)
def test_the_decoder_fails_no_more_often_than_the_bound(size, share, seed):
    found = recovery(noisy(FAMILY, size, share, seed), FAMILY, np.random.default_rng(seed), points=8)
    assert found.failures <= found.beyond <= found.bound + 1e-12 <= 1 + 1e-12
    assert found.every and found.tasks == 28


def test_both_sides_grow_with_the_noise():
    found = [recovery(noisy(FAMILY, s), FAMILY, np.random.default_rng(0), points=8) for s in (0.0, 0.02, 0.3, 3.0)]
    assert found[0].mse == found[0].bound == found[0].failures == 0
    assert 0 < found[1].bound < 0.2 and found[-1].failures > 0.5
    assert [f.mse for f in found] == sorted(f.mse for f in found)


def test_the_bound_is_attained():
    """A network half-way between the two nearest tasks, ties going wrong: failures == bound, exactly."""
    family = Hyperteacher([np.array([[[0.0]], [[1.0]]])], [np.array([[0.0], [1.0]])], [[1.0]], 1)
    half_way = torch.tensor([0.5])

    def predict(x, z):
        y = family(x.double(), z.double())
        other = family(x.double(), z.double().flip(1))
        wrong = (z[:, 1] == 1).double()[:, None, None]  # task 1 only; the tie goes to task 0
        return y + wrong * half_way * (other - y)

    found = recovery(predict, family, np.random.default_rng(0), points=50)
    assert found.failures == 0.5 and found.bound == pytest.approx(0.5)


def test_a_constructed_network_is_decoded_and_a_constant_one_is_not():
    net = build(FAMILY, dtype=torch.float32)
    exact = recovery(lambda x, z: net(x, z), FAMILY, np.random.default_rng(0))
    assert exact.failures == 0 and exact.bound < 1e-6
    constant = recovery(lambda x, z: torch.zeros(*x.shape[:2], 2), FAMILY, np.random.default_rng(0))
    assert constant.failures >= 27 / 28 and constant.bound == 1.0


def test_without_separation_being_right_does_not_help():
    """The theorem as paraphrased is false: right with probability 1 - delta, yet no decoder beats a coin."""
    family = Hyperteacher([np.array([[[0.0]], [[1.0]]])], [np.array([[0.0], [-0.98]])], [[1.0]], 1)
    tasks = torch.eye(2, dtype=torch.float64)
    x = torch.linspace(-1, 1, 2001, dtype=torch.float64)[None, :, None].expand(2, -1, -1)
    target = family(x, tasks)
    constant = target[:1].expand(2, -1, -1)  # what a constant encoding makes of it: one function for both
    found = agreement(constant, target)
    assert found.delta < 0.0051 and found.failures == 0.5
    assert 1 - found.delta**0.5 > 0.9  # the probability that the paraphrase promises for the decoder
    assert found.bound == pytest.approx(1.0)  # the sharper form promises nothing here
    assert found.smallest == pytest.approx(float(separation(family, *np.eye(2)).delta), abs=1e-3)


@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 99), st.floats(0, 1))
@settings(max_examples=40)
def test_exact_agreement(tasks, points, seed, share):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 2, (tasks, points, 1), generator=generator).double()
    values = torch.where(torch.rand(target.shape, generator=generator) < share, 1 - target, target)
    found = agreement(values, target)
    assert found.failures <= found.bound + 1e-12
    wanted = min((target[a] != target[b]).double().mean() for a in range(tasks) for b in range(tasks) if a != b)
    assert found.smallest == pytest.approx(float(wanted))


@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 99))
def test_distances_by_brute_force(rows, width, seed):
    generator = torch.Generator().manual_seed(seed)
    target = 100 + torch.randn(rows, width, generator=generator, dtype=torch.float64)
    values = target + 1e-3 * torch.randn(rows, width, generator=generator, dtype=torch.float64)
    every = (values[:, None] - target[None]).square().sum(dim=2)
    chosen, squares = nearest_rows(values, target)
    assert torch.allclose(squares, every.min(dim=1).values) and (every.argmin(dim=1) == chosen).all()
    between = (target[:, None] - target[None]).square().sum(dim=2).fill_diagonal_(torch.inf)
    assert smallest_square(target) == pytest.approx(float(between.min()))


def test_blocks_make_no_difference(monkeypatch):
    whole = recovery(noisy(FAMILY, 0.3), FAMILY, np.random.default_rng(0), points=8)
    rows = torch.randn(20, 3, dtype=torch.float64)
    square = smallest_square(rows)
    monkeypatch.setattr("verify.decoding.ENTRIES", 40)
    assert smallest_square(rows) == square
    cut = recovery(lambda x, z: FAMILY(x.double(), z.double()) + 0.3, FAMILY, np.random.default_rng(0), points=8)
    assert cut.square == pytest.approx(whole.square)


def test_lists_of_tasks():
    family = Hyperteacher.sample(5, 2, 3, (4,), 2, "discrete", seed=0)
    z, every = list_tasks(family, np.random.default_rng(0))
    assert every and len(np.unique(z, axis=0)) == len(z) == 5 * 6 + 10 * 36
    z, every = list_tasks(family, np.random.default_rng(0), limit=50)
    assert not every and len(np.unique(z, axis=0)) == len(z) == 50
    z, every = list_tasks(family, np.random.default_rng(0), supports_only=True)
    assert every and len(z) == 15 and set(z.ravel()) == {0.0, 1.0}
    assert family.z_domain.contains(z).all()
    continuous = Hyperteacher.sample(5, 2, 3, (4,), 2, "continuous", seed=0)
    assert_refused(lambda: list_tasks(continuous, np.random.default_rng(0)), ["on a grid"])
    assert len(list_tasks(continuous, np.random.default_rng(0), supports_only=True)[0]) == 15
    assert_refused(lambda: agreement(torch.ones(1, 2, 1), torch.ones(1, 2, 1)), ["at least 2 tasks"])
