"""What `kofm claims --refresh` works out by itself: numbers for the claims about learning, without any training.

Each yields (what was found, the number, holds or violated), for `verify.evidence`. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb

import numpy as np
import torch

from constructions import build
from theory import Hyperteacher, Supports
from theory.domains import Tasks
from theory.identifiability import chain, decodable_share
from theory.ranks import reduce_columns
from verify.decoding import list_tasks, nearest_pair, recovery
from verify.metrics import Predict
from verify.probing import decodability

Outcome = tuple[str, float | int | None, str]


def decoding() -> Iterator[Outcome]:
    """C9: how often the nearest-task decoder fails, for an exact network and for networks that near the bound."""
    family = Hyperteacher.sample(modules=8, active=3, inputs=4, hidden=(4,), outputs=4, weights="khot", seed=0)
    net = build(family, dtype=torch.float32)
    found = recovery(lambda x, z: net(x, z), family, np.random.default_rng(0))
    what = f"share of {found.tasks} tasks that the decoder gets wrong, exact network (bound {found.bound:.1g})"
    yield what, found.failures, _state(found.failures <= found.bound)
    pulled = [recovery(_pulled(family, by), family, np.random.default_rng(0)) for by in (0.25, 0.49, 0.505, 0.6)]
    below = all(p.failures <= p.beyond <= p.bound + 1e-9 < 1 for p in pulled)
    what = "largest share of the bound 4 MSE/D^2 < 1 that failures reach, two tasks pulled together"
    yield what, max(p.failures / p.bound for p in pulled), _state(below)


def _pulled(family: Hyperteacher, by: float) -> Predict:
    """The family, but for its two nearest tasks on the points asked for: each is moved so far towards the other."""
    every = torch.from_numpy(list_tasks(family, np.random.default_rng(0))[0])

    def predict(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        values = family(x[:1].double().expand(len(every), -1, -1), every)
        first, second, _ = nearest_pair(values.flatten(1))
        pair = [first, second]
        values[pair] += by * (values[pair[::-1]] - values[pair])
        return values[torch.cdist(z.double(), every).argmin(dim=1)]

    return predict


def layers() -> Iterator[Outcome]:
    """C14: what ridge regression finds in the two hidden layers of an exact network, x fresh for each task."""
    family = Hyperteacher.sample(modules=16, active=3, inputs=16, hidden=(4,), outputs=4, weights="khot", seed=0)
    domain = Tasks(family.modules, family.active)
    fitted, held_out = (domain.sample(n, np.random.default_rng(n)) for n in (4000, 2000))
    rows = decodability(build(family, dtype=torch.float32), family, fitted, held_out)
    found = {row.layer: row.fit.r2 for row in rows}
    first, last = found[0] or 0.0, found[1] or 0.0  # None where no weight varies: nothing is found
    active = Fraction(sum(k * comb(16, k) for k in (1, 2, 3)), 16 * family.tasks)
    floor, most = float((1 - active) / (Fraction(4, 3) - active)), float(decodable_share(4, domain))
    yield (
        f"R2 of z in the first hidden layer, exact network (M = 16; at least {floor:.3f})",
        first,
        _state(first >= floor),
    )
    yield f"R2 of z in its last, of 4 units (at most {most:.3f})", last, _state(last <= most)


def spans() -> Iterator[Outcome]:
    """C15: how many tasks, drawn at random, until all tasks lie in their span; and a chain's rank. Weights 0 or 1."""
    supports, generator, needed = Supports(16, 3), np.random.default_rng(0), []
    for _ in range(20):
        drawn = supports.masks(supports.sample(64, generator)).astype(int)
        pivots, _ = reduce_columns(drawn.T)  # the tasks that each added a direction
        needed.append(pivots[-1] + 1 if len(pivots) == supports.modules else None)
    enough = [n for n in needed if n is not None]
    what = (
        f"tasks drawn until they span all, mean of {len(needed)} (M = 16, K = 3; floor 16, all tasks {supports.count})"
    )
    mean = float(np.mean(enough)) if len(enough) == len(needed) else None
    yield what, mean, "unknown" if mean is None else _state(min(enough) >= supports.modules)
    linked = chain(16, 3)
    rank = len(reduce_columns(supports.masks(linked).astype(int))[0])
    what = f"rank of a chain of {len(linked)} tasks, which has both support conditions (M = 16)"
    yield what, rank, _state(rank == len(linked) < supports.modules)


def _state(held: bool) -> str:
    return "holds" if held else "violated"
