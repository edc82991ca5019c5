"""Progress on stderr, with a time to go: a bar on a terminal, a short line a step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class Steps:
    """Steps of known relative weight (about proportional to their time), announced one by one.

    with Steps("kofm check", weights, quiet) as steps:
        steps.begin("khot exact, M = 4"); ..; steps.end("holds")
    """

    def __init__(self, title: str, weights: Sequence[float], quiet: bool) -> None:
        self.title, self.weights, self.quiet = title, list(weights), quiet
        self.done, self.what, self.started = 0, "", time.monotonic()
        self._stack = ExitStack()
        self._bar: Progress | None = None

    def __enter__(self) -> Steps:
        console = Console(stderr=True)
        if not self.quiet and console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[to_go]}"),
            )
            self._bar = self._stack.enter_context(
                Progress(*columns, console=console, transient=True, redirect_stdout=False)
            )
            self._task = self._bar.add_task(self.title, total=len(self.weights), to_go="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def begin(self, what: str) -> None:
        """A step starts."""
        self.what = what
        if self._bar is not None:
            self._bar.update(self._task, description=what, to_go=self.to_go())

    def end(self, result: str) -> None:
        """The step that was begun has ended."""
        self.done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, to_go=self.to_go())
        elif not self.quiet:
            line = f"{self.title}: {self.done}/{len(self.weights)} {self.what}: {result}"
            click.echo("; ".join(filter(None, (line, self.to_go()))), err=True)

    def to_go(self) -> str:
        """'about 20 s to go', from the time and the weight of what is done; empty before and after."""
        past, left = sum(self.weights[: self.done]), sum(self.weights[self.done :])
        if past == 0 or left == 0:
            return ""
        seconds = (time.monotonic() - self.started) * left / past
        return f"about {seconds / 60:.0f} min to go" if seconds > 100 else f"about {seconds:.0f} s to go"
