"""Liveness of a circuit: which coordinates of each node reach the output. What does not is not counted."""

from __future__ import annotations

import numpy as np

from theory.arithmetic import Array
from theory.circuit import Affine, Assume, Bilinear, Circuit, Maximum, ReLU


def live_coordinates(circuit: Circuit) -> dict[int, Array]:
    """id(node) -> (width,) of bool."""
    live = {id(node): np.zeros(node.width, dtype=bool) for node in circuit.nodes}
    live[id(circuit.output)][:] = True
    for node in reversed(circuit.nodes):
        here = live[id(node)]
        match node:
            case Affine():
                for parent, matrix in node.terms:
                    live[id(parent)] |= (matrix[:, here] != 0).any(axis=1)
            case ReLU():
                live[id(node.of)] |= here & (node.of.domain.upper > 0)
            case Maximum():
                live[id(node.left)] |= here
                live[id(node.right)] |= here
            case Assume():
                live[id(node.of)] |= here
            case Bilinear():
                used = node.tensor[:, :, here] != 0
                live[id(node.u)] |= used.any(axis=(1, 2))
                live[id(node.v)] |= used.any(axis=(0, 2))
    return live
