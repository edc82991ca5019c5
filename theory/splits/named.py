"""The splits by name. Each is an order of segments: supports are held out from its front, trained on from its end."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from theory.splits.conditions import conditions
from theory.splits.orders import Order, Sizes
from theory.splits.pools import Stretch
from theory.splits.split import Split, chain, cut, partition, put_in
from theory.supports import Supports

#: Streams of one seed: the modules that are singled out, the order, the cover.
CHOICE, ORDER, COVER = range(3)


def random(supports: Supports, fraction: float, seed: int = 0, keep_single: bool = False) -> Split:
    """Hold out floor(fraction T) of all T supports, drawn uniformly.

    keep_single: never supports of one module (they are trained on, and T counts them all the same). Where the
    training supports drawn are not connected, a random chain of ceil((M-1)/(K-1)) supports that joins all modules takes
    the place of as many others; where that is more than are trained on, ceil(M/K) in which every module occurs.
    Raises ValueError where not even these fit, or nothing would be held out.
    """
    sizes = range(1, supports.active + 1)
    some: list[Sizes] = [(k,) for k in sizes if k > 1 or not keep_single]
    single: list[Sizes] = [(1,)]
    segments = [some, single] if keep_single else [some]
    return _by_front("random", supports, [range(supports.modules)], segments, fraction, seed)


def popular(supports: Supports, fraction: float, seed: int = 0, modules: int = 1) -> Split:
    """Hold out floor(fraction T) supports, those without any of a few modules, drawn at random, first.

    So what is trained on contains a popular module as often as it can. Connected as ``random`` is.
    """
    chosen, groups = _single_out(supports, modules, seed)
    without, containing = _cells(supports, modules)
    return _by_front("popular", supports, groups, [without, containing], fraction, seed, chosen)


def unpopular(supports: Supports, fraction: float, seed: int = 0, modules: int = 1) -> Split:
    """Hold out floor(fraction T) supports, those that contain one of a few modules, drawn at random, first.

    A few with each stay in training: connected as ``random`` is.
    """
    chosen, groups = _single_out(supports, modules, seed)
    without, containing = _cells(supports, modules)
    return _by_front("unpopular", supports, groups, [containing, without], fraction, seed, chosen)


def non_compositional(supports: Supports, fraction: float | None = None, seed: int = 0, modules: int = 1) -> Split:
    """A few modules, drawn at random, are never seen in training; what contains one of them is held out.

    fraction: the share of all supports not to be trained on; of the supports without these modules, so many are left
    unused. None: all of them are trained on. Raises ValueError for a smaller fraction than that.
    """
    chosen, groups = _single_out(supports, modules, seed)
    without, containing = _cells(supports, modules)
    order = Order(groups, [containing, without], supports.active, [seed, ORDER])
    held, most = (order.segments[i].count for i in (0, 1))
    trained = _thinned("non-compositional", supports, fraction, most)
    _cover_groups(order, trained, groups[1:], supports.active, seed)
    return cut("non-compositional", supports, order, held, trained, chosen)


def disconnected(supports: Supports, fraction: float | None = None, seed: int = 0) -> Split:
    """Two blocks of modules, drawn at random, never meet in training; the supports across are held out.

    Each block is connected in itself. fraction: the share of all supports not to be trained on: of the blocks that
    allow it the most balanced ones are taken, some supports inside them left unused. None: equal blocks, none unused.
    Raises ValueError for a fraction no blocks allow, and for K = 1, where no two modules ever meet.
    """
    m, k = supports.modules, supports.active
    if k < 2 or m < 2:
        raise ValueError(f"disconnected: modules meet in no task (modules = {m}, active = {k}); needs both at least 2")
    inside = {a: Supports(a, min(a, k)).count + Supports(m - a, min(m - a, k)).count for a in range(m // 2, 0, -1)}
    if fraction is None:
        block = m // 2
    else:
        wanted = supports.count - _held(supports, fraction)
        block = next((a for a, count in inside.items() if count >= wanted), 1)
    trained = _thinned("disconnected", supports, fraction, inside[block])
    modules = _stream(seed, CHOICE).permutation(m)
    groups = [sorted(modules[:block].tolist()), sorted(modules[block:].tolist())]
    within = [(a, b) for a in range(k + 1) for b in range(k + 1 - a) if (a == 0) != (b == 0)]
    across = [(a, b) for a in range(1, k) for b in range(1, k + 1 - a)]
    order = Order(groups, [across, within], k, [seed, ORDER])
    _cover_groups(order, trained, groups, k, seed)
    return cut("disconnected", supports, order, order.segments[0].count, trained, tuple(groups[0]))


def hotness(modules: int, trained: int, tested: int, seed: int = 0) -> Split:
    """Train on supports of 1 to ``trained`` modules, hold out those of ``trained`` + 1 to ``tested``."""
    if not 1 <= trained < tested <= modules:
        raise ValueError(f"hotness: need 1 <= trained < tested <= modules, got {trained}, {tested}, {modules}")
    supports = Supports(modules, tested)
    segments = [[(k,) for k in range(trained + 1, tested + 1)], [(k,) for k in range(1, trained + 1)]]
    order = Order([range(modules)], segments, tested, [seed, ORDER])
    return cut("hotness", supports, order, order.segments[0].count, order.segments[1].count)


def make(name: str, supports: Supports, fraction: float | None = None, seed: int = 0) -> Split:
    """The split of this name. Raises ValueError for an unknown name, for a fraction that is missing or impossible."""
    from theory.splits.equal import equal

    makers: dict[str, Callable[..., Split]] = {
        "random": random,
        "equal": equal,
        "popular": popular,
        "unpopular": unpopular,
        "disconnected": disconnected,
        "non-compositional": non_compositional,
    }
    if name not in makers:
        raise ValueError(f"split: {name!r} is unknown; use one of {', '.join(makers)}")
    if fraction is None and name in ("random", "equal", "popular", "unpopular"):
        raise ValueError(f"split: {name} needs the fraction of supports to hold out, such as 0.25")
    return makers[name](supports, fraction, seed)


def _by_front(
    name: str,
    supports: Supports,
    groups: list[Any],
    segments: list[list[Sizes]],
    fraction: float,
    seed: int,
    chosen: tuple[int, ...] = (),
) -> Split:
    """Hold out from the front of the order, and see to it that what is left is connected, or at least compositional."""
    order = Order(groups, segments, supports.active, [seed, ORDER])
    held = _held(supports, fraction)
    trained = supports.count - held
    m, k = supports.modules, supports.active
    joining = -(-(m - 1) // (k - 1)) if k > 1 else m  # for K = 1 nothing joins two modules
    covering = -(-m // k)
    if trained < covering:
        most = supports.count - covering
        raise ValueError(
            f"fraction: {fraction:g} leaves {trained:,} training supports; {m} modules need {covering}: "
            f"at most {_below(most, supports.count):.6g}"
        )
    if not conditions(Stretch(order, held, order.count), m).connected:
        cover = chain if k > 1 and joining <= trained else partition
        put_in(order, trained, cover(np.arange(m), k, _stream(seed, COVER)))
    return cut(name, supports, order, held, trained, chosen)


def _single_out(supports: Supports, modules: int, seed: int) -> tuple[tuple[int, ...], list[list[int]]]:
    """Some modules drawn at random, and the two groups: these, and the others."""
    if not 1 <= modules < supports.modules:
        raise ValueError(f"modules: {modules} to single out; need 1 to {supports.modules - 1}")
    order = _stream(seed, CHOICE).permutation(supports.modules)
    groups = [sorted(order[:modules].tolist()), sorted(order[modules:].tolist())]
    return tuple(groups[0]), groups


def _cells(supports: Supports, modules: int) -> tuple[list[Sizes], list[Sizes]]:
    """Cells without and with the modules singled out."""
    k, others = supports.active, supports.modules - modules
    without: list[Sizes] = [(0, b) for b in range(1, min(k, others) + 1)]
    containing: list[Sizes] = [(a, b) for a in range(1, min(k, modules) + 1) for b in range(min(k - a, others) + 1)]
    return without, containing


def _cover_groups(order: Order, trained: int, groups: list[list[int]], active: int, seed: int) -> None:
    """Put a chain through each group into training, where what was drawn does not join it already."""
    at = Stretch(order, order.count - trained, order.count)
    found = conditions(at, order.modules)
    if found.decided and {tuple(g) for g in groups} == set(found.blocks):
        return
    generator = _stream(seed, COVER)
    chains = [
        chain(np.array(g), active, generator) if active > 1 else partition(np.array(g), 1, generator) for g in groups
    ]
    needed = sum(map(len, chains))
    if trained < needed:
        raise ValueError(
            f"fraction: only {trained:,} supports would be trained on; {needed} are needed to join the modules: "
            f"use a smaller one"
        )
    put_in(order, trained, np.concatenate(chains))


def _held(supports: Supports, fraction: float) -> int:
    """floor(fraction T), the fraction read as the decimal that was written. ValueError unless 1 <= that < T."""
    if isinstance(fraction, bool) or not 0 < fraction < 1:
        raise ValueError(f"fraction: {fraction} must lie between 0 and 1, such as 0.25")
    held = int(Fraction(str(float(fraction))) * supports.count)
    if not 1 <= held < supports.count:
        raise ValueError(
            f"fraction: {fraction:g} of {supports.count:,} supports is none; need at least {1 / supports.count:.3g}"
        )
    return held


def _thinned(name: str, supports: Supports, fraction: float | None, most: int) -> int:
    """How many supports are trained on: all ``most``, or as the fraction says. ValueError where that is more."""
    if fraction is None:
        return most
    trained = supports.count - _held(supports, fraction)
    if trained > most:
        raise ValueError(
            f"fraction: {name} cannot train on {trained:,} supports, at most on {most:,}; "
            f"the nearest possible fraction is {1 - most / supports.count:.6g}"
        )
    return trained


def _below(held: int, count: int) -> float:
    """A fraction of which floor(fraction count) is ``held``."""
    return (held + 0.5) / count


def _stream(seed: int, part: int) -> np.random.Generator:
    if seed < 0:
        raise ValueError(f"seed: {seed} must be an integer of at least 0")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))
