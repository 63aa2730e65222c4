"""PIJD: corrects clicks for selection and position at once, from where candidates were shown, without propensities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.estimators.base import check_dataset, check_penalty
from cldrank.estimators.heckman import SelectionCorrected, Weighting
from cldrank.models.linear.inference import INTERCEPT
from cldrank.models.linear.ordered import Entries
from cldrank.models.linear.rows import Observations, check_clicks, observe


class PIJD(SelectionCorrected):
    """Propensity-independent joint debiasing, linear: an ordered probit of the position, then a regression of clicks.

        1.  position k if t_k < ω·x + ε ≤ t_{k-1}, not shown below t_K: over all candidates of the queries displayed
        2.  c/n = intercept + β·x + κ E[ε | x, k] + noise, over the cells

    Ranks by β·x. The correction E[ε | x, k], the inverse Mills ratio of an interval, takes up what put a candidate at k
    beyond its features. `position_effects` gives each position an intercept of its own, which takes up position bias as
    far as it adds to clicks; but then κ and the part of β along ω are told apart by little. With a single position this
    is HeckmanRank; penalty and weighting are as there. It is our reading of a method known to us by description only
    (Ovaisi 2021): see docs/baselines.md.

    `thresholds_` are the t_k of `positions_`, `position_effects_` the intercepts; `intercept_` is the first of them.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> model = PIJD().fit(data, clicks)
    >>> model.predict(data).argsort(), len(model.thresholds_)
    (array([0, 1, 2, 4, 3, 5]), 2)
    """

    positions_: IntArray
    thresholds_: NDArray[np.float64]
    position_effects_: NDArray[np.float64]

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
        weighting: Weighting = "impressions",
        position_effects: bool = False,
        relevance_features: Sequence[str] | None = None,
        selection_features: Sequence[str] | None = None,
        cluster: Literal["query"] | None = None,
        max_steps: int = 50,
        block_rows: int | None = None,
    ) -> None:
        self.l2 = l2
        self.scaling = scaling
        self.weighting = weighting
        self.position_effects = position_effects
        self.relevance_features = relevance_features
        self.selection_features = selection_features
        self.cluster = cluster
        self.max_steps = max_steps
        self.block_rows = block_rows

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset and their positions; propensities are taken, as by all, and not used."""
        del propensities
        data = check_dataset(dataset, "PIJD")
        check_penalty(self.l2)
        self._check_parameters()
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "PIJD")
        observed = observe(data, table)
        positions, level = np.unique(table.position, return_inverse=True)
        self.positions_ = positions
        effects = tuple(f"(position {k})" for k in positions) if self.position_effects else (INTERCEPT,)
        found = self._fit_stages(data, scaling, observed, cell_entries(observed, level + 1, self.weighting), effects)
        self.positions_ = positions  # again: a fit begins by forgetting the one before
        relevance, selection = self.estimates_.of("relevance"), self.estimates_.of("selection")
        self.position_effects_ = relevance.values[-len(effects) - 1 : -1]
        self.thresholds_ = selection.values[len(selection.values) - found.n_thresholds :]
        return self

    def _threshold_names(self, count: int) -> tuple[str, ...]:
        return tuple(f"(below position {k})" for k in self.positions_[:count])


def cell_entries(observed: Observations, level: IntArray, weighting: Weighting) -> Entries:
    """Each cell once, in its place; where candidates weigh 1, those of one candidate share that by impressions."""
    counts = np.diff(observed.offsets)
    weight, spread, absent = observed.weight, observed.spread, observed.absent
    if weighting == "candidates":
        weight = weight / np.repeat(observed.by_row()[1], counts)
        spread, absent = np.zeros_like(spread), np.minimum(absent, 1.0)
    return Entries(np.repeat(observed.shown, counts), level, weight, observed.target, spread, absent, observed.queries)
