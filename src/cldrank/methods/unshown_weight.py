"""How much it says that a candidate was not shown: the more, the less clicks know better than production."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods.observing import observe
from cldrank.propensity.segment_propensities import Curve

if TYPE_CHECKING:
    from cldrank.models.pairs import PairTable

Floats = NDArray[np.float64]

MOST_WEIGHT = 1 / 3  # that all unshown candidates of a query weigh, over those shown
_HALVED = 2.0  # standard errors by which clicks know better where unshown candidates count half as much
_NO_ERROR = 1e-3  # where all queries agree
_FOLDS = 5
_REPEATS = 4  # with other folds: how queries fall into folds changes what a few hundred of them say
_RIDGE = 0.03  # of the regression, per row
_FARTHEST = 5.0  # a feature farther from its mean, in standard deviations, counts as this far
_MOST_VALUES = 1 << 23  # features of as many queries as this many values hold say enough


class Knowledge(NamedTuple):
    """Of the preferences that clicks show on queries held out, the share that each order agrees with.

    clicks       a linear ranker learned from clicks on other queries
    production   the positions at which the candidates were shown
    error        the standard error of the difference
    """

    clicks: float
    production: float
    error: float


def weight_of_unshown(data: RankingDataset, clicks: ClickTable, curve: Curve, *, seed: int = 0) -> float:
    """What all unshown candidates of a query weigh, over those shown.

        1/3 / (1 + (z / 2)²),   z = (agreement of clicks - agreement of production)₊ / error

    Production left a candidate out because it took it for irrelevant. Clicks cannot say whether it was right, but they
    say what production knows about results that it did show: `knowledge` compares it with a ranker learned from
    clicks alone. Chosen on eight data sets with weak and strong production by the worst loss of nDCG@3; a fixed weight
    loses up to three times as much, and so does relevance extrapolated below the page.

    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays([[2.0], [1.0], [0.0]] * 30, np.repeat(range(30), 3))
    >>> shown = {"position": [2, 1, 0] * 30, "impressions": [99, 99, 0] * 30}
    >>> right = ClickTable.from_arrays(data, clicks=[5, 60, 0] * 30, **shown)
    >>> wrong = ClickTable.from_arrays(data, clicks=[40, 9, 0] * 30, **shown)
    >>> rho = Propensities.power(1, k=2)
    >>> round(weight_of_unshown(data, right, rho), 2), round(weight_of_unshown(data, wrong, rho), 2)
    (0.33, 0.0)
    """
    known = knowledge(data, clicks, curve, seed=seed)
    if known is None or known.clicks <= known.production:
        return MOST_WEIGHT
    return MOST_WEIGHT / (1 + ((known.clicks - known.production) / (_HALVED * max(known.error, _NO_ERROR))) ** 2)


def knowledge(data: RankingDataset, clicks: ClickTable, curve: Curve, *, seed: int = 0) -> Knowledge | None:
    """How well clicks on other queries, and production, order what was shown; None where no clicks tell.

    Relevance is c/(nρ), without any prior, since priors know production's order.
    """
    from cldrank.models import compiled  # late: importing a method does not load numba
    from cldrank.models.pairs import PairTable

    observed = observe(data, clicks, curve, "ips")
    table = PairTable.of_targets(observed.shown_rows())
    random = np.random.default_rng([seed, 5])
    sizes = np.diff(table.offsets)
    drawn = random.permutation(len(table))
    drawn = np.sort(drawn[: np.searchsorted(np.cumsum(sizes[drawn]) * data.n_features, _MOST_VALUES) + 1])
    if len(drawn) < _FOLDS:
        return None
    places = segments.rows_of_segments(table.offsets, drawn)
    rows = table.order[places]
    x, target, weight, offsets = _regression(data.features, table, drawn, places)
    by_clicks = np.zeros((3, len(drawn)))
    scores = np.zeros(len(table.rows), dtype=np.float32)
    for _ in range(_REPEATS):
        fold = np.repeat(random.permutation(len(drawn)) % _FOLDS, np.diff(offsets))
        scores[rows] = _cross_fitted(x, target, weight, fold)
        by_clicks += compiled.pair_agreement(scores, drawn, *table.arrays) / _REPEATS
    shown = np.bincount(clicks.row, clicks.impressions, data.n_rows)[table.rows]
    position = np.bincount(clicks.row, clicks.impressions * clicks.position, data.n_rows)[table.rows] / shown
    by_production = compiled.pair_agreement(-position.astype(np.float32), drawn, *table.arrays)
    total = by_clicks[2].sum()
    learned, produced = float(by_clicks[1].sum() / total), float(by_production[1].sum() / total)
    apart = by_clicks[1] - by_production[1] - (learned - produced) * by_clicks[2]
    return Knowledge(learned, produced, float(np.sqrt((apart**2).sum()) / total))


def _regression(
    features: Any, table: PairTable, queries: IntArray, places: IntArray
) -> tuple[Floats, Floats, Floats, IntArray]:
    """Scaled features, targets less the mean of their query, and weights of candidates, and where each query begins."""
    x = np.array(features[table.rows[table.order[places]]], dtype=np.float64)
    known = np.maximum((~np.isnan(x)).sum(axis=0), 1)
    x -= np.nansum(x, axis=0) / known
    x /= np.sqrt(np.nansum(x**2, axis=0) / known) + 1e-9
    np.nan_to_num(np.clip(x, -_FARTHEST, _FARTHEST, out=x), copy=False)
    sizes = np.diff(table.offsets)[queries]
    offsets, weight = segments.from_lengths(sizes), table.weight[places] / table.weight[places].mean()
    whole = segments.sums_of_segments(weight, offsets)
    for values in (*x.T, target := table.target[places].copy()):
        values -= np.repeat(segments.sums_of_segments(weight * values, offsets) / whole, sizes)
    return x, target, weight, offsets


def _cross_fitted(x: Floats, target: Floats, weight: Floats, fold: IntArray) -> Floats:
    """Scores of candidates by a ridge regression on the queries of the other folds."""
    parts = [fold == number for number in range(_FOLDS)]
    grams = [(x[part] * weight[part, None]).T @ x[part] for part in parts]
    sums = [(x[part] * weight[part, None]).T @ target[part] for part in parts]
    scores = np.empty(len(x))
    for part, gram, own in zip(parts, grams, sums, strict=True):
        ridge = _RIDGE * (len(x) - part.sum()) * np.eye(x.shape[1])
        scores[part] = x[part] @ np.linalg.solve(sum(grams) - gram + ridge, sum(sums) - own)
    return scores
