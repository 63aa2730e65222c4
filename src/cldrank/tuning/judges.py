"""How well rankers order queries that they did not learn from, per query, so that differences have errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.evaluation import scores_of
from cldrank.methods.evidence import check_clicks, check_propensities
from cldrank.methods.observing import observe
from cldrank.propensity import AffineClicks
from cldrank.propensity.segment_propensities import Curve

if TYPE_CHECKING:
    from cldrank.models.network.lists import Lists

Floats = NDArray[np.float64]
_BLOCK = 1 << 22  # pairs per step


class Mean(NamedTuple):
    """A mean over queries and its standard error."""

    value: float
    error: float


class HeldOutClicks:
    """The share of the preferences in held-out clicks, corrected by the propensities, that a ranker agrees with.

        Σ_ij (r̄_i - r̄_j)₊ min(n_i, n_j) [f_i > f_j] / Σ_ij (r̄_i - r̄_j)₊ min(n_i, n_j),    r̄ = c / (n ρ), ties by half

    Both candidates of a pair are of the same query and were shown, so it ignores where a ranker puts others. With
    `AffineClicks` in place of propensities, r̄ = (c/n - base) / slope.

    >>> from cldrank.methods import Naive
    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays([[1], [2], [3], [4]], [7, 7, 8, 8])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 2, 1], impressions=[9] * 4, clicks=[1, 3, 2, 3])
    >>> judge = HeldOutClicks(data, clicks, Propensities.power(1, k=2))
    >>> judge.weight.round(3), judge.gains(Naive().fit(data, clicks).ranker_).round(3)
    (array([5., 1.]), array([5., 0.]))
    """

    name = "held-out concordance"

    def __init__(self, dataset: RankingDataset, clicks: ClickTable, propensities: Curve) -> None:
        from cldrank.models.network.lists import target_lists

        lists = target_lists(observe(dataset, clicks, propensities).shown_rows())
        self._dataset, self._lists = dataset, lists[lists.preferring()]
        if len(self._lists) < 2:
            raise DataError(
                f"of the held-out queries {len(self._lists)} have one candidate clicked more than another, and judging "
                "needs at least 2; hold out more, or collect more clicks."
            )
        self.weight = preference_agreement(np.zeros(dataset.n_rows), self._lists)[1]

    def gains(self, model: Any) -> Floats:
        """The weight of the preferences that its scores agree with."""
        scores = np.asarray(scores_of(model, self._dataset), dtype=np.float64)
        return preference_agreement(scores, self._lists)[0]


def split_clicks(
    dataset: RankingDataset, clicks: Any, propensities: Any, share: float, seed: int
) -> tuple[ClickTable, HeldOutClicks]:
    """The clicks to learn from, and a judge with those on a share of the displayed queries; `seed` decides which.

    Both keep all candidates: of those without clicks, only the scaling is learned. An assumed curve is raised to what
    the clicks prove, so that all methods are judged alike.
    """
    table = check_clicks(clicks, dataset, "tuning")
    if isinstance(propensities, AffineClicks):
        propensities.at(np.array([table.depth]))
    else:
        propensities = check_propensities(propensities, table, "tuning", None, "raise")
    displayed = np.flatnonzero(table.query_impressions)
    learned, held = (displayed[part] for part in segments.split_segments(len(displayed), [1 - share, share], seed))
    if not len(learned) or not len(held):
        raise DataError(
            f"queries that were displayed: {len(displayed)}, too few to hold out {share:.0%} of them; collect more."
        )
    to_learn = np.isin(table.candidates.row_queries[table.row], learned)
    return table.where(to_learn), HeldOutClicks(dataset[held], table[held], propensities)


def preference_agreement(scores: Floats, lists: Lists) -> tuple[Floats, Floats]:
    """Per list, the weight of the preferences that the scores agree with, and the weight of all preferences."""
    right, whole = np.zeros(len(lists)), np.zeros(len(lists))
    for group in lists.pack():
        width = group.rows.shape[1]
        step = max(1, _BLOCK // width**2)
        for start in range(0, len(group.lists), step):
            part = slice(start, start + step)
            target, weight = group.target[part].astype(np.float64), group.weight[part].astype(np.float64)
            own = scores[group.rows[part]]
            least = np.minimum(weight[:, :, None], weight[:, None, :])
            preference = np.maximum(target[:, :, None] - target[:, None, :], 0) * least
            agrees = 0.5 * (np.sign(own[:, :, None] - own[:, None, :]) + 1)
            right[group.lists[part]] = (preference * agrees).sum((1, 2))
            whole[group.lists[part]] = preference.sum((1, 2))
    return right, whole


def mean_of(gains: Floats, weight: Floats) -> Mean:
    """The sum of gains over the sum of weights, and the standard error of that ratio.

    >>> mean_of(np.array([1.0, 0.0, 1.0, 1.0]), np.ones(4))
    Mean(value=0.75, error=0.25)
    """
    total, count = weight.sum(), len(weight)
    value = gains.sum() / total
    error = np.sqrt(count / (count - 1) * np.square(gains - value * weight).sum()) / total
    return Mean(float(value), float(error))
