"""ConstructedMLP is an ordinary module, dense or sparse, whose facts can be recounted from its tensors."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from constructions import ConstructedMLP, build, mlp
from constructions.compiler import compile_plan
from constructions.mlp import SparseLinear
from constructions.planning import make_plan
from strategies import TABLE, points, teacher, tensors
from theory import Hyperteacher

DTYPES = [torch.float32, torch.float64]
CASES = [c for c in TABLE if c.name in ("khot", "discrete", "continuous", "two-layers", "words", "everything")]


@cache
def built(case, dtype=torch.float64):
    return build(case.family, 0.25, dtype=dtype)


@pytest.fixture
def sparse(monkeypatch):
    """Every layer that is less than a quarter full is stored sparse."""
    monkeypatch.setattr(mlp, "DENSE_WEIGHTS", 0)


def batch(family, n, dtype, seed=0):
    x, z = tensors(*points(family, n, seed), dtype)
    return x[:, 0], z


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_sequential_is_the_same_network(case, dtype):
    net = built(case, dtype)
    plain = net.as_sequential()
    x, z = batch(case.family, 50, dtype)
    for copy, linear in zip(plain[::2], net.linear, strict=True):
        assert torch.equal(copy.weight, linear.weight) and torch.equal(copy.bias, linear.bias)
    torch.testing.assert_close(plain(torch.cat([z, x], dim=1)), net(x, z))
    assert [type(m) for m in plain] == [nn.Linear, nn.ReLU] * net.depth + [nn.Linear]
    assert {type(m) for m in net.modules()} <= {ConstructedMLP, nn.ModuleList, nn.Linear, SparseLinear}
    assert net(x, z).dtype == dtype
    plain[0].weight.data.zero_()  # a copy: the constructed network is not touched
    assert net.linear[0].weight.abs().max() > 0


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_network_follows_the_target(case):
    net = built(case)
    x, z = tensors(*points(case.family, 200, seed=1))
    gap = (net(x, z) - case.family(x, z)).abs().max().item()
    assert gap <= net.guaranteed_error + net.rounding_error + 1e-9
    assert case.family(x, z).std() > 3 * gap  # not by being constant


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("weights", ["khot", "discrete"])
def test_sparse_layers_are_the_dense_ones(weights, dtype, sparse, monkeypatch):
    family = Hyperteacher.sample(16, 2, 8, (8,), 4, weights, seed=1)
    thin = build(family, dtype=dtype)
    monkeypatch.setattr(mlp, "DENSE_WEIGHTS", 10**9)
    dense = build(family, dtype=dtype)
    kinds = [type(linear) for linear in thin.linear]
    assert SparseLinear in kinds
    assert all(isinstance(linear, nn.Linear) for linear in dense.linear)
    for a, b in zip(thin.linear, dense.linear, strict=True):
        assert torch.equal(a.weight.to_dense(), b.weight)
        assert torch.equal(a.bias, b.bias)
        values = torch.randn(7, b.in_features, dtype=dtype, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(a(values), b(values), rtol=1e-5, atol=1e-5 if dtype == torch.float32 else 1e-12)
    x, z = batch(family, 100, dtype)
    gap = (thin(x, z) - dense(x, z)).abs().max().item()
    assert gap <= thin.rounding_error + dense.rounding_error
    assert thin.size == dense.size
    for a, b in zip(thin.as_sequential()[::2], dense.as_sequential()[::2], strict=True):
        assert torch.equal(a.weight, b.weight) and torch.equal(a.bias, b.bias)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_facts_are_recounted_from_the_tensors(case):
    net = built(case)
    linears = [m for m in net.as_sequential() if isinstance(m, nn.Linear)]
    assert net.neurons == sum(m.out_features for m in linears[:-1])
    assert net.widths == tuple(m.out_features for m in linears[:-1])
    assert net.depth == len(linears) - 1
    assert net.size.parameters == sum(p.numel() for m in linears for p in m.parameters())
    assert net.size.nonzeros == sum(int((p != 0).sum()) for m in linears for p in m.parameters())
    assert net.max_weight == max(float(p.abs().max()) for m in linears for p in m.parameters())
    first = linears[0].in_features
    assert first == case.family.circuit.z.width + case.family.inputs


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_labels_have_an_entry_a_neuron(case):
    net = built(case)
    assert set(net.labels) == {"layer", "gadget", "module", "unit"}
    assert all(len(column) == net.neurons for column in net.labels.values())
    assert tuple(np.bincount(net.labels["layer"])[1:]) == net.widths
    of = case.family.circuit.z.width
    assert net.labels["module"].min() >= -1 and net.labels["module"].max() < of
    known = {"gate", "gate (shared)", "split", "split (shared)", "product", "square", "unit", "maximum"}
    assert set(net.labels["gadget"]) <= known | {"carrier", "accumulator"}


def test_labels_of_the_paper_network():
    net = build(Hyperteacher.sample(16, 3, weights="discrete"))
    gadget = net.labels["gadget"]
    count = {name: int((gadget == name).sum()) for name in set(gadget)}
    assert count["gate"] == 16 * 16 * 6 and count["gate (shared)"] == 16 * 5
    assert count["unit"] == 16 and sum(count.values()) == 1648
    assert sorted(net.labels["unit"][gadget == "unit"]) == list(range(16))
    assert np.bincount(net.labels["module"][gadget == "gate"]).tolist() == [96] * 16
    assert np.bincount(net.labels["module"][gadget == "gate (shared)"]).tolist() == [5] * 16


def test_shapes_broadcast():
    family = teacher(4, 2, (3, 5, 2), "khot")
    net = build(family)
    x, z = batch(family, 6, torch.float64)
    one = net(x, z)
    assert one.shape == (6, 2)
    assert torch.allclose(net(x[2], z[2]), one[2], atol=1e-12)
    samples = torch.stack([x, x + 0.1 * (x < 0)], dim=1)
    assert net(samples, z).shape == (6, 2, 2)
    assert torch.allclose(net(samples, z)[:, 0], one, atol=1e-12)
    assert torch.allclose(net(x, z[0]), net(x, z[0].expand(6, -1)), atol=1e-12)
    for bad in ((x[:, :2], z), (x, z[:, :3])):
        with pytest.raises(ValueError, match=r"need last dimensions \(3, 4\)"):
            net(*bad)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_weights_are_rounded_once(dtype):
    net = build(teacher(4, 2, (3, 5, 2), "discrete", seed=1), dtype=dtype)
    assert net.exact and net.dtype == dtype
    for layer, linear in zip(net.layers, net.linear, strict=True):
        assert linear.weight.dtype == linear.bias.dtype == dtype
        wanted = torch.as_tensor(layer.weight.toarray().T.astype(float), dtype=dtype)
        assert torch.equal(linear.weight, wanted)
        assert not linear.weight.requires_grad and not linear.bias.requires_grad


def test_other_formats_are_refused():
    family = teacher(3, 2, (2, 3, 2), "khot")
    plan = make_plan(family.circuit, "exact", "auto", None)
    arguments = (family.circuit, compile_plan(plan), "exact", "M", "", None, np.zeros(2), None)
    with pytest.raises(ValueError, match=r"dtype: torch.bfloat16 is not supported; use torch.float32 or torch.float64"):
        ConstructedMLP(*arguments, torch.bfloat16)


def test_sequential_is_refused_above_its_limit(monkeypatch):
    net = build(teacher(3, 2, (2, 3, 2), "khot"))
    monkeypatch.setattr(mlp, "SEQUENTIAL_WEIGHTS", net.size.parameters)
    net.as_sequential()
    monkeypatch.setattr(mlp, "SEQUENTIAL_WEIGHTS", net.size.parameters - 1)
    with pytest.raises(ValueError, match=r"as_sequential: .* dense weights; refused above .*use forward") as refusal:
        net.as_sequential()
    assert "\n" not in str(refusal.value)


def test_printed_network_says_what_it_is():
    net = build(teacher(4, 2, (3, 5, 2), "continuous", seed=1), 0.25, "shallow")
    text = repr(net)
    assert f"{net.neurons:,} = " in text and net.formula in text
    assert text.startswith(f"ConstructedMLP(shallow, route {net.route}, 7-{net.widths[0]}-{net.widths[1]}-2)")
    assert f"{net.size.parameters:,}" in text and f"{net.guaranteed_error:.3g}" in text
    assert f"rounding (float64) {net.rounding_error:.3g}" in text


def test_a_network_without_hidden_layers():
    silent = Hyperteacher([np.ones((3, 2, 4))], None, np.zeros((4, 2)), 2, "khot")
    net = build(silent)
    assert (net.neurons, net.depth) == (0, 0)
    x, z = batch(silent, 5, torch.float64)
    assert torch.equal(net(x, z), torch.zeros(5, 2, dtype=torch.float64))
    assert all(len(column) == 0 for column in net.labels.values())
    assert len(net.as_sequential()) == 1
    assert net.guaranteed_error == net.rounding_error == 0
    assert "ConstructedMLP" in repr(net)


def test_large_networks_are_sparse_and_built_in_float64():
    family = Hyperteacher.sample(900, 2, 8, (8,), 4, seed=1)
    net = build(family)
    assert not net.exact
    assert any(isinstance(linear, SparseLinear) for linear in net.linear)
    assert net.neurons == net.formula_neurons == 900 * 8 + 8 + 8
    x, z = tensors(*points(family, 50))
    assert (net(x, z) - family(x, z)).abs().max() <= net.rounding_error + 1e-12


def test_sequential_is_what_is_stored_and_not_what_was_constructed():
    family = Hyperteacher.sample(4, 2, 3, (4,), 2)
    net = build(family)
    row = torch.ones(1, 7, dtype=torch.float64)
    before = net.as_sequential()(row)
    net.linear[-1].bias[0] += 1
    assert torch.allclose(net.as_sequential()(row) - before, torch.tensor([[1.0, 0.0]], dtype=torch.float64))
