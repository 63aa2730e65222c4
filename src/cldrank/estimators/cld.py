"""CLD: causal likelihood decomposition, pointwise and linear. Removes position bias, then selection bias."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.estimators.base import check_dataset, check_penalty, check_share
from cldrank.estimators.neural.estimator import Model, NeuralFit, is_linear
from cldrank.estimators.neural.lists import click_lists
from cldrank.likelihood import Form
from cldrank.models.linear.design import Design
from cldrank.models.linear.estimator import LinearEstimator
from cldrank.models.linear.fitting import SelectionFit, described, fit_selection, warn_unless_converged
from cldrank.models.linear.inference import some
from cldrank.models.linear.objective import SelectionObjective, Shared
from cldrank.models.linear.profile import fit_profile
from cldrank.models.linear.rows import check_clicks, check_propensities, observe
from cldrank.models.linear.stochastic import climb
from cldrank.models.network import Training
from cldrank.optimise import Vector
from cldrank.propensity import Propensities
from cldrank.rankers import LinearRanker

_SGD_EPOCHS, _SGD_RATE = 20, 0.01


class GammaFit(NamedTuple):
    """The fit at one γ of a sensitivity analysis."""

    gamma: float
    log_likelihood: float
    coefficients: NDArray[np.float64]
    ranker: LinearRanker
    fit: SelectionFit


class CLD(NeuralFit, LinearEstimator):
    """Linear relevance and linear selection, fitted together to clicks and to what was not shown (SIGIR-AP 2023).

        Σ_shown -(r̄ - x·β)² + log Φ((x·ω + γ (r̄ - x·β)) / √(1 - γ²)) + Σ_not shown log Φ(-x·ω),    r̄ = c / (n ρ)

    as the mean over impressions, less l2 (‖β‖² + ‖ω‖²); intercepts are free. Candidates are ranked by x·β.

    gamma                 correlation of the noises of selection and relevance; "profile" estimates it, which is sound
                          only where selection sees features that relevance does not
    target                "expected": r̄ of each cell; "clicks": each impression's c/ρ
    likelihood            "paper" as above; "tobit": the type-II Tobit likelihood, with `sigma` given or "estimate"
    solver                "newton": the one optimum; "sgd": Algorithm 1 of the paper, by `epochs`, `batch_rows`,
                          `learning_rate` and `seed`
    model                 "linear"; or "mlp", an `MLP` or a torch module for CLD-N, trained by the loop of all networks
                          (`epochs`, `learning_rate`, `seed`, `unshown_ratio`, `training`)
    relevance_features    names of the features that each part sees; None for all
    selection_features
    clip                  the least propensity; lower ones are raised to it
    cluster               "query" for standard errors robust to dependence within queries
    device                where torch is to hold the rows: "cuda"; None for numpy
    block_rows            rows of a block; None for what suits the machine

    Beyond what every linear fit leaves: `selection_coef_`, `selection_intercept_`, `selection_standard_errors_`,
    `gamma_`, `sigma_`, `separated_` (selection without error: its coefficients are held by the penalty alone),
    `propensities_`.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[3, 1], [2, 0], [1, 2], [0, 0]] * 2, [7] * 4 + [8] * 4)
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[1, 2, 0, 0] * 2, impressions=[9, 9, 0, 0] * 2, clicks=[4, 2, 0, 0, 5, 1, 0, 0]
    ... )
    >>> model = CLD(gamma=0.2).fit(data, clicks, Propensities.power(1, k=2))
    >>> model.status_, model.predict(data)[:4].argsort()[::-1]
    ('converged', array([0, 2, 1, 3]))
    """

    selection_coef_: NDArray[np.float64]
    selection_intercept_: float
    selection_standard_errors_: NDArray[np.float64]
    gamma_: float
    sigma_: float
    separated_: bool
    propensities_: Propensities

    def __init__(
        self,
        gamma: float | Literal["profile"] = 0.1,
        l2: float = 1e-3,
        target: Literal["expected", "clicks"] = "expected",
        likelihood: Literal["paper", "tobit"] = "paper",
        sigma: float | Literal["estimate"] = 1.0,
        solver: Literal["newton", "sgd"] = "newton",
        fit_intercept: bool = True,
        scaling: str | scalings.ScalingRule | None = "standard",
        relevance_features: Sequence[str] | None = None,
        selection_features: Sequence[str] | None = None,
        clip: float | None = None,
        cluster: Literal["query"] | None = None,
        max_steps: int = 50,
        tolerance: float = 1e-9,
        epochs: int | None = None,
        batch_rows: int = 256,
        learning_rate: float | None = None,
        seed: int = 0,
        device: str | None = None,
        block_rows: int | None = None,
        model: Model = "linear",
        unshown_ratio: float = 1.0,
        training: Training | None = None,
    ) -> None:
        self.gamma = gamma
        self.l2 = l2
        self.target = target
        self.likelihood = likelihood
        self.sigma = sigma
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.relevance_features = relevance_features
        self.selection_features = selection_features
        self.clip = clip
        self.cluster = cluster
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.epochs = epochs
        self.batch_rows = batch_rows
        self.learning_rate = learning_rate
        self.seed = seed
        self.device = device
        self.block_rows = block_rows
        self.model = model
        self.unshown_ratio = unshown_ratio
        self.training = training

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset and the propensities of their positions."""
        if not is_linear(self.model):
            return self._fit_neural(dataset, clicks, propensities)
        problem = self._problem(dataset, clicks, propensities)
        if self.gamma == "profile":
            self._warn_of_weak_identification(problem)
            found = fit_profile(problem.objective, problem.names, problem.start, **self._limits())
        elif self.solver == "sgd":
            found = self._climbed(problem)
        else:
            found = fit_selection(problem.objective, problem.names, start=problem.start, **self._limits())
        self._take(problem, found)
        remedy = "raise epochs or learning_rate" if self.solver == "sgd" else "raise max_steps or l2"
        warn_unless_converged(found.solution, "CLD", self._advice(found, problem), remedy)
        return self

    def gamma_path(
        self,
        dataset: RankingDataset,
        clicks: Any = None,
        propensities: Any = None,
        gammas: Iterable[float] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5),
    ) -> list[GammaFit]:
        """How fit and ranking depend on γ: one fit for each, each begun where the one before ended."""
        if self.solver != "newton" or not is_linear(self.model):
            raise UsageError("gamma_path needs solver='newton' and model='linear'.")
        problem = self._problem(dataset, clicks, propensities)
        path, start = [], problem.start
        for gamma in gammas:
            form = replace(problem.form, gamma=float(gamma))
            objective = problem.objective.varied(form, problem.objective.free)
            found = fit_selection(objective, problem.names, start=start, **self._limits())
            warn_unless_converged(found.solution, f"CLD with gamma={gamma:g}", self._advice(found, problem))
            start = found.solution.parameters
            coefficients = problem.spread(found.coefficients)
            origin = self._provenance(problem.data)
            ranker = LinearRanker(
                feature_names=problem.data.feature_names,
                scaling=problem.scaling,
                coefficients=coefficients,
                intercept=found.intercept,
                provenance=replace(origin, parameters={**origin.parameters, "gamma": float(gamma)}),
            )
            path.append(GammaFit(float(gamma), found.log_likelihood, coefficients, ranker, found))
        return path

    def summary(self) -> str:
        """The fit as a table to read."""
        return super().summary() if is_linear(self.model) else self._network_summary()

    # -- with a network ------------------------------------------------------------------------------------------

    def _fit_neural(self, dataset: Any, clicks: Any, propensities: Any) -> Self:
        data = check_dataset(dataset, "CLD")
        usual = type(self)()
        for name in ("target", "likelihood", "sigma", "solver", "fit_intercept", "relevance_features", "cluster"):
            if getattr(self, name) != getattr(usual, name):
                raise UsageError(f"{name}={getattr(self, name)!r} is for model='linear'; a network has no such choice.")
        if self.selection_features is not None:
            raise UsageError("selection_features is for model='linear'; beside a network, selection sees all features.")
        form, _ = self._form()
        if self.gamma == "profile":
            raise UsageError("gamma='profile' is for model='linear'; give gamma beside a network.")
        check_share("unshown_ratio", self.unshown_ratio)
        check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "CLD")
        rho = check_propensities(propensities, table, "CLD", self.clip)

        def points(network: Any, width: int) -> Any:
            from cldrank.models.network.tasks import SelectedPoints

            return SelectedPoints(network, width, form.gamma, float(self.unshown_ratio))

        task = self._fit_network(data, scaling, click_lists(data, table, rho), points)
        self.selection_coef_, self.selection_intercept_ = task.linear_part("selection")
        self.gamma_, self.propensities_ = form.gamma, rho
        return self

    # -- putting the problem together ----------------------------------------------------------------------------

    def _problem(self, dataset: Any, clicks: Any, propensities: Any) -> _Problem:
        data = check_dataset(dataset, "CLD")
        l2 = check_penalty(self.l2)
        form, free = self._form()
        self._check_parameters()
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "CLD", self.target)
        rho = check_propensities(propensities, table, "CLD", self.clip)
        relevance = chosen_features(self.relevance_features, data, "relevance_features")
        selection = chosen_features(self.selection_features, data, "selection_features")
        columns = np.union1d(relevance, selection)
        observed = observe(data, table, rho, self.target)
        design = Design(
            data.features,
            scaling,
            columns=columns,
            rows=observed.rows,
            centred=self.fit_intercept,
            block_rows=self.block_rows,
            device=self.device,
        )
        objective = SelectionObjective(
            design,
            observed,
            form,
            l2,
            relevance=np.searchsorted(columns, relevance),
            selection=np.searchsorted(columns, selection),
            fit_intercept=self.fit_intercept,
            free=free,
        )
        if not design.moving[:-1][np.searchsorted(columns, relevance)].any():
            raise DataError(f"all relevance features of {data!r} are constant; there is nothing to rank its rows by.")
        return _Problem(data, scaling, rho, columns, relevance, selection, form, objective)

    def _form(self) -> tuple[Form, tuple[Shared, ...]]:
        """The noise as it is at the start, and which of its parameters are free."""
        gamma = 0.0 if self.gamma == "profile" else _number(self.gamma, "gamma", "'profile'")
        if self.likelihood not in ("paper", "tobit"):
            raise UsageError(f"likelihood must be 'paper' or 'tobit', not {self.likelihood!r}.")
        sigma = 1.0 if self.sigma == "estimate" else _number(self.sigma, "sigma", "'estimate'")
        if self.likelihood == "paper" and self.sigma == "estimate":
            raise UsageError("sigma can be estimated only with likelihood='tobit'; the paper's form has none.")
        return Form(gamma, sigma, self.likelihood == "tobit"), ("log_sigma",) if self.sigma == "estimate" else ()

    def _check_parameters(self) -> None:
        if self.solver not in ("newton", "sgd"):
            raise UsageError(f"solver must be 'newton' or 'sgd', not {self.solver!r}.")
        if self.solver == "sgd" and (self.gamma == "profile" or self.sigma == "estimate"):
            raise UsageError("solver='sgd' takes gamma and sigma as given; estimate them with solver='newton'.")
        epochs = _SGD_EPOCHS if self.epochs is None else self.epochs
        counts = ("max_steps", self.max_steps, 1), ("epochs", epochs, 1), ("batch_rows", self.batch_rows, 1)
        for name, value, least in (*counts, ("seed", self.seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        rate = _SGD_RATE if self.learning_rate is None else self.learning_rate
        for name, number in (("tolerance", self.tolerance), ("learning_rate", rate)):
            if not 0 < _number(number, name) < np.inf:
                raise UsageError(f"{name} must be a number above 0, not {number!r}.")

    def _limits(self) -> dict[str, Any]:
        return {"max_steps": self.max_steps, "tolerance": self.tolerance, "cluster": self._clusters()}

    def _climbed(self, problem: _Problem) -> SelectionFit:
        solution = climb(
            problem.objective,
            problem.start,
            epochs=_SGD_EPOCHS if self.epochs is None else self.epochs,
            batch_rows=self.batch_rows,
            learning_rate=_SGD_RATE if self.learning_rate is None else self.learning_rate,
            seed=self.seed,
        )
        return described(problem.objective, problem.names, solution, cluster=self._clusters())

    # -- what it leaves ------------------------------------------------------------------------------------------

    def _take(self, problem: _Problem, found: SelectionFit) -> None:
        data, objective = problem.data, problem.objective
        self._leave_linear(data, problem.scaling, problem.spread(found.coefficients), found.intercept)
        names = np.array(data.feature_names, dtype=object)
        still = problem.columns[~objective.design.moving[:-1]]
        self.constant_features_ = tuple(names[still])
        self.collinear_features_ = tuple(names[problem.columns[found.collinear | found.selection_collinear]])
        self.selection_coef_ = problem.spread(found.selection)
        self.selection_intercept_ = found.selection_intercept if len(objective.selection) else np.inf
        self.estimates_ = found.estimates
        self.standard_errors_ = found.estimates.error_of("relevance", data.feature_names)
        self.selection_standard_errors_ = found.estimates.error_of("selection", data.feature_names)
        form = problem.form if found.form is None else found.form
        self.gamma_, self.sigma_ = form.gamma, form.sigma
        self.log_likelihood_ = found.log_likelihood
        self.n_rows_, self.weight_ = objective.observed.n_rows, objective.observed.total
        self.n_iter_, self.status_ = found.solution.n_steps, found.solution.status
        self.separated_ = found.separated
        self.propensities_ = problem.propensities

    def _facts(self) -> list[tuple[str, str]]:
        facts = [*super()._facts(), ("propensities", repr(self.propensities_))]
        facts.append(("noise", f"gamma {self.gamma_:.4g}, sigma {self.sigma_:.4g}"))
        if np.isinf(self.selection_intercept_):
            facts.append(("selection", "every candidate was shown: there is no selection to learn"))
        if self.separated_:
            facts.append(("separation", "selection is predicted without error; only the penalty holds its size"))
        return facts

    def _advice(self, found: SelectionFit, problem: _Problem) -> str:
        if problem.objective.observed.all_shown:
            return "every candidate was shown, so there is no selection to learn and the fit is that of IPS"
        if found.separated:
            return "the features tell shown from not shown without error; raise l2"
        if self.gamma == "profile":
            return f"gamma came to {self.gamma_:.4f}; give selection_features of its own, or fix gamma"
        return ""

    def _warn_of_weak_identification(self, problem: _Problem) -> None:
        if len(np.setdiff1d(problem.selection, problem.relevance)):
            return
        warnings.warn(
            "gamma='profile' without a feature that only selection sees: gamma rests on the shape of the noise alone "
            "and may end anywhere. Name selection_features and relevance_features that differ, or fix gamma.",
            CldrankWarning,
            stacklevel=3,
        )


class _Problem(NamedTuple):
    """A fit to be made: the data, checked, and the objective over them."""

    data: RankingDataset
    scaling: scalings.Scaling
    propensities: Propensities
    columns: IntArray  # the features in the design
    relevance: IntArray
    selection: IntArray
    form: Form
    objective: SelectionObjective

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the design's columns."""
        return tuple(self.data.feature_names[column] for column in self.columns)

    @property
    def start(self) -> Vector:
        """No coefficients; a σ that fits the targets."""
        start = np.zeros(self.objective.n_parameters)
        if self.objective.free:
            observed = self.objective.observed
            mean = np.average(observed.target, weights=observed.weight)
            start[-1] = 0.5 * np.log(np.average((observed.target - mean) ** 2, weights=observed.weight) + 1e-300)
            if self.objective.relevance[-1] == self.objective.design.width - 1:
                start[len(self.objective.relevance) - 1] = mean
        return start

    def spread(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients of the design's columns as those of all features, 0 for those that are not in it."""
        found = np.zeros(self.data.n_features)
        found[self.columns] = coefficients
        return found


def chosen_features(names: Sequence[str] | None, dataset: RankingDataset, parameter: str) -> IntArray:
    """The columns of some features of a dataset; all for None."""
    if names is None:
        return np.arange(dataset.n_features)
    if isinstance(names, str):
        raise UsageError(f"{parameter} is a list of names; write [{names!r}].")
    known = {name: column for column, name in enumerate(dataset.feature_names)}
    unknown = [str(name) for name in names if name not in known]
    if unknown or not len(names):
        what = f"{some(unknown)}, which the data do not have" if unknown else "nothing"
        raise UsageError(f"{parameter} names {what}; the features are {some(dataset.feature_names)}.")
    return np.unique([known[name] for name in names])


def _number(value: Any, name: str, other: str = "") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name} must be a number{f' or {other}' if other else ''}, not {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{name} must be a number that float64 can hold, and this one is larger.") from None
