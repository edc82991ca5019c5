"""Circuits: one description of f(x, z), from which everything else follows.

A circuit is a small graph of VECTOR nodes. There are six kinds, and no other operation exists anywhere:

    Input(name, domain)                 x or z
    Affine(((node, matrix), ..), bias)  sums, slices, concatenations, constants (row vector times matrix)
    ReLU(of), Maximum(left, right)      piecewise linear
    Bilinear(tensor, u, v)              y_h = sum_{m,i} tensor[m, i, h] u_m v_i, the only place where two values meet
    Assume(of, domain, because)         a fact that ranges cannot infer: trusted, listed, and tested by sampling

Coefficients are float64 arrays (taken as the exact rationals they are) or object arrays of Fraction.
Every node has a Domain; that of a derived node is computed in float64, rounded outwards, in ``ranges``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from theory.arithmetic import Array, as_exact, as_float
from theory.domains import Box, Domain


@dataclass(frozen=True, eq=False)
class Node:
    """A vector of length ``width``."""

    @property
    def width(self) -> int:
        """Length of the vector."""
        raise NotImplementedError

    @property
    def parents(self) -> tuple[Node, ...]:
        """The nodes this one is computed from."""
        return ()

    @cached_property
    def domain(self) -> Domain:
        """Where the vector lies (see theory.ranges)."""
        from theory.ranges import domain_of

        return domain_of(self)


@dataclass(frozen=True, eq=False)
class Input(Node):
    """An input of the network, x or z, with the set it is drawn from."""

    name: str
    of: Domain

    @property
    def width(self) -> int:
        return self.of.size


@dataclass(frozen=True, eq=False)
class Affine(Node):
    """bias + sum of node @ matrix over ``terms``; each matrix is (node.width, width)."""

    terms: tuple[tuple[Node, Array], ...]
    bias: Array

    def __post_init__(self) -> None:
        if not self.terms:
            raise ValueError("affine: needs at least one term; for a constant give a matrix of zeros")
        for node, matrix in self.terms:
            if np.shape(matrix) != (node.width, len(self.bias)):
                wanted = (node.width, len(self.bias))
                raise ValueError(f"affine: matrix of shape {np.shape(matrix)}, need {wanted} = (fan-in, fan-out)")
            _finite("affine", matrix)
        _finite("affine", self.bias)

    @property
    def width(self) -> int:
        return len(self.bias)

    @property
    def parents(self) -> tuple[Node, ...]:
        return tuple(node for node, _ in self.terms)


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A node of the same length as its one parent ``of``."""

    of: Node

    @property
    def width(self) -> int:
        return self.of.width

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.of,)


@dataclass(frozen=True, eq=False)
class ReLU(Unary):
    """max(of, 0), elementwise."""


@dataclass(frozen=True, eq=False)
class Maximum(Node):
    """max(left, right), elementwise. A minimum is -max(-a, -b)."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        if self.left.width != self.right.width:
            raise ValueError(f"maximum: widths {self.left.width} and {self.right.width} must be equal")

    @property
    def width(self) -> int:
        return self.left.width

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Bilinear(Node):
    """y_h = sum over m, i of tensor[m, i, h] u_m v_i; the tensor is (u.width, v.width, width)."""

    tensor: Array
    u: Node
    v: Node

    def __post_init__(self) -> None:
        if self.tensor.ndim != 3 or self.tensor.shape[:2] != (self.u.width, self.v.width):
            raise ValueError(
                f"bilinear: tensor of shape {self.tensor.shape}, need ({self.u.width}, {self.v.width}, width)"
            )
        _finite("bilinear", self.tensor)

    @property
    def width(self) -> int:
        return int(self.tensor.shape[2])

    @property
    def parents(self) -> tuple[Node, ...]:
        return (self.u, self.v)


@dataclass(frozen=True, eq=False)
class Assume(Unary):
    """The value of ``of``, declared to lie in ``known``, ``because`` of something that ranges cannot see."""

    known: Domain
    because: str

    def __post_init__(self) -> None:
        if self.known.size != self.of.width:
            raise ValueError(f"assume: a domain of size {self.known.size} for a vector of length {self.of.width}")


@dataclass(frozen=True, eq=False)
class Circuit:
    """f(x, z) as a graph with two inputs and one output."""

    x: Input
    z: Input
    output: Node
    nodes: tuple[Node, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        nodes = tuple(_ordered(self.output))
        inputs = {n for n in nodes if isinstance(n, Input)}
        if not inputs <= {self.x, self.z}:
            raise ValueError("circuit: the output depends on an input that is neither x nor z")
        object.__setattr__(self, "nodes", nodes)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What was declared and not inferred."""
        return tuple(n.because for n in self.nodes if isinstance(n, Assume))


