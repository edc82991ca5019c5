"""What every family of tasks offers. A new family defines ``circuit``, its sizes and ``tasks``; the rest follows."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch

from theory import evaluators
from theory.arithmetic import Array, as_exact, as_float, representable
from theory.circuit import Circuit, box
from theory.domains import Box, Domain


class Family:
    """A family f(x, z): x (inputs,) in ``x_domain``, the task z (width of ``z_domain``,), f (outputs,).

    Subclasses define: ``name``, ``modules``, ``active``, ``tasks`` (the number of supports), ``circuit``.
    """

    name: str
    modules: int
    active: int

    @cached_property
    def circuit(self) -> Circuit:
        """The one description from which target, network, bounds and counts come."""
        raise NotImplementedError

    @property
    def tasks(self) -> int:
        """Number of supports (a Python integer: it may be astronomically large)."""
        raise NotImplementedError

    @property
    def inputs(self) -> int:
        """Length of x."""
        return self.circuit.x.width

    @property
    def outputs(self) -> int:
        """Length of f(x, z)."""
        return self.circuit.output.width

    @property
    def x_domain(self) -> Domain:
        """Where x lies."""
        return self.circuit.x.of

    @property
    def z_domain(self) -> Domain:
        """Where z lies."""
        return self.circuit.z.of

    def __call__(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Target values: x (tasks, samples, inputs), z (tasks, width of z) -> (tasks, samples, outputs).

        In the dtype and on the device of x. Raises ValueError for other shapes.
        """
        wanted = (self.inputs, self.circuit.z.width)
        if x.dim() != 3 or z.dim() != 2 or (x.shape[2], z.shape[1]) != wanted or len(x) != len(z):
            raise ValueError(
                f"x {tuple(x.shape)}, z {tuple(z.shape)}: need (tasks, samples, {wanted[0]}) and (tasks, {wanted[1]})"
            )
        return evaluators.evaluate(self.circuit, x, z)

    def exact(self, x: Any, z: Any) -> Array:
        """f(x, z) at one point in Fractions; floats near a grid level stand for it (ValueError far from all)."""
        return evaluators.exact(self.circuit, self.x_domain.exact(x), self.z_domain.exact(z))


#: Numbers of a family other than 0 lie between these in absolute value, so that the products of a few of them
#: neither overflow nor underflow in float64 and every bound computed there is sound.
SMALLEST, LARGEST = 2.0**-200, 2.0**200


def finite_array(name: str, values: Any, dimensions: int) -> Array:
    """The values as float64, or Fractions as they are. Raises ValueError, one line, for what is no such array.

    Refused: other dimensions, NaN and infinity, kinds that float64 does not hold (complex, text), numbers beyond
    SMALLEST and LARGEST.
    """
    array = np.asarray(values)
    if array.dtype == object:
        try:
            array = as_exact(array)
        except (TypeError, ValueError, OverflowError) as reason:
            raise ValueError(f"{name}: holds something that is no finite number ({reason})") from reason
    elif array.dtype.kind in "fiu":
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: holds NaN or infinite values; all must be finite")
        floats = array.astype(np.float64)
        if not np.array_equal(floats.astype(array.dtype), array):
            raise ValueError(f"{name}: holds {array.dtype} numbers that float64 does not; round them first")
        array = floats
    else:
        raise ValueError(f"{name}: holds {array.dtype} values; need real numbers")
    if array.ndim != dimensions:
        raise ValueError(f"{name}: {array.ndim} dimensions, need {dimensions}")
    size = np.abs(array[array != 0])
    if size.size and (size.min() < SMALLEST or size.max() > LARGEST):
        raise ValueError(
            f"{name}: numbers from {float(size.min()):.2g} to {float(size.max()):.2g}; need 2^-200 to 2^200"
        )
    return array


def finite_number(name: str, value: Any) -> Any:
    """A finite number within the same limits; Fractions stay Fractions. Raises ValueError, one line."""
    try:
        number = value if isinstance(value, Fraction) else float(value)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ValueError(f"{name}: {value!r} is not a number") from reason
    if not math.isfinite(number):
        raise ValueError(f"{name}: {value} is not a finite number")
    return finite_array(name, [number], 1)[0]


def checked_box(bounds: tuple[Any, Any], inputs: int) -> Box:
    """The box (lower, upper), each a number or (inputs,). Raises ValueError for anything else."""
    try:
        lower, upper = (np.broadcast_to(as_float(np.real(side)), (inputs,)).copy() for side in bounds)
    except (ValueError, TypeError) as reason:
        raise ValueError(f"box: need (lower, upper), each a number or {inputs} numbers") from reason
    if any(np.iscomplexobj(side) or not representable(np.asarray(side)) for side in bounds):
        raise ValueError("box: the bounds must be float64 numbers")
    return box(*(finite_array("box", side, 1) for side in (lower, upper)))
