"""What this project claims, whose claim it is, and how much of its proof a machine has checked.

from theory import claims
claims.run_steps(claims.CLAIMS["C3"])    # [(what a step says, "proved" | "failed" | ..), ..]
claims.as_rows()                         # a row a claim, for a table
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from theory.claims.record import BY_HAND, FAILED, PROVED, Claim, Step, run_steps
from theory.claims.statements import CLAIMS

__all__ = ["BY_HAND", "CLAIMS", "FAILED", "PROVED", "Claim", "Row", "Step", "as_rows", "run_steps"]


class Row(TypedDict):
    """One claim in a table: how many steps of its proof are proved, failed, and not machine-checked."""

    key: str
    title: str
    source: str
    proved: int
    failed: int
    by_hand: int


def as_rows(claims: Iterable[Claim] | None = None) -> list[Row]:
    """Run all steps of the claims (by default all of CLAIMS, some seconds) and count the outcomes."""
    rows: list[Row] = []
    for claim in CLAIMS.values() if claims is None else claims:
        states = [state for _, state in run_steps(claim)]
        rows.append(
            Row(
                key=claim.key,
                title=claim.title,
                source=claim.source,
                proved=states.count(PROVED),
                failed=states.count(FAILED),
                by_hand=states.count(BY_HAND),
            )
        )
    return rows
