"""Click-through rates by position: of pages in random order, or plain ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.parameters import value
from cldrank.propensity.cells import Cells, PairSums
from cldrank.propensity.estimator import CellEstimator, Sample
from cldrank.propensity.identifiability import Requirement, display_order


@value
class Randomised(CellEstimator):
    """From pages in random order, where every position has results of the same relevance (Wang et al. 2016).

        rho_k = sum_q w_qk c_qk / n_qk / sum_q w_qk c_q1 / n_q1,   w_qk = n_qk n_q1 / (n_qk + n_q1)

    c_qk and n_qk are the clicks and impressions of query q at position k. Queries are compared with themselves only, so
    lists may differ in length; where all have the same, this is the ratio of the click-through rates. The table must
    hold the shuffled sessions alone.
    """

    name = "randomised"
    sentence = "Pages in random order, compared by position within each query"
    order = 10

    def requirements(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> Requirement:
        """Whether the order looks random; one that is unknown may be, so that `fit` goes on, but is not shown to be."""
        requirement, order = super().requirements(clicks, dataset), display_order(clicks)
        if not requirement.met:
            return requirement
        return replace(requirement, met=order.looks == "random", reason=str(order), approximate=order.nearly)

    def _cells(self, clicks: ClickTable) -> Cells:
        cells = super()._cells(clicks)
        order = display_order(clicks)
        if order.looks in ("mixed", "fixed"):
            raise UnidentifiableError(
                f"randomised needs pages in random order, but here the candidate determines the position (strength "
                f"{order.strength:.2f}, where 0 is random and 1 fixed): click-through rates mix relevance with "
                "position. Keep only the shuffled sessions; a log of several rankers is for all-pairs.",
                positions=tuple(range(1, cells.size + 1)),
                reason=str(order),
            )
        return cells

    def _sample(self, cells: Cells) -> Sample:
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
        silent = np.flatnonzero(~(sums[:, :2].sum(axis=0) > 0).all(axis=0))
        why = "no query with clicks at the first position has clicks there, too"
        self._refuse_silent(silent, cells, why, "more pages in random order")
        solved = self._solved(self._solve, sums.reshape(cells.n_groups, -1), cells)
        grounds = "every position has clicks of queries that were clicked at the first position, too"
        return Sample(solved, grounds, PairSums.of(cells))

    def _solve(self, sums: Floats) -> Floats:
        clicks, clicks_first, shown, shown_first = sums.reshape(len(sums), 4, -1).swapaxes(0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            rho: Floats = (clicks / clicks_first) * (shown_first / shown)
        return np.where(np.isfinite(rho), rho, np.nan)


@value
class ClickThrough(CellEstimator):
    """The click-through rate of each position over that of the first: what naive plots show.

    All of the difference between positions counts as examination. Where a ranker puts relevant results on top, the
    curve is too steep.
    """

    name = "click-through"
    sentence = "Plain click-through rates, biased; a baseline"
    order = 90
    baseline = True
    caution = (
        "plain click-through rates: relevance counts as examination, so the curve is too steep if the ranker is good"
    )

    def _sample(self, cells: Cells) -> Sample:
        clicks, shown = (cells.by_group(cells.place, part, cells.size) for part in (cells.clicks, cells.impressions))
        self._refuse_silent(np.flatnonzero(clicks.sum(axis=0) == 0), cells, "nothing was clicked there")
        grounds = "there are clicks at every position; but relevance counts as examination"
        solved = self._solved(self._solve, np.concatenate([clicks, shown], axis=1), cells)
        return Sample(solved, grounds, PairSums.of(cells))

    def _solve(self, sums: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            clicks, shown = np.split(sums, 2, axis=1)
            rate = clicks / shown
            rho: Floats = rate / rate[:, :1]
        return np.where(np.isfinite(rho), rho, np.nan)
