"""Simulations for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.simulate import (
    Cascade,
    DependentClicks,
    FirstSwaps,
    NeighbourSwaps,
    PositionBased,
    ShuffledShare,
    Simulation,
    TopK,
    TrustBiased,
)
from cldrank.clicks.simulate.simulation import Counts

TINY = RankingDataset.from_arrays(
    np.arange(6.0)[:, None], ["a"] * 4 + ["b"] * 2, labels=[0, 1, 4, 3, 0, 4], doc_ids=list("pqrsxy"), name="tiny"
)


TINY_SCORES = [0.1, 0.9, 0.5, 0.2, 0.7, 0.3]  # so the orders are q r s p and x y


WORLDS: list[dict[str, Any]] = [
    {"model": PositionBased(eta=1, noise=0.2), "policy": TopK()},
    {"model": TrustBiased(eta=0.5), "policy": FirstSwaps(0.4)},
    {"model": Cascade(noise=0.3), "policy": TopK()},
    {"model": DependentClicks(noise=0.3, continuation=0.6), "policy": NeighbourSwaps(0.6)},
    {"model": PositionBased(eta=1, noise=0.2), "policy": ShuffledShare(0.5)},
    {"model": DependentClicks(noise=0.3, continuation=0.6), "policy": ShuffledShare(0.3, shuffle="candidates")},
    {"model": Cascade(noise=0.3), "policy": ShuffledShare(1)},
]


every_world = pytest.mark.parametrize(
    "world", WORLDS, ids=lambda world: f"{world['model'].name}-{world['policy'].name}"
)


def small_world(queries: int = 40, seed: int = 0, **changes: Any) -> Simulation:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 12, queries)
    labels = random.integers(0, 5, sizes.sum())
    data = RankingDataset.from_arrays(random.random((sizes.sum(), 1)), np.repeat(np.arange(queries), sizes), labels)
    return Simulation(data, **{"scores": random.random(sizes.sum()), **changes})


def dense(table: ClickTable, depth: int) -> NDArray[np.float64]:
    """Impressions and clicks by row and position, as one vector."""
    counts = np.zeros((2, table.candidates.n_rows, depth))
    counts[0, table.row, table.position - 1] = table.impressions
    counts[1, table.row, table.position - 1] = table.clicks
    return counts.ravel()


def by_session(simulation: Simulation, sessions: int, seed: int) -> ClickTable:
    counts = Counts(simulation)
    for block in simulation.sessions(sessions, seed=seed):
        counts.add(block.rows, block.clicked)
    return counts.table()
