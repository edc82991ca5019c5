"""The options of `kofm compare`, and what they ask for: families, splits, settings of training, measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from theory import Hyperteacher
from verify import experiments
from verify.cli import options
from verify.cli.checking import load_teacher
from verify.comparison import Measures
from verify.experiments import Case
from verify.foreign import Foreign, load_trained
from verify.training import Settings

SPLITS = (("random", 0.25), ("random", 0.95), ("non-compositional", None))
SEEDS, EPS, RESULTS = 3, 0.1, "kofm-results"
#: Options that a file of a teacher or of a network fixes.
SIZES = ("modules", "active", "inputs", "hidden", "outputs", "weights")


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
        options.refuse_typed("nothing is trained with --trained", "widths", "steps", "rate", "decay", "results")
        found = load_trained(self.trained)
        options.refuse_given(self, "the network of --trained comes with its sizes", *SIZES)
        family = load_teacher(self.teacher) if self.teacher is not None else found.family
        if family is None:
            raise ValueError(f"{self.trained}: holds no teacher (modules_0, readout, ..); name one with --teacher")
        if found.split is not None and self.split is None:
            options.refuse_typed("the split stored in the file of --trained is one", "seeds")
            return [Case(family, found.split, self.seed, self.encoding)], found
        return experiments.cases_of(lambda _: family, self.split or SPLITS, self.run_seeds, self.encoding), found


class Splits(click.ParamType):
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
