"""Logs so long that clicks say exactly how relevant everything is, or as short as asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import cldrank as cr
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.evaluation.intervals import ClickEstimator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KnownWorld:
    """Queries with as many candidates each, whose relevance is known.

    relevance   (queries, candidates), in the order in which production shows the first `depth`
    pages       of each query
    """

    relevance: Floats
    depth: int = 3
    eta: float = 1.0
    pages: int = 1_000_000

    @classmethod
    def draw(cls, queries: int, candidates: int, seed: int, depth: int = 3) -> KnownWorld:
        return cls(np.random.default_rng(seed).uniform(0.0, 0.8, (queries, candidates)) ** 2, depth)

    @property
    def curve(self) -> cr.Propensities:
        return cr.Propensities.power(self.eta, self.depth)

    @property
    def data(self) -> cr.RankingDataset:
        queries, candidates = self.relevance.shape
        return cr.RankingDataset.from_arrays(
            np.zeros((queries * candidates, 1)), np.repeat(np.arange(queries), candidates)
        )

    def log(self, random: np.random.Generator | None = None) -> LoggedClicks:
        """Expected clicks, or drawn ones."""
        data = self.data
        place = np.tile(np.arange(1, self.relevance.shape[1] + 1), len(self.relevance))
        shown = place <= self.depth
        chance = np.where(shown, self.relevance.ravel() / np.maximum(place, 1) ** self.eta, 0.0)
        clicks = np.rint(self.pages * chance).astype(int) if random is None else random.binomial(self.pages, chance)
        table = cr.ClickTable.from_arrays(
            data, position=np.where(shown, place, 0), impressions=np.where(shown, self.pages, 0), clicks=clicks
        )
        return LoggedClicks(data, table, self.curve)

    def estimator(self, random: np.random.Generator | None = None) -> ClickEstimator:
        return ClickEstimator(self.log(random))

    def only(self, queries: NDArray[np.int64], pages: int) -> KnownWorld:
        """Some queries of it, with fewer pages."""
        return replace(self, relevance=self.relevance[queries], pages=pages)
