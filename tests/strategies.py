"""Shared by all tests: Hypothesis strategies for families and circuits, points to try, and named cases.

Sizes N, H, O and M are all different wherever possible, so that a transposed array cannot hide. Numbers come
from a drawn seed (fast), sizes and degeneracies from Hypothesis (they shrink).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from theory.circuit import (
    Affine,
    Assume,
    Bilinear,
    Circuit,
    Input,
    Maximum,
    Node,
    ReLU,
    affine,
    box,
    concat,
    take,
)
from theory.domains import KHOT, Domain, OneHot, Tasks
from theory.families import Family, Hyperteacher, Words

F = Fraction
#: Copies of the paper's own teachers (see data/README.md).
DATA = Path(__file__).parent / "data" / "teachers"
#: Grids and intervals of module weights; None is the default of the family.
GRIDS = (None, (F(1, 2), F(1)), (F(1, 3), F(2, 5)), (F(1, 3), F(2, 5), F(9, 10)), (F(1),), (F(1, 4), F(3)))
INTERVALS = (None, (F(1, 2), F(1)), (F(1, 3), F(2, 5)), (F(1, 8), F(3)))
#: Boxes: the default, touching 0, not containing 0, far away, negative, a point.
BOXES = ((-1.0, 1.0), (0.0, 1.0), (3.0, 3.5), (1000.0, 1001.0), (-2.0, -0.25), (0.5, 0.5))
FLAWS = (
    "zero module",
    "zero row",
    "zero column",
    "rank one",
    "equal columns",
    "all zero",
    "no bias",
    "dead unit",
    "zero output",
)


@dataclass(frozen=True, eq=False)
class CircuitFamily(Family):
    """A bare circuit as a family, so that whatever takes a family takes any circuit."""

    circuit: Circuit  # type: ignore[assignment]
    name: str = "circuit"

    @property
    def modules(self) -> int:
        of = self.circuit.z.of
        return of.width if isinstance(of, OneHot) else of.size

    @property
    def active(self) -> int:
        of = self.circuit.z.of
        return of.groups if isinstance(of, OneHot) else of.active

    @property
    def tasks(self) -> int:
        of = self.circuit.z.of
        return of.width**of.groups if isinstance(of, OneHot) else of.supports.count

    def __repr__(self) -> str:
        return f"{self.name}: {describe(self.circuit)}"


def describe(circuit: Circuit) -> str:
    """Kinds, widths and parents of all nodes: what a failing example should show."""
    number = {id(n): i for i, n in enumerate(circuit.nodes)}
    parts = []
    for i, node in enumerate(circuit.nodes):
        of = f" {node.of}" if isinstance(node, Input) else ""
        of += f" {node.known}" if isinstance(node, Assume) else ""
        parents = ",".join(str(number[id(p)]) for p in node.parents)
        parts.append(f"{i}={type(node).__name__}[{node.width}]({parents}){of}")
    return " ".join(parts)


def numbers(generator: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Data: "dyadic" multiples of 1/4 in [-1, 1] (zeros, ties), "integer" in -2..2, or "generic" floats."""
    if kind == "dyadic":
        return generator.integers(-4, 5, shape) / 4
    if kind == "integer":
        return generator.integers(-2, 3, shape).astype(float)
    return generator.standard_normal(shape)


KINDS = ("dyadic", "integer", "generic")


@st.composite
def boxes(draw, size: int):
    """(lower, upper), each (size,): one of BOXES for all coordinates or one each, perhaps of zero width."""
    if draw(st.booleans()):
        lower, upper = (np.full(size, side) for side in draw(st.sampled_from(BOXES[:-1])))
    else:
        picks = draw(st.lists(st.sampled_from(BOXES), min_size=size, max_size=size))
        lower, upper = (np.array([p[side] for p in picks]) for side in (0, 1))
    if draw(st.integers(0, 4)) == 4:
        flat = draw(st.integers(0, size - 1))
        upper[flat] = lower[flat]
    return lower, upper


