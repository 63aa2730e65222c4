"""AffineIPS: takes off the clicks that trust in a position brings, then divides by what relevance is worth there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from cldrank import scaling as scalings
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.estimators.base import check_dataset, check_penalty
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model, is_linear
from cldrank.estimators.neural.lists import row_lists
from cldrank.estimators.neural.pairwise import PairwiseOption
from cldrank.models.linear.least_squares import Rows
from cldrank.models.linear.rows import check_clicks, observe
from cldrank.models.network import Training
from cldrank.propensity import AffineClicks, Propensities
from cldrank.propensity.checks.refuted import warn_if_refuted


class AffineIPS(PairwiseOption):
    """IPS for trust bias: linear regression of the relevance that clicks tell (Vardasbi et al. 2020).

        minimise  Σ_cells n (t - intercept - x·β)² / Σ n + l2 ‖β‖²,    t = (c/n - base_k) / slope_k

    In place of propensities it takes `AffineClicks`, given or from `propensity.TrustBias().fit(clicks)`; propensities
    are taken as slopes without a base, which makes it `IPS`. Rankings do not depend on how relevance is scaled, so any
    affine clicks that explain the same log will do. `clip` raises slopes below this share of the first to it;
    `affine_` are those used. With model="mlp", an `MLP` or a torch module: pairs in the order of t.

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 7, 0])
    >>> trust = AffineClicks.of(examined=[1, 0.5], relevant=[0.9, 0.9], irrelevant=[0.5, 0.2])
    >>> AffineIPS(l2=0).fit(data, clicks, trust).predict(data).round(3)
    array([0. , 0.5, 1. ])
    """

    affine_: AffineClicks

    targets: ClassVar[str] = "clicks with trust taken off"

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.Method | None = "standard",
        clip: float | None = None,
        cluster: Literal["query"] | None = None,
        model: Model = "linear",
        epochs: int = EPOCHS,
        learning_rate: float = LEARNING_RATE,
        seed: int = 0,
        device: str | None = None,
        training: Training | None = None,
    ) -> None:
        self.l2 = l2
        self.scaling = scaling
        self.clip = clip
        self.cluster = cluster
        self.model = model
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed
        self.device = device
        self.training = training

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset and the affine clicks (or propensities) of their positions."""
        data = check_dataset(dataset, "AffineIPS")
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "AffineIPS")
        affine = _affine(propensities, table, self.clip)
        rows = affine_rows(data, table, affine)
        if is_linear(self.model):
            self._regress(data, scaling, rows, l2)
        else:
            self._fit_pairs(data, scaling, row_lists(rows))
        self.affine_ = affine
        return self

    def _facts(self) -> list[tuple[str, str]]:
        return [*super()._facts(), ("affine clicks", repr(self.affine_))]


def _affine(given: Any, clicks: ClickTable, clip: Any) -> AffineClicks:
    """The affine clicks, clipped if asked to, that cover all positions of the table."""
    if isinstance(given, Propensities):
        warn_if_refuted(given, clicks, stacklevel=3)
        given = AffineClicks.from_propensities(given)
    if not isinstance(given, AffineClicks):
        raise UsageError(
            f"AffineIPS needs AffineClicks, not {given!r}; estimate them by propensity.TrustBias().fit(clicks), or "
            "give Propensities where nobody trusts a position."
        )
    given.at(np.array([clicks.depth]))
    if clip is None:
        return given
    if isinstance(clip, bool) or not isinstance(clip, int | float | np.integer | np.floating) or not 0 < clip <= 1:
        raise UsageError(f"clip must be a number above 0 and up to 1, or None, not {clip!r}.")
    return given.clip(float(clip))


def affine_rows(data: RankingDataset, clicks: ClickTable, affine: AffineClicks) -> Rows:
    """The shown candidates, each once, with the relevance that their clicks tell, (c/n - base) / slope."""
    observed = observe(data, clicks)
    slope, base = affine.at(clicks.position)
    told = replace(observed, target=(observed.target - base) / slope, spread=observed.spread / slope**2)
    mean, weight, spread = told.by_row()
    return Rows(told.rows[told.shown], mean, weight, spread, told.queries[told.shown])
