"""The a-priori rounding bound: storing the weights and evaluating the layers in a floating-point format.

For one neuron with n nonzero addends, evaluated in any order (theory of Higham 2002, chapters 3 and 4), with
unit roundoff u of the format, stored weights w' = w (1 + d), |d| <= u, and inputs that err by e:

    |computed - ideal| <= sum |w| e + ((n + 2) u + noise) (sum |w| |value| + |bias|) (1 + slack) + underflow.

A ReLU does not increase errors. What makes the bound useful for large M: addends that are exactly 0 cost no rounding,
and a neuron whose module is off IS exactly 0, in floating point too, as long as its ``margin`` below 0 exceeds what
rounding can do there (checked here, neuron by neuron). So errors, values and the number of addends are summed over
the modules that can be on together, not over all M.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from constructions.owners import collect, worst_sum
from constructions.scheduling import Layer
from theory.arithmetic import UNIT32, UNIT64, Array, as_float
from theory.circuit import Circuit
from theory.domains import Domain, Tasks

#: Above this many entries, errors by module are summed up to one number a neuron (sound, a little looser).
DETAIL = 4_000_000

#: Of the two formats: what one underflow can lose, the smallest normal number, and nearly the largest.
TINY = {UNIT32: 2.0**-149, UNIT64: 2.0**-1074}
NORMAL = {UNIT32: 2.0**-126, UNIT64: 2.0**-1022}
HUGE = {UNIT32: 2.0**126, UNIT64: 2.0**1022}


def rounding_bound(circuit: Circuit, layers: list[Layer], unit: float) -> Array:
    """Bound of |network in floating point - network in real arithmetic| for each output, (outputs,).

    unit: 2^-24 (float32) or 2^-53 (float64). Inputs are taken as fed, except that a grid level which the format
    does not hold counts as an input error. inf where a weight or a sum could overflow: then nothing is bounded.
    """
    z, x = circuit.z.of, circuit.x.of
    size = np.concatenate([np.maximum(np.abs(d.lower), np.abs(d.upper)) for d in (z, x)])
    owner = np.concatenate([np.arange(z.size) if z.switches else np.full(z.size, -1), np.full(x.size, -1)])
    inexact = z.representation_error(unit) if isinstance(z, Tasks) else 0.0
    fed = np.concatenate([np.full(z.size, inexact), np.zeros(x.size)])
    column = np.where(owner >= 0, owner, z.size)
    errors = sp.csr_matrix((fed, (np.arange(len(fed)), column)), shape=(len(fed), z.size + 1))
    for layer in layers:
        errors = _layer_error(layer, errors, size, owner, z, unit)
        size, owner = layer.upper, layer.owner
    return worst_sum(errors, z) * (1 + 2.0**-20)


def _layer_error(
    layer: Layer, errors: sp.csr_matrix, size: Array, owner: Array, z: Domain, unit: float
) -> sp.csr_matrix:  # fmt: skip
    """Errors of a layer's outputs, a column per module, the last one for what is always there."""
    absolute = layer.weight.absolute().T.tocsr()  # (neurons, fan-in)
    bias = np.abs(as_float(layer.bias))
    inherited = (absolute @ errors).tocsr()
    values = (collect(absolute @ sp.diags_array(size), owner, z.size) + inherited).tocsr()
    present = absolute.copy()
    present.data = np.ones_like(present.data)
    addends = worst_sum(collect(present, owner, z.size), z) + (bias > 0)
    lost = TINY[unit] * worst_sum(collect(_subnormal(absolute, unit) @ sp.diags_array(size), owner, z.size), z)
    most = np.maximum(worst_sum(values, z) + bias, absolute.max(axis=1).toarray().ravel() if absolute.nnz else 0.0)
    copied = _copies(layer)
    rate = np.where(copied, 0.0, (addends + 2) * unit * (1 + 2.0**-10))
    always = rate * bias + layer.noise * 2 + np.where(copied, 0.0, addends * TINY[unit]) + lost
    always = np.where(most < HUGE[unit], always, np.inf)
    fixed = sp.csr_matrix((always, (np.arange(len(bias)), np.full(len(bias), z.size))), shape=values.shape)
    total = (inherited + sp.diags_array(rate) @ values + fixed).tocsr()
    return _by_owner(layer, total, values, z)


def _by_owner(layer: Layer, total: sp.csr_matrix, values: sp.csr_matrix, z: Domain) -> sp.csr_matrix:
    """Move a neuron's error to the module that owns it, where that module's being off makes it exactly 0 in floats.

    With the owner off only the other addends are left. They must not reach the margin; if there are none, the
    pre-activation is the stored bias, and that is at most 0.
    """
    own = np.maximum(layer.owner, 0)
    alone = (_without(values, own, z) == 0) & (as_float(layer.bias) <= 0)
    switched = (layer.owner >= 0) & (alone | (_without(total, own, z) < layer.margin))
    worst = worst_sum(total, z)
    rows, shape = np.arange(len(worst)), total.shape
    column = np.where(switched, layer.owner, z.size)
    kept = (sp.diags_array((~switched).astype(float)) @ total).tocsr()
    if kept.nnz > DETAIL:
        kept, moved = sp.csr_matrix(shape), worst
    else:
        moved = np.where(switched, worst, 0.0)
    result = (kept + sp.csr_matrix((moved, (rows, column)), shape=shape)).tocsr()
    result.eliminate_zeros()
    return result


def _without(matrix: sp.csr_matrix, column: Array, z: Domain) -> Array:
    """Largest sum of each row that can occur when the row's own column is off."""
    coo = matrix.tocoo()
    keep = coo.col != column[coo.row]
    return worst_sum(sp.csr_matrix((coo.data[keep], (coo.row[keep], coo.col[keep])), shape=matrix.shape), z)


def _subnormal(absolute: sp.csr_matrix, unit: float) -> sp.csr_matrix:
    """1 where a stored weight is below the normal numbers: it may err by TINY instead of relatively."""
    ones = absolute.copy()
    ones.data = ((absolute.data > 0) & (absolute.data < NORMAL[unit])).astype(float)
    ones.eliminate_zeros()
    return ones


def _copies(layer: Layer) -> Array:
    """Neurons that read one value times a power of two and no bias: they copy it without any rounding."""
    width = layer.weight.shape[1]
    single = np.bincount(layer.weight.col, minlength=width) == 1
    power = np.zeros(width, dtype=bool)
    power[layer.weight.col] = np.frexp(np.abs(as_float(layer.weight.val)))[0] == 0.5
    return single & power & (as_float(layer.bias) == 0)
