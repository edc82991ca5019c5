"""Which module a neuron serves: what ablating it does to tasks with and without each module.

Ablating neuron n sets it to 0, its value when it is off, and changes the outputs by e_n(x, z). Let q_nm be the share of
the sum of |e_n|^2, over tasks with equally many active modules, that falls on tasks with module m, and p the share of
tasks that have m. The neuron's specialisation is

    (q_nm - p) / (1 - p) for the module m with the largest q_nm, cut to [0, 1]:

1 if ablation changes tasks with m alone (a gate of the exact construction is 0 when its module is off), 0 if it changes
all tasks alike; a neuron that serves two modules alike has about 1/2. The module is chosen on one half of the tasks and
the share measured on the other, so that chance scores 0 on average. A layer's score weights its neurons by the sum of
|e_n|^2. Nothing depends on the order of the neurons, on positive scales moved from a neuron's inputs to its outputs, or
on the scale of the outputs. Random networks have preferences too: compare with an untrained one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from constructions.mlp import SparseLinear
from theory.arithmetic import Array
from theory.domains import Tasks
from theory.encodings import Encoding
from theory.families.family import Family
from theory.supports import Supports
from verify.activations import activations, require_stack
from verify.networks import weights_of

#: Tasks and samples of each unless told otherwise; floating-point operations and bytes that one layer may take.
TASKS, SAMPLES, OPERATIONS, MEMORY = 512, 4, 2e11, 2**27


@dataclass(frozen=True, eq=False)
class LayerModularity:
    """A hidden layer. with_module, without_module (neurons, M): root mean square of the change of the outputs, over
    tasks with and without the module, when the neuron is ablated. module, score, weight (neurons,): the module that
    each neuron serves most, how exclusively, and its share of the layer's effect. dead: neurons without any effect.
    """

    layer: int
    with_module: Array
    without_module: Array
    module: Array
    score: Array
    weight: Array
    tasks: int

    @property
    def mean(self) -> float | None:
        """The layer's score, in [0, 1]; None where no neuron has an effect."""
        return min(1.0, float(self.weight @ self.score)) if self.weight.any() else None

    @property
    def dead(self) -> int:
        """Neurons whose ablation changed nothing."""
        return int((self.weight == 0).sum())

    @property
    def modules(self) -> int:
        """How many modules have a neuron that serves them with a score above 1/2."""
        return len(np.unique(self.module[(self.score > 0.5) & (self.weight > 0)]))

    def as_dict(self) -> dict[str, Any]:
        """Plain types for a table."""
        return {"layer": self.layer, "score": self.mean, "neurons": len(self.score), "dead": self.dead} | {
            "modules_served": self.modules,
            "tasks": self.tasks,
        }


def modularity(
    net: nn.Module,
    family: Family,
    encoding: Encoding | None = None,
    *,
    tasks: int = TASKS,
    samples: int = SAMPLES,
    seed: int = 0,
) -> list[LayerModularity]:
    """Every hidden layer of ``net`` (on rows [encoding, x]), measured on random tasks with all K modules active.

    Fewer tasks are used where a layer would take more than OPERATIONS (``LayerModularity.tasks`` says how many).
    Raises ValueError for K = M, where no task is without a module, and networks that are more than linear layers and
    ReLU.
    """
    domain = family.z_domain
    if not isinstance(domain, Tasks) or domain.active == domain.modules:
        raise ValueError("modularity: needs tasks without some of the modules, that is active < modules")
    stack = require_stack(net)
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    z = domain.weights(_full(domain, tasks, generator), generator)
    x = family.x_domain.sample(tasks * samples, generator).reshape(tasks, samples, -1)
    z_t, x_t = (torch.from_numpy(a.astype(np.float32)) for a in (z, x))
    shown = z_t if encoding is None else encoding(z_t, generator)
    rows = torch.cat([shown.unsqueeze(1).expand(-1, samples, -1), x_t], dim=-1).reshape(tasks * samples, -1)
    layers = activations(net, rows)
    weights = [weights_of(module)[0] for module, _ in stack]
    found = []
    for layer in range(len(layers) - 1):
        cost = sum(2.0 * w.shape[0] * w.shape[1] for w in weights[layer + 2 :]) + 2.0 * weights[layer + 1].shape[0]
        neurons = layers[layer].post.shape[1]
        most = max(64, int(OPERATIONS / (cost * neurons * samples)))
        some = min(tasks, most)
        effect = _effects(layers[layer].post[: some * samples], layers[layer + 1].pre[: some * samples], stack, layer)
        found.append(_layer(layer, effect.reshape(neurons, some, samples).mean(axis=2), z[:some] != 0))
    return found


