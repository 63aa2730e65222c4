"""`judge_documents`: how relevant each document is to its query, as far as clicks tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.arguments import check_choice, check_number, check_whole
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, DataError, Spelling, UsageError, setting, warn
from cldrank.estimators.evidence import check_propensities
from cldrank.judgements.filling import ScoreBins, checked_scores
from cldrank.judgements.posterior import RelevancePosterior
from cldrank.propensity import AffineClicks
from cldrank.propensity.checks.raising import EnvelopeUse
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases
from cldrank.wording import count, listed

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]

GRADES = (0.05, 0.2, 0.5)
CLICKS, RANKER, UNKNOWN = "clicks", "ranker", "unknown"
_NO_GRADE = -1


@dataclass(frozen=True, eq=False, repr=False)
class Judgements:
    """How relevant documents are to their queries; all arrays have one entry per judgement.

    query_id, doc_id   which document, and for which query
    relevance          the probability that it is clicked if it is examined, on the scale of the curve: where position 1
                       counts as always examined, the probability of a click there. NaN where it is unknown
    low, high          the interval that holds it with probability `confidence`; NaN where it is unknown
    impressions        how often it was shown
    clicks             how often it was clicked
    examinations       how often it was examined: impressions, each times the propensity of its position
    grade              how many of `thresholds` the relevance reaches; -1 where it is unknown
    source             "clicks"; "ranker", if it was never shown and a ranker filled it in; or "unknown"
    thresholds         of grades
    confidence         of intervals

    >>> from cldrank.data.dataset import RankingDataset
    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays([[0], [0], [0]], ["a", "a", "a"])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[900, 900, 0], clicks=[90, 360, 0])
    >>> found = judge_documents(clicks, Propensities.power(1, 2))
    >>> found.relevance.round(2), found.grade, found.source
    (array([0.1, 0.8, nan]), array([ 1,  3, -1]), array(['clicks', 'clicks', 'unknown'], dtype='<U7'))
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
    source: NDArray[np.str_]
    thresholds: tuple[float, ...] = GRADES
    confidence: float = 0.9

    def __len__(self) -> int:
        return len(self.relevance)

    def __repr__(self) -> str:
        return f"Judgements({self.summary()})"

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which have a relevance."""
        found: NDArray[np.bool_] = self.source != UNKNOWN
        return found

    @property
    def one_grade(self) -> NDArray[np.bool_]:
        """Which intervals lie within one grade."""
        low, high = (_graded(one, self.thresholds) for one in (self.low, self.high))
        found: NDArray[np.bool_] = self.known & (low == high)
        return found

    def number(self, source: str) -> int:
        """How many come from this source."""
        return int((self.source == source).sum())

    def where(self, kept: NDArray[np.bool_]) -> Judgements:
        """Only some, by a mask."""
        arrays: dict[str, Any] = {name: one[kept] for name, one in vars(self).items() if isinstance(one, np.ndarray)}
        return replace(self, **arrays)

    def sure(self, width: float) -> Judgements:
        """Without those whose interval is wider than this; unknown ones stay."""
        check_number("sure", width, above=0, most=1)
        return self.where(~self.known | (self.high - self.low <= width))

    def summary(self) -> str:
        """In words."""
        parts = [f"{count(self.number(CLICKS), 'judgement')} by clicks"]
        if self.number(RANKER):
            parts.append(f"{self.number(RANKER):,} filled in by a ranker")
        if self.number(UNKNOWN):
            parts.append(f"{count(self.number(UNKNOWN), 'document')} never shown and unknown")
        return f"{listed(parts)}, of {count(len(np.unique(self.query_id)), 'query', 'queries')}"

    def as_table(self) -> pa.Table:
        """An Arrow table with a column for each array and for `one_grade`; null where the relevance is unknown."""
        import pyarrow as pa

        columns = {name: one for name, one in vars(self).items() if isinstance(one, np.ndarray)}
        columns["one_grade"] = self.one_grade
        unknown = ~self.known
        empty = ("relevance", "low", "high", "grade", "one_grade")
        return pa.table({name: pa.array(one, mask=unknown if name in empty else None) for name, one in columns.items()})


def judge_documents(
    clicks: ClickTable,
    propensities: Curve,
    *,
    confidence: float = 0.9,
    grades: Sequence[float] = GRADES,
    fill: ArrayLike | None = None,
    envelope: EnvelopeUse = "raise",
    seed: int = 0,
) -> Judgements:
    """Judge every candidate of a log by its clicks.

    clicks         the log; candidates that it never showed are unknown
    propensities   of its positions; or slopes and bases, which take account of trust as well
    confidence     of intervals
    grades         the least relevance of grades 1, 2, …; below the first is grade 0
    fill           (rows,) the scores of a ranker, to fill in what was never shown
    envelope       whether an assumed curve is raised where the clicks refute it
    seed           of the curves that are drawn where an estimated curve is uncertain

    What was shown a few times is drawn towards what is usual at its position, the more the less it was examined; see
    `RelevancePosterior`.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[90, 90, 0], clicks=[40, 10, 0])
    >>> found = judge_documents(clicks, cr.Propensities.power(1, k=2), grades=(0.3,))
    >>> found.known, found.grade
    (array([ True,  True, False]), array([ 1,  0, -1]))
    """
    check_number("confidence", confidence, above=0, below=1)
    check_whole("seed", seed, least=0)
    check_choice("envelope", envelope, get_args(EnvelopeUse))
    thresholds = checked_grades(grades)
    model = RelevancePosterior(clicks, _checked(clicks, propensities, envelope), seed)
    n_rows = clicks.candidates.n_rows
    scores = None if fill is None else checked_scores(fill, n_rows)
    relevance, low, high = (np.full(n_rows, np.nan) for _ in range(3))
    source = np.where(clicks.shown, CLICKS, UNKNOWN)
    seen = model.seen
    bins = None if scores is None else ScoreBins(scores, seen, clicks.position[seen.cell])
    ends = np.empty((3, len(seen.number)))
    for block, own, wide in model.posteriors():
        ends[0, block], ends[1:, block] = own @ model.grid, model.interval(wide, confidence)
        if bins is not None:
            bins.add(block, own)
    relevance[seen.rows], low[seen.rows], high[seen.rows] = ends[:, seen.kind]
    if bins is not None:
        rows = np.flatnonzero(~clicks.shown)
        expected = bins.expected(rows, model.grid)
        relevance[rows], source[rows] = expected @ model.grid, RANKER
        low[rows], high[rows] = model.interval(expected, confidence)
    slope, _ = slopes_and_bases(model.curve, clicks)
    found = Judgements(
        clicks.candidates.query_ids[clicks.candidates.row_queries],
        clicks.candidates.doc_ids,
        relevance,
        np.fmin(low, relevance),
        np.fmax(high, relevance),
        clicks.row_impressions,
        clicks.row_clicks,
        np.bincount(clicks.row, clicks.impressions * slope, n_rows).astype(np.float64),
        np.where(source == UNKNOWN, _NO_GRADE, _graded(relevance, thresholds)),
        source,
        thresholds,
        confidence,
    )
    _warn_of_one_grade(found)
    return found


def checked_grades(grades: Sequence[float]) -> tuple[float, ...]:
    """Thresholds of grades, which must rise between 0 and 1.

    >>> checked_grades([0.1, 0.5])
    (0.1, 0.5)
    """
    found = tuple(check_number("grades", one, above=0, below=1) for one in grades)
    if not found or any(one >= two for one, two in zip(found, found[1:], strict=False)):
        raise UsageError(
            "{} are thresholds that rise between 0 and 1, such as {}; not {}.",
            setting("grades"),
            Spelling("(0.05, 0.2, 0.5)", "0.05,0.2,0.5"),
            listed(found) or "none",
        )
    return found


def _graded(relevance: Floats, thresholds: tuple[float, ...]) -> IntArray:
    found: IntArray = np.searchsorted(thresholds, relevance, side="right")
    return found


def _checked(clicks: ClickTable, curve: Curve, envelope: EnvelopeUse) -> Curve:
    """The curve, raised where an assumed one is refuted; what cannot be judged is refused."""
    if not clicks.n_cells:
        raise DataError(f"{clicks!r} has no impressions; nothing can be judged.")
    if clicks.every_click:
        raise DataError(
            "the table counts every click, and a judgement asks how many impressions were clicked; aggregate the log "
            "without {}.",
            Spelling("every_click=True", "--every-click"),
        )
    if isinstance(curve, AffineClicks):
        curve.per_cell(clicks)
        return curve
    return check_propensities(curve, clicks, "a judgement", None, envelope)


def _warn_of_one_grade(found: Judgements) -> None:
    grades, relevance = found.grade[found.known], found.relevance[found.known]
    if len(grades) < 2 or grades.min() < grades.max():
        return
    quartiles = ", ".join(f"{one:.2g}" for one in np.quantile(relevance, (0.25, 0.5, 0.75)))
    warn(
        CldrankWarning(
            "all {:,} judgements have grade {}; a quarter, a half and three quarters of them lie below {}: choose {} "
            "accordingly.",
            len(grades),
            grades[0],
            quartiles,
            setting("grades"),
        )
    )
