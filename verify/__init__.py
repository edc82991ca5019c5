"""Evidence about networks: the error search, its replay, and the verdict. Imports theory and constructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verify.checking import CheckResult, check

__all__ = ["CheckResult", "check"]


def __getattr__(name: str) -> Any:
    # torch takes seconds to import; the command line must be able to answer Ctrl-C before that.
    if name in __all__:
        from verify import checking

        return getattr(checking, name)
    raise AttributeError(f"module 'verify' has no attribute {name!r}")
