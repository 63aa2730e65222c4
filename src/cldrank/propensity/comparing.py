"""All estimators on one log: which one suits it, and what each finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cldrank._typing import Floats
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.documents import Block, Document, Notice, Paragraph, terminal_text
from cldrank.errors import UnidentifiableError, UsageError
from cldrank.propensity.affine_clicks import AffineClicks, curve_of
from cldrank.propensity.curve_checks import held_to_clicks, proven_bound, refuted
from cldrank.propensity.curve_document import REFUTED, notices, side_by_side
from cldrank.propensity.estimator import REFUSALS, PropensityEstimator, comparing_estimators
from cldrank.propensity.estimator import estimators as all_estimators
from cldrank.propensity.identifiability import Requirement, way_out
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import BySegment, SegmentPropensities

# -- choosing ------------------------------------------------------------------------------------------------------


def all_requirements(
    clicks: ClickTable, dataset: RankingDataset | None = None, probability: Floats | None = None
) -> tuple[Requirement, ...]:
    """The requirement of every estimator, the best founded first; `probability` is that of display, of each cell."""
    every = [kind() for kind in all_estimators().values()]
    known = every if probability is None else [estimator.given_log(probability) for estimator in every]
    return tuple(estimator.requirements(clicks, dataset) for estimator in known)


def best_requirement(requirements: Sequence[Requirement]) -> Requirement | None:
    """Of the requirements of all estimators, that of the one to choose; None where the log supports none.

    It is the first that is met by comparing positions, one that holds exactly before one that holds nearly.
    """
    comparing = {kind.name for kind in comparing_estimators()}
    met = [requirement for requirement in requirements if requirement.met and requirement.estimator in comparing]
    return min(met, key=lambda requirement: requirement.approximate, default=None)


def choose_method(table: ClickTable, depth: int | None) -> Requirement:
    """The requirement of the best founded estimator that a log supports; UnidentifiableError where none does."""
    asked: list[Requirement] = []
    for kind in comparing_estimators():
        asked.append(kind(depth=depth).requirements(table))
        if asked[-1].met and not asked[-1].approximate:
            break
    best = best_requirement(asked)
    if best is not None:
        return best
    reasons: dict[str, list[str]] = {}
    for requirement in asked:
        reasons.setdefault(requirement.reason, []).append(requirement.estimator)
    why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    reached = max(requirement.depth for requirement in asked)
    raise UnidentifiableError(
        f"propensities cannot be estimated from this log by comparing positions. {why}. {way_out(reached)}",
        positions=tuple(range(max(reached, 0) + 1, table.depth + 1)),
        depth=reached,
        reason=why,
    )


def fitted_curve(
    estimator: PropensityEstimator[Any],
    table: ClickTable,
    dataset: RankingDataset | None = None,
    *,
    clip: float | None = None,
) -> Propensities | AffineClicks:
    """What an estimator finds in a log, clipped as asked; a curve that the log refutes is warned of."""
    curve: Propensities | AffineClicks = estimator.fit(table, estimator.used(dataset))
    curve = curve if clip is None else curve.clip(clip)
    return held_to_clicks(curve, table, "off") if isinstance(curve, Propensities) else curve


def fitted_segments(estimator: Any, clicks: ClickTable, *, clip: float | None = None) -> SegmentPropensities:
    """The curves of all segments of a log, clipped as asked; one that the clicks of its segment refute is warned of."""
    curves = BySegment(replace(estimator, depth=None)).fit(clicks)  # a segment may have shorter pages
    curves = curves if clip is None else curves.clip(clip)
    held_to_clicks(curves, clicks, "off")
    return curves


# -- comparing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EstimatorComparison:
    """What all estimators find in one log: estimates by name, and why the others refuse."""

    estimates: Mapping[str, Propensities]
    refusals: Mapping[str, str]

    def document(self) -> Document:
        """All estimates side by side, their notes, and why the other methods refuse."""
        return Document("Estimates of propensities", list(self._blocks()))

    def __str__(self) -> str:
        return terminal_text(self.document())

    def _blocks(self) -> Iterator[Block]:
        if self.estimates:
            yield from side_by_side(self.estimates)
        if any(rho.goodness for rho in self.estimates.values()):
            yield Paragraph("fit: do clicks of the same candidates at other positions agree? Below 0.01, no.", True)
        noted: dict[Any, list[str]] = {}
        for name, rho in self.estimates.items():
            for notice in notices(replace(rho, goodness=None)):
                noted.setdefault((notice.severity, tuple(notice.text)), []).append(name)
        for name, reason in self.refusals.items():
            noted.setdefault(("blocking", reason), []).append(name)
        for (severity, text), names in noted.items():
            yield Notice(severity, text, ", ".join(names), label="refused" if severity == "blocking" else "")


def compare_estimators(
    clicks: ClickTable,
    estimators: Mapping[str, PropensityEstimator[Any]] | None = None,
    dataset: RankingDataset | None = None,
) -> EstimatorComparison:
    """Estimate by all of them, each with its result or why it refuses.

    By default all that need no more than is given: with a dataset, also those that model relevance; what they warn of
    is in the table. Of estimators that find slopes and bases, the slopes are shown.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> compare_estimators(clicks).estimates["all-pairs"]
    Propensities(1, 0.25; AllPairs, 60 candidates)
    """
    if estimators is not None and not estimators:
        raise UsageError("there are no estimators to compare.")
    estimates: dict[str, Propensities] = {}
    refusals: dict[str, str] = {}
    every = {name: kind() for name, kind in all_estimators().items()}
    applying = {name: estimator for name, estimator in every.items() if estimator.missing(dataset) is None}
    for name, estimator in (estimators or applying).items():
        missing = estimator.missing(dataset)
        if missing is not None:
            refusals[name] = f"{missing}."
            continue
        try:
            curve = curve_of(estimator.fit(clicks, estimator.used(dataset)))
        except REFUSALS as refusal:
            refusals[name] = str(refusal).removeprefix(f"{name}: ").removeprefix(f"{name} ")
            continue
        refutation = "" if estimator.affine else refuted(curve, proven_bound(clicks, len(curve), envelope=False))
        notes = (*curve.notes, f"{REFUTED}: {refutation}") if refutation else curve.notes
        estimates[name] = replace(curve, notes=notes)
    return EstimatorComparison(estimates, refusals)
