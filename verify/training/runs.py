"""Training: AdamW on the mean squared error, on tasks from a pool of supports.

run = Run(family, split.train, seed=0)
trained = train([run], Settings(widths=(128, 128), steps=12_000))[0]
trained.network            # nn.Sequential of Linear and ReLU on the row [encoding, x], float32
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from theory.domains import Tasks
from theory.encodings import Encoding, Identity
from theory.families.family import Family
from theory.splits.pools import Pool
from verify.networks import choose_device
from verify.training import checkpoints
from verify.training.batches import Batches, Streams
from verify.training.optimiser import AdamW
from verify.training.population import Population, mlp
from verify.training.products import choose

#: Steps whose batches are drawn at once: a block is about this many bytes, and at most so many steps.
BLOCK_BYTES, BLOCK_STEPS = 2**25, 25
#: Seconds between checkpoints.
EVERY = 15.0


@dataclass(frozen=True)
class Settings:
    """How a network is trained. rate: constant after a linear ``warmup`` of so many steps. decay: of AdamW, on weights
    and not on biases. tasks, samples: fresh ones at every step. Raises ValueError for what cannot be.
    """

    widths: tuple[int, ...] = (128, 128)
    steps: int = 12_000
    tasks: int = 128
    samples: int = 16
    rate: float = 1e-3
    warmup: int = 0
    decay: float = 3e-3

    def __post_init__(self) -> None:
        least = {"steps": 1, "tasks": 1, "samples": 1, "warmup": 0}
        whole = [("widths", width, 1) for width in self.widths] + [(n, getattr(self, n), m) for n, m in least.items()]
        for name, value, smallest in whole:
            if isinstance(value, bool) or value != int(value) or value < smallest:
                raise ValueError(f"{name}: {value} must be an integer of at least {smallest}")
        if not self.widths:
            raise ValueError("widths: give the width of at least one hidden layer, such as (128, 128)")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate: {self.rate} must be a finite number above 0")
        if not (math.isfinite(self.decay) and self.decay >= 0):
            raise ValueError(f"decay: {self.decay} must be a finite number of at least 0")


@dataclass(frozen=True, eq=False)
class Run:
    """What one network is trained on. encoding None: z itself. initial None: a random network.

    streams: the seeds of tasks, inputs, encoding and initialisation; default all ``seed``.
    """

    family: Family
    pool: Pool
    seed: int = 0
    encoding: Encoding | None = None
    initial: nn.Sequential | None = None
    streams: Streams | None = None
    #: What the run is called in its digest: whatever tells families, pools and encodings apart.
    label: str = ""
    shown: Encoding = field(init=False)
    seeds: Streams = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.family.z_domain, Tasks):
            raise ValueError(f"family: the tasks of {self.family.name} are no module weights; training needs those")
        object.__setattr__(self, "shown", self.encoding or Identity(self.family.z_domain))
        object.__setattr__(self, "seeds", self.streams or Streams.of(self.seed))

    def sizes(self, settings: Settings) -> tuple[int, ...]:
        """fan_in, hidden widths, outputs."""
        return (self.shown.width + self.family.inputs, *settings.widths, self.family.outputs)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, the mean loss of each block of steps, and how long it took (a population's time, shared)."""

    network: nn.Sequential
    losses: tuple[float, ...]
    seconds: float
    steps: int


Progress = Callable[[int, int], None]
Finished = Callable[[int, Trained], None]


