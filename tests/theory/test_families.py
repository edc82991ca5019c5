"""Families: the paper's stored teachers, the initialisation, files, words, and everything that is refused."""

import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import hyperteachers, points, tensors, words
from theory.arithmetic import as_exact
from theory.domains import OneHot, Tasks
from theory.families import Hyperteacher, Words
from theory.families.hyperteacher import DISCRETE

F = Fraction
DATA = Path(__file__).parent.parent / "data" / "teachers"
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
        assert np.array_equal(layer, stored[f"modules_{i}"]) and np.array_equal(
            family.biases[i], stored[f"biases_{i}"]
        )
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
    turned = Hyperteacher(
        [family.layers[0].transpose(0, 2, 1)], family.biases, family.readout, 3, "khot", family.scale
    )
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
    assert bias.mean() == pytest.approx(0.25, abs=0.01) and bias.std() == pytest.approx(
        0.5 / math.sqrt(12), rel=0.05
    )
    streams = [v.ravel()[: bias.size] for v in (family.layers[0], bias, family.readout)]  # in the order drawn
    assert np.abs(np.corrcoef(streams) - np.eye(3)).max() < 0.08  # 1 if two of them shared a stream


def test_sampled_arrays_are_float32_values():
    family = Hyperteacher.sample(modules=5, hidden=(3, 4))
    for values in (*family.layers, *family.biases, family.readout):
        assert values.dtype == np.float64 and np.array_equal(values, values.astype(np.float32))


def arrays(family):
    return [a.tobytes() for a in (*family.layers, *family.biases, family.readout)]


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
    assert long.layers[2].shape == (6, 4, 4) and not np.array_equal(
        long.layers[2][:, :, 0], long.layers[1][:, :4, 0]
    )


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


# Files


def same(a, b):
    x, z = points(a, 4)
    return (
        arrays(a) == arrays(b)
        and (a.active, a.weights, float(a.scale), a.levels) == (b.active, b.weights, float(b.scale), b.levels)
        and all(np.array_equal(getattr(a.box, s), getattr(b.box, s)) for s in ("lower", "upper"))
        and a.circuit.z.of.interval == b.circuit.z.of.interval
        and torch.equal(a(*tensors(x, z)), b(*tensors(x, z)))
    )


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@settings(max_examples=25, deadline=None)
@given(family=hyperteachers())
def test_what_is_saved_is_loaded(tmp_path_factory, suffix, family):
    path = tmp_path_factory.mktemp("saved") / f"family{suffix}"
    family.save(path)
    assert same(family, Hyperteacher.load(path)) and same(family, Hyperteacher.load(str(path)))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_box_of_one_input_survives(tmp_path, suffix):
    family = Hyperteacher(
        [np.ones((2, 1, 3))], None, np.ones((3, 2)), 1, "discrete", 0.1, (-0.1, 0.3), ["1/3"]
    )
    family.save(tmp_path / f"f{suffix}")
    assert same(family, Hyperteacher.load(tmp_path / f"f{suffix}"))


def test_teachers_survive_a_change_of_format(tmp_path):
    for name in TEACHERS:
        family = Hyperteacher.load(DATA / f"{name}.npz")
        family.save(tmp_path / f"{name}.safetensors")
        assert same(family, Hyperteacher.load(tmp_path / f"{name}.safetensors"))


def safetensors(path, metadata, **arrays):
    from safetensors.numpy import save_file

    save_file(arrays, path, metadata=metadata)


GOOD = {
    "modules_0": np.ones((4, 3, 5), np.float32), "biases_0": np.ones((4, 5), np.float32),
    "readout": np.ones((5, 2), np.float32), "active": 2, "weights": "khot", "scale": 0.5,
}  # fmt: skip


def test_the_scalar_box_of_the_contract(tmp_path):
    """Metadata box = "lower,upper", as architecture.md has it, no scale, no levels."""
    named = {k: v for k, v in GOOD.items() if isinstance(v, np.ndarray)}
    safetensors(tmp_path / "f.safetensors", {"active": "2", "weights": "khot", "box": "-2,3"}, **named)
    family = Hyperteacher.load(tmp_path / "f.safetensors")
    assert (
        family.box.lower.tolist() == [-2] * 3 and family.box.upper.tolist() == [3] * 3 and family.scale == 1
    )


