"""`kofm compare`: train networks on part of the tasks, put constructed and learned side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from torch import nn

from constructions import build
from theory import Hyperteacher, encodings
from theory.families.hyperteacher import WEIGHTS
from verify import experiments
from verify.cli import comparison_tables, documents, options
from verify.cli.checking import load_teacher
from verify.cli.progress import Steps
from verify.comparison import Measures, Row
from verify.experiments import Case, Named, Plan
from verify.foreign import Foreign, load_trained
from verify.store import Store
from verify.training import Settings
from verify.version import version

SPLITS = (("random", 0.25), ("random", 0.95), ("non-compositional", None))
SEEDS, EPS, RESULTS = 3, 0.1, "kofm-results"
#: Options that a file of a teacher or of a network fixes.
SIZES = ("modules", "active", "inputs", "hidden", "outputs", "weights")
#: Widths and depths that --full adds.
WIDTHS_FULL = ((32, 32), (256, 256), (128,), (128, 128, 128))
#: How many lines of progress a training makes where there is no terminal.
PARTS = 10


@dataclass(frozen=True)
class Options:
    """The options of `kofm compare` by the names of their variables; None: not given."""

    teacher: str | None
    trained: str | None
    modules: int | None
    active: int | None
    inputs: int | None
    hidden: tuple[int, ...] | None
    outputs: int | None
    weights: str | None
    split: tuple[tuple[str, float | None], ...] | None
    encoding: str
    widths: tuple[int, ...]
    steps: int
    rate: float
    decay: float
    seeds: int
    eps: float
    points: int
    full: bool
    results: str
    seed: int
    device: str
    dtype: str
    quiet: bool
    json_path: str | None

    @property
    def settings(self) -> Settings:
        """How networks are trained."""
        return Settings(widths=self.widths, steps=self.steps, rate=self.rate, decay=self.decay)

    @property
    def measures(self) -> Measures:
        """How much is measured."""
        return Measures(points=self.points, everything=self.full)

    @property
    def run_seeds(self) -> range:
        """The seeds, from --seed on."""
        return range(self.seed, self.seed + self.seeds)

    def family(self, seed: int, modules: int | None = None) -> Hyperteacher:
        """The family of a seed: the teacher's, or a random one."""
        if self.teacher is not None:
            return load_teacher(self.teacher)
        m = modules or self.modules or 10
        sizes = (self.inputs or 4, self.hidden or (4,), self.outputs or 4)
        return Hyperteacher.sample(m, self.active or min(3, m), *sizes, self.weights or "discrete", seed)

    def cases(self) -> list[Case]:
        """The cases to compare on."""
        if self.teacher is not None:
            options.refuse_given(self, "the file of --teacher says that already", *SIZES)
        return experiments.cases_of(self.family, self.split or SPLITS, self.run_seeds, self.encoding)

    def foreign_cases(self) -> tuple[list[Case], Foreign]:
        """The cases for a network from a file: the split stored with it, or those asked for."""
        assert self.trained is not None
        found = load_trained(self.trained)
        options.refuse_given(self, "the network of --trained comes with its sizes", *SIZES)
        family = load_teacher(self.teacher) if self.teacher is not None else found.family
        if family is None:
            raise ValueError(f"{self.trained}: holds no teacher (modules_0, readout, ..); name one with --teacher")
        if found.split is not None and self.split is None:
            return [Case(family, found.split, self.seed, self.encoding)], found
        return experiments.cases_of(lambda _: family, self.split or SPLITS, self.run_seeds, self.encoding), found


