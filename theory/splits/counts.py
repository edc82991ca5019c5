"""How many supports a fraction leaves for training, and the nearest fraction where that many are impossible."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Real

from theory.supports import Supports


def count_trained(name: str, supports: Supports, fraction: float, ranges: Iterable[tuple[int, int]]) -> int:
    """T - floor(fraction T): how many supports are trained on where this fraction of all T is not.

    ranges: (least, most) that the split can train on; whatever they say, 1 to T - 1. Raises ValueError for a fraction
    outside (0, 1), and for a count in none of the ranges, with the nearest possible fraction.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 < fraction < 1:
        raise ValueError(f"fraction: {fraction!r} must lie between 0 and 1, such as 0.25")
    total = supports.count
    trained = total - floor_share(fraction, total)
    within = [(max(least, 1), min(most, total - 1)) for least, most in ranges]
    possible = [min(max(trained, least), most) for least, most in within if least <= most]
    if not possible:
        raise ValueError(f"supports: {name} holds out none of {supports}; use more modules or active ones")
    nearest = min(possible, key=lambda count: abs(count - trained))
    if nearest != trained:
        raise ValueError(
            f"fraction: {fraction} leaves {trained:,} of {total:,} supports for training, {name} needs "
            f"{'at least' if nearest > trained else 'at most'} {nearest:,}; "
            f"the nearest possible fraction is {share(total - nearest, total, up=nearest < trained)}"
        )
    return trained


def floor_share(fraction: float | Fraction, total: int) -> int:
    """floor(fraction total), exactly; a float is the decimal that was written, not its neighbour in binary."""
    exact = fraction if isinstance(fraction, Fraction) else Fraction(str(float(fraction)))
    return math.floor(exact * total)


def share(count: int, total: int, up: bool) -> float:
    """The shortest decimal with floor(share total) = count; where no float has it, the next one up or down."""
    for places in range(1, 18):
        near = float(Fraction(-(-count * 10**places // total), 10**places))
        if floor_share(near, total) == count:
            return near
    near = count / total
    while floor_share(near, total) < count if up else floor_share(near, total) > count:
        near = math.nextafter(near, 1.0 if up else 0.0)
    return near
