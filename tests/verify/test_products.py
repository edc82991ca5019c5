"""Products of a training step: a route is taken only if it keeps float32's accuracy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from verify.training import products
from verify.training.products import Products, accurate, choose, error, one_dnn

CPU = torch.device("cpu")


def exact(values, weight, bias):
    out = values.double() @ weight.double().T
    return (out if bias is None else out + bias).float()


def halved(values, weight, bias):
    """What a route in bfloat16 would compute."""
    out = values.bfloat16().float() @ weight.bfloat16().float().T
    return out if bias is None else out + bias


def cut(values, weight, bias):
    """What a route in tf32, the ten-bit mantissa of GPUs, would compute."""
    values, weight = ((t.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (values, weight))
    return exact(values, weight, bias)


def test_an_inaccurate_route_is_refused_and_said(capfd):
    assert error(Products(exact)) <= 1 and error(Products()) <= 1
    assert accurate(exact).linear is exact and capfd.readouterr().err == ""
    for planted in (halved, cut):
        assert error(Products(planted)) > 5
        assert accurate(planted).linear is None
        message = capfd.readouterr().err
        assert "times as much as float32 may" in message and message.count("\n") == 1


@pytest.mark.parametrize("place", ["forward", "backward", "outer"])
def test_each_of_the_three_products_is_measured(place, capfd):
    """A route that is wrong in one place alone is found there: the transposes tell the three apart."""

    def wrong(values, weight, bias):
        kind = "forward" if bias is not None else "outer" if not values.is_contiguous() else "backward"
        return (halved if kind == place else exact)(values, weight, bias)

    assert accurate(wrong).linear is None and "times as much" in capfd.readouterr().err


def test_a_route_that_fails_is_missing_or_gives_nan_is_refused(capfd):
    def fails(values, weight, bias):
        raise RuntimeError("no such operator\nand more")

    def nan(values, weight, bias):
        return exact(values, weight, bias) * torch.nan

    for route, words in ((fails, "no such operator"), (nan, "nan"), (None, "not in this torch")):
        assert accurate(route).linear is None
        message = capfd.readouterr().err
        assert words in message and message.count("\n") == 1


def test_one_dnn_is_accurate_here_or_refused():
    linear = one_dnn()
    assert linear is None or error(Products(linear)) <= 1 or accurate(linear).linear is None


@pytest.fixture
def unchosen():
    """No route chosen yet, nor afterwards."""
    products._chosen.cache_clear()
    yield
    products._chosen.cache_clear()


def test_the_rule(monkeypatch, unchosen):
    """oneDNN on AVX-512 that is not Intel's: what the machine is decides, never a clock."""
    found = {}
    for capability in ("AVX2", "AVX512"):
        for intel in (False, True):
            monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
            monkeypatch.setattr(products, "_intel", lambda i=intel: i)
            products._chosen.cache_clear()
            found[capability, intel] = choose(CPU).name
    assert {name for key, name in found.items() if key != ("AVX512", False)} == {"torch"}
    assert found["AVX512", False] == ("torch" if one_dnn() is None else "oneDNN")


def test_torchs_own_products_are_measured_too(monkeypatch, unchosen):
    """Where lower precision is allowed there is nothing to fall back on: training refuses."""
    matmul = torch.matmul
    monkeypatch.setattr(torch, "matmul", lambda a, b, **k: matmul(a.bfloat16().float(), b.bfloat16().float(), **k))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert_refused(lambda: choose(CPU), ["products", "set_float32_matmul_precision"])


@given(*[st.integers(1, 20)] * 3, st.booleans(), st.integers(0, 2))
def test_the_three_products(batch, fan_in, fan_out, route, members):
    generator = torch.Generator().manual_seed(batch * 400 + fan_in * 20 + fan_out)
    lead = (members,) if members else ()
    shapes = ((batch, fan_in), (fan_out, fan_in), (fan_out,), (batch, fan_out))
    values, weight, bias, gradient = (torch.randn(*lead, *shape, generator=generator) for shape in shapes)
    one = Products(exact if route else None)
    for found, wanted in (
        (one.forward(values, weight, bias, torch.empty_like(gradient)), values @ weight.mT + bias.unsqueeze(-2)),
        (one.forward(values, weight, None, torch.empty_like(gradient)), values @ weight.mT),
        (one.backward(gradient, weight, torch.empty_like(values)), gradient @ weight),
        (one.outer(gradient, values, torch.empty_like(weight)), gradient.mT @ values),
    ):
        assert torch.allclose(found, wanted, atol=1e-4)
    wide = torch.full((*lead, fan_out, fan_in + 2), 7.0)  # a part of a larger array, as for the first layer
    part = one.outer(gradient, values, wide[..., :fan_in])
    assert part.data_ptr() == wide.data_ptr() and torch.all(wide[..., fan_in:] == 7)
