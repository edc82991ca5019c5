"""A population of MLPs of one shape, with gradients by hand, in buffers that stay.

One network is a population of one, whose arrays have no leading dimension. All weights lie in one flat tensor, and
after them all biases, so that the optimiser is one call, and only the first part decays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import nn

from verify.training.layers import Layer, layers_of, network_of_layers
from verify.training.products import Products


class Population:
    """MLPs with ReLU on rows [shown, x]; sizes: shown + inputs, hidden widths, outputs. members 0: just one network.

    A step has ``tasks`` tasks with ``samples`` samples each. Layer l has ``weights[l]`` (.., fan_out, fan_in) and
    ``biases[l]`` (.., fan_out), views of ``flat``, of which the first ``decayed`` entries are weights.
    """

    def __init__(
        self, sizes: Sequence[int], members: int, tasks: int, samples: int, products: Products, device: torch.device
    ) -> None:
        self.sizes, self.products = tuple(sizes), products
        self.lead = (members,) if members else ()
        self.grid = (*self.lead, tasks, samples, -1)
        layers, zeros = len(sizes) - 1, partial(torch.zeros, dtype=torch.float32, device=device)
        shapes = [(*self.lead, b, a) for a, b in pairwise(sizes)] + [(*self.lead, b) for b in sizes[1:]]
        entries = [torch.Size(shape).numel() for shape in shapes]
        self.decayed = sum(entries[:layers])
        self.flat, self.gradient = (zeros(sum(entries)) for _ in range(2))
        own, slopes = (
            [part.view(shape) for part, shape in zip(flat.split(entries), shapes, strict=True)]
            for flat in (self.flat, self.gradient)
        )
        self.weights, self.biases = own[:layers], own[layers:]
        self.weight_gradients, self.bias_gradients = slopes[:layers], slopes[layers:]
        self.shared = zeros(*self.lead, tasks, sizes[1])
        self.values, self.slopes = ([zeros(*self.lead, tasks * samples, n) for n in sizes[1:]] for _ in range(2))

    @torch.no_grad()
    def step(self, shown: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Mean squared error of each member, (..,), and its gradient in ``gradient``.

        shown (.., tasks, width), x (.., tasks, samples, inputs), target (.., tasks, samples, outputs).
        """
        x, target = x.flatten(-3, -2), target.flatten(-3, -2)
        values = self._values(shown, x)
        gradient = torch.sub(values[-1], target, out=self.slopes[-1])
        entries = target.shape[-1] * target.shape[-2]
        loss = gradient.square().sum(dim=(-1, -2)) / entries
        gradient.mul_(2 / entries)
        for layer in range(len(self.weights) - 1, 0, -1):
            self.products.outer(gradient, values[layer - 1], self.weight_gradients[layer])
            torch.sum(gradient, dim=-2, out=self.bias_gradients[layer])
            gradient = self.products.backward(gradient, self.weights[layer], self.slopes[layer - 1])
            torch.ops.aten.threshold_backward.grad_input(gradient, values[layer - 1], 0.0, grad_input=gradient)
        self._first_gradient(gradient, shown, x)
        return loss

    def _values(self, shown: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        """The values of each layer. What all samples of a task share is calculated once a task."""
        first, width = self.weights[0], shown.shape[-1]
        shared = self.products.forward(shown, first[..., :width], self.biases[0], self.shared)
        values = [self.products.forward(x, first[..., width:], None, self.values[0])]
        values[0].view(self.grid).add_(shared.unsqueeze(-2))
        for weight, bias, out in zip(self.weights[1:], self.biases[1:], self.values[1:], strict=True):
            values.append(self.products.forward(values[-1].relu_(), weight, bias, out))
        return values

    def _first_gradient(self, gradient: torch.Tensor, shown: torch.Tensor, x: torch.Tensor) -> None:
        """The first layer's gradient, summed over the samples of a task wherever they share their input."""
        to, width = self.weight_gradients[0], shown.shape[-1]
        shared = torch.sum(gradient.view(self.grid), dim=-2, out=self.shared)
        self.products.outer(shared, shown, to[..., :width])
        self.products.outer(gradient, x, to[..., width:])
        torch.sum(shared, dim=-2, out=self.bias_gradients[0])

    @torch.no_grad()
    def load(self, networks: Sequence[nn.Module]) -> None:
        """Take over the weights of a network for each member, rounded to float32.

        Raises ValueError for what is no stack of Linear and ReLU between them, and where the shapes do not fit.
        """
        for member, network in enumerate(networks):
            layers = layers_of(network)
            shape = (layers[0][0].shape[1], *(len(bias) for _, bias in layers))
            if shape != self.sizes:
                raise ValueError(f"initial: a network of layers {shape}; these runs need {self.sizes}")
            for own, given in zip(self._layers(member), layers, strict=True):
                for to, values in zip(own, given, strict=True):
                    to.copy_(values)

    def networks(self) -> list[nn.Sequential]:
        """A copy of each member as an ordinary network of Linear and ReLU, on the CPU."""
        return [
            network_of_layers([(weight.cpu().clone(), bias.cpu().clone()) for weight, bias in self._layers(member)])
            for member in range(*self.lead or (1,))
        ]

    def _layers(self, member: int) -> list[Layer]:
        """Weight and bias of each layer of a member: views."""
        layers = zip(self.weights, self.biases, strict=True)
        return [(weight[member], bias[member]) if self.lead else (weight, bias) for weight, bias in layers]
