"""HeckmanRank: a probit of what is shown, then a regression of clicks that knows how each came to be shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.estimators.base import check_dataset, check_penalty
from cldrank.estimators.cld import chosen_features
from cldrank.models.linear.design import Block, Design
from cldrank.models.linear.estimator import LinearEstimator
from cldrank.models.linear.fitting import warn_unless_converged
from cldrank.models.linear.inference import INTERCEPT, Estimates, determined
from cldrank.models.linear.ordered import Entries, Result
from cldrank.models.linear.rows import Observations, check_clicks, check_propensities, observe
from cldrank.models.linear.two_stages import TwoStages, two_stages
from cldrank.propensity import Propensities
from cldrank.scaling import Scaling

CORRECTION = "(inverse Mills)"
Weighting = Literal["impressions", "candidates"]


class SelectionCorrected(LinearEstimator):
    """A regression corrected for selection. Beyond what a linear fit leaves, its fit leaves

    selection_coef_, selection_standard_errors_    of the first stage, for the scaled features
    mills_coefficient_     of the correction, ρσ
    sigma_, rho_           the noise of a target in the whole population, and its correlation with that of selection;
                           two stages do not keep ρ inside -1 … 1: outside, the model does not fit
    separated_             whether the first stage tells shown and not shown apart without an error: then its
                           coefficients are held by the penalty alone
    log_likelihood_        of the first stage
    """

    selection_coef_: NDArray[np.float64]
    selection_standard_errors_: NDArray[np.float64]
    mills_coefficient_: float
    sigma_: float
    rho_: float
    separated_: bool
    l2: float
    scaling: str | scalings.ScalingRule | None
    weighting: Weighting
    relevance_features: Sequence[str] | None
    selection_features: Sequence[str] | None
    max_steps: int
    block_rows: int | None

    def _fit_stages(
        self, data: RankingDataset, scaling: Scaling, observed: Observations, entries: Entries, effects: tuple[str, ...]
    ) -> TwoStages:
        """Fit both stages and take over what they find; `effects` names the intercepts of the second."""
        design = Design(data.features, scaling, rows=observed.rows, block_rows=self.block_rows)
        relevance = chosen_features(self.relevance_features, data, "relevance_features")
        selection = chosen_features(self.selection_features, data, "selection_features")
        own = [_Columns.of(design, columns) for columns in (relevance, selection)]
        if not len(own[0].columns):
            raise DataError(f"all features of {data!r} are constant; there is nothing to tell its rows apart by.")
        l2 = check_penalty(self.l2)
        found = two_stages(
            design,
            entries,
            *((part.columns, l2 * part.factor**2) for part in own),
            effects=len(effects) > 1,
            cluster=self._clusters(),
            max_steps=self.max_steps,
        )
        warn_unless_converged(found.solution, f"the first stage of {type(self).__name__}")
        self._take(data, scaling, found, own[0], own[1], effects)
        self.constant_features_ = tuple(np.array(data.feature_names, dtype=object)[~design.moving[:-1]])
        self.n_rows_ = len(entries.owner) + int((entries.absent > 0).sum())
        self.weight_ = entries.total
        return found

    def _take(
        self,
        data: RankingDataset,
        scaling: Scaling,
        found: TwoStages,
        relevance: _Columns,
        selection: _Columns,
        effects: tuple[str, ...],
    ) -> None:
        every = np.array(data.feature_names, dtype=object)
        width, n_features = len(found.solution.parameters), len(relevance.columns)
        first = len(selection.columns) if width else 0  # where all are shown there is no first stage
        turn = _block_diagonal(
            relevance.turned(len(effects) + 1, -1.0, len(effects)), selection.turned(width - first, 1.0)
        )
        turn[turn.shape[0] - width + first :] *= self._threshold_sign
        values = turn @ np.append(found.second.coefficients, found.solution.parameters)
        thresholds = self._threshold_names(width - first)
        labels = (*every[relevance.columns], *effects, CORRECTION, *every[selection.columns[:first]], *thresholds)
        parts = ("relevance",) * (len(labels) - width) + ("selection",) * width
        covariance = turn @ found.covariance @ turn.T
        np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0.0))  # rounding, in directions without data
        self._leave_linear(data, scaling, relevance.spread(values, len(every)), float(values[n_features]))
        self.estimates_ = Estimates(parts, labels, values, covariance)
        self.selection_coef_ = selection.spread(values[len(labels) - width :][:first], len(every))
        self.standard_errors_ = self.estimates_.error_of("relevance", data.feature_names)
        self.selection_standard_errors_ = self.estimates_.error_of("selection", data.feature_names)
        self.mills_coefficient_ = float(found.second.coefficients[-1])
        self.sigma_, self.rho_ = found.second.sigma, found.second.rho
        self.separated_, self.log_likelihood_ = found.separated, found.log_likelihood
        self.n_iter_, self.status_ = found.solution.n_steps, found.solution.status
        # intercepts first: a feature may repeat them
        order = np.roll(np.arange(n_features + len(effects)), len(effects))
        repeated = determined(found.second.gram[np.ix_(order, order)])[len(effects) :]
        self.collinear_features_ = tuple(every[relevance.columns[repeated]])

    _threshold_sign = 1.0

    @abstractmethod
    def _threshold_names(self, count: int) -> tuple[str, ...]:
        """What the summary calls the thresholds of the selection."""

    def _facts(self) -> list[tuple[str, str]]:
        facts = super()._facts()
        outside = "" if abs(self.rho_) <= 1 else ", outside -1 … 1: the model does not fit"
        errors = "robust within queries" if self._clusters() else "corrected for the first stage (Heckman 1979)"
        facts = [(name, errors if name == "std. errors" else value) for name, value in facts]
        if self.separated_:
            facts.append(("separated", "selection makes no error; its coefficients are held by the penalty alone"))
        return [*facts, ("sigma", f"{self.sigma_:.4g}"), ("rho", f"{self.rho_:.4g}{outside}")]

    def _check_parameters(self) -> None:
        if self.weighting not in ("impressions", "candidates"):
            raise UsageError(f"weighting must be 'impressions' or 'candidates', not {self.weighting!r}.")
        if isinstance(self.max_steps, bool) or not isinstance(self.max_steps, int | np.integer) or self.max_steps < 1:
            raise UsageError(f"max_steps must be a whole number of at least 1, not {self.max_steps!r}.")


class HeckmanRank(SelectionCorrected):
    """Heckman's two stages for rankings (Ovaisi 2020): clicks regressed on features and the inverse Mills ratio.

        1.  shown if ω·x + ε > 0, ε Gaussian: a probit over all candidates of the queries displayed
        2.  c/n = intercept + β·x + κ m(ω·x) + noise, over the candidates shown; m = φ/Φ

    Ranks by β·x. Each stage is a weighted mean less l2 ‖ω‖² or l2 ‖β‖²; intercepts and κ bear no penalty. With
    weighting="impressions" a shown candidate weighs its impressions, one not shown those of its query, as in CLD; with
    "candidates" each weighs 1. Position bias is left in, as in the paper, unless `position_correction` divides clicks
    by the propensities. With `selection_features` that are no `relevance_features`, the correction rests on more than
    the curvature of m.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> model = HeckmanRank().fit(data, clicks)
    >>> model.predict(data).argsort(), model.status_
    (array([0, 1, 2, 4, 3, 5]), 'converged')
    """

    selection_intercept_: float
    _threshold_sign = -1.0

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
        weighting: Weighting = "impressions",
        position_correction: bool = False,
        clip: float | None = None,
        relevance_features: Sequence[str] | None = None,
        selection_features: Sequence[str] | None = None,
        cluster: Literal["query"] | None = None,
        max_steps: int = 50,
        block_rows: int | None = None,
    ) -> None:
        self.l2 = l2
        self.scaling = scaling
        self.weighting = weighting
        self.position_correction = position_correction
        self.clip = clip
        self.relevance_features = relevance_features
        self.selection_features = selection_features
        self.cluster = cluster
        self.max_steps = max_steps
        self.block_rows = block_rows

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset; propensities are used only with `position_correction`."""
        data = check_dataset(dataset, "HeckmanRank")
        check_penalty(self.l2)
        self._check_parameters()
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "HeckmanRank")
        rho: Propensities | None = None
        if self.position_correction:
            rho = check_propensities(propensities, table, "HeckmanRank with position_correction", self.clip)
        observed = observe(data, table, rho)
        found = self._fit_stages(data, scaling, observed, shown_entries(observed, self.weighting), (INTERCEPT,))
        alone = not len(found.solution.parameters)
        self.selection_intercept_ = np.inf if alone else float(self.estimates_.of("selection").values[-1])
        return self

    def _threshold_names(self, count: int) -> tuple[str, ...]:
        return (INTERCEPT,) * count


