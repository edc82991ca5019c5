"""Forward pass of built networks, dense against sparse layers: at which size does which pay?"""

from __future__ import annotations

import time

import torch

from constructions import build, mlp
from theory import Hyperteacher

ROWS = 1000
REPEATS = 5


def run(quick: bool = False) -> None:
    """Print rows a second for the exact khot network, all layers dense, all sparse, and as chosen by size."""
    print(f"{'M':>8} {'neurons':>10} {'dense rows/s':>14} {'sparse rows/s':>14} {'as built':>14}")
    for modules in (16, 64, 256) if quick else (16, 64, 256, 1024, 4096):
        family = Hyperteacher.sample(modules=modules)
        rates = [_rate(family, limit) for limit in (2**62, -1, None)]
        neurons = build(family).neurons
        print(f"{modules:>8} {neurons:>10,} " + " ".join(f"{r:>14,.0f}" if r else f"{'-':>14}" for r in rates))


def _rate(family: Hyperteacher, limit: int | None) -> float | None:
    saved = mlp.DENSE_WEIGHTS, mlp.DENSE_SHARE
    if limit is not None:
        mlp.DENSE_WEIGHTS, mlp.DENSE_SHARE = limit, 2.0
    try:
        net = build(family)
    finally:
        mlp.DENSE_WEIGHTS, mlp.DENSE_SHARE = saved
    if limit == 2**62 and net.size.parameters > 2**28:
        return None
    rows = torch.rand(ROWS, family.modules + family.inputs, dtype=torch.float64)
    net.on_rows(rows)
    start = time.perf_counter()
    for _ in range(REPEATS):
        net.on_rows(rows)
    return ROWS * REPEATS / (time.perf_counter() - start)
