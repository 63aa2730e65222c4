"""Production as a ranker: learned from the order of the log, or the feature that is its score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank import segments
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import held_out
from cldrank.errors import DataError, UsageError
from cldrank.methods import Method
from cldrank.methods.svm_rank import label_pairs, separated
from cldrank.models.fit import Context
from cldrank.models.targets import Targets
from cldrank.rankers import LinearRanker, Ranker
from cldrank.scaling import Scaling, Unscaled
from cldrank.wording import some

Floats = NDArray[np.float64]
_PAIRS = 20_000  # that a linear imitation learns from; more hardly change it
_C = 1.0  # the weight of its pairs: nearly all of them can be in order, where production is linear, too
_APART = 0.2  # of the queries to learn from, those that choose between two imitations
_SEED = 2  # of the hashes that set them apart
_USER = "the imitation of production"


def heights(clicks: ClickTable) -> Floats:
    """(rows,) how far up production shows each candidate: 1 at the top of the page, above 0 at its end, 0 below.

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> heights(ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0]))
    array([0.5, 1. , 0. ])
    """
    shares = clicks.impressions / clicks.query_impressions[clicks.candidates.row_queries[clicks.row]]
    up = shares * (clicks.depth + 1 - clicks.position) / max(clicks.depth, 1)
    return np.bincount(clicks.row, up, clicks.candidates.n_rows).astype(np.float64, copy=False)


def imitate(
    learned: Ranker, method: Method, dataset: RankingDataset, clicks: ClickTable, has_missing: bool = False
) -> Ranker:
    """A ranker that puts candidates in the order of the log.

    Of a linear ranker, it is a ranking SVM on pairs, in the same scaling. Of others, it is the method's model,
    fitted to how far up each candidate was shown, or such an SVM: whichever shows more of production's results for
    queries that neither learned from. With missing values, here or elsewhere (`has_missing`), it is always the former.
    """
    if isinstance(learned, LinearRanker):
        return _by_pairs(learned, learned.scaling, method, *_shown_heights(dataset, clicks))
    apart = held_out(dataset.query_ids, _APART, _SEED)
    if has_missing or dataset.has_missing or not clicks[apart].n_cells or not clicks[~apart].n_cells:
        return _by_model(learned, method, *_shown_heights(dataset, clicks))
    part = dataset[~apart]
    shown = _shown_heights(part, clicks[~apart])
    rankers = (
        _by_model(learned, method, *shown),
        _by_pairs(learned, scalings.fit("standard", part.features), method, *shown),
    )
    others = dataset[apart]
    ranks = [segments.descending_ranks(ranker.predict(others), others.offsets) for ranker in rankers]
    return rankers[int(np.argmax([shown_alike(own, clicks[apart]) for own in ranks]))]


def feature_alone(
    name: str, learned: Ranker, method: Method, dataset: RankingDataset, has_missing: bool = False
) -> tuple[Ranker, Ranker]:
    """The ranker whose score is a single feature, unscaled; and in the learned ranker's scaling, to blend with it.

    A linear ranker refuses rows in which any feature is missing: where some are, the method's model learns the feature.
    """
    column = dataset.feature_names.index(name)
    if has_missing:
        values = dataset.features[:, column]
        quantiles = np.searchsorted(np.sort(values), values, side="right") / len(values)
        by_model = _by_model(learned, method, dataset, quantiles)
        return by_model, by_model
    coefficients = (np.arange(dataset.n_features) == column).astype(np.float64)
    plain = _linear(learned, Scaling(Unscaled(), dataset.n_features, {}), coefficients)
    return plain, _linear(learned, learned.scaling, coefficients) if isinstance(learned, LinearRanker) else plain


def _by_model(learned: Ranker, method: Method, part: RankingDataset, target: Floats) -> Ranker:
    """The method's model, fitted to a target for each candidate."""
    rows = np.arange(part.n_rows)
    targets = Targets(rows, target, np.ones(len(rows)), part.row_queries)
    run = method.run.without("resume", "log")
    context = Context(part, run, _USER, "the order of the log", learned.provenance)
    return method.model.fit_targets(targets, context).ranker


def _by_pairs(learned: Ranker, scaling: Scaling, method: Method, part: RankingDataset, target: Floats) -> LinearRanker:
    """A ranking SVM on pairs of candidates, the higher target first."""
    upper, lower = label_pairs(target, part.offsets, _PAIRS, np.random.default_rng(method.run.seed))
    if not len(upper):
        raise DataError(f"the log has no query with two candidates in a known order, for {_USER} to learn from.")
    both = scaling.transform(part.features[np.concatenate([upper, lower])]).astype(np.float64)
    return _linear(learned, scaling, separated(both[: len(upper)] - both[len(upper) :], _C))


def _shown_heights(dataset: RankingDataset, clicks: ClickTable) -> tuple[RankingDataset, Floats]:
    """The candidates of queries with impressions, and how far up each is shown."""
    searched = np.flatnonzero(clicks.query_impressions > 0)
    return dataset[searched], heights(clicks[searched])


def check_production(name: str, dataset: RankingDataset) -> None:
    """Refuse a feature that cannot be production's score."""
    if name not in dataset.feature_names:
        raise UsageError(
            f"`production={name!r}` is not a feature of the data; the features are {some(dataset.feature_names)}."
        )
    if dataset.has_missing and np.isnan(dataset.features[:, dataset.feature_names.index(name)]).any():
        raise UsageError(f"`production={name!r}`: this feature is missing in some rows; fill it in with `missing=0`.")


def shown_alike(ranks: NDArray[np.int64], clicks: ClickTable) -> float:
    """The share of production's results that an order shows as well, on pages of the same length."""
    queries = clicks.candidates.row_queries[clicks.row]
    lengths = np.zeros(clicks.n_queries, dtype=np.int64)
    np.maximum.at(lengths, queries, clicks.position)
    shown = ranks[clicks.row] <= lengths[queries]
    return float(clicks.impressions[shown].sum() / clicks.impressions.sum())


def _linear(learned: Ranker, scaling: Scaling, coefficients: Floats) -> LinearRanker:
    parts = {name: getattr(learned, name) for name in ("feature_names", "provenance", "trained_on", "ranges")}
    return LinearRanker(scaling=scaling, coefficients=coefficients, **parts)
