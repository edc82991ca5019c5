"""Evaluators: one walk over a circuit, three algebras.

    exact(circuit, x, z)      one point, Fractions in and out: the definition, used to replay witnesses
    evaluate(circuit, x, z)   torch, any device and dtype, (tasks, samples, inputs) x (tasks, modules), differentiable
    enclose(circuit, x, z)    intervals: float64 rounded outwards, or Fractions

``interpret`` is the walk; an algebra says what the five operations mean on its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import torch

from theory.arithmetic import Array, as_exact, as_float, is_exact, representable, up
from theory.circuit import Affine, Assume, Bilinear, Circuit, Input, Maximum, Node, ReLU


class Algebra(Protocol):
    """What the operations of a circuit mean on one kind of value."""

    def affine(self, node: Affine, values: list[Any]) -> Any:
        """bias + sum of values @ matrices."""

    def relu(self, value: Any) -> Any:
        """max(value, 0)."""

    def maximum(self, left: Any, right: Any) -> Any:
        """Elementwise maximum."""

    def bilinear(self, node: Bilinear, u: Any, v: Any) -> Any:
        """sum tensor[m, i, h] u_m v_i."""


def interpret(circuit: Circuit, algebra: Algebra, x: Any, z: Any) -> Any:
    """Value of the output; values are dropped after their last use, so memory follows the live part only."""
    uses: dict[int, int] = {}
    for node in circuit.nodes:
        for parent in node.parents:
            uses[id(parent)] = uses.get(id(parent), 0) + 1
    uses[id(circuit.output)] = uses.get(id(circuit.output), 0) + 1
    values: dict[int, Any] = {id(circuit.x): x, id(circuit.z): z}

    def read(node: Node) -> Any:
        uses[id(node)] -= 1
        return values[id(node)] if uses[id(node)] else values.pop(id(node))

    for node in circuit.nodes:
        if isinstance(node, Input):
            continue
        parents = [read(p) for p in node.parents]
        match node:
            case Affine():
                values[id(node)] = algebra.affine(node, parents)
            case ReLU():
                values[id(node)] = algebra.relu(parents[0])
            case Maximum():
                values[id(node)] = algebra.maximum(*parents)
            case Bilinear():
                values[id(node)] = algebra.bilinear(node, *parents)
            case Assume():
                values[id(node)] = parents[0]
    return read(circuit.output)


def exact(circuit: Circuit, x: Any, z: Any) -> Array:
    """f(x, z) in Fractions: x (inputs,) and z (modules,) of Fraction or float (promoted exactly), result (outputs,)."""
    return np.asarray(interpret(circuit, Exact(), as_exact(x), as_exact(z)))


class Exact:
    """Fractions, one point; only the nonzero entries of u and v are touched, so M = 10^5 costs what K modules cost."""

    def affine(self, node: Affine, values: list[Array]) -> Array:
        total = as_exact(node.bias)
        for value, (_, matrix) in zip(values, node.terms, strict=True):
            total = total + vector_times_matrix(value, matrix)
        return total

    def relu(self, value: Array) -> Array:
        return np.maximum(value, as_exact(0))

    def maximum(self, left: Array, right: Array) -> Array:
        return np.maximum(left, right)

    def bilinear(self, node: Bilinear, u: Array, v: Array) -> Array:
        m, i = np.flatnonzero(u != 0), np.flatnonzero(v != 0)
        block = as_exact(node.tensor[np.ix_(m, i)]).reshape(len(m) * len(i), node.width)
        return _dot((u[m, None] * v[None, i]).ravel(), block)


def vector_times_matrix(vector: Array, matrix: Array) -> Array:
    """Exact product of (n,) and (n, width); rows that meet a zero are never converted."""
    rows = np.flatnonzero(vector != 0)
    return _dot(vector[rows], as_exact(matrix[rows]))


def _dot(vector: Array, matrix: Array) -> Array:
    if len(vector) == 0:
        return np.full(matrix.shape[1], Fraction(0), dtype=object)
    return np.asarray(np.dot(vector, matrix), dtype=object)


def evaluate(circuit: Circuit, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """f(x, z) for every sample of every task: x (tasks, samples, inputs), z (tasks, modules) -> (.., outputs).

    Computed in the dtype and on the device of x. What depends on z alone is computed once a task, and the
    mixed weights W(z) are formed once a task, never once a sample.
    """
    return interpret(circuit, Torch(), x, z.unsqueeze(1)).expand(*x.shape[:2], -1)


class Torch:
    """Tensors (tasks, samples or 1, width)."""

    def _constant(self, values: Array, like: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(as_float(values), dtype=like.dtype, device=like.device)

    def affine(self, node: Affine, values: list[torch.Tensor]) -> torch.Tensor:
        total = self._constant(node.bias, values[0])
        for value, (_, matrix) in zip(values, node.terms, strict=True):
            total = total + value @ self._constant(matrix, value)
        return total

    def relu(self, value: torch.Tensor) -> torch.Tensor:
        return torch.relu(value)

    def maximum(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.maximum(left, right)

    def bilinear(self, node: Bilinear, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        tensor = self._constant(node.tensor, u)
        if v.shape[1] == 1 and u.shape[1] > 1:  # the value that is the same for all samples mixes the weights
            tensor, u, v = tensor.transpose(0, 1), v, u
        modules, fan_in, width = tensor.shape
        mixed = (u.reshape(-1, modules) @ tensor.reshape(modules, fan_in * width)).reshape(*u.shape[:2], fan_in, width)
        if u.shape[1] == 1:
            return torch.bmm(v, mixed[:, 0])
        return (v.unsqueeze(2) @ mixed).squeeze(2)


@dataclass(frozen=True)
class Interval:
    """Arrays of lower and upper ends: float64 (then every operation rounds outwards) or Fractions."""

    lower: Array
    upper: Array

    @property
    def size(self) -> Array:
        """Largest absolute value."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))


