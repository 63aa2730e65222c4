"""A small world whose relevance is known, and logs of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import cldrank as cr
from cldrank.clicks.simulate import Policy, PositionBased, Simulation, TopK
from cldrank.clicks.table import ClickTable
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.propensity import Propensities

NOISE = 0.1
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class SimulatedClicks:
    """Queries of eight candidates, clicked by position with ρ = 1/k; a log of them, and who would rank well or badly.

    good, bad    scores of rankers; production's quality lies between
    relevance    (rows,) the probability of a click on what is examined
    """

    data: cr.RankingDataset
    clicks: ClickTable
    good: Floats
    bad: Floats
    relevance: Floats

    @property
    def rho(self) -> Propensities:
        return Propensities.power(1, self.clicks.depth)

    @property
    def log(self) -> LoggedClicks:
        return LoggedClicks(self.data, self.clicks, self.rho)


def simulated(
    queries: int = 60, sessions: float = 6000, depth: int = 4, seed: int = 0, policy: Policy | None = None
) -> SimulatedClicks:
    """A log of production, which knows half of what is relevant."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((8 * queries, 3))
    labels = 3.0 * (features[:, 0] + 0.5 * random.standard_normal(8 * queries) > 0.7)
    ids = [f"q{query}" for query in np.repeat(np.arange(queries), 8)]
    data = cr.RankingDataset.from_arrays(features, ids, labels, name="toy", synthetic=True)
    production = 0.5 * features[:, 0] + features[:, 1]
    simulation = Simulation(
        data, scores=production, model=PositionBased(1.0, NOISE), depth=depth, policy=policy or TopK()
    )
    relevance = np.where(labels > 0, 1.0, NOISE)
    good, bad = features[:, 0].astype(np.float64), features[:, 2].astype(np.float64)
    return SimulatedClicks(data, simulation.draw(sessions, seed=seed), good, bad, relevance)
