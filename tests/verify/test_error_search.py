from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from constructions import build
from constructions.mlp import SparseLinear
from theory import Hyperteacher, Words
from theory.domains import Tasks
from verify.candidates import Draws, Hinges, free_range
from verify.error_search import search
from verify.networks import ChunkedForward, Network, stack_of

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR")


def stacks():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 3)).double()
    net.requires_grad_(False)
    sparse = nn.Sequential(*net[:2], SparseLinear(net[2].weight.to_sparse_csr(), net[2].bias), *net[3:])
    return [(net, net), (sparse, net)]


@pytest.mark.parametrize("keep", [False, True])
def test_chunked_forward_is_the_network(keep):
    for net, plain in stacks():
        run = ChunkedForward(stack_of(net), rows=50, keep=keep)
        run.block = 16
        for n in (50, 16, 7):
            rows = torch.randn(n, 6, dtype=torch.float64)
            assert torch.allclose(run(rows), plain(rows), rtol=1e-13, atol=1e-13)


def next_part(parts, values, start):
    return next(parts)


def test_gradient_is_that_of_torch():
    for net, plain in stacks():
        run = ChunkedForward(stack_of(net), rows=50, keep=True)
        run.block = 16
        rows = torch.randn(50, 6, dtype=torch.float64, requires_grad=True)
        wanted = torch.randn(50, 3, dtype=torch.float64)
        (expected,) = torch.autograd.grad(plain(rows), rows, wanted)
        parts = iter(torch.split(wanted.clone(), run.block))
        found = run.gradient(rows.detach(), partial(next_part, parts))
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


def families():
    third = (Fraction(1, 3), Fraction(9, 10))
    box = (np.array([0.1, -0.3]), np.array([0.7, 1000.1]))
    yield Hyperteacher.sample(5, 2, 2, (3,), 1, weights="continuous", box=box, levels=third)
    yield Hyperteacher.sample(5, 2, 2, (3,), 1, weights="discrete", box=box)
    yield Words.sample(3, 2, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_lie_in_the_domain_and_in_the_format(dtype):
    for family in families():
        network = Network(build(family, 0.5, dtype=dtype), family, CPU)
        total = 0
        for x, z in Draws(family, network, 500, np.random.default_rng(0)).blocks(64):
            total += x.shape[0] * x.shape[1]
            assert x.shape[0] * x.shape[1] <= 64 and len(z) == len(x)
            flat = x.reshape(-1, family.inputs)
            assert family.x_domain.contains(flat).all() and family.z_domain.contains(z).all()
            assert np.array_equal(torch.from_numpy(flat).to(dtype).double().numpy(), flat)
            if isinstance(family.z_domain, Tasks) and family.z_domain.interval:
                low, high = family.z_domain.interval
                assert np.array_equal(torch.from_numpy(z).to(dtype).double().numpy(), z)
                assert all(low <= Fraction(v) <= high for v in z[z > 0])
        assert total == 500


def test_a_box_without_a_number_of_the_format_is_refused():
    with pytest.raises(ValueError, match="float32"):
        family = Hyperteacher.sample(2, 1, 1, (1,), 1, box=(0.1, 0.1))
        free_range(family.x_domain, np.zeros((1, 1)), np.float32)


def test_hinges_are_found_and_points_are_moved_onto_them():
    family = Hyperteacher.sample(2, 1, 2, (3,), 1, weights="continuous")
    network = Network(build(family, 0.01, "shallow", "M"), family, CPU)
    hinges = Hinges.of(network)
    rows = np.concatenate([family.z_domain.sample(40, np.random.default_rng(0)), np.zeros((40, 2))], axis=1)
    wide = np.full(rows.shape, 5.0)
    for to_knot in (True, False):
        moved = hinges.move(rows, -wide, wide, to_knot, np.random.default_rng(1))
        assert np.any(moved != rows)
        places = [hinges.knots[a:b] for a, b in zip(hinges.starts, hinges.starts[1:], strict=False)]
        goals = [p if to_knot else (p[1:] + p[:-1]) / 2 for p in places]
        values = moved @ hinges.directions.T
        reached = [min(np.abs(v[i] - g).min() for i, g in enumerate(goals)) for v in values]
        assert np.mean(np.array(reached) < 1e-12) > 0.9


def test_the_climb_improves_on_random_points():
    family = Hyperteacher.sample(6, 2, 3, (4,), 2, weights="continuous")
    network = Network(build(family, 0.05, "shallow"), family, CPU)
    found = search(family, network, 1000, 0, 2**28)
    assert np.all(np.diff(found.error) <= 0)
    rng = np.random.default_rng(1)
    x, z = (torch.from_numpy(d.sample(found.points, rng)) for d in (family.x_domain, family.z_domain))
    with torch.no_grad():
        random = (network(x, z) - family(x[:, None], z)[:, 0]).abs().max()
    assert found.error[0] > 1.05 * float(random)


def test_any_module_is_searched_by_torch_gradients():
    family = Hyperteacher.sample(3, 2, 2, (2,), 2, weights="continuous")

    class Zero(nn.Module):
        def forward(self, x, z):
            return x[:, :2] * 0

    network = Network(Zero(), family, CPU)
    found = search(family, network, 1000, 0, 2**28)
    assert found.error[0] > 0 and found.points > 1000
