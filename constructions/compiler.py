"""The compiler: family -> circuit -> plan -> blocks -> layers -> network. A statement a pass.

circuit    one description of f(x, z)                              theory.circuit
plan       route, gadget and pieces of every product; guarantee    constructions.planning
blocks     ReLU neurons over forms                                 constructions.lowering
layers     levels and carriers                                     constructions.scheduling
network    the layers, rounded once                                constructions.mlp
"""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
import torch

from constructions.counting import closed_form
from constructions.lowering import lower
from constructions.memorising import memorise
from constructions.mlp import UNITS, ConstructedMLP
from constructions.planning import Plan, gate_kind, make_plan
from constructions.rounding import rounding_bound
from constructions.routes import ROUTES
from constructions.scheduling import Layer, schedule
from theory.circuit import Bilinear, Circuit
from theory.families.family import Family

#: About 10 GiB while building; beyond, a request is a mistake.
LARGEST_NONZEROS = 10**8

METHODS = ("auto", "exact", "shallow", "deep", "memorise")


def build(
    family: Family,
    eps: float | None = None,
    method: str = "auto",
    route: str = "auto",
    dtype: torch.dtype = torch.float64,
) -> ConstructedMLP:
    """The network of a family, its guaranteed error at most eps (claims C2 to C5, C7, C11, C13).

    method: exact, shallow, deep, memorise, or auto: exact where all weights are discrete, else the cheaper of shallow
    and deep. route: M, N, MN, rank, or auto: the cheapest. eps is required except for exact and memorise; for an
    exact method it does not change the network. If rounding can be seen at eps, the budget leaves room for it.
    Raises ValueError, one line, where a method does not apply, with the reason.
    """
    _validate(eps, method, route, dtype)
    if method == "auto" and all(gate_kind(n, route)[0] == "gate" for n in _products(family.circuit)):
        method = "exact"
    if method not in ("exact", "memorise") and eps is None:
        raise ValueError(f"eps: method {method} approximates; give the error you accept, such as eps=1e-2")
    if method == "auto":
        return min((build(family, eps, m, route, dtype) for m in ("shallow", "deep")), key=lambda net: net.neurons)
    stored = method == "memorise"  # its circuit has no products left
    circuit = memorise(family.circuit) if stored else family.circuit
    plan, layers = _within(circuit, "exact" if stored else method, route, eps, UNITS[dtype])
    text, count = closed_form(family, plan, method)
    errors = plan.errors[id(circuit.output)]
    return ConstructedMLP(circuit, layers, method, plan.routes, text, count, errors, eps, dtype)


def _products(circuit: Circuit) -> list[Bilinear]:
    return [node for node in circuit.nodes if isinstance(node, Bilinear)]


def _within(circuit: Circuit, method: str, route: str, eps: float | None, unit: float) -> tuple[Plan, list[Layer]]:
    """Plan and layers with guaranteed + rounding <= eps where the format allows, else with guaranteed <= eps."""
    plan = make_plan(circuit, method, route, eps)
    layers = compile_plan(plan)
    if eps is None or plan.guaranteed == 0:
        return plan, layers
    for _ in range(3):
        rounding = float(rounding_bound(circuit, layers, unit).max(initial=0.0))
        if plan.guaranteed + rounding <= eps or rounding > eps / 2:
            break
        plan = make_plan(circuit, method, route, eps - 1.1 * rounding)
        layers = compile_plan(plan)
    return plan, layers


def compile_plan(plan: Plan) -> list[Layer]:
    """The layers of a plan, exact where the network is small enough for Fractions."""
    if plan.nonzeros > LARGEST_NONZEROS:
        raise ValueError(
            f"eps: about {plan.nonzeros:.1e} weights that are not 0, built up to {LARGEST_NONZEROS:.0e}; "
            "use a larger eps, smaller sizes, or method deep"
        )
    layers = schedule(plan.circuit, lower(plan, plan.exact))
    if not all(np.isfinite(layer.upper).all() for layer in layers[:-1]):
        raise ValueError("values of this family overflow in float64; rescale its arrays")
    return layers


def _validate(eps: float | None, method: str, route: str, dtype: torch.dtype) -> None:
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is unknown; use one of {', '.join(METHODS)}")
    if route not in ("auto", *ROUTES):
        raise ValueError(f"route: {route!r} is unknown; use auto or one of {', '.join(ROUTES)}")
    if eps is not None and not (isinstance(eps, Real) and math.isfinite(eps) and eps > 0):
        raise ValueError(f"eps: {eps} must be a finite number above 0")
    if dtype not in UNITS:
        raise ValueError(f"dtype: {dtype} is not supported; use torch.float32 or torch.float64")
