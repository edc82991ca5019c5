"""Other people's networks: the files of the paper's own code give the numbers stored in them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from refusals import assert_refused
from verify.foreign import load_trained
from verify.metrics import scores

TRAINED = Path(__file__).parents[1] / "data" / "trained"
NAMES = ("generalises", "fails-few-tasks")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", ["train", "ood"])
def test_stored_r2_is_found(name, part):
    path = TRAINED / f"{name}.npz"
    stored, found = np.load(path), load_trained(path)
    x, y, z = (torch.from_numpy(stored[f"{key}_{part}"]) for key in "xyz")
    with torch.no_grad():
        values = found.network(torch.cat([z.unsqueeze(1).expand(-1, x.shape[1], -1), x], dim=-1))
    result = scores(values, y)
    assert result.r2_pooled == pytest.approx(float(stored[f"r2_pooled_{part}"]), abs=1e-4)
    assert result.r2_ratios == pytest.approx(float(stored[f"r2_paper_{part}"]), abs=1e-4)
    target = found.family(x.double(), z.double())
    assert (target - y).abs().max() < 1e-5


def test_the_files_hold_teacher_and_split():
    found = load_trained(TRAINED / "fails-few-tasks.npz")
    assert (found.family.modules, found.family.active, found.family.hidden) == (10, 3, (4,))
    assert (found.split.train.count, found.split.held_out.count) == (9, 166)
    assert found.split.conditions.compositional


def test_safetensors_and_plain_files(tmp_path):
    stored = np.load(TRAINED / "generalises.npz")
    weights = {k: np.ascontiguousarray(stored[k]) for k in stored.files if k.startswith(("weight_", "bias_"))}
    save_file(weights, tmp_path / "net.safetensors")
    np.savez(tmp_path / "net.npz", **weights)
    for path in ("net.safetensors", "net.npz"):
        found = load_trained(tmp_path / path)
        assert found.family is None and found.split is None
        assert torch.equal(found.network[0].weight, torch.from_numpy(stored["weight_0"]))


def test_refusals(tmp_path):
    stored = dict(np.load(TRAINED / "generalises.npz"))

    def written(name, **changes):
        np.savez(tmp_path / name, **{k: v for k, v in (stored | changes).items() if v is not None})
        return tmp_path / name

    def assert_file_refused(path, *words):
        assert_refused(lambda: load_trained(path), [str(path), *words])

    assert_file_refused(tmp_path / "none.npz", "no such file")
    assert_file_refused(tmp_path, "no such file")
    (tmp_path / "empty.npz").write_bytes(b"")
    assert_file_refused(tmp_path / "empty.npz", "cannot be read")
    (tmp_path / "text.safetensors").write_text("hello")
    assert_file_refused(tmp_path / "text.safetensors", "cannot be read")
    (tmp_path / "net.pt").write_bytes(b"x")
    assert_file_refused(tmp_path / "net.pt", "unknown kind")
    assert_file_refused(written("a.npz", weight_0=None), "weight_0: not there")
    assert_file_refused(written("b.npz", bias_1=np.ones(3, np.float32)), "bias_1: shape")
    assert_file_refused(written("c.npz", weight_1=np.full((128, 128), np.nan, np.float32)), "NaN")
    assert_file_refused(written("d.npz", supports_train=np.ones((1, 10), np.uint8)), "at most 3 modules")
    assert_file_refused(written("e.npz", supports_train=stored["supports_heldout"]), "in training and held out")
    assert_file_refused(written("f.npz", readout=None), "readout")
