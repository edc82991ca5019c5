"""Two arithmetics, one code: object arrays of Fraction (exact) and float64 arrays (rounded outwards when it matters).

numpy's object arrays add, multiply and compare Fractions elementwise, so almost everything is written once. What
differs is here: conversion, zero, and the direction of rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Unit roundoff of float64 and float32.
UNIT64 = 2.0**-53
UNIT32 = 2.0**-24

_to_fraction = np.frompyfunc(lambda v: v if isinstance(v, Fraction) else Fraction(v), 1, 1)


def as_exact(values: Any) -> Array:
    """The same numbers as Fractions, an object array; floats are promoted exactly."""
    array = np.asarray(values)
    if array.dtype != object:
        array = array.astype(np.float64 if array.dtype.kind == "f" else object)
        array = array.astype(object)  # Python floats and ints: Fraction takes both exactly
    return np.asarray(_to_fraction(array), dtype=object)


def as_float(values: Any) -> Array:
    """The same numbers rounded to float64."""
    return np.asarray(values).astype(np.float64)


def is_exact(values: Array) -> bool:
    """Whether an array holds Fractions."""
    return values.dtype == object


def representable(values: Any) -> bool:
    """Whether float64 holds every one of the numbers exactly."""
    array = np.asarray(values)
    return array.dtype != object or bool(np.all(as_exact(as_float(array)) == as_exact(array)))


def down(values: Array, additions: int, size: Array | None = None) -> Array:
    """Lower bound of sums computed in float64 with at most ``additions`` additions; ``size`` bounds sum |addends|.

    Standard a-priori bound (Higham 2002, section 4.2): |error| <= gamma_n * sum |addends|. ``size`` may be left
    out where all addends have one sign. A sum without addends (size 0) stays exactly as it is.
    """
    return -up(-values, additions, size)


def up(values: Array, additions: int, size: Array | None = None) -> Array:
    """Upper bound, as ``down``."""
    size = np.abs(values if size is None else size)
    slack = 2.0 * (additions + 1) * UNIT64 * size
    return np.where(size == 0, values, np.nextafter(values + slack, np.inf))


def outward(value: Fraction) -> tuple[float, float]:
    """The two float64 neighbours (below, above) that enclose a Fraction; both equal it where it is representable."""
    near = float(value)
    exact = Fraction(near)
    low = near if exact <= value else float(np.nextafter(near, -np.inf))
    high = near if exact >= value else float(np.nextafter(near, np.inf))
    return low, high
