from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, t

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.simulate import (
    Cascade,
    ClickModel,
    DependentClicks,
    NeighbourSwaps,
    PositionBased,
    ShuffledShare,
    Simulation,
    TopK,
    TrustBiased,
)
from cldrank.propensity.behaviour import Behaviour, behaviour
from cldrank.propensity.propensities import MISFIT


def world(model: ClickModel, queries: int = 200, **options: Any) -> Simulation:
    random = np.random.default_rng(0)
    labels = (random.random(queries * 8) < 0.4).astype(float)
    data = RankingDataset.from_arrays(labels[:, None], np.arange(queries * 8) // 8, labels)
    return Simulation(data, labels + random.normal(0, 2, len(labels)), model, depth=4, **options)


class TwoKinds(PositionBased):
    """Half of the people click on hardly anything."""

    def draw(self, relevant: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.bool_]:
        """Each kind is position-based."""
        eager = np.where(random.random((len(relevant), 1)) < 0.5, 1.0, 0.3)
        return np.asarray(random.random(relevant.shape) < eager * self.click_probability(relevant))


class TestNames:
    @pytest.mark.parametrize("policy", [TopK(), NeighbourSwaps(0.5)])
    @pytest.mark.parametrize(
        ("model", "looks"),
        [
            (PositionBased(eta=0.5), "position-based"),
            (PositionBased(eta=2), "position-based"),
            (TrustBiased(), "position-based"),
            (Cascade(), "stop"),
            (DependentClicks(continuation=(0.6, 0.5, 0.4, 0.3)), "examine less"),
            (DependentClicks(continuation=(0.9, 0.85, 0.8, 0.75)), "examine less"),
            (TwoKinds(), "click more"),
        ],
    )
    def test_of_simulated_people(self, model: ClickModel, looks: str, policy: Any) -> None:
        seen = behaviour(world(model, policy=policy).draw(20_000, seed=1, contexts=True))
        assert seen.looks == looks
        assert seen.refuted == (looks != "position-based")
        assert bool(seen.consequence) == seen.refuted
        assert [entry.position for entry in seen.by_position] == [2, 3, 4]

    def test_position_based_people_are_hardly_ever_refuted(self) -> None:
        p_values = []
        for queries, sessions in ((3, 100), (30, 300), (200, 3_000)):
            simulation = world(PositionBased(eta=1), queries)
            seen = [behaviour(simulation.draw(sessions, seed=seed, contexts=True)) for seed in range(40)]
            p_values += [one.p_value for one in seen if one.p_value is not None]
        assert len(p_values) > 80
        assert np.mean(np.array(p_values) < MISFIT) <= 0.04
        assert 0.3 < np.mean(p_values) < 0.7

    def test_intervals_hold_the_ratio(self) -> None:
        simulation = world(DependentClicks(continuation=0.5))
        seen = [behaviour(simulation.draw(5_000, seed=seed, contexts=True)) for seed in range(40)]
        first = [entry for one in seen for entry in one.by_last_click if (entry.position, entry.last_click) == (2, 1)]
        assert np.mean([entry.low <= 0.5 <= entry.high for entry in first]) >= 0.8

    @pytest.mark.parametrize("clicked", [None, [0, 0, 0]])
    def test_unknown(self, clicked: list[int] | None) -> None:
        data = RankingDataset.from_arrays(np.zeros((3, 1)), [1, 1, 1])
        cells = {"position": [1, 2, 3], "impressions": [9, 9, 9], "clicks": clicked or [4, 1, 0]}
        assert behaviour(ClickTable.from_arrays(data, **cells)) == Behaviour("unknown")
        few = world(Cascade(), 2).draw(5, contexts=True)
        assert behaviour(few).looks == "unknown"

    def test_of_one_query_by_its_candidates(self) -> None:
        simulation = world(DependentClicks(continuation=0.2), queries=1, policy=ShuffledShare(1.0))
        overall = behaviour(simulation.draw(20_000, contexts=True)).overall
        assert overall is not None
        assert overall.high < 2 * overall.low  # a single group of queries would not show the spread


def counted(log: ClickTable) -> dict[tuple[int, int, int], dict[int, tuple[int, int]]]:
    """Impressions and clicks by row, segment and position, by last click."""
    own = log.contexts
    assert own is not None
    strata: dict[Any, dict[int, tuple[int, int]]] = defaultdict(dict)
    columns = (own.row, own.segment, own.position, own.last_click, own.impressions, own.clicks)
    for row, segment, position, last_click, n, c in zip(*(column.tolist() for column in columns), strict=True):
        strata[row, segment, position][last_click] = (n, c)
    return strata


def two_devices() -> ClickTable:
    simulation = world(DependentClicks(continuation=0.7), 60)
    return ClickTable.merged(
        [simulation.draw(4_000, seed=seed, contexts=True).as_segment(name) for seed, name in enumerate(("a", "b"))]
    )


class TestByHand:
    """Against sums in plain loops."""

    def test_ratios(self) -> None:
        log = two_devices()
        seen = behaviour(log)
        assert len(seen.by_last_click) == 6
        for entry in (seen.overall, *seen.by_position, *seen.by_last_click):
            assert entry is not None
            below = without = 0.5
            for (_, _, position), contexts in counted(log).items():
                m, d = contexts.get(0, (0, 0))
                for last_click, (n, c) in contexts.items():
                    if last_click and entry.position in (0, position) and entry.last_click in (0, last_click):
                        below, without = below + c * m / (n + m), without + d * n / (n + m)
            assert entry.ratio == pytest.approx(below / without)
            assert entry.low < entry.ratio < entry.high

    def test_intervals_are_clustered_by_query(self) -> None:
        """People read on after a click in half of the queries, so that the results of a query are alike."""
        both = [DependentClicks(continuation=share) for share in (0.1, 1.0)]
        logs = [world(model, 80).draw(8_000, seed=1, contexts=True) for model in both]
        query = logs[0].candidates.row_queries
        log = ClickTable.merged([one.where(query[one.row] % 2 == side) for side, one in enumerate(logs)])
        overall = behaviour(log).overall
        assert overall is not None
        below, without = np.zeros((2, 80))
        for (row, _, _), contexts in counted(log).items():
            m, d = contexts.get(0, (0, 0))
            for last_click, (n, c) in contexts.items():
                if last_click:
                    below[query[row]] += c * m / (n + m)
                    without[query[row]] += d * n / (n + m)
        groups = np.count_nonzero((below > 0) | (without > 0))
        moved = below / (below.sum() + 0.5) - without / (without.sum() + 0.5)
        half = t.ppf(0.95, groups - 1) * np.sqrt((moved**2).sum() * groups / (groups - 1))
        assert np.log(overall.high / overall.low) == pytest.approx(2 * half)

    def test_the_test(self) -> None:
        """The statistic of the generalised test, summed over positions, and its degrees of freedom."""
        log = two_devices().first(3)
        seen = behaviour(log)
        statistic = 0.0
        for place in (2, 3):
            excess, covariance = np.zeros(place - 1), np.zeros((place - 1, place - 1))
            for (_, _, position), contexts in counted(log).items():
                if position != place:
                    continue
                n = np.array([contexts.get(at, (0, 0))[0] for at in range(1, place)])
                c = np.array([contexts.get(at, (0, 0))[1] for at in range(1, place)])
                every, clicks = (sum(values) for values in zip(*contexts.values(), strict=True))
                excess += c - n * clicks / every
                chance = clicks * (every - clicks) / every**2 / max(every - 1, 1)
                covariance += chance * (np.diag(n * every) - np.outer(n, n))
            statistic += float(excess @ np.linalg.solve(covariance, excess))
        assert seen.left_out == 0
        assert seen.p_value == pytest.approx(chi2.sf(statistic, 3))

    def test_other_candidates_and_surfaces_are_not_compared(self) -> None:
        log = two_devices()
        apart = [behaviour(part) for part in log.by_segment().values()]
        assert len({seen.p_value for seen in (*apart, behaviour(log))}) == 3
        assert behaviour(replace(log, contexts=None)) == Behaviour("unknown")
