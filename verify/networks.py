"""Networks as the search sees them: rows [z, x] in, outputs out, whoever made the network.

A stack of linear layers and ReLU, constructed or trained, runs through ``ChunkedForward``: preallocated outputs,
one matrix product a layer. Any other module is called as it is, and differentiated by torch.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import cast

import torch
from torch import nn

from constructions import ConstructedMLP
from constructions.mlp import SparseLinear, without_beta_warning
from theory.families.family import Family

#: Dense weights with at most this share of nonzeros are multiplied as compressed rows: then that is faster.
SPARSE_SHARE = 0.02
#: ... but only from this many weights on.
SPARSE_WEIGHTS = 2**18

#: A block of the widest layer should fit this many bytes, but has at least so many rows.
CACHE, LEAST_BLOCK = 2**23, 256

DEVICES = ("auto", "cpu", "cuda")

#: A linear module and whether a ReLU follows.
Stack = list[tuple[nn.Module, bool]]
#: From values (block, outputs) and the number of their first row to the gradient wanted at them, a new tensor.
Pick = Callable[[torch.Tensor, int], torch.Tensor]


def choose_device(name: str) -> torch.device:
    """ "auto" is cuda where there is one. Raises ValueError for an unknown device and for cuda where there is none."""
    if name not in DEVICES:
        raise ValueError(f"device: {name!r} is unknown; use one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: cuda was asked for and torch finds none here; use cpu or auto")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def stack_of(net: nn.Module) -> Stack | None:
    """The linear layers of a network that is nothing but these and ReLU, else None."""
    if isinstance(net, ConstructedMLP):
        return [(linear, i + 1 < len(net.linear)) for i, linear in enumerate(net.linear)]
    stack: Stack = []
    for module in _flat(net):
        if isinstance(module, nn.Linear | SparseLinear):
            stack.append((module, False))
        elif isinstance(module, nn.ReLU) and stack:
            stack[-1] = (stack[-1][0], True)
        elif not isinstance(module, nn.Identity):
            return None
    return stack or None


def _flat(net: nn.Module) -> list[nn.Module]:
    if type(net) is nn.Sequential:
        return list(itertools.chain.from_iterable(_flat(child) for child in net))
    return [net]


class ChunkedForward:
    """A stack of linear layers and ReLU on up to ``rows`` rows at a time, without allocating.

    Dense layers write into preallocated buffers, ReLU works in place. With ``keep`` every layer has a buffer of its
    own and ``gradient`` works; otherwise layers share two. Rows go through in blocks that fit the cache (and ``memory``
    bytes): adding biases and ReLU then cost little. A result is valid until the next call.
    """

    def __init__(self, stack: Stack, rows: int, keep: bool = False, memory: int = 2**29) -> None:
        self.keep = keep
        self.weights = [_fastest(weights_of(module)[0]) for module, _ in stack]
        self.biases = [weights_of(module)[1] for module, _ in stack]
        self.relus = [relu for _, relu in stack]
        self.transposed = [_transposed(w) if keep else None for w in self.weights]
        self.values: list[torch.Tensor] = []
        like, widths = self.biases[0], [len(b) for b in self.biases]
        wide = max(widths) * like.itemsize
        used = sum(widths) * like.itemsize if keep else 2 * wide
        self.block = max(1, min(rows, max(CACHE // wide, LEAST_BLOCK), memory // used))
        if keep:
            self.buffers = [like.new_empty(self.block * n) for n in widths]
        else:
            shared = [like.new_empty(self.block * max(widths[i::2], default=0)) for i in range(2)]
            self.buffers = [shared[i % 2] for i in range(len(widths))]
        self.out = like.new_empty(rows, widths[-1])

    @torch.no_grad()
    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """(batch <= rows, fan_in) -> (batch, outputs)."""
        if len(values) <= self.block:
            return self._layers(values)
        for start in range(0, len(values), self.block):
            part = values[start : start + self.block]
            self.out[start : start + len(part)] = self._layers(part)
        return self.out[: len(values)]

    def _layers(self, values: torch.Tensor) -> torch.Tensor:
        self.values = []
        for weight, bias, relu, buffer in zip(self.weights, self.biases, self.relus, self.buffers, strict=True):
            if weight.layout == torch.sparse_csr:
                values = torch.addmm(bias.unsqueeze(1), weight, values.T).T
            else:
                out = buffer[: len(values) * len(bias)].view(len(values), len(bias))
                values = torch.addmm(bias, values, weight.T, out=out)
            if relu:
                values.relu_()
            if self.keep:
                self.values.append(values)
        return values

    @torch.no_grad()
    def gradient(self, values: torch.Tensor, pick: Pick) -> torch.Tensor:
        """Gradient by the rows of what ``pick`` chooses of the outputs: (batch, fan_in) -> (batch, fan_in)."""
        parts = []
        for start in range(0, len(values), self.block):
            out = self._layers(values[start : start + self.block])
            parts.append(self._backward(pick(out, start)))
        return torch.cat(parts)

    def _backward(self, gradient: torch.Tensor) -> torch.Tensor:
        for values, transposed, relu in zip(
            reversed(self.values), reversed(self.transposed), reversed(self.relus), strict=True
        ):
            assert transposed is not None
            if relu:
                gradient.mul_(values.sign_())  # 0 or 1 after a ReLU; the values are not needed any more
            sparse = transposed.layout == torch.sparse_csr
            gradient = (transposed @ gradient.T).T if sparse else gradient @ transposed.T
        return gradient


def weights_of(module: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (fan_out, fan_in), dense or compressed rows, and bias (fan_out,) of a linear module, detached."""
    linear = cast(nn.Linear, module)
    weight = linear.weight.detach()
    if linear.bias is None:
        return weight, torch.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device)
    return weight, linear.bias.detach()


