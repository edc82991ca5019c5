"""Encodings: injective on the tasks, with exact inverses where there are any; the traps of the paper's code."""

from fractions import Fraction as F

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import assert_refused
from theory import Hyperteacher, Supports, Words, encodings
from theory.domains import Tasks
from theory.families.hyperteacher import DISCRETE

INVERTIBLE = ("identity", "orthogonal", "tokens", "invertible", "invertible-nonlinear", "shuffle")
WEIGHTS = ("khot", "discrete", "continuous")


def family_of(modules, active, weights="discrete", seed=0):
    return Hyperteacher.sample(modules, active, 3, (4,), 2, weights, seed)


@st.composite
def cases(draw, names=encodings.NAMES):
    """A family, one of its encodings, tasks z (n, M)."""
    modules = draw(st.integers(1, 9))
    weights = draw(st.sampled_from(WEIGHTS))
    name = draw(st.sampled_from([n for n in names if weights != "continuous" or n != "tokens"]))
    family = family_of(modules, draw(st.integers(1, min(3, modules))), weights)
    z = family.z_domain.sample(30, np.random.default_rng(draw(st.integers(0, 99))))
    return family, encodings.make(name, family, draw(st.integers(0, 9))), z


@given(cases(INVERTIBLE), st.sampled_from([torch.float32, torch.float64]))
def test_the_inverse_gives_the_task_back(case, dtype):
    _, encoding, z = case
    z = torch.from_numpy(z).to(dtype)
    shown = encoding(z)
    assert shown.dtype == dtype and shown.shape == (30, encoding.width)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    assert (encoding.decode(shown) - z).abs().max() <= tolerance
    if encoding.name in ("identity", "tokens"):
        assert torch.equal(encoding.decode(shown), z)


@given(cases())
def test_encodings_lie_in_their_domain_and_have_any_leading_shape(case):
    family, encoding, z = case
    for dtype in (torch.float32, torch.float64):
        given_z = torch.from_numpy(z).to(dtype)
        shown = encoding(given_z, np.random.default_rng(0))
        assert encoding.domain.size == encoding.width == shown.shape[-1]
        assert encoding.domain.contains(shown.double().numpy()).all()
        folded = encoding(given_z.reshape(5, 6, -1), np.random.default_rng(0))
        assert torch.allclose(folded.reshape(30, -1), shown, atol=1e-5)
    assert "\n" not in repr(encoding) and str(family.modules) in repr(encoding)


@given(cases(("identity", "orthogonal", "tokens")))
def test_affine_encodings_are_their_matrix(case):
    _, encoding, z = case
    matrix, offset = encoding.affine
    found = encoding(torch.from_numpy(z)).numpy()
    # tokens round: float32 levels are tenths up to 6e-8
    assert np.abs(z @ matrix + offset - found).max() <= (1e-6 if encoding.name == "tokens" else 1e-12)


@pytest.mark.parametrize("weights", ["khot", "discrete"])
@pytest.mark.parametrize("name", encodings.NAMES)
def test_injective_on_all_tasks_of_a_small_family(name, weights):
    family = family_of(5, 2, weights)
    levels = [0.0, *map(float, family.z_domain.levels)]
    grid = np.array(np.meshgrid(*[levels] * 5)).reshape(5, -1).T
    z = grid[((grid != 0).sum(axis=1) <= 2) & (grid != 0).any(axis=1)]
    assert len(z) == sum(len(s) and (len(levels) - 1) ** len(s) for s in Supports(5, 2))
    for seed in range(3):
        encoding = encodings.make(name, family, seed)
        distance, a, b = encodings.smallest_distance(encoding, z)
        assert distance > 1e-3 and a != b


def test_a_planted_collision_is_found():
    class Forgets(encodings.Identity):
        def __call__(self, z, generator=None):
            return z[..., 1:]

    z = np.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 1]])
    assert encodings.smallest_distance(Forgets(Tasks(3, 2)), z)[0] == 0.0
    assert set(encodings.smallest_distance(Forgets(Tasks(3, 2)), z)[1:]) == {0, 2}
    assert encodings.smallest_distance(encodings.Identity(Tasks(3, 2)), z)[0] == 1.0
    assert_refused(lambda: encodings.smallest_distance(encodings.Identity(Tasks(3, 2)), z[[0, 0]]), ["all different"])


@pytest.mark.parametrize("inactive", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shuffle_puts_levels_into_the_right_interval(dtype, inactive):
    """The trap: .6 and .7 divided by .1, or float32(.7) times 10, fall into the interval below."""
    for seed in range(20):
        encoding = encodings.Shuffle(Tasks(1, 1, levels=DISCRETE), seed, inactive=inactive)
        for value in (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, float(np.float32(0.7))):
            wanted = encoding.goes_to[round(10 * value)] / 10
            found = encoding(torch.tensor([value], dtype=dtype)).item()
            assert found == pytest.approx(wanted, abs=1e-7)
        assert (encoding.goes_to[0] == 0) or inactive  # modules that are off stay off
    assert encoding.goes_to[-1] == 10


@given(st.integers(0, 99), st.integers(2, 12), st.booleans())
@settings(max_examples=30)
def test_shuffle_is_a_bijection_of_the_unit_interval(seed, bins, inactive):
    encoding = encodings.Shuffle(Tasks(1, 1, levels=None, interval=(F(1, 9), F(1))), seed, bins, inactive)
    values = torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]
    shown = encoding(values)
    assert (encoding.decode(shown) - values).abs().max() < 1e-12
    assert len(torch.unique((shown * 1e9).round())) == 1001
    if bins == 2 and not inactive:  # two intervals of which the first stays: nothing moves
        assert torch.allclose(shown, values)


