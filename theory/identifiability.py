"""Which tasks can be told apart, which determine the others, and how much of a task a layer can show at all.

Two tasks z, z' of a family are separated by Delta = P_x(f_z != f_z') and by D with D^2 = E_x |f_z - f_z'|^2, x
uniform on the box (claim C9). For one input and one modulated layer f_z is linear between breakpoints, so that both are
computed exactly. So is everything else here: floors and twins of claim C15, the ceiling of claim C14, in Fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np

from theory.arithmetic import Array, as_exact
from theory.domains import Tasks
from theory.families.hyperteacher import Hyperteacher
from theory.ranks import reduce_columns
from theory.splits import split
from theory.splits.split import joining


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
    """Fewest supports with compositional and connected support: ceil((M-1)/(K-1)), never below ceil(M/K) (claim C15).

    Each support adds at most K - 1 to the modules already joined; ``chain`` attains it. ValueError for K = 1 and
    M >= 2, where nothing is ever joined.
    """
    if not 1 <= active <= modules:
        raise ValueError(f"active: {active} of {modules} modules; need 1 <= active <= modules")
    if modules == 1:
        return 1
    if active == 1:
        raise ValueError("active: 1; tasks of one module each join no two modules")
    return joining(modules, active)


def chain(modules: int, active: int) -> Array:
    """As few supports as can be compositional and connected: (fewest_supports, active), -1 as padding.

    Each begins with the module that the one before ended with. ValueError as ``fewest_supports``.
    """
    fewest_supports(modules, active)
    return split.chain(np.arange(modules), active)


def fewest_tasks(domain: Tasks) -> tuple[int, int]:
    """(tasks, supports): fewer, in number or on fewer supports, leave a task of the domain outside their span (C15).

    M tasks, as many as there are modules; on a support of k modules k tasks can be independent if weights have more
    than one value, so ceil(M/K) supports can hold them, and M if all weights are 0 or 1.
    """
    several = domain.levels is None or len(domain.levels) > 1
    return domain.modules, -(-domain.modules // domain.active) if several else domain.modules


def undetermined(family: Hyperteacher, z_train: Array, z_star: Array, x: Array | None = None) -> Hyperteacher | None:
    """A twin that agrees with the family on all training tasks, for every x, and differs at (x, z_star) (claim C15).

    z_train (tasks, M), z_star (M,), x (inputs,), by default the upper corner of the box. None where z_star lies in the
    span of the training tasks (which does not mean that they determine it), and where all tasks are 0 since no unit of
    the last layer reaches an output.

    In Fractions: with v orthogonal to every z_train and v . z_star = 1, Theta becomes Theta + v W in ONE unit of the
    last layer (the rises of several might cancel in the readout), W along h, what that layer reads at (x, z_star).
    Pre-activations change by scale (v . z) (h W): by 0 on training tasks, and at (x, z_star) by so much that the unit
    is on, and higher than it was. Where h = 0 no weight matters there, and the bias takes the place of W.
    """
    tasks = as_exact(family.z_domain.exact(np.concatenate([z_train, z_star[None]])))
    direction = _orthogonal(tasks[:-1], tasks[-1])
    scale = as_exact([family.scale])[0]
    seen = np.flatnonzero((family.readout != 0).any(axis=1))
    if direction is None or scale == 0 or len(seen) == 0:
        return None
    layers, biases = [as_exact(m) for m in family.layers], [as_exact(b) for b in family.biases]
    reads, before = _last_layer(layers, biases, scale * tasks[-1], family.box.upper if x is None else x)
    unit = seen[np.argmax(before[seen])]
    change = direction * (max(-before[unit], Fraction(0)) + 1) / scale
    if np.any(reads != 0):
        layers[-1] = layers[-1].copy()
        layers[-1][:, :, unit] += change[:, None] * reads / (reads @ reads)
    else:
        biases[-1] = biases[-1].copy()
        biases[-1][:, unit] += change
    box = (family.box.lower, family.box.upper)
    levels = None if family.weights == "khot" else family.levels
    return Hyperteacher(layers, biases, as_exact(family.readout), family.active, family.weights, scale, box, levels)


def _last_layer(layers: list[Array], biases: list[Array], scaled: Array, x: Array) -> tuple[Array, Array]:
    """What the last modulated layer reads at (x, z), and its pre-activations; ``scaled`` is scale * z."""
    values = before = as_exact(x)
    for theta, bias in zip(layers, biases, strict=True):
        reads = values
        before = reads @ np.tensordot(scaled, theta, axes=1) + scaled @ bias
        values = np.maximum(before, as_exact(0))
    return reads, before


def _orthogonal(rows: Array, target: Array) -> Array | None:
    """v with rows @ v = 0 and target @ v = 1, in Fractions; None where target is in the span of the rows (n, M)."""
    pivots, reduced = reduce_columns(rows)
    left = target - target[pivots] @ reduced if pivots else target
    free = np.flatnonzero(left != 0)
    if len(free) == 0:
        return None
    found = np.full(len(target), Fraction(0), dtype=object)
    found[free[0]] = Fraction(1)
    if pivots:
        found[pivots] = -reduced[:, free[0]]
    return found / left[free[0]]


def decodable_share(width: int, domain: Tasks) -> Fraction:
    """Most of the variance of z that any affine function of ``width`` numbers explains, exactly (claim C14).

    For z with uniform supports and independent uniform weights: the sum of the largest ``width`` eigenvalues of z's
    covariance, of which M - 1 are variance - covariance and one is variance + (M - 1) covariance, over their sum. So R2
    of a narrow layer is low whatever it holds. ValueError for a negative width.
    """
    if width < 0:
        raise ValueError(f"width: {width} must not be negative")
    modules, sizes = domain.modules, range(1, domain.active + 1)
    supports = domain.supports.count
    one = Fraction(sum(comb(modules - 1, k - 1) for k in sizes), supports)  # P(module m is active)
    both = Fraction(sum(comb(modules - 2, k - 2) for k in sizes if k > 1), supports) if modules > 1 else Fraction(0)
    mean, square = _moments(domain)
    variance, covariance = one * square - (one * mean) ** 2, (both - one**2) * mean**2
    if variance == 0:
        raise ValueError("domain: there is one task only; its z has no variance to explain")
    eigenvalues = sorted([variance - covariance] * (modules - 1) + [variance + (modules - 1) * covariance])
    return sum(eigenvalues[::-1][:width], Fraction(0)) / (modules * variance)


def _moments(domain: Tasks) -> tuple[Fraction, Fraction]:
    """Mean and mean square of the weight of an active module."""
    values = domain.values
    if domain.levels is None:
        low, high = values
        return (low + high) / 2, (low * low + low * high + high * high) / 3
    return sum(values, Fraction(0)) / len(values), sum((v * v for v in values), Fraction(0)) / len(values)
