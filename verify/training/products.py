"""The three matrix products of a training step, by the fastest route that keeps float32's accuracy.

    forward   values W^T + b       backward   gradient W       outer   gradient^T values

On a CPU torch's float32 product goes through MKL, which takes its AVX2 path on processors that are not Intel's;
oneDNN, in the same torch, uses AVX-512 there. Which route is taken follows from the machine alone (a choice by timing
could differ from run to run, and with it the bytes of the result); its error is measured before it is used.
"""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch

#: A route may be this much less accurate than float32 summation in the worst order: n u |a| |b| for n addends.
UNIT = 2.0**-24
#: Below this many entries oneDNN's product of two transposed matrices is slower than MKL's.
LARGE_OUTER = 2**18

Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


class Products:
    """The three products, for one network, (batch, n), or for a population at once, (members, batch, n)."""

    def __init__(self, linear: Linear | None = None) -> None:
        self.linear = linear
        self.name = "torch" if linear is None else "oneDNN"

    def forward(
        self, values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """values (.., batch, fan_in), weight (.., fan_out, fan_in), bias (.., fan_out) -> (.., batch, fan_out)."""
        if values.dim() == 3:
            return torch.baddbmm(bias.unsqueeze(1), values, weight.mT, out=out)
        if self.linear is not None:
            return self.linear(values, weight, bias)
        return torch.addmm(bias, values, weight.T, out=out)

    def backward(self, gradient: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """gradient (.., batch, fan_out) -> (.., batch, fan_in)."""
        if gradient.dim() == 3:
            return torch.bmm(gradient, weight, out=out)
        if self.linear is not None:
            return self.linear(gradient, weight.T, None)
        return torch.mm(gradient, weight, out=out)

    def outer(self, gradient: torch.Tensor, values: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """gradient (.., batch, fan_out), values (.., batch, fan_in) -> the weight's gradient (.., fan_out, fan_in)."""
        if gradient.dim() == 3:
            return torch.bmm(gradient.mT, values, out=out)
        if self.linear is not None and out.numel() >= LARGE_OUTER:
            return out.copy_(self.linear(gradient.T, values.T, None))
        return torch.mm(gradient.T, values, out=out)


def choose(device: torch.device) -> Products:
    """The route for this machine: oneDNN on AVX-512 processors that are not Intel's, else torch's own."""
    return _on_cpu() if device.type == "cpu" else Products()


@functools.cache
def _on_cpu() -> Products:
    return accurate(one_dnn()) if torch.backends.cpu.get_cpu_capability() == "AVX512" and not _intel() else Products()


def one_dnn() -> Linear | None:
    """oneDNN's linear layer in float32, where this torch has it."""
    operator = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if operator is None or not torch.backends.mkldnn.is_available():
        return None
    return lambda values, weight, bias: operator(values, weight, bias, "none", [], "")


def accurate(linear: Linear | None) -> Products:
    """The route, or torch's own with a word on stderr where it is missing, fails, or is less accurate than float32."""
    if linear is None:
        return Products()
    try:
        worst = error(linear)
    except (RuntimeError, TypeError, NotImplementedError) as reason:
        print(f"kofm: oneDNN's product fails here ({str(reason).splitlines()[0]}); torch's is used", file=sys.stderr)
        return Products()
    if not worst <= 1:
        print(f"kofm: oneDNN's product errs {worst:.3g} times as much as float32 may; torch's is used", file=sys.stderr)
        return Products()
    return Products(linear)


def error(linear: Linear) -> float:
    """Largest error of the three products against float64, as a share of the worst that float32 summation may do."""
    generator = torch.Generator().manual_seed(0)
    shares = []
    for batch, fan_in, fan_out in ((64, 48, 40), (192, 256, 128)):
        values, weight = (torch.randn(n, fan_in, generator=generator) for n in (batch, fan_out))
        gradient, bias = torch.randn(batch, fan_out, generator=generator), torch.randn(fan_out, generator=generator)
        for a, b, c in ((values, weight, bias), (gradient, weight.T, None), (gradient.T, values.T, None)):
            exact, size = a.double() @ b.double().T, a.abs().double() @ b.abs().double().T
            if c is not None:
                exact, size = exact + c, size + c.abs()
            shares.append(float(((linear(a, b, c) - exact).abs() / ((a.shape[1] + 1) * UNIT * size)).max()))
    return max(shares)


def _intel() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = platform.processor()
    return "GenuineIntel" in text or "Intel" in text
