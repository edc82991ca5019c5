"""What `kofm check` prints: the table of rows, the fits, the verdict."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from verify.cli.rows import Fit, Row

COLOURS = {
    "holds": "green",
    "violated": "bold red",
    "unknown": "yellow",
    "failed": "bold red",
    "stale": "yellow",
}


def number(value: float | None) -> str:
    """A measured or guaranteed error, short; '-' for what was not computed."""
    return "-" if value is None else "0" if value == 0 else f"{value:.2g}"


def whole(value: int | None) -> str:
    """A count, with commas; '-' for what does not exist."""
    return "-" if value is None else f"{value:,}"


_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("M", lambda row: str(row["modules"])),
    ("weights", lambda row: row["weights"]),
    ("method", lambda row: row["method"]),
    ("route", lambda row: row["route"]),
    ("eps", lambda row: number(row["eps"])),
    ("tasks T", lambda row: whole(row["tasks"])),
    ("neurons", lambda row: whole(row["neurons"])),
    ("closed form", lambda row: whole(row["neurons_formula"])),
    ("depth", lambda row: str(row["depth"])),
    ("guaranteed", lambda row: number(row["guaranteed"])),
    ("rounding", lambda row: number(row["rounding"])),
    ("certified", lambda row: number(row["certified"])),
    ("measured", lambda row: number(row["measured"])),
    ("memorise neurons", lambda row: whole(row["memorise_neurons"])),
    ("status", lambda row: row["status"]),
)
_TEXT = ("weights", "method", "route", "status", "claim", "title", "source", "state", "split", "network")


def render(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table at its natural width (a narrow terminal wraps it; nothing is cut), colours only on a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading.replace(" ", "\n"), justify="left" if heading in _TEXT else "right", no_wrap=True)
    for line in lines:
        table.add_row(*(Text(entry, style=COLOURS.get(entry.split(" ")[0], "")) for entry in line))
    page = io.StringIO()
    Console(file=page, width=1000, force_terminal=sys.stdout.isatty()).print(table)
    return "\n".join(part.rstrip() for part in page.getvalue().splitlines())


def check_table(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    return render([name for name, _ in _COLUMNS], [[show(row) for _, show in _COLUMNS] for row in rows])


def fit_line(fit: Fit) -> str:
    """One fit in words."""
    kind = f"{fit['weights']} {fit['method']}, route {fit['route']}"
    fixed = {"M": fit["eps"] and f", eps {fit['eps']:g}"}.get(fit["against"], f", M = {fit['modules']}") or ""
    at = ", ".join(f"{value:g}" for value in fit["x"])
    where = f"{kind}{fixed}, {fit['against']} = {at}" + (f" ({fit['only']})" if fit["only"] else "")
    if fit["slope"] is None:
        counts = ", ".join(map(whole, fit["neurons"]))
        return f"{where}: {counts} neurons; too few for a fit"
    line = f"{fit['slope']:.6g} {fit['against']} {'-' if fit['intercept'] < 0 else '+'} {abs(fit['intercept']):.6g}"
    quality = "constant" if fit["r2"] is None else f"R2 = {_r2(fit['r2'])}"
    return f"{where}: neurons = {line}, {quality}"


def _r2(value: float) -> str:
    """R2, never rounded up to 1."""
    return "1" if value > 1 - 1e-12 else f"{min(value, 0.999999):.6g}"


def summary(rows: Sequence[Row], state: str, asked: int) -> str:
    """The verdict in one line, naming the rows that do not hold, or saying how many were not reached."""
    failing = [row for row in rows if row["status"] != "holds"]
    if not failing and len(rows) < asked:
        return f"stopped: {len(rows)} of {asked} rows hold, the others were not reached"
    if not failing:
        return f"{state}: {len(rows)} of {asked} rows"
    named = ", ".join(f"{r['weights']} {r['method']} M = {r['modules']}" for r in failing[:3])
    more = ", .." if len(failing) > 3 else ""
    return f"{state}: {len(failing)} of {len(rows)} rows do not hold ({named}{more})"


def report(rows: Sequence[Row], fits: Sequence[Fit], state: str, asked: int) -> str:
    """Everything that `kofm check` shows: table, fits, reasons, verdict."""
    parts: list[Any] = [check_table(rows)]
    if fits:
        parts.append("Neurons, measured by regression (least squares on rows of one route; no proof):")
        parts[-1] += "".join(f"\n  {fit_line(fit)}" for fit in fits)
    for row in rows:
        if row["status"] != "holds":
            parts.append(f"{row['weights']} {row['method']} M = {row['modules']} is {row['status']}: {row['reason']}")
    return "\n\n".join([*parts, summary(rows, state, asked)])
