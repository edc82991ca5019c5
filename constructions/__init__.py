"""Hand-built networks: circuit -> plan -> blocks -> layers -> plain MLP. Imports theory only."""

from constructions.compiler import METHODS, build
from constructions.counting import memorise_neurons
from constructions.mlp import ConstructedMLP

__all__ = ["METHODS", "ConstructedMLP", "build", "memorise_neurons"]
