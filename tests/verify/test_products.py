"""Products of a training step: a route is taken only if it keeps float32's accuracy."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from verify.training import products
from verify.training.products import Products, accurate, choose, error, one_dnn


def exact(values, weight, bias):
    out = values.double() @ weight.double().T
    return (out if bias is None else out + bias).float()


def halved(values, weight, bias):
    """What a route in bfloat16 would compute."""
    out = values.bfloat16().float() @ weight.bfloat16().float().T
    return out if bias is None else out + bias


def test_an_inaccurate_route_is_refused_and_said(capfd):
    assert error(exact) <= 1 and error(halved) > 10
    assert accurate(halved).linear is None
    assert "times as much as float32 may" in capfd.readouterr().err
    assert accurate(exact).linear is exact and capfd.readouterr().err == ""


def test_a_route_that_fails_or_gives_nan_is_refused(capfd):
    def fails(values, weight, bias):
        raise RuntimeError("no such operator\nand more")

    assert accurate(fails).linear is None
    message = capfd.readouterr().err
    assert "no such operator" in message and message.count("\n") == 1
    assert accurate(lambda v, w, b: exact(v, w, b) * torch.nan).linear is None
    assert accurate(None).linear is None


def test_one_dnn_is_accurate_here_or_refused():
    linear = one_dnn()
    assert linear is None or error(linear) <= 1 or accurate(linear).linear is None


def test_the_rule(monkeypatch):
    """oneDNN on AVX-512 that is not Intel's: what the machine is decides, never a clock."""
    found = {}
    for capability in ("AVX2", "AVX512"):
        for intel in (False, True):
            monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda c=capability: c)
            monkeypatch.setattr(products, "_intel", lambda i=intel: i)
            products._on_cpu.cache_clear()
            found[capability, intel] = choose(torch.device("cpu")).name
    products._on_cpu.cache_clear()
    assert {name for key, name in found.items() if key != ("AVX512", False)} == {"torch"}
    assert found["AVX512", False] == ("torch" if one_dnn() is None else "oneDNN")


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_the_three_products(batch, fan_in, fan_out, route):
    generator = torch.Generator().manual_seed(batch * 400 + fan_in * 20 + fan_out)
    values, weight = torch.randn(batch, fan_in, generator=generator), torch.randn(fan_out, fan_in, generator=generator)
    bias, gradient = torch.randn(fan_out, generator=generator), torch.randn(batch, fan_out, generator=generator)
    one = Products(exact if route else None)
    for found, wanted in (
        (one.forward(values, weight, bias, torch.empty(batch, fan_out)), values @ weight.T + bias),
        (one.backward(gradient, weight, torch.empty(batch, fan_in)), gradient @ weight),
        (one.outer(gradient, values, torch.empty(fan_out, fan_in)), gradient.T @ values),
    ):
        assert torch.allclose(found, wanted, atol=1e-4)
    out = torch.empty(fan_out, fan_in)
    assert one.outer(gradient, values, out).data_ptr() == out.data_ptr()
