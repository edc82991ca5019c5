import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import strategies
from constructions import build
from theory import Hyperteacher, Words
from verify import check

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # these networks are small: threads would only wait for one another
    yield
    torch.set_num_threads(before)


def small(weights="continuous", **sizes):
    sizes = {"modules": 4, "active": 2, "inputs": 3, "hidden": (2,), "outputs": 2} | sizes
    return Hyperteacher.sample(**sizes, weights=weights)


def claimed(result):
    return result.guaranteed + result.rounding


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["paper-discrete", "small-khot", "deep-khot"])
def test_stored_teachers_are_exact(name, dtype):
    family = Hyperteacher.load(strategies.DATA / f"{name}.npz")
    result = check(family, build(family, dtype=dtype), points=2000)
    assert result.status == "holds", result
    assert result.guaranteed == 0 and result.bound == 0
    assert 0 < result.measured <= result.rounding
    assert result.measured < (3e-5 if dtype == torch.float32 else 1e-12)
    assert result.measured_exact <= result.rounding


@pytest.mark.parametrize("method", ["shallow", "deep"])
def test_stored_continuous_teacher(method):
    family = Hyperteacher.load(strategies.DATA / "small-continuous.npz")
    result = check(family, build(family, eps=1e-2, method=method), eps=1e-2, points=2000)
    assert result.status == "holds" and result.bound == 1e-2, result
    assert 0.3e-2 < result.measured <= claimed(result)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_search_reaches_a_known_worst_error(dtype):
    # One module, one input, one unit, bias large enough that the unit is never bent: the error is |readout| times G4's.
    family = Hyperteacher([[[[1.0]]]], [[[2.0]]], [[3.0]], active=1, weights="continuous")
    net = build(family, eps=1e-2, method="shallow", dtype=dtype)
    result = check(family, net, points=2000)
    assert 0.98 * result.guaranteed < result.measured <= claimed(result)


@QUICK
@given(st.integers(0, 10**6), st.sampled_from(["khot", "discrete", "continuous"]), st.sampled_from(["shallow", "deep"]),
       st.sampled_from([torch.float32, torch.float64]))  # fmt: skip
def test_measured_is_below_the_claim(seed, weights, method, dtype):
    family = small(weights, seed=seed)
    result = check(family, build(family, 0.05, method if weights == "continuous" else "auto", dtype=dtype), points=1000)
    assert result.measured <= claimed(result)
    assert result.measured_exact <= claimed(result)
    assert result.status == "holds"


@settings(QUICK, max_examples=5)
@given(strategies.hyperteachers())
def test_degenerate_families_hold(family):
    net = build(family, 0.5)
    result = check(family, net, points=200)
    assert result.measured <= claimed(result)
    assert result.status == "unknown" and "200 points" in result.reason


def test_words_hold_and_all_supports_are_searched():
    family = Words.sample(modules=3, length=2)
    result = check(family, build(family), points=1000)
    assert result.status == "holds" and result.supports == 9


def test_all_supports_are_searched_when_few():
    family = small("khot", modules=7, active=3)
    assert check(family, build(family), points=1000).supports == family.tasks


@pytest.mark.parametrize("weights", ["khot", "continuous"])
def test_same_seed_same_result(weights):
    family = small(weights)
    net = build(family, 0.05)
    one, two, other = (check(family, net, points=1000, seed=seed) for seed in (3, 3, 4))
    assert replace(one, seconds=0.0) == replace(two, seconds=0.0)
    assert replace(one, seconds=0.0, seed=4) != replace(other, seconds=0.0)


