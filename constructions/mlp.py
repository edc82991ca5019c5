"""ConstructedMLP: the built network, an ordinary module that is nothing but Linear layers and ReLU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from constructions.rounding import rounding_bound
from constructions.scheduling import Layer
from theory.arithmetic import UNIT32, UNIT64, Array, as_float
from theory.circuit import Circuit

#: A layer is stored dense up to this many weights, or when at least a quarter of them are not zero.
DENSE_WEIGHTS = 2**22
DENSE_SHARE = 0.25
#: as_sequential materialises every layer densely; refused above this many weights (1 GiB in float64).
SEQUENTIAL_WEIGHTS = 2**27

UNITS = {torch.float32: UNIT32, torch.float64: UNIT64}


@dataclass(frozen=True)
class Size:
    """parameters: entries of all weight matrices and biases as dense layers. nonzeros: those that are not 0."""

    parameters: int
    nonzeros: int


class SparseLinear(nn.Module):
    """nn.Linear with its weight (fan_out, fan_in) in compressed rows: for layers that are almost empty."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.weight: torch.Tensor
        self.register_buffer("weight", weight)
        self.bias = nn.Parameter(bias, requires_grad=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """(batch, fan_in) -> (batch, fan_out)."""
        return torch.addmm(self.bias.unsqueeze(1), self.weight, values.T).T


class ConstructedMLP(nn.Module):
    """A ReLU network on the row [z, x], z raw, built and not trained.

    forward(x, z): x (.., inputs), z (.., modules) in the network's dtype, the leading dimensions broadcast ->
    (.., outputs); z may also be (tasks, modules) beside x (tasks, samples, inputs). The weights are those of the
    exact construction, rounded once.
    """

    def __init__(
        self, circuit: Circuit, layers: list[Layer], method: str, route: str, formula: str, formula_neurons: int | None,
        guaranteed: Array, eps: float | None, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__()
        if dtype not in UNITS:
            raise ValueError(f"dtype: {dtype} is not supported; use torch.float32 or torch.float64")
        self.circuit, self.layers, self.eps = circuit, layers, eps
        self.method, self.route, self.formula, self.formula_neurons = method, route, formula, formula_neurons
        self.errors = guaranteed
        self._rounding: dict[torch.dtype, float] = {}
        self.linear = nn.ModuleList(_linear(layer, dtype) for layer in layers)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """The network's outputs; raises ValueError for widths that do not fit."""
        if x.shape[-1] != self.circuit.x.width or z.shape[-1] != self.circuit.z.width:
            wanted = (self.circuit.x.width, self.circuit.z.width)
            raise ValueError(f"x {tuple(x.shape)}, z {tuple(z.shape)}: need last dimensions {wanted}")
        if x.dtype != self.dtype or z.dtype != self.dtype:
            raise ValueError(
                f"x is {x.dtype}, z is {z.dtype}, the network {self.dtype}: use x.to(net.dtype), z.to(net.dtype)"
            )
        if x.dim() == z.dim() + 1:
            z = z.unsqueeze(-2)
        lead = np.broadcast_shapes(x.shape[:-1], z.shape[:-1])  # torch's imports sympy
        row = torch.cat([z.expand(*lead, -1), x.expand(*lead, -1)], dim=-1)
        return self.on_rows(row.reshape(-1, row.shape[-1])).reshape(*lead, -1)

    def on_rows(self, values: torch.Tensor) -> torch.Tensor:
        """The network on rows [z, x]: (batch, modules + inputs) -> (batch, outputs)."""
        for linear in self.linear[:-1]:
            values = torch.relu(linear(values))
        result: torch.Tensor = self.linear[-1](values)
        return result

    @property
    def exact(self) -> bool:
        """Whether ``layers`` holds the exact construction in Fractions (small networks) or its float64 rounding."""
        return self.layers[-1].weight.exact

    @property
    def neurons(self) -> int:
        """Number of ReLU units."""
        return sum(layer.weight.shape[1] for layer in self.layers[:-1])

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self.layers) - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of each hidden layer."""
        return tuple(layer.weight.shape[1] for layer in self.layers[:-1])

    @cached_property
    def size(self) -> Size:
        """Parameters and nonzeros, biases included."""
        parameters = sum((layer.weight.shape[0] + 1) * layer.weight.shape[1] for layer in self.layers)
        nonzeros = sum(layer.weight.nnz + int((layer.bias != 0).sum()) for layer in self.layers)
        return Size(parameters, nonzeros)

    @cached_property
    def max_weight(self) -> float:
        """Largest absolute value of a weight or bias."""
        return max(
            float(np.abs(as_float(a)).max(initial=0.0)) for layer in self.layers for a in (layer.weight.val, layer.bias)
        )

    @property
    def guaranteed_error(self) -> float:
        """The theorem's bound for this network in real arithmetic: largest error of any output (0: exact)."""
        return float(self.errors.max(initial=0.0))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the stored weights."""
        bias = self.linear[0].bias
        assert isinstance(bias, torch.Tensor)
        return bias.dtype

    @property
    def rounding_error(self) -> float:
        """A-priori bound for storing the weights and evaluating in the network's dtype (constructions.rounding).

        inf where something may overflow in that dtype.
        """
        return self.rounding_in(self.dtype)

    def rounding_in(self, dtype: torch.dtype) -> float:
        """The rounding bound for another dtype: as if the exact construction were stored and evaluated in it."""
        if dtype not in self._rounding:
            bound = rounding_bound(self.circuit, self.layers, UNITS[dtype])
            self._rounding[dtype] = float(bound.max(initial=0.0))
        return self._rounding[dtype]

    @property
    def faithful(self) -> bool:
        """Whether the stored weights still are those of the construction, rounded once: what the bounds speak of."""
        rebuilt = (_linear(layer, self.dtype) for layer in self.layers)
        return all(_same(a, b) for a, b in zip(self.linear, rebuilt, strict=True))

    @cached_property
    def labels(self) -> dict[str, Array]:
        """What each neuron is, a column a fact, each (neurons,): layer (from 1), gadget, module, unit (-1: none)."""
        hidden = [layer.labels for layer in self.layers[:-1]]
        columns: dict[str, list[Array]] = {"layer": [], "gadget": [], "module": [], "unit": []}
        for number, labels in enumerate(hidden, start=1):
            assert labels is not None
            columns["layer"].append(np.full(len(labels.module), number))
            columns["gadget"].append(labels.gadget)
            columns["module"].append(labels.module)
            columns["unit"].append(labels.unit)
        return {name: np.concatenate(parts) if parts else np.zeros(0, dtype=int) for name, parts in columns.items()}

    def as_sequential(self) -> nn.Sequential:
        """The same network as an ordinary nn.Sequential of nn.Linear and nn.ReLU on the row [z, x].

        Raises ValueError above SEQUENTIAL_WEIGHTS weights, where the dense layers would not fit.
        """
        if self.size.parameters > SEQUENTIAL_WEIGHTS:
            raise ValueError(
                f"as_sequential: {self.size.parameters:,} dense weights; refused above {SEQUENTIAL_WEIGHTS:,}: "
                "use forward(x, z), whose layers are sparse"
            )
        modules: list[nn.Module] = []
        for linear in self.linear:  # what is stored, not what was constructed: weights may have been changed
            weight, bias = (torch.as_tensor(getattr(linear, name)).detach() for name in ("weight", "bias"))
            weight = weight.to_dense() if weight.layout == torch.sparse_csr else weight.clone()
            modules += [_dense(weight, bias.clone()), nn.ReLU()]
        return nn.Sequential(*modules[:-1])

    def __repr__(self) -> str:
        ends = self.circuit.z.width + self.circuit.x.width, self.circuit.output.width
        shape = "-".join(str(n) for n in (ends[0], *self.widths, ends[1]))
        kind = str(self.dtype).removeprefix("torch.")
        lines = [
            f"ConstructedMLP({self.method}, route {self.route}, {shape})",
            f"  neurons     {self.neurons:,} = {self.formula}",
            f"  depth       {self.depth} hidden layers",
            f"  parameters  {self.size.parameters:,}, {self.size.nonzeros:,} not zero, largest {self.max_weight:.3g}",
            f"  guaranteed  {self.guaranteed_error:.3g}   rounding ({kind}) {self.rounding_error:.3g}",
        ]
        lines += [f"  trusted     {because}" for because in self.circuit.trusted]
        return "\n".join(lines)


@contextmanager
def without_beta_warning() -> Iterator[None]:
    """Without torch's remark, once a process, that compressed rows are in beta state."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        yield


def _linear(layer: Layer, dtype: torch.dtype) -> nn.Module:
    weights = layer.weight.shape[0] * layer.weight.shape[1]
    bias = torch.as_tensor(as_float(layer.bias), dtype=dtype)
    matrix = layer.weight.csr().T
    if weights <= DENSE_WEIGHTS or layer.weight.nnz >= DENSE_SHARE * weights:
        return _dense(
            torch.tensor(matrix.toarray(order="C"), dtype=dtype), bias
        )  # a copy in torch's own, aligned memory
    rows = matrix.tocsr()
    parts = (torch.as_tensor(rows.indptr), torch.as_tensor(rows.indices), torch.as_tensor(rows.data, dtype=dtype))
    with without_beta_warning():
        return SparseLinear(torch.sparse_csr_tensor(*parts, size=rows.shape, check_invariants=False), bias)


def _same(a: nn.Module, b: nn.Module) -> bool:
    """Whether two linear modules hold the same numbers in the same layout."""
    pairs = []
    for one, other in zip(a.state_dict().values(), b.state_dict().values(), strict=True):
        if one.layout == torch.sparse_csr:
            pairs += [(one.crow_indices(), other.crow_indices()), (one.col_indices(), other.col_indices())]
            one, other = one.values(), other.values()
        pairs.append((one, other))
    return all(torch.equal(one.cpu(), other) for one, other in pairs)


def _dense(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    linear.weight, linear.bias = nn.Parameter(weight, requires_grad=False), nn.Parameter(bias, requires_grad=False)
    return linear
