"""Families of tasks. Each is described once, as a circuit; everything else is derived from that."""

from theory.families.family import Family
from theory.families.hyperteacher import Hyperteacher
from theory.families.words import Words

__all__ = ["Family", "Hyperteacher", "Words"]
