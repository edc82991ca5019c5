"""Norms: the guaranteed slope is above every measured one; planted numbers are found."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from constructions import build
from constructions import mlp as mlp_module
from refusals import assert_refused
from theory import Hyperteacher
from verify import norms as module
from verify.norms import norms, operator_norm
from verify.training import mlp


@given(st.lists(st.integers(1, 8), min_size=3, max_size=5), st.integers(0, 99))
def test_measured_slopes_are_below_the_guaranteed_bound(sizes, seed):
    sizes = [sizes[0] + 1, *sizes[1:]]
    net = mlp(sizes, seed).double()
    rows = torch.randn(40, sizes[0], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = norms(net, rows, 1)
    assert found.steepest_z <= found.lipschitz_z and found.steepest_x <= found.lipschitz_x
    other = rows.clone()
    other[:, 1:] += 0.1 * torch.randn(40, sizes[0] - 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        rise = (net(other) - net(rows)).norm(dim=1) / (other - rows).norm(dim=1)
    assert rise.max() <= found.lipschitz_x * (1 + 1e-9)


def test_a_linear_network_is_as_steep_as_its_bound():
    """Equality: with every ReLU on, the slope is the product of the norms of aligned matrices."""
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[2.0, 3.0, 0.0], [0.0, 0.0, 0.0]]))
        net[0].bias.fill_(100.0)
        net[2].weight.copy_(torch.tensor([[5.0, 0.0]]))
    found = norms(net, torch.zeros(2, 3), 1)
    assert found.steepest_z == pytest.approx(10) and found.lipschitz_z == pytest.approx(10)
    assert found.steepest_x == pytest.approx(15) and found.lipschitz_x == pytest.approx(15)
    assert found.frobenius == pytest.approx((13**0.5, 5.0)) and found.max_weight == 100.0


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=30)
def test_operator_norms_are_upper_bounds(a, b, seed):
    weight = torch.randn(a, b, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    exact = float(np.linalg.norm(weight.numpy(), 2))
    assert exact <= operator_norm(weight) <= exact * (1 + 1e-6)


def test_large_matrices_get_a_looser_bound(monkeypatch):
    weight = torch.randn(9, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = operator_norm(weight)
    monkeypatch.setattr(module, "SPECTRAL", 10)
    assert exact <= operator_norm(weight) < 3 * exact
    monkeypatch.setattr(module, "ENTRIES", 1)
    assert norms(mlp((4, 3, 2), 0), torch.zeros(2, 4), 2).steepest_x is None


def test_the_noise_floor_of_float32():
    family = Hyperteacher.sample(6, 2, 4, (5,), 3, "khot", seed=0)
    net = build(family, dtype=torch.float32)
    rows = torch.rand(500, 10)
    found = norms(net, rows, 6)
    assert 0 < found.noise_rms <= found.noise_largest <= net.rounding_error
    assert norms(net, torch.zeros(5, 10), 6).noise_largest < found.noise_largest


def test_refusals():
    assert_refused(lambda: norms(nn.Tanh(), torch.zeros(1, 3), 1), ["not a stack"])


def test_large_sparse_matrices_stay_sparse(monkeypatch):
    """The same norms as from dense ones, but for the spectral norm, which is bounded, and the slopes not looked for."""
    family = Hyperteacher.sample(40, 2, 4, (4,), 2, "khot", seed=0)
    rows = torch.from_numpy(np.concatenate([family.z_domain.sample(9, rng := np.random.default_rng(0)),
                                            family.x_domain.sample(9, rng)], axis=1))  # fmt: skip
    monkeypatch.setattr(mlp_module, "DENSE_WEIGHTS", 10)
    net = build(family)
    dense = norms(net, rows, 40)
    monkeypatch.setattr(module, "ENTRIES", 1)
    found = norms(net, rows, 40)
    assert found.frobenius == pytest.approx(dense.frobenius) and found.max_weight == dense.max_weight
    assert dense.lipschitz_x <= found.lipschitz_x < 40 * dense.lipschitz_x and dense.lipschitz_z <= found.lipschitz_z
    assert found.steepest_x is found.steepest_z is None and dense.steepest_x > 0
