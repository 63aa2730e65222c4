"""`Linear`: scores that are linear in the scaled features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from cldrank.errors import DataError
from cldrank.models.fit import Context
from cldrank.models.model import ScaledModel
from cldrank.parameters import parameter, value

if TYPE_CHECKING:
    from cldrank.models.fit import LinearFit, LinearPairFit
    from cldrank.models.linear.points import PointFit
    from cldrank.models.linear.stages import StagesFit, TwoStageProblem
    from cldrank.models.network.model import MLP
    from cldrank.models.targets import PairSelection, PointSelection, Targets

_OF_NETWORKS = ("precision", "resident", "graph", "checkpoint", "resume", "tensorboard", "on_epoch")  # of a run


@value
class Linear(ScaledModel):
    """A linear model, fitted to its one optimum in float64, with standard errors.

    >>> Linear(l2=0.01)
    Linear(l2=0.01)
    """

    name = "linear"
    label = "a linear model"
    remote_ways = ("fit_targets", "fit_points", "fit_stages")
    why_cold = ": such a fit has nothing to start from"
    unused: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "fit_targets": ("fit_intercept", "max_steps", "tolerance", "device", "warm_start", *_OF_NETWORKS),
        "fit_points": ("unshown_ratio", *_OF_NETWORKS),
        "fit_pairs": ("cluster", "fit_intercept", "max_steps", "tolerance", "block_rows"),
        "fit_stages": ("fit_intercept", "tolerance", "device", "warm_start", *_OF_NETWORKS),
    }

    cluster: Literal["query"] | None = parameter(
        default=None, about="standard errors robust to dependence within queries"
    )
    fit_intercept: bool = parameter(default=True, about="whether scores have an intercept", option=False)
    max_steps: int = parameter(default=50, about="most steps of Newton's method", least=1, option=False)
    tolerance: float = parameter(
        default=1e-9, about="largest relative step of a parameter at the optimum", above=0, option=False
    )

    def fit_targets(self, targets: Targets, context: Context) -> LinearFit:
        """Weighted least squares.

        minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
        """
        from cldrank.models.fit import LinearFit, linear_parts
        from cldrank.models.linear.least_squares import regress
        from cldrank.models.linear.sources import rows_of

        data = context.data
        rows = rows_of(context, self.scaling, targets, rows=targets.rows)
        found = regress(rows, data.feature_names, float(self.l2), cluster=self.cluster is not None)
        if not found.moving.any():
            raise DataError(
                f"all features of {data!r} are constant over the rows to learn from; nothing distinguishes these rows."
            )
        names = np.array(data.feature_names, dtype=object)
        return LinearFit(
            **linear_parts(context, rows.view.scaling, found.coefficients, found.intercept, found.estimates),
            status="converged",
            n_iter=1,
            log_likelihood=found.log_likelihood,
            n_rows=rows.observed.n_rows,
            weight=rows.observed.total,
            constant_features=tuple(names[~found.moving]),
            collinear_features=tuple(names[found.collinear]),
            errors=self.errors,
        )

    def fit_points(self, problem: PointSelection, context: Context) -> PointFit:
        """Relevance and selection, both linear, by one likelihood."""
        from cldrank.models.linear.points import fit_likelihood

        return fit_likelihood(self, problem, context)

    def fit_pairs(self, problem: PairSelection, context: Context) -> LinearPairFit:
        """Linear relevance by pairs, trained by the loop of networks."""
        from cldrank.models.fit import LinearPairFit

        return LinearPairFit.of(self.as_network().fit_pairs(problem, context))

    def fit_stages(self, problem: TwoStageProblem, context: Context) -> StagesFit:
        """Heckman's two stages: a probit of what is shown, then a regression that knows of it."""
        from cldrank.models.linear.stages import fit_two_stages

        return fit_two_stages(self, problem, context)

    def package(self, way: str) -> tuple[str, str] | None:
        """Pairs are trained by the loop of networks."""
        return self.as_network().needs if way == "fit_pairs" else self.needs

    def progress(self, way: str) -> tuple[str, int] | None:
        """The epochs of that loop; the other ways end by themselves."""
        return self.as_network().progress(way) if way == "fit_pairs" else None

    def as_network(self) -> MLP:
        """The same scores as those of a network without hidden layers."""
        from cldrank.models.network.model import MLP

        return MLP(hidden=(), l2=self.l2, scaling=self.scaling)

    @property
    def errors(self) -> str:
        """Where standard errors come from, in words."""
        return "robust within queries" if self.cluster else "from the observed information"
