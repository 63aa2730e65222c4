"""Which leaf of a tree each row reaches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def reached_leaves(
    left: Numbers, right: Numbers, rows: int, goes_left: Callable[[Numbers, Numbers], NDArray[np.bool_]]
) -> Numbers:
    """The leaf of each row; `left` and `right` are children by node, -1 at a leaf.

    goes_left   whether rows go left, each at a node: called with rows and nodes

    >>> one = np.array([1, -1, -1])
    >>> reached_leaves(one, one + 1, 3, lambda rows, nodes: rows > 1)
    array([2, 2, 1])
    """
    at = np.zeros(rows, dtype=np.int64)
    moving = np.arange(rows) if left[0] >= 0 else np.arange(0)
    while len(moving):
        nodes = at[moving]
        at[moving] = np.where(goes_left(moving, nodes), left[nodes], right[nodes])
        moving = moving[left[at[moving]] >= 0]
    return at
