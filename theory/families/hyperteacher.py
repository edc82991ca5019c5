"""Hyperteachers: networks whose weights are mixtures of modules (the paper, section 3).

    h_0 = x,   h_l = ReLU(scale * sum_m z_m (h_{l-1} Theta_lm + b_lm)),   f(x, z) = h_last @ Omega

Arrays have the orientation of the files everywhere: a row vector times (fan_in, fan_out).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from theory.arithmetic import Array
from theory.circuit import Affine, Bilinear, Circuit, Input, Node, ReLU, affine
from theory.domains import KHOT, Tasks
from theory.families.family import Family, checked_box, finite_array, finite_number
from theory.families.files import read_teacher, write_teacher

#: The grid of the paper's discrete weights: the float32 values, promoted exactly (3/5 and float32(.6) differ).
DISCRETE = tuple(Fraction(float(np.float32(v / 10))) for v in range(5, 11))
CONTINUOUS = (Fraction(1, 2), Fraction(1))
WEIGHTS = ("khot", "discrete", "continuous")
#: 4 GiB in float64: more is a typing error.
LARGEST_SAMPLED = 2**29


class Hyperteacher(Family):
    """A hyperteacher with any number of modulated layers.

    modules: one array (modules, fan_in, fan_out) a layer; biases: one (modules, fan_out) a layer, or None for
    zeros; readout: (last fan_out, outputs). ``active`` is K, the largest number of modules in use.
    weights: "khot" (z_m in {0, 1}), "discrete" (z_m in {0} + levels), "continuous" (z_m in {0} + [lo, hi]).
    levels: the grid, or (lo, hi); taken as exact rationals; default 1, the paper's grid, or (1/2, 1).
    box: (lower, upper) of x, each a number or (inputs,). forward takes the raw z; scale multiplies it inside.
    Raises ValueError, one line, for shapes that do not fit, NaN, active > modules, unknown weights.
    """

    name = "hyperteacher"

    def __init__(
        self,
        modules: Sequence[Any],
        biases: Sequence[Any] | None,
        readout: Any,
        active: int,
        weights: str = "khot",
        scale: float = 1.0,
        box: tuple[Any, Any] = (-1.0, 1.0),
        levels: Sequence[Any] | None = None,
    ) -> None:
        self.layers = tuple(finite_array(f"modules[{i}]", m, 3) for i, m in enumerate(modules))
        if not self.layers:
            raise ValueError("modules: no layer given; need at least one array (modules, fan_in, fan_out)")
        if biases is None:
            biases = [np.zeros((m.shape[0], m.shape[2])) for m in self.layers]
        if len(biases) != len(self.layers):
            raise ValueError(f"biases: {len(biases)} arrays for {len(self.layers)} modulated layers; give one a layer")
        self.biases = tuple(finite_array(f"biases[{i}]", b, 2) for i, b in enumerate(biases))
        self.readout = finite_array("readout", readout, 2)
        self.modules, self.active = len(self.layers[0]), _integer("active", active)
        self._check_shapes()
        self.scale = finite_number("scale", scale)
        self.weights = weights
        self.levels = _levels(weights, levels)
        self.box = checked_box(box, self.layers[0].shape[1])
        Tasks(self.modules, self.active)  # refuses active > modules in its own words

    def _check_shapes(self) -> None:
        fan_in = self.layers[0].shape[1]
        for i, (module, bias) in enumerate(zip(self.layers, self.biases, strict=True)):
            wanted = (self.modules, fan_in, module.shape[2])
            if module.shape != wanted:
                raise ValueError(f"modules[{i}]: shape {module.shape}, need {wanted} = (modules, fan_in, fan_out)")
            if bias.shape != (self.modules, module.shape[2]):
                raise ValueError(f"biases[{i}]: shape {bias.shape}, need {(self.modules, module.shape[2])}")
            fan_in = module.shape[2]
        if self.readout.shape[0] != fan_in:
            raise ValueError(f"readout: shape {self.readout.shape}, need ({fan_in}, outputs)")
        if 0 in (*self.readout.shape, *(d for m in self.layers for d in m.shape)):
            raise ValueError("modules and readout: every dimension must be at least 1")

    @classmethod
    def sample(
        cls,
        modules: int = 16,
        active: int = 3,
        inputs: int = 16,
        hidden: Sequence[int] = (16,),
        outputs: int = 16,
        weights: str = "khot",
        seed: int = 0,
        *,
        scale: float | None = None,
        box: tuple[Any, Any] = (-1.0, 1.0),
        levels: Sequence[Any] | None = None,
    ) -> Hyperteacher:
        """A random hyperteacher with the paper's initialisation.

        Modules and readout: normal, cut at two standard deviations, variance sqrt(3)/fan_in; biases uniform on
        [0, .5). Modules, biases and readout have random streams of their own, a stream a layer, so that changing
        one size leaves the other arrays as they were. scale defaults to 1/sqrt(active).
        """
        sizes = [("modules", modules), ("inputs", inputs), ("outputs", outputs), *(("hidden", h) for h in hidden)]
        for what, value in sizes:
            if value < 1:
                raise ValueError(f"{what}: {value} must be at least 1")
        total = modules * sum(a * b for a, b in pairwise((inputs, *hidden)))
        if total > LARGEST_SAMPLED:
            raise ValueError(
                f"modules: {total:,} weights in all; at most {LARGEST_SAMPLED:,} are sampled: use smaller sizes"
            )
        if not hidden:
            raise ValueError("hidden: give the width of at least one modulated layer")
        Tasks(modules, active)
        stream = _streams(seed)
        fans = enumerate(pairwise((inputs, *hidden)))
        return cls(
            [_truncated(stream(0, i), (modules, fan_in, fan_out), fan_in) for i, (fan_in, fan_out) in fans],
            [_float32(0.5 * stream(1, i).random((modules, fan_out))) for i, fan_out in enumerate(hidden)],
            _truncated(stream(2, 0), (hidden[-1], outputs), hidden[-1]),
            active,
            weights,
            1 / math.sqrt(active) if scale is None else scale,
            box,
            levels,
        )

    @classmethod
    def load(cls, path: str | Path) -> Hyperteacher:
        """From .npz or .safetensors (see theory.families.files). Raises ValueError for anything it cannot use."""
        arguments = read_teacher(Path(path))
        try:
            return cls(**arguments)
        except ValueError as reason:
            raise ValueError(f"{path}: {reason}") from reason

    def save(self, path: str | Path) -> None:
        """To .npz or .safetensors, so that ``load`` gives the same family back (levels as exact fractions)."""
        write_teacher(Path(path), self)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Width of each modulated layer."""
        return tuple(m.shape[2] for m in self.layers)

    @property
    def tasks(self) -> int:
        return Tasks(self.modules, self.active).supports.count

    @cached_property
    def circuit(self) -> Circuit:
        continuous = self.weights == "continuous"
        domain = Tasks(
            self.modules,
            self.active,
            levels=None if continuous else self.levels,
            interval=(self.levels[0], self.levels[1]) if continuous else None,
        )
        x, z = Input("x", self.box), Input("z", domain)
        scale: Any = self.scale
        value: Node = x
        for module, bias in zip(self.layers, self.biases, strict=True):
            mixed = Bilinear(module, z, value)
            offset = Affine(((z, bias),), np.zeros(bias.shape[1]))
            value = ReLU(affine([(mixed, scale), (offset, scale)]))
        return Circuit(x, z, affine([(value, self.readout)]))

    def __repr__(self) -> str:
        shape = "-".join(str(n) for n in (self.inputs, *self.hidden, self.outputs))
        tasks = f"{self.active} of {self.modules} modules, {self.weights}, {self.tasks:,} supports"
        return f"Hyperteacher({shape}, {tasks})"


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool | str) or int(value) != value:
        raise ValueError(f"{name}: {value!r} must be an integer")
    return int(value)


