"""HeckmanRank: a probit of what is shown, then a regression of clicks that knows how each came to be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.errors import DataError, Spelling, UsageError, setting
from cldrank.estimators.evidence import Evidence, Needs, chosen_features
from cldrank.estimators.method import Method, Result
from cldrank.estimators.observing import observe
from cldrank.models import Linear
from cldrank.models.linear.design import Block
from cldrank.models.linear.fitting import warn_unless_converged
from cldrank.models.linear.ordered import Entries
from cldrank.models.linear.stages import TwoStageProblem
from cldrank.models.linear.two_stages import two_stages
from cldrank.models.targets import Observations
from cldrank.parameters import described, learned, parameter
from cldrank.propensity import Propensities

Weighting = Literal["impressions", "candidates"]
Outcome = TypeVar("Outcome")
_CORRECTING = Spelling("position_correction=True", "--position-correction")


@described
class TwoStageMethod(Method):
    """A regression corrected for selection. Beyond what a linear fit leaves, its fit leaves

    selection_coef_, selection_standard_errors_    of the first stage, for the scaled features
    mills_coefficient_     of the correction, ρσ
    sigma_, rho_           the noise of a target in the whole population, and its correlation with that of selection;
                           two stages do not keep ρ inside -1 … 1: outside, the model does not fit
    separated_             whether the first stage predicts selection without error: then only the penalty holds its
                           size
    log_likelihood_        of the first stage
    """

    needs = "clicks"
    learns = "clicks as they are"
    way = "fit_stages"

    model: Linear = parameter(default=Linear(), about="what is fitted", option=False)
    weighting: Weighting = parameter(
        default="impressions",
        about="weight of a candidate: its impressions (of one not shown, those of its query), or 1",
    )
    relevance_features: Sequence[str] | None = parameter(
        default=None, about="names of the features that relevance sees; by default all"
    )
    selection_features: Sequence[str] | None = parameter(
        default=None, about="names of the features that selection sees; by default all"
    )

    selection_coef_: NDArray[np.float64] = learned()
    selection_standard_errors_: NDArray[np.float64] = learned()
    thresholds_: NDArray[np.float64] = learned()
    mills_coefficient_: float = learned()
    sigma_: float = learned()
    rho_: float = learned()
    separated_: bool = learned()

    def _problem(self, evidence: Evidence, observed: Observations, entries: Entries) -> TwoStageProblem:
        data = evidence.data
        return TwoStageProblem(
            observed.rows,
            entries,
            chosen_features(self.relevance_features, data, "relevance_features"),
            chosen_features(self.selection_features, data, "selection_features"),
        )


@described
class HeckmanRank(TwoStageMethod):
    """Heckman's two stages for rankings (Ovaisi et al. 2020): clicks regressed on features and the inverse Mills ratio.

        1.  shown if ω·x + ε > 0, ε Gaussian: a probit over all candidates of the queries displayed
        2.  c/n = intercept + β·x + κ m(ω·x) + noise, over the candidates shown; m = φ/Φ

    Ranks by β·x. Each stage is a weighted mean less l2 ‖ω‖² or l2 ‖β‖²; intercepts and κ bear no penalty. Position bias
    is left in, as in the paper, unless `position_correction` divides clicks by the propensities. With
    `selection_features` that are not `relevance_features`, the correction rests on more than the curvature of m.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> method = HeckmanRank().fit(data, clicks)
    >>> method.predict(data).argsort(), method.status_
    (array([0, 1, 2, 4, 3, 5]), 'converged')
    """

    name = "heckman"
    label = "Heckman^rank"
    sentence = "models which results are shown at all"
    corrects = ("selection",)

    position_correction: bool = parameter(default=False, about="divide clicks by the propensities")
    clip: float | None = parameter(
        default=None, about="the least propensity; smaller ones are raised to it", above=0, most=1
    )

    selection_intercept_: float = learned()

    @property
    def required(self) -> Needs:
        """Propensities only where clicks are divided by them."""
        return "propensities" if self.position_correction else "clicks"

    def _learn(self, evidence: Evidence) -> Result:
        if self.clip is not None and not self.position_correction:
            raise UsageError("{} is for the propensities; it needs {}.", setting("clip"), _CORRECTING)
        rho: Propensities | None = evidence.propensities if self.position_correction else None
        observed = observe(evidence.data, evidence.clicks, rho)
        problem = self._problem(evidence, observed, shown_entries(observed, self.weighting))
        found = self.model.fit_stages(problem, self._context(evidence.data))
        intercept = float(found.thresholds[-1]) if len(found.thresholds) else np.inf  # infinite where all are shown
        return Result(found, {"selection_intercept_": intercept})


def shown_entries(observed: Observations, weighting: Weighting) -> Entries:
    """Each shown candidate once, in one place."""
    mean, weight, spread = observed.by_row()
    absent, level = observed.absent, np.ones(len(observed.shown), dtype=np.int64)
    if weighting == "candidates":
        weight, spread, absent = np.ones_like(weight), np.zeros_like(spread), np.minimum(absent, 1.0)
    return Entries(observed.shown, level, weight, mean, spread, absent, observed.queries)


class TwoStep(NamedTuple):
    """Heckman's two-step estimates.

    selection              (Z's columns + 1,): of the probit, the intercept last
    selection_covariance
    outcome                (X's columns + 2,): of the regression, then the intercept, last the inverse Mills ratio
    outcome_covariance     corrected for the first step
    sigma, rho             the outcome's noise in the whole population, and its correlation with the selection's
    log_likelihood         of the probit
    """

    selection: NDArray[np.float64]
    selection_covariance: NDArray[np.float64]
    outcome: NDArray[np.float64]
    outcome_covariance: NDArray[np.float64]
    sigma: float
    rho: float
    log_likelihood: float


def two_step(X: ArrayLike, Z: ArrayLike, y: ArrayLike, shown: ArrayLike, weights: ArrayLike | None = None) -> TwoStep:
    """Heckman's two steps on plain arrays: a probit of shown on Z, then y on X and m(Z·ω) where shown.

    Both get an intercept. Weights act as repetitions of rows; y may be anything where a row is not shown.

    >>> rng = np.random.default_rng(0)
    >>> Z, noise = rng.normal(size=(4000, 2)), rng.normal(size=(4000, 2)) @ [[1, 0.8], [0, 0.6]]
    >>> found = two_step(Z[:, :1], Z, 2 * Z[:, 0] + noise[:, 1], Z.sum(axis=1) + noise[:, 0] > 0)
    >>> found.outcome[:1].round(1), round(found.rho, 1)
    (array([2.]), 0.8)
    """
    outcome, selection = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    chosen = np.asarray(shown, dtype=bool)
    weight = np.ones(len(chosen)) if weights is None else np.asarray(weights, dtype=np.float64)
    owner = np.flatnonzero(chosen)
    if not 0 < len(owner) < len(chosen):
        raise DataError(f"{len(owner):,} of {len(chosen):,} rows are shown; two steps need some of each.")
    entries = Entries(
        owner,
        np.ones(len(owner), dtype=np.int64),
        weight[owner],
        np.asarray(y, dtype=np.float64)[owner],
        np.zeros(len(owner)),
        np.where(chosen, 0.0, weight),
        np.arange(len(chosen)),
    )
    split, end = outcome.shape[1], outcome.shape[1] + selection.shape[1]
    rows = _InMemory(np.column_stack([outcome, selection, np.ones(len(chosen))]))
    found = two_stages(
        rows, entries, (np.arange(split), np.zeros(split)), (np.arange(split, end), np.zeros(end - split))
    )
    warn_unless_converged(found.solution, "the first of two steps")
    sign = np.append(np.ones(end - split), -1.0)  # the intercept is minus the threshold
    columns = split + 2
    return TwoStep(
        sign * found.solution.parameters,
        np.outer(sign, sign) * found.covariance[columns:, columns:],
        found.second.coefficients,
        found.second.covariance,
        found.second.sigma,
        found.second.rho,
        found.log_likelihood,
    )


class _InMemory:
    """A matrix as a design of one block."""

    def __init__(self, matrix: NDArray[np.float64]) -> None:
        self._block = Block(0, len(matrix), matrix, matrix)

    def map(self, function: Callable[[Block], Outcome]) -> Iterator[Outcome]:
        yield function(self._block)
