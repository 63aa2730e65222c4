"""All applicable estimators side by side, and how well they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import (
    CldrankError,
    DataError,
    MissingDependencyError,
    MissingValueError,
    UnidentifiableError,
    UsageError,
)
from cldrank.propensity.affine_clicks import AffineClicks, curve_of
from cldrank.propensity.checks.refuted import with_refutation
from cldrank.propensity.estimator import PropensityEstimator, estimators
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions

if TYPE_CHECKING:
    from cldrank.propensity.chart import Chart

Floats = NDArray[np.float64]

Estimators = Mapping[str, PropensityEstimator[Propensities | AffineClicks]]

_EXACT = 1e-9  # an error below it is rounding
_ENOUGH = 20  # replicates for an error of the difference
_REFUSALS = (UnidentifiableError, MissingDependencyError, MissingValueError)


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far two estimates are apart.

    differences   (k,) log ρ of the first minus that of the second
    scores        (k,) the same in joint standard errors; 0 at position 1
    paired        whether the errors are those of the difference itself, replicate by replicate (estimates of one log
                  with one seed draw the same queries); else both are taken as independent, which is cautious
    """

    first: str
    second: str
    differences: Floats
    scores: Floats
    paired: bool

    @property
    def worst(self) -> int:
        """The position where they differ most, in standard errors."""
        return int(np.abs(self.scores).argmax()) + 1

    @property
    def agree(self) -> bool:
        """Whether no position differs by more than chance would in 1% of comparisons of as many positions."""
        return bool(np.abs(self.scores).max() <= _beyond_chance(2 * (len(self.scores) - 1)))

    def __str__(self) -> str:
        at = self.worst - 1
        verdict = "agree" if self.agree else "disagree"
        return (
            f"{self.first} and {self.second} {verdict}: at most {abs(self.scores[at]):.1f} standard errors, at "
            f"position {self.worst} ({np.expm1(self.differences[at]):+.1%})"
        )


@dataclass(frozen=True, eq=False)
class BoundCheck:
    """Whether a curve lies above a lower bound.

    curve, bound   their names
    scores         (k,) log ρ less the log of the bound, in joint standard errors; 0 at position 1
    below          the positions where the curve lies below the bound by more than chance would bring about in 1% of
                   comparisons of as many positions
    """

    curve: str
    bound: str
    scores: Floats
    below: tuple[int, ...]

    def __str__(self) -> str:
        if not self.below:
            return f"{self.curve} lies above the lower bound of {self.bound}, or within chance of it"
        return (
            f"{self.curve} lies below the lower bound of {self.bound} at {positions(self.below)}, by up to "
            f"{-self.scores.min():.1f} standard errors"
        )


def above_bounds(estimates: Mapping[str, Propensities]) -> list[BoundCheck]:
    """Check every curve against every lower bound among the estimates, on the positions that both have.

    >>> curve = Propensities(np.array([1, 0.5, 0.2]), method="a", covariance=np.diag([0, 0.01, 0.01]))
    >>> bound = Propensities(np.array([1, 0.4, 0.3]), method="b", covariance=np.diag([0, 0.01, 0.01]), bound=True)
    >>> print(above_bounds({"a": curve, "b": bound})[0])
    a lies below the lower bound of b at position 3, by up to 2.9 standard errors
    """
    found = []
    for curve, bound in product(estimates, estimates):
        if estimates[bound].bound and not estimates[curve].bound:
            scores = _compared(estimates, curve, bound).scores
            below = np.flatnonzero(scores < -_beyond_chance(len(scores) - 1)) + 1
            found.append(BoundCheck(curve, bound, scores, tuple(below.tolist())))
    return found


def agreement(estimates: Mapping[str, Propensities]) -> list[Agreement]:
    """Compare every two estimates, on the positions that both have; lower bounds are left to `above_bounds`.

    >>> from dataclasses import replace
    >>> one = Propensities(np.array([1, 0.5]), method="a", covariance=np.diag([0, 0.01]))
    >>> two = replace(one, values=np.array([1, 0.8]), method="b")
    >>> print(agreement({"a": one, "b": two})[0])
    a and b disagree: at most 3.3 standard errors, at position 2 (-37.5%)
    """
    curves = [name for name, estimate in estimates.items() if not estimate.bound]
    return [_compared(estimates, first, second) for first, second in combinations(curves, 2)]


def _compared(estimates: Mapping[str, Propensities], first: str, second: str) -> Agreement:
    one, two = estimates[first], estimates[second]
    size = min(len(one), len(two))
    difference = np.log(one.values[:size]) - np.log(two.values[:size])
    error, paired = _joint_error(one, two, size, (first, second))
    known = error > _EXACT
    scores = np.where(known, difference / np.where(known, error, 1.0), 0.0)
    unlike = ~known & (np.abs(difference) > _EXACT)
    return Agreement(first, second, difference, np.where(unlike, np.copysign(np.inf, difference), scores), paired)


def _beyond_chance(tests: int) -> float:
    """The score that chance exceeds in 1% of as many tests, each of one side."""
    from scipy.special import ndtri

    return -float(ndtri(0.01 / max(tests, 1)))


