"""`analyse`: the verdict of an experiment, which holds however often one looks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank.arguments import check_number
from cldrank.clicks.aggregate import ON_REQUEST, REASONS
from cldrank.clicks.log.layout import LogLayout
from cldrank.errors import DataError, UsageError
from cldrank.evaluation.click_results import WayToSettle
from cldrank.evaluation.decision_rule import ClickVerdict, decide, exceeds_margin, largest_error, worded_interval
from cldrank.evaluation.experiment_planning import MORE, ONLINE_CONFIDENCE
from cldrank.measures import Interval
from cldrank.measures.confidence_sequences import every_look_quantile, sample_ratio_evidence
from cldrank.online.experiment_log import PAGE_REASONS, ExperimentSums, Kind, Rules, experiment_sums
from cldrank.online.person_sums import BEFORE, Sums
from cldrank.propensity import Propensities
from cldrank.tables import connect
from cldrank.tables.frames import frame_name, is_frame
from cldrank.wording import listed, some

if TYPE_CHECKING:
    from cldrank.documents import Document

PLANNED = 10_000
TEAM, COUNTERFACTUAL = "team credit", "counterfactual credit"
_MARGIN = 0.01  # of the old value
_FEWEST_PERSONS = 30  # of an arm, whose sum can be taken to be normal
_UNSOUND = 0.001  # the chance that a sound experiment is refused for its sample ratio
_PER_PAGE = {TEAM: "clicks", COUNTERFACTUAL: "worth of clicks"}  # what credit is a share of
_LOWER_IS_BETTER = ("abandonment",)


@dataclass(frozen=True)
class OnlineEstimate:
    """What an experiment says of a measure: a difference per page, new less old.

    new, old      the mean per page of both arms; of interleaved pages the clicks that old's half of the page would
                  have, which credit is compared with, and None
    difference    its interval holds at all looks at once
    fixed         the interval that holds at a single look, planned before
    reduction     the share of the variance that the period before has removed
    """

    measure: str
    new: float | None
    old: float
    difference: Interval
    fixed: Interval
    reduction: float = 0.0

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        from scipy.special import ndtri

        return (self.fixed.high - self.fixed.low) / 2 / float(ndtri((1 + self.fixed.confidence) / 2))

    @property
    def gain(self) -> Interval:
        """The difference, turned so that more is better."""
        if self.measure not in _LOWER_IS_BETTER:
            return self.difference
        known = self.difference
        return replace(known, estimate=-known.estimate, low=-known.high, high=-known.low)


@dataclass(frozen=True, repr=False, kw_only=True)
class ExperimentResult:
    """The verdict of an experiment, and all that it rests on.

    persons, pages    in each arm; of interleaved pages in all
    measures          by name; the first decides
    segments          the first measure in each segment
    days              the first measure at the end of each day, as one would have seen it then
    sample_ratio      the sides and the share that each has, which were as they should be
    planned           the pages at which intervals are shortest
    more              how many pages are still needed; None where the verdict is not open
    aside             pages set aside, by reason
    rows, rejected    rows read, set aside and repeated; those set aside, by reason
    """

    data: str
    kind: Kind
    names: tuple[str, str]
    experiment: str | None
    verdict: ClickVerdict
    measures: Mapping[str, OnlineEstimate]
    segments: Mapping[str, OnlineEstimate]
    days: Mapping[date, OnlineEstimate]
    persons: Mapping[str, int]
    pages: Mapping[str, int]
    sample_ratio: Mapping[str, float]
    planned: float
    more: WayToSettle | None
    aside: Mapping[str, int]
    rows: Mapping[str, int]
    rejected: Mapping[str, int]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"ExperimentResult({self.verdict.words}: {self.verdict.reason})"

    @property
    def first(self) -> OnlineEstimate:
        """The measure that decides.

        >>> from cldrank.clicks.simulate import Simulation
        >>> from cldrank.data.dataset import RankingDataset
        >>> from cldrank.online import SimulatedTest
        >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
        >>> test = SimulatedTest(Simulation(data, scores=[3, 2, 1], depth=2), new=[2, 3, 1])
        >>> analyse(test.table(2000, seed=0)).first.difference.low > 0.5
        True
        """
        return next(iter(self.measures.values()))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; `verdict` is in words."""
        values = asdict(self)
        values["days"] = {day.isoformat(): values["days"][day] for day in self.days}
        return {**values, **values.pop("verdict"), "verdict": self.verdict.words}

    def document(self) -> Document:
        """The verdict, and all that it rests on."""
        from cldrank.online.experiment_document import experiment_document

        return experiment_document(self)

    def to_html(self) -> str:
        """One page that needs no other file."""
        from cldrank.documents import render_html

        return render_html(self.document())


