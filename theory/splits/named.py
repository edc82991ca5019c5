"""The splits by name. Each is an order of segments: supports are held out from its front, trained on from its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from theory.splits.conditions import conditions
from theory.splits.counts import count_trained
from theory.splits.equal import equal
from theory.splits.orders import CHOICE, COVER, ORDER, Integers, Order, Sizes, stream
from theory.splits.pools import Stretch
from theory.splits.split import Split, chain, cut, joining, partition, put_in, star
from theory.supports import Supports, _integer


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
    kept = supports.modules if keep_single else 0
    return _by_front("random", supports, [range(supports.modules)], segments, fraction, seed, chain, kept=kept)


def popular(supports: Supports, fraction: float, seed: int = 0, modules: int = 1) -> Split:
    """Hold out floor(fraction T) supports, those without any of a few modules, drawn at random, first.

    So as many training supports as can contain one of them. Connected as ``random`` is, by supports that all contain
    one; only where those are more than are trained on, by ceil(M/K) of which few do.
    """
    chosen, groups = _single_out(supports, modules, seed)
    without, containing = _cells(supports, modules)
    return _by_front("popular", supports, groups, [without, containing], fraction, seed, star, chosen)


def unpopular(supports: Supports, fraction: float, seed: int = 0, modules: int = 1) -> Split:
    """Hold out floor(fraction T) supports, those that contain one of a few modules, drawn at random, first.

    As few as can be (for fewer than K modules: one) stay in training nevertheless: connected as ``random`` is.
    """
    chosen, groups = _single_out(supports, modules, seed)
    without, containing = _cells(supports, modules)
    return _by_front("unpopular", supports, groups, [containing, without], fraction, seed, chain, chosen)


def non_compositional(supports: Supports, fraction: float | None = None, seed: int = 0, modules: int = 1) -> Split:
    """A few modules, drawn at random, are never seen in training; what contains one of them is held out.

    fraction: the share of all supports not to be trained on; of the supports without these modules, so many are left
    unused, the others joined. None: all of them are trained on. Raises ValueError for a fraction that cannot be.
    """
    chosen, groups = _single_out(supports, modules, seed)
    without, containing = _cells(supports, modules)
    order = Order(groups, [containing, without], supports.active, [seed, ORDER])
    held, trained = (segment.count for segment in order.segments)
    if fraction is not None:
        least = joining(supports.modules - modules, supports.active)
        trained = count_trained("non-compositional", supports, fraction, [(least, trained)])
    _join_groups(order, trained, groups[1:], supports.active, seed)
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
    ranges = {a: _inside(a, m, k) for a in range(m // 2, 0, -1)}
    block, trained = m // 2, ranges[m // 2][1]
    if fraction is not None:
        trained = count_trained("disconnected", supports, fraction, ranges.values())
        block = next(a for a, (least, most) in ranges.items() if least <= trained <= most)
    modules = stream(seed, CHOICE).permutation(m)
    groups = [sorted(modules[:block].tolist()), sorted(modules[block:].tolist())]
    within = [(a, b) for a in range(k + 1) for b in range(k + 1 - a) if (a == 0) != (b == 0)]
    across = [(a, b) for a in range(1, k) for b in range(1, k + 1 - a)]
    order = Order(groups, [across, within], k, [seed, ORDER])
    _join_groups(order, trained, groups, k, seed)
    return cut("disconnected", supports, order, order.segments[0].count, trained, tuple(groups[0]))


def hotness(modules: int, trained: int, tested: int, seed: int = 0) -> Split:
    """Train on supports of 1 to ``trained`` modules, hold out those of ``trained`` + 1 to ``tested``."""
    for name, value in (("modules", modules), ("trained", trained), ("tested", tested)):
        _integer(value, name, least=1)
    if not trained < tested <= modules:
        raise ValueError(f"hotness: need 1 <= trained < tested <= modules, got {trained}, {tested}, {modules}")
    supports = Supports(modules, tested)
    segments = [[(k,) for k in range(trained + 1, tested + 1)], [(k,) for k in range(1, trained + 1)]]
    order = Order([range(modules)], segments, tested, [seed, ORDER])
    return cut("hotness", supports, order, order.segments[0].count, order.segments[1].count)


def make(name: str, supports: Supports, fraction: float | None = None, seed: int = 0) -> Split:
    """The split of this name; hotness holds out the supports of more than K modules, up to all M.

    Raises ValueError for an unknown name, for a fraction that is missing or impossible.
    """
    makers: dict[str, Callable[..., Split]] = {
        "random": random,
        "equal": equal,
        "popular": popular,
        "unpopular": unpopular,
        "disconnected": disconnected,
        "non-compositional": non_compositional,
        "hotness": _beyond,
    }
    if name not in makers:
        raise ValueError(f"split: {name!r} is unknown; use one of {', '.join(makers)}")
    if fraction is None and name in ("random", "equal", "popular", "unpopular"):
        raise ValueError(f"split: {name} needs the fraction of supports to hold out, such as 0.25")
    return makers[name](supports, fraction, seed)


def _beyond(supports: Supports, fraction: float | None, seed: int) -> Split:
    """Hotness beyond K: train on all supports, hold out those of K + 1 to M modules."""
    if fraction is not None:
        raise ValueError(f"fraction: {fraction}; hotness trains on all supports of up to K modules, so give none")
    return hotness(supports.modules, supports.active, supports.modules, seed)


def _by_front(
    name: str,
    supports: Supports,
    groups: list[Any],
    segments: list[list[Sizes]],
    fraction: float,
    seed: int,
    join: Callable[[Integers, int], Integers],
    chosen: tuple[int, ...] = (),
    kept: int = 0,
) -> Split:
    """Hold out from the front of the order, and see to it that what is left is connected, or at least compositional.

    join: makes the cover, of the modules at random, those of the first group first: so one of them is the centre of a
    star, or they are in as few supports of a chain as can be. kept: so many supports at the end, which show every
    module if there are any, give way to nothing.
    """
    order = Order(groups, segments, supports.active, [seed, ORDER])
    m, k = supports.modules, supports.active
    trained = count_trained(name, supports, fraction, [(kept or -(-m // k), order.count)])
    if not conditions(Stretch(order, order.count - trained, order.count), m).connected:
        generator = stream(seed, COVER)
        modules = np.concatenate([generator.permutation(group) for group in groups])
        if k > 1 and kept + joining(m, k) <= trained:
            put_in(order, trained, join(modules, k))
        elif not kept:
            put_in(order, trained, partition(modules, k))
    return cut(name, supports, order, order.count - trained, trained, chosen)


def _single_out(supports: Supports, modules: int, seed: int) -> tuple[tuple[int, ...], list[list[int]]]:
    """Some modules drawn at random, and the two groups: these, and the others."""
    if not _integer(modules, "modules", least=1) < supports.modules:
        raise ValueError(f"modules: {modules} to single out; need 1 to {supports.modules - 1}")
    order = stream(seed, CHOICE).permutation(supports.modules)
    groups = [sorted(order[:modules].tolist()), sorted(order[modules:].tolist())]
    return tuple(groups[0]), groups


def _cells(supports: Supports, modules: int) -> tuple[list[Sizes], list[Sizes]]:
    """Cells without and with the modules singled out."""
    k, others = supports.active, supports.modules - modules
    without: list[Sizes] = [(0, b) for b in range(1, min(k, others) + 1)]
    containing: list[Sizes] = [(a, b) for a in range(1, min(k, modules) + 1) for b in range(min(k - a, others) + 1)]
    return without, containing


def _inside(block: int, modules: int, active: int) -> tuple[int, int]:
    """The fewest and the most supports inside two blocks, of ``block`` and the other modules, each of them joined."""
    blocks = (block, modules - block)
    return sum(joining(b, active) for b in blocks), sum(Supports(b, min(b, active)).count for b in blocks)


def _join_groups(order: Order, trained: int, groups: list[list[int]], active: int, seed: int) -> None:
    """Put a chain through each group into training, where what was drawn does not join it already."""
    found = conditions(Stretch(order, order.count - trained, order.count), order.modules)
    if found.decided and {tuple(g) for g in groups} == set(found.blocks):
        return
    generator = stream(seed, COVER)
    put_in(order, trained, np.concatenate([chain(generator.permutation(g), active) for g in groups]))
