"""The memorising network: the circuit with z fixed to each support, selected by an indicator (claim C7).

    f(x, z) = sum over supports S of ReLU(a_S(x) + B (sum_S z - sum_notS z - |S|)) @ Omega

On S the bracket is 0. On any other support it is at most -1, so that with B >= max a_S the neuron is off; at z = 0
it is -|S|. It is exact for khot weights and one modulated layer, has ONE hidden layer and T H neurons:
the fair baseline, exponential in K. It is a rewrite of the circuit, which is then lowered like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from constructions.sparse import Sparse
from theory.arithmetic import Array, as_exact, as_float
from theory.circuit import Affine, Bilinear, Circuit, Node, ReLU, affine
from theory.domains import KHOT, Tasks
from theory.evaluators import interpret
from theory.ranges import linear_range

#: The memorising network is counted always, and built up to this many neurons.
LARGEST_BUILT = 20_000


def why_not(circuit: Circuit) -> str | None:
    """The reason why the memorising network does not exist for a circuit, or None."""
    domain = circuit.z.of
    if not isinstance(domain, Tasks) or domain.levels != KHOT:
        return "memorise: needs khot weights (it stores one function a support); use method exact, shallow or deep"
    if sum(isinstance(n, ReLU) for n in circuit.nodes) != 1 or _parts(circuit) is None:
        return "memorise: needs exactly one modulated layer between x and the readout; use method exact"
    return None


def _parts(circuit: Circuit) -> tuple[Affine, ReLU] | None:
    """(readout, the one hidden layer) if the circuit is readout(ReLU(something without a ReLU))."""
    last = circuit.output
    if not isinstance(last, Affine) or len(last.terms) != 1 or not isinstance(last.terms[0][0], ReLU):
        return None
    return last, last.terms[0][0]


def memorise(circuit: Circuit) -> Circuit:
    """The rewritten circuit. Raises ValueError with the reason where it does not apply or would be too large."""
    reason = why_not(circuit)
    if reason is not None:
        raise ValueError(reason)
    domain, parts = circuit.z.of, _parts(circuit)
    assert isinstance(domain, Tasks) and parts is not None
    readout, hidden = parts
    neurons = domain.supports.count * hidden.width
    if neurons > LARGEST_BUILT:
        raise ValueError(
            f"memorise: {neurons:,} neurons; built up to {LARGEST_BUILT:,} and only counted above: use method exact"
        )
    chunk = next(domain.supports.chunks(domain.supports.count))
    member = domain.supports.masks(chunk).astype(float)
    slope, offset = _affine_in_x(hidden.of, circuit, member)  # (T, inputs, H), (T, H)
    supports, inputs, width = slope.shape
    matrix = slope.transpose(1, 0, 2).reshape(inputs, supports * width)
    high = linear_range(as_float(matrix), circuit.x.of)[1].reshape(supports, width) + as_float(offset)
    reach = np.ceil(np.maximum(high, 0) * (1 + 2.0**-10) + 2.0**-10)
    selector = np.repeat(2 * member - 1, width, axis=0).T * reach.ravel()
    bias = offset.ravel() - as_exact(np.repeat(member.sum(axis=1), width)) * as_exact(reach.ravel())
    before = affine([(circuit.x, matrix), (circuit.z, selector)], bias)
    stacked = np.tile(readout.terms[0][1], (supports, 1))
    return Circuit(circuit.x, circuit.z, affine([(ReLU(before), stacked)], readout.bias))


@dataclass(frozen=True, eq=False)
class _Pencil:
    """Affine forms of x, one a support: slope (supports, inputs, width) or None, offset (supports, width)."""

    slope: Array | None
    offset: Array


class _AffineInX:
    """The algebra of pencils: what the circuit becomes before its one ReLU, when z is fixed."""

    def affine(self, node: Affine, values: list[_Pencil]) -> _Pencil:
        offset, slope = as_exact(node.bias)[None, :], None
        for value, (_, matrix) in zip(values, node.terms, strict=True):
            offset = offset + _product(value.offset, matrix)
            if value.slope is not None:
                part = _product(value.slope.reshape(-1, value.slope.shape[2]), matrix)
                part = part.reshape(*value.slope.shape[:2], node.width)
                slope = part if slope is None else slope + part
        return _Pencil(slope, offset)

    def bilinear(self, node: Bilinear, u: _Pencil, v: _Pencil) -> _Pencil:
        if u.slope is not None:
            raise ValueError("memorise: a product of two functions of x; use another method")
        mixed = _product(u.offset, node.tensor.reshape(node.u.width, -1)).reshape(-1, node.v.width, node.width)
        offset = (v.offset[:, :, None] * mixed).sum(axis=1)
        slope = None if v.slope is None else np.stack([s @ m for s, m in zip(v.slope, mixed, strict=True)])
        return _Pencil(slope, offset)

    def relu(self, value: _Pencil) -> _Pencil:
        raise ValueError("memorise: needs exactly one modulated layer; use method exact")

    def maximum(self, left: _Pencil, right: _Pencil) -> _Pencil:
        raise ValueError("memorise: a maximum is not affine in x; use method exact")


def _affine_in_x(node: Node, circuit: Circuit, member: Array) -> tuple[Array, Array]:
    """A node without ReLU as an affine form of x for each row of z: (supports, inputs, width) and (supports, width)."""
    supports, inputs = len(member), circuit.x.width
    eye = np.broadcast_to(as_exact(np.eye(inputs)), (supports, inputs, inputs))
    x = _Pencil(eye, as_exact(np.zeros((supports, inputs))))
    z = _Pencil(None, as_exact(member))
    value = interpret(Circuit(circuit.x, circuit.z, node), _AffineInX(), x, z)
    slope = as_exact(np.zeros((supports, inputs, node.width))) if value.slope is None else value.slope
    return slope, np.broadcast_to(value.offset, (supports, node.width))


def _product(left: Array, right: Array) -> Array:
    """Exact product of two arrays, skipping zeros."""
    return (Sparse.dense(as_exact(left)) @ Sparse.dense(as_exact(right))).toarray()
