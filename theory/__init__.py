"""What is claimed and what is approximated: circuits, families, supports, bounds, claims. Knows no network."""

from theory import claims
from theory.families import Family, Hyperteacher, Words
from theory.supports import Supports

__all__ = ["Family", "Hyperteacher", "Supports", "Words", "claims"]
