"""How fast is the error search, as a fraction of this machine's matrix-product rate?

Target: 60 % up to 2,000 neurons, 45 % at 20,000, with preallocated outputs and chunks of 1,000 to 4,000 rows. The rate
that counts is that of a square product of the same dtype; skinny layers (few inputs or outputs) are bound by memory.
"""

from __future__ import annotations

import time

import torch
from torch import nn

from constructions import build
from theory import Hyperteacher
from verify.networks import ChunkedForward, stack_of

ROWS = 2048
SECONDS = 1.0


def run(quick: bool = False) -> None:
    """Print GFLOP/s and the fraction for square networks (as trained ones are) and for constructed ones."""
    for dtype in (torch.float64, torch.float32):
        peak = _peak(dtype)
        print(f"{str(dtype).removeprefix('torch.')}: matrix product {peak / 1e9:.0f} GFLOP/s")
        print(f"  {'network':>34} {'neurons':>8} {'GFLOP/s':>9} {'fraction':>9}")
        for name, net in _networks(dtype, quick):
            stack = stack_of(net)
            assert stack is not None
            rate, neurons = _rate(stack, dtype), sum(m.bias.numel() for m, relu in stack if relu)  # type: ignore[union-attr, operator]
            print(f"  {name:>34} {neurons:>8,} {rate / 1e9:>9.1f} {rate / peak:>9.0%}")


def _networks(dtype: torch.dtype, quick: bool) -> list[tuple[str, nn.Module]]:
    found: list[tuple[str, nn.Module]] = []
    for width in (512, 1024) if quick else (512, 1024, 4096):
        layers = [nn.Linear(32, width), *[nn.Linear(width, width) for _ in range(3)], nn.Linear(width, 16)]
        stack = [m for layer in layers for m in (layer, nn.ReLU())][:-1]
        found.append((f"trained shape, 4 x {width}", nn.Sequential(*stack).to(dtype)))
    for modules in (16, 64) if quick else (16, 64, 1200):
        khot = build(Hyperteacher.sample(modules=modules), dtype=dtype)
        found.append((f"khot exact, M = {modules}", khot))
    if not quick:
        family = Hyperteacher.sample(modules=64, weights="continuous")
        found.append(("continuous shallow, M = 64", build(family, 0.1, "shallow", dtype=dtype)))
    return found


def _peak(dtype: torch.dtype) -> float:
    a, b = (torch.rand(ROWS, ROWS, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * ROWS**3 * _per_second(lambda: torch.mm(a, b, out=out))


def _rate(stack: list[tuple[nn.Module, bool]], dtype: torch.dtype) -> float:
    """Useful floating-point operations a second: two for each stored weight (nonzero, where the layer is sparse)."""
    forward = ChunkedForward(stack, ROWS)
    weights = sum(w._nnz() if w.layout == torch.sparse_csr else w.numel() for w in forward.weights)
    rows = torch.rand(ROWS, forward.weights[0].shape[1], dtype=dtype)
    return 2 * ROWS * weights * _per_second(lambda: forward(rows))


def _per_second(work: object) -> float:
    work()  # type: ignore[operator]
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        work()  # type: ignore[operator]
        count += 1
    return count / (time.perf_counter() - start)
