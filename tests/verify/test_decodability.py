"""Claim C14 on constructed networks: what the layers of an exact network show of z, and what they need not show.

In Fractions wherever something is said to be equal.
"""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from constructions import build
from replaying import trace
from strategies import hyperteachers, points
from theory import Hyperteacher
from theory.arithmetic import as_exact
from theory.identifiability import decodable_share
from theory.ranks import reduce_columns
from verify.activations import activations


def one_input_a_module(modules: int, active: int, hidden: int) -> Hyperteacher:
    """Module m reads x_m alone, with the weight h + 1 into unit h: f = ReLU(sum_{m in S} x_m) (1 + .. + H)."""
    theta = np.zeros((modules, modules, hidden))
    theta[np.arange(modules), np.arange(modules)] = np.arange(1.0, hidden + 1)
    return Hyperteacher([theta], None, np.ones((hidden, 1)), active)


def layers_of(family: Hyperteacher, x: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    """Post-activations of the exact network in Fractions: a list of (tasks, width)."""
    net = build(family)
    traces = [trace(net, as_exact(row)) for row in np.concatenate([z, x], axis=1)]
    return [np.array([values for _, values in layer], dtype=object) for layer in zip(*traces, strict=True)]


def affine_in(layer: np.ndarray, z: np.ndarray) -> bool:
    """Whether z is an affine function of the layer on these rows, by exact elimination."""
    table = np.concatenate([np.ones((len(layer), 1), dtype=int), as_exact(layer)], axis=1)
    return len(reduce_columns(np.concatenate([table, z], axis=1))[0]) == len(reduce_columns(table)[0])


def data(family: Hyperteacher, n: int, shared: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Tasks z, and an x inside the box for each of them, or one for all."""
    generator = np.random.default_rng(0)
    z = family.z_domain.sample(n, generator)
    return np.broadcast_to(family.x_domain.sample(1 if shared else n, generator), (n, family.inputs)), z


@pytest.mark.parametrize(("modules", "hidden"), [(3, 3), (4, 6), (6, 2)])
def test_the_first_hidden_layer_gives_z_where_it_carries_it_or_x_is_shared(modules, hidden):
    """With few units their sums are carried in place of z; then one x must serve all tasks, and a fresh one fails."""
    family = one_input_a_module(modules, 2, hidden)
    for shared in (False, True):
        x, z = data(family, 60, shared)
        first = layers_of(family, x, z)[0]
        assert affine_in(first, z) == (shared or modules <= hidden)
        if modules <= hidden:
            assert all((first == z[:, [m]]).all(axis=0).any() for m in range(modules))


def test_the_last_hidden_layer_has_one_law_for_all_supports_of_a_size():
    """The network is right on every task, and its last hidden layer, for a fresh x, independent of the support."""
    family = one_input_a_module(3, 2, 2)
    cube = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))
    functions = set()
    for size in (1, 2):
        laws = set()
        for support in combinations(range(3), size):
            z = np.zeros((len(cube), 3))
            z[:, list(support)] = 1
            *_, last, output = layers_of(family, cube, z)
            assert all(list(y) == list(family.exact(*point)) for y, *point in zip(output, cube, z, strict=True))
            functions.add(tuple(output[:, 0]))
            laws.add(tuple(map(tuple, sorted(last.tolist()))))
        assert len(laws) == 1
    assert len(functions) == 3 + 3  # different tasks all the same


def test_other_last_layers_do_tell_supports_apart():
    family = Hyperteacher([np.arange(1.0, 7.0).reshape(3, 2, 1)], None, np.ones((1, 1)), 1)
    cube = np.array(list(product((-1.0, 0.0, 1.0), repeat=2)))
    laws = {tuple(sorted(layers_of(family, cube, np.tile(z, (9, 1)))[-2][:, 0])) for z in np.eye(3)}
    assert len(laws) == 3


@pytest.mark.parametrize("wide", [False, True])
def test_a_gate_decodes_as_the_formula_says(wide):
    """R2 of z_m from one gate, over all tasks and a grid of x: (1 - q)/(1 - q + v/A^2), and never below the floor."""
    theta = np.zeros((4, 2, 1))
    theta[:, 0], theta[:, 1] = 1.0, 0.5 if wide else 0.0
    family = Hyperteacher([theta], None, np.ones((1, 1)), 2)
    net = build(family, dtype=torch.float64)
    grid = (np.arange(64) + 0.5) / 32 - 1
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    z = np.zeros((10, 4))
    for row, support in zip(z, family.z_domain.supports, strict=True):
        row[list(support)] = 1
    rows = np.concatenate([np.repeat(z, len(x), axis=0), np.tile(x, (10, 1))], axis=1)
    first = activations(net, torch.from_numpy(rows))[0].post.numpy()
    gates = np.flatnonzero(
        (net.labels["layer"] == 1) & (net.labels["module"] == 0) & (net.labels["gadget"] != "carrier")
    )
    q = z[:, 0].mean()
    form = x @ theta[0, :, 0]
    wanted = (1 - q) / (1 - q + form.var() / np.abs(theta[0]).sum() ** 2)
    r2 = np.corrcoef(first[:, gates[0]], rows[:, 0])[0, 1] ** 2
    assert r2 == pytest.approx(wanted) and r2 > (1 - q) / (4 / 3 - q) - 1e-12
    assert wide or r2 == pytest.approx((1 - q) / (4 / 3 - q), rel=1e-3)  # one input: the floor is attained


def test_a_narrow_layer_cannot_give_more_than_its_share():
    """Least squares on very many rows, for the exact network's last hidden layer and one x for all tasks."""
    family = Hyperteacher.sample(8, 2, 4, (3,), 2, "khot", seed=0)
    generator = np.random.default_rng(0)
    z = family.z_domain.weights(family.z_domain.supports.unrank(np.arange(36)), generator)
    for x in family.x_domain.sample(5, generator):
        last = layers_of(family, np.tile(x, (36, 1)), z)[1].astype(float)
        table = np.concatenate([np.ones((36, 1)), last], axis=1)
        left = z - table @ np.linalg.lstsq(table, z, rcond=None)[0]
        r2 = 1 - (left**2).sum() / ((z - z.mean(axis=0)) ** 2).sum()
        assert r2 <= float(decodable_share(last.shape[1], family.z_domain)) + 1e-9 < 0.5


def passing_z_on(net: nn.Sequential, modules: int) -> nn.Sequential:
    """The same outputs, and M neurons more in every hidden layer that hold z; rows are [z, x]."""
    linear = [m for m in net if isinstance(m, nn.Linear)]
    wider: list[nn.Module] = []
    for i, old in enumerate(linear):
        last, extra = i + 1 == len(linear), 0 if i == 0 else modules
        new = nn.Linear(extra + old.in_features, old.out_features + (0 if last else modules), dtype=old.weight.dtype)
        with torch.no_grad():
            new.weight.zero_(), new.bias.zero_()
            new.weight[-old.out_features :, extra:] = old.weight
            new.bias[-old.out_features :] = old.bias
            if not last:
                new.weight[:modules, :modules] = torch.eye(modules)
        wider += [new, nn.ReLU()]
    return nn.Sequential(*wider[:-1])


@given(hyperteachers(layers=1), st.integers(0, 99), st.lists(st.integers(1, 5), min_size=1, max_size=3))
@settings(max_examples=30)
def test_any_network_can_show_z_in_every_layer(family, seed, widths):
    """Untrained, so right on nothing; its twin has the same outputs and decodes z exactly in every hidden layer."""
    torch.manual_seed(seed)
    sizes = [family.modules + family.inputs, *widths, family.outputs]
    parts = [(nn.Linear(a, b, dtype=torch.float64), nn.ReLU()) for a, b in pairwise(sizes)]
    net = nn.Sequential(*[m for pair in parts for m in pair][:-1])
    x, z = points(family, 8, seed)
    rows = torch.from_numpy(np.concatenate([z, x], axis=1))
    plain, shown = activations(net, rows), activations(passing_z_on(net, family.modules), rows)
    assert torch.allclose(plain[-1].post, shown[-1].post)
    for layer in shown[:-1]:
        assert np.array_equal(layer.post[:, : family.modules].numpy(), z)
        assert affine_in(layer.post.numpy(), z)


def test_affinity_is_decided_exactly():
    z = np.array([[0.0], [1.0], [0.5]])
    assert affine_in(np.array([[1.0], [3.0], [2.0]]), z)
    assert not affine_in(np.array([[1.0], [3.0], [2.0 + 2.0**-40]]), z)
