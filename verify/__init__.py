"""Evidence about networks: the error search, its replay, and the verdict. Imports theory and constructions."""

from verify.checking import CheckResult, check

__all__ = ["CheckResult", "check"]
