from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import ClickModel, Policy, PositionBased, ShuffledShare, Simulation, TopK
from cldrank.clicks.table import ClickTable


@dataclass(frozen=True)
class World:
    """Labelled queries and two rankers that are alike, to simulate logs with known propensities."""

    data: cr.RankingDataset
    scores: Any
    other: Any
    depth: int = 5

    def log(
        self, policy: Policy | None = None, sessions: float = 2e5, seed: int = 0, model: ClickModel | None = None
    ) -> ClickTable:
        simulation = Simulation(
            self.data, self.scores, model or PositionBased(1, 0.1), policy or TopK(), cutoff=self.depth
        )
        return simulation.draw(sessions, seed=seed)

    def two_rankers(self, sessions: float = 2e5, seed: int = 0, model: ClickModel | None = None) -> ClickTable:
        logs = [
            Simulation(self.data, scores, model or PositionBased(1, 0.1), cutoff=self.depth).draw(
                sessions / 2, seed=2 * seed + turn
            )
            for turn, scores in enumerate((self.scores, self.other))
        ]
        return logs[0].merge(logs[1])

    def shuffled(self, sessions: float = 3e4, seed: int = 0) -> ClickTable:
        return self.log(ShuffledShare(1.0), sessions, seed)


@pytest.fixture(scope="session")
def world() -> World:
    random = np.random.default_rng(0)
    labels = random.choice(5, p=[0.4, 0.2, 0.1, 0.2, 0.1], size=200 * 15)
    data = cr.RankingDataset.from_arrays(np.zeros((len(labels), 1)), np.repeat(np.arange(200), 15), labels)
    scores = labels + random.normal(0, 2, len(labels))
    return World(data, scores, scores + random.normal(0, 1.5, len(labels)))
