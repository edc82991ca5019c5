"""A population of MLPs of one shape, with gradients by hand: nothing is allocated while it trains.

One network is a population of one, whose arrays have no leading dimension. All weights lie in one tensor and all
biases in another, so that the optimiser is two calls, and only the first decays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from verify.training.products import Products


class Population:
    """MLPs with ReLU on rows (.., batch, sizes[0]); sizes: fan_in, hidden widths, outputs. members 0: just one network.

    Layer l has ``weights[l]`` (.., fan_out, fan_in) and ``biases[l]`` (.., fan_out), views of ``flat``.
    """

    def __init__(
        self, sizes: Sequence[int], members: int, batch: int, products: Products, device: torch.device
    ) -> None:
        self.sizes, self.products = tuple(sizes), products
        lead = (members,) if members else ()
        shapes = [(*lead, b, a) for a, b in pairwise(sizes)]
        self.flat = [_zeros(sum(map(_numel, kind)), device) for kind in (shapes, [s[:-1] for s in shapes])]
        self.gradient = [torch.zeros_like(flat) for flat in self.flat]
        (self.weights, self.weight_gradients), (self.biases, self.bias_gradients) = (
            [_views(tensor, kind) for tensor in (flat, gradient)]
            for flat, gradient, kind in zip(self.flat, self.gradient, (shapes, [s[:-1] for s in shapes]), strict=True)
        )
        self.values = [_zeros((*lead, batch, n), device) for n in sizes[1:]]
        self.slopes = [_zeros((*lead, batch, n), device) for n in sizes[1:]]

    @torch.no_grad()
    def step(self, rows: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean squared error of each member, (..,), and its gradient in ``gradient``. rows (.., batch, fan_in)."""
        values = [rows]
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = self.products.forward(values[-1], weight, bias, self.values[layer])
            values.append(out.relu_() if layer < last else out)
        gradient = torch.sub(values[-1], target, out=self.slopes[last])
        entries = target.shape[-1] * target.shape[-2]
        loss = gradient.square().sum(dim=(-1, -2)) / entries
        gradient.mul_(2 / entries)
        for layer in range(last, -1, -1):
            self.products.outer(gradient, values[layer], self.weight_gradients[layer])
            torch.sum(gradient, dim=-2, out=self.bias_gradients[layer])
            if layer:
                gradient = self.products.backward(gradient, self.weights[layer], self.slopes[layer - 1])
                torch.ops.aten.threshold_backward.grad_input(gradient, values[layer], 0.0, grad_input=gradient)
        return loss

    @torch.no_grad()
    def load(self, networks: Sequence[nn.Sequential]) -> None:
        """Take over the weights of a network for each member. Raises ValueError where the shapes do not fit."""
        for member, network in enumerate(networks):
            linears = [module for module in network if isinstance(module, nn.Linear)]
            shape = (*(linear.in_features for linear in linears), linears[-1].out_features)
            if shape != self.sizes:
                raise ValueError(f"initial: a network of layers {shape}; these runs need {self.sizes}")
            for layer, linear in enumerate(linears):
                for own, given in ((self.weights, linear.weight), (self.biases, linear.bias)):
                    (own[layer][member] if self.weights[0].dim() == 3 else own[layer]).copy_(given)

    def networks(self) -> list[nn.Sequential]:
        """A copy of each member as an ordinary network of Linear and ReLU, on the CPU."""
        many = self.weights[0].dim() == 3
        return [self._network(member if many else None) for member in range(len(self.weights[0]) if many else 1)]

    def _network(self, member: int | None) -> nn.Sequential:
        modules: list[nn.Module] = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            own = [(t if member is None else t[member]).detach().cpu().clone() for t in (weight, bias)]
            linear = nn.Linear(own[0].shape[1], own[0].shape[0], device="meta")
            linear.weight, linear.bias = (nn.Parameter(t) for t in own)
            modules += [linear, nn.ReLU()]
        return nn.Sequential(*modules[:-1])


def mlp(sizes: Sequence[int], seed: int) -> nn.Sequential:
    """An untrained MLP: LeCun's normal weights cut at two standard deviations (variance 1/fan_in), biases 0.

    The initialisation of the paper's code. Float32, on the CPU; a random stream for each layer.
    """
    modules: list[nn.Module] = []
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        generator = torch.Generator().manual_seed((seed * 1000003 + layer) % 2**63)
        linear = nn.Linear(fan_in, fan_out, device="meta")
        width = (1 / fan_in) ** 0.5 / 0.87962566103423978  # the standard deviation of a normal cut at 2 is .8796
        weight = nn.init.trunc_normal_(torch.empty(fan_out, fan_in), 0, width, -2 * width, 2 * width, generator)
        linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(fan_out))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def _zeros(shape: int | Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float32, device=device)


def _numel(shape: Sequence[int]) -> int:
    return int(torch.Size(shape).numel())


def _views(flat: torch.Tensor, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    parts = flat.split([_numel(shape) for shape in shapes])
    return [part.view(*shape) for part, shape in zip(parts, shapes, strict=True)]
