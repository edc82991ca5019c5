"""The stored evidence for the claims: what sympy proves, what `kofm check` measures, what stands by hand.

`verify/evidence.json` is written by `kofm claims --refresh` and shipped with the package. Every record carries a hash
of the claim's words, so that a table older than its claim is seen to be stale.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from theory import claims
from theory.bounds import BOUNDS
from theory.claims import BY_HAND, CLAIMS, FAILED, PROVED, Claim

Kind = Literal["proved symbolically", "not machine-checked", "measured"]

PATH = Path(__file__).with_name("evidence.json")
REFRESH = "kofm claims --refresh"
NO_EVIDENCE, STALE = "no evidence stored", "stale"

#: Measured records come from commands with these settings: small, so that the table is written in a minute.
SEARCH = "--points 2000 --seed 0 --device cpu"


class Record(TypedDict):
    """One piece of evidence. value: the number measured, null for symbolic steps. command: reproduces it."""

    claim: str
    kind: Kind
    what: str
    value: float | int | None
    state: str
    command: str
    version: str
    hash: str


class Standing(TypedDict):
    """How a claim stands: the numbers of its steps and records by outcome, and the sum of it in a word or two."""

    proved: int
    failed: int
    by_hand: int
    measured: int
    held: int
    state: str


Outcome = tuple[str, float | int | None, str]  # what was found, the number, the state
Judge = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Iterator[Outcome]]


@dataclass(frozen=True)
class Measurement:
    """A command of `kofm check` that bears on a claim, and how its rows and fits are read."""

    claim: str
    arguments: str
    judge: Judge

    @property
    def command(self) -> str:
        """What to type to see the same rows."""
        return f"kofm check {self.arguments} {SEARCH}"

    def outcomes(self) -> Iterator[Outcome]:
        """Run the command, without printing, and judge its rows."""
        # Not above: the command line imports this module.
        from verify.cli.checking import measured_by
        from verify.cli.rows import fits

        rows = measured_by(shlex.split(self.command)[2:])
        return self.judge(rows, fits(rows))


@dataclass(frozen=True)
class Calculation:
    """What refreshing a claim works out by itself: the function of that name in `verify.calculations`."""

    claim: str
    name: str

    @property
    def command(self) -> str:
        """What to type to have it worked out again."""
        return f"{REFRESH} {self.claim}"

    def outcomes(self) -> Iterator[Outcome]:
        """Work it out."""
        from verify import calculations  # with torch and scikit-learn: only when asked for

        work: Callable[[], Iterator[Outcome]] = getattr(calculations, self.name)
        return work()


def _state(held: bool) -> str:
    return "holds" if held else "violated"


def _errors(rows: list[dict[str, Any]], _: Any) -> Iterator[Outcome]:
    """The bound of every row, as the search judged it."""
    sizes = ", ".join(dict.fromkeys(f"{row['modules']}" for row in rows))
    worst = max(rows, key=lambda row: row["measured"] / (row["guaranteed"] + row["rounding"]))
    states = {row["status"] for row in rows}
    state = next(s for s in ("violated", "unknown", "holds") if s in states)
    exact = not any(row["guaranteed"] for row in rows)
    limit = f"{worst['guaranteed'] + worst['rounding']:.2g}" + (", rounding alone" if exact else "")
    yield f"largest error found (M = {sizes}; bound there {limit})", worst["measured"], state


def _counts(rows: list[dict[str, Any]], bound: str, **numbers: int) -> Iterator[Outcome]:
    """Neurons of the largest network against the claim's closed form."""
    row = rows[-1]
    least = BOUNDS[bound].evaluate(**numbers).neurons
    what = f"neurons at M = {row['modules']}; closed form {bound}: {least:,}"
    yield what, row["neurons"], _state(row["neurons"] <= least)


def _exact(bound: str, **numbers: int) -> Judge:
    def judge(rows: list[dict[str, Any]], fits: list[dict[str, Any]]) -> Iterator[Outcome]:
        yield from _errors(rows, fits)
        yield from _counts(rows, bound, **numbers)

    return judge


def _line(what: str, against: str) -> Judge:
    """Whether the neurons lie on a line (R2 at least .999), and its slope."""

    def judge(_: Any, fits: list[dict[str, Any]]) -> Iterator[Outcome]:
        fit = next((f for f in fits if f["against"] == against and f["slope"] is not None), None)
        if fit is None:
            yield f"{what}: too few points on one route", None, "unknown"
            return
        r2 = 1.0 if fit["r2"] is None else fit["r2"]
        at = ", ".join(f"{x:g}" for x in fit["x"])
        text = f"{what}, measured by regression at {against} = {at}; R2 {r2:.6f}, at least .999 asked"
        yield text, fit["slope"], "holds" if r2 >= 0.999 else "unknown"

    return judge


def _both(*judges: Judge) -> Judge:
    def judge(rows: list[dict[str, Any]], fits: list[dict[str, Any]]) -> Iterator[Outcome]:
        for one in judges:
            yield from one(rows, fits)

    return judge


