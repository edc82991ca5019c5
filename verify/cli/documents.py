"""JSON documents of the commands: strict (null, never NaN), and never half written.

A document is {"command", "version", "seed", "rows", ...}. A file is replaced as a whole, after every row: whoever
reads it, and whatever kills the run, finds the last complete state.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

STDOUT = "-"


def clean(value: Any) -> Any:
    """The value as JSON knows it: numbers that are not finite become None, arrays lists, other objects text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean(entry) for entry in value]
    if isinstance(value, np.generic) or hasattr(value, "tolist"):
        return clean(value.tolist())
    try:
        return clean(float(value))  # Fraction
    except (TypeError, ValueError):
        return str(value)


def dumps(document: dict[str, Any]) -> str:
    """The document as text that ends with a newline. Floats are written so that they read back as they are."""
    return json.dumps(clean(document), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write(path: str | Path, document: dict[str, Any]) -> None:
    """Replace the file by the document in one step. Raises OSError where that cannot be done."""
    target, temporary = _places(path)
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(dumps(document))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def require_writable(path: str | Path) -> None:
    """Raises ValueError, one line, if `write` would fail there; leaves what is there as it was."""
    target, temporary = _places(path)
    if target.is_dir():
        raise ValueError(f"--json {path}: is a folder; name a file in it, or - for stdout")
    if target.exists() and not target.is_file():
        raise ValueError(f"--json {path}: is no ordinary file; name one, or - for stdout")
    if not target.parent.is_dir():
        raise ValueError(f"--json {path}: there is no folder {target.parent}; make it first, or name another")
    try:
        temporary.touch()
        temporary.unlink()
    except OSError as reason:
        raise ValueError(f"--json {path}: cannot be written ({reason.strerror}); name another file") from reason


def _places(path: str | Path) -> tuple[Path, Path]:
    # A link stays a link: the file that it leads to is replaced. The process number keeps two runs apart.
    target = Path(os.path.realpath(path))
    return target, target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
