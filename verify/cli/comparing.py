"""`kofm compare`: train networks on part of the tasks, put constructed and learned side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import click
import numpy as np
from torch import nn

from constructions import build
from theory import Hyperteacher, encodings
from theory.families.hyperteacher import WEIGHTS
from verify import experiments, searches
from verify.cli import comparison_tables, documents, options
from verify.cli.comparison_options import EPS, RESULTS, SEEDS, Options, Splits
from verify.cli.progress import Steps
from verify.experiments import Case, Named, Plan
from verify.foreign import Foreign
from verify.store import Store
from verify.version import version

#: Widths and depths that --full adds.
WIDTHS_FULL = ((32, 32), (256, 256), (128,), (128, 128, 128))
#: The numbers of modules at which --full looks for the smallest width and for the fewest training supports.
MODULES_SEARCHED = (6, 8, 10)
#: How many lines of progress a training makes where there is no terminal.
PARTS = 10


@click.command()
@click.option("--teacher", metavar="FILE", help="A hyperteacher, .npz or .safetensors, in place of random ones.")
@click.option("--trained", metavar="FILE", help="A network trained elsewhere (weight_i, bias_i); nothing is trained.")
@click.option("--modules", type=options.AT_LEAST_ONE, metavar="M", help="Number of modules.  [default: 10]")
@click.option("--active", type=options.AT_LEAST_ONE, metavar="K", help="Most modules in use.  [default: 3]")
@click.option("--inputs", type=options.AT_LEAST_ONE, metavar="N", help="Length of x.  [default: 4]")
@click.option("--hidden", type=options.WIDTHS, metavar="H,..", help="Width of each modulated layer.  [default: 4]")
@click.option("--outputs", type=options.AT_LEAST_ONE, metavar="N", help="Number of outputs.  [default: 4]")
@click.option("--weights", type=click.Choice(WEIGHTS), help="Values of z.  [default: discrete]")
@click.option(
    "--split",
    type=Splits(),
    metavar="NAME:F,..",
    help="Splits of the supports, F the share not trained on: random, equal, popular, unpopular, disconnected, "
    "non-compositional, hotness (more than K modules).  [default: random:0.25,random:0.95,non-compositional]",
)
@click.option("--encoding", type=click.Choice(encodings.NAMES), default="identity", show_default=True)
@click.option("--widths", type=options.WIDTHS, metavar="W,..", default="128,128", show_default=True, help="Of the MLP.")
@click.option("--steps", type=options.AT_LEAST_ONE, metavar="N", default=12_000, show_default=True)
@click.option("--rate", type=float, metavar="R", default=1e-3, show_default=True, help="AdamW's learning rate.")
@click.option("--decay", type=float, metavar="D", default=3e-3, show_default=True, help="AdamW's weight decay.")
@click.option(
    "--seeds", type=options.AT_LEAST_ONE, metavar="N", default=SEEDS, show_default=True, help="From --seed on."
)
@click.option("--eps", type=float, metavar="E", default=EPS, show_default=True, help="Of shallow and deep networks.")
@click.option(
    "--points", type=options.AT_LEAST_ONE, metavar="N", default=1000, show_default=True, help="Of each search."
)
@click.option(
    "--full",
    is_flag=True,
    help="Other widths and depths, exact weights to start from, searches, all probes; two hours.",
)
@click.option("--results", metavar="FOLDER", default=RESULTS, show_default=True, help="Where runs are kept.")
@options.common(dtype="float32")
def compare(**given: Any) -> int:
    """Train MLPs on part of the tasks, and put them beside the constructed networks.

    Alone it trains 2 x 128 networks on random hyperteachers (M = 10, K = 3, 4-4-4, discrete), for three splits of the
    supports and three seeds, and shows what they reach on training and on held-out tasks, beside the exact, the shallow
    and the deep construction and two baselines. Networks and rows are kept in --results: started again, it goes on.
    """
    asked = Options(**given)
    options.require_device(asked.device)
    if not (np.isfinite(asked.eps) and asked.eps > 0):
        raise ValueError(f"--eps {asked.eps}: must be a finite number above 0")
    asked.settings  # noqa: B018  refuses what cannot be trained, before anything else is done
    if asked.json_path not in (None, documents.STDOUT):
        documents.require_writable(str(asked.json_path))
    foreign, store, plans = None, None, list[Plan]()
    if asked.trained is not None:
        cases, foreign = asked.foreign_cases()
    else:
        cases, store, plans = asked.cases(), Store(asked.results), _plans(asked)
    document: dict[str, Any] = {
        "command": "kofm compare",
        "version": version(),
        "seed": asked.seed,
        "options": {key: value for key, value in given.items() if key not in _unsaid(asked)},
        "complete": False,
        "rows": [],
        "summary": [],
        "smallest_widths": [],
        "fewest_supports": [],
    }
    sizes = _searched(asked) if asked.full and store is not None and asked.teacher is None else []
    cost = 0.0 if store is None else _cost(cases, plans, store)
    weights = [cost / PARTS] * (PARTS if cost else 0) + [8.0] * len(cases)
    with Steps("kofm compare", weights, asked.quiet) as steps:
        nets = {} if store is None else _train(asked, cases, plans, store, steps, cost)
        for number, case in enumerate(cases):
            steps.begin(f"{case.label}, seed {case.seed}")
            networks = _networks(asked, case, foreign, [(plan, nets[plan][number]) for plan in plans])
            document["rows"] += experiments.rows_of(case, networks, store, asked.measures, asked.device)
            document["summary"] = comparison_tables.summarise(document["rows"])
            _write(asked, document)
            steps.end("measured")
    if sizes and store is not None:
        _search(asked, sizes, store, document)
    document["complete"] = True
    _write(asked, document)
    _show(asked, document)
    return 0


def _unsaid(asked: Options) -> tuple[str, ...]:
    """Options that are no part of the result: those of training do not matter where nothing is trained."""
    own = ("widths", "steps", "rate", "decay", "results") if asked.trained is not None else ()
    return ("json_path", "quiet", *own)


def _plans(asked: Options) -> list[Plan]:
    """What is trained in every case; --full adds widths, depths, and the exact network's weights and size."""
    settings = asked.settings
    plans = [Plan(settings)]
    if asked.full:
        plans += [Plan(replace(settings, widths=widths)) for widths in WIDTHS_FULL if widths != settings.widths]
        if asked.family(asked.seed).weights != "continuous" and asked.encoding == "identity":
            exact = build(asked.family(asked.seed), method="exact").widths
            plans += [Plan(settings, start="exact"), Plan(replace(settings, widths=exact))]
    return plans