@st.composite
def hyperteachers(
    draw,
    weights=None,
    layers=(1, 3),
    max_modules: int = 5,
    max_width: int = 5,
    kinds=KINDS,
    bounds=None,
    flaws=FLAWS,
):
    """Small hyperteachers of every sort.

    weights: one name, several, or None for all three. layers: a number or (least, most). kinds: of data
    ("dyadic" and "integer" keep everything representable, with the scale and the levels that come with them).
    bounds: a fixed (lower, upper) in place of ``boxes``. flaws: degeneracies that may be put in.
    """
    choices = ("khot", "discrete", "continuous") if weights is None else weights
    kind_of_weights = choices if isinstance(choices, str) else draw(st.sampled_from(choices))
    depth = layers if isinstance(layers, int) else draw(st.integers(*layers))
    modules = draw(st.integers(1, max_modules))
    active = draw(st.integers(1, modules))
    widths = [w for w in range(1, max(max_width, depth + 2) + 1) if w != modules]
    widths += [modules] * (len(widths) < depth + 2)
    inputs, *hidden, outputs = draw(st.permutations(widths))[: depth + 2]
    kind = draw(st.sampled_from(kinds))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = (inputs, *hidden)
    theta = [numbers(generator, (modules, a, b), kind) for a, b in zip(sizes, hidden, strict=False)]
    biases = [numbers(generator, (modules, b), kind) for b in hidden]
    readout = numbers(generator, (hidden[-1], outputs), kind)
    for flaw in draw(st.sets(st.sampled_from(flaws), max_size=2)) if flaws else ():
        layer, m = draw(st.integers(0, depth - 1)), draw(st.integers(0, modules - 1))
        damage(flaw, theta[layer], biases[layer], readout, m)
    scales = [1.0, 0.5, -0.75] + ([] if kind != "generic" else [1 / math.sqrt(active), -1.3])
    levels = {
        "khot": st.none(),
        "discrete": st.sampled_from(GRIDS if kind == "generic" else (GRIDS[1], GRIDS[4], GRIDS[5])),
        "continuous": st.sampled_from(INTERVALS if kind == "generic" else (INTERVALS[1], INTERVALS[3])),
    }[kind_of_weights]
    return Hyperteacher(
        theta,
        None if draw(st.integers(0, 5)) == 5 else biases,
        readout,
        active,
        kind_of_weights,
        draw(st.sampled_from(scales)),
        draw(boxes(inputs)) if bounds is None else bounds,
        draw(levels),
    )


def damage(flaw: str, theta: np.ndarray, bias: np.ndarray, readout: np.ndarray, m: int) -> None:
    """Put one degeneracy into module m of a layer, in place."""
    match flaw:
        case "zero module":
            theta[m] = 0
            bias[m] = 0
        case "zero row":
            theta[:, 0] = 0
        case "zero column":
            theta[m, :, 0] = 0
        case "rank one":
            theta[m] = np.outer(theta[m, :, 0], np.sign(theta[m, 0]) + 1)
        case "equal columns":
            theta[m, :, -1] = theta[m, :, 0]
        case "all zero":
            theta[:] = 0
        case "no bias":
            bias[:] = 0
        case "dead unit":
            bias[:, 0] = -(2.0**14)
        case "zero output":
            readout[:, 0] = 0


@st.composite
def words(draw, max_modules: int = 4, max_length: int = 4, kinds=KINDS):
    """Words over affine generators, the state of another width than the number of modules where possible."""
    modules, length = draw(st.integers(1, max_modules)), draw(st.integers(1, max_length))
    state = draw(st.sampled_from([d for d in (1, 2, 3) if d != modules]))
    kind = draw(st.sampled_from(kinds))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    matrices, offsets = (numbers(generator, s, kind) for s in ((modules, state, state), (modules, state)))
    if draw(st.booleans()):
        matrices[draw(st.integers(0, modules - 1))] = np.eye(state)[::-1]  # a permutation
    return Words(matrices, draw(st.sampled_from([None, offsets])), length, draw(boxes(state)))


