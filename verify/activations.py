"""What the layers of a network hold: pre- and post-activations of any stack of linear layers and ReLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from constructions.mlp import SparseLinear
from verify.networks import stack_of, weights_of


@dataclass(frozen=True, eq=False)
class Layer:
    """One linear layer: its values ``pre`` (batch, width), and ``post``, after the ReLU where one follows."""

    pre: torch.Tensor
    post: torch.Tensor


@torch.no_grad()
def activations(net: nn.Module, rows: torch.Tensor) -> list[Layer]:
    """All layers of ``net`` on ``rows`` (batch, fan_in), in order; the last one is the output.

    In the network's dtype. Raises ValueError for a network that is more than linear layers and ReLU.
    """
    layers: list[Layer] = []
    for module, relu in require_stack(net):
        weight, bias = weights_of(module)
        values = layers[-1].post if layers else rows.to(weight.dtype)
        if isinstance(module, SparseLinear):
            pre = torch.addmm(bias.unsqueeze(1), weight, values.T).T
        else:
            pre = torch.addmm(bias, values, weight.T)
        layers.append(Layer(pre, torch.relu(pre) if relu else pre))
    return layers


def require_stack(net: nn.Module) -> list[tuple[nn.Module, bool]]:
    """The linear layers of ``net``, each with whether a ReLU follows; ValueError for any other network."""
    stack = stack_of(net)
    if stack is None:
        raise ValueError(f"network: {type(net).__name__} is not a stack of Linear and ReLU; its layers cannot be read")
    return stack
