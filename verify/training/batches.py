"""What a network sees: fresh tasks and fresh samples at every step, each from a random stream of its own.

Batches are drawn for a block of steps at once. The generator of a block depends on the seed, the stream and the number
of the block alone, so that a run can be taken up at any block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from theory.arithmetic import Array
from theory.domains import Box, Tasks
from theory.encodings import Encoding
from theory.families.family import Family
from theory.splits.pools import Pool

#: Pools up to this size are listed once, which makes drawing faster.
LISTED = 2**18


@dataclass(frozen=True)
class Streams:
    """Seeds of what is random in a run, one each, so that changing one leaves the others as they were."""

    tasks: int = 0
    inputs: int = 0
    encoding: int = 0
    initialisation: int = 0

    @classmethod
    def of(cls, seed: int) -> Streams:
        """All from one seed."""
        if isinstance(seed, bool) or seed != int(seed) or seed < 0:
            raise ValueError(f"seed: {seed} must be an integer of at least 0")
        return cls(seed, seed, seed, seed)


@dataclass(eq=False)
class Batches:
    """Batches for one network: tasks from a pool of supports, samples from the family's domain of x.

    A step has ``tasks`` tasks with ``samples`` samples each; a block has ``steps`` steps.
    """

    family: Family
    pool: Pool
    encoding: Encoding
    streams: Streams
    tasks: int
    samples: int
    steps: int
    _table: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.pool.count <= LISTED:
            self._table = self.pool.listed()

    @torch.no_grad()
    def block(self, number: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Block ``number``: encodings (steps, tasks, width), x (steps, tasks, samples, inputs), targets likewise."""
        n = self.steps * self.tasks
        z = self._weights(n, number)
        x = self._inputs(n, number)
        z_t, x_t = (torch.from_numpy(a).to(device) for a in (z, x))
        y = self.family(x_t, z_t)
        shown = self.encoding(z_t, self._generator(self.streams.encoding, 2, number))
        lead = (self.steps, self.tasks)
        return shown.view(*lead, -1), x_t.view(*lead, self.samples, -1), y.view(*lead, self.samples, -1)

    def _weights(self, n: int, number: int) -> Array:
        generator = self._generator(self.streams.tasks, 0, number)
        if self._table is not None:  # the same supports as pool.sample draws
            supports = self._table[generator.integers(len(self._table), size=n)]
        else:
            supports = self.pool.sample(n, generator)
        domain = self.family.z_domain
        assert isinstance(domain, Tasks)
        return domain.weights(supports, generator).astype(np.float32)

    def _inputs(self, n: int, number: int) -> Array:
        generator, domain = self._generator(self.streams.inputs, 1, number), self.family.x_domain
        if not isinstance(domain, Box):
            return domain.sample(n * self.samples, generator).astype(np.float32).reshape(n, self.samples, -1)
        x = generator.random((n, self.samples, domain.size), dtype=np.float32)
        x *= (domain.upper - domain.lower).astype(np.float32)
        x += domain.lower.astype(np.float32)
        return x

    def _generator(self, seed: int, stream: int, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, number)))
