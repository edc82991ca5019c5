"""`kofm check` and `kofm claims`: what they print, what they store, how they refuse, how they end."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import click
import numpy as np
import pytest
import torch

from constructions import METHODS
from theory import Hyperteacher
from verify.cli import checking, documents, main, rows
from verify.cli.group import cli
from verify.version import version

ROOT = Path(__file__).resolve().parents[2]
KOFM = [sys.executable, "-c", "import sys; from verify.cli import main; sys.exit(main())"]
TINY = [
    *("--modules", "2", "--active", "1", "--inputs", "2", "--hidden", "2", "--outputs", "1"),
    *("--points", "1000", "--device", "cpu"),
]
FIELDS = {
    *("family", "modules", "active", "inputs", "hidden", "outputs", "weights", "method", "route", "eps", "tasks"),
    *("neurons", "neurons_formula", "formula", "depth", "parameters", "nonzeros", "max_weight", "guaranteed"),
    *("rounding", "certified", "measured", "measured_exact", "memorise_neurons", "status", "reason", "seconds"),
    *("dtype", "device", "points"),
}


def strict(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def stored(path):
    return strict(Path(path).read_text(encoding="utf-8"))


def start(*arguments, **settings):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*KOFM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **settings
    )


@pytest.fixture
def teacher(tmp_path):
    path = tmp_path / "teacher.npz"
    Hyperteacher.sample(3, 2, 2, (3,), 2, "continuous").save(path)
    return path


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.delenv("KOFM_DEBUG", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # networks this small only wait for one another's threads
    yield
    torch.set_num_threads(threads)


def refused(capfd, arguments, *words, code=2):
    assert main(arguments) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("kofm"), err
    assert "Traceback" not in err and "Usage" not in err
    for word in words:
        assert word in err, err


def test_a_row_has_every_field_and_strict_numbers(tmp_path, capfd):
    path = tmp_path / "out.json"
    assert main(["check", *TINY, "--json", str(path)]) == 0
    out, err = capfd.readouterr()
    document = stored(path)
    assert (document["command"], document["seed"], document["complete"]) == ("kofm check", 0, True)
    assert document["version"] == version()
    assert [(r["weights"], r["method"]) for r in document["rows"]] == [
        ("khot", "exact"),
        ("continuous", "shallow"),
        ("continuous", "deep"),
    ]
    for row in document["rows"]:
        assert set(row) >= FIELDS
        assert row["certified"] is None and row["status"] == "holds"
        assert row["neurons"] == row["neurons_formula"] and isinstance(row["tasks"], int)
        assert row["hidden"] == [2] and row["tasks"] == 2 and row["dtype"] == "float64"
    assert [r["eps"] for r in document["rows"]] == [None, 0.1, 0.1]
    assert [r["memorise_neurons"] for r in document["rows"]] == [4, None, None]
    assert "holds: 3 of 3 rows" in out and "memorise" in out
    assert "3/3" in err and "to go" in err
    assert list(tmp_path.iterdir()) == [path]


def test_json_on_stdout_is_alone_there(capfd):
    assert main(["check", *TINY, "--weights", "khot", "--json", "-"]) == 0
    out, err = capfd.readouterr()
    assert strict(out)["rows"][0]["neurons"] > 0
    assert "1/1" in err


def test_quiet_is_one_line(capfd):
    assert main(["check", *TINY, "--weights", "khot", "--quiet"]) == 0
    assert capfd.readouterr() == ("holds: 1 of 1 rows\n", "")


def test_a_row_for_each_eps_and_exact_networks_are_held_against_it(tmp_path, capfd):
    path = tmp_path / "out.json"
    eps = ["--eps", "1e-1,1e-2,1e-3", "--quiet", "--json", str(path)]
    assert main(["check", *TINY, "--weights", "continuous", "--method", "shallow", "--route", "N", *eps]) == 0
    document = stored(path)
    assert [r["eps"] for r in document["rows"]] == [0.1, 0.01, 0.001]
    assert all(r["guaranteed"] + r["rounding"] <= r["eps"] for r in document["rows"])
    (fit,) = document["fits"]
    assert fit["against"] == "1/sqrt(eps)" and fit["r2"] > 0.99 and fit["kind"] == "measured by regression"
    assert main(["check", *TINY, "--weights", "khot", "--eps", "1e-20,1e-2", "--quiet", "--json", str(path)]) == 3
    below, above = stored(path)["rows"]
    assert (below["status"], above["status"]) == ("unknown", "holds")
    assert below["neurons"] == above["neurons"]


def test_teacher_gets_shallow_and_deep_for_each_eps(teacher, tmp_path):
    path = tmp_path / "out.json"
    search = ["--points", "1000", "--quiet", "--json", str(path)]
    assert main(["check", "--teacher", str(teacher), "--eps", "1e-1,1e-2", "--dtype", "float32", *search]) == 0
    found = [(r["method"], r["eps"], r["dtype"], r["modules"]) for r in stored(path)["rows"]]
    assert found == [(m, e, "float32", 3) for m in ("shallow", "deep") for e in (0.1, 0.01)]


def test_words_and_the_memorising_network(tmp_path):
    path = tmp_path / "out.json"
    end = ["--points", "1000", "--quiet", "--json", str(path)]
    assert main(["check", "--family", "words", "--modules", "3", "--active", "2", *end]) == 0
    (row,) = stored(path)["rows"]
    assert (row["family"], row["tasks"], row["inputs"], row["hidden"]) == ("words", 9, 2, [])
    assert main(["check", *TINY, "--method", "memorise", "--quiet", "--json", str(path)]) == 0
    (row,) = stored(path)["rows"]
    assert (row["method"], row["depth"], row["memorise_neurons"]) == ("memorise", 1, 4)


@pytest.mark.parametrize(
    ("status", "code"), [("holds", 0), ("violated", 1), ("unknown", 3)], ids=["holds", "violated", "unknown"]
)
def test_exit_code_says_the_worst_row(status, code, monkeypatch, capfd):
    honest, seen = rows.check, []

    def judged(*arguments, **settings):
        seen.append(1)
        found = honest(*arguments, **settings)
        first = {"violated": "unknown"}.get(status, "holds")  # violated beats unknown, unknown beats holds
        return dataclasses.replace(found, status=status if len(seen) > 1 else first, reason="for this test")

    monkeypatch.setattr(rows, "check", judged)
    two = [*TINY, "--modules", "2,3", "--weights", "khot"]
    assert main(["check", *two]) == code
    out = capfd.readouterr().out
    assert f"{status}: " in out.splitlines()[-1]
    assert ("for this test" in out) == (status != "holds")


def test_a_damaged_network_is_violated(monkeypatch, capfd):
    honest = rows.build

    def damaged(*arguments):
        net = honest(*arguments)
        net.linear[-1].bias.data += 1.0
        return net

    monkeypatch.setattr(rows, "build", damaged)
    assert main(["check", *TINY, "--weights", "khot", "--quiet"]) == 1
    assert capfd.readouterr().out.startswith("violated: 1 of 1")


BAD = {
    "unknown method": ("--method foo", "--method", "exact"),
    "unknown route": ("--route foo", "--route", "auto"),
    "unknown weights": ("--weights foo", "--weights", "khot"),
    "unknown family": ("--family foo", "--family", "words"),
    "unknown device": ("--device tpu", "--device", "cpu"),
    "unknown dtype": ("--dtype int8", "--dtype", "float32"),
    "unknown option": ("--nonsense 1", "--nonsense", "--help"),
    "extra argument": ("extra", "extra", "--help"),
    "eps zero": ("--eps 0", "--eps", "above 0"),
    "eps negative": ("--eps 1e-1,-2", "--eps", "'-2'"),
    "eps nan": ("--eps nan", "--eps", "finite"),
    "eps infinite": ("--eps inf", "--eps", "finite"),
    "eps text": ("--eps small", "--eps", "1e-2,1e-3"),
    "modules text": ("--modules a,b", "--modules", "'a'", "4,8,16"),
    "modules with a gap": ("--modules 4,,8", "--modules", "''"),
    "modules zero": ("--modules 0", "--modules", "at least 1"),
    "hidden zero": ("--hidden 0", "--hidden", "at least 1"),
    "inputs zero": ("--inputs 0", "--inputs"),
    "points zero": ("--points 0", "--points", "1"),
    "seed negative": ("--seed -1", "--seed", "0<="),
    "active > modules": ("--modules 8,4 --active 5", "--active 5", "--modules 4", "active <= modules"),
    "exact, continuous": ("--modules 4 --weights continuous --method exact", "exact", "shallow or deep"),
    "route of a gate": ("--modules 4 --weights khot --route N", "route N", "auto"),
    "memorise, continuous": ("--modules 4 --weights continuous --method memorise", "khot"),
    "memorise, deep": ("--modules 4 --hidden 2,2 --method memorise", "one modulated layer"),
    "memorise, large": ("--modules 64 --method memorise", "699,904", "20,000"),
    "words, hidden": ("--family words --hidden 4", "--hidden", "words"),
    "words, weights": ("--family words --weights khot", "--weights", "words"),
    "missing file": ("--teacher nowhere.npz", "nowhere.npz", "no such file"),
    "folder": ("--teacher .", "folder", ".npz"),
    "teacher and modules": ("--teacher t.npz --modules 4 --hidden 8", "--modules, --hidden", "leave it out"),
    "teacher and family": ("--teacher t.npz --family words", "--family"),
    "teacher and weights": ("--teacher t.npz --weights khot", "--weights"),
    "teacher and active": ("--teacher t.npz --active 1", "--active"),
    "teacher and inputs": ("--teacher t.npz --inputs 1 --outputs 1", "--inputs, --outputs"),
    "no folder for json": ("--json nowhere/out.json", "nowhere", "folder"),
    "json is a folder": ("--json .", "folder", "stdout"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage_is_one_line(name, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rows, "check", lambda *a, **s: pytest.fail("work was done"))
    text, *words = BAD[name]
    refused(capfd, ["check", *text.split()], *words)
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there(capfd, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused(capfd, ["check", *TINY, "--device", "cuda"], "--device cuda", "cpu")


def test_a_json_file_that_cannot_be_written(capfd, tmp_path, monkeypatch):
    def touch(path: Path) -> None:  # a folder without write permission would not stop root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", touch)
    monkeypatch.setattr(rows, "check", lambda *a, **s: pytest.fail("work was done"))
    refused(capfd, ["check", *TINY, "--json", str(tmp_path / "out.json")], "cannot be written")


def test_a_json_device_is_not_replaced(capfd):
    refused(capfd, ["check", *TINY, "--json", os.devnull], "ordinary file", "stdout")
    assert not Path(os.devnull).is_file()


DAMAGED = {
    "no readout": ({"readout": None}, "readout"),
    "no biases": ({"biases_0": None}, "biases_0"),
    "shapes": ({"readout": np.ones((7, 2))}, "(7, 2)", "need (3"),
    "dimensions": ({"modules_0": np.ones((3, 2))}, "need 3"),
    "nan": ({"readout": np.full((3, 2), np.nan)}, "NaN"),
    "infinite": ({"biases_0": np.full((3, 3), np.inf)}, "infinite"),
    "active": ({"active": np.array(9)}, "active", "9"),
    "active is text": ({"active": np.array("x")}, "active"),
    "weights": ({"weights": np.array("foo")}, "foo", "khot"),
    "scale": ({"scale": np.array(np.nan)}, "scale"),
    "box": ({"box_lower": np.array(2.0)}, "box"),
    "levels": ({"levels": np.array(["1/0"])}, "teacher.npz"),
    "text": ({"readout": np.array("hello")}, "teacher.npz"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_teacher_is_one_line(name, teacher, capfd):
    changes, *words = DAMAGED[name]
    arrays = {**dict(np.load(teacher)), **changes}
    np.savez(teacher, **{key: value for key, value in arrays.items() if value is not None})
    refused(capfd, ["check", "--teacher", str(teacher)], "teacher.npz", *words)


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.txt"])
@pytest.mark.parametrize("content", [b"", b"hello world, this is no archive"], ids=["empty", "text"])
def test_a_file_of_another_kind_is_one_line(name, content, tmp_path, capfd):
    path = tmp_path / name
    path.write_bytes(content)
    refused(capfd, ["check", "--teacher", str(path)], name)


def test_a_bare_array_is_one_line(tmp_path, capfd):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    refused(capfd, ["check", "--teacher", str(tmp_path / "a.npz")], "a.npz")


def test_rows_before_a_refusal_are_kept(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("constructions.memorising.LARGEST_BUILT", 4)
    path = tmp_path / "out.json"
    assert main(["check", *TINY, "--modules", "2,3", "--method", "memorise", "--quiet", "--json", str(path)]) == 2
    document = stored(path)
    assert len(document["rows"]) == 1 and document["complete"] is False
    assert capfd.readouterr().err.count("\n") == 1


def test_ctrl_c_keeps_the_rows(tmp_path, capfd, monkeypatch):
    honest, path = checking.measure, tmp_path / "out.json"

    def interrupted(case, *settings):
        if case.family.modules == 3:
            raise KeyboardInterrupt
        return honest(case, *settings)

    monkeypatch.setattr(checking, "measure", interrupted)
    arguments = ["check", *TINY, "--modules", "2,3", "--weights", "khot", "--json", str(path)]
    assert main(arguments) == 130
    out, err = capfd.readouterr()
    assert "stopped: 1 of 2 rows hold" in out and err.splitlines()[-1] == "kofm: interrupted"
    assert len(stored(path)["rows"]) == 1 and stored(path)["complete"] is False


def first_rows(path, process):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_whole_rows(number, tmp_path):
    path = tmp_path / "out.json"
    sizes = ",".join(map(str, range(2, 400)))
    with start("check", *TINY, "--modules", sizes, "--weights", "khot", "--json", str(path)) as process:
        try:
            first_rows(path, process)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    document = stored(path)
    assert 1 <= len(document["rows"]) < 398 and document["complete"] is False
    assert "Traceback" not in err
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"stopped: {len(document['rows'])} of 398 rows hold" in out
    else:
        assert process.returncode == -signal.SIGKILL


def test_a_reader_that_goes_away_sees_no_traceback():
    with start("check", "--help") as process:
        process.stdout.close()  # before Python has started
        err = process.stderr.read()
    assert (process.returncode, err) == (141, "")


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    documents.write(path, {"rows": [1]})
    link = tmp_path / "link.json"
    link.symlink_to(path)
    documents.write(link, {"rows": [2]})
    assert link.is_symlink() and stored(path) == {"rows": [2]}
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        documents.write(path, {"rows": [3]})
    assert stored(path) == {"rows": [2]} and len(list(tmp_path.iterdir())) == 2


def test_documents_know_no_nan():
    values = {"a": float("nan"), "b": [np.float32("inf"), np.int64(3), np.array([1.5, np.nan])], "c": 10**30}
    assert strict(documents.dumps(values)) == {"a": None, "b": [None, 3, [1.5, None]], "c": 10**30}


def test_kofm_alone_help_version_and_unknown_commands(capfd):
    assert main([]) == 0
    alone = capfd.readouterr().out
    assert main(["--help"]) == 0
    assert capfd.readouterr().out == alone and "check" in alone and "claims" in alone
    assert main(["--version"]) == 0
    assert version() in capfd.readouterr().out
    refused(capfd, ["nonsense"], "nonsense", "check, claims")
    refused(capfd, ["--nonsense"], "--nonsense")


def test_methods_offered_are_those_there_are():
    (method,) = (p for p in cli.commands["check"].params if p.name == "method")
    assert tuple(method.type.choices) == METHODS


def test_commands_are_found_through_entry_points(monkeypatch, capfd):
    @click.command()
    def figures():
        click.echo("drawn")

    class Point:
        group, value = "kofm.commands", "somewhere:command"

        def __init__(self, name, load):
            self.name, self.load = name, load

    def broken():
        raise ImportError("no matplotlib\nhere")

    points = [Point("figures", lambda: figures), Point("report", broken), Point("check", broken)]
    monkeypatch.setattr(
        metadata, "entry_points", lambda group, name=None: [p for p in points if name in (None, p.name)]
    )
    assert main(["figures"]) == 0
    assert capfd.readouterr().out == "drawn\n"
    assert main([]) == 0
    assert {"figures", "report"} <= {line.split()[0] for line in capfd.readouterr().out.splitlines() if line.strip()}
    refused(capfd, ["report", "--scale", "smoke"], "report", "no matplotlib here")
    assert main(["check", "--help"]) == 0


def test_a_bug_is_one_line_and_debug_shows_where(monkeypatch, capfd):
    def broken(*_):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(checking, "measure", broken)
    refused(capfd, ["check", *TINY, "--quiet"], "internal error: RuntimeError: two lines", "KOFM_DEBUG", code=70)
    monkeypatch.setenv("KOFM_DEBUG", "1")
    assert main(["check", *TINY, "--quiet"]) == 70
    assert "Traceback" in capfd.readouterr().err
