"""Forms and blocks: what the compiler computes with before there are layers.

A ``Form`` is a vector of affine forms over sources; a source is an input or a ``Block`` of ReLU neurons. A Block is
ReLU of a Form. A circuit becomes a handful of Blocks and one output Form; only then are layers formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from constructions.sparse import Sparse, zeros
from theory.arithmetic import UNIT64, Array, as_float

#: Names of the two inputs among the sources of a Form; Blocks are named by their index.
Z, X = -2, -1
Source = int


@dataclass(frozen=True, eq=False)
class Form:
    """bias + sum of source @ matrix. ``parts``: source -> Sparse (source width, width).

    ``noise`` (width,) bounds the error that float64 made in computing these coefficients, as it acts on the value
    (None in exact arithmetic); ``sizes`` (width,) bounds the sum of the absolute values of all that was added up.
    """

    parts: dict[Source, Sparse]
    bias: Array
    sizes: Array
    noise: Array | None

    @property
    def width(self) -> int:
        """Length of the vector."""
        return len(self.bias)

    @property
    def exact(self) -> bool:
        """Whether the coefficients are Fractions."""
        return self.bias.dtype == object

    def through(self, matrix: Sparse, data_rounded: bool = False) -> Form:
        """The form times a matrix (width, new width); ``data_rounded``: the entries are float64 roundings."""
        parts = {s: part @ matrix for s, part in self.parts.items()}
        parts = {s: p for s, p in parts.items() if p.nnz}
        absolute = matrix.absolute().T
        sizes = absolute @ self.sizes
        noise = None
        if self.noise is not None:
            additions = int(np.bincount(matrix.col, minlength=1).max(initial=0))
            noise = absolute @ self.noise + (additions + 2 + data_rounded) * 2 * UNIT64 * sizes
        return Form(parts, matrix.left(self.bias), sizes, noise)

    def plus(self, other: Form) -> Form:
        """Sum of two forms of the same width."""
        parts = dict(self.parts)
        for source, part in other.parts.items():
            parts[source] = parts[source] + part if source in parts else part
        parts = {s: p for s, p in parts.items() if p.nnz}
        sizes = self.sizes + other.sizes
        noise = None if self.noise is None or other.noise is None else self.noise + other.noise + 2 * UNIT64 * sizes
        return Form(parts, self.bias + other.bias, sizes, noise)

    def shift(self, constants: Array) -> Form:
        """The form plus constants (width,)."""
        sizes = self.sizes + np.abs(as_float(constants))
        noise = None if self.noise is None else self.noise + 4 * UNIT64 * sizes
        return Form(self.parts, self.bias + constants, sizes, noise)

    def columns(self, picks: Array) -> Form:
        """The coordinates ``picks`` (increasing)."""
        if len(picks) == self.width:
            return self
        noise = None if self.noise is None else self.noise[picks]
        parts = {s: p.take_columns(picks) for s, p in self.parts.items()}
        return Form({s: p for s, p in parts.items() if p.nnz}, self.bias[picks], self.sizes[picks], noise)


def constant(values: Array) -> Form:
    """A form without sources."""
    noise = None if values.dtype == object else np.zeros(len(values))
    return Form({}, values, np.abs(as_float(values)), noise)


def whole(source: Source, size: Array, exact: bool) -> Form:
    """The source itself; ``size`` (width,) bounds its absolute value."""
    n = len(size)
    unit = Sparse.units(np.arange(n), n, exact)
    return Form({source: unit}, zeros(n, exact), np.asarray(size, dtype=float), None if exact else np.zeros(n))


def over(source: Source, matrix: Sparse, size: Array) -> Form:
    """source @ matrix, the source bounded by ``size``; the matrix entries count as one float64 rounding each."""
    sizes = matrix.absolute().T @ size
    noise = None if matrix.exact else 4 * UNIT64 * sizes
    return Form({source: matrix} if matrix.nnz else {}, zeros(matrix.shape[1], matrix.exact), sizes, noise)


@dataclass(frozen=True, eq=False)
class Block:
    """Neurons ReLU(form), with what is known about them, a column a fact, each (width,).

    upper: bound of the output. owner: the coordinate of z whose being 0 makes the neuron 0, or -1.
    margin: how far below 0 the pre-activation then is. unit: the unit of the circuit it serves, or -1.
    early: placed as early as possible (a chain of gadgets), not as late as possible.
    cancels: at z = 0 the neurons of G4 and G6 cancel but are not 0 themselves: then ``owner`` is only a label.
    """

    form: Form
    gadget: str
    upper: Array
    owner: Array
    margin: Array
    unit: Array
    early: bool = False
    cancels: bool = False

    @property
    def switch(self) -> Array:
        """``owner``, where its being 0 really makes each neuron 0."""
        return np.full(self.width, -1) if self.cancels else self.owner

    @property
    def width(self) -> int:
        """Number of neurons."""
        return self.form.width
