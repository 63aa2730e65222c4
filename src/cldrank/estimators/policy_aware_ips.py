"""PolicyAwareIPS: divides clicks by how likely a candidate was shown and examined at all, over a policy that varies."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import scaling as scalings
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.estimators.base import check_dataset, check_penalty
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model, is_linear
from cldrank.estimators.neural.lists import row_lists
from cldrank.estimators.neural.pairwise import PairwiseOption
from cldrank.models.linear.least_squares import Rows
from cldrank.models.linear.rows import check_clicks, check_propensities
from cldrank.models.network import Training
from cldrank.propensity import Propensities

Floats = NDArray[np.float64]

_ROUNDING = 1e-6
_MANY = 0.5  # of the candidates; where more were left out, selection bias is hardly corrected


class PolicyAwareIPS(PairwiseOption):
    """IPS over a policy that draws its pages: corrects selection bias too (Oosterhuis and de Rijke 2020).

        minimise  Σ_q n_q Σ_i (t_i - intercept - x·β)² / Σ + l2 ‖β‖²
        t_i = c_i / (n_q p_i),    p_i = Σ_k P(i is shown at k) ρ_k

    c_i are the clicks on candidate i anywhere, n_q the pages of its query. Where display probabilities are known,
    `fit(data, clicks, rho, display)`, a candidate that might have been shown counts, with t = 0, even if it never was;
    else they are estimated as impressions at k over n_q. A candidate that cannot be shown is left out, and so is, where
    they are estimated, what never was: `n_left_out_` says how many, and if it is more than half there is a warning.
    `clip` raises p_i below it to it; `n_clipped_` says how many. With model="mlp", an `MLP` or a torch module: pairs in
    the order of t.

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [5, 5, 5, 5], "clicks": [2, 1, 4, 2]}
    >>> model = PolicyAwareIPS(l2=0).fit(data, ClickTable.from_arrays(data, **shown), Propensities.power(1, k=2))
    >>> model.predict(data).round(3), model.n_left_out_
    (array([0.4, 0.8, 1.2]), 1)
    """

    propensities_: Propensities
    n_left_out_: int
    n_clipped_: int

    targets: ClassVar[str] = "clicks over the chance to be shown and examined"

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
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

    def fit(
        self,
        dataset: RankingDataset,
        clicks: Any = None,
        propensities: Any = None,
        display: ArrayLike | None = None,
    ) -> Self:
        """Learn from clicks, propensities, and, if known, P(row is shown at position) as a table (rows, positions)."""
        data = check_dataset(dataset, "PolicyAwareIPS")
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "PolicyAwareIPS")
        rho = check_propensities(propensities, table, "PolicyAwareIPS")
        pages = table.query_impressions[data.row_queries].astype(np.float64)
        seen = _estimated(table, rho, pages) if display is None else _given(display, table, rho, data)
        kept = np.flatnonzero((pages > 0) & (seen > 0))
        left_out = int((pages > 0).sum()) - len(kept)
        chance, clipped = self._clipped(seen[kept])
        rows = _rows(data, table, kept, chance, pages[kept])
        if is_linear(self.model):
            self._regress(data, scaling, rows, l2)
        else:
            self._fit_pairs(data, scaling, row_lists(rows))
        self.propensities_, self.n_left_out_, self.n_clipped_ = rho, left_out, clipped
        if left_out > _MANY * (left_out + len(kept)):
            warnings.warn(
                f"{left_out:,} of {left_out + len(kept):,} candidates were never shown, and are left out: of these the "
                "policy tells nothing, so selection bias is corrected among the others only. CLD models the selection "
                "of a policy that does not vary.",
                CldrankWarning,
                stacklevel=2,
            )
        return self

    def _clipped(self, chance: Floats) -> tuple[Floats, int]:
        clip: Any = self.clip
        if clip is None:
            return chance, 0
        if isinstance(clip, bool) or not isinstance(clip, int | float | np.integer | np.floating) or not 0 < clip <= 1:
            raise UsageError(f"clip must be a number above 0 and up to 1, or None, not {clip!r}.")
        return np.maximum(chance, float(clip)), int((chance < clip).sum())

    def _facts(self) -> list[tuple[str, str]]:
        told = f"{self.n_left_out_:,} candidates that cannot be shown; {self.n_clipped_:,} chances were clipped"
        return [*super()._facts(), ("propensities", repr(self.propensities_)), ("left out", told)]


def _rows(data: RankingDataset, clicks: ClickTable, kept: NDArray[np.int64], chance: Floats, pages: Floats) -> Rows:
    clicked = clicks.row_clicks[kept].astype(np.float64)
    target = clicked / (pages * chance)
    # of single pages: 1 / p where it was clicked, else 0
    spread = np.maximum(clicked / (pages * chance**2) - target**2, 0.0)
    return Rows(kept, target, pages, spread, data.row_queries[kept])


def _estimated(clicks: ClickTable, propensities: Propensities, pages: Floats) -> Floats:
    """(rows,) P(shown and examined), with impressions at k over the pages of the query for P(shown at k)."""
    examined = np.bincount(clicks.row, clicks.impressions * propensities.at(clicks.position), len(pages))
    return np.where(pages > 0, examined / np.maximum(pages, 1.0), 0.0)


def _given(display: ArrayLike, clicks: ClickTable, propensities: Propensities, data: RankingDataset) -> Floats:
    """The same with known probabilities; refused where they are none, or where the log contradicts them."""
    table = np.asarray(display, dtype=np.float64)
    if table.ndim != 2 or len(table) != data.n_rows or not clicks.depth <= table.shape[1] <= len(propensities):
        raise DataError(
            f"display has shape {table.shape}; it needs one row for each of {data.n_rows:,} candidates and one column "
            f"a position, {clicks.depth} to {len(propensities)} of them."
        )
    if not (np.isfinite(table).all() and (table >= 0).all() and (table.sum(axis=1) <= 1 + _ROUNDING).all()):
        bad = ~(np.isfinite(table) & (table >= 0)).all(axis=1) | ~(table.sum(axis=1) <= 1 + _ROUNDING)
        at = int(np.flatnonzero(bad)[0])
        raise DataError(f"row {at} of display, {table[at].tolist()}, holds no probabilities that add up to at most 1.")
    denied = table[clicks.row, clicks.position - 1] == 0
    if denied.any():
        cell = int(np.flatnonzero(denied)[0])
        raise DataError(
            f"row {clicks.row[cell]} was shown at position {clicks.position[cell]}, where display says it cannot be."
        )
    found: Floats = table @ propensities.values[: table.shape[1]]
    return found
