"""Task encodings: what a network is shown of the task z (the paper's experiments; claim C10).

    identity      z itself
    orthogonal    a random rotation of z
    tokens        integers: the numbers of the modules, then their levels in tenths
    invertible    a random invertible network of z (coupling layers); affine in practice unless strong
    shuffle       [0, 1] cut into ten intervals, permuted; the place within an interval is kept
    few-shot      pairs (x, f(x, z))

An encoding is called on z (.., modules) and gives (.., width), in the dtype and on the device of z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from scipy.spatial import cKDTree

from theory.arithmetic import Array
from theory.circuit import box
from theory.domains import NEAR, Domain, Tasks
from theory.families.family import Family

Affine = tuple[Array, Array]


class Encoding:
    """A map from tasks z (.., modules) to what a network is shown, (.., width).

    affine: (matrix (modules, width), offset (width,)) where the encoding is z @ matrix + offset, else None.
    domain: a Domain in which all encodings lie. random: whether two calls with one z may differ.
    """

    name: ClassVar[str]
    width: int
    affine: Affine | None = None
    random: bool = False

    def __init__(self, tasks: Tasks) -> None:
        self.tasks, self.modules = tasks, tasks.modules

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        """Encode z (.., modules). The generator is for encodings that draw something anew each time."""
        raise NotImplementedError

    def decode(self, encoding: torch.Tensor) -> torch.Tensor:
        """The z (.., modules) of an encoding (.., width). Raises ValueError where there is no inverse."""
        raise ValueError(f"{self.name}: this encoding has no inverse in closed form")

    @property
    def domain(self) -> Domain:
        """Where encodings of the family's tasks lie."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.name} encoding of {self.modules} modules, width {self.width}"


class Identity(Encoding):
    """z itself."""

    name = "identity"

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(tasks)
        self.width = tasks.modules
        self.affine = (np.eye(self.width), np.zeros(self.width))

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        return z

    def decode(self, encoding: torch.Tensor) -> torch.Tensor:
        return encoding

    @property
    def domain(self) -> Domain:
        return self.tasks


class Orthogonal(Encoding):
    """z @ Q for a random orthogonal Q, uniform (Haar). The inverse is the transpose, exact up to rounding."""

    name = "orthogonal"

    def __init__(self, tasks: Tasks, seed: int = 0) -> None:
        super().__init__(tasks)
        self.width = tasks.modules
        q, r = np.linalg.qr(_stream(seed, 0).standard_normal((self.width, self.width)))
        self.matrix = q * np.sign(np.diag(r))  # without the signs QR does not give the uniform distribution
        self.affine = (self.matrix, np.zeros(self.width))

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        return z @ torch.as_tensor(self.matrix, dtype=z.dtype, device=z.device)

    def decode(self, encoding: torch.Tensor) -> torch.Tensor:
        return encoding @ torch.as_tensor(self.matrix.T, dtype=encoding.dtype, device=encoding.device)

    @property
    def domain(self) -> Domain:
        return box(*_widened(*self.tasks.linear_range(self.matrix)))


class Tokens(Encoding):
    """2M integers fed as numbers: m + 1 for each module, then M + 1 + its level in tenths, rounded.

    For levels that are tenths (up to float32's rounding) it is affine in z; half of the entries are constant. Raises
    ValueError for levels that rounding to tenths does not tell apart, and for continuous weights.
    """

    name = "tokens"

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(tasks)
        if tasks.levels is None:
            raise ValueError(
                "tokens: continuous weights are more than tenths can tell apart; use khot or discrete ones"
            )
        tenths = [round(10 * level) for level in tasks.levels]
        if len({0, *tenths}) <= len(tenths):
            shown = ", ".join(f"{float(v):g}" for v in tasks.levels)
            raise ValueError(f"tokens: levels {shown} are not told apart by tenths; use levels at least 0.1 apart")
        self.width, self.tenths = 2 * tasks.modules, tenths
        self.first = np.concatenate([np.arange(self.modules) + 1, np.full(self.modules, self.modules + 1)])
        if all(abs(level - t / 10) <= NEAR * level for level, t in zip(tasks.levels, map(float, tenths), strict=True)):
            matrix = np.concatenate([np.zeros((self.modules,) * 2), 10 * np.eye(self.modules)], axis=1)
            self.affine = (matrix, self.first.astype(float))

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        levels = torch.round(10 * z)  # int() would make 5 of the float just below .6
        return torch.cat([torch.zeros_like(z), levels], dim=-1) + torch.as_tensor(self.first, device=z.device).to(z)

    def decode(self, encoding: torch.Tensor) -> torch.Tensor:
        table = np.zeros(max(self.tenths) + 1)
        table[self.tenths] = [float(level) for level in self.tasks.values]
        tenths = torch.round(encoding[..., self.modules :] - (self.modules + 1)).long()
        return torch.as_tensor(table, dtype=encoding.dtype, device=encoding.device)[tenths]

    @property
    def domain(self) -> Domain:
        top = np.concatenate([np.zeros(self.modules), np.full(self.modules, max(self.tenths))])
        return box(self.first.astype(float), self.first + top)


