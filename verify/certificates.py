"""Certificates: a network, its family and a proved bound in one file, for the checker that knows nothing else of kofm.

    document = certificate(family, net)      # what `kofm verify-certificate` reads, a dict in JSON types
    certified_error(document)                # the largest of its bounds, a float rounded up

The bound is the checker's own (verify.checker.bounds), of the STORED weights in real arithmetic, rounded up to a short
fraction: whoever holds the file can check it again with the standard library alone, and need not trust the compiler.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import torch

from constructions import ConstructedMLP
from theory import Hyperteacher
from theory.arithmetic import Array, as_exact, outward
from theory.families.family import Family
from verify import checker
from verify.networks import weights_of

#: Bounds are rounded up to so many bits.
BITS = 40
#: Certified up to this many weights that are not 0 (a minute or two).
LARGEST_NONZEROS = 400_000


def certificate(family: Family, net: ConstructedMLP) -> dict[str, Any]:
    """The certificate of a constructed network, its bounds included.

    Raises ValueError, one line, for families that are no hyperteacher, for networks of a form that the checker does
    not know (memorising ones), for weights that are not finite, and above LARGEST_NONZEROS weights.
    """
    document = statement(family, net)
    document["bounds"] = [_short(bound) for bound in checker.bounds(document)]
    return document | {"digests": checker.digests(document)}


def certified_error(document: dict[str, Any]) -> float:
    """The largest of a certificate's bounds, rounded up."""
    return max(outward(Fraction(bound))[1] for bound in document["bounds"])


def statement(family: Family, net: ConstructedMLP) -> dict[str, Any]:
    """The certificate without bounds and digests: what is spoken of."""
    if not isinstance(family, Hyperteacher):
        raise ValueError(f"certificate: the checker knows hyperteachers, not {family.name}")
    if net.method == "memorise":
        raise ValueError("certificate: the checker knows no memorising networks; use exact, shallow or deep")
    if net.size.nonzeros > LARGEST_NONZEROS:
        raise ValueError(f"certificate: {net.size.nonzeros:,} weights; written for at most {LARGEST_NONZEROS:,}")
    dtype = str(net.dtype).removeprefix("torch.")
    return {
        "format": checker.FORMAT,
        "version": checker.VERSION,
        "about": {
            "object": f"{family!r}",
            "network": f"{net.method}, route {net.route}, {net.neurons} neurons, {net.depth} hidden layers, {dtype}",
            "data": "family: its author; network, units: the compiler of kofm, as stored",
            "predicate": "|network(z, x) - family(z, x)| <= bounds, for each output, all tasks and all x in the box",
            "claim": f"with C2 to C5, C11: the stored network approximates the family within {net.guaranteed_error:g} "
            "but for the rounding of its weights",
            "outside": [
                "floating-point evaluation: real arithmetic is spoken of",
                "z is fed as `fed` says (levels rounded to the network's format), x lies in the box",
                "that the arrays are those of the family its user means",
            ],
        },
        "family": {
            "modules": family.modules,
            "active": family.active,
            "weights": family.weights,
            "levels": [str(level) for level in family.levels],
            "scale": _text(family.scale),
            "box": [[_text(low), _text(high)] for low, high in zip(family.box.lower, family.box.upper, strict=True)],
            "layers": [
                {"modules": _nested(modules), "biases": _nested(biases)}
                for modules, biases in zip(family.layers, family.biases, strict=True)
            ],
            "readout": _nested(family.readout),
        },
        "network": {
            "dtype": dtype,
            "fed": [_text(level) for level in _fed(family, net.dtype)],
            "layers": [_layer(module) for module in net.linear],
        },
        "units": units_of(family, net),
    }


def units_of(family: Hyperteacher, net: ConstructedMLP) -> list[dict[str, Any]]:
    """For each modulated layer where its units stand: {"layer": from 0, "neurons": [[neuron, unit], ..]}.

    Units that are always on or always off have no neuron. ValueError where a layer before the last one has none at all.
    """
    labels, found = net.labels, []
    is_unit = labels["gadget"] == "unit"
    starts = np.concatenate([[0], np.cumsum(net.widths)])
    for layer in np.unique(labels["layer"][is_unit]):
        here = np.flatnonzero(is_unit & (labels["layer"] == layer))
        pairs = zip(here - starts[layer - 1], labels["unit"][here], strict=True)
        found.append({"layer": int(layer) - 1, "neurons": [[int(n), int(unit)] for n, unit in pairs]})
    if not found and len(family.layers) == 1:
        return [{"layer": net.depth - 1, "neurons": []}]
    if len(found) != len(family.layers):
        raise ValueError("certificate: a modulated layer has no neuron for any of its units; the checker needs some")
    return found


def _fed(family: Hyperteacher, dtype: torch.dtype) -> list[Any]:
    """The levels as the network is fed them."""
    if family.weights == "continuous":
        return list(family.levels)
    return [torch.tensor(float(level), dtype=dtype).item() for level in family.levels]


def _layer(module: torch.nn.Module) -> dict[str, Any]:
    weight, bias = (t.detach().cpu().double() for t in weights_of(module))
    if not (
        torch.isfinite(weight.values() if weight.layout == torch.sparse_csr else weight).all() and bias.isfinite().all()
    ):
        raise ValueError("certificate: a stored weight is NaN or infinite")
    rows: list[list[list[Any]]] = [[] for _ in range(len(bias))]
    coordinates = weight.to_sparse_coo().coalesce()
    for (row, column), value in zip(coordinates.indices().T.tolist(), coordinates.values().tolist(), strict=True):
        rows[row].append([column, _text(value)])
    return {"weights": rows, "biases": [_text(value) for value in bias.tolist()]}


def _text(value: Any) -> str:
    """A number as the exact fraction it is."""
    return str(as_exact([value])[0])


def _nested(values: Array) -> Any:
    return [_nested(entry) for entry in values] if values.ndim else _text(values.item())


def _short(bound: Fraction) -> str:
    """The bound rounded up to BITS binary digits."""
    if not bound:
        return "0"
    shift = BITS - (bound.numerator.bit_length() - bound.denominator.bit_length())
    scaled = bound * Fraction(2) ** shift
    return str(Fraction(-(-scaled.numerator // scaled.denominator)) / Fraction(2) ** shift)
