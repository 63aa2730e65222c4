"""`judge_documents`: how relevant each document is to its query, as far as clicks tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import Floats, IntArray
from cldrank.arguments import check_choice, check_number, check_whole
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UsageError
from cldrank.judgements.relevance_posterior import RelevancePosterior
from cldrank.methods.click_worth import ClickWorth
from cldrank.methods.evidence import check_propensities
from cldrank.methods.rating_quality import Agreement
from cldrank.propensity import AffineClicks
from cldrank.propensity.curve_checks import EnvelopeUse
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases
from cldrank.wording import count, listed

if TYPE_CHECKING:
    import pyarrow as pa


GRADES = (0.05, 0.2, 0.5)


@dataclass(frozen=True, eq=False, repr=False)
class Judgements:
    """How relevant documents are to their queries; all arrays have an entry for each judgement.

    query_id, doc_id   which document, and for which query
    relevance          the probability that it is clicked if it is examined, on the scale of the curve: where position 1
                       counts as always examined, the probability of a click there. NaN where it is unknown
    low, high          the interval that holds it with probability `confidence`; NaN where it is unknown
    impressions        how often it was shown
    clicks             how often it was clicked
    examinations       how often it was examined: impressions, each times the propensity of its position
    grade              how many of `thresholds` the relevance reaches; -1 where it is unknown, for what was never shown
    thresholds         of grades
    confidence         of intervals
    agreements         how well ratings agree with clicks, where documents were rated

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0], [0], [0]], ["a", "a", "a"])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[900, 900, 0], clicks=[90, 360, 0])
    >>> judged = judge_documents(clicks, cr.Propensities.power(1, 2))
    >>> judged.relevance.round(2), judged.grade
    (array([0.1, 0.8, nan]), array([ 1,  3, -1]))
    """

    query_id: NDArray[Any]
    doc_id: NDArray[Any]
    relevance: Floats
    low: Floats
    high: Floats
    impressions: IntArray
    clicks: IntArray
    examinations: Floats
    grade: IntArray
    thresholds: tuple[float, ...] = GRADES
    confidence: float = 0.9
    agreements: tuple[Agreement, ...] = ()

    def __len__(self) -> int:
        return len(self.relevance)

    def __repr__(self) -> str:
        return f"Judgements({self.summary()})"

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the relevance is known."""
        return ~np.isnan(self.relevance)

    @property
    def one_grade(self) -> NDArray[np.bool_]:
        """Whether the whole interval lies within the same grade."""
        return np.asarray(self.known & (_graded(self.low, self.thresholds) == _graded(self.high, self.thresholds)))

    def where(self, kept: NDArray[np.bool_]) -> Judgements:
        """The judgements that a mask selects."""
        arrays: dict[str, Any] = {name: array[kept] for name, array in self._arrays().items()}
        return replace(self, **arrays)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def summary(self) -> str:
        """How many judgements there are, in words."""
        unknown = int((~self.known).sum())
        parts = [f"{count(len(self) - unknown, 'judgement')} by clicks"]
        if unknown:
            parts.append(f"{count(unknown, 'document')} never shown and unknown")
        return f"{listed(parts)}, of {count(len(np.unique(self.query_id)), 'query', 'queries')}"

    def as_table(self) -> pa.Table:
        """An Arrow table with a column for each array and for `one_grade`; null where the relevance is unknown."""
        import pyarrow as pa

        columns = {**self._arrays(), "one_grade": self.one_grade}
        masks = dict.fromkeys(("relevance", "low", "high", "grade", "one_grade"), ~self.known)
        return pa.table({name: pa.array(column, mask=masks.get(name)) for name, column in columns.items()})


