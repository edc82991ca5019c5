"""Rows: the lines fitted through them, and the time to go."""

import numpy as np
import pytest

from verify.cli import progress, rows, tables


def row(modules, neurons, **others):
    fields = dict.fromkeys(("family", "weights", "method", "active", "inputs", "outputs"), "x")
    fields |= {"modules": modules, "neurons": neurons, "route": "M", "hidden": [16], "eps": None, "guaranteed": 0}
    return fields | others


def test_a_line_through_sizes_above_h_only():
    bent = [row(m, 16 * m + min(m, 16) + 16) for m in (4, 8, 16, 32, 64)]
    (fit,) = rows.fits(bent)
    assert (fit["slope"], fit["intercept"], fit["r2"]) == pytest.approx((16, 32, 1))
    assert fit["x"] == [16, 32, 64] and fit["only"] == "M >= H = 16"
    assert "16 M + 32, R2 = 1" in tables.fit_line(fit)


def test_no_line_through_two_points_or_two_routes():
    mixed = [row(4, 40), row(8, 80), row(16, 99, route="N"), row(32, 99, route="N")]
    first, second = rows.fits(mixed)
    assert first["slope"] is None and first["r2"] is None
    assert "too few" in tables.fit_line(first) and "40, 80" in tables.fit_line(first)
    assert second["neurons"] == [99, 99]


def test_r2_of_a_constant_is_unknown_and_never_rounded_up():
    (fit,) = rows.fits([row(m, 7, hidden=[1]) for m in (1, 2, 3)])
    assert (fit["slope"], fit["r2"]) == (0, None) and "constant" in tables.fit_line(fit)
    assert tables._r2(1 - 1e-9) != "1"


def test_rates_against_eps():
    eps = (1e-1, 1e-2, 1e-3)
    shallow = [row(4, round(100 * e**-0.5), method="shallow", eps=e, guaranteed=e) for e in eps]
    deep = [row(4, round(50 * np.log2(1 / e)), method="deep", eps=e, guaranteed=e) for e in eps]
    first, second = rows.fits(shallow + deep)
    assert first["against"] == "1/sqrt(eps)" and first["slope"] == pytest.approx(100, rel=1e-2)
    assert second["against"] == "log2(1/eps)" and second["slope"] == pytest.approx(50, rel=1e-2)


def test_time_to_go(monkeypatch):
    clock = iter([0.0, 10.0, 400.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    steps = progress.Steps("x", [1, 3], quiet=True)
    assert steps.to_go() == ""
    steps.done = 1
    assert steps.to_go() == "about 30 s to go"
    assert steps.to_go() == "about 20 min to go"
