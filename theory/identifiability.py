"""Which tasks can be told apart, and which determine the others (claims C9 and C15). Exact, in Fractions.

Two tasks z, z' of a family are separated by Delta = P_x(f_z != f_z') and by D with D^2 = E_x |f_z - f_z'|^2, x
uniform on the box. For one input and one modulated layer f_z is linear between breakpoints, so that both are computed
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from theory.arithmetic import Array, as_exact
from theory.circuit import ReLU
from theory.families.hyperteacher import Hyperteacher


@dataclass(frozen=True)
class Separation:
    """delta: P_x(f_z != f_z'). square: E_x |f_z - f_z'|^2, summed over the outputs."""

    delta: Fraction
    square: Fraction


def separation(family: Hyperteacher, z: Array, other: Array) -> Separation:
    """How far two tasks (modules,) are apart, exactly. ValueError unless the family has one input, and one modulated
    layer.
    """
    if family.inputs != 1 or len(family.layers) != 1:
        raise ValueError(f"separation: {family.inputs} inputs, {len(family.layers)} layers; exact only for one of each")
    low, high = (Fraction(float(side[0])) for side in (family.box.lower, family.box.upper))
    if low == high:
        raise ValueError("separation: the box is a point; x must have a range")
    units = [_units(family, task) for task in (z, other)]
    knots = {low, high}
    for slope, offset in units:
        crossing = [-b / a for a, b in zip(slope, offset, strict=True) if a != 0]
        knots |= {x for x in crossing if low < x < high}
    readout = as_exact(family.readout)
    differ, square = Fraction(0), Fraction(0)
    for a, b in pairwise(sorted(knots)):
        ends = [_gap(units, readout, x, (a + b) / 2) for x in (a, b)]
        if any(v != 0 for end in ends for v in end):
            differ += b - a
            # The gap is linear on the piece: its square integrates to length * (p^2 + p q + q^2) / 3.
            square += (b - a) * sum(p * p + p * q + q * q for p, q in zip(*ends, strict=True)) / 3
    return Separation(differ / (high - low), square / (high - low))


def _units(family: Hyperteacher, z: Array) -> tuple[Array, Array]:
    """Slope and offset (hidden,) of each unit's pre-activation, as functions of the one input."""
    scaled = as_exact(family.z_domain.exact(z)) * as_exact([family.scale])[0]
    return scaled @ as_exact(family.layers[0][:, 0, :]), scaled @ as_exact(family.biases[0])


def _gap(units: list[tuple[Array, Array]], readout: Array, x: Fraction, inside: Fraction) -> Array:
    """f_z - f_z' at an end x of the piece that contains ``inside``: (outputs,)."""
    values = []
    for slope, offset in units:
        on = np.array([bool(v > 0) for v in slope * inside + offset])
        values.append(((slope * x + offset) * on) @ readout)
    return values[0] - values[1]


def fewest_supports(modules: int, active: int) -> int:
    """Fewest supports with compositional and connected support: max(ceil(M/K), ceil((M-1)/(K-1))) (claim C15).

    Each support adds at most K - 1 to the modules already joined, and at most K to those seen; a chain attains it.
    ValueError for K = 1 and M >= 2, where nothing is ever joined.
    """
    if not 1 <= active <= modules:
        raise ValueError(f"active: {active} of {modules} modules; need 1 <= active <= modules")
    if modules == 1:
        return 1
    if active == 1:
        raise ValueError("active: 1; tasks of one module each join no two modules")
    return max(-(-modules // active), -(-(modules - 1) // (active - 1)))


def undetermined(family: Hyperteacher, z_train: Array, z_star: Array) -> Hyperteacher | None:
    """A twin that agrees with the family on all training tasks, for every x, and differs on z* (claim C15).

    None where z* lies in the span of the training tasks, or where nothing shows at the outputs (a readout of zeros).
    Built in Fractions: with v orthogonal to every z_train (tasks, M) and v . z* = 1, module m's bias in the last layer
    becomes b_m + v_m c, so that the units' pre-activations change by scale (v . z) c alone: by 0 on training tasks.
    """
    exact = as_exact(family.z_domain.exact(np.concatenate([z_train, z_star[None]])))
    direction = _orthogonal(exact[:-1], exact[-1])
    if direction is None or not np.any(family.readout != 0):
        return None
    # c is large enough for every unit to be on at z* for the twin, somewhere above where it was.
    bias = as_exact(family.biases[-1]) + direction[:, None] * _lift(family)
    biases = [*map(as_exact, family.biases[:-1]), bias]
    layers, scale = [as_exact(m) for m in family.layers], as_exact([family.scale])[0]
    box = (family.box.lower, family.box.upper)
    levels = None if family.weights == "khot" else family.levels
    return Hyperteacher(layers, biases, as_exact(family.readout), family.active, family.weights, scale, box, levels)


def _lift(family: Hyperteacher) -> Fraction:
    """An amount by which pre-activations of the last layer can rise so that every unit is on: their largest size,
    plus 1.
    """
    before = [node for node in family.circuit.nodes if isinstance(node, ReLU)][-1].of.domain
    largest = max(float(np.abs(before.lower).max()), float(np.abs(before.upper).max()))
    return (Fraction(largest) + 1) / abs(as_exact([family.scale])[0])


def _orthogonal(rows: Array, target: Array) -> Array | None:
    """v with rows @ v = 0 and target @ v = 1, in Fractions, by elimination; None where target is in the span of the
    rows.
    """
    basis: list[tuple[int, Array]] = []  # reduced rows with their pivots
    for row in rows:
        row = _reduced(row, basis)
        pivot = next((i for i, v in enumerate(row) if v != 0), None)
        if pivot is not None:
            row = row / row[pivot]
            basis = [(p, b - b[pivot] * row) for p, b in basis]
            basis.append((pivot, row))
    left = _reduced(target, basis)
    free = next((i for i, v in enumerate(left) if v != 0), None)
    if free is None:
        return None
    found = np.full(len(target), Fraction(0), dtype=object)
    found[free] = Fraction(1)
    for pivot, row in basis:
        found[pivot] = -row[free]
    return found / (target @ found)


def _reduced(row: Array, basis: list[tuple[int, Array]]) -> Array:
    for pivot, other in basis:
        row = row - row[pivot] * other
    return row
