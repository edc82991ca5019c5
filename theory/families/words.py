"""Words: compositions of K affine generators, in order (claim C13, the chain).

    s_0 = x,   s_k = s_{k-1} A_{z_k} + b_{z_k},   f(x, z) = s_K

The task z is K one-hots of M, one after the other: M^K tasks. Unlike a mixture of modules, the order matters.
In homogeneous coordinates (s, 1) each step is one Bilinear of a one-hot and a state, so the chain is a circuit.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from theory.circuit import Bilinear, Circuit, Input, Node, concat, take
from theory.domains import OneHot
from theory.families.family import Family, checked_box, finite_array


class Words(Family):
    """Words of length ``length`` over M affine generators on R^d.

    matrices: (modules, d, d), offsets: (modules, d) or None for zeros; s @ matrix + offset. box: (lower, upper)
    of x. Raises ValueError for shapes that do not fit, NaN, length < 1.
    """

    name = "words"

    def __init__(self, matrices: Any, offsets: Any = None, length: int = 2, box: tuple[Any, Any] = (-1.0, 1.0)) -> None:
        self.matrices = finite_array("matrices", matrices, 3)
        if self.matrices.shape[1] != self.matrices.shape[2] or 0 in self.matrices.shape:
            raise ValueError(f"matrices: shape {self.matrices.shape}, need (modules, d, d)")
        self.modules, self.state = self.matrices.shape[:2]
        zeros = np.zeros((self.modules, self.state))
        self.offsets = finite_array("offsets", zeros if offsets is None else offsets, 2)
        if self.offsets.shape != (self.modules, self.state):
            raise ValueError(f"offsets: shape {self.offsets.shape}, need {(self.modules, self.state)}")
        if length < 1:
            raise ValueError(f"length: {length} must be at least 1")
        self.active = self.length = length
        self.box = checked_box(box, self.state)

    @classmethod
    def sample(cls, modules: int = 4, length: int = 3, state: int = 2, seed: int = 0) -> Words:
        """Random generators: orthogonal matrices (so that ranges grow slowly) and offsets in [-.5, .5)."""
        if modules < 1 or state < 1:
            raise ValueError(f"words: {modules} generators of state {state}, need at least 1 of each")
        if seed < 0:
            raise ValueError(f"seed: {seed} must not be negative")
        generator = np.random.default_rng(seed)
        matrices = np.linalg.qr(generator.standard_normal((modules, state, state)))[0]
        return cls(matrices, generator.random((modules, state)) - 0.5, length)

    @property
    def tasks(self) -> int:
        return self.modules**self.length

    @cached_property
    def circuit(self) -> Circuit:
        x, z = Input("x", self.box), Input("z", OneHot(self.length, self.modules))
        tensor = np.concatenate([self.matrices, self.offsets[:, None, :]], axis=1)
        value: Node = x
        for k in range(self.length):
            letter = take(z, np.arange(k * self.modules, (k + 1) * self.modules))
            value = Bilinear(tensor, letter, concat([value], constant=[1.0]))
        return Circuit(x, z, value)

    def __repr__(self) -> str:
        return f"Words({self.modules} generators of R^{self.state}, length {self.length}, {self.tasks:,} tasks)"
