"""CLD-pair: causal likelihood decomposition by pairs, with a neural model of relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.estimators.base import check_dataset, check_penalty, check_share
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model, NeuralFit
from cldrank.estimators.neural.lists import click_lists
from cldrank.models.linear.rows import check_clicks, check_propensities
from cldrank.models.network import Training
from cldrank.propensity import Propensities

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task


class CLDPair(NeuralFit):
    """A network of relevance and a linear model of selection, trained together on pairs (SIGIR-AP 2023).

        Δ = f(x_i) - f(x_j);  both shown, r̄_i > r̄_j, weighed by (r̄_i - r̄_j) n:
            log σ(Δ) + C [log σ(ω·x_i + Δ) + log σ(ω·x_j + Δ)]
        i shown, j not, drawn anew in each epoch:
            C [log σ(ω·x_i + Δ) + log σ(-ω·x_j)]

    Candidates are ranked by f alone. Propensities are those of the positions, r̄ = c / (n ρ).

    model               "mlp": 256-128-64; an `MLP` of other sizes; "linear" (CLD-pair-L); or a torch module that gives
                        one score per row
    selection_weight    C; the paper has 1
    unshown_ratio       pairs with an unshown candidate for each pair of two shown ones
    l2                  weight decay (decoupled, as in AdamW)
    clip                the least propensity; lower ones are raised to it
    device              "cuda" for a GPU
    training            batches, schedule, early stopping, checkpoints: see `Training`

    Beyond what every neural fit leaves: `selection_coef_`, `selection_intercept_`, `propensities_`.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[3, 1], [2, 0], [1, 2], [0, 0]] * 2, [7] * 4 + [8] * 4)
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[1, 2, 0, 0] * 2, impressions=[9, 9, 0, 0] * 2, clicks=[4, 1, 0, 0, 5, 1, 0, 0]
    ... )
    >>> model = CLDPair(epochs=50).fit(data, clicks, Propensities.power(1, k=2))
    >>> scores = model.predict(data)
    >>> model.status_, bool(scores[0] > scores[1] > scores[3])
    ('completed', True)
    """

    selection_coef_: NDArray[np.float64]
    selection_intercept_: float
    propensities_: Propensities

    def __init__(
        self,
        model: Model = "mlp",
        selection_weight: float = 0.05,
        unshown_ratio: float = 1.0,
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
        clip: float | None = None,
        epochs: int = EPOCHS,
        learning_rate: float = LEARNING_RATE,
        seed: int = 0,
        device: str | None = None,
        training: Training | None = None,
    ) -> None:
        self.model = model
        self.selection_weight = selection_weight
        self.unshown_ratio = unshown_ratio
        self.l2 = l2
        self.scaling = scaling
        self.clip = clip
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed
        self.device = device
        self.training = training

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset, the propensities of their positions, and what was not shown."""
        data = check_dataset(dataset, "CLDPair")
        check_penalty(self.l2)
        for name in ("selection_weight", "unshown_ratio"):
            check_share(name, getattr(self, name))
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "CLDPair")
        rho = check_propensities(propensities, table, "CLDPair", self.clip)
        task = self._fit_network(data, scaling, click_lists(data, table, rho), self._task)
        self.selection_coef_, self.selection_intercept_ = task.linear_part("selection")
        self.propensities_ = rho
        return self

    def summary(self) -> str:
        """The fit in a few lines."""
        return self._network_summary()

    def _task(self, network: torch.nn.Module, width: int) -> Task:
        from cldrank.models.network.tasks import SelectedPairs

        return SelectedPairs(network, width, float(self.selection_weight), float(self.unshown_ratio))
