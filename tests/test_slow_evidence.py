"""Slow evidence, one command: `make slow`. Larger searches, larger networks, more random families."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constructions import build
from replaying import replay
from strategies import CircuitFamily, circuits, hyperteachers, points
from theory import Hyperteacher
from theory.arithmetic import as_exact
from verify import check
from verify.cli import main

pytestmark = pytest.mark.slow

many = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def test_the_main_job_searched_thoroughly(capfd):
    assert main(["check", "--thorough"]) == 0
    assert "holds: 15 of 15 rows" in capfd.readouterr().out


@pytest.mark.parametrize("method", ["shallow", "deep"])
def test_a_long_search_stays_below_the_guarantee_and_comes_near(method):
    family = Hyperteacher.sample(modules=6, active=2, inputs=2, hidden=(2,), outputs=1, weights="continuous")
    found = check(family, build(family, 1e-2, method), eps=1e-2, points=500_000)
    assert found.status == "holds"
    assert found.measured > 0.3 * found.guaranteed


def test_a_hundred_thousand_modules():
    family = Hyperteacher.sample(modules=100_000)
    net = build(family)
    assert net.neurons == net.formula_neurons == 16 * 100_000 + 32
    generator = np.random.default_rng(0)
    x = torch.from_numpy(family.x_domain.sample(64, generator))
    z = torch.from_numpy(family.z_domain.sample(64, generator))
    error = (net(x, z) - family(x[:, None], z)[:, 0]).abs().max()
    assert float(error) <= net.rounding_error


@many
@given(family=hyperteachers(weights="discrete"), seed=st.integers(0, 1000))
def test_exact_networks_of_many_families(family, seed):
    net = build(family, method="exact")
    x, z = points(family, 6, seed)
    for a, b in zip(x, z, strict=True):
        row = [*family.z_domain.exact(b), *as_exact(a)]
        assert replay(net, row) == list(family.exact(a, b))


@many
@given(circuit=circuits(), method=st.sampled_from(["shallow", "deep"]), eps=st.sampled_from([1.0, 0.1]))
def test_approximations_of_many_circuits(circuit, method, eps):
    family = CircuitFamily(circuit)
    net = build(family, eps, method)
    x, z = points(family, 20, 0)
    values = as_exact(net(torch.from_numpy(x), torch.from_numpy(z)).numpy())
    exact = np.array([family.exact(a, b) for a, b in zip(x, z, strict=True)])
    assert np.abs(values - exact).max() <= net.guaranteed_error + net.rounding_error
    assert net.guaranteed_error <= eps
