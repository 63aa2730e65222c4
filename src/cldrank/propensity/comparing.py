"""All estimators on one log: which one suits it, what each finds, and how well they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.documents import Block, Document, Notice, Paragraph, Table, terminal_text
from cldrank.documents.numbers import minus
from cldrank.errors import DataError, UnidentifiableError, UsageError
from cldrank.propensity.affine_clicks import AffineClicks, curve_of
from cldrank.propensity.curve_checks import held_to_clicks, proven_bound, refuted
from cldrank.propensity.curve_document import REFUTED, notices, side_by_side
from cldrank.propensity.estimator import REFUSALS, PropensityEstimator, comparing_estimators
from cldrank.propensity.estimator import estimators as all_estimators
from cldrank.propensity.identifiability import USABLE, Requirement, way_out
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import BySegment, SegmentPropensities
from cldrank.wording import positions

_EXACT = 1e-9  # an error below it is rounding
_ENOUGH = 20  # replicates for an error of the difference


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


@dataclass(frozen=True)
class Agreement:
    """Where two estimates are farthest apart, in standard errors of their difference; or a curve from a lower bound.

    position     where; 1 where they are alike
    difference   there, log ρ of the first minus that of the second
    score        the same in standard errors. Estimates of one log with one seed draw the same queries, so that the
                 errors are those of the difference itself; others are taken as independent
    verdict      "disagree" where chance would bring a larger score in fewer than 5% of comparisons of as many
                 positions; else "agree", unless positions differ by more than 25%, which is "unclear"
    below        the positions at which the first lies below the second by more than chance, if that is a lower bound
    """

    first: str
    second: str
    position: int
    difference: float
    score: float
    verdict: Literal["agree", "disagree", "unclear"]
    bound: bool = False
    below: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.bound and self.below:
            return f"{self.first} lies below the lower bound of {self.second} at {positions(self.below)}"
        if self.bound:
            return f"{self.first} lies above the lower bound of {self.second}, or within chance of it"
        verdict = {"unclear": "may agree or not"}.get(self.verdict, self.verdict)
        return (
            f"{self.first} and {self.second} {verdict}: at most {abs(self.score):.1f} standard errors, at position "
            f"{self.position} ({minus(f'{np.expm1(self.difference):+.1%}')})"
        )


def agreement(estimates: Mapping[str, Propensities]) -> list[Agreement]:
    """Compare every two curves, and every curve with every lower bound, on the positions that both have.

    >>> steep = Propensities(np.array([1, 0.5]), method="a", covariance=np.diag([0, 0.01]))
    >>> flat = replace(steep, values=np.array([1, 0.8]), method="b")
    >>> bound = replace(flat, method="c", bound=True)
    >>> print(*agreement({"a": steep, "b": flat, "c": bound})[:2], sep="; ")
    a and b disagree: at most 3.3 standard errors, at position 2 (−37.5%); a lies below the lower bound of c ...
    """
    curves = [name for name, estimate in estimates.items() if not estimate.bound]
    bounds = [name for name in estimates if name not in curves]
    return [_compared(estimates, *names) for names in (*combinations(curves, 2), *product(curves, bounds))]


def _compared(estimates: Mapping[str, Propensities], first: str, second: str) -> Agreement:
    from scipy.special import ndtri

    curve, other = estimates[first], estimates[second]
    size = min(len(curve), len(other))
    difference = np.log(curve.values[:size]) - np.log(other.values[:size])
    error = _joint_error({first: curve, second: other}, size)
    known = error > _EXACT
    scores = np.where(known, difference / np.where(known, error, 1.0), 0.0)
    unlike = ~known & (np.abs(difference) > _EXACT)
    scores = np.where(unlike, np.copysign(np.inf, difference), scores)
    at, tests = int(np.abs(scores).argmax()), max(size - 1, 1) * (1 if other.bound else 2)
    limit = -float(ndtri(0.05 / tests))
    below = tuple((np.flatnonzero(scores < -limit) + 1).tolist()) if other.bound else ()
    verdict: Literal["agree", "disagree", "unclear"] = "agree"
    if below or (not other.bound and abs(scores[at]) > limit):
        verdict = "disagree"
    elif not other.bound and np.abs(difference).max() > np.log1p(USABLE):
        verdict = "unclear"
    return Agreement(first, second, at + 1, float(difference[at]), float(scores[at]), verdict, other.bound, below)


def _joint_error(estimates: Mapping[str, Propensities], size: int) -> Floats:
    """The standard error of the difference of the logs of two estimates."""
    mine, theirs = (estimate.replicates for estimate in estimates.values())
    if mine is not None and theirs is not None and len(mine) == len(theirs) >= _ENOUGH:
        # Replicates of one log with one seed draw the same queries. Those of other logs, or of which each lost some,
        # do not belong together: then this is the error of independent estimates.
        paired: Floats = (np.log(mine[:, :size]) - np.log(theirs[:, :size])).std(axis=0, ddof=1)
        return paired
    variance = np.zeros(size)
    for name, estimate in estimates.items():
        if estimate.errors is None and estimate.method is not None:
            raise DataError(f"the errors of {name} are unknown; only a curve that was given may lack them.")
        variance += 0.0 if estimate.errors is None else estimate.errors[:size] ** 2
    return np.sqrt(variance)


@dataclass(frozen=True, eq=False)
class EstimatorComparison:
    """What all estimators find in one log: estimates by name, why the others refuse, how far any two are apart."""

    estimates: Mapping[str, Propensities]
    refusals: Mapping[str, str]
    agreements: Sequence[Agreement]

    def document(self) -> Document:
        """All estimates side by side, how far they agree, their notes, and why the other methods refuse."""
        return Document("Estimates of propensities", list(self._blocks()))

    def __str__(self) -> str:
        return terminal_text(self.document())

    def _blocks(self) -> Iterator[Block]:
        if self.estimates:
            yield from side_by_side(self.estimates)
        if any(rho.goodness for rho in self.estimates.values()):
            yield Paragraph("fit: do clicks of the same candidates at other positions agree? Below 0.01, no.", True)
        rows = [
            (
                f"{pair.first}, {pair.second}",
                pair.position if pair.score else "",
                minus(f"{np.expm1(pair.difference):+.1%}") if pair.score else "",
                f"{abs(pair.score):.1f}",
                pair.verdict,
            )
            for pair in self.agreements
            if not pair.bound
        ]
        if rows:
            yield Table(("methods", "position", "difference", "errors", "verdict"), rows, text=("verdict",))
            yield Paragraph("where two differ most, and by how many standard errors of the difference", True)
        for pair in self.agreements:
            if pair.bound:
                yield Notice("warning" if pair.below else "note", [str(pair)], label="" if pair.below else "bound")
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
    is in the table. Of estimators that find slopes and bases, the slopes are compared.

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
            curve = curve_of(estimator.quiet().fit(clicks, estimator.used(dataset)))
        except REFUSALS as refusal:
            refusals[name] = str(refusal).removeprefix(f"{name}: ").removeprefix(f"{name} ")
            continue
        refutation = "" if estimator.affine else refuted(curve, proven_bound(clicks, len(curve), envelope=False))
        notes = (*curve.notes, f"{REFUTED}: {refutation}") if refutation else curve.notes
        estimates[name] = replace(curve, notes=notes)
    return EstimatorComparison(estimates, refusals, agreement(estimates))
