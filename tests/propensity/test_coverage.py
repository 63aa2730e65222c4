"""Intervals hold the truth as often as they say; benchmarks/propensity.py does the same at length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cldrank.clicks.simulate import FirstSwaps, NeighbourSwaps, ShuffledShare
from cldrank.clicks.table import ClickTable
from cldrank.propensity import AdjacentChain, AllPairs, Pivot, Randomised
from cldrank.propensity.estimator import CurveEstimator

LOGS = 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "estimator"),
    [
        (ShuffledShare(1.0), Randomised()),
        (FirstSwaps(0.5), Pivot()),
        (NeighbourSwaps(0.5), AdjacentChain()),
        ("two rankers", Pivot(depth=3)),
        ("two rankers", AdjacentChain()),
        ("two rankers", AllPairs()),
        ("two rankers", AllPairs(weighting="candidates")),
    ],
    ids=repr,
)
def test_intervals_hold_the_truth_at_the_nominal_rate(world: Any, design: Any, estimator: CurveEstimator) -> None:
    def log(seed: int) -> ClickTable:
        sessions = 3e4 if isinstance(design, ShuffledShare) else 6e4
        found: ClickTable = (
            world.two_rankers(sessions, seed) if design == "two rankers" else world.log(design, sessions, seed)
        )
        return found

    held = []
    for seed in range(LOGS):
        rho = estimator.fit(log(seed))
        assert rho.low is not None
        assert rho.high is not None
        truth = 1 / np.arange(1, len(rho) + 1)
        held.append(((rho.low <= truth) & (truth <= rho.high))[1:].mean())
    error = np.std(held) / np.sqrt(LOGS)
    assert np.mean(held) == pytest.approx(0.9, abs=3.5 * error + 0.015)
