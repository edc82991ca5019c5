"""`kofm check`: build the networks of a family for a list of M, count them, try to break their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from constructions import METHODS
from constructions.routes import ROUTES
from theory import Family, Hyperteacher, Words
from theory.families.hyperteacher import WEIGHTS
from verify.cli import documents, options, tables
from verify.cli.progress import Steps
from verify.cli.rows import Case, Row, fits, measure, verdict
from verify.store import require_folder
from verify.version import version

MODULES = (4, 8, 16, 32, 64)
EPS = 0.1
POINTS, POINTS_THOROUGH = 4_000, 100_000
EXIT_CODES = {"holds": 0, "violated": 1, "unknown": 3}


@dataclass(frozen=True)
class Options:
    """The options of `kofm check` by the names of their variables; None: not given."""

    family: str | None
    teacher: str | None
    modules: tuple[int, ...] | None
    active: int | None
    inputs: int | None
    hidden: tuple[int, ...] | None
    outputs: int | None
    weights: str | None
    eps: tuple[float, ...] | None
    method: str | None
    route: str
    points: int | None
    thorough: bool
    certify: bool
    certificates: str | None
    seed: int
    device: str
    dtype: str
    quiet: bool
    json_path: str | None

    @property
    def search(self) -> int:
        """How many points each row is measured at."""
        return self.points or (POINTS_THOROUGH if self.thorough else POINTS)

    def families(self) -> list[Family]:
        """The families to check, in order. ValueError for options that contradict one another."""
        if self.teacher is not None:
            fixed = ("family", "modules", "active", "inputs", "hidden", "outputs", "weights")
            options.refuse_given(self, "the file of --teacher says that already", *fixed)
            return [load_teacher(self.teacher)]
        active = self.active or 3
        if self.family == "words":
            options.refuse_given(
                self,
                "words have none (their sizes are --modules, --active, --inputs)",
                "hidden",
                "outputs",
                "weights",
            )
            return [Words.sample(m, active, self.inputs or 2, self.seed) for m in self.modules or MODULES]
        few = [m for m in self.modules or MODULES if m < active]
        if few:
            raise ValueError(f"--active {active}: more than --modules {few[0]}; need 1 <= active <= modules")
        sizes = (self.inputs or 16, self.hidden or (16,), self.outputs or 16)
        return [
            Hyperteacher.sample(m, active, *sizes, weights, self.seed)
            for weights in self._weights()
            for m in self.modules or MODULES
        ]

    def cases(self) -> list[Case]:
        """The rows to come, in order."""
        return [
            Case(family, method, self.route, eps)
            for family in self.families()
            for method in self._methods(family)
            for eps in self.eps or (EPS if _approximates(family, method) else None,)
        ]

    def _weights(self) -> tuple[str, ...]:
        if self.weights is not None:
            return (self.weights,)
        if self.method in (None, "auto"):
            return ("khot", "continuous")
        return ("khot",) if self.method in ("exact", "memorise") else ("continuous",)

    def _methods(self, family: Family) -> tuple[str, ...]:
        if self.method is not None:
            return (self.method,)
        return ("shallow", "deep") if _continuous(family) else ("exact",)


def load_teacher(path: str) -> Hyperteacher:
    """The hyperteacher of a file; ValueError, one line that names the file, for anything else."""
    if Path(path).is_dir():
        raise ValueError(f"{path}: is a folder; give a .npz or .safetensors file of a hyperteacher")
    try:
        return Hyperteacher.load(path)
    except (ValueError, TypeError, ArithmeticError) as reason:
        # Whatever a damaged file leads to while it is read is the file's fault; say which file.
        text = str(reason)
        raise ValueError(text if path in text else f"{path}: {text}") from reason


def _continuous(family: Family) -> bool:
    return isinstance(family, Hyperteacher) and family.weights == "continuous"


def _approximates(family: Family, method: str) -> bool:
    return method in ("shallow", "deep") or (method == "auto" and _continuous(family))


def run(asked: Options, cases: list[Case], title: str = "kofm check") -> Iterator[Row]:
    """The rows, one by one as they are ready, with progress on stderr."""
    with Steps(title, [case.weight for case in cases], asked.quiet) as steps:
        for case in cases:
            steps.begin(case.label)
            certify, folder = asked.certify or asked.certificates is not None, asked.certificates
            row = measure(case, options.DTYPES[asked.dtype], asked.search, asked.seed, asked.device, certify, folder)
            yield row
            steps.end(f"{row['status']}, {row['seconds']:.1f} s")


def measured_by(arguments: list[str]) -> list[Row]:
    """The rows of a `kofm check` command line, without printing anything."""
    with check.make_context("kofm check", [*arguments, "--quiet"]) as context:
        asked = Options(**context.params)
    return list(run(asked, asked.cases()))


@click.command()
@click.option(
    "--family", type=click.Choice(["hyperteacher", "words"]), help="Family of tasks.  [default: hyperteacher]"
)
@click.option("--teacher", metavar="FILE", help="A hyperteacher, .npz or .safetensors, in place of a random one.")
@click.option(
    "--modules", type=options.MODULES, metavar="M,M,..", help="Numbers of modules M.  [default: 4,8,16,32,64]"
)
@click.option(
    "--active",
    type=options.AT_LEAST_ONE,
    metavar="N",
    help="K: most modules in use; length of words.  [default: 3]",
)
@click.option("--inputs", type=options.AT_LEAST_ONE, metavar="N", help="Length of x.  [default: 16; words: 2]")
@click.option("--hidden", type=options.WIDTHS, metavar="H,..", help="Width of each modulated layer.  [default: 16]")
@click.option("--outputs", type=options.AT_LEAST_ONE, metavar="N", help="Number of outputs.  [default: 16]")
@click.option("--weights", type=click.Choice(WEIGHTS), help="Values of z.  [default: khot, then continuous]")
@click.option(
    "--eps",
    type=options.EPSILONS,
    metavar="E,E,..",
    help=f"Errors to accept, a row each.  [default: {EPS:g} where the method approximates; none where it is exact]",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="[default: exact for khot, discrete, words; else shallow and deep]",
)
@click.option("--route", type=click.Choice(["auto", *ROUTES]), default="auto", show_default=True)
@click.option(
    "--points", type=options.AT_LEAST_ONE, metavar="N", help=f"Points to search a row.  [default: {POINTS:,}]"
)
@click.option("--thorough", is_flag=True, help=f"A longer search: {POINTS_THOROUGH:,} points unless --points is given.")
@click.option("--certify", is_flag=True, help="Also certify the stored weights (seconds to minutes a row).")
@click.option("--certificates", metavar="FOLDER", help="Certify, and write certificates for `kofm verify-certificate`.")
@options.common()
@click.pass_context
def check(context: click.Context, **given: Any) -> int:
    """Build networks, count their neurons, and try to break their bounds.

    Alone it checks random hyperteachers (K = 3, 16-16-16) of growing M: khot weights exactly, continuous ones to
    eps = 0.1 with a shallow and a deep network; the memorising network is counted beside them. An exact network
    is the same whatever --eps is; its errors are held against it all the same.

    \b
    Exit code: 1 if a row is violated, else 3 if one is unknown, else 0; 2 for bad usage or input; 130 for Ctrl-C,
    which leaves the rows so far in the --json file and prints them.
    """
    asked = Options(**given)
    options.require_device(asked.device)
    cases = asked.cases()
    if asked.certificates is not None:
        require_folder(Path(asked.certificates))
    if asked.json_path not in (None, documents.STDOUT):
        documents.require_writable(str(asked.json_path))
    rows: list[Row] = []
    try:
        for row in run(asked, cases):
            rows.append(row)
            _store(asked, given, rows, len(cases))
    except BaseException:
        if rows:
            _show(asked, given, rows, len(cases))
        raise
    _show(asked, given, rows, len(cases))
    return EXIT_CODES[verdict(rows)]


def _document(asked: Options, given: dict[str, Any], rows: list[Row], total: int) -> dict[str, Any]:
    return {
        "command": "kofm check",
        "version": version(),
        "seed": asked.seed,
        "options": {key: value for key, value in given.items() if key not in ("json_path", "quiet")},
        "complete": len(rows) == total,
        "status": verdict(rows) if len(rows) == total or verdict(rows) == "violated" else "unknown",
        "rows": rows,
        "fits": fits(rows),
    }


def _store(asked: Options, given: dict[str, Any], rows: list[Row], total: int) -> None:
    if asked.json_path not in (None, documents.STDOUT):
        documents.write(str(asked.json_path), _document(asked, given, rows, total))


def _show(asked: Options, given: dict[str, Any], rows: list[Row], total: int) -> None:
    document = _document(asked, given, rows, total)
    if asked.json_path == documents.STDOUT:
        text = documents.dumps(document).rstrip("\n")
    elif asked.quiet:
        text = tables.summary(rows, document["status"], total)
    else:
        text = tables.report(rows, document["fits"], document["status"], total)
    click.echo(text)
