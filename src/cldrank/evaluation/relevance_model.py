"""`RelevanceModel`: the relevance that CLD predicts for candidates of queries that it has not seen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, CldrankWarning, DataError
from cldrank.estimators.observing import observe
from cldrank.evaluation.logged import Curve, LoggedClicks
from cldrank.models import Linear, Run
from cldrank.models.fit import Context
from cldrank.models.targets import PointSelection
from cldrank.rankers import Provenance

Floats = NDArray[np.float64]

GAMMA = 0.1
FOLDS = 5
_FEWEST_QUERIES = 20  # that a model is worth being learned from
_MOST_QUERIES = 20_000  # that it is learned from; more would hardly change it
_HIDDEN = 0.3  # of the positions, from below, for the check of extrapolation


@dataclass(frozen=True, eq=False)
class RelevanceModel:
    """CLD, fitted once without each of several groups of queries; nothing is predicted from clicks on itself.

    predicted   (rows,) between 0 and 1: of each candidate, by the fit that has not seen its query
    groups      (groups, rows): of every candidate, by each of the fits; how they differ says how certain they are
    hidden      (rows,) the same as predicted, learned from a log that ends `n_hidden` positions earlier: what it says
                of results below can be held against the clicks there. None where pages have one position only
    gamma       of the likelihood
    """

    predicted: Floats
    groups: Floats
    hidden: Floats | None
    n_hidden: int
    gamma: float

    def variance(self, values: Floats) -> float:
        """The variance of a number that was computed from each group: the jackknife that leaves out one at a time."""
        n = len(values)
        return float((n - 1) / n * ((values - values.mean()) ** 2).sum())


def fit_model(
    log: LoggedClicks, *, gamma: float = GAMMA, folds: int = FOLDS, seed: int = 0, check: bool = True
) -> RelevanceModel:
    """Fit the model to a log; refused with DataError where the log is too small for it.

    check   whether to learn it once more from the upper positions only
    """
    data = _complete(log.data)
    searched = np.flatnonzero(log.pages > 0)
    if len(searched) < _FEWEST_QUERIES:
        raise DataError(f"a model of relevance needs {_FEWEST_QUERIES} queries, and there are {len(searched)}.")
    group = np.random.default_rng(seed).permutation(log.data.n_queries) % folds
    rows = group[log.queries], np.arange(log.data.n_rows)
    groups = _fits(data, log.clicks, log.curve, group, gamma, seed)
    n_hidden = max(1, round(_HIDDEN * log.clicks.depth)) if log.clicks.depth > 1 and check else 0
    hidden = None
    if n_hidden:
        try:
            hidden = _fits(data, log.clicks.first(log.clicks.depth - n_hidden), log.curve, group, gamma, seed)[rows]
        except CldrankError:  # too few clicks at the top: there is nothing to check by
            n_hidden = 0
    return RelevanceModel(groups[rows], groups, hidden, n_hidden, gamma)


def _fits(data: RankingDataset, clicks: ClickTable, curve: Curve, group: IntArray, gamma: float, seed: int) -> Floats:
    """(groups, rows) the predictions of fits that each leave one group of queries out."""
    pages = clicks.query_impressions
    random = np.random.default_rng([seed, 1])
    found = np.empty((int(group.max()) + 1, data.n_rows))
    for left_out in range(len(found)):
        queries = np.flatnonzero((group != left_out) & (pages > 0))
        if len(queries) > _MOST_QUERIES:
            queries = np.sort(random.choice(queries, _MOST_QUERIES, replace=False))
        part = data[queries]
        problem = PointSelection(
            observed=observe(part, clicks[queries], curve, "ips"),
            pages=pages[queries],
            gamma=gamma,
            tobit=False,
            sigma=1.0,
            relevance=np.arange(data.n_features),
            selection=np.arange(data.n_features),
            unshown_ratio=1.0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CldrankWarning)
            fit = Linear().fit_points(problem, Context(part, Run(seed=seed), "the model", "relevance", Provenance()))
        found[left_out] = np.clip(fit.ranker.predict(data), 0.0, 1.0)
    return found


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
