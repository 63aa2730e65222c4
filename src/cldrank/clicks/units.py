"""What is drawn together when a log is resampled, by propensity estimators and by the audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray

FEW_QUERIES = 50  # below, candidates are resampled instead: few queries say little about the spread between queries
MOST_GROUPS = 2000
FEWEST_GROUPS = 200
_ENTRIES = 4_000_000  # sums held at a time, of groups by pairs of positions


def many_queries(query: IntArray) -> bool:
    """Whether cells, given the query of each, come from enough queries to resample queries.

    >>> many_queries(np.arange(50)), many_queries(np.arange(100) // 10)
    (True, False)
    """
    return int((np.bincount(query) > 0).sum()) >= FEW_QUERIES  # cheaper than sorting them


def deal(unit: IntArray, positions: int, seed: int = 0) -> tuple[IntArray, int, int]:
    """Units dealt out at random to a bounded number of groups of equal size, or each a group if they are few.

    Gives the group of each entry, the number of groups and that of units. Resampling G random groups of queries has the
    spread of resampling queries, itself known to within 1/sqrt(2 G).
    """
    present = np.bincount(unit) > 0
    code = np.cumsum(present) - 1
    count = int(present.sum())
    pairs = max(positions * (positions - 1) // 2, 1)
    groups = min(count, MOST_GROUPS, max(FEWEST_GROUPS, _ENTRIES // pairs))
    dealt = np.arange(count)
    if groups < count:
        dealt = np.random.default_rng([seed, 0]).permutation(count) % groups
    return dealt[code][unit], groups, count


def draw_weights(n_groups: int, replicates: int, seed: int = 0) -> NDArray[np.float64]:
    """(replicates, groups): how often each replicate draws each group, with replacement.

    >>> draw_weights(4, 2, seed=0).sum(axis=1)
    array([4., 4.])
    """
    random = np.random.default_rng([seed, 1])
    return random.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=replicates).astype(np.float64)
