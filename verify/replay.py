"""Replay: a candidate is evaluated again, by other means, before it is reported.

    target    in Fractions, from the circuit (theory.evaluators)
    dtype     the network's own forward
    float64   the stored weights, in numpy; it must agree with the network up to a rounding bound computed here
    exact     the stored weights in real arithmetic: floats are integers times powers of two, so a layer is a sum of
              products of Python integers with one common exponent; only nonzero weights that meet
              nonzero values are touched

None of the last two uses torch, the compiler or the network's own bounds.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
import torch

from theory.arithmetic import UNIT32, UNIT64, Array
from theory.families.family import Family
from verify.networks import Network, Stack, weights_of

#: How many candidates are replayed, and how many nonzero weights all replays together may touch.
REPLAYS, ENTRIES = 8, 4_000_000


@dataclass(frozen=True, eq=False)
class Replayed:
    """One point x, z as fed, replayed. measured: largest error of the network in its dtype, that of ``output``.

    exact: the same for the stored weights in real arithmetic; None for a module that is no stack of linear layers.
    doubt: why the evaluators do not agree, or None.
    """

    x: tuple[float, ...]
    z: tuple[float, ...]
    output: int
    measured: float
    exact: float | None
    doubt: str | None


class StoredWeights:
    """The weights of a stack as stored, for two evaluators that are independent of torch: float64 and exact."""

    def __init__(self, stack: Stack) -> None:
        self.layers: list[tuple[sp.csr_matrix, Array, bool]] = []
        for module, relu in stack:
            weight, bias = (t.cpu() for t in weights_of(module))
            if weight.layout == torch.sparse_csr:
                parts = (weight.values().double(), weight.col_indices(), weight.crow_indices())
                matrix = sp.csr_matrix(tuple(p.numpy() for p in parts), shape=tuple(weight.shape))
                matrix.eliminate_zeros()
            else:
                matrix = sp.csr_matrix(weight.double().numpy())
            self.layers.append((matrix, bias.double().numpy(), relu))
        self.nonzeros = sum(matrix.nnz for matrix, _, _ in self.layers)

    def in_float64(self, row: Array, unit: float) -> tuple[Array, Array]:
        """Values at a row (fan_in,), and how far a forward pass of unit roundoff ``unit`` may be from the exact ones.

        The bound is the usual one (Higham 2002, section 3.1): a neuron with n addends adds (n + 2) u sum |addends|.
        """
        tiny = 2.0**-149 if unit == UNIT32 else 2.0**-1074
        values, error = row.astype(np.float64), np.zeros(len(row))
        for matrix, bias, relu in self.layers:
            size = abs(matrix)
            addends = np.diff(matrix.indptr) + 2
            total = size @ (np.abs(values) + error) + np.abs(bias)
            error = size @ error + 1.01 * (addends + 2) * (unit + UNIT64) * total + addends * tiny
            values = matrix @ values + bias
            values = np.maximum(values, 0.0) if relu else values
        return values, error

    def exactly(self, row: Array) -> list[Fraction]:
        """Values at a row (fan_in,) in real arithmetic."""
        values, shift = _integers(row)
        for matrix, bias, relu in self.layers:
            met = (values != 0)[matrix.indices]
            weights, weight_shift = _integers(matrix.data[met])
            products = weights * values[matrix.indices[met]]
            ends = np.concatenate([[0], np.cumsum(met)])[matrix.indptr]
            totals = np.zeros(matrix.shape[0], dtype=object)
            some = np.flatnonzero(np.diff(ends))
            if len(some):
                totals[some] = np.add.reduceat(products, ends[some])
            totals, shift = _add(totals, shift + weight_shift, *_integers(bias))
            values = np.maximum(totals, 0) if relu else totals
        scale = Fraction(2) ** shift
        return [int(v) * scale for v in values]


def _integers(values: Array) -> tuple[Array, int]:
    """Python integers n and an exponent e with values = n 2^e, exactly."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    integer = np.ldexp(fraction, 53).astype(np.int64)
    used = exponent[integer != 0]
    if len(used) == 0:
        return np.zeros(len(values), dtype=object), 0
    least = int(used.min())
    up = np.where(integer != 0, exponent.astype(np.int64) - least, 0)
    return np.left_shift(integer.astype(object), up.astype(object)), least - 53


