"""What a claim is, and how its proof is run.

A claim is words, with assumptions, and a proof in steps. A step with a `check` is proved by sympy for ALL
values of its symbols (never by trying numbers); a step without one is not machine-checked, and its text says
who answers for it: "by hand: ..." or "checked numerically by tests: ...".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PROVED, FAILED, BY_HAND = "proved", "failed", "not machine-checked"


@dataclass(frozen=True)
class Step:
    """One step of a proof: what it says, and the symbolic check of it where there is one."""

    text: str
    check: Callable[[], bool] | None = None

    def run(self) -> tuple[str, str]:
        """(text, state). A check that raises has not proved anything: it failed, and the text says why."""
        if self.check is None:
            return self.text, BY_HAND
        try:
            held = self.check()
        except Exception as reason:  # a report must come out whatever a check does
            return f"{self.text} [{type(reason).__name__}: {reason}]", FAILED
        # `is True`: an undecided sympy relation is truthy or raises, and neither is a proof.
        return self.text, PROVED if held is True else FAILED


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of this project.

    `source` says whose it is; `fixed` what stays fixed as M grows; `bounds` are the keys of
    `theory.bounds.BOUNDS` that put it in closed form.
    """

    key: str
    title: str
    statement: str
    source: str
    assumptions: tuple[str, ...]
    fixed: str
    steps: tuple[Step, ...]
    bounds: tuple[str, ...] = ()


def run_steps(claim: Claim) -> list[tuple[str, str]]:
    """Each step's text with 'proved', 'failed' or 'not machine-checked'."""
    return [step.run() for step in claim.steps]
