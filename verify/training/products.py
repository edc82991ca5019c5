"""The three matrix products of a training step, by the fastest route that keeps float32's accuracy.

    forward   values W^T + b       backward   gradient W       outer   gradient^T values

On a CPU torch's float32 product goes through MKL, which takes its AVX2 path on processors that are not Intel's;
oneDNN, in the same torch, uses AVX-512 there and is twice as fast. Which route is taken follows from the machine alone
(a choice by timing could differ from run to run, and with it the bytes of the result); its error against float64 is
measured before it is used.
"""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch

#: Unit roundoff of float32. A sum of n products may err by n UNIT times the sum of their sizes, in the worst order.
UNIT = 2.0**-24
#: Below this many entries oneDNN's product of two transposed matrices is slower than MKL's.
LARGE_OUTER = 2**18

#: values (batch, fan_in), weight (fan_out, fan_in), bias (fan_out,) or None -> (batch, fan_out), a new tensor.
Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


class Products:
    """The three products, for one network, (batch, n), or for a population at once, (members, batch, n).

    linear: another route than torch's own, for one network. It makes new tensors; torch's own writes into ``out``.
    """

    def __init__(self, linear: Linear | None = None) -> None:
        self.linear = linear
        self.name = "torch" if linear is None else "oneDNN"

    def forward(
        self, values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor
    ) -> torch.Tensor:
        """values (.., batch, fan_in), weight (.., fan_out, fan_in), bias (.., fan_out) -> (.., batch, fan_out)."""
        if self.linear is not None and values.dim() == 2:
            return self.linear(values, weight, bias)
        if bias is None:
            return torch.matmul(values, weight.mT, out=out)
        product = torch.addmm if values.dim() == 2 else torch.baddbmm
        return product(bias.unsqueeze(-2), values, weight.mT, out=out)

    def backward(self, gradient: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """gradient (.., batch, fan_out) -> (.., batch, fan_in)."""
        if self.linear is not None and gradient.dim() == 2:
            return self.linear(gradient, weight.mT, None)
        return torch.matmul(gradient, weight, out=out)

    def outer(self, gradient: torch.Tensor, values: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """gradient (.., batch, fan_out), values (.., batch, fan_in) -> the weight's gradient, (.., fan_out, fan_in).

        It is written into ``out``.
        """
        if self.linear is not None and gradient.dim() == 2 and out.numel() >= LARGE_OUTER:
            return out.copy_(self.linear(gradient.mT, values.mT, None))
        if out.shape[-2] > out.shape[-1]:  # MKL takes up to four times as long where rows are short
            return out.copy_(torch.matmul(values.mT, gradient).mT)
        return torch.matmul(gradient.mT, values, out=out)


def choose(device: torch.device) -> Products:
    """The products for a device: oneDNN's on AVX-512 processors that are not Intel's, else torch's own.

    Raises ValueError where even torch's own are not as accurate as float32.
    """
    return _chosen(device.type, torch.get_float32_matmul_precision())


@functools.cache
def _chosen(device: str, precision: str) -> Products:
    fast = device == "cpu" and torch.backends.cpu.get_cpu_capability() == "AVX512" and not _intel()
    found = accurate(one_dnn()) if fast else Products()
    worst = error(found, torch.device(device))
    if not worst <= 1:
        raise ValueError(
            f"products: torch's own err {worst:.3g} times as much as float32 may (float32_matmul_precision is "
            f"{precision!r}); call torch.set_float32_matmul_precision('highest')"
        )
    return found


def one_dnn() -> Linear | None:
    """oneDNN's linear layer in float32, where this torch has it."""
    operator = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if operator is None or not torch.backends.mkldnn.is_available():
        return None
    return lambda values, weight, bias: operator(values, weight, bias, "none", [], "")


def accurate(linear: Linear | None) -> Products:
    """The route, or torch's own with a word on stderr where it is missing, fails, or is less accurate than float32."""
    if linear is None:
        return _torchs_own("is not in this torch")
    try:
        worst = error(Products(linear))
    except (RuntimeError, TypeError, NotImplementedError) as reason:
        return _torchs_own(f"fails here ({str(reason).splitlines()[0]})")
    if not worst <= 1:
        return _torchs_own(f"errs {worst:.3g} times as much as float32 may")
    return Products(linear)


def _torchs_own(reason: str) -> Products:
    print(f"kofm: oneDNN's product {reason}; torch's own is used, which may be slower", file=sys.stderr)
    return Products()


@torch.no_grad()
def error(products: Products, device: torch.device | None = None) -> float:
    """Largest error of the three products against float64, as a share of the worst that float32 summation may do.

    For one network and for a population of two, at sizes on either side of LARGE_OUTER.
    """
    shares = []
    for lead, batch, fan_in, fan_out in ((), 64, 48, 40), ((), 64, 512, 520), ((2,), 64, 48, 40):
        generator = torch.Generator().manual_seed(0)
        shapes = ((*lead, batch, fan_in), (*lead, fan_out, fan_in), (*lead, fan_out), (*lead, batch, fan_out))
        values, weight, bias, gradient = (
            torch.randn(shape, generator=generator, dtype=torch.float32).to(device) for shape in shapes
        )
        forward = products.forward(values, weight, bias, torch.empty_like(gradient))
        backward = products.backward(gradient, weight, torch.empty_like(values))
        outer = products.outer(gradient, values, torch.empty_like(weight))
        row = bias.unsqueeze(-2)
        shares += [
            _share(forward - _exact(values, weight.mT) - row, values.abs(), weight.mT.abs(), row.abs()),
            _share(backward - _exact(gradient, weight), gradient.abs(), weight.abs()),
            _share(outer - _exact(gradient.mT, values), gradient.mT.abs(), values.abs()),
        ]
    return float(torch.tensor(shares).max())  # NaN where there is one


def _exact(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left.double() @ right.double()


def _share(errors: torch.Tensor, left: torch.Tensor, right: torch.Tensor, added: torch.Tensor | float = 0.0) -> float:
    """The largest error as a share of what n additions may do, n UNIT |left| |right|."""
    return float((errors.abs() / ((left.shape[-1] + 1) * UNIT * (_exact(left, right) + added))).max())


def _intel() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = platform.processor()
    return "GenuineIntel" in text or "Intel" in text
