"""`LinearEstimator`: what a linear fit leaves behind beyond its ranker, and how it prints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.estimators.base import Estimator
from cldrank.models.linear.inference import Estimates, lines_of, some
from cldrank.models.linear.least_squares import Regression, Rows, regress
from cldrank.scaling import Scaling


class LinearEstimator(Estimator):
    """A linear method. Beyond `ranker_`, `coef_` and `intercept_`, its fit leaves

    standard_errors_      of `coef_`; NaN where a feature has none
    estimates_            all parameters by name, with their covariance
    log_likelihood_       of all rows, without the penalty
    n_rows_, weight_      the weighted rows learned from, and their total weight
    n_iter_, status_      steps taken; `converged`, `max_steps`, `line_search`, `non_finite` or `boundary`
    constant_features_    without any variation: their coefficient is 0
    collinear_features_   determined by the features before them: their own coefficients mean little
    """

    coef_: NDArray[np.float64]
    intercept_: float
    standard_errors_: NDArray[np.float64]
    estimates_: Estimates
    log_likelihood_: float
    n_rows_: int
    weight_: float
    n_iter_: int
    status_: str
    constant_features_: tuple[str, ...]
    collinear_features_: tuple[str, ...]

    def summary(self) -> str:
        """The fit as a table to read."""
        self._check_fitted()
        return "\n\n".join([lines_of(self._facts()), repr(self.estimates_)])

    def _facts(self) -> list[tuple[str, str]]:
        """What the summary says above its table."""
        facts = [
            ("estimator", " ".join(repr(self).split())),
            ("ranker", str(self.ranker_.provenance)),
            ("rows", f"{self.n_rows_:,} of total weight {self.weight_:,.0f}"),
            ("log-likelihood", f"{self.log_likelihood_:,.4f}"),
            ("status", f"{self.status_}, {self.n_iter_} step{'' if self.n_iter_ == 1 else 's'}"),
            ("std. errors", "robust within queries" if self._clusters() else "from the observed information"),
        ]
        if self.constant_features_:
            facts.append(("constant", f"no weight: {some(self.constant_features_)}"))
        if self.collinear_features_:
            facts.append(("collinear", f"coefficients mean little: {some(self.collinear_features_)}"))
        return facts

    def _clusters(self) -> bool:
        """Whether standard errors are clustered by query, as the parameter `cluster` says."""
        cluster: Any = getattr(self, "cluster", None)
        if cluster not in (None, "query"):
            raise UsageError(f"cluster must be 'query' or None, not {cluster!r}.")
        return cluster is not None

    def _regress(self, data: RankingDataset, scaling: Scaling, rows: Rows, l2: float) -> Regression:
        """Fit by least squares and take over all that it finds."""
        found = regress(scaling, data.features, rows, data.feature_names, l2, cluster=self._clusters())
        if not found.moving.any():
            raise DataError(
                f"all features of {data!r} are constant over the rows to learn from; there is nothing to "
                "tell these apart by."
            )
        self._leave_linear(data, scaling, found.coefficients, found.intercept)
        names = np.array(data.feature_names, dtype=object)
        self.constant_features_ = tuple(names[~found.moving])
        self.collinear_features_ = tuple(names[found.collinear])
        self.estimates_ = found.estimates
        self.standard_errors_ = found.estimates.error_of("relevance", data.feature_names)
        self.log_likelihood_ = found.log_likelihood
        self.n_rows_, self.weight_ = len(rows.target), float(rows.weight.sum())
        self.n_iter_, self.status_ = 1, "converged"
        return found