@pytest.mark.parametrize("weights", ["khot", "discrete", "continuous"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_damaged_weight_is_violated(weights, layer):
    family = small(weights)
    net = build(family, 0.05)
    weight = net.linear[layer].weight.data
    at = np.unravel_index(int(weight.abs().argmax()), weight.shape)
    weight[at] *= 1.2
    result = check(family, net, points=1000)
    assert result.status == "violated", result
    assert result.measured > claimed(result) and result.measured_exact > claimed(result)


def test_an_understated_bound_is_violated():
    family = small()
    net = build(family, 0.05, "shallow")
    assert check(family, net, points=1000).status == "holds"
    assert check(family, net, eps=1e-4, points=1000).status == "violated"
    net.errors = net.errors * 0.01
    result = check(family, net, points=1000)
    assert result.status == "violated" and "own bound" in result.reason
    # The network's own claim is false, even where eps is met.
    assert check(family, net, eps=0.05, points=1000).status == "violated"


def test_a_bound_above_eps_is_unknown():
    family = small()
    net = build(family, 0.05, "shallow")
    net.errors = net.errors * 10
    result = check(family, net, eps=0.05, points=1000)
    assert result.status == "unknown" and "above eps" in result.reason


def test_too_few_points_are_unknown():
    family = small("khot")
    assert check(family, build(family), points=999).status == "unknown"
    assert check(family, build(family), points=1000).status == "holds"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("layer", [0, 2])
def test_a_weight_that_is_not_finite_is_violated(bad, layer):
    family = small("khot")
    net = build(family)
    net.linear[layer].weight.data[0, 0] = bad
    result = check(family, net, points=1000)
    assert result.status == "violated" and "NaN or infinite" in result.reason
    written = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert written["measured_exact"] is None


def test_an_output_that_overflows_is_violated_and_null_in_json():
    family = small("khot", outputs=1)
    net = nn.Sequential(nn.Linear(7, 1), nn.Linear(1, 1))
    net[0].weight.data.fill_(1e30)
    net[1].weight.data.fill_(1e30)
    result = check(family, net, eps=1.0, points=1000)
    assert result.status == "violated" and result.measured == math.inf
    assert math.isfinite(result.measured_exact)
    assert json.loads(json.dumps(result.as_dict(), allow_nan=False))["measured"] is None


class Pair(nn.Module):
    """A trained network of the other kind: takes (x, z), and is no stack of linear layers."""

    def __init__(self, family):
        super().__init__()
        self.inner = nn.Linear(family.inputs + family.modules, family.outputs, dtype=torch.float64)

    def forward(self, x, z):
        return torch.tanh(self.inner(torch.cat([x, z], dim=-1)))


def test_networks_without_a_bound():
    family = small("khot")
    row = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 2))
    for net in (row, Pair(family)):
        loose, tight, none = (check(family, net, eps=eps, points=1000) for eps in (100.0, 1e-3, None))
        assert (loose.status, tight.status, none.status) == ("unknown", "violated", "unknown")
        assert loose.guaranteed is None and loose.rounding is None and "no bound" in loose.reason
        assert (tight.measured_exact is None) == (net is not row)
        json.dumps(tight.as_dict(), allow_nan=False)


def test_a_plain_copy_of_a_network_measures_the_same():
    family = small("continuous")
    net = build(family, method="shallow", eps=0.1)
    copy = check(family, net.as_sequential(), points=1000)
    assert copy.measured == pytest.approx(check(family, net, points=1000).measured, rel=1e-9)


def test_a_forward_that_does_not_use_its_weights_is_not_trusted():
    family = small("khot")
    net = build(family)
    net.on_rows = lambda values: torch.zeros(len(values), 2, dtype=values.dtype)
    result = check(family, net, points=1000)
    assert result.status == "unknown" and "differ" in result.reason


def test_refusals_are_one_line():
    family = small("khot")
    net = build(family)
    narrow = nn.Sequential(nn.Linear(5, 2))
    wrong = nn.Sequential(nn.Linear(7, 3))
    for refused in (
        lambda: check(family, narrow),
        lambda: check(family, wrong),
        lambda: check(small("khot", inputs=2), net),
        lambda: check(small("khot", outputs=3), net),
        lambda: check(family, nn.Linear(7, 2).half()),
        lambda: check(family, net, eps=0.0),
        lambda: check(family, net, eps=math.nan),
        lambda: check(family, net, points=0),
        lambda: check(family, net, seed=-1),
        lambda: check(family, net, device="tpu"),
    ):
        with pytest.raises(ValueError) as reason:
            refused()
        assert "\n" not in str(reason.value) and len(str(reason.value)) > 20


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_is_refused_where_there_is_none():
    with pytest.raises(ValueError, match="cuda"):
        check(small("khot"), build(small("khot")), device="cuda")


def test_the_result_reads_well():
    family = small()
    result = check(family, build(family, 0.05), eps=0.05, points=1000)
    text = str(result)
    assert text.startswith("holds: ") and "guaranteed" in text and "witness" in text
    assert list(result.as_dict())[:4] == ["guaranteed", "rounding", "certified", "measured"]
    assert result.certified is None and result.seed == 0 and result.dtype == "float64"


def test_a_small_memory_budget_is_enough():
    family = small()
    net = build(family, 0.05)
    result = check(family, net, points=1000, memory=20_000)
    assert result.status == "holds" and result.points > 1000


def test_a_damage_too_small_to_be_seen_leaves_the_claim_unproved():
    family = Hyperteacher.sample(4, 2, 2, (2,), 1, "continuous")
    net = build(family, 0.5, "shallow")
    assert check(family, net).status == "holds" and net.faithful
    net.linear[0].bias[0] *= 1 + 1e-9
    found = check(family, net)
    assert not net.faithful and found.status == "unknown" and "not those of the construction" in found.reason
    assert build(family, 0.5, "shallow", dtype=torch.float64).to(torch.float32).faithful