def without(key):
    return {k: v for k, v in GOOD.items() if k != key}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (without("readout"), ["no array 'readout'", "modules_0"]),
        (without("modules_0"), ["no array 'modules_0'"]),
        (without("biases_0"), ["no array 'biases_0'"]),
        (without("active"), ["no array 'active'"]),
        (without("weights"), ["no array 'weights'"]),
        (GOOD | {"modules_1": np.ones((4, 5, 5))}, ["biases_1"]),
        (GOOD | {"readout": np.ones((3, 2))}, ["readout", "(3, 2)", "(5, outputs)"]),
        (GOOD | {"biases_0": np.ones((4, 3))}, ["biases[0]", "(4, 3)", "(4, 5)"]),
        (GOOD | {"modules_0": np.full((4, 3, 5), np.nan)}, ["modules[0]", "NaN"]),
        (GOOD | {"active": 5}, ["active", "modules = 4", "5"]),
        (GOOD | {"active": 0}, ["active", ">= 1"]),
        (GOOD | {"active": np.array([1, 2])}, ["active"]),
        (GOOD | {"active": "two"}, ["active", "two"]),
        (GOOD | {"weights": "binary"}, ["binary", "khot, discrete, continuous"]),
        (GOOD | {"scale": np.nan}, ["scale", "nan"]),
        (GOOD | {"scale": "much"}, ["scale", "much"]),
        (GOOD | {"weights": "discrete", "levels": ["1", "1/2"]}, ["levels", "increase"]),
        (GOOD | {"weights": "discrete", "levels": ["half"]}, ["levels", "half"]),
        (GOOD | {"weights": "discrete", "levels": ["1/0"]}, ["levels", "1/0"]),
        (GOOD | {"box_lower": np.zeros(2), "box_upper": np.ones(2)}, ["box", "3 numbers"]),
        ({}, ["no array"]),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, values, words):
    path = tmp_path / "bad.npz"
    np.savez(path, **values)
    assert_refused(lambda: Hyperteacher.load(path), [str(path), *words])


def assert_refused(make, words):
    with pytest.raises(ValueError) as error:
        make()
    text = str(error.value)
    assert "\n" not in text and all(word in text for word in words), text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.npz", None, ["no such file"]),
        ("missing.safetensors", None, ["no such file"]),
        ("empty.npz", b"", ["not a readable .npz"]),
        ("empty.safetensors", b"", ["not a readable .safetensors"]),
        ("noise.npz", b"PK\x03\x04 this is no archive" * 10, ["not a readable .npz"]),
        ("text.npz", b"hello", ["not a readable .npz"]),
        ("noise.safetensors", b"\xff" * 100, ["not a readable .safetensors"]),
        ("teacher.txt", b"hello", [".txt", ".npz or .safetensors"]),
        ("teacher", b"hello", ["unknown kind"]),
    ],
)
def test_what_is_no_file_of_a_teacher(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert_refused(lambda: Hyperteacher.load(tmp_path / name), [name, *words])


def test_an_array_is_no_teacher(tmp_path):
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.ones(3))
    assert_refused(lambda: Hyperteacher.load(tmp_path / "array.npz"), ["array.npz", "not a readable .npz"])


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    assert_refused(lambda: Hyperteacher.load(tmp_path / "folder.npz"), ["no such file"])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_truncated_files(tmp_path, suffix, share):
    path = tmp_path / f"cut{suffix}"
    Hyperteacher.sample(modules=4).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert_refused(lambda: Hyperteacher.load(path), [f"not a readable {suffix}"])


def test_a_damaged_archive(tmp_path):
    """Bits flipped inside an array: the archive's checksum tells."""
    path = tmp_path / "damaged.npz"
    Hyperteacher.sample(modules=4).save(path)
    whole = bytearray(path.read_bytes())
    for place in range(1000, 1100):
        whole[place] ^= 0xFF
    path.write_bytes(bytes(whole))
    assert_refused(lambda: Hyperteacher.load(path), ["not a readable .npz"])


def test_pickled_arrays_are_not_loaded(tmp_path):
    np.savez(tmp_path / "f.npz", **GOOD | {"readout": np.array([{"a": 1}], dtype=object)})
    assert_refused(lambda: Hyperteacher.load(tmp_path / "f.npz"), ["f.npz", "not a readable"])


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"active": "2"}, ["no array 'weights'"]),
        ({"active": "2", "weights": "khot", "box": "-1"}, ["box", "lower,upper"]),
        ({"active": "2", "weights": "khot", "box": "-1,0,1"}, ["box", "lower,upper"]),
        ({"active": "2", "weights": "khot", "box": "low,high"}, ["box", "lower,upper"]),
        ({"active": "2", "weights": "khot", "box": "1,-1"}, ["box", "(lower, upper)"]),
        ({"active": "x", "weights": "khot"}, ["active", "x"]),
    ],
)
def test_bad_metadata(tmp_path, metadata, words):
    named = {k: v for k, v in GOOD.items() if isinstance(v, np.ndarray)}
    path = tmp_path / "f.safetensors"
    safetensors(path, metadata, **named)
    assert_refused(lambda: Hyperteacher.load(path), [str(path), *words])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_fractions_are_saved_where_floats_hold_them(tmp_path, suffix):
    def family(value, scale):
        modules = np.full((2, 1, 1), value, dtype=object)
        return Hyperteacher([modules], None, np.ones((1, 1)), 1, "khot", scale)

    family(F(1, 4), F(1, 2)).save(tmp_path / f"f{suffix}")
    loaded = Hyperteacher.load(tmp_path / f"f{suffix}")
    assert loaded.layers[0].tolist() == [[[0.25]]] * 2 and loaded.scale == 0.5
    for bad, name in ((family(F(1, 3), 1), "modules_0"), (family(F(1), F(1, 3)), "scale")):
        assert_refused(lambda bad=bad: bad.save(tmp_path / f"g{suffix}"), [name, "float64"])
        assert not (tmp_path / f"g{suffix}").exists()