@st.composite
def task_domains(draw, exact: bool | None = None):
    """Domains of z: at most K of M on a grid or in an interval, or one-hot; ``exact``: no intervals."""
    kind = draw(st.sampled_from(("grid", "onehot") if exact else ("grid", "onehot", "interval")))
    if kind == "onehot":
        return OneHot(draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    modules = draw(st.integers(1, 5))
    active = draw(st.integers(1, modules))
    if kind == "interval":
        return Tasks(modules, active, levels=None, interval=draw(st.sampled_from(INTERVALS[1:])))
    return Tasks(modules, active, levels=draw(st.sampled_from((KHOT, *GRIDS[1:]))))


@st.composite
def circuits(draw, exact: bool | None = None, max_nodes: int = 5, max_products: int = 2):
    """Small circuits of all kinds of nodes.

    exact=True: only products that a gate does exactly (module weights on a grid, or one-hot, times anything);
    None: also up to ``max_products`` products that only an approximation does. Values stay below about 64.
    """
    inputs = draw(st.integers(1, 4))
    x = Input("x", box(*draw(boxes(inputs))))
    z = Input("z", draw(task_domains(exact)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(KINDS))
    pool: list[Node] = [x, z]
    budget = max_products
    kinds = ("bilinear", "affine", "relu", "maximum", "concat", "take", "assume")
    for place in range(draw(st.integers(2, max_nodes))):
        step = draw(st.sampled_from(kinds[:2] if place == 0 else kinds))
        of = draw(st.sampled_from([pool[-1], *pool[-3:], x]))
        if step == "bilinear" and (budget or _gated(z)):
            u, cheap = _left(draw, generator, kind, x, z, pool, only_gates=bool(exact) or budget == 0)
            budget -= not cheap
            node: Node = Bilinear(_small(generator, (u.width, of.width, draw(st.integers(1, 4))), kind), u, of)
        elif step in ("affine", "bilinear"):
            node = _mixture(draw, generator, kind, [of, draw(st.sampled_from(pool))])
        elif step == "relu":
            node = ReLU(of)
        elif step == "maximum":
            other = draw(st.sampled_from(pool))
            node = Maximum(of, affine([(other, _small(generator, (other.width, of.width), kind))]))
        elif step == "concat":
            node = concat([of, draw(st.sampled_from(pool))], constant=draw(st.sampled_from(([], [1.0], [-2.0, 0.0]))))
        elif step == "take":
            some = draw(st.lists(st.integers(0, of.width - 1), min_size=1, max_size=of.width))
            node = take(of, some)  # perhaps with repetitions
        else:
            node = _assumed(of)
        pool.append(_tamed(node))
    used = {id(p) for node in pool for p in node.parents}
    ends = [node for node in pool if id(node) not in used]
    output = pool[-1] if draw(st.integers(0, 3)) == 3 else _mixture(draw, generator, kind, ends)
    return Circuit(x, z, _tamed(output))


def _gated(z: Input) -> bool:
    return not (isinstance(z.of, Tasks) and z.of.levels is None)


def _left(draw, generator, kind, x, z, pool, only_gates: bool) -> tuple[Node, bool]:
    """The u of a Bilinear (z, a slice of z, a declared slice, a mixture ..), and whether a gate does it."""
    how = draw(st.sampled_from(("z", "slice", "declared") + (() if only_gates else ("mixture", "of x", "any"))))
    order = draw(st.permutations(range(z.width)))
    part = take(z, order[: draw(st.integers(1, z.width))])
    if how in ("slice", "declared"):
        if how == "slice" or not _gated(z):
            return part, _gated(z)
        groups = z.of.groups if isinstance(z.of, OneHot) else z.of.active
        known = Tasks(part.width, min(groups, part.width), levels=z.of.levels)
        return Assume(part, known, "entries of the task: at most as many are on as in the whole"), True
    if how == "mixture":
        return affine([(z, numbers(generator, (z.width, draw(st.integers(1, 3))), kind))]), False
    if how == "of x":
        return _tamed(affine([(x, numbers(generator, (x.width, 2), kind))])), False
    return (z, _gated(z)) if how == "z" else (draw(st.sampled_from(pool)), False)


def _small(generator: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Coefficients, some of them 0, that keep values of size 1 at size 1 or so."""
    values = numbers(generator, shape, kind)
    return values * (generator.random(shape) < 0.8)


def _mixture(draw, generator, kind, nodes: list[Node]) -> Affine:
    width = draw(st.integers(1, 4))
    terms = [(n, _small(generator, (n.width, width), kind)) for n in nodes]
    return affine(terms, _small(generator, (width,), kind))


def _assumed(of: Node) -> Assume:
    """A true fact, and a weaker one than ranges infer: a box of twice the width around the inferred one."""
    half = (of.domain.upper - of.domain.lower) / 2
    return Assume(of, box(of.domain.lower - half, of.domain.upper + half), "twice the inferred box")


def _tamed(node: Node, most: float = 64.0) -> Node:
    """The node, divided by a power of two where it could become large."""
    size = max(np.abs(node.domain.lower).max(), np.abs(node.domain.upper).max())
    return node if size <= most else affine([(node, 2.0 ** -math.ceil(math.log2(size / most)))])


def points(of: Circuit | Family, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(x (n, inputs), z (n, width)): random points and corners, the task 0 among them where it exists."""
    circuit = of if isinstance(of, Circuit) else of.circuit
    generator = np.random.default_rng(seed)

    def mixed(side: Domain, period: int) -> np.ndarray:
        inner = (np.arange(n) % period < period // 2)[:, None]
        return np.where(inner, side.sample(n, generator), side.corners(n, generator))

    x, z = mixed(circuit.x.of, 2), mixed(circuit.z.of, 4)
    if isinstance(circuit.z.of, Tasks) and n > 4:
        z[n // 2] = 0
    return x, z


def tensors(x: np.ndarray, z: np.ndarray, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """The same points as one sample of one task each: x (n, 1, inputs), z (n, width)."""
    return torch.as_tensor(x, dtype=dtype)[:, None, :], torch.as_tensor(z, dtype=dtype)


def teacher(
    modules: int,
    active: int,
    sizes: tuple[int, ...],
    weights: str,
    kind: str = "generic",
    seed: int = 0,
    flaws=(),
    **rest,
) -> Hyperteacher:
    """A hyperteacher of the given sizes (inputs, hidden .., outputs): random data of one kind, and flaws."""
    generator = np.random.default_rng(seed)
    pairs = list(pairwise(sizes[:-1]))
    theta = [numbers(generator, (modules, a, b), kind) for a, b in pairs]
    biases = [numbers(generator, (modules, b), kind) for _, b in pairs]
    readout = numbers(generator, sizes[-2:], kind)
    for flaw in flaws:
        damage(flaw, theta[0], biases[0], readout, modules - 1)
    return Hyperteacher(theta, biases, readout, active, weights, **rest)


def _everything() -> CircuitFamily:
    """All six kinds of nodes in one circuit: a gate, a product, a maximum, a declared fact, a slice."""
    generator = np.random.default_rng(11)
    x, z = Input("x", box([-1.0, 0.0, 2.0], [1.0, 1.0, 2.5])), Input("z", Tasks(5, 2, levels=(F(1, 3), F(1))))
    gated = Bilinear(numbers(generator, (5, 3, 4), "generic"), z, x)
    peak = Maximum(gated, affine([(x, numbers(generator, (3, 4), "generic"))]))
    known = Assume(ReLU(peak), box(np.zeros(4), peak.domain.upper), "a ReLU is not negative")
    mixed = Bilinear(
        numbers(generator, (2, 4, 2), "dyadic"), affine([(z, numbers(generator, (5, 2), "dyadic"))]), known
    )
    sliced = Bilinear(numbers(generator, (2, 2, 2), "dyadic"), take(z, [4, 1]), mixed)
    return CircuitFamily(
        Circuit(x, z, affine([(concat([mixed, sliced], [1.0]), numbers(generator, (5, 6), "generic"))]))
    )


@dataclass(frozen=True, eq=False)
class Case:
    """A named case of TABLE."""

    name: str
    family: Family

    @property
    def circuit(self) -> Circuit:
        return self.family.circuit


#: Cases shared by the tests of everything that computes f: N, H, O and M all different.
TABLE = [
    Case("khot", teacher(5, 2, (3, 4, 2), "khot", seed=1)),
    Case("khot-dyadic", teacher(4, 3, (2, 5, 3), "khot", "dyadic", seed=2)),
    Case("khot-wide", teacher(3, 2, (5, 2, 4), "khot", "dyadic", seed=3, box=(-2.0, 4.0))),
    Case("discrete", teacher(6, 3, (3, 5, 2), "discrete", seed=4, scale=1 / math.sqrt(3))),
    Case("discrete-thirds", teacher(4, 2, (3, 5, 2), "discrete", seed=5, levels=(F(1, 3), F(2, 5), F(9, 10)))),
    Case("discrete-one-level", teacher(3, 2, (4, 2, 5), "discrete", "integer", seed=6, levels=(F(2),))),
    Case("continuous", teacher(5, 2, (2, 3, 4), "continuous", seed=7, scale=1 / math.sqrt(2))),
    Case("continuous-wide", teacher(4, 3, (3, 2, 5), "continuous", "dyadic", seed=8, levels=(F(1, 8), F(3)))),
    Case("two-layers", teacher(4, 2, (3, 5, 2, 6), "khot", seed=9, scale=0.5)),
    Case("three-layers", teacher(3, 2, (2, 5, 4, 6, 1), "discrete", seed=10, scale=0.5, levels=(F(1, 2), F(1)))),
    Case("two-layers-continuous", teacher(3, 1, (2, 4, 5, 6), "continuous", "dyadic", seed=11, scale=0.5)),
    Case("one-module", teacher(1, 1, (3, 4, 2), "discrete", seed=12)),
    Case("all-active", teacher(4, 4, (3, 5, 2), "khot", seed=13)),
    Case("one-input", teacher(4, 2, (1, 3, 2), "continuous", seed=14)),
    Case("far-box", teacher(4, 2, (3, 5, 2), "khot", seed=15, box=(1000.0, 1001.0))),
    Case(
        "off-centre",
        teacher(4, 2, (3, 5, 2), "continuous", seed=16, box=([3.0, -2.0, 0.5], [3.5, -0.25, 0.5])),
    ),
    Case("negative-scale", teacher(4, 2, (3, 5, 2), "discrete", seed=17, scale=-0.75)),
    Case(
        "degenerate",
        teacher(
            4,
            3,
            (3, 5, 2),
            "khot",
            "integer",
            seed=18,
            flaws=("zero row", "rank one", "zero output", "dead unit"),
        ),
    ),
    Case("zero-module", teacher(4, 3, (3, 5, 2), "discrete", seed=19, flaws=("zero module",))),
    Case("words", Words.sample(modules=4, length=3, state=2, seed=20)),
    Case(
        "words-shear",
        Words([[[1, 1], [0, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 0.5]]], [[0, 1], [1, 0], [0, 0]], 4, (3, 3.5)),
    ),
    Case("everything", _everything()),
]


def arrays(family):
    """The bytes of every array of a hyperteacher, in order."""
    return [a.tobytes() for a in (*family.layers, *family.biases, family.readout)]
