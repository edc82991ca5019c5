"""What every family of tasks offers. A new family defines ``circuit``, its sizes and ``tasks``; the rest follows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from theory import evaluators
from theory.arithmetic import Array, as_float, representable
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
        """f(x, z) at one point in Fractions; floats near a grid level stand for that level."""
        return evaluators.exact(self.circuit, self.x_domain.exact(x), self.z_domain.exact(z))


def finite_array(name: str, values: Any, dimensions: int) -> Array:
    """The values as float64, or Fractions as they are. Raises ValueError for other dimensions and NaN."""
    array = np.asarray(values)
    if array.dtype != object:
        array = array.astype(np.float64)
    if array.ndim != dimensions:
        raise ValueError(f"{name}: {array.ndim} dimensions, need {dimensions}")
    if array.dtype != object and not np.isfinite(array).all():
        raise ValueError(f"{name}: holds NaN or infinite values; all must be finite")
    return array


def checked_box(bounds: tuple[Any, Any], inputs: int) -> Box:
    """The box (lower, upper), each a number or (inputs,). Raises ValueError for anything else."""
    try:
        lower, upper = (np.broadcast_to(as_float(side), (inputs,)).copy() for side in bounds)
    except (ValueError, TypeError) as reason:
        raise ValueError(f"box: need (lower, upper), each a number or {inputs} numbers") from reason
    if not all(representable(np.asarray(side)) for side in bounds):
        raise ValueError("box: the bounds must be float64 numbers")
    return box(lower, upper)
