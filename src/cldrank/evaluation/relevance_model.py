"""`RelevanceModel`: the relevance that features predict for candidates of queries that were not learned from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.methods.rating_quality import Examined, calibration, usable_ratings

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FOLDS = 5
NEVER_SHOWN = 0.93  # relevance of never-shown results, as a share of that of shown ones with the same features
OFF = 0.065  # the standard error of that share for all never-shown results together; both from simulations
_OWN = 0.5  # that of the results of one ranker against another's, as a share of the standard error of all
RATED_BY_PEOPLE, OFF_BY_PEOPLE = 0.965, 0.035  # the same of results that people rated, as well as 0.95 in simulations
BELOW_CLICKS = 0.4  # the same of results that were shown, but only below clicks after which people do not read on
_FEWEST_QUERIES = 20  # that a model is worth being learned from
_MOST_QUERIES = 20_000  # that it is learned from; more would hardly change it
_HIDDEN_FOLDS = 2  # which suffice, since nothing is said about how certain they are
_HIDDEN = 0.3  # of the positions, from below, for the check of extrapolation
_RIDGE = 20.0
_FARTHEST = 4.0  # standard deviations that a feature may lie from its mean
_TREES = {"max_iter": 40, "learning_rate": 0.12, "max_leaf_nodes": 8, "min_samples_leaf": 40, "l2_regularization": 5.0}
_LEVELS = 32  # of a feature, for trees
_BLOCK = 100_000  # rows


@dataclass(frozen=True, eq=False)
class HiddenCheck:
    """Results of the lowest positions, hidden from a model that predicts them: their mean relevance.

    predicted   by features
    observed    as clicked
    error       the standard error of the difference, clustered by query
    """

    predicted: float
    observed: float
    error: float


@dataclass(frozen=True, eq=False)
class RelevanceModel:
    """Relevance learned with each group of queries left out in turn: no query is predicted from its own clicks alone.

    It is the mean of two models, which go wrong in different ways: a linear one, and boosted trees. Both learn clicks
    over examinations of shown results. Where the shown results of a query are clicked more or less than predicted, its
    never-shown ones count more or less as well (`query_factors`). And these count 0.93 times as much, since production
    left them out for reasons that features do not show.

    Ratings of the log that agree with clicks join the features: the relevance that a rating stands for among shown
    results, learned anew by each fit. A candidate is predicted by the fit that knows who rated it: nobody, machines,
    or people as well. Never-shown results that people rated count 0.965 times.

    predicted   (rows,) between 0 and `most`: of each candidate, by the fits that have not seen its query
    spread      (rows,) the standard error of predictions, since what was shown has been chosen
    groups      (groups, rows): of every candidate, by each group's fits; how they differ says how certain they are
    apart       (rows,) half of what the linear model predicts more than the trees
    by_people   how many never-shown results are predicted with what people rated
    hidden      the check of predictions where nothing was shown; None where it could not be made
    most        the largest relevance there is: 1, or what a click with all events is worth
    """

    predicted: Floats
    spread: Floats
    groups: Floats
    apart: Floats
    hidden: HiddenCheck | None = None
    by_people: int = 0
    most: float = 1.0

    def variance(self, values: Floats) -> float:
        """The variance of a number that was computed from each group: the jackknife, which leaves out each in turn.

        Σ (value - mean)^2     = (n - 1) / n Σ … for a fit to all, times n / (n - 1) for fits without a group
        """
        return float(((values - values.mean()) ** 2).sum())

    def off(self, weights: Floats) -> float:
        """How far a weighted sum of never-shown results' relevance may be off, as a standard error.

            off² = (Σ weight spread)² + (Σ |weight| spread / 2)² + (Σ weight apart)²

        What all never-shown results have in common cancels where both rankers have as much of them. Where predictions
        could not be checked, as on pages of one result, it may be off by `most` everywhere.

        weights   (rows,) 0 for results that were shown
        """
        if self.hidden is None:
            return self.most * float(np.abs(weights).sum())
        errors = weights @ self.spread, _OWN * (np.abs(weights) @ self.spread), weights @ self.apart
        return float(np.linalg.norm(errors))


def fit_model(log: LoggedClicks, *, folds: int = FOLDS, seed: int = 0) -> RelevanceModel:
    """Fit the model to a log; refused with DataError where the log is too small for it.

    >>> import cldrank as cr
    >>> from cldrank.clicks.simulate import PositionBased, Simulation
    >>> features = np.arange(300) % 7 + np.arange(300)[:, None] % 4
    >>> data = cr.RankingDataset.from_arrays(features, np.arange(300) // 10, labels=np.arange(300) % 4)
    >>> clicks = Simulation(data, features[:, 0], PositionBased(eta=1), depth=5).draw(10_000)
    >>> fit_model(LoggedClicks(data, clicks, cr.Propensities.power(1, 5))).groups.shape
    (5, 300)
    """
    searched = log.pages > 0
    if int(searched.sum()) < _FEWEST_QUERIES:
        raise DataError(f"a model of relevance needs {_FEWEST_QUERIES} queries, and there are {int(searched.sum())}.")
    _, people, machine = usable_ratings(log.clicks, log.examined)
    table, group = _Table.of(log, (machine, people)), _groups(log.data, folds, seed)
    own, rows = group[log.queries], np.arange(log.data.n_rows)
    usable = _learned_from(searched, seed)
    both = np.stack(
        [table.predictions(table.shown & usable[log.queries] & (own != each), seed) for each in range(folds)]
    )
    shown, told = log.clicks.row_impressions > 0, ~np.isnan(people)
    linear, trees = both[own, :, rows].T
    factor = np.where(table.shown, 1.0, query_factors(log, (linear + trees) / 2, table.shown)[log.queries])
    most = log.clicks.most_value
    share = np.where(shown, 1.0, np.where(told, RATED_BY_PEOPLE, NEVER_SHOWN)) * factor
    groups = np.minimum(share * both.mean(axis=1), most)
    spread = np.where(shown, BELOW_CLICKS, np.where(told, OFF_BY_PEOPLE, OFF)) * groups[own, rows]
    apart = share * (linear - trees) / 2
    hidden = _hidden_check(log, table, usable, own % _HIDDEN_FOLDS, seed)
    by_people = int((told & ~shown).sum())
    return RelevanceModel(groups[own, rows], spread, groups, apart, hidden, by_people, most)


def query_factors(log: LoggedClicks, predicted: Floats, examined: Flags) -> Floats:
    """(queries,) how much more relevant the results of each query are than predicted.

        factor = 1 + λ (clicks / expected - 1),   λ = τ² expected² / (τ² expected² + noise)

    Clicks and expected clicks are sums over the examined results of a query. τ², the variance of factors, is what the
    errors of two results of the same query have in common; noise is that of single results, whose clicks are random and
    whose relevance features do not tell. Without common errors, all factors are 1, and likewise where display
    probabilities are known: predictions must then not depend on what happened to be shown and clicked.

    predicted   (rows,) relevance, learned from other queries
    examined    (rows,) which results count

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays(np.zeros((8, 1)), np.arange(8) // 2)
    >>> cells = {"position": [1, 2] * 4, "impressions": [1000] * 8, "clicks": [800, 400, 200, 100] * 2}
    >>> log = LoggedClicks(data, cr.ClickTable.from_arrays(data, **cells), cr.Propensities.power(1, 2))
    >>> query_factors(log, np.full(8, 0.5), np.ones(8, dtype=bool)).round(2)
    array([1.6, 0.4, 1.6, 0.4])
    """
    exposure = np.where(examined, log.exposure, 0.0)
    expected = exposure * predicted
    error, spread = np.where(examined, log.excess_value, 0.0) - expected, log.clicks.value_spread
    by_query, total = log.by_query, log.by_query(expected)
    pairs = (total**2 - by_query(expected**2)).sum()
    if pairs <= 0 or log.clicks.display is not None:
        return np.ones(len(total))
    shared = by_query(error)
    variance = max(float((shared**2 - by_query(error**2)).sum() / pairs), 0.0)
    single = error**2 - spread * expected - variance * expected**2  # beyond chance and what the query has in common
    unexplained = max(float(single.sum() / (expected @ exposure)), 0.0)
    noise = by_query(expected * (spread + unexplained * exposure))
    known = np.divide(variance * total, variance * total**2 + noise, out=np.zeros(len(total)), where=noise > 0)
    return np.asarray(np.maximum(1 + known * shared, 0.0))


def _groups(data: RankingDataset, folds: int, seed: int) -> IntArray:
    """(queries,) the group of each query; those with the same candidates are in one, since they are one query."""
    sums = np.add.reduceat(np.nansum(data.features, axis=1, dtype=np.float64), data.offsets[:-1])
    distinct, code = np.unique(sums, return_inverse=True)
    if len(distinct) < _FEWEST_QUERIES:
        code = np.arange(data.n_queries)
    dealt: IntArray = np.random.default_rng(seed).permutation(int(code.max(initial=0)) + 1)[code] % folds
    return dealt


def _learned_from(searched: Flags, seed: int) -> Flags:
    """(queries,) which are learned from: all that were searched, or some of very many."""
    queries = np.flatnonzero(searched)
    if len(queries) > _MOST_QUERIES:
        queries = np.random.default_rng([seed, 1]).choice(queries, _MOST_QUERIES, replace=False)
    usable = np.zeros(len(searched), dtype=bool)
    usable[queries] = True
    return usable


def _hidden_check(log: LoggedClicks, table: _Table, usable: Flags, fold: IntArray, seed: int) -> HiddenCheck | None:
    """Learn from results of the upper positions, and predict those that are mostly shown at the lowest."""
    depth = log.clicks.depth
    lowest = table.shown & (table.height > depth - max(1, round(_HIDDEN * depth)))
    upper = table.shown & ~lowest & usable[log.queries]
    folds = [upper & (fold != each) for each in range(_HIDDEN_FOLDS)]
    if not lowest.any() or any(table.target[learned].sum() <= 0 for learned in folds):
        return None
    predicted = np.stack([table.predictions(learned, seed).mean(axis=0) for learned in folds])
    own = predicted[fold, np.arange(len(fold))]
    own = own * query_factors(log, own, table.shown & ~lowest)[log.queries]
    exposure = np.where(lowest, log.exposure, 0.0)
    total = exposure.sum()
    if total <= 0:
        return None
    missed = log.by_query(np.where(lowest, log.excess_value - exposure * own, 0.0)) / total
    error = float(np.sqrt((missed**2).sum()))
    return HiddenCheck(float(exposure @ own / total), float(log.excess_value[lowest].sum() / total), error)


@dataclass(frozen=True, eq=False)
class _Table:
    """What models learn from, a row for each candidate.

    levels     features by quantile, from 0, and -1 where they are missing: for trees
    scaled     in standard deviations, without gaps: for the linear model
    target     clicks over examinations, or their value
    weight     examinations / (1 + examinations): those of one result say less and less
    shown      whether a candidate was examined at all
    height     its mean position
    examined   exposure and clicks, which calibrate ratings
    most       the largest target there can be
    ratings    by machines, then by people, NaN where there are none; only those that are used
    """

    levels: NDArray[np.int8]
    scaled: NDArray[np.float32]
    target: Floats
    weight: Floats
    shown: Flags
    height: Floats
    examined: Examined
    most: float
    ratings: tuple[Floats, ...]

    @classmethod
    def of(cls, log: LoggedClicks, ratings: Iterable[Floats]) -> _Table:
        features, examined = np.asarray(log.data.features), log.examined
        used = tuple(each for each in ratings if not np.isnan(each).all())
        shown = log.seen & (log.exposure > 0)
        clicks = log.clicks
        height = log.by_row(clicks.impressions * clicks.position) / np.maximum(clicks.row_impressions, 1)
        target = np.divide(log.excess_value, log.exposure, out=np.zeros(len(shown)), where=shown)
        weight, most = np.where(shown, examined.weight, 0.0), clicks.most_value
        return cls(_levels(features), _scaled(features), target, weight, shown, height, examined, most, used)

    def predictions(self, learned: Flags, seed: int) -> Floats:
        """(2, rows) what the linear model and the trees predict, learned from some rows.

        Ratings change only what is rated, machines' before people's: what is not rated may be unlike what is.
        """
        if not learned.any():
            raise DataError("a model of relevance has no shown results to learn from.")
        scaled, levels = self.scaled, self.levels
        predicted = self._fitted(scaled, levels, learned, seed)
        for ratings in self.ratings:
            known = ~np.isnan(ratings)
            if (known & learned).any():
                stands_for = calibration(ratings, self.examined, learned)(ratings)
                scaled = np.column_stack([scaled, _scaled(stands_for[:, None]), known])
                levels = np.column_stack([levels, _levels(ratings[:, None])])
                predicted = np.where(known, self._fitted(scaled, levels, learned, seed), predicted)
        return predicted

    def _fitted(self, scaled: NDArray[np.float32], levels: NDArray[np.int8], learned: Flags, seed: int) -> Floats:
        """(2, rows) what both models predict from their inputs, learned from some rows."""
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.linear_model import Ridge

        target, weight = self.target[learned], self.weight[learned]
        trees: Any = HistGradientBoostingRegressor(**_TREES, early_stopping=False, random_state=seed)
        linear = Ridge(alpha=_RIDGE).fit(scaled[learned], target, sample_weight=weight)
        trees.fit(levels[learned], target, sample_weight=weight)
        both = np.empty((2, len(learned)))
        for first in range(0, len(learned), _BLOCK):  # both copy what they predict
            block = slice(first, first + _BLOCK)
            both[:, block] = linear.predict(scaled[block]), trees.predict(levels[block])
        return np.clip(both, 0.0, self.most)


def _levels(features: NDArray[Any]) -> NDArray[np.int8]:
    """Features as the number of the quantile that they lie in, which trees need not find for each fit."""
    levels = np.full(features.shape, -1, dtype=np.int8)
    for column, values in enumerate(features.T):
        known = ~np.isnan(values)
        ends = (
            np.unique(np.quantile(values[known], np.linspace(0, 1, _LEVELS + 1)[1:-1])) if known.any() else values[:0]
        )
        levels[known, column] = np.searchsorted(ends, values[known])
    return levels


def _scaled(features: NDArray[Any]) -> NDArray[np.float32]:
    """Features in standard deviations from their means, limited; a missing value counts as the mean."""
    scaled = np.zeros(features.shape, dtype=np.float32)
    for column, values in enumerate(features.T):
        known = ~np.isnan(values)
        apart = values[known].astype(np.float64)
        apart -= apart.mean() if len(apart) else 0.0
        spread = np.sqrt((apart**2).mean()) if len(apart) else 0.0
        scaled[known, column] = np.clip(apart / (spread or 1.0), -_FARTHEST, _FARTHEST)
    return scaled
