"""Rows of `kofm check`: a row is one network, built, counted and measured; a fit is a line through some rows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from constructions import ConstructedMLP, build, memorise_neurons
from theory import Family, Hyperteacher
from verify import certificates, check
from verify.checking import Witness
from verify.cli import documents

Row = dict[str, Any]
Fit = dict[str, Any]

#: A line through two points fits whatever they are.
FEWEST_POINTS = 3

#: What neurons are fitted against: the name of the variable, and its value in a row.
_AGAINST = {
    "M": lambda row: float(row["modules"]),
    "1/sqrt(eps)": lambda row: row["eps"] ** -0.5,
    "log2(1/eps)": lambda row: float(-np.log2(row["eps"])),
}


@dataclass(frozen=True)
class Case:
    """What one row is about. eps goes to the builder where it approximates, and to the search in any case."""

    family: Family
    method: str
    route: str
    eps: float | None

    @property
    def label(self) -> str:
        """A few words for messages: 'continuous shallow, M = 8, eps 0.1'."""
        eps = "" if self.eps is None else f", eps {self.eps:g}"
        return f"{weights_of(self.family)} {self.method}, M = {self.family.modules}{eps}"

    @property
    def weight(self) -> float:
        """Relative time that the row takes, for the time to go."""
        return 5.0 + self.family.modules * {"khot": 1, "one-hot": 1, "discrete": 5}.get(weights_of(self.family), 15)


def weights_of(family: Family) -> str:
    """khot, discrete or continuous; one-hot for words."""
    return family.weights if isinstance(family, Hyperteacher) else "one-hot"


def measure(
    case: Case,
    dtype: torch.dtype,
    points: int,
    seed: int,
    device: str,
    certify: bool = False,
    folder: str | None = None,
) -> Row:
    """Build the network of a case, count it, certify it if asked to, try to break its bound.

    folder: where its certificate is written. ValueError where the method does not apply.
    """
    family, started = case.family, time.perf_counter()
    exact = case.method in ("exact", "memorise")
    net = build(family, None if exact else case.eps, case.method, case.route, dtype)
    built = time.perf_counter() - started
    certified, certificate = _certify(case, net, folder) if certify else (None, None)
    found = check(family, net, eps=case.eps, points=points, seed=seed, device=device, certified=certified)
    status, reason = found.status, found.reason
    if net.formula_neurons not in (None, net.neurons):
        status, reason = "violated", f"{net.neurons:,} neurons, but the closed form says {net.formula_neurons:,}"
    return {
        "family": family.name,
        "modules": family.modules,
        "active": family.active,
        "inputs": family.inputs,
        "hidden": list(getattr(family, "hidden", ())),
        "outputs": family.outputs,
        "weights": weights_of(family),
        "method": net.method,
        "route": net.route,
        "eps": case.eps,
        "tasks": family.tasks,
        "neurons": net.neurons,
        "neurons_formula": net.formula_neurons,
        "formula": net.formula,
        "depth": net.depth,
        "parameters": net.size.parameters,
        "nonzeros": net.size.nonzeros,
        "max_weight": net.max_weight,
        "guaranteed": found.guaranteed,
        "rounding": found.rounding,
        "certified": found.certified,
        "certificate": certificate,
        "measured": found.measured,
        "measured_exact": found.measured_exact,
        "bound": found.bound,
        "memorise_neurons": memorise_neurons(family),
        "status": status,
        "reason": reason,
        "points": found.points,
        "supports": found.supports,
        "witness": _witness(found.witness),
        "seed": seed,
        "build_seconds": built,
        "seconds": time.perf_counter() - started,
        "dtype": str(found.dtype).removeprefix("torch."),
        "device": str(found.device),
    }


def _certify(case: Case, net: ConstructedMLP, folder: str | None) -> tuple[float | None, str | None]:
    """The certified error and the file of the certificate; or None, and why there is none."""
    try:
        document = certificates.certificate(case.family, net)
    except ValueError as reason:
        return None, str(reason)
    if folder is None:
        return certificates.certified_error(document), None
    eps = "" if case.eps is None else f"-eps{case.eps:g}"
    path = Path(folder) / f"{weights_of(case.family)}-{net.method}-M{case.family.modules}{eps}.json"
    documents.write(path, document)
    return certificates.certified_error(document), str(path)


def _witness(witness: Witness) -> dict[str, Any]:
    """The worst point as JSON; of z only what is not 0, by its index, since it may be long."""
    tasks = {str(m): value for m, value in enumerate(witness.z) if value}
    return {"x": list(witness.x), "z": tasks, "output": witness.output}


def verdict(rows: Iterable[Row]) -> str:
    """violated if any row is, else unknown if any row is (or there is none), else holds."""
    states = {row["status"] for row in rows} or {"unknown"}
    return next(state for state in ("violated", "unknown", "holds") if state in states)


def fits(rows: list[Row]) -> list[Fit]:
    """Least squares of neurons on M, and on 1/sqrt(eps) or log2(1/eps), in each series of rows alike but for that.

    A series keeps to one route: where the cheapest route changes with M, the count is no line. On M only sizes
    M >= H count where there are enough of them: below, min(M, H) in the closed forms bends the line.
    """
    found = [_fit("M", group) for group in _series(rows, "modules")]
    for group in _series([row for row in rows if row["guaranteed"]], "eps"):
        found.append(_fit("log2(1/eps)" if group[0]["method"] == "deep" else "1/sqrt(eps)", group))
    return found


def _series(rows: list[Row], varying: str) -> list[list[Row]]:
    """Rows that differ in what varies (and what follows from it) only; those with at least two values of it."""
    same = ("family", "weights", "method", "route", "active", "inputs", "hidden", "outputs", "modules", "eps")
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr([row[key] for key in same if key != varying]), []).append(row)
    return [g for g in groups.values() if len({row[varying] for row in g}) > 1]


def _fit(against: str, group: list[Row]) -> Fit:
    only = None
    if against == "M":
        width = max(group[0]["hidden"], default=0)
        wide = [row for row in group if row["modules"] >= width]
        if FEWEST_POINTS <= len(wide) < len(group):
            group, only = wide, f"M >= H = {width}"
    group = sorted(group, key=_AGAINST[against])
    x = np.array([_AGAINST[against](row) for row in group])
    y = np.array([float(row["neurons"]) for row in group])
    first = group[0]
    fit: Fit = {
        "kind": "measured by regression",
        "against": against,
        **{key: first[key] for key in ("family", "weights", "method", "route")},
        "modules": first["modules"] if against != "M" else None,
        "eps": first["eps"] if against == "M" else None,
        "x": x.tolist(),
        "neurons": [row["neurons"] for row in group],
        "only": only,
        **dict.fromkeys(("slope", "intercept", "r2"), None),
    }
    if len(x) >= FEWEST_POINTS:
        fit |= _least_squares(x, y)
    return fit


def _least_squares(x: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    """Slope, intercept and R2 of the line through (x, y); R2 is None where y does not vary."""
    spread = x - x.mean()
    slope = float(spread @ (y - y.mean()) / (spread @ spread))
    intercept = float(y.mean() - slope * x.mean())
    total = float(((y - y.mean()) ** 2).sum())
    left = float(((y - intercept - slope * x) ** 2).sum())
    return {"slope": slope, "intercept": intercept, "r2": None if total == 0 else 1 - left / total}