def test_saving_elsewhere_is_refused(tmp_path):
    assert_refused(
        lambda: Hyperteacher.sample(modules=3).save(tmp_path / "f.pt"), [".pt", ".npz or .safetensors"]
    )


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


# Words


@settings(max_examples=30, deadline=None)
@given(words(), st.integers(0, 2**32 - 1))
def test_words_are_compositions(family, seed):
    matrices, offsets = as_exact(family.matrices), as_exact(family.offsets)
    x, z = points(family, 4, seed)
    assert isinstance(family.z_domain, OneHot) and family.z_domain.size == family.modules * family.length
    for a, b in zip(x, z, strict=True):
        state = as_exact(a)
        for letter in b.reshape(family.length, family.modules).argmax(axis=1):
            state = state @ matrices[letter] + offsets[letter]
        assert np.array_equal(family.exact(a, b), state)


def test_the_order_of_a_word_matters():
    """Double, then add one; or add one, then double: 2x + 1, 2x + 2. And rows times matrices, not columns."""
    family = Words([[[2.0]], [[1.0]]], [[0.0], [1.0]], length=2)
    assert family.exact([3], [1, 0, 0, 1]).tolist() == [7] and family.exact([3], [0, 1, 1, 0]).tolist() == [8]
    shear = Words([[[1.0, 5.0], [0.0, 1.0]]], length=1)
    assert shear.exact([2, 3], [1]).tolist() == [2, 13]


@settings(max_examples=30, deadline=None)
@given(words(max_modules=3, max_length=3))
def test_there_are_m_to_the_k_words(family):
    assert family.tasks == family.modules**family.length
    every = {word for word in product(range(family.modules), repeat=family.length)}
    assert family.tasks == len(every)
    drawn = family.z_domain.sample(400, np.random.default_rng(0))
    picks = drawn.reshape(-1, family.length, family.modules).argmax(axis=2)
    assert {tuple(p) for p in picks.tolist()} == every


def test_sampled_words():
    family = Words.sample(modules=5, length=3, state=4, seed=3)
    assert (family.modules, family.length, family.active, family.inputs, family.outputs) == (5, 3, 3, 4, 4)
    for matrix in family.matrices:
        assert np.abs(matrix @ matrix.T - np.eye(4)).max() < 1e-14
    assert family.offsets.min() >= -0.5 and family.offsets.max() < 0.5
    assert Words.sample(seed=3).matrices.tobytes() == Words.sample(seed=3).matrices.tobytes()
    assert Words.sample(seed=3).matrices.tobytes() != Words.sample(seed=4).matrices.tobytes()
    assert repr(family) == "Words(5 generators of R^4, length 3, 125 tasks)"


@pytest.mark.parametrize(
    ("arguments", "words_"),
    [
        ({"matrices": np.ones((2, 2, 3))}, ["(2, 2, 3)", "(modules, d, d)"]),
        ({"matrices": np.ones((2, 2))}, ["matrices", "2 dimensions, need 3"]),
        ({"matrices": np.ones((0, 2, 2))}, ["(modules, d, d)"]),
        ({"matrices": np.ones((2, 1, 1)), "offsets": np.ones((1, 1))}, ["offsets", "(1, 1)", "(2, 1)"]),
        ({"matrices": np.ones((2, 1, 1)), "length": 0}, ["length", "0"]),
        ({"matrices": np.full((2, 1, 1), np.nan)}, ["matrices", "NaN"]),
        ({"matrices": np.ones((2, 1, 1)), "offsets": np.full((2, 1), np.inf)}, ["offsets", "infinite"]),
        ({"matrices": np.ones((2, 1, 1)), "box": (1, -1)}, ["box", "(lower, upper)"]),
        ({"matrices": np.ones((2, 2, 2)), "box": (np.zeros(3), np.ones(3))}, ["box", "2 numbers"]),
    ],
)
def test_bad_words_are_refused_in_one_line(arguments, words_):
    assert_refused(lambda: Words(**arguments), words_)


def test_bad_samples_of_words_are_refused():
    assert_refused(lambda: Words.sample(modules=0), ["0 generators", "at least 1"])
    assert_refused(lambda: Words.sample(seed=-1), ["seed", "-1"])
