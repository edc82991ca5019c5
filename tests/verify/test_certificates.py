"""Certificates: the checker's bound is above every error, as sharp as the guarantee, and it says no."""

import ast
import copy
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from constructions import build
from refusals import assert_refused
from strategies import DATA, hyperteachers, points
from theory import Hyperteacher, Words
from theory.arithmetic import as_exact
from verify import certificates, check, checker
from verify.certificates import certificate, certified_error, statement
from verify.cli import main

F = Fraction
some = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
KNOWN = ("units: one is not always off", "no neuron for any of its units")


def family_of(weights, seed=0, **changes):
    sizes = {"modules": 4, "active": 2, "inputs": 2, "hidden": (3,), "outputs": 2} | changes
    return Hyperteacher.sample(weights=weights, seed=seed, **sizes)


def values(document, x, z):
    """The network of a certificate in Fractions: plain loops that share no code with the checker."""
    row = [*z, *x]
    layers = document["network"]["layers"]
    for number, layer in enumerate(layers):
        sums = [
            F(bias) + sum(F(w) * row[i] for i, w in part)
            for part, bias in zip(layer["weights"], layer["biases"], strict=True)
        ]
        row = sums if number == len(layers) - 1 else [max(v, F(0)) for v in sums]
    return row


def worst(document, family, seed, n=12):
    """The largest error met at some tasks and inputs, z as fed, for each output."""
    fed = dict(zip(map(F, document["family"]["levels"]), map(F, document["network"]["fed"]), strict=True))
    found = [F(0)] * family.outputs
    for a, b in zip(*points(family, n, seed), strict=True):
        z = family.z_domain.exact(b)
        shown = list(z) if family.weights == "continuous" else [fed[v] if v else F(0) for v in z]
        errors = zip(values(document, as_exact(a), shown), family.exact(a, b), strict=True)
        found = [max(old, abs(v - w)) for old, (v, w) in zip(found, errors, strict=True)]
    return found


def certified(family, net):
    try:
        return certificate(family, net)
    except ValueError as reason:
        assert any(words in str(reason) for words in KNOWN), reason
        assume(False)


@some
@given(
    st.sampled_from(["khot", "discrete", "continuous"]), st.sampled_from(["auto", "M", "N", "MN"]),
    st.sampled_from(["shallow", "deep"]), st.sampled_from([3.0, 1.0]), st.sampled_from([torch.float32, torch.float64]),
    st.data(),
)  # fmt: skip
def test_above_what_is_measured_and_for_exact_networks_no_more_than_rounding(weights, route, method, eps, dtype, data):
    family = data.draw(hyperteachers(weights=weights, layers=(1, 2), max_modules=4, max_width=3))
    kind = {"eps": eps, "method": method, "route": route} if weights == "continuous" else {"method": "exact"}
    net = build(family, dtype=dtype, **kind)
    document = certified(family, net)
    bounds = [F(bound) for bound in document["bounds"]]
    assert all(error <= bound for error, bound in zip(worst(document, family, 0), bounds, strict=True))
    if weights != "continuous" and np.isfinite(net.rounding_error):  # others may be certified above the guarantee
        assert max(bounds) <= F(net.rounding_error)
    assert checker.verify(json.dumps(document)).startswith("accepted")


@some
@given(hyperteachers(layers=(1, 2), max_modules=4, max_width=3), st.integers(0, 999), st.data())
def test_the_bound_is_sound_whatever_the_weights_are(family, seed, data):
    """Broken at random, much or little: the bound may be large or refused, but is never below an error."""
    net = build(family, *((0.3,) if family.weights == "continuous" else ()))
    try:
        document = statement(family, net)
    except ValueError:
        assume(False)
    generator = np.random.default_rng(seed)
    for layer in document["network"]["layers"]:
        for row in layer["weights"]:
            for entry in row:
                if generator.random() < 0.2:
                    entry[1] = str(
                        F(entry[1]) + F(float(generator.normal())) * data.draw(st.sampled_from([F(1), F(1, 2**20)]))
                    )
        layer["biases"] = [
            str(F(b) + F(float(generator.normal())) * (generator.random() < 0.2)) for b in layer["biases"]
        ]
    try:
        bounds = checker.bounds(document)
    except ValueError as reason:
        assert any(words in str(reason) for words in (*KNOWN, "more than z passes")), reason
        return
    assert all(error <= bound for error, bound in zip(worst(document, family, seed), bounds, strict=True))


