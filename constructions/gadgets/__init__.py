"""Gadgets: small networks that multiply, gate or compare, each with its proof, exact error and count."""

from constructions.gadgets.deep import Chain, deep_product, radices
from constructions.gadgets.gates import gate, maximum_weights
from constructions.gadgets.products import product, split, split_applies, square_knots
from constructions.gadgets.ridges import Hinges, Ridges, Shared

__all__ = [
    "Chain",
    "Hinges",
    "Ridges",
    "Shared",
    "deep_product",
    "gate",
    "maximum_weights",
    "product",
    "radices",
    "split",
    "split_applies",
    "square_knots",
]
