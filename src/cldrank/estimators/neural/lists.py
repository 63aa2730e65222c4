"""From clicks or labels to the lists that pairs are made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.models.linear.least_squares import Rows
from cldrank.models.linear.rows import observe
from cldrank.models.network.lists import Lists
from cldrank.propensity import Propensities


def click_lists(dataset: RankingDataset, clicks: ClickTable, propensities: Propensities | None) -> Lists:
    """One list for each query displayed: r̄ and the impressions of the shown candidates, and those not shown.

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> table = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> lists = click_lists(data, table, Propensities.power(1, 2))
    >>> lists.rows, lists.target, lists.unshown_rows
    (array([0, 1]), array([0.2, 0.4], dtype=float32), array([2]))
    """
    observed = observe(dataset, clicks, propensities)
    target, weight, _ = observed.by_row()
    shown, unshown = observed.rows[observed.shown], observed.rows[observed.absent > 0]
    queries = np.unique(observed.queries)
    return Lists(
        _offsets(dataset.row_queries[shown], queries),
        shown,
        target.astype(np.float32),
        weight.astype(np.float32),
        _offsets(dataset.row_queries[unshown], queries),
        unshown,
        clicks.query_impressions[queries].astype(np.float32),
    )


def row_lists(rows: Rows) -> Lists:
    """One list for each query of the rows of a regression: their targets and weights; nothing that was not shown."""
    queries, counts = np.unique(rows.queries, return_counts=True)
    if rows.rows is None:
        raise AssertionError("the rows of a log are numbered")
    return Lists(
        segments.from_lengths(counts),
        rows.rows,
        rows.target.astype(np.float32),
        rows.weight.astype(np.float32),
        np.zeros(len(queries) + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.ones(len(queries), dtype=np.float32),
    )


def label_lists(dataset: RankingDataset, labels: NDArray[np.float32]) -> Lists:
    """One list for each query: the labels of all its candidates, each of weight 1."""
    return Lists(
        np.asarray(dataset.offsets, dtype=np.int64),
        np.arange(dataset.n_rows),
        np.asarray(labels, dtype=np.float32),
        np.ones(dataset.n_rows, dtype=np.float32),
        np.zeros(dataset.n_queries + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.ones(dataset.n_queries, dtype=np.float32),
    )


def _offsets(owners: IntArray, queries: IntArray) -> IntArray:
    """Where the entries of each query begin, in entries that lie query by query."""
    counts = np.searchsorted(owners, queries, side="right") - np.searchsorted(owners, queries)
    offsets: IntArray = segments.from_lengths(counts)
    return offsets