def analyse(
    log: Any,
    *,
    kind: Kind | None = None,
    measure: str | None = None,
    margin: float | None = None,
    confidence: float = ONLINE_CONFIDENCE,
    planned: float = PLANNED,
    names: Sequence[str] = ("new", "old"),
    shares: Sequence[float] = (0.5, 0.5),
    experiment: str | None = None,
    before: Any = None,
    rankings: tuple[Any, Any] | None = None,
    propensities: Propensities | None = None,
    max_rejected: float = 0.05,
    memory_limit: str = "1500MB",
    layout: LogLayout | None = None,
    **reading: Any,
) -> ExperimentResult:
    """Judge an experiment by its log: interleaved pages, or an A/B test.

    log            as `ClickTable.read` takes it, with a further column: `team` of each result, or `arm` of each page;
                   perhaps user_id, timestamp, segment, experiment, and new_rank and old_rank of each result
    kind           "interleaving" or "ab"; by default as the columns have it
    measure        what decides, chosen before the experiment: "team credit" or "counterfactual credit"; "clicks",
                   "clicks@3" or "abandonment" per page; the first of each is the default. With event_weights, credit is
                   of value, and "value" or "value@3" per page come first
    margin         the smallest difference that matters, per page; by default 1% of the old value
    planned        the pages at which intervals are to be shortest, fixed before the experiment
    names, shares  of the new and of the old side
    experiment     which to read, where the column has several
    before         A/B: the log of a period before, which makes intervals shorter (CUPED)
    rankings       interleaving: the scores of all candidates by the new and the old ranker, where ranks are not logged
    propensities   interleaving: a click is worth the examination probability of its rank, not 1 / log2(1 + rank)
    max_rejected   the share of rows, and of pages, that may be set aside
    layout         how to read the log; its fields by name, too: columns={"arm": "variant"}, exclude_bots=True, …

    Persons are the units: everything that a person (else: a session) did counts as one.

    >>> import pyarrow as pa
    >>> pages = range(2000)
    >>> log = {"session_id": pages, "query_id": ["q"] * 2000, "doc_id": ["d"] * 2000, "position": [1] * 2000,
    ...     "arm": ["new", "old"] * 1000, "clicked": [page % 10 in (0, 2, 4, 6, 1, 3) for page in pages]}
    >>> analyse(pa.table(log)).verdict.words
    'better'
    """
    _check(confidence, planned, margin, names, shares, max_rejected)
    chosen = LogLayout.of(layout, reading)
    rules = Rules((names[0], names[1]), measure, _worths(propensities), chosen.event_weights)
    with connect("duckdb", memory_limit=memory_limit) as engine:
        sums = experiment_sums(
            log, engine, chosen, rules,
            kind=kind, experiment=experiment, rankings=rankings, before=before,
        )  # fmt: skip
    where = frame_name(log) if is_frame(log) else some([*map(str, log if isinstance(log, list | tuple) else [log])])
    _check_account(sums, max_rejected, where)
    ratio = _checked_ratio(sums, names, shares, planned, where)
    return _judged(sums, where, (names[0], names[1]), ratio, _Estimator(confidence, planned), margin)


def _judged(
    sums: ExperimentSums,
    where: str,
    names: tuple[str, str],
    ratio: Mapping[str, float],
    estimator: _Estimator,
    margin: float | None,
) -> ExperimentResult:
    """What the sums of a sound log say."""
    deciding = sums.measures[0]
    measures = {name: estimator.of(sums.total, name) for name in sums.measures}
    first = measures[deciding]
    width = _MARGIN * abs(first.old) if margin is None else margin
    verdict = _verdict(first, width, sums)
    persons, pages = (
        dict(zip(sums.arms, map(int, np.atleast_1d(sums.total.of(name))), strict=True)) for name in ("persons", "pages")
    )
    return ExperimentResult(
        data=where,
        kind=sums.kind,
        names=names,
        experiment=sums.experiment,
        verdict=verdict,
        measures=measures,
        segments={name: estimator.of(part, deciding) for name, part in sums.segments.items()},
        days={day: estimator.of(part, deciding) for day, part in sums.days.items()},
        persons=persons,
        pages=pages,
        sample_ratio=ratio,
        planned=estimator.planned,
        more=_pages_needed(first, width, sum(pages.values()), estimator) if verdict.is_open else None,
        aside=sums.aside,
        rows=sums.rows,
        rejected=sums.rejected,
        notes=sums.notes,
    )


