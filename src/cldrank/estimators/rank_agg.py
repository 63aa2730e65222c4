"""RankAgg: one ranking from two, the one corrected for position bias and the one corrected for selection bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.estimators.base import Estimator, check_dataset
from cldrank.estimators.heckman import HeckmanRank
from cldrank.estimators.ips import IPS
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model
from cldrank.models.network import Training
from cldrank.rankers import BordaRanker


class RankAgg(Estimator):
    """Borda count of the rankings of IPS and Heckman^rank (Ovaisi 2020).

        score = Σ weight * number of the query's candidates ranked below

    weights    of IPS and of Heckman^rank
    model      of IPS: "mlp", "linear" and so on; the other parameters are those of the two

    A score depends on the other candidates of the query. The fit leaves `ips_` and `heckman_`.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> RankAgg(model="linear").fit(data, clicks, Propensities.power(0.5, 2)).predict(data)
    array([0., 2., 4., 2., 0., 4.])
    """

    ips_: IPS
    heckman_: HeckmanRank

    def __init__(
        self,
        weights: Sequence[float] = (1.0, 1.0),
        model: Model = "mlp",
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
        clip: float | None = None,
        epochs: int = EPOCHS,
        learning_rate: float = LEARNING_RATE,
        seed: int = 0,
        device: str | None = None,
        training: Training | None = None,
    ) -> None:
        self.weights = weights
        self.model = model
        self.l2 = l2
        self.scaling = scaling
        self.clip = clip
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed
        self.device = device
        self.training = training

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn both rankings from the clicks on a dataset and the propensities of their positions."""
        data = check_dataset(dataset, "RankAgg")
        try:
            votes = np.asarray(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            votes = np.empty(0)
        if votes.shape != (2,) or not np.isfinite(votes).all() or (votes < 0).any() or not votes.any():
            raise UsageError(f"weights must be two numbers of at least 0, for IPS and Heckman, not {self.weights!r}.")
        if votes.max() > np.finfo(np.float64).max / (2 * data.n_rows):
            raise UsageError(
                f"weights {self.weights!r} are so large that scores would be infinite; only their ratio counts."
            )
        heckman = HeckmanRank(l2=self.l2, scaling=self.scaling).fit(data, clicks, propensities)
        names = ("model", "l2", "scaling", "clip", "epochs", "learning_rate", "seed", "device", "training")
        ips = IPS(**{name: getattr(self, name) for name in names}).fit(data, clicks, propensities)
        ranker = BordaRanker(
            feature_names=data.feature_names,
            members=(ips.ranker_, heckman.ranker_),
            weights=tuple(votes),
            provenance=self._provenance(data),
        )
        self._leave(ranker)
        self.ips_, self.heckman_ = ips, heckman
        self.status_ = ips.status_
        return self

    def summary(self) -> str:
        """Both fits, one after the other."""
        self._check_fitted()
        return f"{self.ips_.summary()}\n\n{self.heckman_.summary()}"