def shown_entries(observed: Observations, weighting: Weighting) -> Entries:
    """Each shown candidate once, in one place."""
    mean, weight, spread = observed.by_row()
    absent, level = observed.absent, np.ones(len(observed.shown), dtype=np.int64)
    if weighting == "candidates":
        weight, spread, absent = np.ones_like(weight), np.zeros_like(spread), np.minimum(absent, 1.0)
    return Entries(observed.shown, level, weight, mean, spread, absent, observed.queries)


class _Columns(NamedTuple):
    """The columns of a design that a stage uses, and how they were made even."""

    columns: IntArray
    factor: NDArray[np.float64]
    center: NDArray[np.float64]

    @classmethod
    def of(cls, design: Design, columns: IntArray) -> Self:
        """Those of some columns that vary."""
        moving = columns[design.moving[columns]]
        return cls(moving, design.factor[moving], design.center[moving])

    def turned(self, others: int, sign: float, shifted: int | None = None) -> NDArray[np.float64]:
        """The matrix that turns parameters into those for the scaled features, for the columns and `others` behind.

        The first `shifted` of the others take up, with this sign, what the columns lose of their center.
        """
        if not others:
            return np.zeros((0, 0))
        count = len(self.columns)
        found = np.diag(np.append(self.factor, np.ones(others)))
        found[count : count + (others if shifted is None else shifted), :count] = sign * self.factor * self.center
        return found

    def spread(self, values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        """The first of some values, those of the columns, over all features."""
        found = np.zeros(width)
        found[self.columns[: len(values)]] = values[: len(self.columns)]
        return found


def _block_diagonal(second: NDArray[np.float64], first: NDArray[np.float64]) -> NDArray[np.float64]:
    width = len(second)
    found = np.zeros((width + len(first),) * 2)
    found[:width, :width], found[width:, width:] = second, first
    return found


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

    def map(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        yield function(self._block)
