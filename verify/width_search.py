"""The smallest width that is enough: doubling, then bisection, of a score that rises with the width (assumed)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SmallestWidth:
    """width: the smallest found to reach the target, None where none up to the most did. tried: score of each width."""

    width: int | None
    target: float
    tried: dict[int, float]


def smallest_width(
    score: Callable[[int], float], target: float, *, least: int = 2, most: int = 512, resolution: float = 0.125
) -> SmallestWidth:
    """Search widths from ``least`` to ``most``; the result is at most ``resolution`` (relative) above one that fails.

    Raises ValueError unless 1 <= least <= most.
    """
    if not 1 <= least <= most:
        raise ValueError(f"widths: {least} to {most}; need 1 <= least <= most")
    tried: dict[int, float] = {}

    def reaches(width: int) -> bool:
        tried[width] = score(width)
        return tried[width] >= target

    low, high = 0, least
    while not reaches(high):
        if high == most:
            return SmallestWidth(None, target, tried)
        low, high = high, min(2 * high, most)
    while high - low > max(1, int(resolution * low)):
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return SmallestWidth(high, target, tried)
