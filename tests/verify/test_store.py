"""The table of results: keyed by the configuration, safe against kills, damage and bad folders."""

import os
import sqlite3
import subprocess
import sys

import pytest
import torch

from refusals import assert_refused
from verify.store import Store, key_of, network_of, tensors_of
from verify.training import mlp
from verify.version import version


def test_rows_are_kept_by_configuration(tmp_path):
    store = Store(tmp_path / "a" / "b")
    config = {"seed": 1, "widths": [3, 4], "rate": 1e-3}
    assert store.get(config) is None
    store.put("run", config, {"r2": 0.5, "none": None})
    assert store.get({"rate": 0.001, "widths": [3, 4], "seed": 1}) == {"r2": 0.5, "none": None}
    assert store.get(config | {"seed": 2}) is None
    store.put("run", config, {"r2": 0.75})
    store.put("other", {"x": 1}, {})
    assert Store(tmp_path / "a" / "b").rows("run") == [(config, {"r2": 0.75})]
    assert len(store.rows()) == 2
    assert key_of(config) != key_of(config | {"seed": 2})
    with pytest.raises(ValueError):
        store.put("run", config, {"r2": float("nan")})
    assert store.get(config) == {"r2": 0.75}
    with sqlite3.connect(tmp_path / "a" / "b" / "runs.sqlite") as connection:
        assert {row[0] for row in connection.execute("SELECT version FROM runs")} == {version()}


def test_networks_come_back_bit_for_bit(tmp_path, capfd):
    store, network = Store(tmp_path), mlp((3, 5, 4, 2), 1)
    assert store.get_network({"a": 1}) is None
    store.put_network({"a": 1}, network)
    found = store.get_network({"a": 1})
    x = torch.randn(6, 3)
    assert torch.equal(found(x), network(x)) and [type(m) for m in found] == [type(m) for m in network]
    (path,) = store.networks.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:50])
    assert store.get_network({"a": 1}) is None  # damaged: trained again
    message = capfd.readouterr().err
    assert "is not used" in message and message.count("\n") == 1


def test_two_processes_write_to_one_folder(tmp_path):
    script = (
        "import sys; from verify.store import Store; s = Store(sys.argv[1])\n"
        "for i in range(40): s.put('run', {'who': sys.argv[2], 'i': i}, {'i': i})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), who]) for who in "ab"]
    assert [w.wait() for w in writers] == [0, 0]
    assert len(Store(tmp_path).rows("run")) == 80


def test_refusals(tmp_path):
    (tmp_path / "file").write_text("x")
    assert_refused(lambda: Store(tmp_path / "file"), ["is no folder"])
    assert_refused(lambda: Store(tmp_path / "file" / "below"), ["cannot be written"])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "runs.sqlite").write_text("this is not a database, it is text of some length" * 40)
    assert_refused(lambda: Store(tmp_path / "bad"), ["not usable"])
    store = Store(tmp_path / "good")
    store.put("run", {"a": 1}, {"b": 2})
    with sqlite3.connect(tmp_path / "good" / "runs.sqlite") as connection:
        connection.execute("UPDATE runs SET row = '{\"b\": '")
    assert_refused(lambda: store.get({"a": 1}), ["not usable"])
    store.networks.rmdir()
    assert_refused(lambda: store.put_network({"a": 1}, mlp((2, 3, 1), 0)), ["cannot be written"])
    assert_refused(lambda: store.put_network({"a": 1}, torch.nn.Tanh()), ["Linear"])
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "shut").mkdir(mode=0o500)
        assert_refused(lambda: Store(tmp_path / "shut" / "x"), ["cannot be written"])


def test_networks_of_tensors():
    tensors = tensors_of(mlp((3, 5, 2), 0))
    assert [m.weight.shape[0] for m in network_of(tensors)[::2]] == [5, 2]
    cases = {
        "weight_0: not there": {},
        "bias_1: not there": {k: v for k, v in tensors.items() if k != "bias_1"},
        "weight_1: shape": tensors | {"weight_1": torch.ones(2, 4)},
        "bias_0: shape": tensors | {"bias_0": torch.ones(4)},
        "weight_0: shape": tensors | {"weight_0": torch.ones(3)},
        "weight_0: holds NaN": tensors | {"weight_0": torch.full((5, 3), torch.nan)},
        "bias_0: holds": tensors | {"bias_0": torch.ones(5, dtype=torch.int64)},
        "weight_2: not there, though weight_3": tensors | {"weight_3": torch.ones(2, 2)},
    }
    for words, wrong in cases.items():
        assert_refused(lambda w=wrong: network_of(w), [words])
