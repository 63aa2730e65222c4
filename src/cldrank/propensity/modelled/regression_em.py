"""`RegressionEM`: relevance by a regression on features, examination by position, both from one log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank import optimise
from cldrank._typing import IntArray
from cldrank.clicks.units import draw_weights
from cldrank.errors import ConvergenceWarning, setting, warn
from cldrank.optimise import Solution, Vector
from cldrank.parameters import value
from cldrank.propensity.modelled.regression import ExaminedRegression
from cldrank.propensity.modelled.relevance import ModelledCurve, ModelledRelevance
from cldrank.propensity.modelled.training import ShownCandidates

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task
    from cldrank.rankers import LinearRanker

Floats = NDArray[np.float64]

_EM_STEPS = 6
_AROUND = (0.1, 10.0)  # penalties, times the chosen one, that the estimate should not care about


@value
class RegressionEM(ModelledRelevance):
    """Examination by position and relevance by regression, for logs of one ranker (Wang et al. 2018).

        P(click at k) = ρ_k γ(x),    γ(x) = σ(β·x + intercept)

    By default exact: some steps of expectation and maximisation on cells, then Newton's method on the same likelihood
    to its end, which EM alone would need thousands of steps for. Intervals come from resampled queries, each replicate
    one Newton step from the optimum. With an `MLP` as model a network scores relevance, and
    the training loop climbs the same likelihood.

    >>> import cldrank as cr
    >>> x = np.tile([0.0, 1.0, 2.0, 3.0], 30)
    >>> data = cr.RankingDataset.from_arrays(x[:, None], np.arange(120) // 2)
    >>> clicks = (1000 / (1 + np.exp(1 - x)) / np.tile([1, 4, 4, 1], 30)).round().astype(int)
    >>> shown = {"position": np.tile([1, 2, 2, 1], 30), "impressions": [1000] * 120}
    >>> table = cr.ClickTable.from_arrays(data, **shown, clicks=clicks)
    >>> RegressionEM(model=cr.Linear(l2=0)).fit(table, data).values.round(3)
    array([1.  , 0.25])
    """

    name = "regression-em"
    label = "Regression EM"
    sentence = "One ranker; relevance by regression on features, so trust it less"
    order = 30

    def _estimate(self, shown: ShownCandidates) -> ModelledCurve:
        if not self.exact:
            return self._by_networks(shown)
        objective = ExaminedRegression(shown.cells, shown.features, shown.row, self.model.l2)
        start = objective.start
        for _ in range(_EM_STEPS):
            start = objective.em_step(start)
        solution = _climb(objective, start)
        if not solution.converged:
            warn(
                ConvergenceWarning(
                    "{} did not find the optimum ({} after {} steps); a larger {} may help.",
                    self.spelling,
                    solution.status,
                    solution.n_steps,
                    setting("l2"),
                )
            )
        logs = objective.logs(solution.parameters)
        moved = (
            [_climb(objective.penalised(self.model.l2 * times), solution.parameters) for times in _AROUND]
            if self.model.l2
            else []
        )
        apart = [np.abs(objective.logs(other.parameters) - logs).max() for other in moved if other.converged]
        return ModelledCurve(
            logs,
            self._resampled(objective, solution),
            self._linear_ranker(shown, solution.parameters),
            float(max(apart)) if apart else None,
        )

    def _resampled(self, objective: ExaminedRegression, solution: Solution) -> Floats:
        """(replicates, k) log ρ, each one Newton step from the optimum of the whole log towards its own."""
        if solution.evaluation is None:
            raise AssertionError("Newton's method leaves the last evaluation")
        weights = draw_weights(objective.cells.n_groups, self.replicates, self.seed)
        pull = (weights - 1) @ objective.group_scores(solution.parameters)
        steps = pull @ optimise.inverse(-solution.evaluation.hessian)[:, : objective.n_positions]
        found = objective.logs(solution.parameters)[1:] + steps
        return np.concatenate([np.zeros((len(found), 1)), found], axis=1)

    def _linear_ranker(self, shown: ShownCandidates, parameters: Vector) -> LinearRanker:
        from cldrank.rankers import LinearRanker

        coefficients, intercept = parameters[shown.cells.size - 1 : -1], float(parameters[-1])
        return LinearRanker(coefficients=coefficients, intercept=intercept, **self._ranker_parts(shown))

    def _task(self, network: torch.nn.Module, place: IntArray, size: int) -> Task:
        from cldrank.models.network.examination import ExaminedPoints

        return ExaminedPoints(network, place, size)


def _climb(objective: ExaminedRegression, start: Vector) -> Solution:
    return optimise.newton(objective, start, max_steps=200, tolerance=1e-8)
