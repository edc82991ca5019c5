"""What is claimed and what is approximated: circuits, families, supports, bounds, claims. Knows no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theory.families import Family, Hyperteacher, Words
from theory.supports import Supports

if TYPE_CHECKING:
    from theory import claims, encodings, splits

__all__ = ["Family", "Hyperteacher", "Supports", "Words", "claims", "encodings", "splits"]


def __getattr__(name: str) -> Any:
    # The registry needs sympy, which takes seconds to import, the others parts of scipy; whoever asks for one gets it.
    if name in ("claims", "encodings", "splits"):
        import importlib

        return importlib.import_module(f"theory.{name}")
    raise AttributeError(f"module 'theory' has no attribute {name!r}")
