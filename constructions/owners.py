"""Owners: sums over what can be on together. One idea for errors, ranges and rounding alike.

Tables by owner are sparse (rows, modules + 1): a column for each entry of z, whose being 0 makes the contribution 0,
and a last column for what is always there.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from theory.arithmetic import Array
from theory.domains import Domain


def collect(contributions: sp.csr_matrix, owner: Array, size: int) -> sp.csr_matrix:
    """Sum the columns (neurons) of each owner: (rows, size + 1), the last column for neurons that nothing switches."""
    n = len(owner)
    column = np.where(owner >= 0, owner, size)
    gather = sp.csr_matrix((np.ones(n), (np.arange(n), column)), shape=(n, size + 1))
    return (contributions @ gather).tocsr()


def worst_sum(by_module: sp.csr_matrix, z: Domain) -> Array:
    """Largest sum of each row over all tasks; the last column is always there. (rows,), rounded up."""
    always = np.asarray(by_module[:, -1].todense()).ravel()
    return (always + z.worst(by_module[:, :-1].tocsr())) * (1 + 2.0**-40)
