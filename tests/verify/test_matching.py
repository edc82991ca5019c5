"""Matching hidden neurons to the task network's units: planted permutations are found, strangers are not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions import build
from refusals import assert_refused
from theory import Hyperteacher, Words
from verify.foreign import load_trained
from verify.matching import assign, match, units
from verify.training import mlp

TRAINED = Path(__file__).parents[1] / "data" / "trained"


@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 999))
def test_permuted_and_rescaled_units_are_recovered(count, more, seed):
    generator = np.random.default_rng(seed)
    wanted = np.maximum(generator.standard_normal((200, count)), 0)
    order = generator.permutation(count + more)
    values = np.concatenate([wanted * np.exp(generator.standard_normal(count)), generator.random((200, more))], axis=1)
    neuron, r2 = assign(values[:, order], wanted)
    assert r2 == pytest.approx(np.ones(count)) and np.array_equal(order[neuron], np.arange(count))


def test_signs_count_and_missing_neurons_are_said():
    values = np.random.default_rng(0).standard_normal((100, 2))
    assert assign(-values[:, :1], values[:, :1])[1].tolist() == [0.0]  # a neuron that falls where the unit rises
    neuron, r2 = assign(values[:, :1], values[:, ::-1])
    assert neuron.tolist() == [-1, 0] and r2 == pytest.approx([0, 1])
    assert assign(np.ones((100, 2)), values)[1].tolist() == [0.0, 0.0]  # dead neurons


@given(st.integers(2, 6), st.sampled_from(["khot", "discrete"]), st.integers(0, 99))
@settings(max_examples=15)
def test_the_last_layer_of_the_exact_network_is_the_units(modules, weights, seed):
    family = Hyperteacher.sample(modules, 2, 3, (4,), 2, weights, seed)
    z = family.z_domain.sample(200, np.random.default_rng(seed))
    first, last = match(build(family, dtype=torch.float32), family, z)
    assert last.mean > 0.9999 and last.neuron.tolist() == [0, 1, 2, 3] and last.linear > 0.9999
    assert first.mean < 0.9 and last.chance < 0.1


def test_an_untrained_network_matches_little_and_deep_families_have_units_of_each_layer():
    family = Hyperteacher.sample(5, 2, 3, (4, 6), 2, "khot", seed=0)
    z = family.z_domain.sample(200, np.random.default_rng(0))
    found = match(mlp((8, 40, 2), 0), family, z)
    assert [(m.layer, m.units_of) for m in found] == [(0, 0), (0, 1)]
    assert all(m.mean < 0.5 for m in found)
    x = torch.rand(2, 3, 3, dtype=torch.float64)
    first, second = units(family, x, torch.from_numpy(z[:2]))
    assert first.shape == (2, 3, 4) and second.shape == (2, 3, 6)
    assert torch.allclose(second @ torch.from_numpy(family.readout), family(x, torch.from_numpy(z[:2])))


def test_the_stored_network_that_generalises_has_the_units_in_its_last_layer():
    means = {}
    for name in ("generalises", "fails-few-tasks"):
        stored = load_trained(TRAINED / f"{name}.npz")
        generator = np.random.default_rng(0)
        z = stored.family.z_domain.weights(stored.split.held_out.sample(400, generator), generator)
        means[name] = match(stored.network, stored.family, z)[-1].mean
    assert means["generalises"] > 0.8 and means["fails-few-tasks"] < 0.6


def test_refusals():
    assert_refused(lambda: match(mlp((7, 5, 3), 0), Words.sample(3, 2, 2, 0), np.eye(6)), ["needs a hyperteacher"])
