from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from constructions import build
from constructions.mlp import SparseLinear
from theory import Hyperteacher
from theory.arithmetic import UNIT32, UNIT64, as_exact
from verify.networks import stack_of
from verify.replay import StoredWeights


def by_definition(stack, row):
    """The stack on a row, in Fractions, dense and slow."""
    values = as_exact(row)
    for linear, relu in stack:
        weight = linear.weight.detach()
        weight = weight.to_dense() if weight.layout == torch.sparse_csr else weight
        bias = 0 if linear.bias is None else as_exact(linear.bias.detach().numpy())
        values = as_exact(weight.numpy()) @ values + bias
        values = np.maximum(values, Fraction(0)) if relu else values
    return list(values)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([torch.float32, torch.float64]), st.sampled_from([1e-30, 1.0, 1e20]))
def test_exact_replay_is_the_definition(seed, dtype, size):
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)).to(dtype)
    for p in net.parameters():
        kept = torch.rand(p.shape, generator=generator) < 0.7
        p.data = torch.randn(p.shape, generator=generator, dtype=dtype) * kept
    net[0].weight.data *= size
    row = torch.randn(5, generator=generator, dtype=dtype).double().numpy()
    row[seed % 5] = 0.0
    stored = StoredWeights(stack_of(net))
    exact = stored.exactly(row)
    assert exact == by_definition(stack_of(net), row)
    # float64 replay and torch lie within the bound that the replay computes for them.
    with torch.no_grad():
        torch_value = net(torch.from_numpy(row).to(dtype)).double().numpy()
    values, allowed = stored.in_float64(row, UNIT64)
    assert all(abs(Fraction(v) - e) <= a for v, e, a in zip(values, exact, allowed, strict=True))
    allowed = stored.in_float64(row, UNIT32 if dtype == torch.float32 else UNIT64)[1]
    assert all(abs(Fraction(v) - e) <= a for v, e, a in zip(torch_value, exact, allowed, strict=True))


def test_extreme_exponents_and_zeros():
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    net[0].weight.data = torch.tensor([[5e-324, 0.0, 1e300], [0.0, 0.0, 0.0]], dtype=torch.float64)
    net[0].bias.data.fill_(0.0)
    net[2].bias.data.fill_(-0.1)
    for row in (np.array([1.0, 2.0, 0.0]), np.array([1.0, 0.0, 1e8]), np.zeros(3)):
        assert StoredWeights(stack_of(net)).exactly(row) == by_definition(stack_of(net), row)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_layers_are_replayed_as_dense_ones():
    torch.manual_seed(0)
    dense = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 3)).double().requires_grad_(False)
    dense[0].weight[torch.rand(40, 6) < 0.8] = 0
    sparse = nn.Sequential(SparseLinear(dense[0].weight.to_sparse_csr(), dense[0].bias), *dense[1:])
    row = np.linspace(-1, 1, 6)
    one, two = StoredWeights(stack_of(dense)), StoredWeights(stack_of(sparse))
    assert one.nonzeros == two.nonzeros and one.exactly(row) == two.exactly(row)


def test_replay_of_an_exact_network_is_the_target_where_everything_is_dyadic():
    generator = np.random.default_rng(0)
    draw = lambda *shape: generator.integers(-4, 5, shape) / 4  # noqa: E731
    family = Hyperteacher([draw(3, 2, 4)], [draw(3, 4)], draw(4, 2), active=2, weights="khot")
    stored = StoredWeights(stack_of(build(family)))
    x, z = np.array([0.5, -0.25]), np.array([1.0, 0.0, 1.0])
    assert stored.exactly(np.concatenate([z, x])) == list(family.exact(x, z))
