"""The stored table of evidence: fresh, complete, and read honestly by `kofm claims`."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from theory.claims import BY_HAND, CLAIMS, PROVED, Step
from verify import calculations, evidence
from verify.cli import listing, main

STORED = evidence.load()


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def table(tmp_path, monkeypatch):
    path = tmp_path / "evidence.json"
    monkeypatch.setattr(evidence, "PATH", path)

    def write(records):
        path.write_text(json.dumps({"records": records}), encoding="utf-8")
        return path

    write(STORED)
    return write


@pytest.mark.parametrize("key", CLAIMS)
def test_the_stored_table_is_what_the_steps_say_now(key):
    stored = [r for r in STORED if r["claim"] == key and r["kind"] != "measured"]
    fresh = evidence.symbolic_records(CLAIMS[key], version="")
    assert [{**r, "version": ""} for r in stored] == fresh, f"stale: run {evidence.REFRESH}"


def test_the_stored_table_has_each_measurement_and_all_hold():
    assert {r["claim"] for r in STORED} == set(CLAIMS)
    for measurement in evidence.MEASUREMENTS:
        own = [r for r in STORED if (r["command"], r["claim"]) == (measurement.command, measurement.claim)]
        own = [r for r in own if r["kind"] == "measured"]
        assert own, f"{measurement.command}: run {evidence.REFRESH}"
        assert {r["state"] for r in own} == {"holds"}
        assert {r["hash"] for r in own} == {evidence.source_hash(CLAIMS[measurement.claim])}


def test_a_measurement_can_be_repeated():
    measurement = next(m for m in evidence.MEASUREMENTS if m.claim == "C7")
    fresh = evidence.measured_records(measurement, version="")
    stored = [r for r in STORED if r["command"] == measurement.command]
    assert [(r["what"].split("(")[0], r["state"]) for r in fresh] == [
        (r["what"].split("(")[0], r["state"]) for r in stored
    ]
    counts = [r["value"] for r in fresh if isinstance(r["value"], int)]
    assert counts == [r["value"] for r in stored if isinstance(r["value"], int)] != []


@pytest.mark.parametrize("claim", ["C9", "C14", "C15"])
def test_a_calculation_gives_what_is_stored(claim):
    calculation = next(m for m in evidence.MEASUREMENTS if m.claim == claim)
    assert calculation.command == f"kofm claims --refresh {claim}"
    fresh = evidence.measured_records(calculation, version="")
    stored = [r for r in STORED if r["claim"] == claim and r["kind"] == "measured"]
    assert [(r["what"], r["state"]) for r in fresh] == [(r["what"], "holds") for r in stored]
    for new, old in zip(fresh, stored, strict=True):
        assert new["value"] == pytest.approx(old["value"], rel=1e-3, abs=1e-3)


def test_a_calculation_says_no(monkeypatch):
    monkeypatch.setattr(calculations, "chain", lambda modules, active: np.zeros((9, 1), dtype=int))
    assert [state for *_, state in calculations.spans()][1] == "violated"
    monkeypatch.setattr(calculations, "decodable_share", lambda width, domain: -1.0)
    assert [state for *_, state in calculations.layers()] == ["holds", "violated"]
    monkeypatch.setattr(calculations, "build", lambda family, dtype: lambda x, z: torch.zeros(*x.shape[:2], 4))
    monkeypatch.setattr(calculations, "_pulled", lambda family, by: lambda x, z: torch.zeros(*x.shape[:2], 4))
    assert [state for *_, state in calculations.decoding()] == ["holds", "violated"]  # 1 <= 1; a bound below 1 is asked


def test_the_list_names_every_claim(capsys):
    assert main(["claims"]) == 0
    out = capsys.readouterr().out
    for claim in CLAIMS.values():
        assert claim.title in out
    assert evidence.STALE not in out and evidence.NO_EVIDENCE not in out


def test_one_claim_in_full(capsys):
    claim = CLAIMS["C3"]
    assert main(["claims", "c3"]) == 0
    out = capsys.readouterr().out
    assert claim.statement in out and claim.fixed in out
    assert all(text in out for text in claim.assumptions)
    assert all(f"] {step.text}" in out for step in claim.steps)
    assert f"[{PROVED}]" in out and f"[{BY_HAND}]" in out
    assert r"\text{neurons} \le" in out and "kofm check --weights discrete" in out


def test_json(capsys, tmp_path):
    assert main(["claims", "C2", "C12", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["command"], [r["claim"] for r in document["rows"]]) == ("kofm claims", ["C2", "C12"])
    assert document["rows"][0]["measured"] == document["rows"][0]["held"] > 0
    path = tmp_path / "claims.json"
    assert main(["claims", "--quiet", "--json", str(path)]) == 0
    assert len(json.loads(path.read_text())["rows"]) == len(CLAIMS)
    assert len(capsys.readouterr().out.splitlines()) == len(CLAIMS)


def test_an_unknown_claim_is_one_line(capsys):
    assert main(["claims", "C99"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "C99" in err and "C13" in err


def test_a_table_that_is_missing_or_damaged(table, capsys):
    path = table([])
    assert main(["claims", "C2", "--quiet"]) == 0
    assert capsys.readouterr().out == "C2: no evidence stored\n"
    path.unlink()
    assert main(["claims", "C2"]) == 0
    assert "[no evidence stored]" in capsys.readouterr().out
    for text in ("", "{", "[]", '{"records": [{"claim": "C2"}]}', '{"records": 3}'):
        path.write_text(text)
        assert main(["claims"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and evidence.REFRESH in err


def test_a_claim_that_changed_is_stale():
    claim = CLAIMS["C2"]
    for changed in (
        dataclasses.replace(claim, statement=claim.statement + "!"),
        dataclasses.replace(claim, assumptions=claim.assumptions[:-1]),
        dataclasses.replace(claim, steps=(*claim.steps, Step("by hand: more"))),
    ):
        assert evidence.standing(changed, STORED)["state"] == evidence.STALE
    assert evidence.standing(claim, STORED)["state"] != evidence.STALE


@pytest.mark.parametrize(
    ("kind", "state", "words"),
    [
        ("proved symbolically", "failed", "failed"),
        ("measured", "violated", "violated"),
        ("measured", "unknown", "unknown"),
    ],
)
def test_one_bad_record_decides(kind, state, words):
    records = [dict(r) for r in STORED]
    next(r for r in records if r["claim"] == "C2" and r["kind"] == kind)["state"] = state
    assert evidence.standing(CLAIMS["C2"], records)["state"].startswith(words)


def test_refresh_of_one_claim_keeps_the_others(table, capsys):
    path = table([r for r in STORED if r["claim"] != "C12"])
    assert main(["claims", "C12", "--refresh", "--quiet"]) == 0
    assert capsys.readouterr().out == "C12: proof partly by hand, not measured\n"
    assert evidence.load(path) == STORED


def test_a_failing_step_is_stored_as_failed():
    claim = dataclasses.replace(CLAIMS["C12"], steps=(Step("false", lambda: False), Step("by hand: x")))
    records = evidence.symbolic_records(claim, version="")
    assert [r["state"] for r in records] == ["failed", BY_HAND]
    assert evidence.standing(claim, records)["state"].startswith("failed")


def test_lines_need_enough_points_to_hold():
    judge = evidence._line("slope", "M")
    assert [state for _, _, state in judge([], [])] == ["unknown"]
    fit = {"against": "M", "x": [1, 2, 3], "slope": 2.0, "r2": 0.9}
    assert [state for _, _, state in judge([], [fit])] == ["unknown"]
    assert [state for _, _, state in judge([], [{**fit, "r2": 1.0}])] == ["holds"]


def test_refresh_is_refused_where_the_table_cannot_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(evidence, "PATH", tmp_path / "nowhere" / "evidence.json")
    monkeypatch.setattr(listing, "collect", lambda *a: pytest.fail("work was done"))
    assert main(["claims", "--refresh"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
