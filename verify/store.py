"""Results on disk: one row a run in an SQLite table, keyed by the run's configuration, and its network beside it.

A folder holds ``runs.sqlite``, ``networks/KEY.safetensors`` and ``checkpoints``. A row is written when its run has
ended, in one transaction, so that a kill loses at most what was in flight, and several processes may write to one
folder. The column ``version`` says which kofm wrote the row.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from verify.training.layers import Layer, layers_of, network_of_layers
from verify.version import version

Row = dict[str, Any]

_TABLE = """
CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, config TEXT NOT NULL, row TEXT NOT NULL, version TEXT NOT NULL,
    written TEXT DEFAULT CURRENT_TIMESTAMP
)
"""


def key_of(config: Row) -> str:
    """A digest of a configuration (JSON types): the same for the same settings in any order."""
    return hashlib.sha256(_canonical(config).encode()).hexdigest()[:32]


def _canonical(config: Row) -> str:
    return json.dumps(config, sort_keys=True, allow_nan=False)


def require_folder(folder: Path) -> None:
    """Make the folder if it is not there; ValueError, one line, where files cannot be written into it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name one that is, or is not there yet")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.tmp"
        probe.touch()
        probe.unlink()
    except OSError as reason:
        raise ValueError(f"{folder} cannot be written ({reason.strerror}); name another folder") from reason


class Store:
    """A folder of results. Raises ValueError, one line, where it cannot be read or written."""

    def __init__(self, folder: str | Path) -> None:
        if not str(folder):
            raise ValueError("results: name a folder")
        self.folder = Path(folder)
        for part in (self.folder, self.networks, self.checkpoints):
            require_folder(part)
        with self._connection() as connection:
            connection.execute(_TABLE)

    @property
    def networks(self) -> Path:
        """Where networks lie."""
        return self.folder / "networks"

    @property
    def checkpoints(self) -> Path:
        """Where unfinished training lies."""
        return self.folder / "checkpoints"

    def get(self, config: Row) -> Row | None:
        """The row of a finished run, or None."""
        with self._connection() as connection:
            found = connection.execute("SELECT row FROM runs WHERE key = ?", (key_of(config),)).fetchone()
            return None if found is None else json.loads(found[0])

    def put(self, kind: str, config: Row, row: Row) -> None:
        """Store the row of a run; one that was there is replaced. Raises ValueError for NaN and infinity."""
        values = [key_of(config), kind, _canonical(config), json.dumps(row, allow_nan=False), version()]
        with self._connection() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO runs (key, kind, config, row, version) VALUES (?, ?, ?, ?, ?)", values
            )

    def rows(self, kind: str | None = None) -> list[tuple[Row, Row]]:
        """(configuration, row) of all finished runs, of one kind or all, in the order of their keys."""
        with self._connection() as connection:
            found = connection.execute(
                "SELECT config, row FROM runs WHERE kind = ? OR ? IS NULL ORDER BY key", (kind, kind)
            ).fetchall()
            return [(json.loads(config), json.loads(row)) for config, row in found]

    def put_network(self, config: Row, network: nn.Module) -> str:
        """Store a network of Linear and ReLU: weight_i (fan_out, fan_in), bias_i (fan_out,). Returns its digest."""
        path = self._network(config)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            written = save(tensors_of(network))
            temporary.write_bytes(written)
            os.replace(temporary, path)
            return hashlib.sha256(written).hexdigest()
        except OSError as reason:
            raise ValueError(f"results: {path} cannot be written ({reason.strerror}); make room for it") from reason
        finally:
            temporary.unlink(missing_ok=True)

    def get_network(self, config: Row, digest: str | None = None) -> nn.Sequential | None:
        """The network stored for a configuration; None where there is none, or (said on stderr) a damaged one, or one
        whose file is not that of the digest (None: any).
        """
        path = self._network(config)
        try:
            if not path.is_file():
                return None
            if digest not in (None, hashlib.sha256(path.read_bytes()).hexdigest()):
                raise ValueError("it was changed after it was written")
            return network_of(load_file(path))
        except (SafetensorError, ValueError, OSError) as reason:
            print(f"kofm: {path} is not used ({str(reason).splitlines()[0]})", file=sys.stderr)
            return None

    def _network(self, config: Row) -> Path:
        return self.networks / f"{key_of(config)}.safetensors"

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        path = self.folder / "runs.sqlite"
        try:
            with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
                yield connection
        except (sqlite3.DatabaseError, json.JSONDecodeError) as reason:
            raise ValueError(
                f"results: {path} is not usable ({reason}); move it away, or name another folder"
            ) from reason


def tensors_of(network: nn.Module) -> dict[str, torch.Tensor]:
    """weight_i (fan_out, fan_in) and bias_i (fan_out,) of a stack of Linear and ReLU. Raises ValueError for others."""
    layers = enumerate(layers_of(network))
    return {
        f"{name}_{i}": t.contiguous() for i, layer in layers for name, t in zip(("weight", "bias"), layer, strict=True)
    }


def network_of(tensors: dict[str, torch.Tensor]) -> nn.Sequential:
    """The network of Linear and ReLU with these weights and biases. Raises ValueError, one line, where they do not fit.

    Other keys than weight_i, bias_i (i = 0, 1, ..) are not looked at.
    """
    layers = 0
    while f"weight_{layers}" in tensors:
        layers += 1
    if not layers:
        raise ValueError(
            "weight_0: not there, or no matrix; need weight_i (fan_out, fan_in), bias_i (fan_out,) for i = 0, 1, .."
        )
    beyond = sorted(
        key for key in tensors if key.startswith("weight_") and key[7:].isdigit() and int(key[7:]) >= layers
    )
    if beyond:
        raise ValueError(f"weight_{layers}: not there, though {beyond[0]} is; number the layers 0, 1, ..")
    found: list[Layer] = []
    width: int | None = None
    for i in range(layers):
        weight = tensors[f"weight_{i}"]
        if f"bias_{i}" not in tensors:
            raise ValueError(f"bias_{i}: not there; need bias_i (fan_out,) beside weight_{i}")
        bias = tensors[f"bias_{i}"]
        if weight.dim() != 2 or 0 in weight.shape or (width is not None and weight.shape[1] != width):
            wanted = "(fan_out, fan_in)" if width is None else f"(fan_out, {width})"
            raise ValueError(f"weight_{i}: shape {tuple(weight.shape)}, need {wanted}")
        if bias.shape != weight.shape[:1]:
            raise ValueError(f"bias_{i}: shape {tuple(bias.shape)}, need ({weight.shape[0]},)")
        for name, tensor in ((f"weight_{i}", weight), (f"bias_{i}", bias)):
            if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"{name}: holds NaN, infinite or whole numbers; need finite floats")
        found.append((weight.clone(), bias.to(weight.dtype, copy=True)))
        width = weight.shape[0]
    return network_of_layers(found)