def _worths(curve: Propensities | None) -> tuple[float, ...]:
    """What a click is worth at each rank, if that is its examination probability."""
    if curve is None:
        return ()
    if not isinstance(curve, Propensities):
        raise UsageError(
            "`propensities` must be one curve of examination probabilities: Propensities.power(1.0, 10), say."
        )
    return tuple(map(float, curve.values))


def _check(
    confidence: float, planned: float, margin: float | None, names: Sequence[str], shares: Sequence[float], most: float
) -> None:
    check_number("confidence", confidence, above=0, below=1)
    check_number("planned", planned, above=0)
    check_number("max_rejected", most, least=0, most=1)
    if margin is not None:
        check_number("margin", margin, least=0)
    if len(names) != 2 or names[0] == names[1]:
        raise UsageError(f"`names` must be two, of the new and of the old side, not {listed(map(repr, names))}.")
    if len(shares) != 2 or min(shares) <= 0:
        raise UsageError(f"`shares` must be two, of the new and of the old side, above 0, not {list(shares)}.")


# -- is it sound? ------------------------------------------------------------------------------------------------------


def _check_account(sums: ExperimentSums, most: float, where: str) -> None:
    """Refuse a log of which too much is wrong."""
    asked = sum(sums.rejected.get(reason, 0) for reason in ON_REQUEST)
    faulty = sums.rows["set aside"] - asked
    used, aside = float(np.sum(sums.total.of("pages"))), sum(sums.aside.values())
    for what, wrong, whole, reasons in (
        ("rows", faulty, sums.rows["read"] - asked, [REASONS[why] for why in sums.rejected]),
        ("pages", aside, used + aside, [PAGE_REASONS[why] for why in sums.aside]),
    ):
        if wrong > most * whole:
            why = " ".join([f"{some(reasons)}.", *sums.notes])
            raise DataError(
                f"{where}: {wrong:,} of {whole:,.0f} {what} had to be set aside, more than the {most:.1%} allowed: "
                f"{why} Such a log is read or written wrongly; if the rest is enough, raise `max_rejected`."
            )


def _checked_ratio(
    sums: ExperimentSums, names: Sequence[str], shares: Sequence[float], planned: float, where: str
) -> dict[str, float]:
    """The share of each side; refused where it is not as it should be, whenever one looks."""
    if sums.kind == "ab":
        counts = sums.total.of("persons")
        parts, what = counts / max(counts.sum(), 1), "persons of each arm"
        expected = np.asarray(shares, dtype=np.float64) / sum(shares)
        wrong = sample_ratio_evidence(counts, expected) > 1 / _UNSOUND
    else:
        first = _Estimator(1 - _UNSOUND, planned).of(sums.total, "first").difference
        part = (1 + first.estimate) / 2
        parts, expected, what = np.array([part, 1 - part]), np.array([0.5, 0.5]), "pages on which each side picks first"
        wrong = first.n >= _FEWEST_PERSONS and not first.low <= 0 <= first.high
    if wrong:
        seen, due = (" : ".join(f"{share:.4f}" for share in each) for each in (parts, expected))
        raise DataError(
            f"{where}: the {what} stand {seen} ({' : '.join(names)}), not {due}, which happens to fewer than one in "
            "1,000 sound experiments. Something loses or adds pages of one side, so that nothing else can be "
            "believed: look at redirects, bots, crashes and how pages are logged."
        )
    return dict(zip(names, map(float, parts), strict=True))