_SMALL = "--inputs 4 --hidden 4 --outputs 4"
_EPS = "--eps 1e-1,1e-2,1e-3,1e-4"
MEASUREMENTS: tuple[Measurement | Calculation, ...] = (
    Measurement(
        "C1",
        f"--weights continuous --method shallow --route M {_SMALL} --modules 4,8,16,32 --eps 1e-1",
        _both(_errors, _line("neurons a module (route M)", "M")),
    ),
    Measurement(
        "C1",
        f"--weights continuous --method shallow --route N {_SMALL} --modules 8 {_EPS}",
        _line("neurons for each 1/sqrt(eps) (route N)", "1/sqrt(eps)"),
    ),
    Measurement(
        "C2",
        "--weights khot --modules 4,8,16,32,64",
        _both(_exact("exact-khot", M=64, N=16, H=16), _line("neurons a module", "M")),
    ),
    Measurement("C3", "--weights discrete --modules 4,8,16", _exact("exact-grid", M=16, N=16, H=16, L=6)),
    Measurement("C4", f"--weights continuous --method shallow {_SMALL} --modules 4,8 --eps 1e-1,1e-2,1e-3", _errors),
    Measurement(
        "C5",
        f"--weights continuous --method deep --route N {_SMALL} --modules 8 {_EPS},1e-5,1e-6",
        _both(_errors, _line("neurons for each log2(1/eps)", "log2(1/eps)")),
    ),
    Measurement(
        "C7",
        f"--weights khot --method memorise {_SMALL} --modules 4,6,8",
        _exact("memorise", M=8, K=3, H=4),
    ),
    Measurement(
        "C11",
        "--weights khot --modules 4,8 --active 2 --inputs 8 --hidden 8,8 --outputs 8",
        _exact("layers-khot", M=8, N=8, H1=8, Hd=8, widths=16, D=2),
    ),
    Measurement(
        "C11",
        "--weights discrete --modules 4 --active 2 --inputs 4 --hidden 4,4 --outputs 4",
        _exact("layers-grid", M=4, N=4, H1=4, Hd=4, widths=8, D=2, L=6),
    ),
    Measurement("C13", "--family words --modules 2,4,8,16", _exact("chain", K=3, M=16, d=2)),
    Calculation("C9", "decoding"),
    Calculation("C14", "layers"),
    Calculation("C15", "spans"),
)


def source_hash(claim: Claim) -> str:
    """A hash of everything the claim says: statement, assumptions, what is fixed, and the texts of its steps."""
    words = [claim.key, claim.title, claim.statement, claim.source, *claim.assumptions, claim.fixed]
    words += [*(step.text for step in claim.steps), *claim.bounds]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def symbolic_records(claim: Claim, version: str) -> list[Record]:
    """Run the claim's steps: a record each."""
    command = shlex.join([*REFRESH.split(), claim.key])
    return [
        Record(
            claim=claim.key,
            kind="not machine-checked" if state == BY_HAND else "proved symbolically",
            what=text,
            value=None,
            state=state,
            command=command,
            version=version,
            hash=source_hash(claim),
        )
        for text, state in claims.run_steps(claim)
    ]


def measured_records(measurement: Measurement | Calculation, version: str) -> list[Record]:
    """Measure, and keep what was found: a record each."""
    return [
        Record(
            claim=measurement.claim,
            kind="measured",
            what=what,
            value=value,
            state=state,
            command=measurement.command,
            version=version,
            hash=source_hash(CLAIMS[measurement.claim]),
        )
        for what, value, state in measurement.outcomes()
    ]


def load(path: Path | None = None) -> list[Record]:
    """The stored records; none if there is no table. ValueError, one line, for a table that cannot be read."""
    path = PATH if path is None else path
    if not path.is_file():
        return []
    try:
        records: list[Record] = json.loads(path.read_text(encoding="utf-8"))["records"]
        if any(set(record) != set(Record.__annotations__) for record in records):
            raise KeyError("a record with other fields")
    except (OSError, ValueError, KeyError, TypeError) as reason:
        raise ValueError(f"{path}: not a table of evidence ({reason}); run {REFRESH}") from reason
    return records


def standing(claim: Claim, records: list[Record]) -> Standing:
    """How a claim stands by the stored records."""
    own = [record for record in records if record["claim"] == claim.key]
    states = [record["state"] for record in own]
    measured = [record["state"] for record in own if record["kind"] == "measured"]
    found = Standing(
        proved=states.count(PROVED),
        failed=states.count(FAILED),
        by_hand=states.count(BY_HAND),
        measured=len(measured),
        held=measured.count("holds"),
        state="",
    )
    found["state"] = _in_words(claim, own, found)
    return found


def _in_words(claim: Claim, own: list[Record], found: Standing) -> str:
    if not own:
        return NO_EVIDENCE
    if any(record["hash"] != source_hash(claim) for record in own):
        return STALE
    if found["failed"]:
        return "failed (a step of the proof)"
    if any(record["state"] == "violated" for record in own):
        return "violated (measured)"
    if found["held"] < found["measured"]:
        return "unknown (measured)"
    proof = "proof partly by hand" if found["by_hand"] else "proof machine-checked"
    return f"holds, {proof}" if found["measured"] else f"{proof}, not measured"
