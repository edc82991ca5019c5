"""Options that all commands share, and the kinds of values they take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click
import torch
from click.core import ParameterSource

DTYPES = {"float32": torch.float32, "float64": torch.float64}
DEVICES = ("auto", "cpu", "cuda")


class _CommaList(click.ParamType):
    """Values with commas between them, none twice; gives a tuple."""

    name = "list"

    def __init__(self, what: str, example: str, read: Callable[[str], Any]) -> None:
        self.what, self.example, self.read = what, example, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Raises click.BadParameter, one line, for an entry that is not of the kind."""
        if isinstance(value, tuple):
            return value
        entries = []
        for text in str(value).split(","):
            try:
                entries.append(self.read(text.strip()))
            except ValueError:
                self.fail(f"{text.strip()!r} is not {self.what}; write for example {self.example}", param, ctx)
        return tuple(entries)


class _Several(_CommaList):
    """A list of cases to run through: said twice is meant once."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(super().convert(value, param, ctx)))


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(text)
    return number


MODULES = _Several("a whole number of at least 1", "4,8,16", _whole)
WIDTHS = _CommaList("a whole number of at least 1", "8,8", _whole)
EPSILONS = _Several("a finite number above 0", "1e-2,1e-3", _positive)
AT_LEAST_ONE = click.IntRange(min=1)


def common(dtype: str = "float64") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that every command takes: --seed, --device, --dtype, --quiet, --json."""
    shared = (
        click.option(
            "--json", "json_path", metavar="FILE", help="Also write a JSON file; - for stdout, then no table."
        ),
        click.option("--quiet", is_flag=True, help="No progress and no table: one line with the verdict."),
        click.option(
            "--dtype",
            type=click.Choice(list(DTYPES)),
            default=dtype,
            show_default=True,
            help="Format in which networks are stored and evaluated.",
        ),
        click.option(
            "--device",
            type=click.Choice(DEVICES),
            default="auto",
            show_default=True,
            help="Where to search; auto: a GPU if there is one.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**63 - 1),
            default=0,
            metavar="N",
            show_default=True,
            help="For the family and for the search.",
        ),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in shared:
            command = option(command)
        return command

    return add


def refuse_given(asked: Any, because: str, *names: str) -> None:
    """Raises ValueError, one line, where one of these options was given (is not None in ``asked``)."""
    given = [f"--{name}" for name in names if getattr(asked, name) is not None]
    if given:
        raise ValueError(f"{', '.join(given)}: {because}; leave it out")


def refuse_typed(because: str, *names: str) -> None:
    """Raises ValueError, one line, where one of these options, which have defaults, was typed."""
    context = click.get_current_context()
    typed = [n for n in names if context.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    if typed:
        raise ValueError(f"{', '.join(f'--{name}' for name in typed)}: {because}; leave it out")


def require_device(device: str) -> None:
    """Raises click.BadParameter if the device is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise click.BadParameter("no CUDA device here; use auto or cpu", param_hint="--device cuda")
