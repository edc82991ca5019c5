"""Splits of the supports into those trained on and those held out (the paper, section 2 and its experiments).

from theory import Supports, splits
split = splits.random(Supports(10, 3), 0.25, seed=0)     # or splits.make("random", Supports(10, 3), 0.25)
split.train.count, split.held_out.count                  # 132, 43
split.train.sample(5, np.random.default_rng(0))          # (5, 3), padded with -1
split.conditions                                         # compositional and connected support, with the witness
"""

from theory.splits.conditions import Conditions
from theory.splits.equal import equal, given
from theory.splits.named import disconnected, hotness, make, non_compositional, popular, random, unpopular
from theory.splits.pools import Pool
from theory.splits.split import Split

__all__ = [
    "Conditions",
    "Pool",
    "Split",
    "disconnected",
    "equal",
    "given",
    "hotness",
    "make",
    "non_compositional",
    "popular",
    "random",
    "unpopular",
]