def affine(terms: Iterable[tuple[Node, Any]], bias: Any = None) -> Affine:
    """An Affine node; a scalar in place of a matrix multiplies the whole vector, no bias means 0."""
    full = tuple((n, _multiple(n.width, m) if np.ndim(m) == 0 else _as_array(m)) for n, m in terms)
    if bias is None:
        bias = np.zeros(full[0][1].shape[1] if full else 0)
    return Affine(full, _as_array(bias))


def concat(nodes: Sequence[Node], constant: Sequence[float] = ()) -> Affine:
    """The vectors one after the other, then the given constants."""
    total = sum(n.width for n in nodes)
    terms, start = [], 0
    for node in nodes:
        matrix = np.zeros((node.width, total + len(constant)))
        matrix[np.arange(node.width), start + np.arange(node.width)] = 1
        terms.append((node, matrix))
        start += node.width
    return Affine(tuple(terms), np.concatenate([np.zeros(total), np.asarray(constant, dtype=float)]))


def take(node: Node, indices: Sequence[int] | Array) -> Affine:
    """The coordinates ``indices`` of a vector."""
    matrix = np.zeros((node.width, len(indices)))
    matrix[np.asarray(indices), np.arange(len(indices))] = 1
    return Affine(((node, matrix),), np.zeros(len(indices)))


def selection(node: Node) -> tuple[Node, Array] | None:
    """(root, indices) if the node is nothing but distinct coordinates of one Input or Assume, else None.

    A slice keeps what is known about its source: grid levels, at most K active, one-hot groups.
    """
    if isinstance(node, Input | Assume):
        return node, np.arange(node.width)
    if not isinstance(node, Affine) or len(node.terms) != 1 or np.any(node.bias != 0):
        return None
    source, matrix = node.terms[0]
    inner = selection(source)
    row, column = np.nonzero(matrix)
    if inner is None or len(column) != node.width or len(set(row)) != node.width or np.any(matrix[row, column] != 1):
        return None
    if len(set(column)) != node.width:
        return None
    indices = np.empty(node.width, dtype=int)
    indices[column] = row
    return inner[0], inner[1][indices]


def box(lower: Any, upper: Any) -> Box:
    """A box with the given bounds, as float64 arrays."""
    return Box(np.atleast_1d(as_float(lower)), np.atleast_1d(as_float(upper)))


def _multiple(width: int, factor: Any) -> Array:
    """``factor`` times the identity; a Fraction stays one (1.0 * Fraction is a float)."""
    return as_exact(np.eye(width)) * factor if isinstance(factor, Fraction) else np.eye(width) * float(factor)


def _as_array(values: Any) -> Array:
    array = np.asarray(values)
    return array if array.dtype == object else array.astype(np.float64)


def _finite(what: str, values: Array) -> None:
    if values.dtype != object and not np.isfinite(values).all():
        raise ValueError(f"{what}: a coefficient is NaN or infinite; all must be finite")


def _ordered(output: Node) -> Iterable[Node]:
    """Every node once, parents first (iterative, so that long chains do not exhaust the stack)."""
    done: set[int] = set()
    stack: list[tuple[Node, bool]] = [(output, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if ready:
            done.add(id(node))
            yield node
        else:
            stack.append((node, True))
            stack.extend((parent, False) for parent in reversed(node.parents))
