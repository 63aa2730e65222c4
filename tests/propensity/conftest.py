from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import ClickModel, Policy, PositionBased, ShuffledShare, Simulation, TopK
from cldrank.clicks.simulate.truth import truth_of
from cldrank.clicks.table import ClickTable
from cldrank.propensity import AffineClicks


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
            self.data, self.scores, model or PositionBased(1, 0.1), policy or TopK(), depth=self.depth
        )
        return simulation.draw(sessions, seed=seed)

    def two_rankers(self, sessions: float = 2e5, seed: int = 0, model: ClickModel | None = None) -> ClickTable:
        logs = [
            Simulation(self.data, scores, model or PositionBased(1, 0.1), depth=self.depth).draw(
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


def on_candidates(data: cr.RankingDataset, log: ClickTable, **more: Any) -> ClickTable:
    """The cells of a log on other candidates of the same rows."""
    cells = {name: getattr(log, name) for name in ("row", "position", "impressions", "clicks")}
    return ClickTable.from_arrays(data, **cells, **more)


@pytest.fixture(scope="session")
def affine_truth() -> Any:
    """The slopes and bases of a click model, in the first five positions."""
    data = cr.RankingDataset.from_arrays(np.zeros((6, 1)), np.zeros(6), [0, 1] * 3)

    def of(model: ClickModel) -> AffineClicks:
        known = truth_of(Simulation(data, np.zeros(6), model, depth=5), 10, 0)
        attraction = known["attraction"]
        return AffineClicks.of(known["propensities"], attraction["relevant"], attraction["irrelevant"])

    return of


def logistic_log(
    follows: float, seed: int = 0, queries: int = 300, sessions: int = 200, hidden: float = 0.0
) -> tuple[cr.RankingDataset, ClickTable]:
    """Relevance that is logistic in features but for `hidden`, and pages of a ranker that follows it more or less."""
    random = np.random.default_rng(seed)
    rows = queries * 10
    features = random.normal(size=(rows, 4))
    score = features @ np.array([1, -0.8, 0.6, 0]) + hidden * random.normal(size=rows)
    data = cr.RankingDataset.from_arrays(features, np.arange(rows) // 10)
    ranked = (-(follows * score + random.normal(size=rows))).reshape(queries, 10).argsort(axis=1).argsort(axis=1)
    position = np.where(ranked < 5, ranked + 1, 0).ravel()
    shown = position > 0
    chance = np.where(shown, 1 / (1 + np.exp(1 - score)) / np.maximum(position, 1), 0.0)
    impressions = np.where(shown, sessions, 0)
    clicks = random.binomial(impressions, chance)
    return data, ClickTable.from_arrays(data, position=position, impressions=impressions, clicks=clicks)


@pytest.fixture(scope="session")
def logistic() -> Any:
    """`logistic_log`, for tests of estimators that model relevance."""
    return logistic_log