def _full(domain: Tasks, n: int, generator: np.random.Generator) -> Array:
    """n random supports of exactly K modules."""
    supports = Supports(domain.modules, domain.active)
    first = supports.count - _size(domain)
    return supports.unrank(first + generator.integers(_size(domain), size=n))


def _size(domain: Tasks) -> int:
    smaller = Supports(domain.modules, domain.active - 1).count if domain.active > 1 else 0
    return Supports(domain.modules, domain.active).count - smaller


@torch.no_grad()
def _effects(values: torch.Tensor, above: torch.Tensor, stack: list[tuple[nn.Module, bool]], layer: int) -> Array:
    """|change of the outputs|^2 (neurons, points) when each neuron of a layer is set to 0.

    values (points, neurons): the layer; above (points, width): the pre-activations of the next one.
    """
    upper = [(module, *weights_of(module), relu) for module, relu in stack[layer + 1 :]]
    _, first, _, first_relu = upper[0]
    outgoing = (first.to_dense() if first.layout == torch.sparse_csr else first).T  # (neurons, width above)
    if len(upper) == 1:  # the outputs are linear in the layer
        return (values.T.square() * outgoing.square().sum(dim=1, keepdim=True)).double().numpy()
    points, neurons = values.shape
    untouched = _rest(above, first_relu, upper[1:])
    widest = max(weight.shape[0] for _, weight, _, _ in upper)
    step = max(1, MEMORY // (above.element_size() * points * widest))
    found = np.empty((neurons, points))
    for start in range(0, neurons, step):
        here = slice(start, min(start + step, neurons))
        changed = above.unsqueeze(0) - values.T[here].unsqueeze(2) * outgoing[here].unsqueeze(1)
        change = _rest(changed.reshape(-1, above.shape[1]), first_relu, upper[1:]).reshape(
            -1, points, untouched.shape[1]
        )
        found[here] = (change - untouched).square().sum(dim=2).double().numpy()
    return found


def _rest(
    values: torch.Tensor, relu: bool, upper: list[tuple[nn.Module, torch.Tensor, torch.Tensor, bool]]
) -> torch.Tensor:
    """The outputs from the pre-activations of a layer."""
    for module, weight, bias, next_relu in upper:
        values = torch.relu(values) if relu else values
        if isinstance(module, SparseLinear):
            values = torch.addmm(bias.unsqueeze(1), weight, values.T).T
        else:
            values = torch.addmm(bias, values, weight.T)
        relu = next_relu
    return torch.relu(values) if relu else values


def _layer(layer: int, effect: Array, on: Array) -> LayerModularity:
    """From the squared effects (neurons, tasks) and which modules are on (tasks, M)."""
    # What rounding alone does is no effect: 1e-10 of the layer's largest in squares is 1e-5 in size.
    effect = np.where(effect.max(axis=1, keepdims=True) > 1e-10 * effect.max(initial=0.0), effect, 0.0)
    half, total = len(on) // 2, effect.sum(axis=1)
    module = _shares(effect[:, :half], on[:half]).argmax(axis=1)
    neurons = np.arange(len(effect))
    share, chance = _shares(effect[:, half:], on[half:])[neurons, module], on[half:].mean(axis=0)[module]
    score = np.clip((share - chance) / np.maximum(1 - chance, 1e-12), 0, 1)
    counts = on.sum(axis=0)
    with_module = np.sqrt(effect @ on / np.maximum(counts, 1))
    without = np.sqrt(effect @ ~on / np.maximum(len(on) - counts, 1))
    weight = total / total.sum() if total.any() else total
    return LayerModularity(layer, with_module, without, module, np.where(total > 0, score, 0.0), weight, len(on))


def _shares(effect: Array, on: Array) -> Array:
    """q (neurons, M): the share of each neuron's effect that falls on tasks with each module."""
    total = effect.sum(axis=1, keepdims=True)
    return effect @ on / np.where(total > 0, total, 1.0)
