"""The error search: it tries to break the bound. Draw points, keep the worst, climb from them.

The network runs in its own dtype, the target in float64, at the same point: what is continuous is rounded to the dtype
before both see it; a grid level that the dtype does not hold stands for itself. The climb is projected gradient
ascent on |network - target| of the worst output, in x and in continuous z on its support, with a step for each
point that grows while it succeeds and shrinks when it fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from theory.arithmetic import Array
from theory.families.family import Family
from theory.splits.pools import Pool
from verify.candidates import Draws, free_range, settle
from verify.networks import Network, Runner

#: Rows of one chunk, at most.
CHUNK = 4096
#: One point in so many is climbed from, between the two limits.
CLIMB_SHARE, CLIMB_LEAST, CLIMB_MOST = 100, 32, 1024
#: Steps of the climb, and its first steps as shares of a coordinate's range.
STEPS = 40
FIRST_STEPS = (0.1, 0.02, 0.004)


@dataclass(frozen=True, eq=False)
class Found:
    """The worst points found, worst first: x (n, inputs), z (n, width), error (n,), inf where an output is not finite.

    points: how many were evaluated; supports: how many different ones were among the tasks drawn.
    """

    x: Array
    z: Array
    error: Array
    points: int
    supports: int


def search(family: Family, network: Network, points: int, seed: int, memory: int, pool: Pool | None = None) -> Found:
    """Look for the largest |network - target| among ``points`` points, then climb from the worst of them.

    With a pool only on tasks with its supports.
    Deterministic from the seed (on one machine, with the same number of threads and the same memory).
    """
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    draws = Draws(family, network, points, generator, pool)
    starts = _limit(min(max(points // CLIMB_SHARE, CLIMB_LEAST), CLIMB_MOST), memory // (4 * network.row_bytes))
    rows = _limit(CHUNK, memory // network.row_bytes)
    worst, drawn, supports = _draw(family, network, draws, starts, rows, memory)
    climbed, evaluated = _climb(family, network, worst, draws.kind, generator, memory)
    x, z, error = (np.concatenate([a, b]) for a, b in zip(climbed, worst, strict=True))
    order = np.argsort(-error, kind="stable")
    return Found(x[order], z[order], error[order], drawn + evaluated, supports)


Points = tuple[Array, Array, Array]  # x (n, inputs), z (n, width), error (n,)


def _draw(family: Family, network: Network, draws: Draws, keep: int, rows: int, memory: int) -> tuple[Points, int, int]:
    """The ``keep`` worst of all points drawn, how many points these were, and on how many supports."""
    run = network.runner(rows, memory)
    width = network.split
    values = torch.empty(rows, network.shape[0], dtype=network.dtype, device=network.device)
    found: Points = (np.zeros((0, family.inputs)), np.zeros((0, width)), np.zeros(0))
    count, seen = 0, set[bytes]()
    for x, z in draws.blocks(rows):
        tasks, samples = x.shape[:2]
        seen.update(row.tobytes() for row in np.packbits(z != 0, axis=1))
        x_t, z_t = (torch.from_numpy(a).to(network.device) for a in (x, z))
        batch = values[: tasks * samples]
        batch[:, :width].view(tasks, samples, width).copy_(z_t.unsqueeze(1).expand(-1, samples, -1))
        batch[:, width:].view(tasks, samples, -1).copy_(x_t)
        with torch.no_grad():
            target = family(x_t, z_t).reshape(tasks * samples, -1)
        error = _errors(run(batch), target)[0].cpu().numpy()
        worst = np.argsort(-error, kind="stable")[:keep]
        block = (x.reshape(tasks * samples, -1)[worst], z[worst // samples], error[worst])
        merged = [np.concatenate(pair) for pair in zip(found, block, strict=True)]
        order = np.argsort(-merged[2], kind="stable")[:keep]
        found = (merged[0][order], merged[1][order], merged[2][order])
        count += tasks * samples
    return found, count, len(seen)


def _errors(values: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Largest error of each row and its output, each (rows,); an output that is not finite has error inf."""
    error = (values.double() - target).abs_()
    worst, output = torch.nan_to_num(error, nan=torch.inf, posinf=torch.inf).max(dim=1)
    return worst, output


def _climb(
    family: Family, network: Network, found: Points, kind: type, generator: np.random.Generator, memory: int
) -> tuple[Points, int]:
    """Projected ascent from every point found; returns the best point of each climb and the evaluations."""
    x, z, _ = found
    width, n = z.shape[1], len(x)
    low, high = (
        np.concatenate(pair, axis=1)
        for pair in zip(free_range(family.z_domain, z, kind), free_range(family.x_domain, x, kind), strict=True)
    )
    span = high - low
    run = network.runner(n, memory, keep=True)
    best = np.concatenate([z, x], axis=1)
    error, gradient = _value_and_gradient(family, network, run, best)
    length = np.resize(FIRST_STEPS, n)
    for _ in range(STEPS if span.any() else 0):
        # Steps along the signs; half of the coordinates rest, at random, so that a kink does not stop the climb.
        moving = generator.random(best.shape) < 0.5
        trial = settle(best + length[:, None] * span * np.sign(gradient) * moving, low, high, kind)
        there, slope = _value_and_gradient(family, network, run, trial)
        better = there > error
        best[better], error[better], gradient[better] = trial[better], there[better], slope[better]
        length = np.minimum(np.where(better, length * 1.3, length * 0.7), 0.5)
    return (best[:, width:], best[:, :width], error), n * ((STEPS if span.any() else 0) + 1)


def _value_and_gradient(family: Family, network: Network, run: Runner, rows: Array) -> tuple[Array, Array]:
    """Error of each row [z, x] (rows,), and the gradient of the worst output's error, (rows, fan_in)."""
    width = network.split
    both = torch.from_numpy(rows).to(network.device).requires_grad_()
    target = family(both[:, width:].unsqueeze(1), both[:, :width])[:, 0]
    fixed = target.detach()
    error, signs = torch.empty_like(fixed[:, 0]), torch.zeros_like(fixed)

    def pick(values: torch.Tensor, start: int) -> torch.Tensor:
        here = slice(start, start + len(values))
        error[here], output = _errors(values, fixed[here])
        sign = torch.sign(values.double() - fixed[here]).gather(1, output[:, None])
        signs[here].scatter_(1, output[:, None], sign)
        return signs[here].to(values.dtype, copy=True)

    total = run.gradient(both.detach().to(network.dtype), pick).double()
    if target.requires_grad:
        (down,) = torch.autograd.grad(target, both, signs, allow_unused=True)
        total = total if down is None else total - down
    return error.cpu().numpy(), torch.nan_to_num(total, nan=0.0, posinf=1.0, neginf=-1.0).cpu().numpy()


def _limit(rows: int, most: int) -> int:
    return int(max(1, min(rows, most)))