def enclose(circuit: Circuit, x: Interval, z: Interval) -> Interval:
    """Enclosure of f over all (x, z) in a box: ends (inputs,) and (modules,) -> ends (outputs,).

    Plain interval arithmetic (no domain structure). Float64 rounds outwards, Fractions are exact.
    """
    result = interpret(circuit, Intervals(), x, z)
    assert isinstance(result, Interval)
    return result


class Intervals:
    """Interval arithmetic on vectors."""

    def affine(self, node: Affine, values: list[Interval]) -> Interval:
        convert = as_exact if is_exact(values[0].lower) else as_float
        low = high = convert(node.bias)
        size, n = np.abs(low), len(values) + 2
        for value, (_, matrix) in zip(values, node.terms, strict=True):
            m = convert(matrix)
            positive, negative = np.maximum(m, 0), np.minimum(m, 0)
            low = low + value.lower @ positive + value.upper @ negative
            high = high + value.upper @ positive + value.lower @ negative
            size, n = size + value.size @ np.abs(m), n + 2 * len(m) + (0 if representable(matrix) else 1)
        return _outward(low, high, size, n)

    def relu(self, value: Interval) -> Interval:
        return Interval(np.maximum(value.lower, 0), np.maximum(value.upper, 0))

    def maximum(self, left: Interval, right: Interval) -> Interval:
        return Interval(np.maximum(left.lower, right.lower), np.maximum(left.upper, right.upper))

    def bilinear(self, node: Bilinear, u: Interval, v: Interval) -> Interval:
        convert = as_exact if is_exact(u.lower) else as_float
        tensor = convert(node.tensor)
        ends = [(a[:, None] * b[None, :]).ravel() for a in (u.lower, u.upper) for b in (v.lower, v.upper)]
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        flat = tensor.reshape(-1, node.width)
        positive, negative = np.maximum(flat, 0), np.minimum(flat, 0)
        size = (u.size[:, None] * v.size[None, :]).ravel() @ np.abs(flat)
        return _outward(low @ positive + high @ negative, high @ positive + low @ negative, size, 2 * len(flat) + 3)


def _outward(low: Array, high: Array, size: Array, additions: int) -> Interval:
    if is_exact(low) or is_exact(high):
        return Interval(low, high)
    return Interval(-up(-low, additions, size), up(high, additions, size))