def test_tokens_round_and_refuse_what_they_cannot_tell_apart():
    tokens = encodings.Tokens(Tasks(3, 2, levels=DISCRETE))
    z = torch.tensor([[0.0, 0.6, 0.7]], dtype=torch.float32)
    assert tokens(z).tolist() == [[1, 2, 3, 4, 10, 11]]  # int(10 * .7) in float32 just below 7 would be 6
    assert tokens(torch.tensor([[0.0, float(np.float32(0.6)), float(np.float32(0.7))]]).double()).tolist() == [
        [1, 2, 3, 4, 10, 11]
    ]
    assert_refused(lambda: encodings.Tokens(Tasks(3, 2, levels=(F(1, 2), F(13, 25)))), ["not told apart"])
    assert_refused(lambda: encodings.Tokens(Tasks(3, 2, levels=(F(1, 100),))), ["not told apart"])
    assert_refused(lambda: encodings.make("tokens", family_of(3, 2, "continuous")), ["continuous"])
    assert encodings.Tokens(Tasks(3, 2, levels=(F(1, 3), F(1)))).affine is None  # a third is no tenth


def test_how_linear_encodings_are():
    """Measured: the paper's invertible network is affine in practice, the strong one is not; shuffle is in between."""
    family = family_of(9, 3)
    r2 = {name: [encodings.linear_r2(encodings.make(name, family, s), 2000) for s in range(5)] for name in INVERTIBLE}
    for name in ("identity", "orthogonal", "tokens", "invertible"):
        assert min(r2[name]) > 0.9999
    assert max(r2["invertible-nonlinear"]) < 0.9
    assert 0.5 < np.median(r2["shuffle"]) < 0.99
    assert max(r2["shuffle"]) - min(r2["shuffle"]) > 0.01  # it depends on the seed


def test_orthogonal_is_orthogonal_and_not_biased():
    q = encodings.Orthogonal(Tasks(7, 2), 1).matrix
    assert np.abs(q @ q.T - np.eye(7)).max() < 1e-12
    traces = [np.trace(encodings.Orthogonal(Tasks(3, 2), s).matrix) for s in range(400)]
    assert abs(np.mean(traces)) < 0.25  # Haar: mean 0, variance 1; QR without its signs gives a negative mean


def test_few_shot():
    family = family_of(4, 2)
    z = torch.from_numpy(family.z_domain.sample(6, np.random.default_rng(0)))
    encoding = encodings.FewShot(family, 0, shots=5)
    shown = encoding(z, np.random.default_rng(1)).reshape(6, 5, 5)
    assert torch.allclose(shown[..., 3:], family(shown[..., :3].contiguous(), z))
    assert not torch.equal(shown, encoding(z, np.random.default_rng(2)).reshape(6, 5, 5))
    assert torch.equal(encoding(z, np.random.default_rng(1)).reshape(6, 5, 5), shown)
    fixed = encodings.FewShot(family, 0, shots=5, fixed=True)
    assert torch.equal(fixed(z, np.random.default_rng(1)), fixed(z, np.random.default_rng(2)))
    assert len(torch.unique(fixed(z).reshape(6, 5, 5)[..., :3], dim=0)) == 1
    assert_refused(lambda: fixed.decode(shown), ["no inverse"])


def test_seeds():
    family = family_of(6, 2)
    z = torch.from_numpy(family.z_domain.sample(20, np.random.default_rng(0)))
    for name in ("orthogonal", "invertible", "shuffle", "few-shot"):
        a, b, c = (encodings.make(name, family, s)(z) for s in (1, 1, 2))
        assert torch.equal(a, b) and not torch.equal(a, c)


def test_refusals():
    family = family_of(3, 2)
    assert_refused(lambda: encodings.make("odd", family), ["identity, orthogonal"])
    assert_refused(lambda: encodings.make("orthogonal", family, -1), ["seed"])
    assert_refused(lambda: encodings.make("identity", Words.sample(3, 2, 2, 0)), ["no module weights"])
    assert_refused(lambda: encodings.Invertible(Tasks(3, 2), strength=float("nan")), ["strength"])
    assert_refused(lambda: encodings.Shuffle(Tasks(3, 2), bins=1), ["bins"])
    assert_refused(lambda: encodings.Shuffle(Tasks(3, 2, levels=(F(2),))), ["at most 1"])
    assert_refused(lambda: encodings.FewShot(family, shots=0), ["shots"])
