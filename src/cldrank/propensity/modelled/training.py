"""How relevance is modelled by networks: all that this package knows of models and of the training loop."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.clicks.units import draw_weights
from cldrank.data.dataset import RankingDataset
from cldrank.errors import Spelling, UnidentifiableError, UsageError, setting
from cldrank.models import MLP, Linear, Network, Run
from cldrank.parameters import Value, parameter, value
from cldrank.propensity.counts import Cells

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task

Floats = NDArray[np.float64]
# a network of relevance beside a curve of positions; all queries teach, as none is held out to choose the epoch
NETWORK = MLP(epochs=40, learning_rate=5e-3, l2=1e-5, batch_queries=32, warmup=0.0, validation=0.0)


@dataclass(frozen=True, eq=False)
class ShownCandidates:
    """The candidates that were shown, and what is known of them.

    dataset    whose candidates they are
    cells      of the first positions
    row        (cells,) the candidate of each cell, from 0
    scaling    of the features
    features   (candidates, columns) float32, scaled
    """

    dataset: RankingDataset
    cells: Cells
    row: IntArray
    scaling: scalings.Scaling
    features: NDArray[np.float32]

    @classmethod
    def of(cls, dataset: RankingDataset, cells: Cells, scaling: scalings.Scaling) -> ShownCandidates:
        """Those of some cells, their features scaled."""
        rows, row = np.unique(cells.candidate, return_inverse=True)
        return cls(dataset, cells, row, scaling, scaling.transform(dataset.features[rows]))


@value
class RelevanceModel(Value):
    """How relevance is modelled, and how networks are trained to."""

    model: Linear | Network = parameter(default=Linear(l2=1e-5), about="Of relevance", option=False)
    run: Run = parameter(default=Run(), about="Where and how networks are trained", option=False)
    refits: int = parameter(
        default=6,
        least=3,
        about="Networks trained on resampled queries, each from a different seed, for the intervals",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.run.checkpoint or self.run.tensorboard) is not None:
            raise UsageError(
                "{} trains {} networks, one after the other; a checkpoint or a TensorBoard log holds one. Leave them "
                "out of {}.",
                self.spelling,
                self.refits + 1,
                setting("run"),
            )

    @property
    @abstractmethod
    def spelling(self) -> Spelling:
        """Its name in messages."""

    @property
    def exact(self) -> bool:
        """Whether relevance is a regression, which needs no training loop."""
        return isinstance(self.model, Linear)

    @abstractmethod
    def _task(self, network: torch.nn.Module, place: IntArray, size: int) -> Task:
        """What a network of relevance is trained for, beside the propensities of `size` positions."""

    def _train_all(self, shown: ShownCandidates, seed: int) -> tuple[Floats, Floats, torch.nn.Module]:
        """The log ρ and the network of the log; and (refits, k) log ρ of resampled queries, each from its own seed."""
        logs, network = self._train(shown, seed, np.ones(shown.cells.n_groups))
        weights = draw_weights(shown.cells.n_groups, self.refits, seed)
        draws = [self._train(shown, seed + 1 + turn, weight)[0] for turn, weight in enumerate(weights)]
        return logs, np.array(draws), network

    def _train(self, shown: ShownCandidates, seed: int, weight: Floats) -> tuple[Floats, torch.nn.Module]:
        """The log ρ and the network of relevance, with each group of queries counted `weight` times."""
        model = self.model.as_network() if isinstance(self.model, Linear) else self.model
        model.check_installed()
        from torch.random import fork_rng

        from cldrank.models.network.features import FeatureTable
        from cldrank.models.network.loop import train_network
        from cldrank.rankers.devices import device_of

        cells, lists = shown.cells, _lists(shown.cells, weight)
        with fork_rng(devices=[]):
            task = self._task(model.build(shown.features.shape[1], seed), cells.place, cells.size)
        unscaled = scalings.fit(None, shown.features[:1])
        places, device = np.arange(len(shown.row)), device_of(self.run.device)
        table = FeatureTable(shown.features[shown.row], unscaled, places, device, self.run.resident)
        nothing = lists[np.zeros(0, dtype=np.int64)]
        identity = [self.spelling.python, repr(weight.tolist())]
        trained = train_network(task, lists, nothing, table, model, replace(self.run, seed=seed), identity=identity)
        if trained.status == "interrupted":  # the loop keeps what it has, but half a curve is of no use
            raise KeyboardInterrupt
        if trained.status == "non_finite":
            raise UnidentifiableError(
                "{} met numbers that are not finite; lower {}.", self.spelling, setting("learning_rate")
            )
        logs = task.networks["examination"].logs.detach().double().cpu().numpy()  # type: ignore[operator]
        return logs - logs[0], task.networks["relevance"]


def _lists(cells: Cells, weight: Floats) -> Any:
    """One list per query, of its cells: target c/n, weight n times how often the query's group was drawn."""
    from cldrank import segments
    from cldrank.models.network.lists import Lists

    order = np.lexsort((cells.place, cells.query))
    order = order[weight[cells.group[order]] > 0]
    _, counts = np.unique(cells.query[order], return_counts=True)
    none = np.zeros(0, dtype=np.int64)
    return Lists(
        segments.from_lengths(counts),
        order,
        (cells.clicks / cells.impressions)[order].astype(np.float32),
        (cells.impressions * weight[cells.group])[order].astype(np.float32),
        np.zeros(len(counts) + 1, dtype=np.int64),
        none,
        np.ones(len(counts), dtype=np.float32),
    )