class _Splits(click.ParamType):
    """Comma-separated splits, each a name, or name:fraction."""

    name = "splits"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises click.BadParameter, one line, for a fraction that is no number."""
        if isinstance(value, tuple):
            return value
        found = []
        for text in str(value).split(","):
            name, _, fraction = text.strip().partition(":")
            try:
                found.append((name, float(fraction) if fraction else None))
            except ValueError:
                self.fail(f"{fraction!r} is no fraction; write for example random:0.25", param, ctx)
        return tuple(dict.fromkeys(found))


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
    type=_Splits(),
    metavar="NAME:F,..",
    help="Splits of the supports, F the share not trained on: random, equal, popular, unpopular, disconnected, "
    "non-compositional.  [default: random:0.25,random:0.95,non-compositional]",
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
@click.option("--full", is_flag=True, help="Other widths and depths, exact weights to start from, all probes; an hour.")
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
    settings = asked.settings  # refuses what cannot be trained, before anything else is done
    if asked.json_path not in (None, documents.STDOUT):
        documents.require_writable(str(asked.json_path))
    if asked.trained is not None:
        cases, foreign = asked.foreign_cases()
        store, plans = None, []
    else:
        cases, foreign = asked.cases(), None
        store, plans = Store(asked.results), _plans(asked, settings)
    rows: list[Row] = []
    smallest: list[Row] = []
    thousands = sum(plan.settings.steps * len(cases) for plan in plans) / 1000
    weights = [3 * thousands / PARTS] * (PARTS if plans else 0) + [8.0] * len(cases)
    with Steps("kofm compare", weights, asked.quiet) as steps:
        nets = _train(asked, cases, plans, store, steps) if store is not None else {}
        for number, case in enumerate(cases):
            steps.begin(f"{case.label}, seed {case.seed}")
            networks = _networks(asked, case, foreign, [(plan, nets[plan][number]) for plan in plans])
            rows += experiments.rows_of(case, networks, store, asked.measures, asked.device)
            _store(asked, given, rows, smallest, complete=False)
            steps.end("measured")
    if asked.full and store is not None and asked.teacher is None:
        smallest = _smallest_widths(asked, settings, store)
    _store(asked, given, rows, smallest, complete=True)
    _show(asked, given, rows, smallest)
    return 0


def _plans(asked: Options, settings: Settings) -> list[Plan]:
    """What is trained in every case; --full adds widths, depths, and the exact network's weights and size."""
    if not asked.full:
        return [Plan(settings)]
    plans = [Plan(settings)]
    plans += [Plan(replace(settings, widths=widths)) for widths in WIDTHS_FULL if widths != settings.widths]
    if asked.family(asked.seed).weights != "continuous" and asked.encoding == "identity":
        exact = build(asked.family(asked.seed), method="exact").widths
        plans += [Plan(settings, start="exact"), Plan(replace(settings, widths=exact))]
    return plans


def _train(
    asked: Options, cases: list[Case], plans: list[Plan], store: Store, steps: Steps
) -> dict[Plan, list[nn.Sequential]]:
    """Train (or load) every plan in every case, in PARTS steps of progress."""
    found, before, ended = {}, 0, 0
    total = sum(plan.settings.steps * len(cases) for plan in plans)
    steps.begin("training")

    def advance(done: int) -> None:
        nonlocal ended
        while ended < PARTS and done * PARTS >= (ended + 1) * total:
            steps.end(f"{done:,} of {total:,} steps")
            ended += 1
            if ended < PARTS:
                steps.begin("training")

    for plan in plans:
        before += plan.settings.steps * len(cases)

        def progress(done: int, of: int, after: int = before) -> None:
            advance(after - of + done)  # what was loaded counts as done: ``of`` is what is trained now

        found[plan] = experiments.trained(cases, plan, store, device=asked.device, progress=progress)
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


def _smallest_widths(asked: Options, settings: Settings, store: Store) -> list[Row]:
    """For several M the smallest width that generalises, beside the exact network's count."""
    found = []
    sizes = experiments.MODULES_SEARCHED
    with Steps("kofm compare, smallest width", [1.0] * len(sizes), asked.quiet) as steps:
        for m in sizes:
            steps.begin(f"M = {m}")

            def family(seed: int, m: int = m) -> Hyperteacher:
                return asked.family(seed, m)

            cases = experiments.cases_of(family, [("random", 0.25)], asked.run_seeds, asked.encoding)
            found.append(experiments.smallest_width_of(cases, settings, store, asked.device))
            steps.end(f"width {found[-1]['width']}")
    return found


def _document(
    asked: Options, given: dict[str, Any], rows: list[Row], smallest: list[Row], complete: bool
) -> dict[str, Any]:
    return {
        "command": "kofm compare",
        "version": version(),
        "seed": asked.seed,
        "options": {key: value for key, value in given.items() if key not in ("json_path", "quiet")},
        "complete": complete,
        "rows": rows,
        "summary": comparison_tables.summarise(rows),
        "smallest_widths": smallest,
    }


def _store(asked: Options, given: dict[str, Any], rows: list[Row], smallest: list[Row], complete: bool) -> None:
    if asked.json_path not in (None, documents.STDOUT):
        documents.write(str(asked.json_path), _document(asked, given, rows, smallest, complete))


def _show(asked: Options, given: dict[str, Any], rows: list[Row], smallest: list[Row]) -> None:
    if asked.json_path == documents.STDOUT:
        text = documents.dumps(_document(asked, given, rows, smallest, True)).rstrip("\n")
    elif asked.quiet:
        text = comparison_tables.verdict(rows)
    else:
        text = comparison_tables.report(rows, smallest)
    click.echo(text)
