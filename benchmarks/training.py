"""How fast is training, alone and as a population of 8, as a fraction of this machine's matrix-product rate?

The paper's default data: M = 16, K = 3, N = H = O = 16, discrete weights, 128 tasks x 16 samples a step. Everything is
counted: drawing tasks and samples, the targets, the gradients, AdamW. A population goes side by side, a thread each (on
a CPU: what ``train`` does), and in one batched computation (on a GPU: what ``train`` does). For orientation, the
paper's JAX code on two AVX-512 cores (oneDNN 465 GFLOP/s): 436, 49 and 6.9 steps/s; the aim there is 1.3 times that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise

import torch

from theory import Hyperteacher, splits
from verify.networks import choose_device
from verify.training import Run, Settings, train
from verify.training.products import choose
from verify.training.sessions import Session

#: Hidden widths, steps of a window (a few tenths of a second), and the aim in steps/s.
SIZES = (((128, 128), 100, 567), ((256,) * 4, 20, 64), ((1024,) * 4, 2, 9.0))
MEMBERS, WINDOWS = 8, 3
SIDE = 2048


def run(quick: bool = False) -> None:
    """Print steps/s (networks x steps a second for populations), GFLOP/s and the fraction, the best of some windows."""
    device = choose_device("auto")
    products = choose(device)
    peak = _peak(device)
    print(f"float32 products by {products.name}: {peak / 1e9:.0f} GFLOP/s; load {os.getloadavg()[0]:.1f} besides this")
    print(f"{'':>10} {'one network':>31} {'8 side by side':>23} {'8 batched':>23}")
    print(f"{'hidden':>10} {'aim':>6} {'steps/s':>8} {'GFLOP/s':>8} {'':>6}" + f" {'steps/s':>8} {'a network':>14}" * 2)
    family = Hyperteacher.sample(modules=16, active=3, weights="discrete", seed=0)
    pool = splits.random(family.z_domain.supports, 0.25, 0).train  # type: ignore[attr-defined]
    runs = [Run(family, pool, seed) for seed in range(MEMBERS)]
    for widths, steps, aim in SIZES[: 2 if quick else 3]:
        settings = Settings(widths=widths, steps=steps)
        work = _operations(runs[0].sizes(settings), settings.tasks * settings.samples)
        one = steps / _best(lambda s=settings: train(runs[:1], s), device)
        beside = MEMBERS * steps / _best(lambda s=settings: train(runs, s), device) if device.type == "cpu" else None
        batched = MEMBERS * steps / _best(lambda s=settings: _batched(runs, s, device), device)
        shape = f"{len(widths)} x {widths[0]}"
        line = f"{shape:>10} {aim:>6} {one:>8.1f} {one * work / 1e9:>8.0f} {one * work / peak:>6.0%}"
        for rate in (beside, batched):
            line += f" {rate:>8.1f} {rate / one:>7.2f} x one" if rate else f" {'-':>8} {'-':>13}"
        print(line)


def _batched(runs: list[Run], settings: Settings, device: torch.device) -> None:
    Session(runs, settings, device, torch.get_num_threads(), None).train(lambda steps: False)


def _operations(sizes: tuple[int, ...], rows: int) -> int:
    """Of a step: three products a layer, but for the gradient by the input, which nobody needs."""
    weights = [a * b for a, b in pairwise(sizes)]
    return 2 * rows * (3 * sum(weights) - weights[0])


def _peak(device: torch.device) -> float:
    """Operations a second of a large square product, by the route that training takes."""
    a, b, out = (torch.rand(SIDE, SIDE, device=device) for _ in range(3))
    products = choose(device)
    return 2 * SIDE**3 / _best(lambda: products.forward(a, b, None, out), device)


def _best(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of a few calls: other processes only ever make it slower."""
    found = []
    for _ in range(WINDOWS + 1):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])
