"""A split: which supports are trained on, and which are held out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from theory.splits.conditions import Conditions, conditions
from theory.splits.orders import Integers, Order
from theory.splits.pools import Pool, Stretch
from theory.supports import Supports


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """The supports of a family, cut into those trained on, those held out, and those left unused.

    supports: all of them. chosen: the modules that the split singles out (popular, unseen, the first block), if any.
    """

    name: str
    supports: Supports
    train: Pool
    held_out: Pool
    chosen: tuple[int, ...] = ()

    @property
    def unused(self) -> int:
        """Supports that are neither trained on nor held out."""
        return self.supports.count - self.train.count - self.held_out.count

    @property
    def fraction(self) -> float:
        """Share of the supports that are not trained on."""
        return 1 - self.train.count / self.supports.count

    @cached_property
    def conditions(self) -> Conditions:
        """The support conditions of the training supports, with their witness."""
        return conditions(self.train, self.supports.modules)

    def __str__(self) -> str:
        counts = f"{self.train.count:,} supports trained on, {self.held_out.count:,} held out"
        unused = f", {self.unused:,} unused" if self.unused else ""
        return f"{self.name}: {counts}{unused} of {self.supports.count:,}; {self.conditions}"

    def __repr__(self) -> str:
        return f"<Split {self}>"


def cut(
    name: str, supports: Supports, order: Order, held_out: int, trained: int, chosen: tuple[int, ...] = ()
) -> Split:
    """The first ``held_out`` places of the order are held out, the last ``trained`` trained on."""
    pools = Stretch(order, order.count - trained, order.count), Stretch(order, 0, held_out)
    return Split(name, supports, *pools, chosen)


def put_in(order: Order, trained: int, wanted: Integers) -> None:
    """Exchange places so that the wanted supports (n, ..) are among the last ``trained`` of the order.

    What they push out are the first of these that are not wanted themselves.
    """
    places, start = np.unique(order.places(wanted)), order.count - trained
    outside = places[places < start]
    free = np.setdiff1d(np.arange(start, min(start + len(places) + len(outside), order.count)), places)
    order.exchange(outside, free[: len(outside)])
    order.cover = wanted


def joining(modules: int, active: int) -> int:
    """Fewest supports that join so many modules (claim C15); for K = 1, where nothing does, that show each of them."""
    return max(-(-(modules - 1) // (active - 1)), 1) if active > 1 else modules


def chain(modules: Integers, active: int) -> Integers:
    """Fewest supports that join the modules: windows (n, active) on their order, each sharing one with the last."""
    return _windows(modules, active, max(active - 1, 1))


def star(modules: Integers, active: int) -> Integers:
    """As few supports, (n, active), that join the modules: all contain the first. Needs K >= 2 and two modules."""
    others = _windows(modules[1:], active - 1, active - 1)
    return np.insert(others, 0, modules[0], axis=1)


def partition(modules: Integers, active: int) -> Integers:
    """Fewest supports in which every module occurs: ceil(m/K) of them, (n, active)."""
    return _windows(modules, active, active)


def _windows(modules: Integers, active: int, step: int) -> Integers:
    """Windows of ``active`` modules, ``step`` apart; the last is padded with -1."""
    starts = np.arange(0, max(len(modules) - (active - step), 1), step)
    at = starts[:, None] + np.arange(active)
    return np.where(at < len(modules), np.append(modules, -1)[np.minimum(at, len(modules))], -1)
