"""Hyperteachers: the paper's stored teachers, the initialisation, and what the constructor refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from refusals import assert_refused
from strategies import DATA, arrays
from theory.arithmetic import as_exact
from theory.domains import Tasks
from theory.families import Hyperteacher
from theory.families.hyperteacher import DISCRETE

F = Fraction
TEACHERS = {
    "paper-discrete": ((16, 16, 16), 16, 3, "discrete"),
    "small-khot": ((4, 4, 4), 10, 3, "khot"),
    "small-continuous": ((4, 4, 4), 10, 3, "continuous"),
    "deep-khot": (None, 8, 2, "khot"),
}


# The paper's teachers


@pytest.mark.parametrize("name", TEACHERS)
def test_files_are_read_as_they_are(name):
    sizes, modules, active, weights = TEACHERS[name]
    family, stored = Hyperteacher.load(DATA / f"{name}.npz"), np.load(DATA / f"{name}.npz")
    assert (family.modules, family.active, family.weights) == (modules, active, weights)
    if sizes:
        assert (family.inputs, *family.hidden, family.outputs) == sizes
    assert len(family.layers) == (2 if name == "deep-khot" else 1)
    assert family.scale == float(stored["scale"]) == pytest.approx(1 / math.sqrt(active), rel=1e-7)
    for i, layer in enumerate(family.layers):
        assert np.array_equal(layer, stored[f"modules_{i}"]) and np.array_equal(family.biases[i], stored[f"biases_{i}"])
    assert np.array_equal(family.readout, stored["readout"])
    assert family.tasks == sum(math.comb(modules, k) for k in range(1, active + 1))


@pytest.mark.parametrize("split", ["train", "ood"])
@pytest.mark.parametrize("name", TEACHERS)
def test_stored_outputs_are_reproduced(name, split):
    family, stored = Hyperteacher.load(DATA / f"{name}.npz"), np.load(DATA / f"{name}.npz")
    x, y, z = (torch.as_tensor(stored[f"{k}_{split}"]).double() for k in "xyz")
    assert family.x_domain.contains(x.reshape(-1, family.inputs).numpy()).all()
    assert family.z_domain.contains(z.numpy()).all()
    found = family(x, z)
    assert found.shape == y.shape
    assert (found - y).abs().max() <= 3e-6
    assert (family(x.float(), z.float()).double() - y).abs().max() <= 6e-6
    first = np.array([float(v) for v in family.exact(x[0, 0].numpy(), z[0].numpy())])
    assert np.abs(first - found[0, 0].numpy()).max() <= 1e-12


def test_stored_outputs_notice_a_transposed_module():
    """Sizes are equal in these files: the test above is worth something only if this difference is seen."""
    family, stored = Hyperteacher.load(DATA / "small-khot.npz"), np.load(DATA / "small-khot.npz")
    turned = Hyperteacher([family.layers[0].transpose(0, 2, 1)], family.biases, family.readout, 3, "khot", family.scale)
    x, y, z = (torch.as_tensor(stored[f"{k}_train"]).double() for k in "xyz")
    assert (turned(x, z) - y).abs().max() > 0.1


def test_the_default_grid_is_that_of_the_files():
    assert [float(v) for v in DISCRETE] == [float(np.float32(v / 10)) for v in range(5, 11)]
    assert DISCRETE[1] != F(3, 5)
    stored = np.load(DATA / "paper-discrete.npz")
    z = np.unique(np.concatenate([stored["z_train"], stored["z_ood"]]))
    assert set(as_exact(z[z > 0])) <= set(DISCRETE)
    continuous = Hyperteacher.load(DATA / "small-continuous.npz")
    assert continuous.levels == (F(1, 2), F(1)) and continuous.z_domain.interval == continuous.levels


# The paper's initialisation


def test_statistics_of_the_initialisation():
    family = Hyperteacher.sample(modules=300, active=3, inputs=25, hidden=(16,), outputs=400, seed=1)
    for values, fan_in in ((family.layers[0], 25), (family.readout, 16)):
        variance = math.sqrt(3) / fan_in
        n = values.size
        assert abs(values.mean()) < 5 * math.sqrt(variance / n)
        assert values.var() == pytest.approx(variance, rel=6 / math.sqrt(n))
        # a standard normal cut at 2 has variance .7737; the values are rescaled to the wanted one
        cut = 2 * math.sqrt(variance / 0.77374130)
        assert 0.98 * cut < np.abs(values).max() <= cut * (1 + 1e-6)
        share = np.mean(np.abs(values) < cut / 2)  # within one sigma: .6827/.9545
        assert share == pytest.approx(0.71523, abs=5 / math.sqrt(n))
    bias = family.biases[0]
    assert bias.min() >= 0 and bias.max() < 0.5 and bias.max() > 0.495
    assert bias.mean() == pytest.approx(0.25, abs=0.01) and bias.std() == pytest.approx(0.5 / math.sqrt(12), rel=0.05)
    streams = [v.ravel()[: bias.size] for v in (family.layers[0], bias, family.readout)]  # in the order drawn
    assert np.abs(np.corrcoef(streams) - np.eye(3)).max() < 0.08  # 1 if two of them shared a stream


def test_sampled_arrays_are_float32_values():
    family = Hyperteacher.sample(modules=5, hidden=(3, 4))
    for values in (*family.layers, *family.biases, family.readout):
        assert values.dtype == np.float64 and np.array_equal(values, values.astype(np.float32))


SIZES = {"modules": 6, "active": 2, "inputs": 3, "hidden": (5, 4), "outputs": 2, "seed": 7}


def test_the_same_seed_gives_the_same_bytes():
    assert arrays(Hyperteacher.sample(**SIZES)) == arrays(Hyperteacher.sample(**SIZES))
    other = arrays(Hyperteacher.sample(**SIZES | {"seed": 8}))
    assert all(a != b for a, b in zip(arrays(Hyperteacher.sample(**SIZES)), other, strict=True))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"outputs": 9}, [0, 1, 2, 3]),
        ({"inputs": 4}, [1, 2, 3, 4]),
        ({"hidden": (5, 7)}, [0, 2]),
        ({"weights": "continuous"}, [0, 1, 2, 3, 4]),
        ({"active": 3}, [0, 1, 2, 3, 4]),
    ],
)
def test_every_array_has_a_stream_of_its_own(change, kept):
    """Arrays: modules 0 and 1, biases 0 and 1, readout. Changing one size leaves the others byte for byte."""
    before, after = arrays(Hyperteacher.sample(**SIZES)), arrays(Hyperteacher.sample(**SIZES | change))
    assert [i for i in range(5) if before[i] == after[i]] == kept


def test_more_layers_keep_the_first_ones():
    short, long = Hyperteacher.sample(**SIZES), Hyperteacher.sample(**SIZES | {"hidden": (5, 4, 4)})
    assert [a.tobytes() for a in short.layers] == [a.tobytes() for a in long.layers[:2]]
    assert long.layers[2].shape == (6, 4, 4) and not np.array_equal(long.layers[2][:, :, 0], long.layers[1][:, :4, 0])


def test_defaults():
    family = Hyperteacher.sample()
    assert repr(family) == "Hyperteacher(16-16-16, 3 of 16 modules, khot, 696 supports)"
    assert family.scale == 1 / math.sqrt(3) and Hyperteacher.sample(scale=2.0).scale == 2
    assert family.box.lower.tolist() == [-1] * 16 and family.box.upper.tolist() == [1] * 16
    plain = Hyperteacher([np.ones((3, 2, 4))], None, np.ones((4, 5)), 2)
    assert (plain.scale, plain.weights, plain.levels) == (1, "khot", (F(1),)) and not plain.biases[0].any()
    assert (plain.inputs, plain.hidden, plain.outputs, plain.tasks) == (2, (4,), 5, 6)
    assert isinstance(plain.z_domain, Tasks) and plain.z_domain.levels == (F(1),)


def test_a_family_of_five_thousand_million_supports_costs_nothing():
    assert Hyperteacher.sample(modules=64, active=8, inputs=2, hidden=(2,), outputs=1).tasks > 5 * 10**9


def test_levels_are_taken_exactly():
    def levels(*values, weights="discrete"):
        return Hyperteacher([np.ones((2, 1, 1))], None, np.ones((1, 1)), 1, weights, levels=values).levels

    assert levels("1/3", 0.5, 1) == (F(1, 3), F(1, 2), F(1))
    assert levels(np.float32(0.6)) == (F(float(np.float32(0.6))),) and levels(F(3, 5)) == (F(3, 5),)
    assert levels("1/3", "2/5", weights="continuous") == (F(1, 3), F(2, 5))
    assert levels() == DISCRETE


# What constructors refuse


def make(**change):
    good = {"modules": [np.ones((4, 3, 5))], "biases": None, "readout": np.ones((5, 2)), "active": 2}
    return Hyperteacher(**good | change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modules": []}, ["modules", "at least one"]),
        ({"modules": [np.ones((4, 3))]}, ["modules[0]", "2 dimensions, need 3"]),
        ({"modules": [np.ones((4, 3, 5)), np.ones((4, 3, 5))]}, ["modules[1]", "(4, 3, 5)", "(4, 5, 5)"]),
        ({"modules": [np.ones((4, 3, 5)), np.ones((3, 5, 5))]}, ["modules[1]", "(3, 5, 5)", "(4, 5, 5)"]),
        ({"modules": [np.full((4, 3, 5), np.inf)]}, ["modules[0]", "infinite"]),
        ({"modules": [np.ones((4, 0, 5))]}, ["at least 1"]),
        ({"modules": [np.ones((0, 3, 5))]}, ["at least 1"]),
        ({"biases": [np.ones((4, 3))]}, ["biases[0]", "(4, 3)", "(4, 5)"]),
        ({"biases": [np.ones((4, 5))] * 2}, ["biases", "2 arrays", "1 modulated"]),
        ({"biases": [np.full((4, 5), np.nan)]}, ["biases[0]", "NaN"]),
        ({"readout": np.ones(5)}, ["readout", "1 dimensions, need 2"]),
        ({"readout": np.ones((2, 5))}, ["readout", "(2, 5)", "(5, outputs)"]),
        ({"readout": np.full((5, 2), np.nan)}, ["readout", "NaN"]),
        ({"readout": np.ones((5, 0))}, ["at least 1"]),
        ({"active": 5}, ["active", "modules = 4", "5"]),
        ({"active": 0}, ["active", ">= 1", "0"]),
        ({"weights": "dense"}, ["weights", "'dense'", "khot, discrete, continuous"]),
        ({"scale": math.inf}, ["scale", "inf"]),
        ({"scale": math.nan}, ["scale", "nan"]),
        ({"levels": [F(1, 2)]}, ["levels", "khot", "discrete"]),
        ({"weights": "continuous", "levels": [1]}, ["levels", "(lo, hi)", "1 values"]),
        ({"weights": "continuous", "levels": [1, "1/2"]}, ["levels", "increase"]),
        ({"weights": "discrete", "levels": [0.5, 0.5]}, ["levels", "increase", "0.5"]),
        ({"weights": "discrete", "levels": [-0.5, 0.5]}, ["levels", "above 0"]),
        ({"weights": "discrete", "levels": [math.nan]}, ["levels"]),
        ({"weights": "discrete", "levels": [math.inf]}, ["levels"]),
        ({"box": (np.zeros(2), np.ones(2))}, ["box", "3 numbers"]),
        ({"box": (1, -1)}, ["box", "(lower, upper)"]),
        ({"box": (-math.inf, 1)}, ["box", "finite"]),
        ({"box": (0, math.nan)}, ["box", "finite"]),
        ({"box": ("low", "high")}, ["box", "(lower, upper)"]),
        ({"box": (F(-1, 3), F(1))}, ["box", "float64"]),
    ],
)
def test_bad_hyperteachers_are_refused_in_one_line(change, words):
    make()  # good without the change
    assert_refused(lambda: make(**change), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modules": 0}, ["modules", "0", "at least 1"]),
        ({"inputs": 0}, ["inputs", "0", "at least 1"]),
        ({"hidden": (3, 0)}, ["hidden", "0", "at least 1"]),
        ({"hidden": ()}, ["hidden", "at least one"]),
        ({"outputs": -1}, ["outputs", "-1"]),
        ({"active": 17}, ["active", "modules = 16", "17"]),
        ({"active": 0}, ["active", ">= 1"]),
        ({"weights": "x"}, ["weights", "'x'"]),
        ({"seed": -1}, ["seed", "-1"]),
    ],
)
def test_bad_samples_are_refused_in_one_line(change, words):
    assert_refused(lambda: Hyperteacher.sample(**change), words)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"active": 1.5}, "active"),
        ({"modules": [np.ones((2, 3, 4)) + 1j]}, "complex"),
        ({"modules": [np.full((2, 3, 4), "1.5")]}, "real numbers"),
        ({"modules": [np.full((2, 3, 4), 2**63 + 1, dtype=np.uint64)]}, "float64"),
        ({"modules": [np.full((2, 3, 4), 1e300)]}, "2^200"),
        ({"readout": np.full((4, 2), 1e-300)}, "2^200"),
        ({"scale": 1e308}, "scale"),
        ({"scale": "2a"}, "scale"),
    ],
)
def test_numbers_that_no_bound_could_be_computed_with(change, word):
    arguments = {"modules": [np.ones((2, 3, 4))], "biases": None, "readout": np.ones((4, 2)), "active": 1}
    assert_refused(lambda: Hyperteacher(**arguments | change), [word])


def test_a_task_off_the_grid_has_no_exact_value():
    family = Hyperteacher.sample(3, 2, 2, (3,), 1)
    assert_refused(lambda: family.exact(np.zeros(2), np.array([0.5, 0, 0])), ["near no level", "0, 1"])
    assert_refused(lambda: Hyperteacher.sample(modules=10**12), ["smaller sizes"])
