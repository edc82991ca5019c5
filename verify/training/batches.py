"""What a network sees: fresh tasks and fresh samples at every step, each from a random stream of its own.

Batches are drawn for a block of steps at once. The generators of a block depend on the seeds and on the number of the
block alone, so that a run can be taken up at any block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from theory.arithmetic import Array
from theory.domains import Box, Tasks
from theory.encodings import Encoding
from theory.families.family import Family
from theory.splits.pools import Pool
from verify.training.streams import Streams

#: Pools up to this size are listed once, which makes drawing faster.
LISTED = 2**18


@dataclass(eq=False)
class Batches:
    """Batches for one network: tasks from a pool of supports, samples uniform on the family's box of x.

    A step has ``tasks`` tasks with ``samples`` samples each; a block has ``steps`` steps. Raises ValueError for a pool
    with no supports, or with modules that the family does not have.
    """

    family: Family
    pool: Pool
    encoding: Encoding
    streams: Streams
    tasks: int
    samples: int
    steps: int

    def __post_init__(self) -> None:
        if not self.pool.count:
            raise ValueError("pool: it has no supports to draw from; train on a split that leaves some")
        #: All supports, (count, width), where they are few.
        self.table = self.pool.listed() if self.pool.count <= LISTED else None

    @torch.no_grad()
    def block(self, number: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Block ``number``, float32: what is shown of z, (steps, tasks, width), x (steps, tasks, samples, inputs), and
        the targets (steps, tasks, samples, outputs).
        """
        z, x = self._weights(number).to(device), self._inputs(number, device)
        y = self.family(x, z)
        shown = self.encoding(z, self.streams.generator("encoding", number))
        lead = (self.steps, self.tasks)
        return shown.view(*lead, -1), x.view(*lead, self.samples, -1), y.view(*lead, self.samples, -1)

    def _weights(self, number: int) -> torch.Tensor:
        """z of a block's tasks, (steps * tasks, modules)."""
        generator = self.streams.generator("tasks", number)
        n = self.steps * self.tasks
        if self.table is not None:  # what pool.sample does, without unranking anew
            supports = self.table[generator.integers(len(self.table), size=n)]
        else:
            supports = self.pool.sample(n, generator)
        if supports.max(initial=-1) >= self.family.modules:
            raise ValueError(f"pool: module {supports.max()} is none of the family's, 0..{self.family.modules - 1}")
        domain = self.family.z_domain
        assert isinstance(domain, Tasks)
        return torch.from_numpy(domain.weights(supports, generator).astype(np.float32))

    def _inputs(self, number: int, device: torch.device) -> torch.Tensor:
        """x of a block's samples, (steps * tasks, samples, inputs)."""
        domain = self.family.x_domain
        assert isinstance(domain, Box)
        shape = (self.steps * self.tasks, self.samples, domain.size)
        # The box's own sample draws float64 numbers, which takes three times as long.
        places = self.streams.generator("inputs", number).random(shape, dtype=np.float32)
        lower, width = (_float32(side, device) for side in (domain.lower, domain.upper - domain.lower))
        return torch.addcmul(lower, torch.from_numpy(places).to(device), width)


def _float32(values: Array, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(device)
