"""All benchmarks, one after the other: `make benchmarks`, or `python benchmarks/run.py [NAME ...] [--quick]`.

They print tables and are never part of the tests: a time is a measurement of this machine, not a fact about kofm.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from pathlib import Path

import torch

NAMES = ("build_time", "search_throughput", "forward_pass", "training")


def main() -> int:
    """Run the named benchmarks (default: all)."""
    parser = argparse.ArgumentParser(description="kofm's benchmarks")
    parser.add_argument("names", nargs="*", help=f"any of: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="the small sizes only")
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; use {', '.join(NAMES)}")
    sys.path.insert(0, str(Path(__file__).parent))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, {device}")
    for name in options.names or NAMES:
        print(f"\n{name}")
        importlib.import_module(name).run(quick=options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
