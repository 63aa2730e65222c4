"""Choosing parameters by the clicks on held-out queries: what somebody with a click log and no labels can do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank.errors import DataError, UsageError
from cldrank.experiment.decoding import bounded

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import Propensities

_SPLIT_SEED = 0  # which queries are held out is part of the method, not of its luck


@dataclass(frozen=True)
class Range:
    """Evenly spaced values from low to high, spaced by ratio where `log` says so.

    >>> Range(0.05, 0.3, points=3).values()
    (0.05, 0.175, 0.3)
    >>> Range(0.001, 0.1, points=3, log=True).values()
    (0.001, 0.01, 0.1)
    """

    low: float
    high: float
    points: int = bounded(4, 2, 100)
    log: bool = False

    def values(self) -> tuple[float, ...]:
        """The values, rounded to 12 digits so that they print as they are meant."""
        if not self.low < self.high or (self.log and self.low <= 0):
            raise UsageError(
                f"a range goes from low to a larger high (above 0 by ratio), not {self.low} … {self.high}."
            )
        spaced = np.geomspace if self.log else np.linspace
        return tuple(float(f"{value:.12g}") for value in spaced(self.low, self.high, self.points))


@dataclass(frozen=True)
class Choice:
    """The parameters that did best, and the quality of every try, in the order of the grid."""

    parameters: dict[str, Any]
    tries: list[tuple[dict[str, Any], float]]


def choose(
    make: Callable[[Mapping[str, Any]], Any],
    grids: Mapping[str, Sequence[Any]],
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Propensities,
    *,
    held_out: float = 0.2,
) -> Choice:
    """Fit every combination on a part of the queries, and take the one that orders the clicks on the rest best.

    make   an estimator from the parameters of a combination; of equals, the first is taken
    """
    if dataset.n_queries < 2:
        raise DataError("tuning holds queries out, and there are fewer than two.")
    learn, check = (part for part in dataset.split([1 - held_out, held_out], seed=_SPLIT_SEED))
    learn_clicks, check_clicks = clicks.split([1 - held_out, held_out], seed=_SPLIT_SEED)
    tries = []
    for values in itertools.product(*grids.values()):
        parameters = dict(zip(grids, values, strict=True))
        model = make(parameters).fit(learn, learn_clicks, propensities)
        scores = np.asarray(model.predict(check.features), dtype=np.float64)
        tries.append((parameters, click_quality(scores, check, check_clicks, propensities)))
    best = max(tries, key=lambda one: one[1])
    return Choice(best[0], tries)


def click_quality(
    scores: NDArray[np.float64], dataset: RankingDataset, clicks: ClickTable, propensities: Propensities
) -> float:
    """How well scores order what was shown, by clicks over propensity: an nDCG in which c/ρ stands for relevance.

        mean over queries, weighted by their pages, of  Σ_shown (c/ρ) / log2(1 + rank among the shown) / its best

    Free of position bias where the propensities are right. It looks at shown candidates only, so it cannot tell how a
    ranker would place the others.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[3, 2, 0])
    >>> click_quality(np.array([0., 1., 2.]), data, clicks, Propensities.power(1, k=2))  # 2 / ½ beats 3
    1.0
    """
    worth = np.zeros(dataset.n_rows)
    np.add.at(worth, clicks.row, clicks.clicks / propensities.at(clicks.position))
    rows = np.flatnonzero(clicks.shown)
    queries = dataset.row_queries[rows]
    offsets = segments.from_lengths(np.bincount(queries, minlength=dataset.n_queries))
    reached, best = (
        _discounted(worth[rows], by, offsets) for by in (np.asarray(scores, dtype=np.float64)[rows], worth[rows])
    )
    weight = np.where(best > 0, clicks.query_impressions, 0)
    if not weight.any():
        raise DataError("no click fell on the held-out queries; hold out more, or draw more sessions.")
    return float(np.average(reached / np.where(best > 0, best, 1.0), weights=weight))


def _discounted(worth: NDArray[np.float64], scores: NDArray[np.float64], offsets: Any) -> NDArray[np.float64]:
    """For each query, its worth discounted by rank."""
    order = segments.descending_order(scores, offsets)
    gains = worth[order] / np.log2(1 + segments.places_in_segments(offsets))
    sums: NDArray[np.float64] = segments.sums_of_segments(gains, offsets)
    return sums