# -- estimates ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Estimator:
    """Differences of means per page from sums over persons.

        δ = Σ y / Σ n,   error² = Σ (y - δ n)² m / (m - 1) / (Σ n)²

    of m persons with n pages each, and of two arms the difference of their means, with the errors added up. With a
    period before, θ (u - mean of u) is taken off each y, where u is what a person did then and θ explains most.
    """

    confidence: float
    planned: float

    def of(self, sums: Sums, measure: str) -> OnlineEstimate:
        from scipy.special import ndtri

        pages, persons = (np.atleast_1d(sums.of(name)) for name in ("pages", "persons"))
        usable = np.maximum(pages, 1)
        means = np.atleast_1d(sums.of(measure)) / usable
        squares = np.atleast_1d(sums.of(measure, measure)) - 2 * means * sums.of("pages", measure)
        squares = squares + means**2 * sums.of("pages", "pages")
        shifts, explained = self._adjusted(sums, measure, means, persons)
        errors = np.sqrt(np.maximum((squares, squares - explained), 0) * persons / np.maximum(persons - 1, 1)) / usable
        plain, error = (float(np.sqrt((each**2).sum())) for each in errors)
        means = means - shifts / usable
        new, old = (float(means[0]), float(means[1])) if len(means) == 2 else (None, self._old(sums, measure))
        estimate = float(means[0] - means[1]) if len(means) == 2 else float(means[0])
        n = int(persons.min())
        halves = [math.inf, math.inf]
        if n > 1:
            looks = every_look_quantile(float(pages.sum()), self.planned, self.confidence)
            halves = [looks * error, float(ndtri((1 + self.confidence) / 2)) * error]
        intervals = [Interval(estimate, estimate - half, estimate + half, self.confidence, n) for half in halves]
        reduction = 1 - (error / plain) ** 2 if plain > 0 and BEFORE + measure in sums.columns else 0.0
        return OnlineEstimate(measure, new, old, intervals[0], intervals[1], reduction)

    def _old(self, sums: Sums, measure: str) -> float:
        """What credit is compared with: the clicks of half a page, or what clicks are worth by old's ranks."""
        if _PER_PAGE.get(measure) not in sums.columns:
            return math.nan
        per_page = float(np.sum(sums.of(_PER_PAGE[measure])) / max(np.sum(sums.of("pages")), 1))
        return per_page / 2 if measure == TEAM else per_page

    def _adjusted(self, sums: Sums, measure: str, means: Any, persons: Any) -> tuple[Any, Any]:
        """By arm: how far the sum moves with the period before, and the squares that it explains."""
        earlier = BEFORE + measure
        if earlier not in sums.columns:
            return np.zeros(len(means)), np.zeros(len(means))
        known = np.maximum(persons, 1)
        usual = sums.of(earlier) / known
        together = sums.of(measure, earlier) - means * sums.of("pages", earlier)
        spread = np.maximum(sums.of(earlier, earlier) - known * usual**2, 0)
        theta = together.sum() / spread.sum() if spread.sum() > 0 else 0.0
        of_all = sums.of(earlier).sum() / max(persons.sum(), 1)
        return theta * (usual - of_all) * persons, 2 * theta * together - theta**2 * spread


# -- verdict -----------------------------------------------------------------------------------------------------------


def _verdict(first: OnlineEstimate, margin: float, sums: ExperimentSums) -> ClickVerdict:
    """The rule of `compare`, on the interval that holds at every look."""
    interval = first.difference
    if interval.n < _FEWEST_PERSONS:
        of_arm = "of an arm" if sums.kind == "ab" else "in all"
        why = f"there are {interval.n} persons {of_arm}, and fewer than {_FEWEST_PERSONS} say nothing."
        return ClickVerdict("cannot tell", margin, why, False)
    decision = decide(first.gain, margin)
    verb = "is" if first.measure in (TEAM, COUNTERFACTUAL) else "differs by"
    text = f"{first.measure} per page {verb} {worded_interval(interval, decision, margin)}."
    return ClickVerdict(decision, margin, text, False, exceeds_margin(first.gain, margin))


def _pages_needed(first: OnlineEstimate, margin: float, pages: float, estimator: _Estimator) -> WayToSettle:
    """How many more pages would decide with 80% power: as estimated, and for the smallest difference that matters."""
    if first.difference.n < _FEWEST_PERSONS:
        return WayToSettle(MORE, None, "there are too few pages to say how many it takes.")
    as_estimated = abs(first.difference.estimate)
    counts = []
    for difference in (as_estimated, margin):
        total = pages
        for _ in range(8):  # the quantile depends, a little, on the number that is sought
            quantile = every_look_quantile(total, estimator.planned, estimator.confidence)
            error = largest_error(difference, difference, margin, quantile)
            total = max(pages * (first.error / error) ** 2, pages) if error else math.inf
            if not error or not math.isfinite(total):
                break
        counts.append(None if not math.isfinite(total) else max(int(total - pages), 1))
    if counts[0] is None:
        return WayToSettle(MORE, None, "both rankers seem to bring the same.")
    at_margin = counts[1] if counts[1] and counts[1] > counts[0] else None
    return WayToSettle(MORE, counts[0], "pages of the same kind", at_margin)
