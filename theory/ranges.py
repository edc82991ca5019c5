"""The domain of every node of a circuit: float64 bounds, rounded outwards, sharper than intervals where z allows.

The range of sum_m z_m a_mh(x) is taken over the modules that can act together, and only the half of each
product that can be negative counts for the lower bound, the other half for the upper one.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from theory.arithmetic import Array, as_float, down, representable, up
from theory.circuit import Affine, Assume, Bilinear, Input, Maximum, Node, ReLU, selection
from theory.domains import Box, Domain


def domain_of(node: Node) -> Domain:
    """Sound domain of one node, from those of its parents."""
    match node:
        case Input():
            return node.of
        case Assume():
            return node.known
        case ReLU():
            inside = node.of.domain
            return Box(np.maximum(inside.lower, 0), np.maximum(inside.upper, 0))
        case Maximum():
            a, b = node.left.domain, node.right.domain
            return Box(np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper))
        case Affine():
            return _affine(node)
        case Bilinear():
            low, high = bilinear_range(node.tensor, node.u, node.v)
            return Box(low, high)
    raise TypeError(f"no domain for {type(node).__name__}")


def module_ranges(tensor: Array, v: Domain) -> tuple[Array, Array]:
    """Bounds of a_mh(v) = sum_i v_i tensor[m, i, h] over v; two arrays (modules, width)."""
    modules, fan_in, width = tensor.shape
    flat = as_float(tensor).transpose(1, 0, 2).reshape(fan_in, modules * width)
    low, high = linear_range(flat, v)
    return low.reshape(modules, width), high.reshape(modules, width)


def bilinear_range(tensor: Array, u: Node, v: Node) -> tuple[Array, Array]:
    """Bounds of a Bilinear's value, two arrays (width,)."""
    low, high = module_ranges(tensor, v.domain)
    exact = selection(u)
    if exact is not None and exact[0].domain.switches:
        root, indices = exact
        domain = root.domain
        ends = (-low * domain.upper[indices, None], high * domain.upper[indices, None])
        worst = [domain.worst(_spread(domain, indices, _above(np.maximum(side, 0)))) for side in ends]
        return -worst[0], worst[1]
    a, b = u.domain.lower[:, None], u.domain.upper[:, None]
    products = np.stack([a * low, a * high, b * low, b * high])
    least, most = products.min(axis=0), products.max(axis=0)
    size = np.abs(products).max(axis=0).sum(axis=0)
    return down(least.sum(axis=0), len(a) + 1, size), up(most.sum(axis=0), len(a) + 1, size)


def linear_range(matrix: Array, domain: Domain) -> tuple[Array, Array]:
    """``domain.linear_range`` of a dense matrix; boxes skip the sparse detour."""
    if not isinstance(domain, Box):
        return domain.linear_range(matrix)
    positive, negative = np.maximum(matrix, 0), np.minimum(matrix, 0)
    low = domain.lower @ positive + domain.upper @ negative
    high = domain.upper @ positive + domain.lower @ negative
    size = np.maximum(np.abs(domain.lower), np.abs(domain.upper)) @ np.abs(matrix)
    n = 2 * len(domain.lower) + 2
    return down(low, n, size), up(high, n, size)


def _affine(node: Affine) -> Domain:
    picked = selection(node)
    if picked is not None:
        root, indices = picked
        if len(indices) == root.width and np.all(indices == np.arange(root.width)):
            return root.domain
        return Box(root.domain.lower[indices], root.domain.upper[indices])
    low = high = as_float(node.bias)
    size = np.abs(low)
    extra = 0 if representable(node.bias) else 1
    for parent, matrix in node.terms:
        least, most = linear_range(as_float(matrix), parent.domain)
        extra += 0 if representable(matrix) else 1
        low, high = low + least, high + most
        size = size + np.maximum(np.abs(least), np.abs(most))
    n = len(node.terms) + 1 + extra
    return Box(down(low, n, size), up(high, n, size))


def _above(values: Array) -> Array:
    """One rounding upwards, of all but zeros: what is identically 0 stays so."""
    return np.where(values == 0, values, np.nextafter(values, np.inf))


def _spread(domain: Domain, indices: Array, values: Array) -> sp.csr_matrix:
    """values (len(indices), width) as a sparse (width, domain.size) matrix."""
    placed = sp.coo_matrix(values)
    return sp.csr_matrix((placed.data, (placed.col, indices[placed.row])), shape=(values.shape[1], domain.size))