@pytest.mark.parametrize("method", ["shallow", "deep"])
@pytest.mark.parametrize("route", ["M", "N", "MN"])
@pytest.mark.parametrize("hidden", [(3,), (3, 2)])
def test_as_sharp_as_the_guarantee(method, route, hidden):
    family = family_of("continuous", hidden=hidden)
    net = build(family, 0.2, method, route)
    assert certified_error(certificate(family, net)) == pytest.approx(net.guaranteed_error, rel=1e-9)


@pytest.mark.parametrize("levels", [(0.1, 1.0), (0.25, 3.0)])
def test_modules_that_are_off_cost_nothing_for_wide_intervals_either(levels):
    family = family_of("continuous", modules=6, levels=levels)
    net = build(family, 0.3, "shallow", "M")
    assert certified_error(certificate(family, net)) == pytest.approx(net.guaranteed_error, rel=1e-9)


def test_exact_where_every_weight_is_representable():
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape) / 4 for shape in ((4, 3, 2), (4, 2), (2, 2))]
    family = Hyperteacher([arrays[0]], [arrays[1]], arrays[2], 2, "khot")
    document = certificate(family, build(family))
    assert document["bounds"] == ["0", "0"] and checker.verify(json.dumps(document)).endswith("<= 0")


def test_an_exact_network_errs_by_rounding_only():
    for weights in ("khot", "discrete"):
        family = family_of(weights, hidden=(3, 2))
        assert 0 <= certified_error(certificate(family, build(family))) < 1e-13


@pytest.mark.parametrize("path", sorted(DATA.glob("*.npz")), ids=lambda path: path.stem)
def test_the_papers_teachers(path):
    family = Hyperteacher.load(path)
    if family.modules * family.inputs > 64 and family.weights != "khot":
        pytest.skip("slow: see tests/test_slow_evidence.py")
    net = build(family, *((0.1,) if family.weights == "continuous" else ()))
    document = certificate(family, net)
    found = check(family, net, points=1000, certified=certified_error(document))
    assert found.measured_exact <= found.certified <= net.guaranteed_error + net.rounding_error
    assert found.status == "holds" and checker.verify(json.dumps(document)).startswith("accepted")


def test_a_level_that_the_format_rounds_is_part_of_the_statement():
    """Fed float32(3/5) the network is off by slope x rounding; the bound speaks of that, and not of 3/5 itself."""
    family = family_of("discrete", levels=("3/5", "1"))
    document = certificate(family, build(family, dtype=torch.float32))
    assert F(document["network"]["fed"][0]) == F(float(np.float32(0.6))) != F(3, 5)
    assert max(worst(document, family, 1, 40)) <= max(map(F, document["bounds"]))
    document["network"]["fed"][0] = "3/5"
    exactly = checker.bounds(document)
    assert max(exactly) != max(map(F, document["bounds"]))


def digested(document):
    return json.dumps(document | {"digests": checker.digests(document)})


SMALL = certificate(family_of("khot"), build(family_of("khot")))


