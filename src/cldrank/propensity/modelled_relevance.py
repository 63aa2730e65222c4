"""Estimators that model relevance by features, for logs in which nothing changes places."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import optimise
from cldrank import scaling as scalings
from cldrank._typing import Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.errors import ConvergenceWarning, UnidentifiableError, warn
from cldrank.models import MLP, Linear, Run
from cldrank.optimise import Derivatives, Solution, Vector
from cldrank.parameters import parameter, value
from cldrank.propensity.cells import Cells, PairSums, draw_weights
from cldrank.propensity.estimator import CurveEstimator, check_attraction, goodness_of_fit
from cldrank.propensity.identifiability import Requirement
from cldrank.propensity.propensities import Propensities

# a network of relevance beside a curve of positions; all queries teach, as none is held out to choose the epoch
NETWORK = MLP(epochs=40, learning_rate=5e-3, l2=1e-5, batch_queries=32, warmup=0.0, validation=0.0)
_BLOCK_VALUES = 1 << 22
_DETERMINED = 0.98  # features that explain more of the order than this leave nothing to estimate from


class ShownCandidates(NamedTuple):
    """The cells of the first positions, and the candidates in them.

    row        (cells,) the candidate of each cell, from 0
    features   (candidates, columns) float32, scaled
    """

    cells: Cells
    row: IntArray
    features: NDArray[np.float32]


def explained_order(shown: ShownCandidates) -> float:
    """The largest squared canonical correlation of features and positions over cells, adjusted as R² is."""
    cells, row, features = shown
    rows, size = len(features), cells.size
    weight = cells.impressions / cells.impressions.sum()
    by_candidate = np.bincount(row, weight, rows)
    share = np.bincount(cells.place, weight, size)
    by_row = np.bincount(row * size + cells.place, weight, rows * size).reshape(rows, size) - np.outer(
        by_candidate, share
    )
    means = by_candidate @ features
    gram, cross = np.zeros((features.shape[1],) * 2), np.zeros((features.shape[1], size))
    for own, block in _blocks(features):
        centred = block - means
        gram += (centred * by_candidate[own][:, None]).T @ centred
        cross += centred.T @ by_row[own]
    contrasts = np.diag(share) - np.outer(share, share)
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * max(float(values.max(initial=0.0)), 1e-300)
    whitened = (vectors[:, kept] / np.sqrt(values[kept])).T @ cross
    squares = np.linalg.eigvals(np.linalg.pinv(contrasts, rcond=1e-10, hermitian=True) @ (whitened.T @ whitened))
    largest = float(np.clip(squares.real.max(initial=0.0), 0.0, 1.0))
    freedom = len(row) - int(kept.sum()) - 1
    return max(0.0, 1 - (1 - largest) * (len(row) - 1) / freedom) if freedom > 0 else 1.0


@value
class ModelledRelevance(CurveEstimator):
    """Estimators that need the features of the candidates: `fit(clicks, dataset)`."""

    model: Linear | MLP = parameter(default=Linear(l2=1e-5), about="Of relevance", option=False)

    needs = "features"
    caution = (
        "relevance is modelled, not held fixed: what the features do not know of it counts as position wherever the "
        "order follows relevance"
    )

    @abstractmethod
    def _estimate(self, shown: ShownCandidates) -> tuple[Floats, Floats, dict[str, Any]]:
        """Log ρ, (replicates, k) the same resampled, and parts of the result; a refusal where errors are too large.

        Beside parts of `Propensities`, the `interval` where it is known.
        """

    def _prepared(self, clicks: ClickTable, dataset: Any) -> tuple[tuple[ShownCandidates, float], Requirement]:
        """The shown candidates, and how much of their order features explain; a refusal where that is all of it."""
        cells = self._cells(clicks)
        clicks.check_same(dataset)
        dataset.check_complete(self.name)
        self._refuse_silent(np.flatnonzero(cells.rates() == 0), cells, "nothing was clicked there")
        scaling = scalings.fit(self.model.scaling, dataset.features)
        rows, row = np.unique(cells.candidate, return_inverse=True)
        shown = ShownCandidates(cells, row, scaling.transform(dataset.features[rows]))
        explained = explained_order(shown)
        if explained > _DETERMINED:
            reason = f"the features explain {explained:.1%} of a contrast of positions, so that any curve fits as well"
            raise UnidentifiableError(
                f"{self.name} cannot separate relevance from position: {reason}. What is needed: pages in another "
                "order (a second ranker, or neighbours that change places on a share of pages), or features without "
                "the position and without the score of the ranker.",
                positions=tuple(range(1, cells.size + 1)),
                reason=reason,
            )
        reason = f"{_explained(explained)}; what they do not know of relevance counts as position"
        return (shown, explained), Requirement(self.name, True, reason)

    def _result(self, prepared: tuple[ShownCandidates, float]) -> Propensities:
        shown, explained = prepared
        logs, draws, parts = self._estimate(shown)
        cells, values = shown.cells, np.exp(logs)
        attraction = check_attraction(cells, values, self.replicates, self.seed)
        return self._curve(
            cells,
            values,
            np.exp(draws),
            covariance=np.cov(draws, rowvar=False),
            notes=(*self._notes(cells, attraction), _explained(explained)),
            **parts,
        )


def _explained(share: float) -> str:
    return f"features explain {share:.0%} of the order"


# -- dual learning -------------------------------------------------------------------------------------------------


@value
class DualLearning(ModelledRelevance):
    """The dual learning algorithm (DLA, Ai et al. 2018), on lists of cells.

        ranking:      -Σ_k c_k (ρ_1 / ρ_k) log softmax(f)_k
        examination:  -Σ_k c_k (e^f(x_1) / e^f(x_k)) log softmax(log ρ)_k

    Each loss weights clicks by the inverse of what the other model has learned so far; they share no objective.
    Intervals come from networks trained anew on resampled queries.

    >>> DualLearning(refits=4)
    DualLearning(refits=4)
    """

    model: Linear | MLP = parameter(default=NETWORK, about="Of relevance", option=False)
    run: Run = parameter(default=Run(), about="Where and how networks are trained", option=False)
    refits: int = parameter(
        default=6, least=3, about="Networks trained on resampled queries, each from a different seed, for the intervals"
    )

    name = "dual-learning"
    sentence = "One ranker; a network of relevance trained beside the curve, so trust it less"
    order = 31

    def _estimate(self, shown: ShownCandidates) -> tuple[Floats, Floats, dict[str, Any]]:
        """Train on the log, and on `refits` logs of resampled queries, each from its own seed."""
        from scipy.stats import t

        logs = self._train(shown, self.seed, np.ones(shown.cells.n_groups))
        weights = draw_weights(shown.cells.n_groups, self.refits, self.seed)[1:]
        draws = np.array([self._train(shown, self.seed + 1 + turn, own) for turn, own in enumerate(weights)])
        errors: Floats = draws.std(axis=0, ddof=1)
        self._refuse_weak(errors, shown.cells)
        half = t.ppf(1 - (1 - self.confidence) / 2, self.refits - 1) * errors
        return logs, draws, {"interval": (np.exp(logs - half), np.exp(logs + half))}

    def _train(self, shown: ShownCandidates, seed: int, weight: Floats) -> Floats:
        """The log ρ, with each group of queries counted `weight` times."""
        model = self.model.as_network() if isinstance(self.model, Linear) else self.model
        model.check_installed()
        from torch.random import fork_rng

        from cldrank.models.network.features import FeatureTable
        from cldrank.models.network.loop import train_network
        from cldrank.models.network.training_tasks import DualLists
        from cldrank.rankers.devices import device_of

        cells, lists = shown.cells, _lists(shown.cells, weight)
        with fork_rng(devices=[]):
            task = DualLists(model.build(shown.features.shape[1], seed), cells.place, cells.size)
        unscaled = scalings.fit(None, shown.features[:1])
        places, device = np.arange(len(shown.row)), device_of(self.run.device)
        table = FeatureTable(shown.features[shown.row], unscaled, places, device, self.run.resident)
        nothing = lists[np.zeros(0, dtype=np.int64)]
        identity = [type(self).__name__, repr(weight.tolist())]
        status, _ = train_network(task, lists, nothing, table, model, replace(self.run, seed=seed), identity=identity)
        if status == "interrupted":  # the loop keeps what it has, but half a curve is of no use
            raise KeyboardInterrupt
        if status == "non_finite":
            raise UnidentifiableError(f"{self.name} met numbers that are not finite; lower `learning_rate`.")
        logs: Floats = task.networks["examination"].logs.detach().double().cpu().numpy()  # type: ignore[operator]
        return np.asarray(logs - logs[0])


def _lists(cells: Cells, weight: Floats) -> Any:
    """One list per query, of its cells: target c/n, weight n times how often the query's group was drawn."""
    from cldrank import segments
    from cldrank.models.network.lists import Lists

    order = np.lexsort((cells.place, cells.query))
    order = order[weight[cells.group[order]] > 0]
    _, counts = np.unique(cells.query[order], return_counts=True)
    return Lists(
        segments.from_lengths(counts),
        order,
        (cells.clicks / cells.impressions)[order].astype(np.float32),
        (cells.impressions * weight[cells.group])[order].astype(np.float32),
        np.zeros(len(counts) + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.ones(len(counts), dtype=np.float32),
    )


# -- regression-EM -------------------------------------------------------------------------------------------------


@value
class RegressionEM(ModelledRelevance):
    """Examination by position and relevance by regression, for logs of a single ranker (Wang et al. 2018).

        P(click at k) = ρ_k γ(x),    γ(x) = σ(β·x + intercept)

    The likelihood of cells that regression-EM climbs, maximised by Newton's method. Each replicate of the intervals is
    a Newton step from the optimum.

    >>> import cldrank as cr
    >>> x = np.tile([0.0, 1.0, 2.0, 3.0], 30)
    >>> data = cr.RankingDataset.from_arrays(x[:, None], np.arange(120) // 2)
    >>> clicks = (1000 / (1 + np.exp(1 - x)) / np.tile([1, 4, 4, 1], 30)).round().astype(int)
    >>> shown = {"position": np.tile([1, 2, 2, 1], 30), "impressions": [1000] * 120}
    >>> table = cr.ClickTable.from_arrays(data, **shown, clicks=clicks)
    >>> RegressionEM(model=cr.Linear(l2=0)).fit(table, data).values.round(3)
    array([1.  , 0.25])
    """

    model: Linear = parameter(default=Linear(l2=1e-5), about="Of relevance", option=False)

    name = "regression-em"
    sentence = "One ranker; relevance by regression on features, so trust it less"
    order = 30

    def _estimate(self, shown: ShownCandidates) -> tuple[Floats, Floats, dict[str, Any]]:
        cells = shown.cells
        objective = ExaminedRegression(cells, shown.features, shown.row, self.model.l2)
        solution = optimise.newton(objective, objective.start, max_steps=200, tolerance=1e-8)
        if not solution.converged:
            ended = f"{solution.status} after {solution.n_steps} steps"
            warn(ConvergenceWarning(f"{self.name} did not find the optimum ({ended}); a larger `l2` may help."))
        optimum = solution.parameters
        logs = objective.logs(optimum)
        draws = self._resampled(objective, solution)
        curves = np.exp(draws)
        self._errors(curves, cells)
        parts = {
            "goodness": goodness_of_fit(PairSums.of(cells), np.exp(logs), curves, self._weights(cells)),
            "replicates": curves,
        }
        return logs, draws, parts

    def _resampled(self, objective: ExaminedRegression, solution: Solution) -> Floats:
        """(replicates, k) log ρ, each a Newton step from the optimum of the whole log."""
        pull = (self._weights(objective.cells) - 1) @ objective.group_scores(solution.parameters)
        steps = pull @ optimise.inverse(-solution.evaluation.hessian)[:, : objective.n_positions]
        logs = objective.logs(solution.parameters)[1:] + steps
        return np.concatenate([np.zeros((len(logs), 1)), logs], axis=1)


class ExaminedRegression:
    """Mean log-likelihood of cells, less a penalty; parameters are log ρ_2 … log ρ_k, then β and its intercept.

        Σ_cells [c log q + (n - c) log(1 - q)] / Σ n - l2 ‖β‖²,    q = ρ_k γ(x),    γ(x) = σ(β·x + intercept)

    features   (rows, columns) float32, scaled, of the candidates that were shown
    row        (cells,) which of them a cell belongs to
    """

    def __init__(self, cells: Cells, features: NDArray[np.float32], row: IntArray, l2: float) -> None:
        self.cells, self.features, self.row, self.l2 = cells, features, row, l2
        self.total = float(cells.impressions.sum())
        self.n_positions, self.width = cells.size - 1, features.shape[1]
        self.missed = cells.impressions - cells.clicks

    @property
    def start(self) -> Vector:
        """The optimum without features: click-through rates, all candidates alike."""
        rates = np.clip(self.cells.rates(), 1e-9, 1 - 1e-9)
        level = np.log(rates[0]) - np.log1p(-rates[0])
        return np.concatenate([np.log(rates[1:] / rates[0]), np.zeros(self.width), [level]])

    def scores(self, parameters: Vector) -> Floats:
        """(rows,) β·x + intercept."""
        beta = parameters[self.n_positions : -1]
        scores: Floats = np.concatenate([block @ beta for _, block in _blocks(self.features)])
        return scores + float(parameters[-1])

    def logs(self, parameters: Vector) -> Floats:
        """(k,) log ρ."""
        return np.concatenate([[0.0], parameters[: self.n_positions]])

    def __call__(self, parameters: Vector) -> Derivatives:
        """Value, gradient and Hessian."""
        place, n_rows, size = self.cells.place, len(self.features), self.cells.size
        value, first, second, mixed, curved, relevant = self._terms(parameters)
        beta, ends = parameters[self.n_positions : -1], slice(self.n_positions, None)
        gradient, hessian = np.zeros(len(parameters)), np.zeros((len(parameters), len(parameters)))
        gradient[: self.n_positions] = np.bincount(place, first, size)[1:]
        gradient[ends] = self._back(np.bincount(self.row, first * relevant, n_rows))
        inner = np.arange(self.n_positions)
        hessian[inner, inner] = np.bincount(place, second, size)[1:]
        hessian[ends, ends] = -self._gram(-np.bincount(self.row, curved, n_rows))
        across = np.bincount(self.row * size + place, mixed, n_rows * size).reshape(n_rows, size)[:, 1:]
        hessian[ends, : self.n_positions] = self._back(across)
        hessian[: self.n_positions, ends] = hessian[ends, : self.n_positions].T
        gradient /= self.total
        hessian /= self.total
        gradient[self.n_positions : -1] -= 2 * self.l2 * beta
        spots = np.arange(self.n_positions, len(parameters) - 1)
        hessian[spots, spots] -= 2 * self.l2
        return Derivatives(value / self.total - self.l2 * float(beta @ beta), gradient, hessian)

    def group_scores(self, parameters: Vector) -> Floats:
        """(groups, parameters) what each group adds to the gradient, penalty included by its impressions.

        At the optimum they add up to 0, and reweighting groups moves the optimum by H⁻¹ Σ_g (w_g - 1) of them.
        """
        from scipy.sparse import csr_matrix

        cells = self.cells
        _, first, _, _, _, relevant = self._terms(parameters)
        gradients = np.zeros((cells.n_groups, len(parameters)))
        gradients[:, : self.n_positions] = cells.by_group(cells.place, first, cells.size)[:, 1:]
        member = csr_matrix((first * relevant, (cells.group, self.row)), shape=(cells.n_groups, len(self.features)))
        for own, block in _blocks(self.features):
            part = member[:, own]
            gradients[:, self.n_positions : -1] += part @ block
            gradients[:, -1] += np.asarray(part.sum(axis=1)).ravel()
        shown = np.bincount(cells.group, cells.impressions, cells.n_groups)
        beta = parameters[self.n_positions : -1]
        gradients[:, self.n_positions : -1] -= 2 * self.l2 * np.outer(shown, beta)
        return gradients / self.total

    def _terms(self, parameters: Vector) -> tuple[float, Floats, Floats, Floats, Floats, Floats]:
        """The log-likelihood, and of each cell its derivatives: by log ρ, twice, by both, by the score twice; 1 - γ.

        The first derivative by the score is that by log ρ times 1 - γ. The Hessian is kept
        whole, also where it is not concave: Newton's method can climb there.
        """
        from scipy.special import expit, log_expit

        cells, missed = self.cells, self.missed
        scores = self.scores(parameters)[self.row]
        log_q = self.logs(parameters)[cells.place] + log_expit(scores)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = -np.expm1(log_q)
            value = float((cells.clicks * log_q).sum() + (missed[missed > 0] * np.log(left[missed > 0])).sum())
            odds = np.where(missed > 0, missed * np.exp(log_q) / left, 0.0)
            second = -np.where(missed > 0, odds / left, 0.0)
        if not (left[missed > 0] > 0).all():
            value = np.nan  # a click probability above 1: outside
        first, unlike = cells.clicks - odds, expit(-scores)
        curved = second * unlike**2 - first * unlike * (1 - unlike)
        return value, first, second, second * unlike, curved, unlike

    def _back(self, values: NDArray[Any]) -> Floats:
        """(columns + 1, …) Σ over rows of the value times (x, 1)."""
        inner = sum(block.T @ values[own] for own, block in _blocks(self.features))
        return np.concatenate([inner, values.sum(axis=0)[None]])

    def _gram(self, weight: NDArray[Any]) -> Floats:
        """(columns + 1, columns + 1) Σ weight (x, 1)(x, 1)ᵀ; weights of either sign."""
        gram = np.zeros((self.width + 1, self.width + 1))
        for own, block in _blocks(self.features):
            part = block * weight[own][:, None]
            gram[:-1, :-1] += part.T @ block
            gram[:-1, -1] += part.sum(axis=0)
        gram[-1, :-1] = gram[:-1, -1]
        gram[-1, -1] = weight.sum()
        return gram


def _blocks(features: NDArray[np.float32]) -> Iterator[tuple[slice, Floats]]:
    """The rows block by block, in double precision."""
    rows, width = features.shape
    size = max(1, _BLOCK_VALUES // max(width, 1))
    for own in (slice(start, start + size) for start in range(0, rows, size)):
        yield own, features[own].astype(np.float64)
