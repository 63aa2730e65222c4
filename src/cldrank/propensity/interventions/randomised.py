"""`Randomised`: click-through rates of pages in random order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.errors import Spelling, UnidentifiableError
from cldrank.parameters import parameter, value
from cldrank.propensity.checks.refusal import ALL_PAIRS
from cldrank.propensity.counts import Cells, PairSums
from cldrank.propensity.estimator import SumEstimator, Tally

Floats = NDArray[np.float64]


@value
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
        why = "no query with clicks at the first position has clicks there, too"
        self._refuse_silent(silent, cells, why, "more pages in random order")


@value
class Randomised(Stratified):
    """From pages in random order, where every position has results of the same relevance (Wang et al. 2016).

        rho_k = click-through rate at k / click-through rate at 1, over the queries whose pages reach k

    The table must hold the shuffled sessions alone. Queries are compared with themselves only, so lists may differ in
    length.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> Randomised().fit(clicks)
    Propensities(1, 0.25; Randomised, 60 candidates)
    """

    check_order: bool = parameter(default=True, about="Refuse a log whose order is not random")

    name = "randomised"
    label = "Randomised"
    sentence = "Pages in random order, compared by position within each query"
    order = 10

    def _cells(self, clicks: ClickTable) -> Cells:
        from cldrank.clicks.audit.overlap import display_order

        cells = super()._cells(clicks)
        order = display_order(clicks) if self.check_order else None
        if order is not None and order.looks in ("mixed", "fixed"):
            raise UnidentifiableError(
                "{} needs pages in random order, but here the candidate determines the position (strength {:.2f}, "
                "where 0 is random and 1 fixed): click-through rates mix relevance with position. Keep only the "
                "shuffled sessions; a log of several rankers is for {}. {} goes on regardless, and is biased.",
                self.spelling,
                order.strength,
                ALL_PAIRS,
                Spelling("check_order=False", "--no-check-order"),
                positions=tuple(range(1, cells.size + 1)),
            )
        return cells
