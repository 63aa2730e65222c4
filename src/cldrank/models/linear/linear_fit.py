"""What a linear fit leaves: coefficients of the scaled features with standard errors, and how they print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cldrank.models.fit import Context, Facts, Fit
from cldrank.models.linear.inference import Estimates
from cldrank.models.network.network_fit import SelectionNetworkFit
from cldrank.rankers import LinearRanker
from cldrank.scaling import Scaling
from cldrank.wording import count, some


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearFit(Fit):
    """A fitted linear model. Coefficients belong to the scaled features.

    coef, intercept      of the score
    standard_errors      of `coef`; NaN where a feature has none
    estimates            all parameters by name, with their covariance
    log_likelihood       of all rows, without the penalty
    n_rows, weight       the weighted rows learned from, and their total weight
    constant_features    without any variation: their coefficient is 0
    collinear_features   determined by the features before them: their own coefficients mean little
    errors               where standard errors come from, in words
    """

    coef: NDArray[np.float64]
    intercept: float
    standard_errors: NDArray[np.float64]
    estimates: Estimates
    log_likelihood: float
    n_rows: int
    weight: float
    constant_features: tuple[str, ...]
    collinear_features: tuple[str, ...]
    errors: str

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        facts = [
            ("ranker", str(self.ranker.provenance)),
            ("rows", f"{self.n_rows:,} of total weight {self.weight:,.0f}"),
            ("log-likelihood", f"{self.log_likelihood:,.4f}"),
            ("status", f"{self.status}, {count(self.n_iter, 'step')}"),
            ("std. errors", self.errors),
        ]
        if self.constant_features:
            facts.append(("constant", f"no weight: {some(self.constant_features)}"))
        if self.collinear_features:
            facts.append(("collinear", f"coefficients mean little: {some(self.collinear_features)}"))
        return facts

    def table(self) -> str:
        """All parameters with their standard errors."""
        return repr(self.estimates)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearPairFit(SelectionNetworkFit):
    """A linear model trained on pairs by the loop of networks; `coef` and `intercept` of the score, without errors."""

    coef: NDArray[np.float64]
    intercept: float

    @classmethod
    def of(cls, found: SelectionNetworkFit) -> Self:
        """The fit of a network without hidden layers."""
        ranker = found.ranker
        if not isinstance(ranker, LinearRanker):
            raise AssertionError("a network without hidden layers leaves a linear ranker")
        return cls(**vars(found), coef=ranker.coefficients, intercept=ranker.intercept)


def linear_ranker(
    context: Context, scaling: Scaling, coefficients: NDArray[np.float64], intercept: float
) -> LinearRanker:
    """The ranker of a linear fit."""
    return LinearRanker(
        feature_names=context.data.feature_names,
        scaling=scaling,
        coefficients=coefficients,
        intercept=intercept,
        provenance=context.provenance,
    )
