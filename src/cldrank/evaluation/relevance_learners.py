"""What learns a model of relevance: CLD, whose scores are relevance, or CLD-pair, whose scores are turned into it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning
from cldrank.evaluation.logged import LoggedClicks
from cldrank.methods.observing import observe
from cldrank.models import Linear, Run
from cldrank.models.fit import Context
from cldrank.models.targets import PairSelection, PointSelection
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers import Provenance, Ranker

Floats = NDArray[np.float64]
_LEARNING_RATE = 0.01  # of CLD-pair, and how many queries it passes over: weights drawn at random are forgotten
_PASSED_QUERIES, _EPOCHS = 3000, (12, 24)


@dataclass(frozen=True)
class RelevanceLearner(ABC):
    """Learns from a log to predict the relevance of any candidate."""

    def predicted(
        self, data: RankingDataset, clicks: ClickTable, curve: Curve, wanted: RankingDataset, seed: int
    ) -> Floats:
        """(rows of `wanted`,) between 0 and 1, learned from the other data."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CldrankWarning)
            return np.clip(self._predicted(data, clicks, curve, wanted, seed), 0.0, 1.0)

    @abstractmethod
    def _predicted(
        self, data: RankingDataset, clicks: ClickTable, curve: Curve, wanted: RankingDataset, seed: int
    ) -> Floats:
        """The same, perhaps beyond 0 and 1."""


@dataclass(frozen=True)
class CLDRelevance(RelevanceLearner):
    """CLD with a linear model and r̄ = c / (n ρ), which is without bias: its score is the expected r̄."""

    gamma: float = 0.02

    def _predicted(
        self, data: RankingDataset, clicks: ClickTable, curve: Curve, wanted: RankingDataset, seed: int
    ) -> Floats:
        everything = np.arange(data.n_features)
        problem = PointSelection(
            observed=observe(data, clicks, curve, "ips"),
            pages=clicks.query_impressions,
            gamma=self.gamma,
            tobit=False,
            sigma=1.0,
            relevance=everything,
            selection=everything,
            unshown_ratio=1.0,
        )
        return Linear().fit_points(problem, _context(data, seed)).ranker.predict(wanted)


@dataclass(frozen=True)
class CLDPairRelevance(RelevanceLearner):
    """CLD-pair with a linear model; its scores become relevance by isotonic regression on the results shown."""

    selection_weight: float = 0.05

    def _predicted(
        self, data: RankingDataset, clicks: ClickTable, curve: Curve, wanted: RankingDataset, seed: int
    ) -> Floats:
        from sklearn.isotonic import IsotonicRegression

        problem = PairSelection(
            observe(data, clicks, curve, "ips"), clicks.query_impressions, self.selection_weight, unshown_ratio=1.0
        )
        epochs = int(np.clip(_PASSED_QUERIES // data.n_queries, *_EPOCHS))
        network = replace(Linear().as_network(), learning_rate=_LEARNING_RATE, epochs=epochs)
        network.check_installed()
        ranker: Ranker = network.fit_pairs(problem, _context(data, seed)).ranker
        log = LoggedClicks(data, clicks, curve)
        seen = log.seen
        scores, relevance = ranker.predict(data)[seen], (log.surplus[seen] / log.exposure[seen])
        turned = IsotonicRegression(out_of_bounds="clip").fit(scores, relevance, log.exposure[seen])
        found: Floats = turned.predict(ranker.predict(wanted))
        return found


def _context(data: RankingDataset, seed: int) -> Context:
    return Context(data, Run(seed=seed), "the model of relevance", "clicks over propensity", Provenance())
