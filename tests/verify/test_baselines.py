"""Baselines: the blind predictor and the nearest training support, against plain loops."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from theory import Hyperteacher, Supports, splits
from verify import baselines
from verify.baselines import blind, nearest, nearest_tasks
from verify.metrics import evaluate

FAMILY = Hyperteacher.sample(8, 3, 3, (4,), 2, "discrete", seed=0)


@given(st.integers(2, 7), st.integers(0, 99), st.integers(1, 6))
def test_nearest_support_by_brute_force(modules, seed, supports):
    generator = np.random.default_rng(seed)
    masks = (generator.random((supports, modules)) < 0.5).astype(float)
    masks[masks.sum(axis=1) == 0, 0] = 1
    z = generator.random((9, modules)) * (generator.random((9, modules)) < 0.6)
    z[z.sum(axis=1) == 0, 0] = 0.5
    found = nearest_tasks(torch.from_numpy(z), torch.from_numpy(masks)).numpy()
    for task, row in zip(z, found, strict=True):
        distance = [int(((task != 0) != (mask != 0)).sum()) for mask in masks]
        mask = masks[int(np.argmin(distance))]
        mean = task.sum() / (task != 0).sum()
        assert np.allclose(row, [0 if not on else (w if w else mean) for w, on in zip(task, mask, strict=True)])


def test_on_training_tasks_the_nearest_support_is_the_task():
    pool = splits.random(Supports(8, 3), 0.5, 0).train
    generator = np.random.default_rng(0)
    z = FAMILY.z_domain.weights(pool.sample(50, generator), generator)
    assert evaluate(nearest(FAMILY, pool, generator), FAMILY, z, 4, generator, torch.float64).scores.largest == 0


def test_blind_is_the_mean_over_training_tasks(monkeypatch):
    pool = splits.random(Supports(8, 3), 0.5, 0).train
    predict = blind(FAMILY, pool, np.random.default_rng(5), tasks=20)
    x = torch.randn(3, 4, 3, dtype=torch.float64)
    generator = np.random.default_rng(5)
    tasks = torch.from_numpy(FAMILY.z_domain.weights(pool.sample(20, generator), generator))
    wanted = torch.stack([FAMILY(x, task.expand(3, -1)) for task in tasks]).mean(dim=0)
    assert torch.allclose(predict(x, tasks[:3]), wanted)
    monkeypatch.setattr(baselines, "ENTRIES", 50)  # in many blocks
    assert torch.allclose(blind(FAMILY, pool, np.random.default_rng(5), tasks=20)(x, tasks[:3]), wanted)


def test_the_order_of_baselines():
    """Held out: blind is near 0, nearest above it, the family itself 1 (reference: pooled .09 and .47)."""
    pool = splits.random(Supports(8, 3), 0.25, 0)
    generator = np.random.default_rng(0)
    z = FAMILY.z_domain.weights(pool.held_out.sample(300, generator), generator)
    found = {
        name: evaluate(make(FAMILY, pool.train, generator), FAMILY, z, 16, generator).scores.r2_pooled
        for name, make in (("blind", blind), ("nearest", nearest))
    }
    assert -0.3 < found["blind"] < 0.35 and found["blind"] + 0.1 < found["nearest"] < 0.9
