"""Checkpoints: what is needed to go on, in one file that is replaced as a whole."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

FORMAT = "kofm-checkpoint-1"


def write(path: Path, digest: str, block: int, tensors: dict[str, torch.Tensor], losses: list[list[float]]) -> None:
    """Replace the file. digest: of everything that the run depends on. block: how many blocks are done."""
    about = {"format": FORMAT, "digest": digest, "block": str(block), "losses": json.dumps(losses)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(save({k: t.detach().cpu().contiguous() for k, t in tensors.items()}, about))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path, digest: str) -> tuple[int, dict[str, torch.Tensor], list[list[float]]] | None:
    """What was written for this digest, or None: no file, or one that is of another run or damaged (said on stderr)."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            about = stored.metadata() or {}
            if about.get("format") != FORMAT:
                raise ValueError("not a checkpoint of this version")
            if about["digest"] != digest:
                raise ValueError("it is of a run with other settings")
            tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 (not a dict)
        return int(about["block"]), tensors, json.loads(about["losses"])
    except (OSError, ValueError, KeyError, SafetensorError) as reason:
        print(f"kofm: {path} is not used ({str(reason).splitlines()[0]}); training starts anew", file=sys.stderr)
        return None
