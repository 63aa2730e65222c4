"""Harvesting: which weights are best, and the likelihood of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.propensity import AllPairs, Pivot
from cldrank.propensity.harvesting import PairLikelihood, maximise


def test_candidates_count_by_their_impressions() -> None:
    """By n m / (n + m), for n impressions at the one position and m at the other (Mantel and Haenszel), or alike."""
    random = np.random.default_rng(0)
    n = random.integers(20, 400, (60, 2))
    clicks = random.binomial(n, [0.4, 0.2])
    data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.zeros(60))
    cells: Any = {"row": np.repeat(np.arange(60), 2), "position": [1, 2] * 60}
    table = ClickTable.from_arrays(data, **cells, impressions=n.ravel(), clicks=clicks.ravel())
    by_hand: list[tuple[Any, Any]] = [("impressions", n.prod(axis=1) / n.sum(axis=1)), ("candidates", np.ones(60))]
    for weighting, weight in by_hand:
        upper, lower = weight @ (clicks / n)
        assert Pivot(weighting=weighting).fit(table).values[1] == pytest.approx(lower / upper)
    assert Pivot() == Pivot(weighting="impressions")


# -- the likelihood of all pairs --------------------------------------------------------------------------------------


def likelihood(size: int, logs: int, seed: int) -> PairLikelihood:
    """Sums of pairs as a position-based model leaves them."""
    random = np.random.default_rng(seed)
    upper, lower = np.triu_indices(size, 1)
    rho = np.arange(1, size + 1) ** -random.uniform(0, 1.5)
    total = random.uniform(20, 400, (logs, len(upper)))
    relevance = random.uniform(0.1, 0.9, len(upper))
    parts = []
    for ends in (upper, lower):
        mean = rho[ends] * relevance
        parts.append(total * random.beta(50 * mean, 50 * (1 - mean), total.shape))
    return PairLikelihood(parts[0], parts[1], total, upper, lower, size)


def objective(parameters: NDArray[np.float64], of: PairLikelihood) -> float:
    """The likelihood of Agarwal et al. (2019) as they print it, with one relevance a pair, as a loss."""
    logs = np.append(0.0, parameters[: of.size - 1])
    relevance = np.exp(parameters[of.size - 1 :])
    loss = 0.0
    for clicks, ends in ((of.above[0], of.upper), (of.below[0], of.lower)):
        mean = np.clip(np.exp(logs[ends]) * relevance, 1e-12, 1 - 1e-12)
        loss -= (clicks * np.log(mean) + (of.total[0] - clicks) * np.log(1 - mean)).sum()
    return float(loss)


def test_the_optimum_is_that_of_a_general_optimiser_on_the_printed_likelihood() -> None:
    for seed in range(4):
        of = likelihood(4, 1, seed)
        found = maximise(of)[0]
        start = np.concatenate([-np.log(np.arange(2, 5)), np.full(len(of.upper), -1.5)])
        other = minimize(objective, start, args=(of,), method="BFGS", options={"gtol": 1e-7, "maxiter": 5000})
        np.testing.assert_allclose(found[1:], other.x[:3], atol=1e-4)


@given(st.integers(2, 12), st.integers(0, 10_000))
@settings(max_examples=30)
def test_the_gradient_vanishes_at_the_optimum(size: int, seed: int) -> None:
    of = likelihood(size, 3, seed)
    found = maximise(of)
    value, gradient, _ = of.climb(found)
    assert np.abs(gradient).max() < 1e-6 * of.total.sum()
    for step in (1e-3, -1e-3):
        moved = found.copy()
        moved[:, -1] += step
        assert (of.climb(moved)[0] <= value + 1e-9 * np.abs(value)).all()


def test_steps_that_would_overshoot_are_halved() -> None:
    """Pairs that contradict each other wildly, where a whole Newton step lands far below."""
    random = np.random.default_rng(0)
    upper, lower = np.triu_indices(5, 1)
    total = 10 ** random.uniform(0, 3, (300, len(upper)))
    parts = [np.clip(total * random.beta(0.2, 0.2, total.shape), 1e-6, total * (1 - 1e-9)) for _ in range(2)]
    of = PairLikelihood(parts[0], parts[1], total, upper, lower, 5)
    found = maximise(of)
    value = of.climb(found)[0]
    assert (value >= of.climb(0 * found)[0] - 1e-9 * np.abs(value)).all()
    for place in range(1, 5):  # no better place anywhere near, as there is where steps overshoot
        for step in (1e-2, -1e-2):
            moved = found.copy()
            moved[:, place] += step
            assert (of.climb(moved)[0] <= value + 1e-9 * np.abs(value)).all()


def test_blocks_change_nothing(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.shuffled()
    whole = AllPairs().fit(log)
    monkeypatch.setattr("cldrank.propensity.harvesting._ENTRIES", 100)
    np.testing.assert_allclose(AllPairs().fit(log).replicates, whole.replicates, rtol=1e-9)  # type: ignore[arg-type]
