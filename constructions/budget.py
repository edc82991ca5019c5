"""The error budget: how many pieces each product gets, so that the neurons are few and no output errs too much.

Products of one group (those of one module, or all of a mixture) act together; groups that cannot meet do not share
a budget. Within a group, minimise the number of neurons subject to, for every output o,

    sum_r weight[r, o] c_r / n_r^2 <= budget.

Stationarity (Lagrange): shallow, where a product costs 2 n_r, n_r ~ (lambda_r c_r)^(1/3); deep, where it costs
about log n_r, n_r ~ (lambda_r c_r)^(1/2); lambda_r = sum_o lambda_o weight[r, o]. Multiplicative updates find
lambda; whatever they find, the integers that come out are checked and scaled until feasible (theory.md, C4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from theory.arithmetic import Array

UPDATES = 40
BISECTIONS = 24

#: float64 counts pieces exactly up to here.
MOST_PIECES = 2.0**50


def allocate(
    half: Array, weight: Array, group: Array, budget: float, exponent: float, round_up: Callable[[Array], Array]
) -> Array:
    """Integer pieces (terms,) for error constants ``half`` (terms,): c_r.

    weight: (terms, outputs) >= 0, what an error of term r does to output o. group: (terms,) from 0.
    exponent: 1/3 (shallow) or 1/2 (deep). round_up: real pieces >= 1 -> the pieces
    really built (odd numbers, products of radices).
    """
    groups = int(group.max(initial=-1)) + 1
    together = sp.csr_matrix((np.ones(len(group)), (group, np.arange(len(group)))), shape=(groups, len(group)))
    scaled = weight * half[:, None] / budget  # a group is feasible when the sums of scaled / n^2 are at most 1

    def load(pieces: Array) -> Array:
        return np.asarray(together @ (scaled / pieces[:, None] ** 2))

    multiplier = np.ones((groups, weight.shape[1]))
    pieces = np.ones(len(group))
    for _ in range(UPDATES):
        pieces = np.maximum((multiplier[group] * scaled).sum(axis=1), 1e-300) ** exponent
        now = load(pieces)
        level = np.maximum(now.max(axis=1, keepdims=True), 1e-300)
        pieces = pieces * np.sqrt(level)[group, 0]
        multiplier *= np.maximum(now / level, 1e-6)
    pieces = np.maximum(pieces, 1.0)
    if pieces.max(initial=0.0) > MOST_PIECES:
        raise ValueError(f"eps: a product would need {pieces.max():.2g} pieces; use a larger eps or smaller weights")

    low, high = np.zeros(groups), np.full(groups, 2.0)  # 2 n is feasible: rounding up never adds error
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        fits = load(round_up(np.maximum(pieces * middle[group], 1.0))).max(axis=1, initial=0.0) <= 1
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return round_up(np.maximum(pieces * high[group], 1.0)).astype(int)
