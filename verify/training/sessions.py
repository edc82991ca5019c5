"""A session: one population while it trains, from its start or its checkpoint to the end."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from verify.training import checkpoints
from verify.training.batches import Batches
from verify.training.checkpoints import State
from verify.training.layers import mlp
from verify.training.optimiser import AdamW
from verify.training.population import Population
from verify.training.products import choose
from verify.training.runs import Run, Settings, Trained

#: Steps whose batches are drawn at once: a block is about this many bytes, and at most so many steps.
BLOCK_BYTES, BLOCK_STEPS = 2**25, 25
#: Seconds between checkpoints.
EVERY = 15.0


class Stopped(Exception):
    """A session was told to stop; its checkpoint is written."""


class Session:
    """Several runs in one batched computation, or one run alone. folder: of the checkpoint, if one is wanted."""

    def __init__(
        self, runs: Sequence[Run], settings: Settings, device: torch.device, threads: int, folder: Path | None
    ) -> None:
        self.settings, self.device, self.runs = settings, device, runs
        self.steps = _steps_of_a_block(settings, runs[0])
        sizes, members = runs[0].sizes(settings), len(runs) if len(runs) > 1 else 0
        self.population = Population(sizes, members, settings.tasks, settings.samples, choose(device), device)
        self.population.load([run.initial or mlp(sizes, run.seeds.initialisation) for run in runs])
        self.optimiser = AdamW(self.population.flat, self.population.gradient, settings.decay, self.population.decayed)
        self.batches = [
            Batches(run.family, run.pool, run.shown, run.seeds, settings.tasks, settings.samples, self.steps)
            for run in runs
        ]
        self.losses: list[list[float]] = []
        self.digest = "" if folder is None else self._digest(threads)
        self.path = None if folder is None else folder / f"{self.digest[:32]}.checkpoint"

    def train(self, report: Callable[[int], bool]) -> list[Trained]:
        """Train to the end, or to where ``report`` (called with the steps done, after every block) says to stop.

        Raises Stopped then, and ValueError where the loss grows beyond all bounds. The checkpoint stays (``forget``).
        """
        first, before = self._resume()
        started = saved = time.perf_counter()
        blocks = -(-self.settings.steps // self.steps)
        for block in range(first, blocks):
            stopped = report(block * self.steps)
            now = time.perf_counter()
            if block > first and (stopped or now - saved > EVERY):
                self._save(block, before + now - started)
                saved = now
            if stopped:
                raise Stopped
            self.losses.append(self._block(block))
        seconds = before + time.perf_counter() - started
        if first < blocks:
            self._save(blocks, seconds)  # until the result is in safe hands
        report(self.settings.steps)
        return [
            Trained(network, tuple(history), seconds / len(self.runs), self.settings.steps)
            for network, history in zip(self.population.networks(), zip(*self.losses, strict=True), strict=True)
        ]

    def forget(self) -> None:
        """Remove the checkpoint: the result is kept elsewhere."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _block(self, number: int) -> list[float]:
        """One block of steps; the mean loss of each member."""
        parts = [batches.block(number, self.device) for batches in self.batches]
        lead = self.population.lead
        shown, x, y = (torch.stack(part, dim=1) if lead else part[0] for part in zip(*parts, strict=True))
        total = torch.zeros(lead, dtype=torch.float32, device=self.device)
        done = number * self.steps
        steps = min(self.steps, self.settings.steps - done)
        for step in range(steps):
            total += self.population.step(shown[step], x[step], y[step])
            self.optimiser.step(self.settings.rate_at(done + step))
        losses = [float(loss) for loss in (total / steps).reshape(-1)]
        if not (all(map(math.isfinite, losses)) and bool(self.population.flat.isfinite().all())):
            raise ValueError(
                f"rate: at {self.settings.rate:g} training left all bounds by step {done + steps}; use a smaller rate, "
                "or a longer warm-up"
            )
        return losses

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {"parameters": self.population.flat, **self.optimiser.state}

    def _save(self, block: int, seconds: float) -> None:
        if self.path is not None:
            checkpoints.write(self.path, self.digest, State(block, seconds, self.losses, self._tensors()))

    @torch.no_grad()
    def _resume(self) -> tuple[int, float]:
        """Take up the checkpoint, if there is one of this run: the first block to do, and the seconds spent before."""
        found = None if self.path is None else checkpoints.read(self.path, self.digest)
        if found is None:
            return 0, 0.0
        for name, own in self._tensors().items():
            own.copy_(found.tensors[name])
        self.losses = found.losses
        return found.block, found.seconds

    def _digest(self, threads: int) -> str:
        """Of what the result depends on: settings, seeds, route, the supports where they are listed, the arrays at the
        start and all of the first block.
        """
        route = [self.device.type, self.population.products.name, threads, self.steps, torch.__version__]
        about: list[Any] = [asdict(self.settings), route]
        hashed = hashlib.sha256(_bytes(self.population.flat))
        for run, batches in zip(self.runs, self.batches, strict=True):
            about.append([asdict(run.seeds), run.label, repr(run.family), repr(run.shown), run.pool.count])
            if batches.table is not None:
                hashed.update(batches.table.tobytes())
            for tensor in batches.block(0, self.device):
                hashed.update(_bytes(tensor))
        hashed.update(json.dumps(about, sort_keys=True).encode())
        return hashed.hexdigest()


def _steps_of_a_block(settings: Settings, run: Run) -> int:
    width = settings.samples * (run.family.inputs + run.family.outputs) + run.shown.width
    return max(1, min(BLOCK_STEPS, BLOCK_BYTES // (4 * settings.tasks * width)))


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.cpu().numpy().tobytes()
