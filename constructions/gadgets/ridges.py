"""Ridges: how every gadget is written down. One table of hinges for all rank-one terms at once.

A gadget replaces the product u_r v_r of term r by

    sum_j weight_j ReLU(on_u_j u_r + on_v_j v_r + bias_j)  +  linear_u_r u_r + linear_v_r v_r + constant_r

where j runs over the hinges with term_j = r, plus hinges of u alone that all terms of one module share. The
columns are arrays in either arithmetic; nothing here loops over terms or neurons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from constructions.sparse import zeros
from theory.arithmetic import Array, as_exact


@dataclass(frozen=True, eq=False)
class Hinges:
    """A table of hinges ReLU(on_u u + on_v v + bias) of terms, each column (n,).

    upper: bound of the output. margin: how far below 0 the argument is when the term's module is off.
    """

    term: Array
    on_u: Array
    on_v: Array
    bias: Array
    weight: Array
    upper: Array
    margin: Array


@dataclass(frozen=True, eq=False)
class Shared:
    """Hinges ReLU(u_m - knot_j) that all terms of module m share; ``weight`` (terms, knots) is what each term takes."""

    knots: Array
    weight: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Ridges:
    """A gadget for all R terms. ``error`` (R,) is its exact error, float64 rounded up."""

    hinges: Hinges
    linear_u: Array
    linear_v: Array
    constant: Array
    shared: Shared | None
    error: Array


def pad(values: Array) -> Array:
    """A float of at most 12 significant bits, at least values (1 + 2^-10).

    Gates are exact for every bound that is large enough. This one has a short mantissa, and leaves a neuron that is
    off so far below 0 that rounding cannot switch it on.
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=float) * (1 + 2.0**-10))
    return np.ldexp(np.ceil(mantissa * 2.0**12), exponent - 12)


def centred(low: Array, high: Array) -> tuple[Array, Array]:
    """(middle, half-range) with |v - middle| <= half-range for every v in [low, high], in spite of rounding."""
    middle = low / 2 + high / 2
    return middle, np.maximum(high - middle, middle - low) * (1 + 2.0**-50)


def lift(values: Any, exact: bool) -> Array:
    """Float64 parameters in the arithmetic of the network, taken as the exact numbers they are."""
    return as_exact(values) if exact else np.asarray(values, dtype=float)


def ragged(counts: Array) -> tuple[Array, Array]:
    """(owner, place) for groups of the given sizes: owner repeats the index, place counts within the group."""
    counts = np.asarray(counts, dtype=int)
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def none(terms: int, exact: bool) -> Array:
    """A column of zeros for the linear remainders."""
    return zeros(terms, exact)


def ratio(numerator: Array | int, denominator: Array, exact: bool) -> Array:
    """numerator / denominator of integers, in the arithmetic."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator), np.asarray(denominator))
    return lift(top, exact) / lift(bottom, exact)