def _joint_error(one: Propensities, two: Propensities, size: int, names: tuple[str, str]) -> tuple[Floats, bool]:
    """The standard error of the difference of the logs."""
    mine, theirs = one.replicates, two.replicates
    if mine is not None and theirs is not None and len(mine) == len(theirs) >= _ENOUGH:
        # Replicates of one log with one seed draw the same queries. Those of other logs, or of which each lost some,
        # do not belong together: then this is the error of independent estimates.
        return (np.log(mine[:, :size]) - np.log(theirs[:, :size])).std(axis=0, ddof=1), True
    variance = np.zeros(size)
    for name, estimate in zip(names, (one, two), strict=True):
        if estimate.errors is None and estimate.method is not None:
            raise DataError(f"the errors of {name} are unknown; only a curve that was given may lack them.")
        variance += 0.0 if estimate.errors is None else estimate.errors[:size] ** 2
    return np.sqrt(variance), False


@dataclass(frozen=True, eq=False)
class EstimatorComparison:
    """What all estimators find in one log.

    estimates    the propensities of those that could estimate them, by name
    refusals     the errors of the others, by name
    agreements   how far any two estimates are apart
    bounds       whether estimates lie above those that are lower bounds
    """

    estimates: Mapping[str, Propensities]
    refusals: Mapping[str, CldrankError]
    agreements: Sequence[Agreement]
    bounds: Sequence[BoundCheck] = ()

    def __str__(self) -> str:
        """A table with one column per estimator, then refusals, fits and agreements."""
        size = max((len(estimate) for estimate in self.estimates.values()), default=0)
        lines = []
        if self.estimates:
            names = (f"{name}, at least" if one.bound else name for name, one in self.estimates.items())
            lines.append("position  " + "  ".join(f"{name:>20}" for name in names))
        for at in range(size):
            entries = (_entry(estimate, at) for estimate in self.estimates.values())
            lines.append(f"{at + 1:>8}  " + "  ".join(f"{entry:>20}" for entry in entries))
        for check in ("goodness", "confounding"):
            found = {name: getattr(estimate, check) for name, estimate in self.estimates.items()}
            lines += [f"{name}: {verdict}" for name, verdict in found.items() if verdict is not None]
        lines += [str(found) for found in (*self.agreements, *self.bounds)]
        lines += [f"{name} refuses: {refusal}" for name, refusal in self.refusals.items()]
        return "\n".join(lines)

    def plot(self, path: str | PathLike[str] | None = None) -> Chart | None:
        """Draw all curves into one SVG file; without a path, for a notebook to show."""
        from cldrank.propensity.chart import plot

        return plot(self.estimates, path)


def _entry(estimate: Propensities, at: int) -> str:
    if at >= len(estimate):
        return ""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.values[at]:.3g}"
    return f"{estimate.values[at]:.3g} ({estimate.low[at]:.3g}–{estimate.high[at]:.3g})"


def applicable(
    clicks: ClickTable, estimators: Estimators | None = None, dataset: RankingDataset | None = None
) -> dict[str, CldrankError | None]:
    """For each estimator, None if the log can support it, else the error that says why not; resamples nothing.

    By default all that need no more than is given: with a dataset, also those that model relevance.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> fixed = {"position": [1] * 30 + [2] * 30, "impressions": [100] * 60, "clicks": [40] * 30 + [10] * 30}
    >>> found = applicable(cr.ClickTable.from_arrays(data, **fixed))
    >>> [name for name, refusal in found.items() if refusal is None]
    ['Envelope', 'ClickThrough']
    """
    found: dict[str, CldrankError | None] = {}
    for name, estimator in _chosen(estimators, dataset).items():
        found[name] = estimator.missing(dataset)
        if found[name] is None:
            try:
                estimator.check(clicks, estimator.used(dataset))
            except _REFUSALS as refusal:
                found[name] = refusal
    return found


def compare_estimators(
    clicks: ClickTable, estimators: Estimators | None = None, dataset: RankingDataset | None = None
) -> EstimatorComparison:
    """Estimate by all of them, each with its result or the error of its refusal.

    By default all that need no more than is given: with a dataset, also those that model relevance; what they warn of
    is in the table. Of estimators that find slopes and bases, the slopes are compared.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> found = compare_estimators(clicks)
    >>> found.estimates["AllPairs"]
    Propensities(1, 0.25; AllPairs, 60 candidates)
    """
    estimates: dict[str, Propensities] = {}
    refusals: dict[str, CldrankError] = {}
    for name, estimator in _chosen(estimators, dataset).items():
        missing = estimator.missing(dataset)
        if missing is not None:
            refusals[name] = missing
            continue
        try:
            found = estimator.quiet().fit(clicks, estimator.used(dataset))
        except _REFUSALS as refusal:
            refusals[name] = refusal
            continue
        curve = curve_of(found)
        estimates[name] = curve if estimator.affine else with_refutation(curve, clicks)
    return EstimatorComparison(estimates, refusals, agreement(estimates), above_bounds(estimates))


def _chosen(named: Estimators | None, dataset: RankingDataset | None) -> Estimators:
    if named is None:
        every = {kind.__name__: kind() for kind in estimators().values() if kind.compared}
        return {name: one for name, one in every.items() if one.missing(dataset) is None}
    if not named:
        raise UsageError("there are no estimators to compare_estimators.")
    return named
