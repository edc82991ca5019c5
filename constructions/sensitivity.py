"""Sensitivity: how far an error at a node can move each output. It decides where the error budget is spent.

Only the plan uses it, so a loose value costs neurons and never soundness: the guarantee is computed forwards.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from theory.arithmetic import Array, as_float
from theory.circuit import Affine, Assume, Bilinear, Circuit, Input, Maximum, Node, ReLU, selection


def sensitivities(circuit: Circuit, live: dict[int, Array]) -> dict[int, Array]:
    """id(node) -> (width, outputs): how far an error of 1 in each coordinate can move each output."""
    effect = {id(n): np.zeros((n.width, circuit.output.width)) for n in circuit.nodes if not isinstance(n, Input)}
    effect[id(circuit.output)] = np.eye(circuit.output.width)
    for node in reversed(circuit.nodes):
        here = effect.get(id(node))
        if here is None:
            continue
        for parent, rate in _rates(node, here, live[id(node)]):
            if id(parent) in effect:
                effect[id(parent)] = effect[id(parent)] + rate
    return effect


def _rates(node: Node, here: Array, live: Array) -> list[tuple[Node, Array]]:
    match node:
        case Affine():
            return [(parent, np.abs(as_float(matrix)) @ here) for parent, matrix in node.terms]
        case ReLU():
            return [(node.of, here * live[:, None])]
        case Assume():
            return [(node.of, here)]
        case Maximum():
            return [(node.left, here), (node.right, here)]
        case Bilinear():
            return [(p, _bilinear_rate(node, here, p)) for p in {node.u, node.v} if not _is_input(p)]
    return []


def _is_input(node: Node) -> bool:
    picked = selection(node)
    return picked is not None and isinstance(picked[0], Input)


def _bilinear_rate(node: Bilinear, here: Array, parent: Node) -> Array:
    """Sum over the other argument's coordinates of its size, the modules that can meet only."""
    tensor = np.abs(as_float(node.tensor))
    if parent is node.u:
        tensor = tensor.transpose(1, 0, 2)
    other = node.v if parent is node.u else node.u
    size = np.maximum(np.abs(other.domain.lower), np.abs(other.domain.upper))
    flat = np.einsum("mih,ho,m->iom", tensor, here, size).reshape(-1, len(size))
    picked = selection(other)
    if picked is not None and picked[0].domain.switches:
        spread = sp.csr_matrix(flat) @ sp.csr_matrix(
            (np.ones(len(picked[1])), (np.arange(len(picked[1])), picked[1])), shape=(len(size), picked[0].width)
        )
        return picked[0].domain.worst(spread.tocsr()).reshape(tensor.shape[1], -1)
    return flat.sum(axis=1).reshape(tensor.shape[1], -1) * (1 + 2.0**-40)
