"""Other people's networks, from files: weight_i, bias_i in torch's layout, ReLU between, on the row [z, x]."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import nn

from theory import Hyperteacher, splits
from theory.domains import Tasks
from theory.splits import Split
from verify.store import network_of


@dataclass(frozen=True, eq=False)
class Foreign:
    """A network from a file, and what else the file holds: the teacher it was trained on, and the split."""

    network: nn.Sequential
    family: Hyperteacher | None
    split: Split | None


def load_trained(path: str | Path) -> Foreign:
    """A trained network from .npz or .safetensors with weight_i (fan_out, fan_in), bias_i (fan_out,), i = 0, 1, ..

    Where the file holds modules_l, readout .. too, its teacher; and supports_train, supports_heldout (tasks, M), its
    split.
    Raises ValueError, one line, for a file that cannot be read, shapes that do not fit, NaN.
    """
    path = Path(path)
    values = _read(path)
    try:
        numeric = {k: torch.from_numpy(v) for k, v in values.items() if k.startswith(("weight_", "bias_"))}
        network = network_of({k: v for k, v in numeric.items() if v.dim() <= 2})
        family = Hyperteacher.load(path) if "modules_0" in values else None
        split = None
        if family is not None and {"supports_train", "supports_heldout"} <= set(values):
            assert isinstance(family.z_domain, Tasks)
            masks = values["supports_train"], values["supports_heldout"]
            split = splits.given(family.z_domain.supports, *masks, name="stored")
    except (ValueError, TypeError) as reason:
        text = str(reason)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from reason
    return Foreign(network, family, split)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a .npz or .safetensors file of a network")
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        if path.suffix == ".npz":
            with path.open("rb") as file:
                stored = np.load(file, allow_pickle=False)
                if isinstance(stored, np.ndarray):
                    raise ValueError("a single .npy array")
                return {key: stored[key] for key in stored.files}
    except (
        OSError,
        ValueError,
        TypeError,
        EOFError,
        KeyError,
        zlib.error,
        zipfile.BadZipFile,
        SafetensorError,
    ) as reason:
        raise ValueError(f"{path}: cannot be read ({' '.join(str(reason).split())})") from reason
    raise ValueError(f"{path}: unknown kind {path.suffix!r}; use .npz or .safetensors")
