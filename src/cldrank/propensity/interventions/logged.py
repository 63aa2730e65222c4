"""`Logged`: from pages drawn with known probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.candidates import Candidates
from cldrank.clicks.log import LogLayout, Paths, existing, only_query, open_log
from cldrank.clicks.log.engines import connected, engine_of
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError, Spelling, UnidentifiableError, UsageError
from cldrank.parameters import parameter, value
from cldrank.propensity.checks.refusal import ALL_PAIRS
from cldrank.propensity.counts import Cells
from cldrank.propensity.interventions.randomised import Stratified
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions

Floats = NDArray[np.float64]

_UNEVEN = 0.1  # how far the weighted impressions of a position may be from those of the first
_SURE = 4.0  # standard errors beyond which that is not chance


@value
class Logged(Stratified):
    """From a policy that drew pages and logged the probability of each candidate to stand where it stood.

    Impressions and clicks count 1 / probability each, which turns the log into one of a random order; then positions
    are compared as by `Randomised`. Every result must have had some chance at every position: where the weighted
    impressions of a position are not those of the first, this did not hold, and there is a refusal.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> often = [300] * 30 + [100] * 30
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": often + often[::-1]}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[120] * 30 + [40] * 30 + [10] * 30 + [30] * 30)
    >>> Logged(probability=clicks.impressions / 400).fit(clicks)
    Propensities(1, 0.25; Logged, 60 candidates)
    """

    probability: Floats | None = parameter(
        default=None,
        about="The probability with which each cell was shown, as `logged_probability` reads it from the log",
        option=False,
        compare=False,
    )

    name = "logged"
    label = "Logged"
    sentence = "Pages drawn with logged probabilities; clicks count by their inverse"
    needs = "log"
    order = 11

    def missing(self, dataset: RankingDataset | None) -> UsageError | None:
        """The error that asks for probabilities."""
        del dataset
        if self.probability is not None:
            return None
        return UsageError(
            "{} needs {}.",
            self.spelling,
            Spelling(
                "the probability with which each cell was shown: Logged(probability=logged_probability(log, clicks))",
                "the raw log: cells do not hold the probability with which results were shown",
            ),
        )

    def given_log(self, probability: Floats) -> Self:
        """The same with these probabilities."""
        return replace(self, probability=probability)

    def _fit(self, clicks: ClickTable, dataset: RankingDataset | None) -> Propensities:
        del dataset
        return self._estimate(self._weighted(clicks), self._cells(clicks))

    def _check(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        del dataset
        cells = self._weighted(clicks)
        self._require(self._tally(cells), cells)

    def _weighted(self, clicks: ClickTable) -> Cells:
        """The cells, each impression and click weighted by 1 / probability."""
        chance = np.asarray(self.probability, dtype=np.float64)
        if chance.shape != (clicks.n_cells,):
            raise DataError(f"probability has shape {chance.shape} for {clicks.n_cells:,} cells; give one per cell.")
        bad = ~((chance > 0) & (chance <= 1 + 1e-9))
        if bad.any():
            cell = int(np.flatnonzero(bad)[0])
            raise DataError(f"cell {cell} was shown, but with probability {chance[cell]}; it must be above 0, up to 1.")
        cells = self._cells(clicks)
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
        error = np.sqrt(spread / totals**2 + spread[0] / totals[0] ** 2)
        uneven = np.flatnonzero((np.abs(ratio - 1) > _UNEVEN) & (np.abs(ratio - 1) > _SURE * error))
        if not len(uneven):
            return
        worst = uneven[np.argmax(np.abs(ratio - 1)[uneven])]
        raise UnidentifiableError(
            "{} needs every result to have some chance at every position; but weighted by 1 / probability, position {} "
            "was shown {:.2f} times as often as the first (uneven are {}), so either some results cannot stand there, "
            "or the probabilities are not those of the pages. A log of swaps is for {} or {}.",
            self.spelling,
            worst + 1,
            ratio[worst],
            positions((uneven + 1).tolist()),
            Spelling("Swap", "swap"),
            ALL_PAIRS,
            positions=tuple((uneven + 1).tolist()),
            depth=int(uneven[0]),
        )


def logged_probability(
    paths: Paths,
    clicks: ClickTable,
    *,
    engine: str | Any = "duckdb",
    layout: LogLayout | None = None,
    memory_limit: str = "3GB",
    **reading: Any,
) -> Floats:
    """(cells,) the probability with which each cell was shown, from the `propensity` column of the log itself.

    layout    how to read the log; its fields can be given by their names (see `cldrank.clicks.log.LogLayout`)

    Where it varied between the impressions of a cell, it is their harmonic mean: a click does not depend on it there.

    >>> import pyarrow as pa
    >>> log = {"session_id": [1, 1, 2, 2], "query_id": ["a"] * 4, "doc_id": [5, 6, 6, 5]}
    >>> log = pa.table({**log, "position": [1, 2] * 2, "clicked": [1, 0] * 2, "propensity": [0.5] * 4})
    >>> logged_probability(log, ClickTable.read(log))
    array([0.5, 0.5, 0.5, 0.5])
    """
    if clicks.n_segments > 1:
        raise UsageError("probabilities of display are read for a log without segments, or for one of them at a time.")
    layout = LogLayout.of(layout, reading)
    if layout.one_query:
        layout = replace(layout, one_query=only_query(clicks.candidates.query_ids))
    files = existing(paths)
    with connected(engine_of(files, engine), memory_limit=memory_limit) as opened:
        log = open_log(files, opened, layout)
        if "propensity" not in log.optional:
            raise FormatError(
                "there is no column 'propensity', the probability with which a result was shown where it was; name it "
                "with {}.",
                Spelling("columns={'propensity': …}", "--column propensity=NAME"),
                path=str(files[0]),
            )
        table = log.rows
        known = table.filter((table.propensity > 0).fill_null(False))
        grouped = known.group_by("query_id", "doc_id", "position").agg(mean=1 / (1 / known.propensity).mean())
        found = grouped.to_pyarrow()
    queries, documents = (found[name].to_numpy(zero_copy_only=False) for name in ("query_id", "doc_id"))
    return _aligned(clicks, queries, documents, found["position"].to_numpy(), found["mean"].to_numpy())


def _aligned(clicks: ClickTable, queries: Any, documents: Any, position: Any, mean: Floats) -> Floats:
    """The probability of each cell of the table, found by row and position."""
    candidates: Candidates = clicks.candidates
    as_ids = (ids if ids.dtype.kind in "iu" else ids.astype(np.str_) for ids in (queries, documents))
    row = candidates.find(*as_ids)
    span = max(clicks.depth, int(position.max(initial=0))) + 1
    wanted, given = clicks.row * span + clicks.position, row * span + position
    order = np.argsort(given, kind="stable")
    place = np.minimum(np.searchsorted(given[order], wanted), max(len(given) - 1, 0))
    lost = np.ones(len(wanted), dtype=bool) if not len(given) else given[order][place] != wanted
    if lost.any():
        cell = int(np.flatnonzero(lost)[0])
        raise DataError(
            f"the log has no probability for row {clicks.row[cell]} at position {clicks.position[cell]}, nor for "
            f"{int(lost.sum()) - 1:,} other cells; give the log that the cells were counted from."
        )
    return mean[order][place]
