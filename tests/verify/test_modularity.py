"""Specialisation: the exact construction is the ground truth; what must not matter does not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from constructions import build
from refusals import assert_refused
from theory import Hyperteacher, Words
from verify import modularity as module
from verify.activations import activations
from verify.modularity import modularity
from verify.training import mlp

FAMILY = Hyperteacher.sample(6, 2, 4, (5,), 3, "khot", seed=0)


@given(st.integers(3, 7), st.integers(1, 2), st.sampled_from(["khot", "discrete"]), st.integers(0, 99))
@settings(max_examples=20)
def test_gates_of_the_exact_construction_serve_one_module(modules, active, weights, seed):
    family = Hyperteacher.sample(modules, active, 3, (4,), 2, weights, seed)
    net = build(family, dtype=torch.float32)
    first, *_ = modularity(net, family, tasks=200)
    labels = net.labels
    mine = labels["layer"] == 1
    gates = np.char.startswith(labels["gadget"][mine].astype(str), "gate") & (labels["module"][mine] >= 0)
    alive = gates & (first.weight > 0)
    assert alive.sum() >= 0.8 * gates.sum()
    # A gate that acts on hardly any of these tasks may not act on the half on which its module is chosen.
    sure = alive & (first.weight > 1e-3)
    assert sure.any() and first.score[sure] == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(first.module[sure], labels["module"][mine][sure])
    rows, columns = np.flatnonzero(alive), labels["module"][mine][alive]
    assert (first.without_module[rows, columns] <= 1e-4 * first.with_module[rows, columns]).all()
    assert 0 <= first.mean <= 1 and first.modules == len(set(columns.tolist()))


def test_units_and_rotated_gates_serve_many():
    net = build(FAMILY, dtype=torch.float32).as_sequential()
    first, second = modularity(net, FAMILY)
    assert second.mean < 0.35 < first.mean and second.modules <= 1
    rows = torch.rand(4000, 10)
    values = activations(net, rows)[0].post
    generator = torch.Generator().manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(values.shape[1], values.shape[1], generator=generator))
    mixed = nn.Sequential(net[0], net[1], nn.Linear(*q.shape), nn.ReLU(), nn.Linear(len(q), 3))
    with torch.no_grad():
        mixed[2].weight.copy_(q)
        mixed[2].bias.fill_(100.0)  # every neuron is on: the layer is a rotation of the gates
        mixed[4].weight.normal_(generator=generator)
    rotated = modularity(mixed, FAMILY)[1]
    assert rotated.mean < 0.1 and rotated.modules == 0


def test_chance_scores_nothing():
    """Effects that have nothing to do with the modules, heavy-tailed: the choice of the best module brings no bias."""
    generator = np.random.default_rng(0)
    on = np.zeros((600, 10), dtype=bool)
    for row in on:
        row[generator.choice(10, 3, replace=False)] = True
    effect = generator.lognormal(0, 1.5, (200, 600))
    found = module._layer(0, effect, on)
    assert found.mean < 0.06  # cut at 0, so not 0 itself
    shares = module._shares(effect, on).max(axis=1)
    assert ((shares - 0.3) / 0.7).mean() > 0.05  # chosen and measured on the same tasks it would be biased


def test_planted_specialists_are_found():
    on = np.eye(4, dtype=bool)[np.arange(400) % 4]
    effect = np.stack([on[:, 2] * 1.0, (on[:, 0] | on[:, 1]) * 1.0, np.ones(400), np.zeros(400)])
    found = module._layer(0, effect, on)
    assert found.score == pytest.approx([1.0, (0.5 - 0.25) / 0.75, 0.0, 0.0])
    assert found.module[0] == 2 and found.dead == 1
    assert found.weight == pytest.approx(np.array([100, 200, 400, 0]) / 700)
    assert found.with_module[0].tolist() == [0, 0, 1, 0] and found.without_module[0, 2] == 0
    dead = module._layer(0, np.zeros((2, 400)), on)
    assert dead.mean is None and dead.dead == 2 and dead.modules == 0


@given(st.integers(0, 99))
@settings(max_examples=10)
def test_order_and_scales_do_not_matter(seed):
    net = mlp((10, 12, 9, 3), seed)
    generator = torch.Generator().manual_seed(seed)
    order, scale = torch.randperm(12, generator=generator), torch.exp(torch.randn(12, generator=generator))
    other = mlp((10, 12, 9, 3), seed)
    with torch.no_grad():
        other[0].weight.copy_(net[0].weight[order] * scale[:, None])
        other[0].bias.copy_(net[0].bias[order] * scale)
        other[2].weight.copy_(net[2].weight[:, order] / scale)
        other[4].weight.mul_(3)
    for a, b, same in zip(modularity(net, FAMILY), modularity(other, FAMILY), (order, torch.arange(9)), strict=True):
        assert b.score == pytest.approx(a.score[same], abs=1e-3)
        assert b.mean == pytest.approx(a.mean, abs=1e-3)
        assert b.with_module == pytest.approx(3 * a.with_module[same], rel=1e-3, abs=1e-6)


def test_effects_are_those_of_an_ablation_by_hand(monkeypatch):
    net = mlp((10, 7, 6, 5, 3), 0)
    rows = torch.rand(12, 10)
    layers = activations(net, rows)
    monkeypatch.setattr(module, "MEMORY", 1000)  # in many blocks
    for layer in range(3):
        found = module._effects(layers[layer].post, layers[layer + 1].pre, module.require_stack(net), layer)
        for neuron in range(found.shape[0]):
            values = layers[layer].post.clone()
            values[:, neuron] = 0
            with torch.no_grad():
                wanted = (net[2 * layer + 2 :](values) - layers[-1].post).square().sum(dim=1)
            assert found[neuron] == pytest.approx(wanted.numpy(), rel=1e-3, abs=1e-9)


def test_large_layers_use_fewer_tasks_and_say_so(monkeypatch):
    monkeypatch.setattr(module, "OPERATIONS", 1e4)
    assert modularity(mlp((10, 40, 40, 3), 0), FAMILY)[0].tasks == 64


def test_refusals():
    all_on = Hyperteacher.sample(3, 3, 4, (5,), 3, "khot", seed=0)
    assert_refused(lambda: modularity(mlp((7, 5, 3), 0), all_on), ["active < modules"])
    assert_refused(lambda: modularity(mlp((7, 5, 3), 0), Words.sample(3, 2, 2, 0)), ["active < modules"])
    assert_refused(lambda: modularity(nn.Tanh(), FAMILY), ["not a stack"])
