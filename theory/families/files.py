"""Hyperteacher files: .npz with the paper's keys, or .safetensors with the scalars as string metadata.

Keys: modules_l (M, fan_in, fan_out), biases_l (M, fan_out), readout (last hidden, outputs); active, scale, weights;
optional box_lower, box_upper (npz) or box (metadata "lower,upper"), and levels (exact fractions as strings).
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from theory.arithmetic import as_float, representable

if TYPE_CHECKING:
    from theory.families.hyperteacher import Hyperteacher


def read_teacher(path: Path) -> dict[str, Any]:
    """The arguments of Hyperteacher. Raises ValueError, one line, for anything that cannot be used."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a .npz or .safetensors file of a hyperteacher")
    if path.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"{path}: unknown kind {path.suffix!r}; use .npz or .safetensors")
    values = _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)
    layers = sum(key.startswith("modules_") for key in values)
    needed = ["modules_0", "readout", "active", "weights"]
    needed += [f"{kind}_{i}" for i in range(max(layers, 1)) for kind in ("modules", "biases")]
    for key in needed:
        if key not in values:
            raise ValueError(f"{path}: no array {key!r}; found {', '.join(sorted(values)) or 'nothing'}")
    try:
        return {
            "modules": [values[f"modules_{i}"] for i in range(layers)],
            "biases": [values[f"biases_{i}"] for i in range(layers)],
            "readout": values["readout"],
            "active": _number(values, "active"),
            "weights": str(values["weights"]),
            "scale": _number(values, "scale") if "scale" in values else 1.0,
            "box": _pair(values),
            "levels": [str(v) for v in np.atleast_1d(values["levels"])] if "levels" in values else None,
        }
    except (TypeError, ValueError) as reason:
        raise ValueError(f"{path}: {reason}") from reason


def write_teacher(path: Path, teacher: Hyperteacher) -> None:
    """Write one hyperteacher; the suffix decides the format."""
    arrays: dict[str, Any] = {f"modules_{i}": m for i, m in enumerate(teacher.layers)}
    arrays |= {f"biases_{i}": b for i, b in enumerate(teacher.biases)}
    arrays["readout"] = teacher.readout
    for name, values in (arrays | {"scale": np.asarray(teacher.scale)}).items():
        if not representable(values):
            raise ValueError(f"{path}: {name} holds Fractions that float64 cannot; files store float64 numbers")
    # In C order: safetensors writes the memory as it lies, whatever the strides.
    arrays = {name: np.ascontiguousarray(as_float(values)) for name, values in arrays.items()}
    scalars = {"active": str(teacher.active), "scale": repr(float(teacher.scale)), "weights": teacher.weights}
    levels = [str(v) for v in teacher.levels]
    if path.suffix == ".npz":
        arrays |= {"box_lower": teacher.box.lower, "box_upper": teacher.box.upper}
        arrays |= {key: np.array(value) for key, value in scalars.items()} | {"levels": np.array(levels)}
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        box = ";".join(",".join(map(repr, side.tolist())) for side in (teacher.box.lower, teacher.box.upper))
        save_file(arrays, path, metadata=scalars | {"levels": ",".join(levels), "box": box})
    else:
        raise ValueError(f"{path}: unknown kind {path.suffix!r}; use .npz or .safetensors")


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                raise ValueError("a single .npy array")
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as reason:
        raise ValueError(f"{path}: not a readable .npz file ({reason})") from reason


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as stored:
            values: dict[str, Any] = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 (not a dict)
            values |= stored.metadata() or {}
    except (OSError, SafetensorError) as reason:
        raise ValueError(f"{path}: not a readable .safetensors file ({reason})") from reason
    if "levels" in values:
        values["levels"] = values["levels"].split(",")
    if "box" in values:
        try:
            sides = [[float(v) for v in side.split(",")] for side in values["box"].split(";")]
        except ValueError:
            sides = []
        if len(sides) == 1:  # "lower,upper"
            sides = [[v] for v in sides[0]]
        if len(sides) != 2:
            raise ValueError(f"{path}: box {values['box']!r}, need 'lower,upper' or 'l1,l2,..;u1,u2,..'")
        values["box_lower"], values["box_upper"] = (np.array(s[0] if len(s) == 1 else s) for s in sides)
    return values


def _number(values: dict[str, Any], key: str) -> float:
    try:
        return float(values[key])
    except (TypeError, ValueError) as reason:
        wanted = "whole number" if key == "active" else "number"
        raise ValueError(f"{key}: need a {wanted}, got {values[key]}") from reason


def _pair(values: dict[str, Any]) -> tuple[Any, Any]:
    return values.get("box_lower", -1.0), values.get("box_upper", 1.0)
