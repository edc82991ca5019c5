"""Checkpoints: what is needed to go on, in one file that is replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

FORMAT = "kofm-checkpoint-2"


@dataclass(frozen=True)
class State:
    """Where a run is. block: how many blocks are done. losses: of each block, a number a member. seconds: so far."""

    block: int
    seconds: float
    losses: list[list[float]]
    tensors: dict[str, torch.Tensor]


def folder_of(path: str | Path) -> Path:
    """The folder, made where it is not there. Raises ValueError, one line, where it cannot be."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise ValueError(f"checkpoint: {path} cannot be a folder ({reason.strerror}); name another") from reason
    return Path(path)


def write(path: Path, digest: str, state: State) -> None:
    """Replace the file. digest: of everything that the run depends on. Raises ValueError where that cannot be done."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    about = {"format": FORMAT, "digest": digest, "block": str(state.block), "seconds": repr(state.seconds)}
    about["losses"] = json.dumps(state.losses)
    about["checksum"] = _checksum(about, tensors)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(save(tensors, about))
        os.replace(temporary, path)
    except OSError as reason:
        raise ValueError(f"checkpoint: {path} cannot be written ({reason.strerror}); make room for it") from reason
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, digest: str) -> State | None:
    """What was written for this digest, or None: no file, or one that is of another run or damaged (said on stderr)."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            about = stored.metadata() or {}
            tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 (not a dict)
        if about.get("format") != FORMAT:
            raise ValueError("it is no checkpoint of this version")
        if about.pop("checksum", None) != _checksum(about, tensors):
            raise ValueError("it is damaged")
        if about["digest"] != digest:
            raise ValueError("it is of a run with other settings")
        return State(int(about["block"]), float(about["seconds"]), json.loads(about["losses"]), tensors)
    except (OSError, ValueError, SafetensorError) as reason:
        print(f"kofm: {path} is not used ({str(reason).splitlines()[0]}); training starts anew", file=sys.stderr)
        return None


def _checksum(about: dict[str, str], tensors: dict[str, torch.Tensor]) -> str:
    hashed = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        hashed.update(name.encode() + tensors[name].numpy().tobytes())
    return hashed.hexdigest()