def _levels(weights: str, levels: Sequence[Any] | None) -> tuple[Fraction, ...]:
    if weights not in WEIGHTS:
        raise ValueError(f"weights: {weights!r} is unknown; use one of {', '.join(WEIGHTS)}")
    default = {"khot": KHOT, "discrete": DISCRETE, "continuous": CONTINUOUS}[weights]
    if levels is None or len(levels) == 0:
        return default
    try:
        exact = tuple(Fraction(v if isinstance(v, Fraction | str) else float(v)) for v in levels)
    except (ValueError, TypeError, ArithmeticError) as reason:
        given = ", ".join(str(v) for v in levels)
        raise ValueError(f"levels: need finite numbers or fractions such as '1/2', got {given}") from reason
    if weights == "khot" and exact != KHOT:
        raise ValueError("levels: khot weights have the single level 1; use weights='discrete' for others")
    if weights == "continuous" and len(exact) != 2:
        raise ValueError(f"levels: continuous weights need (lo, hi), got {len(exact)} values")
    finite_array("levels", np.array(exact, dtype=object), 1)
    Tasks(1, 1, levels=exact)  # refuses levels that do not increase, or are not above 0
    return exact


def _streams(seed: int) -> Any:
    if seed < 0:
        raise ValueError(f"seed: {seed} must not be negative")
    return lambda part, layer: np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part, layer)))


def _truncated(generator: np.random.Generator, shape: tuple[int, ...], fan_in: int) -> Array:
    """Normal cut at two standard deviations, rescaled to variance sqrt(3)/fan_in; float32 values."""
    below, above = ndtr(-2.0), ndtr(2.0)
    density = math.exp(-2.0) / math.sqrt(2 * math.pi)
    variance = 1 - 4 * density / (above - below)
    draws = ndtri(below + (above - below) * generator.random(shape))
    return _float32(draws * math.sqrt(math.sqrt(3) / fan_in / variance))


def _float32(values: Array) -> Array:
    return values.astype(np.float32).astype(np.float64)
