"""Evidence about networks: error search and replay, training, comparison. Imports theory and constructions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verify.checking import CheckResult, check
    from verify.comparison import compare
    from verify.training import train

__all__ = ["CheckResult", "check", "compare", "train"]

_HOMES = {
    "CheckResult": "verify.checking",
    "check": "verify.checking",
    "compare": "verify.comparison",
    "train": "verify.training",
}


def __getattr__(name: str) -> Any:
    # torch takes seconds to import; the command line must be able to answer Ctrl-C before that.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'verify' has no attribute {name!r}")