def _cost(cases: list[Case], plans: list[Plan], store: Store) -> float:
    """About how many seconds it takes to train what is not in the store: a step costs some for itself, and some for
    each parameter (benchmarks/training.py).
    """
    seconds = 0.0
    for plan in plans:
        settings, left = plan.settings, experiments.untrained_of(cases, plan, store)
        sizes = (cases[0].encoding.width + cases[0].family.inputs, *settings.widths, cases[0].family.outputs)
        parameters = sum(a * b for a, b in pairwise(sizes))
        step = 1e-3 + 5e-11 * settings.tasks * settings.samples * parameters
        seconds += len(left) * settings.steps * step
    return seconds


def _train(
    asked: Options, cases: list[Case], plans: list[Plan], store: Store, steps: Steps, cost: float
) -> dict[Plan, list[nn.Sequential]]:
    """Train (or load) every plan in every case, in PARTS steps of progress if anything is to be trained."""
    found, before, ended = dict[Plan, list[nn.Sequential]](), 0.0, 0
    if cost:
        steps.begin("training")

    def advance(done: float) -> None:
        nonlocal ended
        while cost and ended < PARTS and done * PARTS >= (ended + 1) * cost * (1 - 1e-9):
            ended += 1
            steps.end(f"{100 * ended // PARTS} %")
            if ended < PARTS:
                steps.begin("training")

    for plan in plans:
        own = _cost(cases, [plan], store)

        def progress(done: int, of: int, before: float = before, own: float = own) -> None:
            advance(before + own * done / of)

        found[plan] = experiments.trained(cases, plan, store, device=asked.device, progress=progress)
        before += own
        advance(before)
    return found


def _networks(
    asked: Options, case: Case, foreign: Foreign | None, trained: list[tuple[Plan, nn.Sequential]]
) -> Iterator[Named]:
    """Everything that is compared in a case."""
    yield from experiments.constructed(case.family, asked.eps, options.DTYPES[asked.dtype])
    for plan, net in trained:
        config = experiments.training_config(case, plan)
        yield Named(plan.name, "trained", config, net, experiments.initial_of(case, plan))
    widths = [list(trained[0][0].settings.widths)] if trained else []
    if foreign is not None:
        yield Named("trained (file)", "trained", {"file": str(asked.trained)}, foreign.network)
        widths = [[m.out_features for m in foreign.network if isinstance(m, nn.Linear)][:-1]]
    for own in widths:
        yield Named("untrained", "untrained", {"widths": own}, experiments.untrained(case, own))


def _searched(asked: Options) -> list[int]:
    """The numbers of modules of the searches: those at which the splits they need exist; the others are said."""
    found = []
    for m in MODULES_SEARCHED:
        try:
            family = asked.family(asked.seed, m)
            experiments.cases_of(lambda _, of=family: of, [("random", 0.25)], [asked.seed], asked.encoding)  # type: ignore[misc]
            found.append(m)
        except ValueError as reason:
            click.echo(f"kofm compare: nothing is searched at M = {m} ({reason})", err=True)
    return found


def _search(asked: Options, sizes: list[int], store: Store, document: dict[str, Any]) -> None:
    """For several M the smallest width, and the fewest training supports, with which training generalises."""
    common = (asked.settings, store, asked.device)
    with Steps("kofm compare, searches", [1.0, 2.0] * len(sizes), asked.quiet) as steps:
        for m in sizes:

            def family(seed: int, m: int = m) -> Hyperteacher:
                return asked.family(seed, m)

            steps.begin(f"M = {m}, smallest width")
            cases = experiments.cases_of(family, [("random", 0.25)], asked.run_seeds, asked.encoding)
            document["smallest_widths"].append(searches.smallest_width_of(cases, *common))
            _write(asked, document)
            steps.end(f"{document['smallest_widths'][-1]['width']}")
            steps.begin(f"M = {m}, fewest training supports")
            found = searches.fewest_supports_of(family, asked.run_seeds, asked.encoding, *common)
            document["fewest_supports"].append(found)
            _write(asked, document)
            steps.end(f"{found['supports']} of {found['all_supports']}")


def _write(asked: Options, document: dict[str, Any]) -> None:
    if asked.json_path not in (None, documents.STDOUT):
        documents.write(str(asked.json_path), document)


def _show(asked: Options, document: dict[str, Any]) -> None:
    if asked.json_path == documents.STDOUT:
        text = documents.dumps(document).rstrip("\n")
    elif asked.quiet:
        text = comparison_tables.verdict(document["rows"])
    else:
        found = (document[part] for part in ("rows", "smallest_widths", "fewest_supports"))
        text = comparison_tables.report(*found)
    click.echo(text)
