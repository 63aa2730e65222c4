"""`RelevanceModel`: the relevance that features predict for candidates of queries that were not learned from."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, CldrankWarning, DataError
from cldrank.evaluation.exposure import LoggedClicks, ScoreOrder
from cldrank.methods.observing import observe
from cldrank.models import Linear, Run
from cldrank.models.fit import Context
from cldrank.rankers import Provenance

Floats = NDArray[np.float64]

FOLDS = 5
_FEWEST_QUERIES = 20  # that a model is worth being learned from
_MOST_QUERIES = 20_000  # that it is learned from; more would hardly change it
_HIDDEN_FOLDS = 2  # which suffice, since nothing is said about how certain they are
_HIDDEN = 0.3  # of the positions, from below, for the check of extrapolation
_GAMMA = 0.02  # correlation of selection and relevance that CLD assumes; from simulations


def _predictions(log: LoggedClicks, wanted: RankingDataset, seed: int) -> Floats:
    """(rows of `wanted`,) relevance between 0 and 1, learned from a log.

    The model is CLD with a linear score and r̄ = c / (n ρ), which is without bias: its score is the expected r̄.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CldrankWarning)
        observed = observe(log.data, log.clicks, log.curve, "ips")
        context = Context(log.data, Run(seed=seed), "the model of relevance", "clicks over propensity", Provenance())
        return np.clip(Linear().fit_points(observed, context, gamma=_GAMMA).ranker.predict(wanted), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class RelevanceModel:
    """Relevance learned with each group of queries left out in turn: no query is predicted from its own clicks.

    predicted   (rows,) between 0 and 1: of each candidate, by the fit that has not seen its query
    groups      (groups, rows): of every candidate, by each of the fits; how they differ says how certain they are
    hidden      (rows,) the same as predicted, learned from a log without the results that are mostly shown at the
                lowest positions: what it says of them can be held against the clicks on them. None where
                pages have a single position
    lowest      (rows,) the results mostly shown there
    allowance   how far the mean relevance of never-shown results may be off, either way, since they are not like those
                that were shown; 1 if nothing is known about that
    """

    predicted: Floats
    groups: Floats
    hidden: Floats | None
    lowest: NDArray[np.bool_]
    allowance: float = 1.0

    def variance(self, values: Floats) -> float:
        """The variance of a number that was computed from each group: the jackknife, which leaves out each in turn.

        Σ (value - mean)^2     = (n - 1) / n Σ … for a fit to all, times n / (n - 1) for fits without a group
        """
        return float(((values - values.mean()) ** 2).sum())


def fit_model(
    log: LoggedClicks,
    *,
    orders: Sequence[ScoreOrder] = (),
    folds: int = FOLDS,
    seed: int = 0,
) -> RelevanceModel:
    """Fit the model to a log; refused with DataError where the log is too small for it.

    orders  those that will be judged: their discounts by rank are features, so that what the model gets wrong does not
            go along with what they rank high
    """
    data, depth = _with_ranks(_complete(log.data), orders, log.clicks.depth), log.clicks.depth
    n_searched = int((log.pages > 0).sum())
    if n_searched < _FEWEST_QUERIES:
        raise DataError(f"a model of relevance needs {_FEWEST_QUERIES} queries, and there are {n_searched}.")
    group = np.random.default_rng(seed).permutation(log.data.n_queries) % folds
    own, rows = group[log.queries], np.arange(log.data.n_rows)
    groups = _fits(LoggedClicks(data, log.clicks, log.curve), group, seed)
    n_hidden = max(1, round(_HIDDEN * depth)) if depth > 1 else 0
    mean_position = log.by_row(log.clicks.impressions * log.clicks.position) / np.maximum(log.clicks.row_impressions, 1)
    hidden, lowest = None, mean_position > depth - n_hidden
    if n_hidden:
        try:
            shown = LoggedClicks(data, log.clicks.where(~lowest[log.clicks.row]), log.curve)
            hidden = _fits(shown, group % _HIDDEN_FOLDS, seed)[own % _HIDDEN_FOLDS, rows]
        except CldrankError:  # too few clicks at the top: there is nothing to check by
            hidden = None
    return RelevanceModel(groups[own, rows], groups, hidden, lowest)


def _fits(log: LoggedClicks, group: IntArray, seed: int) -> Floats:
    """(groups, rows) the predictions of fits, each without a group of queries."""
    random = np.random.default_rng([seed, 1])
    predicted = np.empty((int(group.max()) + 1, log.data.n_rows))
    for left_out in range(len(predicted)):
        queries = np.flatnonzero((group != left_out) & (log.pages > 0))
        if len(queries) > _MOST_QUERIES:
            queries = np.sort(random.choice(queries, _MOST_QUERIES, replace=False))
        part = LoggedClicks(log.data[queries], log.clicks[queries], log.curve)
        predicted[left_out] = _predictions(part, log.data, seed)
    return predicted


def _with_ranks(data: RankingDataset, orders: Sequence[ScoreOrder], depth: int) -> RankingDataset:
    """The data with two more features for each order: its discounts, of all ranks, and of those on a page.

    Features lose their names, which those added might have already.
    """
    columns = []
    for order in orders:
        discounts = 1 / np.log2(order.ranks + 1.0)
        columns += [discounts, np.where(order.ranks <= depth, discounts, 0.0)]
    if not columns:
        return data
    features = np.concatenate([data.features, np.stack(columns, axis=1).astype(np.float32)], axis=1)
    return replace(data, features=features, feature_names=tuple(map(str, range(features.shape[1]))))


def _complete(data: RankingDataset) -> RankingDataset:
    """The data with missing values filled in by the mean of their feature."""
    if not data.has_missing:
        return data
    features = np.array(data.features)
    missing = np.isnan(features)
    counts = np.maximum((~missing).sum(axis=0), 1)
    means = np.where(missing, 0.0, features).sum(axis=0) / counts
    features[missing] = np.broadcast_to(means, features.shape)[missing]
    return replace(data, features=features, has_missing=False)
