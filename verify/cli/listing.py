"""`kofm claims`: what is claimed, by whom, and what evidence is stored for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from theory.bounds import BOUNDS
from theory.claims import CLAIMS, Claim
from verify import evidence
from verify.cli import documents, options, tables
from verify.cli.progress import Steps
from verify.evidence import Record
from verify.version import version


def collect(keys: list[str], quiet: bool) -> list[Record]:
    """All evidence for the claims, anew: symbolic steps, then the measured rows."""
    installed = version()
    measurements = [m for m in evidence.MEASUREMENTS if m.claim in keys]
    records: list[Record] = []
    with Steps(evidence.REFRESH, [1.0] * len(keys) + [8.0] * len(measurements), quiet) as steps:
        for key in keys:
            steps.begin(f"{key} steps")
            records += evidence.symbolic_records(CLAIMS[key], installed)
            steps.end("done")
        for measurement in measurements:
            steps.begin(f"{measurement.claim} measured")
            found = evidence.measured_records(measurement, installed)
            records += found
            steps.end(", ".join(record["state"] for record in found))
    return records


def refresh(keys: list[str], seed: int, quiet: bool, path: Path | None = None) -> list[Record]:
    """Rewrite the stored table for these claims, keeping what it holds of others; returns all records."""
    path = evidence.PATH if path is None else path
    documents.require_writable(path)
    everything = set(keys) == set(CLAIMS)
    kept = [] if everything else [r for r in evidence.load(path) if r["claim"] not in keys]
    records = kept + collect(keys, quiet)
    records.sort(key=lambda record: list(CLAIMS).index(record["claim"]) if record["claim"] in CLAIMS else len(CLAIMS))
    document = {"command": evidence.REFRESH, "version": version(), "seed": seed, "records": records}
    documents.write(path, document)
    return records


@click.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--refresh", "anew", is_flag=True, help="Prove and measure anew, and rewrite the stored table (a minute)."
)
@options.common()
def claims(keys: tuple[str, ...], anew: bool, quiet: bool, json_path: str | None, seed: int, **_: Any) -> int:
    """List the claims with their evidence; with a KEY such as C3, all that is known of it.

    Evidence comes from a stored table: steps of a proof that sympy has checked, steps that stand by hand, and what
    `kofm check` measured, each with the command that measures it again. A claim whose words have changed since is
    shown as stale. --seed, --device and --dtype change nothing here: each record names its own.
    """
    chosen = [_known(key) for key in keys] or list(CLAIMS)
    if json_path not in (None, documents.STDOUT):
        documents.require_writable(str(json_path))
    records = refresh(chosen, 0, quiet) if anew else evidence.load()
    rows = [_row(CLAIMS[key], records) for key in chosen]
    document = {"command": "kofm claims", "version": version(), "seed": seed, "rows": rows}
    if json_path == documents.STDOUT:
        click.echo(documents.dumps(document), nl=False)
        return 0
    if json_path is not None:
        documents.write(json_path, document)
    if quiet:
        click.echo("\n".join(f"{row['claim']}: {row['state']}" for row in rows))
    elif keys:
        click.echo("\n\n".join(_details(row) for row in rows))
    else:
        click.echo(_overview(rows))
    return 0


def _known(key: str) -> str:
    if key.upper() not in CLAIMS:
        raise click.BadParameter(f"{key!r} is no claim; use one of {', '.join(CLAIMS)}", param_hint="KEY")
    return key.upper()


def _row(claim: Claim, records: list[Record]) -> dict[str, Any]:
    own = [record for record in records if record["claim"] == claim.key]
    stored = {record["what"]: record["state"] for record in own if record["kind"] != "measured"}
    return {
        "claim": claim.key,
        "title": claim.title,
        "source": claim.source,
        **evidence.standing(claim, records),
        "statement": claim.statement,
        "assumptions": list(claim.assumptions),
        "fixed": claim.fixed,
        "steps": [{"what": s.text, "state": stored.get(s.text, evidence.NO_EVIDENCE)} for s in claim.steps],
        "bounds": [
            {"bound": key, "claim": BOUNDS[key].claim, "kind": BOUNDS[key].kind, "latex": BOUNDS[key].latex()}
            for key in claim.bounds
        ],
        "evidence": own,
    }


def _overview(rows: list[dict[str, Any]]) -> str:
    headings = ("claim", "title", "source", "proved steps", "by hand", "measured", "bounds", "state")
    lines = [
        (
            row["claim"],
            row["title"],
            row["source"].split(",")[0].split(";")[0],
            str(row["proved"]),
            str(row["by_hand"]),
            f"{row['held']}/{row['measured']}" if row["measured"] else "-",
            str(len(row["bounds"])) if row["bounds"] else "-",
            row["state"],
        )
        for row in rows
    ]
    notes = (
        "proved: steps that sympy has checked for all values; by hand: steps no machine has checked; measured: records",
        "of `kofm check` that hold, evidence and no proof; bounds: closed forms. `kofm claims KEY` shows each of them.",
    )
    return "\n".join([tables.render(headings, lines), "", *notes])


def _details(row: dict[str, Any]) -> str:
    lines = [f"{row['claim']}  {row['title']}", f"state: {row['state']}", "", row["statement"], ""]
    lines += [f"source   {row['source']}", *(f"assumes  {text}" for text in row["assumptions"])]
    lines += [f"fixed as M grows: {row['fixed']}", "", "Proof"]
    lines += [f"  [{step['state']}] {step['what']}" for step in row["steps"]]
    if row["bounds"]:
        lines += ["", "Closed forms", *(f"  {b['bound']} ({b['kind']}): {b['latex']}" for b in row["bounds"])]
    measured = [record for record in row["evidence"] if record["kind"] == "measured"]
    if measured:
        lines += ["", "Measured"]
        for record in measured:
            lines += [
                f"  [{record['state']}] {record['what']}: {_value(record)}",
                f"      {record['command']}",
            ]
    return "\n".join(lines)


def _value(record: Record) -> str:
    value = record["value"]
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
