"""What a network is trained on, how, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

from torch import nn

from theory.domains import Box, Tasks
from theory.encodings import Encoding, Identity
from theory.families.family import Family
from theory.splits.pools import Pool
from verify.training.streams import Streams


@dataclass(frozen=True)
class Settings:
    """How a network is trained: AdamW on the mean squared error over tasks, samples and outputs.

    widths: of the hidden layers. tasks, samples: fresh ones at every step. rate: constant after a linear ``warmup`` of
    so many steps. decay: decoupled, on weights and not on biases. Raises ValueError, one line, for what cannot be.
    """

    widths: tuple[int, ...] = (128, 128)
    steps: int = 12_000
    tasks: int = 128
    samples: int = 16
    rate: float = 1e-3
    warmup: int = 0
    decay: float = 3e-3

    def __post_init__(self) -> None:
        if not isinstance(self.widths, Sequence) or not self.widths:
            raise ValueError(f"widths: {self.widths!r} must be the widths of the hidden layers, such as (128, 128)")
        object.__setattr__(self, "widths", tuple(self.widths))
        least = {"steps": 1, "tasks": 1, "samples": 1, "warmup": 0}
        whole = [("widths", width, 1) for width in self.widths] + [(n, getattr(self, n), m) for n, m in least.items()]
        for name, value, smallest in whole:
            if isinstance(value, bool) or not isinstance(value, Integral) or value < smallest:
                raise ValueError(f"{name}: {value!r} must be an integer of at least {smallest}")
        for name, value in (("rate", self.rate), ("decay", self.decay)):
            if not isinstance(value, Real) or not math.isfinite(value) or value < 0:
                raise ValueError(f"{name}: {value!r} must be a finite number of at least 0")
        if not self.rate:
            raise ValueError("rate: 0 trains nothing; it must be a finite number above 0, such as 1e-3")

    def rate_at(self, step: int) -> float:
        """The rate of step 0, 1, ..: (step + 1) / warmup of the whole until that is reached, then constant."""
        return float(self.rate) * min(1.0, (step + 1) / max(self.warmup, 1))


@dataclass(frozen=True, eq=False)
class Run:
    """What one network is trained on. encoding None: z itself. initial None: a random network.

    streams: the seeds of tasks, inputs, encoding and initialisation; default all ``seed``. Raises ValueError, one line,
    for a family that has no module weights, or an encoding of another number of modules.
    """

    family: Family
    pool: Pool
    seed: int = 0
    encoding: Encoding | None = None
    initial: nn.Module | None = None
    streams: Streams | None = None
    #: What the run is called in its digest: whatever tells families, pools and encodings apart.
    label: str = ""
    shown: Encoding = field(init=False)
    seeds: Streams = field(init=False)

    def __post_init__(self) -> None:
        domain = self.family.z_domain
        if not isinstance(domain, Tasks):
            raise ValueError(f"family: the tasks of {self.family.name} are no module weights; training needs those")
        if not isinstance(self.family.x_domain, Box):
            raise ValueError(f"family: the inputs of {self.family.name} do not fill a box; training needs one")
        shown = self.encoding or Identity(domain)
        if shown.modules != self.family.modules:
            raise ValueError(f"encoding: of {shown.modules} modules, but the family has {self.family.modules}")
        object.__setattr__(self, "shown", shown)
        object.__setattr__(self, "seeds", self.streams or Streams.of(self.seed))

    def sizes(self, settings: Settings) -> tuple[int, ...]:
        """fan_in, hidden widths, outputs."""
        return (self.shown.width + self.family.inputs, *settings.widths, self.family.outputs)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, float32, on the CPU, on rows [encoding, x].

    losses: the mean loss of each block of steps. seconds: what it took, before an interruption too; a population that
    trains in one computation shares its time.
    """

    network: nn.Sequential
    losses: tuple[float, ...]
    seconds: float
    steps: int

    @property
    def steps_per_second(self) -> float:
        """Steps a second, with all that goes with them."""
        return self.steps / self.seconds
