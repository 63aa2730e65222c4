"""CLD's likelihood with linear relevance and linear selection: from observations to the fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.likelihood import Form
from cldrank.models.fit import Context, Facts, LinearFit, linear_parts
from cldrank.models.linear.design import Design
from cldrank.models.linear.maximum import SelectionFit, fit_profile, fit_selection, warn_unless_converged
from cldrank.models.linear.objective import SelectionObjective, Shared
from cldrank.models.linear.sources import rows_of
from cldrank.models.targets import PointSelection
from cldrank.models.warm import WarmStart, selection_start
from cldrank.optimise import Vector
from cldrank.rankers import LinearRanker

if TYPE_CHECKING:
    from cldrank.models.linear.model import Linear


@dataclass(frozen=True, eq=False, kw_only=True)
class PointFit(LinearFit):
    """Linear relevance and linear selection.

    selection_coef, selection_intercept, selection_standard_errors   of the selection
    gamma, sigma                                                     the noise, given or estimated
    separated    whether selection is predicted without error: then only the penalty holds its size
    """

    selection_coef: NDArray[np.float64]
    selection_intercept: float
    selection_standard_errors: NDArray[np.float64]
    gamma: float
    sigma: float
    separated: bool

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        facts = [*super().facts(), ("noise", f"gamma {self.gamma:.4g}, sigma {self.sigma:.4g}")]
        if np.isinf(self.selection_intercept):
            facts.append(("selection", "every candidate was shown: there is no selection to learn"))
        if self.separated:
            facts.append(("separation", "selection is predicted without error; only the penalty holds its size"))
        return facts


def fit_likelihood(model: Linear, problem: PointSelection, context: Context) -> PointFit:
    """Maximise the likelihood, less the penalty."""
    if problem.unshown_ratio != 1.0:
        raise UsageError(
            "`unshown_ratio` is for networks, which draw unshown candidates; a linear model sees them all."
        )
    work = _Work.of(model, problem, context)
    if problem.gamma == "profile":
        _warn_of_weak_identification(problem)
    with work.objective.design.rows.solving():
        find = fit_profile if problem.gamma == "profile" else fit_selection
        found = find(
            work.objective,
            work.names,
            start=work.start,
            max_steps=model.max_steps,
            tolerance=model.tolerance,
            cluster=model.cluster is not None,
        )
    result = work.result(model, found)
    warn_unless_converged(found.solution, context.user, _advice(problem, result))
    return result


@dataclass(frozen=True, eq=False)
class _Work:
    """A fit to be made: the data, and the objective over them."""

    context: Context
    scaling: scalings.Scaling
    columns: IntArray  # the features in the design
    form: Form
    objective: SelectionObjective
    warm: WarmStart | None

    @classmethod
    def of(cls, model: Linear, problem: PointSelection, context: Context) -> _Work:
        """The objective of a problem over the blocks of a design."""
        data, run = context.data, context.run
        form, free = _form(problem)
        columns = np.union1d(problem.relevance, problem.selection)
        relevance = np.searchsorted(columns, problem.relevance)
        rows = rows_of(
            context, model.scaling, problem.observed, columns=columns, rows=problem.observed.rows, device=run.device
        )
        scaling, design = rows.view.scaling, Design(rows, centred=model.fit_intercept)
        objective = SelectionObjective(
            design,
            form,
            float(model.l2),
            relevance=relevance,
            selection=np.searchsorted(columns, problem.selection),
            fit_intercept=model.fit_intercept,
            free=free,
        )
        if not design.moving[:-1][relevance].any():
            raise DataError(f"all relevance features of {data!r} are constant; there is nothing to rank its rows by.")
        return cls(context, scaling, columns, form, objective, WarmStart.of(context, scaling))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the design's columns."""
        return tuple(self.context.data.feature_names[column] for column in self.columns)

    @property
    def start(self) -> Vector:
        """The parameters of an earlier ranker, if there is one to start from."""
        start = self.cold_start
        if self.warm is None:
            return start
        if not isinstance(self.warm.ranker, LinearRanker):
            raise UsageError(
                f"{self.context.user} fits a linear model, and cannot start from a network; leave `warm_start` out."
            )
        objective = self.objective
        relevance = self.warm.linear(self.warm.ranker.coefficients, self.warm.ranker.intercept)
        start[: len(objective.relevance)] = self._of_design(*relevance)[objective.relevance]
        selection = self.warm.selection()
        if selection is not None:
            end = len(objective.relevance) + len(objective.selection)
            start[len(objective.relevance) : end] = self._of_design(*selection)[objective.selection]
        return start

    def _of_design(self, coefficients: NDArray[np.float64], intercept: float) -> NDArray[np.float64]:
        """Coefficients of the scaled features, and the intercept, as those of the design's columns."""
        design, own = self.objective.design, coefficients[self.columns]
        return np.append(own / design.factor[:-1], intercept + own @ design.center[:-1])

    @property
    def cold_start(self) -> Vector:
        """No coefficients; a σ that fits the targets."""
        start = np.zeros(self.objective.n_parameters)
        if self.objective.free:
            mean, variance = self.objective.observed.target_moments
            start[-1] = 0.5 * np.log(variance + 1e-300)
            if self.objective.relevance[-1] == self.objective.design.width - 1:
                start[len(self.objective.relevance) - 1] = mean
        return start

    def spread(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients of the design's columns as those of all features, 0 for those that are not in it."""
        found = np.zeros(self.context.data.n_features)
        found[self.columns] = coefficients
        return found

    def result(self, model: Linear, found: SelectionFit) -> PointFit:
        """The fit, for all features."""
        data, objective = self.context.data, self.objective
        names = np.array(data.feature_names, dtype=object)
        form = self.form if found.form is None else found.form
        coefficients, selection = self.spread(found.coefficients), self.spread(found.selection)
        intercept = found.selection_intercept if len(objective.selection) else np.inf
        parts = linear_parts(self.context, self.scaling, coefficients, found.intercept, found.estimates)
        parts["ranker"] = parts["ranker"].with_start(**selection_start(selection, intercept))
        return PointFit(
            **parts,
            warm_start="" if self.warm is None else self.warm.description,
            status=found.solution.status,
            n_iter=found.solution.n_steps,
            log_likelihood=found.log_likelihood,
            n_rows=objective.observed.n_rows,
            weight=objective.total,
            constant_features=tuple(names[self.columns[~objective.design.moving[:-1]]]),
            collinear_features=tuple(names[self.columns[found.collinear | found.selection_collinear]]),
            errors=model.errors,
            selection_coef=selection,
            selection_intercept=intercept,
            selection_standard_errors=found.estimates.error_of("selection", data.feature_names),
            gamma=form.gamma,
            sigma=form.sigma,
            separated=found.separated,
        )


def _form(problem: PointSelection) -> tuple[Form, tuple[Shared, ...]]:
    """The noise at the start, and which of its parameters are free."""
    gamma = 0.0 if problem.gamma == "profile" else float(problem.gamma)
    free = problem.sigma == "estimate"
    if free and not problem.tobit:
        raise UsageError("sigma can be estimated only with likelihood='tobit'; the paper's form has none.")
    sigma = 1.0 if problem.sigma == "estimate" else float(problem.sigma)
    return Form(gamma, sigma, problem.tobit), ("log_sigma",) if free else ()


def _advice(problem: PointSelection, found: PointFit) -> str:
    if np.isinf(found.selection_intercept):
        return "every candidate was shown, so there is no selection to learn and the fit is that of IPS"
    if found.separated:
        return "the features tell shown from not shown without error; raise l2"
    if problem.gamma == "profile":
        return f"gamma came to {found.gamma:.4f}; let selection see features that relevance does not, or fix gamma"
    return ""


def _warn_of_weak_identification(problem: PointSelection) -> None:
    if len(np.setdiff1d(problem.selection, problem.relevance)):
        return
    warn(
        CldrankWarning(
            "`gamma='profile'` without a feature that only selection sees: gamma rests on the shape of the noise "
            "alone and may end anywhere. Give `selection_features` and `relevance_features` that differ, or fix "
            "gamma."
        )
    )
