"""Click-through rates by position: of pages in random order, of pages drawn with known probabilities, or plain ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.candidates import ids_of
from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError, UnidentifiableError, UsageError
from cldrank.parameters import parameter, value
from cldrank.propensity.cells import Cells, PairSums
from cldrank.propensity.estimator import CellEstimator, Sample
from cldrank.propensity.identifiability import Requirement, display_order
from cldrank.tables import Relation, connect
from cldrank.wording import positions

_UNEVEN = 0.1  # how far the weighted impressions of a position may be from those of the first
_SURE = 4.0  # standard errors beyond which that is not chance


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
        """Whether the order looks random; where that is unknown, `fit` goes on, but the requirement is not met."""
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
class Logged(Randomised):
    """From a policy that drew pages and logged the probability of each candidate at its position.

    Impressions and clicks count 1 / probability each, which turns the log into one of a random order; then positions
    are compared as by `Randomised`. Every result must have had some chance at every position: where the weighted
    impressions of a position are not those of the first, this did not hold, and the fit refuses.
    """

    probability: Floats | None = parameter(
        default=None,
        about="The probability with which each cell was shown, as `logged_probability` reads it from the log",
        option=False,
        compare=False,
    )

    name = "logged"
    sentence = "Pages drawn with logged probabilities; clicks count by their inverse"
    needs = "log"
    order = 11

    def missing(self, dataset: RankingDataset | None) -> str | None:
        """A sentence that says that display probabilities are missing; None if they are given."""
        del dataset
        lacking = "it needs the probability with which each result was shown, from a column of the raw log (propensity)"
        return lacking if self.probability is None else None

    def given_log(self, probability: Floats | None) -> Self:
        """The same with these probabilities."""
        return replace(self, probability=probability)

    def requirements(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> Requirement:
        """Whether every result had some chance at every position; the order need not be random."""
        return CellEstimator.requirements(self, clicks, dataset)

    def _sample(self, cells: Cells) -> Sample:
        grounds = "weighted by 1 / probability, every position was shown equally often"
        return super()._sample(cells)._replace(grounds=grounds)

    def _cells(self, clicks: ClickTable) -> Cells:
        cells, chance = CellEstimator._cells(self, clicks), np.asarray(self.probability, dtype=np.float64)
        if chance.shape != (clicks.n_cells,):
            raise DataError(f"probability has shape {chance.shape} for {clicks.n_cells:,} cells; it needs one each.")
        bad = ~((chance > 0) & (chance <= 1 + 1e-9))
        if bad.any():
            cell = int(np.flatnonzero(bad)[0])
            raise UnidentifiableError(f"cell {cell} has probability {chance[cell]}; it must be above 0, up to 1.")
        kept = chance[(clicks.position <= cells.size) & (clicks.impressions > 0)]
        weighted = replace(cells, impressions=cells.impressions / kept, clicks=cells.clicks / kept)
        self._check_support(weighted)
        return weighted

    def _check_support(self, cells: Cells) -> None:
        """Weighted by 1 / probability, every position must have been shown as often as the first, in each query."""
        size = cells.size
        totals = np.bincount(cells.place, cells.impressions, size)
        shown = np.zeros((int(cells.query.max()) + 1, size), dtype=bool)
        shown[cells.query, cells.place] = True
        expected = np.array([cells.impressions[(cells.place == 0) & shown[cells.query, k]].sum() for k in range(size)])
        spread = np.bincount(cells.place, cells.impressions**2 / cells.seen, size)  # of a sum of 1 / probability
        ratio = totals / np.maximum(expected, 1e-300)
        error, off = np.sqrt(spread / totals**2 + spread[0] / totals[0] ** 2), np.abs(ratio - 1)
        uneven = np.flatnonzero(off > np.maximum(_UNEVEN, _SURE * error))
        if not len(uneven):
            return
        worst = uneven[np.argmax(off[uneven])]
        often = f"position {worst + 1} was shown {ratio[worst]:.2f} times as often as the first"
        reason = f"weighted by 1 / probability, {often}"
        raise UnidentifiableError(
            f"logged needs every result to have some chance at every position; but {reason} (uneven are "
            f"{positions((uneven + 1).tolist())}), so either some results cannot stand there, or the probabilities are "
            "not those of the pages. A log of swaps is for pivot or all-pairs.",
            positions=tuple((uneven + 1).tolist()),
            depth=int(uneven[0]),
            reason=reason,
        )


def logged_probability(
    paths: Any,
    clicks: ClickTable,
    *,
    engine: str | Any = "duckdb",
    layout: LogLayout | None = None,
    memory_limit: str = "3GB",
    **reading: Any,
) -> Floats:
    """(cells,) the probability with which each cell was shown, from the `propensity` column of the log itself.

    layout    how to read the log; its fields can be given by their names (see `cldrank.clicks.LogLayout`)

    Where it varied between the impressions of a cell, it is their harmonic mean.

    >>> import pyarrow as pa
    >>> log = {"session_id": [1, 1, 2, 2], "query_id": ["a"] * 4, "doc_id": [5, 6, 6, 5]}
    >>> log = pa.table({**log, "position": [1, 2] * 2, "clicked": [1, 0] * 2, "propensity": [0.5] * 4})
    >>> logged_probability(log, ClickTable.read(log))
    array([0.5, 0.5, 0.5, 0.5])
    """
    from cldrank.clicks.log.plain_log import only_query, open_log

    if clicks.n_segments > 1:
        raise UsageError("probabilities of display are read for a log without segments, or segment by segment.")
    layout = LogLayout.of(layout, reading)
    if layout.one_query:
        layout = replace(layout, one_query=only_query(clicks.candidates.query_ids))
    with connect(engine, source=paths, memory_limit=memory_limit) as opened:
        log = open_log(paths, opened, layout)
        if not log.has("propensity"):
            raise FormatError(
                "there is no column 'propensity', the probability with which a result was shown where it was; name it "
                'with `columns={"propensity": ...}`.',
                path=log.table.where,
            )
        probability = probability_in(log.table, clicks)
    lost = np.flatnonzero(np.isnan(probability))
    if len(lost):
        raise DataError(
            f"the log has no probability for row {clicks.row[lost[0]]} at position {clicks.position[lost[0]]}, nor for "
            f"{len(lost) - 1:,} other cells; give the log that the cells were counted from."
        )
    return probability


def probability_in(log: Relation, clicks: ClickTable) -> Floats:
    """The same from an open plain log; NaN for cells without a probability."""
    means = log.engine.arrow(
        f"SELECT query_id, doc_id, position, 1 / avg(1 / propensity) AS mean FROM {log} "
        "WHERE reason IS NULL AND propensity > 0 GROUP BY query_id, doc_id, position"
    )
    row = clicks.candidates.find(*(ids_of(means[name], f"the {name} of the log") for name in ("query_id", "doc_id")))
    position = means["position"].to_numpy()
    span = max(clicks.depth, int(position.max(initial=0))) + 1
    cell, logged = clicks.row * span + clicks.position, row * span + position
    _, at, source = np.intersect1d(cell, logged, assume_unique=True, return_indices=True)
    probability = np.full(clicks.n_cells, np.nan)
    probability[at] = means["mean"].to_numpy()[source]
    return probability


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