class Invertible(Encoding):
    """A random invertible network: three affine coupling layers, the order of the entries reversed before the second.

    A layer maps (a, b) to (a, b (1 + tanh(u)/2) + t), with (u, t) from a network of a with two hidden layers of 2M
    sigmoids and weights N(0, (strength/10)^2), no biases. strength 1 is the paper's, which is affine in practice
    (linear R2 above .9999); NONLINEAR is not. The inverse runs backwards, exact up to rounding.
    """

    name = "invertible"
    LAYERS = 3
    #: A strength at which the best affine map from encodings back to z has R2 .4 to .8 (M = 6 to 16, ten seeds).
    NONLINEAR = 15.0

    def __init__(self, tasks: Tasks, seed: int = 0, strength: float = 1.0) -> None:
        super().__init__(tasks)
        if not (math.isfinite(strength) and strength >= 0):
            raise ValueError(f"strength: {strength} must be a finite number of at least 0 (1: the paper's)")
        m = self.width = tasks.modules
        self.kept = (m + 1) // 2
        sizes = (self.kept, 2 * m, 2 * m, 2 * (m - self.kept))
        self.layers = [
            [strength / 10 * _stream(seed, layer, i).standard_normal(sizes[i : i + 2]) for i in range(3)]
            for layer in range(self.LAYERS)
        ]

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        for number, weights in enumerate(self.layers):
            z = z.flip(-1) if number % 2 else z
            kept, changed = z[..., : self.kept], z[..., self.kept :]
            scale, shift = self._scale_and_shift(kept, weights)
            z = torch.cat([kept, changed * scale + shift], dim=-1)
        return z

    def decode(self, encoding: torch.Tensor) -> torch.Tensor:
        z = encoding
        for number, weights in reversed(list(enumerate(self.layers))):
            kept, changed = z[..., : self.kept], z[..., self.kept :]
            scale, shift = self._scale_and_shift(kept, weights)
            z = torch.cat([kept, (changed - shift) / scale], dim=-1)
            z = z.flip(-1) if number % 2 else z
        return z

    def _scale_and_shift(self, kept: torch.Tensor, weights: list[Array]) -> tuple[torch.Tensor, torch.Tensor]:
        first, second, last = (torch.as_tensor(w, dtype=kept.dtype, device=kept.device) for w in weights)
        out = torch.sigmoid(torch.sigmoid(kept @ first) @ second) @ last
        changed = self.width - self.kept
        return 1 + torch.tanh(out[..., :changed]) / 2, out[..., changed:]

    @property
    def domain(self) -> Domain:
        low, high = self.tasks.lower, self.tasks.upper
        for number, weights in enumerate(self.layers):
            if number % 2:
                low, high = low[::-1], high[::-1]
            shifts = weights[-1][:, self.width - self.kept :]  # times sigmoids, which lie in (0, 1)
            a, b = low[self.kept :], high[self.kept :]
            ends = np.stack([a / 2, 1.5 * a, b / 2, 1.5 * b])  # tanh lies in (-1, 1)
            low = np.concatenate([low[: self.kept], ends.min(axis=0) + np.minimum(shifts, 0).sum(axis=0)])
            high = np.concatenate([high[: self.kept], ends.max(axis=0) + np.maximum(shifts, 0).sum(axis=0)])
        return box(*_widened(low, high))


class Shuffle(Encoding):
    """Interval shuffle: [0, 1] cut into ``bins`` intervals, permuted at random; the place within one is kept, 1 fixed.

    The first interval stays where it is, so that modules that are off stay 0; with ``inactive`` it is permuted too, as
    in the paper (then modules that are off show the same number above 0). Either way it is a bijection of [0, 1]. A
    number just below a bound of two intervals (by NEAR) counts as the bound: .7 in float32 lies below 7/10.
    """

    name = "shuffle"

    def __init__(self, tasks: Tasks, seed: int = 0, bins: int = 10, inactive: bool = False) -> None:
        super().__init__(tasks)
        if tasks.values[-1] > 1 + NEAR:
            raise ValueError(f"shuffle: weights up to {float(tasks.values[-1]):g}; needs weights of at most 1")
        if bins < 2:
            raise ValueError(f"bins: {bins} must be at least 2")
        self.width, self.bins = tasks.modules, bins
        moved = _stream(seed, 0).permutation(bins if inactive else bins - 1)
        first = [] if inactive else [0]
        self.goes_to = np.concatenate([first, moved + len(first), [bins]]).astype(np.int64)

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        return self._permuted(z, self.goes_to)

    def decode(self, encoding: torch.Tensor) -> torch.Tensor:
        return self._permuted(encoding, np.argsort(self.goes_to))

    def _permuted(self, values: torch.Tensor, goes_to: Array) -> torch.Tensor:
        exact = values.double() * self.bins  # times 10: .6 / .1 is below 6
        at = torch.floor(exact + NEAR * self.bins).clamp(0, self.bins)
        table = torch.as_tensor(goes_to, dtype=torch.float64, device=values.device)
        return ((table[at.long()] + (exact - at)) / self.bins).to(values.dtype)

    @property
    def domain(self) -> Domain:
        return box(np.full(self.width, -NEAR), np.full(self.width, 1 + NEAR))


