"""Constructed and trained side by side: complete rows, searches kept to a pool, results that are not redone."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from constructions import build
from refusals import assert_refused
from theory import Hyperteacher, Supports, Words, encodings, splits
from verify import check, compare, experiments, searches
from verify.cli import main
from verify.cli.comparison_tables import report, summarise
from verify.comparison import Encoded, Measures, measure
from verify.experiments import Case, Plan, distance_moved, interval
from verify.foreign import load_trained
from verify.store import Store
from verify.training import Settings, mlp

TRAINED = Path(__file__).parents[1] / "data" / "trained"
FAMILY = Hyperteacher.sample(5, 2, 3, (4,), 2, "discrete", seed=0)
SPLIT = splits.random(Supports(5, 2), 0.4, 0)
QUICK = Measures(tasks=40, samples=8, points=1000, probed=80)
EVERYTHING = replace(QUICK, everything=True)
TINY = Settings(widths=(8,), steps=30, tasks=4, samples=4)


def finite(value):
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def test_one_table_has_everything_of_every_network():
    nets = {"exact": build(FAMILY, dtype=torch.float32), "mine": mlp((8, 6, 2), 0)}
    rows = compare(FAMILY, SPLIT, nets, measures=EVERYTHING)
    exact, mine, blind, nearest = rows
    assert [row["network"] for row in rows] == ["exact", "mine", "blind to z", "nearest support"]
    assert len({tuple(row) for row in rows}) == 1 and all(map(finite, rows))
    json.dumps(rows, allow_nan=False)
    assert exact["status"] == "holds" and exact["guaranteed"] == 0 and exact["sup_held_out"] <= exact["rounding"]
    assert exact["held_out"]["r2_pooled"] > 1 - 1e-9 and exact["recovery"]["failures"] == 0
    assert mine["status"] == "unknown" and mine["guaranteed"] is None and mine["held_out"]["r2_pooled"] < 0.5
    assert (mine["neurons"], mine["depth"], mine["parameters"]) == (6, 1, 8 * 6 + 6 + 6 * 2 + 2)
    assert blind["held_out"]["r2_pooled"] < 0.6 and nearest["train"]["r2_pooled"] > 1 - 1e-9
    assert {entry["layer"] for entry in mine["decodability"]} == {-1, 0, 1}
    assert [entry["layer"] for entry in exact["modularity"]] == [0, 1]
    again = compare(FAMILY, SPLIT, nets, measures=EVERYTHING)
    assert [row | {"seconds": 0} for row in again] == [row | {"seconds": 0} for row in rows]


def test_a_damaged_construction_is_violated_in_the_table():
    net = build(FAMILY, dtype=torch.float32)
    net.linear[-1].weight.data += 1.0
    assert measure(FAMILY, SPLIT, "bad", net, None, QUICK, 0, "cpu")["status"] == "violated"


def test_modules_that_are_no_stack_have_no_layers_but_scores():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp((8, 6, 2), 0)

        def forward(self, rows):
            return torch.tanh(self.inner(rows))

    row = measure(FAMILY, SPLIT, "odd", Odd(), None, QUICK, 0, "cpu")
    assert row["decodability"] is None and row["depth"] is None and row["norms"] is None
    assert row["parameters"] == 68 and row["train"]["rms"] > 0 and row["sup_train"] > 0
    assert_refused(lambda: measure(FAMILY, SPLIT, "odd", mlp((9, 6, 2), 0), None, QUICK, 0, "cpu"), ["length 8"])


def test_the_search_keeps_to_a_pool():
    """A network that is wrong on one part of the tasks alone: the search of the other part finds nothing."""
    net = build(FAMILY, dtype=torch.float64)
    known = {tuple(int(m) for m in row if m >= 0) for row in SPLIT.train.listed()}

    class Wrong(nn.Module):
        def forward(self, x, z):
            trained = [tuple(np.flatnonzero(row).tolist()) in known for row in z.detach().numpy()]
            return net(x, z) + 1 - torch.tensor(trained)[:, None].to(x)

    wrong = Wrong()
    wrong.register_buffer("unit", torch.ones(1, dtype=torch.float64))
    inside, outside = (check(FAMILY, wrong, eps=0.1, points=1000, tasks=p) for p in (SPLIT.train, SPLIT.held_out))
    assert inside.measured < 1e-9 and inside.status == "unknown"
    assert outside.measured == pytest.approx(1.0) and outside.status == "violated"
    words = Words.sample(3, 2, 2, 0)
    assert_refused(lambda: check(words, build(words), tasks=SPLIT.train), ["have no supports"])


def test_networks_read_the_encoding_and_constructed_ones_z():
    encoding = encodings.make("orthogonal", FAMILY, 3)
    plain = mlp((8, 6, 2), 0)
    x, z = torch.rand(4, 3), torch.from_numpy(FAMILY.z_domain.sample(4, np.random.default_rng(0))).float()
    assert torch.equal(Encoded(plain, encoding)(x, z), plain(torch.cat([encoding(z), x], dim=1)))
    rows = compare(FAMILY, SPLIT, {"exact": build(FAMILY), "mine": plain}, encoding, measures=QUICK)
    assert rows[0]["status"] == "holds"
    few = encodings.make("few-shot", FAMILY, 0)
    row = measure(FAMILY, SPLIT, "few", mlp((few.width + 3, 4, 2), 0), few, QUICK, 0, "cpu")
    assert row["measured"] is None and "differs from call to call" in row["reason"]


def test_the_constructed_networks_of_each_kind_of_weights():
    names = {}
    for weights in ("khot", "discrete", "continuous"):
        family = Hyperteacher.sample(4, 2, 2, (3,), 2, weights, seed=0)
        found = list(experiments.constructed(family, 0.1))
        names[weights] = [named.name for named in found]
        for named in found:
            assert check(family, named.net, points=1000).status == "holds"
    approximate = ["shallow, eps 0.1", "deep, eps 0.1"]
    assert names == {
        "khot": ["exact", "memorise"],
        "discrete": ["exact", *approximate],
        "continuous": approximate,
    }


def test_training_and_rows_are_not_done_twice(tmp_path, monkeypatch):
    store = Store(tmp_path)
    cases = experiments.cases_of(lambda s: FAMILY, [("random", 0.4)], [0, 1], "identity")
    plan = Plan(TINY)
    first = experiments.trained(cases, plan, store)
    monkeypatch.setattr(experiments, "train", lambda *a, **k: pytest.fail("trained again"))
    again = experiments.trained(cases, plan, store)
    for a, b in zip(first, again, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert experiments.training_config(cases[0], plan) != experiments.training_config(cases[1], plan)
    named = experiments.Named("mine", "trained", {"a": 1}, first[0])
    rows = list(experiments.rows_of(cases[0], [named], store, QUICK, "cpu"))
    monkeypatch.setattr(experiments, "measure", lambda *a, **k: pytest.fail("measured again"))
    assert list(experiments.rows_of(cases[0], [named], store, QUICK, "cpu")) == rows
    assert rows[0]["split"] == "random 40 %" and rows[0]["supports_trained"] == 9 and rows[0]["seed"] == 0


def test_training_from_the_exact_weights(tmp_path):
    case = Case(FAMILY, SPLIT, 0)
    plan = Plan(Settings(steps=3, tasks=4, samples=4, rate=1e-6, decay=0.0), start="exact")
    (net,) = experiments.trained([case], plan, Store(tmp_path))
    before = experiments.initial_of(case, plan)
    assert 0 < distance_moved(before, net) < 1e-3 and distance_moved(before, before) == 0
    named = experiments.Named(plan.name, "trained", {}, net, before)
    rows = list(experiments.rows_of(case, [named], None, QUICK, "cpu"))
    assert rows[0]["moved"] == distance_moved(before, net) and rows[1]["moved"] is None
    assert "Training from the exact weights" in report(rows)
    assert "Training from the exact weights" not in report(rows[1:])
    assert measure(FAMILY, SPLIT, "from exact", net, None, QUICK, 0, "cpu")["held_out"]["r2_pooled"] > 0.999


@given(st.integers(2, 512), st.integers(1, 4))
def test_the_smallest_number_is_found_to_its_resolution(enough, least):
    found = searches.smallest(lambda number: float(number >= enough), 1.0, least=least)
    assert found.value >= enough and found.value - enough <= max(1, found.value // 8, least - enough)
    assert all((number >= enough) is (score == 1.0) for number, score in found.tried.items())
    assert min(found.tried) == least


def test_no_number_is_said_and_bad_ranges_are_refused():
    found = searches.smallest(lambda number: -math.inf, 1.0, most=20)
    assert found.value is None and max(found.tried) == 20 and set(found.scores.values()) == {None}
    assert_refused(lambda: searches.smallest(lambda n: 0.0, 1.0, least=5, most=4), ["need 1 <= least <= most"])


def test_the_searches_train_at_every_number_and_stop_at_the_first_that_is_enough(tmp_path, monkeypatch):
    store, seen = Store(tmp_path), []
    monkeypatch.setattr(searches, "trained", lambda cases, plan, store, device: seen.append((cases, plan)) or [None])

    def score(case, net):  # enough: 24 neurons a layer, or 8 training supports
        return 1.0 if seen[-1][1].settings.widths[0] >= 24 and case.split.train.count >= 8 else 0.0

    monkeypatch.setattr(searches, "held_out_r2", score)
    case = Case(FAMILY, splits.random(Supports(5, 2), 0.4, 0), 0)  # 9 of 15 trained on
    width = searches.smallest_width_of([case], TINY, store)
    assert width["width"] == 24 and width["neurons"] == 48 and width["exact_neurons"] == build(FAMILY).neurons
    assert width["tried"] == {"2": 0, "4": 0, "8": 0, "16": 0, "32": 1, "24": 1, "20": 0, "22": 0}
    found = searches.fewest_supports_of(lambda s: FAMILY, [0], "identity", replace(TINY, widths=(24,)), store)
    assert (found["floor"], found["supports"], found["all_supports"]) == (4, 8, 15)  # the floor: (5 - 1)/(2 - 1)
    assert {cases[0].split.train.count for cases, _ in seen[-len(found["tried"]) :]} == {4, 8, 6, 7}
    text = report([], [width], [found])
    assert "24:1.00" in text and "7:0.00" in text


def test_the_score_of_a_search_is_the_held_out_r2(tmp_path):
    exact = build(FAMILY, dtype=torch.float32).as_sequential()
    assert searches.held_out_r2(Case(FAMILY, SPLIT, 0), exact) > 1 - 1e-9
    assert searches.held_out_r2(Case(FAMILY, SPLIT, 0), mlp((8, 6, 2), 0)) < 0.5
    found = searches.fewest_supports_of(lambda s: FAMILY, [0, 1], "identity", TINY, Store(tmp_path))
    assert found["supports"] is None and set(found["tried"]) == {"4", "8", "14"}


def test_medians_and_intervals():
    assert interval([3.0, None, 1.0, 2.0]) == {"median": 2.0, "least": 1.0, "most": 3.0, "n": 3}
    assert interval([None]) == {"median": None, "least": None, "most": None, "n": 0}
    rows = []
    for seed in (0, 1, 2):
        case = Case(FAMILY, SPLIT, seed)
        rows += experiments.rows_of(
            case, [experiments.Named("n", "trained", {}, mlp((8, 4, 2), seed))], None, QUICK, "cpu"
        )
    entry = next(e for e in summarise(rows) if e["network"] == "n")
    values = sorted(r["held_out"]["r2_pooled"] for r in rows if r["network"] == "n")
    assert entry["r2_pooled_held_out"] == {"median": values[1], "least": values[0], "most": values[2], "n": 3}
    assert "3 seeds, median [least, most]" in report(rows)


def run(arguments, capfd):
    code = main(["compare", *arguments])
    found = capfd.readouterr()
    return code, found.out, found.err


SMALL = ["--modules", "4", "--active", "2", "--inputs", "2", "--hidden", "3", "--outputs", "2", "--widths", "6"]


def test_the_command_trains_compares_and_goes_on(tmp_path, capfd):
    arguments = [*SMALL, "--steps", "40", "--seeds", "2", "--split", "non-compositional", "--points", "1000"]
    arguments += ["--results", str(tmp_path / "r"), "--json", str(tmp_path / "c.json")]
    code, out, err = run(arguments, capfd)
    assert code == 0 and "module never seen" in out and "constructed networks: holds" in out
    assert "training: " in err
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["complete"] and document["command"] == "kofm compare"
    assert {row["network"] for row in document["rows"]} >= {"exact", "trained 1 x 6", "untrained", "blind to z"}
    assert {row["seed"] for row in document["rows"]} == {0, 1} and len(document["summary"]) == 7
    again, same, _ = run(arguments, capfd)  # from the store: seconds, but the same
    assert again == 0 and same == out
    code, out, err = run([*arguments, "--quiet"], capfd)
    assert (code, out.count("\n"), err) == (0, 1, "")


def test_the_command_reads_a_network_from_a_file(capfd):
    code, out, _ = run(["--trained", str(TRAINED / "fails-few-tasks.npz"), "--points", "200", "--json", "-"], capfd)
    rows = {row["network"]: row for row in json.loads(out)["rows"]}
    assert code == 0 and rows["exact"]["held_out"]["r2_pooled"] > 1 - 1e-9
    assert 0.6 < rows["trained (file)"]["held_out"]["r2_pooled"] < 0.8


def test_bad_input_is_one_line_and_exit_2(tmp_path, capfd):
    (tmp_path / "file").write_text("x")
    net = load_trained(TRAINED / "generalises.npz").network
    np.savez(tmp_path / "bare.npz", weight_0=net[0].weight.detach().numpy(), bias_0=net[0].bias.detach().numpy())
    cases = {
        "nearest possible fraction": ["--split", "disconnected:0.01"],
        "hotness trains on all": ["--split", "hotness:0.5"],
        "need 1 <= trained < tested": ["--modules", "3", "--active", "3", "--split", "hotness"],
        "is unknown": ["--split", "odd"],
        "is no fraction": ["--split", "random:x"],
        "needs the fraction": ["--split", "random"],
        "widths": ["--widths", "0"],
        "rate": ["--rate", "-1"],
        "decay": ["--decay", "nan"],
        "--eps": ["--eps", "0"],
        "is no folder": ["--results", str(tmp_path / "file")],
        "no such file": ["--trained", str(tmp_path / "none.npz")],
        "holds no teacher": ["--trained", str(tmp_path / "bare.npz")],
        "comes with its sizes": ["--trained", str(TRAINED / "generalises.npz"), "--modules", "4"],
        "nothing is trained with --trained": ["--trained", str(TRAINED / "generalises.npz"), "--steps", "5"],
        "stored in the file": ["--trained", str(TRAINED / "generalises.npz"), "--seeds", "2"],
        "not enough memory": ["--widths", "99999999999"],
        "name a folder": ["--results", ""],
        "--device cuda": [] if torch.cuda.is_available() else ["--device", "cuda"],
    }
    for words, arguments in cases.items():
        if arguments:
            if "--results" not in arguments and "--trained" not in arguments:
                arguments = [*arguments, "--results", str(tmp_path / "r")]
            code, out, err = run(arguments, capfd)
            assert (code, out, err.count("\n")) == (2, "", 1) and words in err, (arguments, err)


def test_two_splits_are_two_tables(tmp_path, capfd):
    """The trap: splits of one name, merged, look like a spread over seeds."""
    arguments = [*SMALL, "--modules", "6", "--steps", "5", "--seeds", "1", "--points", "50", "--json", "-"]
    splits_asked = "non-compositional,non-compositional:0.5,random:0.25,random:0.26"
    code, out, _ = run([*arguments, "--split", splits_asked, "--results", str(tmp_path)], capfd)
    summary = json.loads(out)["summary"]
    assert code == 0 and {entry["seeds"] for entry in summary} == {1}
    assert {entry["r2_pooled_held_out"]["n"] for entry in summary} == {1}
    names = {"module never seen", "module never seen, 50 % not trained on", "random 25 %", "random 26 %"}
    assert {entry["split"] for entry in summary} == names


def test_measured_is_the_largest_error_of_all_searches():
    row = compare(FAMILY, SPLIT, {"mine": mlp((8, 6, 2), 0)}, measures=QUICK)[0]
    assert row["measured"] >= max(row["sup_train"], row["sup_held_out"])


def test_full_runs_to_its_end_and_says_at_once_where_nothing_can_be_searched(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("verify.cli.comparing.WIDTHS_FULL", ((4,),))
    monkeypatch.setattr("verify.cli.comparing.MODULES_SEARCHED", (2, 4))
    monkeypatch.setattr("verify.searches.TARGET", -10.0)
    arguments = [*SMALL, "--active", "3", "--full", "--steps", "5", "--seeds", "1", "--points", "50", "--split"]
    arguments += ["random:0.25", "--results", str(tmp_path), "--json", str(tmp_path / "c.json")]
    code, out, err = run(arguments, capfd)
    document = json.loads((tmp_path / "c.json").read_text())
    assert code == 0 and document["complete"] and "nothing is searched at M = 2" in err.splitlines()[0]
    assert [row["modules"] for row in document["smallest_widths"]] == [4]
    assert [row["supports"] for row in document["fewest_supports"]] == [2]  # the floor, (4 - 1)/(3 - 1)
    assert "Training from the exact weights" in out and "Fewest random training supports" in out
    networks = {row["network"] for row in document["rows"]}
    assert {"trained 1 x 6", "trained 1 x 4", "trained from exact"} <= networks and len(networks) == 10


def test_networks_that_were_changed_and_rows_that_are_damaged_are_made_again(tmp_path, capfd):
    store, cases = Store(tmp_path), experiments.cases_of(lambda s: FAMILY, [("random", 0.4)], [0], "identity")
    (net,) = experiments.trained(cases, Plan(TINY), store)
    config = experiments.training_config(cases[0], Plan(TINY))
    (path,) = store.networks.iterdir()
    good = path.read_bytes()
    digest = store.put_network(config, mlp((8, 8, 2), 5))
    assert store.get_network(config, digest) is not None and path.read_bytes() != good
    (again,) = experiments.trained(cases, Plan(TINY), store)
    assert "it was changed after it was written" in capfd.readouterr().err and path.read_bytes() == good
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), again.parameters(), strict=True))
    named = experiments.Named("mine", "trained", {"a": 1}, net)
    rows = list(experiments.rows_of(cases[0], [named], store, QUICK, "cpu"))
    for config, row in store.rows("comparison"):
        store.put("comparison", config, {"rows": [{}]} if row["rows"][0]["network"] == "mine" else {})
    again = list(experiments.rows_of(cases[0], [named], store, QUICK, "cpu"))
    assert [row | {"seconds": 0} for row in again] == [row | {"seconds": 0} for row in rows]


def test_what_is_no_network_is_refused_and_modes_are_kept():
    assert_refused(lambda: compare(FAMILY, splits.random(Supports(4, 2), 0.4), {}), ["of 4 modules"])
    assert_refused(lambda: compare(FAMILY, SPLIT, {"a": print}), ["a: a builtin"])
    assert_refused(lambda: compare(FAMILY, SPLIT, [mlp((8, 2), 0)]), ["give a dict"])
    assert_refused(lambda: compare(FAMILY, SPLIT, {}, "tokens"), ["encoding: 'tokens'"])
    trained = experiments.train([experiments.Run(FAMILY, SPLIT.train)], TINY)[0]
    assert_refused(lambda: compare(FAMILY, SPLIT, {"a": trained}), ["give its .network"])
    net = nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 2))
    first, second = (compare(FAMILY, SPLIT, {"a": net}, measures=QUICK)[0] for _ in range(2))
    assert first["held_out"] == second["held_out"] and net.training and net[1].training