def judge_documents(
    clicks: ClickTable,
    propensities: Curve,
    *,
    confidence: float = 0.9,
    grades: Sequence[float] = GRADES,
    envelope: EnvelopeUse = "raise",
    seed: int = 0,
) -> Judgements:
    """Judge every candidate of a log by its clicks.

    clicks         the log, perhaps `rated`; candidates that it never showed are unknown
    propensities   of its positions; or slopes and bases, which take account of trust as well
    confidence     of intervals
    grades         the least relevance of grades 1, 2, …; below the first is grade 0
    envelope       whether an assumed curve is raised where the clicks refute it
    seed           of the curves that are drawn where an estimated curve is uncertain

    What was shown a few times is drawn towards what is usual at its position, the more the less it was examined; or,
    if it was rated and ratings agree with clicks, towards what is usual there with such a rating; see
    `RelevancePosterior`. What was never shown stays unknown, whatever its rating. Where events have weights, relevance
    is times what a click on the document is worth, relative to a mean click (`ClickWorth`), and may exceed 1.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[90, 90, 0], clicks=[40, 10, 0])
    >>> judge_documents(clicks, cr.Propensities.power(1, k=2), grades=(0.3,)).grade
    array([ 1,  0, -1])
    """
    check_number("confidence", confidence, above=0, below=1)
    check_whole("seed", seed, least=0)
    check_choice("envelope", envelope, get_args(EnvelopeUse))
    thresholds = checked_grades(grades)
    model = RelevancePosterior(clicks, _checked(clicks, propensities, envelope), seed)
    counts, n_rows = model.counts, clicks.candidates.n_rows
    relevance, low, high = intervals = np.full((3, n_rows), np.nan)
    ends = np.empty((3, len(counts.size)))
    for block, own, wide in model.posteriors():
        ends[0, block], ends[1:, block] = own @ model.grid, model.interval(wide, confidence)
    intervals[:, counts.rows] = ends[:, counts.group]
    if clicks.event_weights:
        relevance, low, high = _valued(intervals, ClickWorth.of(clicks, model.curve), confidence)
    slope, _ = slopes_and_bases(model.curve, clicks)
    return Judgements(
        clicks.candidates.query_ids[clicks.candidates.row_queries],
        clicks.candidates.doc_ids,
        relevance,
        np.fmin(low, relevance),
        np.fmax(high, relevance),
        clicks.row_impressions,
        clicks.row_clicks,
        np.bincount(clicks.row, clicks.impressions * slope, n_rows).astype(np.float64),
        np.where(clicks.shown, _graded(relevance, thresholds), -1),
        thresholds,
        confidence,
        model.agreements,
    )


def _valued(intervals: Floats, worth: ClickWorth, confidence: float) -> Floats:
    """Relevance and its ends, times what a click is worth; both intervals are independent."""
    from scipy.special import ndtri

    relevance, low, high = intervals
    reach = float(ndtri((1 + confidence) / 2)) * worth.error
    least, most = (np.clip(worth.expected + off, worth.least, worth.most) for off in (-reach, reach))
    below = np.hypot(worth.expected * np.fmax(relevance - low, 0), relevance * (worth.expected - least))
    above = np.hypot(worth.expected * np.fmax(high - relevance, 0), relevance * (most - worth.expected))
    value = relevance * worth.expected
    return np.stack([value, np.maximum(value - below, 0.0), value + above])


def checked_grades(grades: Sequence[float]) -> tuple[float, ...]:
    """Thresholds of grades, which must rise between 0 and 1."""
    thresholds = tuple(check_number("grades", grade, above=0, below=1) for grade in grades)
    if not thresholds or (np.diff(thresholds) <= 0).any():
        told = listed(thresholds) or "none"
        raise UsageError(f"`grades` are thresholds that rise between 0 and 1, such as 0.05, 0.2 and 0.5; not {told}.")
    return thresholds


def _graded(relevance: Floats, thresholds: tuple[float, ...]) -> IntArray:
    grades: IntArray = np.searchsorted(thresholds, relevance, side="right")
    return grades


def _checked(clicks: ClickTable, curve: Curve, envelope: EnvelopeUse) -> Curve:
    """The curve, raised where it was assumed and clicks refute it; refused where nothing can be judged."""
    if not clicks.n_cells:
        raise DataError(f"{clicks!r} has no impressions; nothing can be judged.")
    if isinstance(curve, AffineClicks):
        curve.per_cell(clicks)
        return curve
    return check_propensities(curve, clicks, "a judgement", None, envelope)