class FewShot(Encoding):
    """``shots`` pairs (x, f(x, z)), one after the other; x fresh for each task and call, or the same with ``fixed``.

    No inverse. Two tasks have the same encoding only if f(., z) agree on all x drawn.
    """

    name = "few-shot"

    def __init__(self, family: Family, seed: int = 0, shots: int = 50, fixed: bool = False) -> None:
        super().__init__(_tasks(family))
        if shots < 1:
            raise ValueError(f"shots: {shots} must be at least 1")
        self.family, self.shots, self.seed, self.fixed = family, shots, seed, fixed
        self.width, self.random = shots * (family.inputs + family.outputs), not fixed

    def __call__(self, z: torch.Tensor, generator: np.random.Generator | None = None) -> torch.Tensor:
        tasks = z.reshape(-1, self.modules)
        drawn = 1 if self.fixed else len(tasks)
        if generator is None or self.fixed:
            generator = _stream(self.seed, 0)
        x = self.family.x_domain.sample(drawn * self.shots, generator).reshape(drawn, self.shots, -1)
        inputs = torch.as_tensor(x, dtype=z.dtype, device=z.device).expand(len(tasks), -1, -1)
        pairs = torch.cat([inputs, self.family(inputs, tasks)], dim=-1)
        return pairs.reshape(*z.shape[:-1], self.width)

    @property
    def domain(self) -> Domain:
        of, x = self.family.circuit.output.domain, self.family.x_domain
        low, high = _widened(np.concatenate([x.lower, of.lower]), np.concatenate([x.upper, of.upper]))
        return box(np.tile(low, self.shots), np.tile(high, self.shots))


def make(name: str, family: Family, seed: int = 0) -> Encoding:
    """The encoding of this name for a family's tasks. ValueError for an unknown one and where it cannot serve."""
    makers: dict[str, Callable[[], Encoding]] = {
        "identity": lambda: Identity(_tasks(family)),
        "orthogonal": lambda: Orthogonal(_tasks(family), seed),
        "tokens": lambda: Tokens(_tasks(family)),
        "invertible": lambda: Invertible(_tasks(family), seed),
        "invertible-nonlinear": lambda: Invertible(_tasks(family), seed, Invertible.NONLINEAR),
        "shuffle": lambda: Shuffle(_tasks(family), seed),
        "few-shot": lambda: FewShot(family, seed),
    }
    if name not in makers:
        raise ValueError(f"encoding: {name!r} is unknown; use one of {', '.join(makers)}")
    return makers[name]()


NAMES = ("identity", "orthogonal", "tokens", "invertible", "invertible-nonlinear", "shuffle", "few-shot")


def linear_r2(encoding: Encoding, n: int = 4000, seed: int = 0) -> float:
    """How much of z the best affine map of the encoding explains: R2 pooled over modules, measured on n tasks.

    Fitted on one half by least squares, scored on the other: 1 for affine encodings, below it the less linear they are.
    """
    generator = _stream(seed, 0)
    z = encoding.tasks.sample(n, generator)
    shown = encoding(torch.from_numpy(z), generator).numpy()
    features, half = np.concatenate([shown, np.ones((n, 1))], axis=1), n // 2
    fitted, *_ = np.linalg.lstsq(features[:half], z[:half], rcond=1e-10)
    left = ((z[half:] - features[half:] @ fitted) ** 2).sum()
    return float(1 - left / ((z[half:] - z[half:].mean(axis=0)) ** 2).sum())


def smallest_distance(encoding: Encoding, z: Array) -> tuple[float, int, int]:
    """Smallest Euclidean distance between the encodings of different tasks z (n, modules), and which two these are.

    0 says that the encoding is not injective on them. Raises ValueError for fewer than two tasks, or repeated ones.
    """
    if len(z) < 2 or len(np.unique(z, axis=0)) < len(z):
        raise ValueError("tasks: need at least two, all different")
    shown = encoding(torch.from_numpy(z)).numpy()
    distance, other = cKDTree(shown).query(shown, k=2)
    # Among equal points the query may put the point itself second.
    own = np.arange(len(z))
    near = np.where(other[:, 0] == own, other[:, 1], other[:, 0])
    away = np.where(other[:, 0] == own, distance[:, 1], distance[:, 0])
    at = int(away.argmin())
    return float(away[at]), at, int(near[at])


def _tasks(family: Family) -> Tasks:
    if not isinstance(family.z_domain, Tasks):
        raise ValueError(f"encoding: the tasks of {family.name} are no module weights; encodings need those")
    return family.z_domain


def _widened(low: Array, high: Array) -> tuple[Array, Array]:
    """A little room for the rounding of encodings in float32."""
    room = 1e-5 * (np.abs(low) + np.abs(high) + 1)
    return low - room, high + room


def _stream(seed: int, *key: int) -> np.random.Generator:
    if seed < 0:
        raise ValueError(f"seed: {seed} must be an integer of at least 0")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*key,)))
