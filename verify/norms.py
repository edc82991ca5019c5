"""Sizes of a network: weight norms, how steep it is, and how much float32 blurs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from constructions.mlp import SparseLinear
from verify.activations import require_stack
from verify.networks import weights_of

Matrix: TypeAlias = torch.Tensor | sp.csr_array

#: Spectral norms are computed up to this many entries; above, sqrt(|W|_1 |W|_inf), which is never below.
SPECTRAL = 2**22
#: Slack for the rounding of the singular values in float64.
ROUNDING = 1e-9
#: Points at which gradients are taken, at most; entries of the arrays that this takes, and of a matrix made dense.
POINTS, ENTRIES = 256, 2**25


@dataclass(frozen=True)
class Norms:
    """frobenius: of each weight matrix. max_weight: largest absolute weight or bias.

    lipschitz_x, lipschitz_z: upper bounds (guaranteed, of the stored weights in real arithmetic) of |change of the
    outputs| / |change of x| (of what is shown of z), Euclidean: products of operator norms. steepest_x, steepest_z: the
    largest such slope met at the points (measured), None where it would take too much memory. noise_rms, noise_largest:
    how far the float32 forward pass is from float64's with the same weights rounded to float32, at the points
    (measured).
    """

    frobenius: tuple[float, ...]
    max_weight: float
    lipschitz_x: float
    lipschitz_z: float
    steepest_x: float | None
    steepest_z: float | None
    noise_rms: float
    noise_largest: float

    def as_dict(self) -> dict[str, Any]:
        """Plain types for a table."""
        return asdict(self) | {"frobenius": list(self.frobenius)}


@torch.no_grad()
def norms(net: nn.Module, rows: torch.Tensor, split: int) -> Norms:
    """Norms of a stack of linear layers and ReLU; rows (points, fan_in), of which the first ``split`` entries show z.

    Raises ValueError for other networks.
    """
    stack = require_stack(net)
    pairs = [[t.detach().double().cpu() for t in weights_of(module)] for module, _ in stack]
    weights, biases = [_matrix(w) for w, _ in pairs], [b for _, b in pairs]
    above = float(np.prod([operator_norm(w) for w in weights[1:]]))
    steep_z, steep_x = _steepest(stack, weights, biases, rows.double().cpu()[:POINTS], split)
    noise = (_forward(stack, rows.cpu(), torch.float32).double() - _forward(stack, rows.cpu(), torch.float64)).abs()
    return Norms(
        frobenius=tuple(float(_values(w).norm()) for w in weights),
        max_weight=max(float(t.abs().max()) for t in [*map(_values, weights), *biases] if t.numel()),
        lipschitz_x=above * operator_norm(weights[0][:, split:]),
        lipschitz_z=above * operator_norm(weights[0][:, :split]),
        steepest_x=steep_x,
        steepest_z=steep_z,
        noise_rms=float(noise.square().mean().sqrt()),
        noise_largest=float(noise.max()),
    )


def operator_norm(weight: Matrix) -> float:
    """An upper bound of the spectral norm of a float64 matrix: that norm itself, up to rounding, where it is small."""
    if 0 in weight.shape:
        return 0.0
    slack = 1 + ROUNDING * max(weight.shape)
    if isinstance(weight, torch.Tensor) and weight.numel() <= SPECTRAL:
        return float(torch.linalg.matrix_norm(weight, 2)) * slack
    size = abs(weight)
    return float((size.sum(0).max() * size.sum(1).max()) ** 0.5) * slack


def _matrix(weight: torch.Tensor) -> Matrix:
    """Dense, or, where that would take too much memory, scipy's compressed rows."""
    if weight.layout != torch.sparse_csr:
        return weight
    if weight.numel() <= ENTRIES:
        return weight.to_dense()
    parts = (weight.values(), weight.col_indices(), weight.crow_indices())
    return sp.csr_array(tuple(part.numpy() for part in parts), shape=tuple(weight.shape))


def _values(weight: Matrix) -> torch.Tensor:
    return weight if isinstance(weight, torch.Tensor) else torch.from_numpy(weight.data)


def _steepest(
    stack: list[tuple[nn.Module, bool]],
    matrices: list[Matrix],
    biases: list[torch.Tensor],
    rows: torch.Tensor,
    split: int,
) -> tuple[float | None, float | None]:
    """Largest spectral norm of the Jacobian by z and by x, over the rows."""
    outputs, widest = matrices[-1].shape[0], max(max(w.shape) for w in matrices)
    weights = [w for w in matrices if isinstance(w, torch.Tensor)]
    if outputs * widest > ENTRIES or len(weights) < len(matrices):
        return None, None
    found = [0.0, 0.0]
    step = max(1, ENTRIES // (outputs * widest))
    for start in range(0, len(rows), step):
        values, on = rows[start : start + step], []
        for (_, relu), weight, bias in zip(stack, weights, biases, strict=True):
            values = torch.addmm(bias, values, weight.T)
            on.append((values > 0).double() if relu else torch.ones_like(values))
            values = values * on[-1]
        jacobian = torch.eye(outputs, dtype=torch.float64).expand(len(values), -1, -1)
        for weight, mask in zip(reversed(weights), reversed(on), strict=True):
            jacobian = (jacobian * mask.unsqueeze(1)) @ weight
        for i, part in enumerate((jacobian[..., :split], jacobian[..., split:])):
            if part.shape[-1]:
                found[i] = max(found[i], float(torch.linalg.matrix_norm(part, 2).max()))
    return found[0], found[1]


def _forward(stack: list[tuple[nn.Module, bool]], rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The network with its weights rounded to float32, evaluated in the dtype."""
    values = rows.float().to(dtype)
    for module, relu in stack:
        weight, bias = (t.cpu().float().to(dtype) for t in weights_of(module))
        if isinstance(module, SparseLinear):
            values = torch.addmm(bias.unsqueeze(1), weight, values.T).T
        else:
            values = torch.addmm(bias, values, weight.T)
        values = torch.relu(values) if relu else values
    return values
