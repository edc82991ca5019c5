"""What is claimed and what is approximated: circuits, families, supports, bounds, claims. Knows no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theory.families import Family, Hyperteacher, Words
from theory.supports import Supports

if TYPE_CHECKING:
    from theory import claims

__all__ = ["Family", "Hyperteacher", "Supports", "Words", "claims"]


def __getattr__(name: str) -> Any:
    # The registry needs sympy, which takes seconds to import; whoever asks for it gets it.
    if name == "claims":
        import importlib

        return importlib.import_module("theory.claims")
    raise AttributeError(f"module 'theory' has no attribute {name!r}")