def _fastest(weight: torch.Tensor) -> torch.Tensor:
    """The weight in the layout that multiplies fastest."""
    if weight.layout != torch.strided or weight.numel() < SPARSE_WEIGHTS:
        return weight
    sparse = bool(torch.count_nonzero(weight) <= SPARSE_SHARE * weight.numel())
    with without_beta_warning():
        return weight.to_sparse_csr() if sparse else weight


def _transposed(weight: torch.Tensor) -> torch.Tensor:
    return weight.to_sparse_coo().t().to_sparse_csr() if weight.layout == torch.sparse_csr else weight.T


class Network:
    """A network on a device: what it claims, and its values and gradients on rows [z, x].

    Raises ValueError, one line, for a dtype other than float32 or float64 and for shapes that do not fit.
    """

    def __init__(self, net: nn.Module, family: Family, device: torch.device) -> None:
        self.name = type(net).__name__
        self.split = family.z_domain.size  # z comes first in a row
        self.shape = (family.z_domain.size + family.inputs, family.outputs)
        tensors = list(itertools.chain(net.parameters(), net.buffers()))
        floats = [t for t in tensors if t.is_floating_point()]
        dtypes = {t.dtype for t in floats} or {torch.get_default_dtype()}
        if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.float64}:
            found = ", ".join(sorted(map(str, dtypes)))
            raise ValueError(f"network: weights in {found}; need float32 or float64 alone")
        self.dtype, self.device = dtypes.pop(), device
        self.finite = all(bool(torch.isfinite(_entries(t)).all()) for t in floats)
        self.guaranteed = _claim(net.guaranteed_error) if isinstance(net, ConstructedMLP) else None
        self.faithful = not isinstance(net, ConstructedMLP) or net.faithful
        self.rounding = _claim(net.rounding_in(self.dtype)) if isinstance(net, ConstructedMLP) else None
        if any(t.device.type != device.type for t in tensors):
            net = copy.deepcopy(net).to(device)
        self.module = net
        self.on_rows = isinstance(net, nn.Sequential | nn.Linear | SparseLinear)
        self.stack = stack_of(net)
        self._check()

    def _check(self) -> None:
        z = torch.zeros(2, self.split, dtype=self.dtype, device=self.device)
        x = torch.zeros(2, self.shape[0] - self.split, dtype=self.dtype, device=self.device)
        takes = f"x {tuple(x.shape)} and z {tuple(z.shape)}"
        if self.on_rows:
            takes = f"rows [z, x] of length {self.shape[0]}"
        try:
            with torch.no_grad():
                y = self(x, z)
        except (RuntimeError, TypeError, ValueError, IndexError) as reason:
            raise ValueError(f"network: it does not take {takes}, as this family needs ({_line(reason)})") from reason
        if not isinstance(y, torch.Tensor) or y.shape != (2, self.shape[1]):
            got = tuple(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
            raise ValueError(f"network: from {takes} it makes {got}, not {(2, self.shape[1])} as this family needs")

    def __call__(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """The network's own forward: x (batch, inputs), z (batch, width of z) -> (batch, outputs)."""
        if self.on_rows:
            return self.module(torch.cat([z, x], dim=1))
        return self.module(x, z)

    @property
    def row_bytes(self) -> int:
        """Memory that one row of a chunk takes in the search: z and x in the dtype and in float64, the target."""
        return (self.dtype.itemsize + 16) * sum(self.shape)

    def runner(self, rows: int, memory: int, keep: bool = False) -> Runner:
        """Values (and with ``keep`` gradients) for up to ``rows`` rows at a time."""
        return Runner(self, rows, memory, keep)


class Runner:
    """Values and gradients of a Network on rows; a result is valid until the next call."""

    def __init__(self, network: Network, rows: int, memory: int, keep: bool) -> None:
        self.network = network
        self.chunk = ChunkedForward(network.stack, rows, keep, memory) if network.stack else None

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(batch, fan_in) -> (batch, outputs)."""
        if self.chunk:
            return self.chunk(rows)
        with torch.no_grad():
            return self._module(rows)

    def gradient(self, rows: torch.Tensor, pick: Pick) -> torch.Tensor:
        """Gradient by the rows of what ``pick`` chooses of the outputs: (batch, fan_in) -> (batch, fan_in)."""
        if self.chunk:
            return self.chunk.gradient(rows, pick)
        rows = rows.detach().requires_grad_()
        values = self._module(rows)
        chosen = pick(values.detach(), 0)
        if not values.requires_grad:
            return torch.zeros_like(rows)
        (gradient,) = torch.autograd.grad(values, rows, chosen, allow_unused=True)
        return torch.zeros_like(rows) if gradient is None else gradient

    def _module(self, rows: torch.Tensor) -> torch.Tensor:
        split = self.network.split
        return self.network(rows[:, split:], rows[:, :split])


def _claim(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _entries(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.values() if tensor.layout == torch.sparse_csr else tensor


def _line(reason: Exception) -> str:
    return str(reason).strip().splitlines()[0][:160] if str(reason).strip() else type(reason).__name__
