"""Ordinary networks of Linear and ReLU: made from their arrays, taken apart into them, and untrained ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from verify.networks import stack_of
from verify.training.streams import Streams

#: Weight (fan_out, fan_in) and bias (fan_out,).
Layer = tuple[torch.Tensor, torch.Tensor]


def network_of_layers(layers: Sequence[Layer]) -> nn.Sequential:
    """Linear layers that hold these very tensors, with ReLU between."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
        linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def layers_of(network: nn.Module) -> list[Layer]:
    """The tensors of a network, detached. Raises ValueError for anything but Linear, with biases, and ReLU between."""
    stack = stack_of(network) or []
    linears = [module for module, _ in stack if isinstance(module, nn.Linear) and module.bias is not None]
    relus = [relu for _, relu in stack]
    if not stack or len(linears) < len(stack) or relus != [True] * (len(stack) - 1) + [False]:
        raise ValueError("network: need Linear layers with biases, ReLU between and none at the end, in a Sequential")
    return [(linear.weight.detach(), linear.bias.detach()) for linear in linears]


def mlp(sizes: Sequence[int], seed: int) -> nn.Sequential:
    """An untrained MLP: LeCun's normal weights cut at two standard deviations (variance 1/fan_in), biases 0.

    The initialisation of the paper's code. sizes: fan_in, hidden widths, outputs. Float32, on the CPU; a random stream
    for each layer.
    """
    streams, layers = Streams.of(seed), []
    for number, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        generator = torch.Generator().manual_seed(int(streams.generator("initialisation", number).integers(2**63)))
        width = fan_in**-0.5 / 0.87962566103423978  # a standard normal cut at 2 has standard deviation .8796
        weight = torch.empty(fan_out, fan_in, dtype=torch.float32)
        nn.init.trunc_normal_(weight, 0, width, -2 * width, 2 * width, generator)
        layers.append((weight, torch.zeros_like(weight[:, 0])))
    return network_of_layers(layers)
