"""The version of kofm, as results say it."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """The installed version of kofm."""
    try:
        return metadata.version("kofm")
    except metadata.PackageNotFoundError:
        return "0+not-installed"
