"""The memorising network: a rewrite of the circuit, exact on every support, refused with a reason elsewhere."""

from itertools import combinations

import numpy as np
import pytest
import torch

from constructions import build, memorising
from constructions.memorising import memorise, why_not
from strategies import F, teacher
from theory import Hyperteacher, Words
from theory.arithmetic import as_exact
from theory.circuit import Circuit, Input, Maximum, ReLU, affine, box
from theory.domains import Tasks
from theory.evaluators import exact


def all_tasks(modules, active):
    """Every z of at most ``active`` ones, the task 0 among them."""
    for size in range(active + 1):
        for support in combinations(range(modules), size):
            yield np.array([F(m in support) for m in range(modules)], dtype=object)


FAMILIES = [
    teacher(4, 2, (3, 5, 2), "khot", seed=1),
    teacher(3, 3, (2, 4, 1), "khot", "dyadic", seed=2, box=(3.0, 3.5)),
    teacher(3, 2, (2, 4, 3), "khot", seed=3, scale=-0.75, box=(-1000.0, -999.0)),
    teacher(1, 1, (1, 2, 3), "khot", seed=4),
]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_rewritten_circuit_is_the_family_on_every_task(family):
    rewritten = memorise(family.circuit)
    generator = np.random.default_rng(0)
    for x in np.concatenate([family.x_domain.sample(2, generator), family.x_domain.corners(3, generator)]):
        for z in all_tasks(family.modules, family.active):
            assert np.array_equal(exact(rewritten, x, z), exact(family.circuit, x, z))
    assert sum(isinstance(node, ReLU) for node in rewritten.nodes) == 1


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_only_the_units_of_the_support_are_on(family):
    net = build(family, method="memorise")
    assert net.depth == 1 and net.guaranteed_error == 0
    layer, hidden = net.layers[0], family.hidden[0]
    x = as_exact(family.x_domain.corners(1, np.random.default_rng(1))[0])
    for z in all_tasks(family.modules, family.active):
        on = layer.weight.left(np.array([*z, *x], dtype=object)) + layer.bias > 0
        assert on.sum() <= (hidden if z.any() else 0)


def test_torch_network_follows_the_family():
    family = teacher(5, 3, (3, 4, 2), "khot", seed=6)
    net = build(family, method="memorise")
    z = torch.tensor(np.array([list(map(float, z)) for z in all_tasks(5, 3)]))
    x = torch.rand(len(z), 20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert (net(x, z) - family(x, z)).abs().max() <= net.rounding_error <= 1e-11
    assert net.neurons > build(family).neurons  # exponential in K: the baseline that the others beat
    assert net.method == "memorise"


def test_exponential_against_linear():
    counts = [[], []]
    for active in (1, 2, 3, 4):
        family = teacher(6, active, (2, 3, 1), "khot", "dyadic", seed=1, box=(0.0, 1.0))
        raised = Hyperteacher([np.abs(family.layers[0]) + 1], None, family.readout, active, box=(0.0, 1.0))
        counts[0].append(build(raised, method="memorise").neurons)
        counts[1].append(build(raised).neurons)
    assert counts[0] == [3 * t for t in (6, 21, 41, 56)]
    assert len(set(counts[1])) == 1  # the gated network does not depend on K


REFUSED = [
    (teacher(3, 2, (2, 3, 2), "discrete"), "memorise: needs khot weights"),
    (teacher(3, 2, (2, 3, 2), "continuous"), "memorise: needs khot weights"),
    (teacher(3, 2, (2, 3, 4, 2), "khot"), "memorise: needs exactly one modulated layer"),
    (Words.sample(3, 2, 2), "memorise: needs khot weights"),
]


@pytest.mark.parametrize(("family", "message"), REFUSED, ids=lambda v: v if isinstance(v, str) else repr(v))
def test_refused_with_a_reason(family, message):
    assert message in why_not(family.circuit)
    with pytest.raises(ValueError) as refusal:
        build(family, method="memorise")
    assert message in str(refusal.value) and "; " in str(refusal.value) and "\n" not in str(refusal.value)


def test_counted_but_not_built_above_the_limit(monkeypatch):
    family = teacher(5, 2, (2, 4, 1), "khot")  # 15 supports of 4 units
    monkeypatch.setattr(memorising, "LARGEST_BUILT", 60)
    memorise(family.circuit)
    monkeypatch.setattr(memorising, "LARGEST_BUILT", 59)
    with pytest.raises(ValueError, match=r"memorise: 60 neurons; .*built up to 59 .*use method exact"):
        build(family, method="memorise")
    with pytest.raises(ValueError, match=r"memorise: 82,090,552,960 neurons"):
        build(Hyperteacher.sample(64, 8), method="memorise")  # without listing five thousand million supports


def test_other_circuits_are_refused():
    x, z = Input("x", box([-1.0], [1.0])), Input("z", Tasks(2, 1))
    peak = Maximum(affine([(x, 1.0)]), affine([(z, np.ones((2, 1)))]))
    circuit = Circuit(x, z, affine([(ReLU(peak), np.ones((1, 1)))]))
    with pytest.raises(ValueError, match="memorise: a maximum is not affine in x; use method exact"):
        memorise(circuit)
    bare = Circuit(x, z, affine([(x, 1.0)]))
    assert "exactly one modulated layer" in (why_not(bare) or "")
