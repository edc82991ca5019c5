"""Random streams of training, one for each thing that is random: changing one leaves the others as they were."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral

import numpy as np

#: Keeps these streams apart from those of families, splits and measurements that are made from the same seed.
PURPOSE = int.from_bytes(b"training")


@dataclass(frozen=True)
class Streams:
    """The seed of each stream. encoding: of encodings that draw something anew for each task (few-shot).

    Raises ValueError for a seed that is no integer of at least 0.
    """

    tasks: int = 0
    inputs: int = 0
    encoding: int = 0
    initialisation: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            seed = getattr(self, field.name)
            if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
                raise ValueError(f"seed: {seed!r} must be an integer of at least 0 (of the stream {field.name!r})")

    @classmethod
    def of(cls, seed: int) -> Streams:
        """All from one seed."""
        return cls(seed, seed, seed, seed)

    def generator(self, stream: str, number: int) -> np.random.Generator:
        """The generator of a part of a stream: the block of ``tasks``, ``inputs``, ``encoding``, the layer of
        ``initialisation``. It depends on that stream's seed alone.
        """
        place = [field.name for field in fields(self)].index(stream)
        return np.random.default_rng(np.random.SeedSequence(getattr(self, stream), spawn_key=(PURPOSE, place, number)))