def train(
    runs: Sequence[Run],
    settings: Settings | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    finished: Finished | None = None,
) -> list[Trained]:
    """Train a network for each run: on a GPU all in one batched computation, on a CPU side by side.

    threads: how many a run takes on a CPU, where as many runs go side by side as there are threads for (batched
    products are slower there: benchmarks/training.py); default all for a single run, else 1. checkpoint: a folder; a
    run that was killed goes on from what it finds there and ends with the same bytes. progress: called with the steps
    done and all steps; finished: with the number of a run and its result, as soon as there is one. Both are called
    from the thread that called ``train``. Raises ValueError, one line, for runs of different sizes, an initial
    network that does not fit, a device that is not there.
    """
    settings = settings or Settings()
    where = choose_device(device)
    shapes = {run.sizes(settings) for run in runs}
    if len(shapes) != 1:
        raise ValueError(f"runs: {len(shapes)} different network sizes; a population needs one, so train them apart")
    available = torch.get_num_threads()
    each = max(1, min(threads or (available if len(runs) == 1 else 1), available))
    groups = [list(range(len(runs)))] if where.type == "cuda" else [[i] for i in range(len(runs))]
    folder = None if checkpoint is None else Path(checkpoint)
    stop, results = threading.Event(), dict[int, Trained]()
    done = [0] * len(groups)

    def work(number: int) -> list[Trained]:
        members = [runs[i] for i in groups[number]]
        session = Session(members, settings, where, each, folder)

        def report(steps: int) -> bool:
            done[number] = steps * len(members)
            return stop.is_set()

        return session.train(report)

    try:
        torch.set_num_threads(each)
        with ThreadPoolExecutor(max(1, available // each)) as pool:
            waiting = {pool.submit(work, number): number for number in range(len(groups))}
            try:
                while waiting:
                    ended, _ = wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED)
                    for future in ended:
                        for i, one in zip(groups[waiting.pop(future)], future.result(), strict=True):
                            results[i] = one
                            if finished is not None:
                                finished(i, one)
                    if progress is not None:
                        progress(sum(done), settings.steps * len(runs))
            except BaseException:
                stop.set()
                for future in waiting:
                    future.cancel()
                raise
    finally:
        torch.set_num_threads(available)
    return [results[i] for i in range(len(runs))]


class Stopped(Exception):
    """A session was told to stop; its checkpoint is written."""


class Session:
    """One population while it trains: several runs in one batched computation, or one run alone (on a CPU)."""

    def __init__(
        self, runs: list[Run], settings: Settings, device: torch.device, threads: int, folder: Path | None
    ) -> None:
        self.settings, self.device, sizes = settings, device, runs[0].sizes(settings)
        self.steps = _steps_of_a_block(settings, runs[0])
        self.blocks = -(-settings.steps // self.steps)
        members = len(runs) if device.type == "cuda" else 0
        self.population = Population(sizes, members, settings.tasks * settings.samples, choose(device), device)
        initial = [run.initial or mlp(sizes, run.seeds.initialisation) for run in runs]
        self.population.load(initial)
        self.batches = [
            Batches(run.family, run.pool, run.shown, run.seeds, settings.tasks, settings.samples, self.steps)
            for run in runs
        ]
        self.digest = _digest(runs, settings, initial, f"{device.type} {self.population.products.name} {threads}")
        self.path = None if folder is None else folder / f"{self.digest[:32]}.checkpoint"
        self.rows = torch.empty(*self.lead, settings.tasks, settings.samples, sizes[0], device=device)
        self.optimiser = AdamW(self.population.flat, self.population.gradient, (settings.decay, 0.0))
        self.losses: list[list[float]] = []

    @property
    def lead(self) -> tuple[int, ...]:
        """Leading dimensions of the population's arrays: (members,), or none for a run alone."""
        return tuple(self.population.weights[0].shape[:-2])

    def train(self, report: Callable[[int], bool]) -> list[Trained]:
        """Train to the end, or to where ``report`` (called with the steps done, after every block) says to stop."""
        started = saved = time.perf_counter()
        for block in range(self._resume(), self.blocks):
            self.losses.append(self._block(block))
            stopped = report(min((block + 1) * self.steps, self.settings.steps))
            if self.path is not None and (stopped or time.perf_counter() - saved > EVERY):
                checkpoints.write(self.path, self.digest, block + 1, self._state(), self.losses)
                saved = time.perf_counter()
            if stopped:
                raise Stopped
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        seconds = (time.perf_counter() - started) / len(self.batches)
        return [
            Trained(network, tuple(history), seconds, self.settings.steps)
            for network, history in zip(self.population.networks(), zip(*self.losses, strict=True), strict=True)
        ]

    def _block(self, number: int) -> list[float]:
        """One block of steps; the mean loss of each member."""
        parts = [batches.block(number, self.device) for batches in self.batches]
        shown, x, y = (torch.stack(p, dim=1) if self.lead else p[0] for p in zip(*parts, strict=True))
        width, batch = shown.shape[-1], self.settings.tasks * self.settings.samples
        total = torch.zeros(self.lead, device=self.device)
        steps = min(self.steps, self.settings.steps - number * self.steps)
        for step in range(steps):
            self.rows[..., :width] = shown[step].unsqueeze(-2)
            self.rows[..., width:] = x[step]
            rows, target = self.rows.view(*self.lead, batch, -1), y[step].reshape(*self.lead, batch, -1)
            total += self.population.step(rows, target)
            self.optimiser.step(self._rate(number * self.steps + step))
        return [float(v) for v in (total / steps).reshape(-1)]

    def _rate(self, step: int) -> float:
        """Linear warm-up, then constant."""
        return self.settings.rate * min(1.0, (step + 1) / max(self.settings.warmup, 1))

    def _state(self) -> dict[str, torch.Tensor]:
        named = {"parameters": self.population.flat, **self.optimiser.state}
        return {f"{key}_{i}": tensor for key, tensors in named.items() for i, tensor in enumerate(tensors)}

    @torch.no_grad()
    def _resume(self) -> int:
        """Take up the checkpoint, if there is one of this run; the first block to do."""
        found = None if self.path is None else checkpoints.read(self.path, self.digest)
        if found is None:
            return 0
        block, tensors, self.losses = found
        for key, own in self._state().items():
            own.copy_(tensors[key])
        return block


def _steps_of_a_block(settings: Settings, run: Run) -> int:
    width = settings.samples * (run.family.inputs + run.family.outputs) + run.shown.width
    return max(1, min(BLOCK_STEPS, BLOCK_BYTES // (4 * settings.tasks * width)))


def _digest(runs: list[Run], settings: Settings, initial: list[nn.Sequential], route: str) -> str:
    """A digest of what the result depends on: settings, seeds, the arrays at the start, the first batch of each run."""
    about: list[Any] = [asdict(settings), route]
    hashed = hashlib.sha256()
    for run, network in zip(runs, initial, strict=True):
        about.append([asdict(run.seeds), run.label, repr(run.family), repr(run.shown), run.pool.count])
        for parameter in network.parameters():
            hashed.update(parameter.detach().cpu().numpy().tobytes())
        first = Batches(run.family, run.pool, run.shown, run.seeds, 8, 4, 1).block(0, torch.device("cpu"))
        for tensor in first:
            hashed.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    hashed.update(json.dumps(about, sort_keys=True).encode())
    return hashed.hexdigest()
