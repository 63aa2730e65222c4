"""Positions compared within each query, for logs whose order owes nothing to relevance once weighted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank.propensity.cells import Cells
from cldrank.propensity.estimator import SumEstimator, Tally
from cldrank.propensity.pairs import PairSums
from cldrank.propensity.refusal import refuse

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Stratified(SumEstimator):
    """Each position against the first, query by query, so that lists of different lengths do not mix up queries.

        rho_k = sum_q w_qk c_qk / n_qk / sum_q w_qk c_q1 / n_q1,   w_qk = n_qk n_q1 / (n_qk + n_q1)

    c_qk and n_qk are the clicks and impressions of query q at position k. Only queries that show both count, and where
    all pages have the same length this is the ratio of the click-through rates.
    """

    def _tally(self, cells: Cells) -> Tally:
        size, place, query = cells.size, cells.place, cells.query
        impressions, clicks = cells.impressions, cells.clicks
        n_queries = int(query.max()) + 1
        shown = np.bincount(query * size + place, impressions, n_queries * size).reshape(n_queries, size)
        first = shown[:, :1]
        with np.errstate(invalid="ignore", divide="ignore"):
            at_first = np.where(shown > 0, first / (first + shown), 0.0)  # what a click at k counts
            at_place = np.where(shown > 0, shown / (first + shown), 0.0)  # what a click at 1 counts against k
        share = at_first.ravel()[query * size + place]
        sums = np.zeros((cells.n_groups, 4, size))
        sums[:, 0] = cells.by_group(place, clicks * share, size)
        sums[:, 2] = cells.by_group(place, impressions * share, size)
        top = np.flatnonzero(place == 0)
        for k in range(size):  # impressions are counted along, which only matters if candidates are resampled
            against = at_place[query[top], k]
            zero = np.zeros(len(top), dtype=np.int64)
            sums[:, 1, k] = cells.by_group(zero, clicks[top] * against, 1, top)[:, 0]
            sums[:, 3, k] = cells.by_group(zero, impressions[top] * against, 1, top)[:, 0]
        weight = impressions * share
        spread = np.bincount(place, weight**2 / cells.seen, size)
        comparisons = np.bincount(place, weight, size) ** 2 / np.where(spread > 0, spread, 1.0)
        return Tally(sums.reshape(cells.n_groups, -1), comparisons, PairSums.of(cells, "impressions"))

    def _solve(self, sums: Floats) -> Floats:
        clicks, clicks_first, shown, shown_first = sums.reshape(len(sums), 4, -1).swapaxes(0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = (clicks / clicks_first) * (shown_first / shown)
        return np.where(np.isfinite(found), found, np.nan)

    def _require(self, tally: Tally, cells: Cells) -> None:
        sums = tally.sums.sum(axis=0).reshape(4, cells.size)
        silent = np.flatnonzero(~((sums[0] > 0) & (sums[1] > 0)))
        if len(silent):
            raise refuse(
                self.name,
                "no query with clicks at the first position has clicks there, too",
                (silent + 1).tolist(),
                cells.rates(),
                self.confidence,
                "more pages in random order",
            )
