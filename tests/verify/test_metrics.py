"""R2 both ways on cases done by hand; constant outputs are counted and never explode."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from strategies import hyperteachers
from theory import Hyperteacher
from verify.metrics import Sums, evaluate, scores


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def test_by_hand():
    """One task, two outputs: variances 1 and 4 (sums of squares 2 and 8), squared errors 1 and 2."""
    target = tensor([[[0.0, 0.0], [2.0, 4.0]]])
    values = tensor([[[1.0, 1.0], [2.0, 5.0]]])
    found = scores(values, target)
    assert found.r2_pooled == pytest.approx(1 - 3 / 10)
    assert found.r2_ratios == pytest.approx(((1 - 1 / 2) + (1 - 2 / 8)) / 2)
    assert found.rms == pytest.approx(math.sqrt(3 / 4)) and found.largest == 1.0
    assert (found.pairs, found.constant) == (2, 0)


def test_the_paper_definition():
    """mean over tasks, samples, outputs of 1 - squared error / variance over that task's samples."""
    generator = torch.Generator().manual_seed(0)
    target, values = (torch.randn(5, 7, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    variance = target.var(dim=1, keepdim=True, correction=0)
    assert scores(values, target).r2_ratios == pytest.approx(float((1 - (values - target) ** 2 / variance).mean()))


def test_a_constant_output_is_counted_and_does_not_explode():
    """The trap: a division by the variance of an output that does not vary gives -inf."""
    target = tensor([[[1.0, 0.0], [1.0, 2.0]], [[0.0, 5.0], [0.0, 5.0]]])
    values = target.clone()
    values[0, :, 0] += 3.0
    found = scores(values, target)
    assert (found.pairs, found.constant) == (4, 3)
    assert found.r2_ratios == 1.0  # of the one pair that varies
    assert found.r2_pooled == pytest.approx(1 - 18 / 2)  # and the error is not dropped
    every = scores(torch.ones(1, 3, 2), torch.ones(1, 3, 2))
    assert (every.r2_pooled, every.r2_ratios, every.constant, every.rms) == (None, None, 2, 0.0)
    near = tensor([[[1e6], [1e6 + 1e-3]]])  # varies by rounding alone
    assert scores(near, near).constant == 1


def test_predicting_the_mean_scores_exactly_zero():
    """The trap: -.08 for predicting the true mean."""
    target = torch.randn(50, 16, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = scores(target.mean(dim=1, keepdim=True).expand_as(target), target)
    assert found.r2_pooled == pytest.approx(0, abs=1e-12) and found.r2_ratios == pytest.approx(0, abs=1e-12)


@given(st.integers(1, 6), st.integers(2, 5), st.integers(1, 3), st.integers(0, 99), st.integers(1, 6))
def test_blocks_make_no_difference_and_groups_add_up(tasks, samples, outputs, seed, cut):
    generator = torch.Generator().manual_seed(seed)
    target, values = (torch.randn(tasks, samples, outputs, generator=generator) for _ in range(2))
    sums = Sums()
    for start in range(0, tasks, cut):
        sums.add(values[start : start + cut], target[start : start + cut])
    assert sums.scores() == scores(values, target)
    found = [sums.scores(np.array([t])) for t in range(tasks)]
    assert sum(f.pairs for f in found) == sums.scores().pairs
    assert sums.scores().rms ** 2 == pytest.approx(np.mean([f.rms**2 for f in found]))
    assert sums.scores().largest == max(f.largest for f in found)
    assert all(v is None or math.isfinite(v) for v in scores(values, target).as_dict().values())


@given(hyperteachers(), st.integers(0, 99))
def test_the_family_itself_scores_one(family, seed):
    generator = np.random.default_rng(seed)
    z = family.z_domain.sample(12, generator)
    found = evaluate(family, family, z, 3, generator, torch.float64)
    assert found.scores.largest == 0 and found.scores.r2_pooled in (1.0, None)
    hotness = found.by_hotness()
    assert set(hotness) == set((z != 0).sum(axis=1).tolist())
    assert sum(s.pairs for s in hotness.values()) == found.scores.pairs == 12 * family.outputs
    supports = found.by_support()
    assert set(supports) == {tuple(np.flatnonzero(row).tolist()) for row in z}
    assert sum(s.pairs for s in supports.values()) == found.scores.pairs


def test_groups_are_told_apart():
    """An error on tasks of one hotness, and of one support, shows there and nowhere else."""
    family = Hyperteacher.sample(5, 3, 3, (4,), 2, "khot", seed=0)
    z = np.array([[1.0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])

    def predict(x, z):
        return family(x, z) + ((z.sum(dim=1) == 2) & (z[:, 0] == 1)).to(x)[:, None, None]

    found = evaluate(predict, family, z, 4, np.random.default_rng(0), torch.float64)
    assert {k: s.largest > 0.5 for k, s in found.by_hotness().items()} == {1: False, 2: True, 3: False}
    assert [s for s, v in found.by_support().items() if v.largest > 0.5] == [(0, 1)]
    assert found.by_support()[0, 1].pairs == 4


def test_refusals():
    good = torch.ones(2, 3, 1)
    assert_refused(lambda: scores(good, torch.ones(2, 3, 2)), ["need the same"])
    assert_refused(lambda: scores(torch.ones(2, 3), torch.ones(2, 3)), ["need the same"])
    assert_refused(lambda: scores(good * torch.nan, good), ["NaN"])
    assert_refused(lambda: Sums().scores(), ["at least one"])
    family = Hyperteacher.sample(3, 2, 2, (3,), 1, "khot", seed=0)
    assert_refused(lambda: evaluate(family, family, np.eye(3), 1, np.random.default_rng(0)), ["at least 2"])