def places(value, path=()):
    """Paths to all entries of nested lists and dicts."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield from places(entry, (*path, key))


def changed(path, entry, root=SMALL):
    document = copy.deepcopy(root)
    *parents, last = path
    at = document
    for key in parents:
        at = at[key]
    at[last] = entry
    return document


NUMBERS = [path for path in places(SMALL) if path and path[0] in ("family", "network") and isinstance(path[-1], int)]


def entry_at(path):
    at = SMALL
    for key in path:
        at = at[key]
    return at


LEAVES = [path for path in NUMBERS if isinstance(entry_at(path), str)]


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: "-".join(map(str, path)))
def test_every_number_counts(path):
    """Each weight, bias and array entry moved by 1/8: without new digests refused; with them, a claim that is true."""
    other = changed(path, str(F(entry_at(path)) + F(1, 8)))
    assert_refused(lambda: checker.verify(json.dumps(other)), ["changed: the digest is another"])
    try:
        verdict = checker.verify(digested(other))
    except ValueError as reason:
        assert "\n" not in str(reason)
        return
    # The network is exact: nothing may be moved, but for a box that has become smaller.
    assert verdict.startswith("accepted") and path[1] == "box" and path[-1] == 0


def test_accepted_exactly_if_the_claim_follows():
    for bound, verdict in ((F(SMALL["bounds"][0]), "accepted"), (F(SMALL["bounds"][0]) * F(1, 2), "rejected")):
        document = digested(changed(("bounds", 0), str(bound)))
        try:
            assert checker.verify(document).startswith(verdict)
        except ValueError as reason:
            assert str(reason).startswith(verdict)


@pytest.mark.parametrize("entry", [None, "x", "1/0", -1, 0.5, [], {}, True, "nan", 10**6, [["a"]]], ids=repr)
def test_malformed_documents_are_refused_in_one_line(entry):
    """Anything in place of anything: a ValueError or, where nothing that counts was changed, the same verdict."""
    for path in places(SMALL):
        if (
            path
            and path[0] not in ("about", "digests")
            and len(path) <= 4
            and all(k in (0, 1) or isinstance(k, str) for k in path)
        ):
            document = changed(path, entry)
            try:
                verdict = checker.verify(digested(document))
            except ValueError as reason:
                assert "\n" not in str(reason)
                continue
            assert path == ("network", "dtype") and verdict.startswith("accepted"), path


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '{"format": "kofm certificate"}', "[" * 10_000])
def test_texts_that_are_no_certificate(text):
    with pytest.raises(ValueError) as reason:
        checker.verify(text)
    assert "\n" not in str(reason.value) or text in ("", "{")


def test_a_neuron_is_never_taken_for_another():
    """Hints are not believed: other neurons, other units, indices from the end."""
    for neurons in (
        [[0, 1], [1, 0], [2, 2]],
        [[-1, 0], [1, 1], [2, 2]],
        [[0, -1], [1, 1], [2, 2]],
        [[0, 0]],
        [[0, 0], [1, 0]],
        [],
    ):
        document = changed(("units", 0, "neurons"), neurons)
        assert_refused(lambda d=document: checker.verify(digested(d)), [])


def test_the_checker_is_short_and_alone():
    source = Path(checker.__file__).read_text()
    assert len(source.splitlines()) < 400
    imported = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {a.name for n in imported if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module.split(".")[0] for n in imported if isinstance(n, ast.ImportFrom) and n.module}
    assert all(name.split(".")[0] in sys.stdlib_module_names for name in names)


def test_the_checker_runs_alone(tmp_path):
    (tmp_path / "good.json").write_text(json.dumps(SMALL))
    (tmp_path / "bad.json").write_text(digested(changed(("bounds", 0), "0")))
    copied = tmp_path / "checker.py"
    copied.write_text(Path(checker.__file__).read_text())
    for name, code, words in (
        ("good.json", 0, "accepted"),
        ("bad.json", 1, "rejected"),
        ("none.json", 1, "No such file"),
    ):
        done = subprocess.run([sys.executable, "-I", str(copied), name], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code and words in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_refusals():
    words = Words.sample(3, 2, 2)
    assert_refused(lambda: certificate(words, build(words)), ["hyperteachers"])
    family = family_of("khot")
    assert_refused(lambda: certificate(family, build(family, method="memorise")), ["memorising"])
    net = build(family)
    with torch.no_grad():
        net.linear[0].bias[0] = float("nan")
    assert_refused(lambda: certificate(family, net), ["NaN"])
    assert_refused(lambda: check(family, build(family), certified=-1.0), ["certified"])


def test_a_large_network_is_refused(monkeypatch):
    monkeypatch.setattr(certificates, "LARGEST_NONZEROS", 10)
    assert_refused(lambda: certificate(family_of("khot"), build(family_of("khot"))), ["at most 10"])


def test_an_error_above_what_is_certified_is_a_violation():
    family = family_of("continuous")
    net = build(family, 0.2)
    found = check(family, net, certified=1e-9)
    assert found.status == "violated" and "certified" in found.reason
    assert check(family, net, eps=0.2, certified=certified_error(certificate(family, net))).status == "holds"


def test_the_commands(tmp_path, capfd):
    small = ["--modules", "3", "--active", "2", "--inputs", "2", "--hidden", "2", "--outputs", "1", "--points", "1000"]
    folder = tmp_path / "certificates"
    assert main(["check", *small, "--certificates", str(folder), "--json", "-"]) == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    files = sorted(folder.iterdir())
    assert [row["certificate"] for row in rows] and len(files) == len(rows) == 3
    assert all(row["measured_exact"] <= row["certified"] <= row["guaranteed"] + row["rounding"] for row in rows)
    assert main(["verify-certificate", *map(str, files)]) == 0
    assert capfd.readouterr().out.count("accepted") == 3
    files[0].write_text(files[0].read_text().replace('"1/2"', '"1/3"').replace('"0"', '"1"', 1))
    assert main(["verify-certificate", *map(str, files)]) == 1
    found = capfd.readouterr()
    assert "digest" in found.out and found.out.count("accepted") == 2 and not found.err
    assert main(["check", "--family", "words", "--modules", "3", "--certify", "--points", "1000", "--json", "-"]) == 0
    row = json.loads(capfd.readouterr().out)["rows"][0]
    assert row["certified"] is None and "hyperteachers" in row["certificate"]


def test_bad_files_are_one_line_and_exit_2(tmp_path, capfd):
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "file").write_text("")
    for arguments, words in (
        (["verify-certificate", str(tmp_path / "none")], "give a certificate file"),
        (["verify-certificate", str(tmp_path)], "give a certificate file"),
        (["verify-certificate", str(tmp_path / "binary")], "is no text"),
        (["verify-certificate"], "Missing argument"),
        (["check", "--certificates", str(tmp_path / "file")], "is no folder"),
    ):
        assert main(arguments) == 2
        found = capfd.readouterr()
        assert words in found.err and found.err.count("\n") == 1 and not found.out
    (tmp_path / "huge").write_text(digested(changed(("bounds", 0), "1" + 400 * "0")))
    assert (
        main(["verify-certificate", str(tmp_path / "file")])
        == main(["verify-certificate", str(tmp_path / "huge")])
        == 1
    )


@pytest.mark.parametrize(("constant", "on"), [(F(-5, 4), True), (F(-7, 4), False), (F(-3), False), (F(1), True)])
def test_a_neuron_that_mixes_ridges_and_may_bend_is_noisy(constant, on):
    """ReLU(p), p = ReLU(z_0 + x) + ReLU(z_1 - x) + c, is p + [0, most of -p], or where mostly off [0, most of p]."""
    stage = checker.Stage((2, 1, [((F(1), F(1)), (F(1), F(1)))]), [(F(-1), F(1))], [(F(0), F(0))])
    pre = checker.Value({checker.CONSTANT: constant})
    for row in ({0: F(1), 2: F(1)}, {1: F(1), 2: F(-1)}):
        pre.add(stage.neuron(checker.Value(row)), F(1))
    found = stage.neuron(pre)
    points = [max(z + x, 0) + max(1 - z - x, 0) + constant for z in (0, 1) for x in (F(i, 8) for i in range(-8, 9))]
    assert found.noise[0] == 0 and bool(found.ridges) is on
    assert found.noise[1] >= (max(-min(points), 0) if on else max(max(points), 0))