def _add(a: Array, shift_a: int, b: Array, shift_b: int) -> tuple[Array, int]:
    """a 2^shift_a + b 2^shift_b as integers and one exponent."""
    shift = min(shift_a, shift_b)
    return a * (1 << (shift_a - shift)) + b * (1 << (shift_b - shift)), shift


def replay(family: Family, network: Network, x: Array, z: Array) -> list[Replayed]:
    """The points x (n, inputs), z (n, width) replayed one by one, the worst first (at most REPLAYS, fewer if wide)."""
    stored = StoredWeights(network.stack) if network.stack is not None else None
    count = REPLAYS if stored is None else max(1, min(REPLAYS, ENTRIES // max(stored.nonzeros, 1)))
    kind = np.float32 if network.dtype == torch.float32 else np.float64
    replayed: list[Replayed] = []
    seen: set[bytes] = set()
    for at in range(len(x)):
        fed = (x[at].astype(kind).astype(np.float64), z[at].astype(kind).astype(np.float64))
        key = fed[0].tobytes() + fed[1].tobytes()
        if key not in seen:
            seen.add(key)
            replayed.append(_one(family, network, stored, *fed))
        if len(replayed) == count:
            break
    return sorted(replayed, key=lambda r: -r.measured)


def _one(family: Family, network: Network, stored: StoredWeights | None, x: Array, z: Array) -> Replayed:
    target = list(family.exact(x, z))
    output = _forward(network, x, z)
    pairs = zip(output.tolist(), target, strict=True)
    errors = [float(abs(Fraction(v) - t)) if math.isfinite(v) else math.inf for v, t in pairs]
    at = int(np.argmax(errors))
    doubt: str | None = None
    exact: float | None = None
    if not network.finite:
        exact = math.inf
    elif stored is not None:
        row = np.concatenate([z, x])
        values = stored.exactly(row)
        exact = float(max(abs(v - t) for v, t in zip(values, target, strict=True)))
        doubt = _doubt(network, stored, row, output, np.array([float(v) for v in values]))
    else:
        double = _double(network, x, z)
        apart = float(np.abs(double - output).max())
        if apart > 0.01 * errors[at] and math.isfinite(errors[at]):
            doubt = f"the module in float64 and in its dtype differ by {apart:.2g}"
    return Replayed(tuple(x.tolist()), tuple(z.tolist()), at, errors[at], exact, doubt)


def _doubt(network: Network, stored: StoredWeights, row: Array, output: Array, exact: Array) -> str | None:
    """Whether the three evaluations of the network agree as well as rounding allows."""
    unit = UNIT32 if network.dtype == torch.float32 else UNIT64
    in_float64, allowed = stored.in_float64(row, UNIT64)
    apart = np.abs(in_float64 - exact)
    if np.any(apart > allowed):
        return f"the exact and the float64 replay of the stored weights differ by {apart.max():.2g}"
    allowed = stored.in_float64(row, unit)[1] + allowed
    apart = np.abs(output - in_float64)
    if np.all(np.isfinite(output)) and np.any(apart > allowed):
        return f"the network and the float64 replay of its stored weights differ by {apart.max():.2g}"
    return None


def _forward(network: Network, x: Array, z: Array) -> Array:
    """The network's own forward in its dtype, (outputs,) float64."""
    feed = [torch.from_numpy(a)[None].to(network.device, network.dtype) for a in (x, z)]
    with torch.no_grad():
        return network(*feed)[0].double().cpu().numpy()


def _double(network: Network, x: Array, z: Array) -> Array:
    """The same module converted to float64."""
    twin = copy.copy(network)
    twin.module, twin.dtype = copy.deepcopy(network.module).double(), torch.float64
    return _forward(twin, x, z)
