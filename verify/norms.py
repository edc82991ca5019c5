"""Sizes of a network: weight norms, how steep it is, and how much float32 blurs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from constructions.mlp import SparseLinear
from verify.activations import require_stack
from verify.networks import weights_of

#: Spectral norms are computed up to this many entries; above, sqrt(|W|_1 |W|_inf), which is never below.
SPECTRAL = 2**22
#: Slack for the rounding of the singular values in float64.
ROUNDING = 1e-9
#: Points at which gradients are taken, at most, and entries of the arrays that this takes.
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
    pairs = [tuple(t.double().cpu() for t in weights_of(module)) for module, _ in stack]
    dense = [w.to_dense() if w.layout == torch.sparse_csr else w for w, _ in pairs]
    above = float(np.prod([operator_norm(w) for w in dense[1:]]))
    steep_z, steep_x = _steepest(stack, dense, [b for _, b in pairs], rows.double().cpu()[:POINTS], split)
    noise = (_forward(stack, rows.cpu(), torch.float32).double() - _forward(stack, rows.cpu(), torch.float64)).abs()
    return Norms(
        frobenius=tuple(float(w.norm()) for w in dense),
        max_weight=max(float(t.abs().max()) for t in [*dense, *(b for _, b in pairs)]),
        lipschitz_x=above * operator_norm(dense[0][:, split:]),
        lipschitz_z=above * operator_norm(dense[0][:, :split]),
        steepest_x=steep_x,
        steepest_z=steep_z,
        noise_rms=float(noise.square().mean().sqrt()),
        noise_largest=float(noise.max()),
    )


def operator_norm(weight: torch.Tensor) -> float:
    """An upper bound of the spectral norm of a float64 matrix: that norm itself, up to rounding, where it is small."""
    if 0 in weight.shape:
        return 0.0
    if weight.numel() <= SPECTRAL:
        return float(torch.linalg.matrix_norm(weight, 2)) * (1 + ROUNDING * max(weight.shape))
    size = weight.abs()
    return float((size.sum(dim=0).max() * size.sum(dim=1).max()).sqrt()) * (1 + ROUNDING * max(weight.shape))


def _steepest(
    stack: list[tuple[nn.Module, bool]],
    weights: list[torch.Tensor],
    biases: list[torch.Tensor],
    rows: torch.Tensor,
    split: int,
) -> tuple[float | None, float | None]:
    """Largest spectral norm of the Jacobian by z and by x, over the rows."""
    outputs, widest = weights[-1].shape[0], max(max(w.shape) for w in weights)
    if outputs * widest > ENTRIES:
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
