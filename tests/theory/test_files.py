"""Files of hyperteachers: what is saved is loaded, and what cannot be used is refused in one line."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from refusals import assert_refused
from strategies import DATA, arrays, hyperteachers, points, tensors
from theory.families import Hyperteacher

F = Fraction


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
    family = Hyperteacher([np.ones((2, 1, 3))], None, np.ones((3, 2)), 1, "discrete", 0.1, (-0.1, 0.3), ["1/3"])
    family.save(tmp_path / f"f{suffix}")
    assert same(family, Hyperteacher.load(tmp_path / f"f{suffix}"))


def test_teachers_survive_a_change_of_format(tmp_path):
    for path in sorted(DATA.glob("*.npz")):
        family = Hyperteacher.load(path)
        family.save(tmp_path / f"{path.stem}.safetensors")
        assert same(family, Hyperteacher.load(tmp_path / f"{path.stem}.safetensors"))


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
    assert family.box.lower.tolist() == [-2] * 3 and family.box.upper.tolist() == [3] * 3 and family.scale == 1


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
    assert_refused(lambda: Hyperteacher.sample(modules=3).save(tmp_path / "f.pt"), [".pt", ".npz or .safetensors"])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_the_layout_in_memory_does_not_matter(tmp_path, suffix):
    """safetensors writes the memory as it lies: transposed arrays were stored as other numbers."""
    generator = np.random.default_rng(0)
    modules, readout = generator.standard_normal((4, 3, 2)).transpose(2, 1, 0), np.asfortranarray(np.eye(4, 3))
    family = Hyperteacher([modules], None, readout, 1)
    family.save(tmp_path / f"t{suffix}")
    found = Hyperteacher.load(tmp_path / f"t{suffix}")
    assert np.array_equal(found.layers[0], modules) and np.array_equal(found.readout, readout)
