"""How well estimates of relevance order documents, and how well they are calibrated; ties are favoured nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

import cldrank as cr
from cldrank import segments

Floats = NDArray[np.float64]


def rank_correlation(one: Floats, two: Floats) -> float:
    """Spearman's. It does favour ties: documents that cannot be told apart do least harm if they share a rank.

    >>> truth = np.arange(6.0)
    >>> tied, guessed = np.array([0, 0, 0, 0, 1, 2.0]), np.array([0.3, 0, 0.1, 0.2, 1, 2])
    >>> pairs_in_order(tied, truth), pairs_in_order(guessed, truth)
    (0.8, 0.8)
    >>> rank_correlation(tied, truth) > rank_correlation(guessed, truth) + 0.05
    True
    """
    return correlation(rankdata(one), rankdata(two))


def correlation(one: Floats, two: Floats) -> float:
    """Pearson's; 0 where one of them does not vary."""
    one, two = one - one.mean(), two - two.mean()
    return float(one @ two) / max(float(np.sqrt((one @ one) * (two @ two))), 1e-300)


def pairs_in_order(estimate: Floats, truth: Floats) -> float:
    """Of two documents, how often the better one has the higher estimate; ties count half. The truth has none."""
    _, same = np.unique(estimate, return_counts=True)
    tied = float((same * (same - 1.0)).sum()) / (len(truth) * (len(truth) - 1.0))
    return float(0.5 + 0.5 * kendalltau(estimate, truth).statistic * np.sqrt(1 - tied))


def pairs_of_queries(estimate: Floats, truth: Floats, query: Any) -> float:
    """The same of two documents of one query."""
    right = pairs = 0.0
    for lag in range(1, int(np.bincount(query).max())):
        same = query[lag:] == query[:-lag]
        one, two = (np.sign(values[lag:] - values[:-lag])[same] for values in (estimate, truth))
        right, pairs = right + one @ two, pairs + len(one)
    return float(0.5 + 0.5 * right / pairs)


def calibration_error(estimate: Floats, truth: Floats) -> float:
    """The mean distance of the mean estimate from the mean truth, over ten bins of the estimate."""
    order = np.argsort(estimate, kind="stable")
    bins = [part for part in np.array_split(order, 10) if len(part)]
    return float(sum(len(part) * abs(estimate[part].mean() - truth[part].mean()) for part in bins) / len(order))


def auc(estimate: Floats, label: NDArray[np.bool_]) -> float:
    """Of a relevant and another shown document, how often the relevant one has the higher estimate."""
    good, bad = int(label.sum()), int((~label).sum())
    if not good or not bad:
        return float("nan")
    return float((rankdata(estimate)[label].sum() - good * (good + 1) / 2) / (good * bad))


def ndcg(estimate: Floats, log: cr.ClickTable, data: cr.RankingDataset) -> float:
    """Of the shown documents alone, ranked by the estimate and by the labels."""
    shown = log.shown
    queries = data.row_queries[shown]
    offsets = np.searchsorted(queries, np.arange(data.n_queries + 1))
    gain = 2 ** np.asarray(data.labels, dtype=np.float64)[shown] - 1
    found, ideal = (
        segments.sums_of_segments(gain / np.log2(segments.descending_ranks(one, offsets) + 1), offsets)
        for one in (estimate[shown], gain)
    )
    return float(np.mean((found / np.where(ideal > 0, ideal, 1.0))[ideal > 0]))
