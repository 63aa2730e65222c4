"""From a click table to weighted rows: what was seen of each candidate, however many sessions saw it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods.relevance import Estimate, estimated_relevance
from cldrank.models.targets import Observations
from cldrank.propensity import Propensities, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases

Target = Estimate | Literal["clicks"]
Floats = NDArray[np.float64]


def observe(
    dataset: RankingDataset, clicks: ClickTable, propensities: Curve | None = None, target: Target = "ips"
) -> Observations:
    """The weighted rows of a click table; without propensities, all positions count as examined.

    Each cell is an entry, with its impressions n for a weight and the target that `estimated_relevance` gives; with
    affine clicks always (c/n - base) / slope, where c is `ClickTable.credit`. With clicks for a target there are two
    entries per cell: 1/ρ with weight c, and 0 with weight n - c. Weights of queries multiply all weights.

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> table = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> observed = observe(data, table, Propensities.power(1, 2))
    >>> observed.target, observed.weight, observed.absent
    (array([0.2, 0.4]), array([10., 10.]), array([ 0., 0., 10.]))
    """
    pages = clicks.query_impressions
    displayed = np.flatnonzero(pages > 0)
    rows = segments.rows_of_segments(dataset.offsets, displayed)
    queries = np.repeat(displayed, dataset.sizes[displayed])
    shown_rows, first = np.unique(clicks.row, return_index=True)
    weights = pages.astype(np.float64)
    absent = np.repeat(weights[displayed], dataset.sizes[displayed])
    shown = np.searchsorted(rows, shown_rows)
    absent[shown] = 0.0
    inverse, base = _correction(clicks, propensities)
    n = clicks.impressions.astype(np.float64)
    expected = (clicks.credit / n - base) * inverse
    offsets = np.append(first, clicks.n_cells).astype(np.int64)
    if target == "clicks":
        targets = np.stack([inverse, np.zeros_like(inverse)], axis=1).ravel()
        pair = np.stack([clicks.clicks, n - clicks.clicks], axis=1)
        ends, kept = segments.from_lengths((pair > 0).sum(axis=1)), pair.ravel() > 0
        observed = Observations(rows, queries, absent, shown, ends[offsets], targets[kept], pair.ravel()[kept], weights)
        return observed.weighted(dataset.query_weights)
    if target != "ips" and isinstance(propensities, Propensities | SegmentPropensities):
        expected = estimated_relevance(clicks, propensities, target)
    observed = Observations(rows, queries, absent, shown, offsets, expected, n, weights)
    return observed.weighted(dataset.query_weights)


def _correction(clicks: ClickTable, propensities: Curve | None) -> tuple[Floats, Floats]:
    """Of each cell, what its click-through rate less a base is multiplied by, and that base."""
    if propensities is None:
        return np.ones(clicks.n_cells), np.zeros(clicks.n_cells)
    slope, base = slopes_and_bases(propensities, clicks)
    return 1 / slope, base
