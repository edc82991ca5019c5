"""Predictors to compare with: one that is blind to the task, and the true function of the nearest training support."""

from __future__ import annotations

import numpy as np
import torch

from theory.arithmetic import Array
from theory.domains import Tasks
from theory.families.family import Family
from theory.splits.pools import Pool
from verify.metrics import Predict

#: Training tasks that the blind predictor averages over, training supports that the nearest one is looked for among.
BLIND_TASKS, NEAREST_SUPPORTS = 256, 2**16
#: Entries of one block of distances.
ENTRIES = 2**24


def blind(family: Family, pool: Pool, generator: np.random.Generator, tasks: int = BLIND_TASKS) -> Predict:
    """The mean of f(x, z) over training tasks z: the best that does not look at z. Estimated from ``tasks`` of them."""
    z = _domain(family).weights(pool.sample(tasks, generator), generator)

    def predict(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(*x.shape[:2], family.outputs, dtype=x.dtype, device=x.device)
        rows = x.reshape(1, -1, x.shape[-1])
        step = max(1, ENTRIES // (rows.shape[1] * family.outputs))
        for start in range(0, tasks, step):
            part = torch.as_tensor(z[start : start + step], dtype=x.dtype, device=x.device)
            total += family(rows.expand(len(part), -1, -1), part).sum(dim=0).view_as(total)
        return total / tasks

    return predict


def nearest(family: Family, pool: Pool, generator: np.random.Generator) -> Predict:
    """f(x, z') for the training support nearest to that of z: fewest modules more or less, then the first in the pool.

    z' has the weights of z on the modules they share, and the mean weight of z on the others. Among more than
    NEAREST_SUPPORTS training supports it looks at so many, drawn at random.
    """
    few = pool.count <= NEAREST_SUPPORTS
    supports = pool.listed() if few else pool.sample(NEAREST_SUPPORTS, generator)
    masks = torch.from_numpy(_masks(supports, family.modules))

    def predict(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return family(x, nearest_tasks(z, masks.to(z)))

    return predict


def nearest_tasks(z: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """The task z' of each z (tasks, M) on the nearest of the supports ``masks`` (supports, M) of 0 and 1."""
    on, chosen = (z != 0).to(z), []
    step = max(1, ENTRIES // len(masks))
    for start in range(0, len(z), step):
        part = on[start : start + step]
        distance = part.sum(1, keepdim=True) + masks.sum(1) - 2 * part @ masks.T  # Hamming, as one product
        chosen.append(distance.argmin(dim=1))
    support = masks[torch.cat(chosen)]
    mean = z.sum(1, keepdim=True) / on.sum(1, keepdim=True).clamp(min=1)
    return torch.where(support > 0, torch.where(z != 0, z, mean), torch.zeros_like(z))


def _masks(supports: Array, modules: int) -> Array:
    masks = np.zeros((len(supports), modules))
    row, place = np.nonzero(supports >= 0)
    masks[row, supports[row, place]] = 1.0
    return masks


def _domain(family: Family) -> Tasks:
    assert isinstance(family.z_domain, Tasks)
    return family.z_domain
