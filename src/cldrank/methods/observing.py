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
from cldrank.propensity.cells import cells_together
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases

Target = Estimate | Literal["clicks"]
Floats = NDArray[np.float64]


def observe(
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Curve | None = None,
    target: Target = "ips",
) -> Observations:
    """The weighted rows of a click table; without propensities, all positions count as examined.

        clicks:    two entries per cell, target 1/ρ with weight c and target 0 with weight n - c
        others:    one entry per cell, target as `estimated_relevance` has it, weight n; with affine clicks always
                   (c/n - base) / slope. But for ips, cells that differ in their segment only have one target and one
                   spread, so that they count as one cell

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
    seen = (rows, queries, absent, shown)
    inverse, base = _correction(clicks, propensities)
    n, c = clicks.impressions.astype(np.float64), clicks.clicks.astype(np.float64)
    offsets = np.append(first, clicks.n_cells).astype(np.int64)
    if target != "clicks":
        rate = c / n
        spread = np.maximum(rate * (1 - rate), 0.0) * inverse**2
        expected = (rate - base) * inverse
        if target != "ips" and isinstance(propensities, Propensities | SegmentPropensities):
            spread = _spread_together(clicks, expected, spread)
            expected = estimated_relevance(clicks, propensities, target)
        return Observations(*seen, offsets, expected, n, spread, weights)
    pair = np.stack([c, n - c], axis=1).ravel()
    targets = np.stack([inverse, np.zeros_like(inverse)], axis=1).ravel()
    kept = pair > 0
    cell_offsets = segments.from_lengths(kept.reshape(-1, 2).sum(axis=1))
    nothing = np.zeros(int(kept.sum()))
    return Observations(*seen, cell_offsets[offsets], targets[kept], pair[kept], nothing, weights)


def _spread_together(clicks: ClickTable, target: Floats, spread: Floats) -> Floats:
    """(cells,) the variance around one mean of the cells of a candidate at one position, whatever their segments."""
    if clicks.n_segments == 1:
        return spread
    of, n = cells_together(clicks), clicks.impressions
    weight = np.bincount(of, n)
    away = target - (np.bincount(of, n * target) / weight)[of]
    together: Floats = (np.bincount(of, n * (spread + away**2)) / weight)[of]
    return together


def _correction(clicks: ClickTable, propensities: Curve | None) -> tuple[Floats, Floats]:
    """Of each cell, what its click-through rate less a base is multiplied by, and that base."""
    if propensities is None:
        return np.ones(clicks.n_cells), np.zeros(clicks.n_cells)
    slope, base = slopes_and_bases(propensities, clicks)
    return 1 / slope, base
