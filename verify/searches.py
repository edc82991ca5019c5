"""Two searches over trained networks: the smallest width, and the fewest training supports, that are enough.

Enough means a median held-out R2 (pooled) of at least TARGET over the seeds. Both double, then bisect, and so assume
that the score rises with the number; every score that was met is returned, for the reader to see whether it did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from constructions import build
from theory import Hyperteacher, splits
from theory.domains import Tasks
from theory.identifiability import fewest_supports
from theory.splits.counts import share
from verify.comparison import Row, draw, predictor
from verify.experiments import Case, Plan, trained
from verify.metrics import evaluate
from verify.store import Store
from verify.training import Settings

#: The held-out R2 that must be reached.
TARGET = 0.95
#: Tasks and samples of each that a network is scored on.
TASKS, SAMPLES = 512, 64


@dataclass(frozen=True)
class Smallest:
    """value: the smallest number found that is enough, None where none up to the most is. tried: each one's score."""

    value: int | None
    tried: dict[int, float]

    @property
    def scores(self) -> dict[str, float | None]:
        """``tried`` in JSON types, None for what is not finite."""
        return {str(number): score if math.isfinite(score) else None for number, score in self.tried.items()}


def smallest(
    score: Callable[[int], float], target: float, *, least: int = 2, most: int = 512, resolution: float = 0.125
) -> Smallest:
    """Search from ``least`` to ``most``; the result is at most ``resolution`` (relative) above one that fails.

    Raises ValueError unless 1 <= least <= most.
    """
    if not 1 <= least <= most:
        raise ValueError(f"search: {least} to {most}; need 1 <= least <= most")
    tried: dict[int, float] = {}

    def reaches(number: int) -> bool:
        tried[number] = score(number)
        return tried[number] >= target

    low, high = least - 1, least
    while not reaches(high):
        if high == most:
            return Smallest(None, tried)
        low, high = high, min(2 * high, most)
    while high - low > max(1, int(resolution * low)):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return Smallest(high, tried)


def smallest_width_of(cases: Sequence[Case], settings: Settings, store: Store, device: str = "auto") -> Row:
    """The smallest width of two hidden layers that is enough, beside the exact network's count of neurons."""

    def score(width: int) -> float:
        return _median(cases, replace(settings, widths=(width, width)), store, device)

    found, family = smallest(score, TARGET), cases[0].family
    return {
        "modules": family.modules,
        "target": TARGET,
        "width": found.value,
        "neurons": None if found.value is None else 2 * found.value,
        "exact_neurons": None if family.weights == "continuous" else build(family, method="exact").neurons,
        "tried": found.scores,
        "seeds": len(cases),
    }


def fewest_supports_of(
    family: Callable[[int], Hyperteacher],
    seeds: Sequence[int],
    encoding: str,
    settings: Settings,
    store: Store,
    device: str = "auto",
) -> Row:
    """The fewest random training supports that are enough, between the floor of claim C15 and all supports but one.

    The floor is that of compositional and connected support; for K = 1, one support a module.
    """
    families = [family(seed) for seed in seeds]
    domain = families[0].z_domain
    assert isinstance(domain, Tasks)
    supports = domain.supports
    total = supports.count
    floor = fewest_supports(supports.modules, supports.active) if supports.active > 1 else supports.modules

    def score(trained_on: int) -> float:
        fraction = share(total - trained_on, total, up=False)
        cases = [
            Case(of, splits.random(supports, fraction, seed), seed, encoding)
            for of, seed in zip(families, seeds, strict=True)
        ]
        return _median(cases, settings, store, device)

    most = total - 1
    found = smallest(score, TARGET, least=floor, most=most) if floor <= most else Smallest(None, {})
    return {
        "modules": supports.modules,
        "active": supports.active,
        "target": TARGET,
        "floor": floor,
        "supports": found.value,
        "all_supports": total,
        "tried": found.scores,
        "seeds": len(seeds),
    }


def held_out_r2(case: Case, net: nn.Sequential) -> float:
    """Pooled R2 on held-out tasks; minus infinity where the targets do not vary."""
    generator = np.random.default_rng(np.random.SeedSequence(case.seed, spawn_key=(9,)))
    z = draw(case.family, case.split.held_out, TASKS, generator)
    found = evaluate(predictor(net, case.encoding, case.seed), case.family, z, SAMPLES, generator)
    return -np.inf if found.scores.r2_pooled is None else found.scores.r2_pooled


def _median(cases: Sequence[Case], settings: Settings, store: Store, device: str) -> float:
    nets = trained(cases, Plan(settings), store, device=device)
    return float(np.median([held_out_r2(case, net) for case, net in zip(cases, nets, strict=True)]))
