"""How do build time and memory grow with M? Target: linear; M = 10^5 (K=3, 16-16-16, khot) under 20 s and 4 GB.

Each size is built in a process of its own, so that the peak memory is its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time


def run(quick: bool = False) -> None:
    """Print seconds and peak memory for M = 10^2 .. 10^5."""
    print(f"{'M':>8} {'neurons':>10} {'nonzeros':>11} {'build s':>8} {'peak GiB':>9}")
    for modules in (100, 1_000, 10_000) if quick else (100, 1_000, 10_000, 100_000):
        subprocess.run([sys.executable, __file__, str(modules)], check=True)


def one(modules: int) -> None:
    """Build one network and print its row."""
    from constructions import build
    from theory import Hyperteacher

    family = Hyperteacher.sample(modules=modules)
    start = time.perf_counter()
    net = build(family)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{modules:>8} {net.neurons:>10,} {net.size.nonzeros:>11,} {seconds:>8.2f} {peak:>9.2f}")


if __name__ == "__main__":
    one(int(sys.argv[1]))
