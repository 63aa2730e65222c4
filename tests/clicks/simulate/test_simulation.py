from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_worlds import TINY, TINY_SCORES, by_session, dense, every_world, small_world

from cldrank import RankingDataset
from cldrank.clicks.simulate import (
    FirstSwaps,
    NeighbourSwaps,
    PositionBased,
    ShuffledShare,
    Simulation,
    TopK,
    TrustBiased,
)
from cldrank.clicks.simulate.simulation import BLOCK
from cldrank.errors import CldrankError, DataError, UsageError


class TestBothWaysAgree:
    @every_world
    def test_in_distribution(self, world: dict[str, Any]) -> None:
        """Means and covariances of all cells over repeated logs of one size, to 4.5 standard errors each."""
        simulation = Simulation(TINY, TINY_SCORES, depth=3, **world)
        counted = np.array([dense(simulation.draw(40, seed=seed), 3) for seed in range(250)])
        gone_through = np.array([dense(by_session(simulation, 40, seed), 3) for seed in range(250)])
        means = np.mean(np.concatenate([counted, gone_through]), axis=0)

        def products(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            apart = counts - means
            each: NDArray[np.float64] = apart[:, :, None] * apart[:, None, :]
            return each.reshape(len(counts), -1)

        for sums, steps in ((counted, gone_through), (products(counted), products(gone_through))):
            error = np.sqrt((sums.var(axis=0) + steps.var(axis=0)) / 250)
            # products of cells that hardly ever occur are far from normal
            tested = (np.concatenate([sums, steps]) != 0).sum(axis=0) > 40
            assert tested.sum() > 8
            assert (np.abs(sums.mean(axis=0) - steps.mean(axis=0)) <= 4.5 * error + 1e-9)[tested].all()

    def test_queries_are_drawn_evenly(self) -> None:
        simulation = small_world(queries=50, depth=1)
        for table in (simulation.draw(50_000), by_session(simulation, 50_000, 0)):
            pages = table.query_impressions
            assert pages.sum() == 50_000
            assert abs(((pages - 1000) ** 2 / 1000).sum() - 49) < 4 * np.sqrt(2 * 49)


class TestCounted:
    def test_the_top_results_with_their_propensities(self) -> None:
        simulation = Simulation(TINY, TINY_SCORES, PositionBased(eta=1, noise=0.1), depth=3)
        table = simulation.draw(1e9, seed=0)
        assert table.row.tolist() == [1, 2, 3, 4, 5]
        assert table.position.tolist() == [1, 2, 3, 1, 2]
        rate = table.clicks / table.impressions
        np.testing.assert_allclose(rate, [0.1, 1 / 2, 1 / 3, 0.1, 1 / 2], rtol=1e-3)
        assert table.query_impressions.sum() == 10**9
        table.check_same(TINY)

    def test_any_number_of_sessions_takes_the_same_work(self) -> None:
        for policy in (TopK(), NeighbourSwaps(), FirstSwaps()):
            assert Simulation(TINY, TINY_SCORES, policy=policy).counts_all
            assert Simulation(TINY, TINY_SCORES, policy=policy).draw(1e15).query_impressions.sum() == 10**15
        assert Simulation(TINY, TINY_SCORES, policy=ShuffledShare(0)).counts_all
        assert not Simulation(TINY, TINY_SCORES, policy=ShuffledShare(0.1)).counts_all


class TestRelevance:
    def test_threshold(self) -> None:
        assert Simulation(TINY, TINY_SCORES).relevant_from == 3
        assert Simulation(TINY, TINY_SCORES).relevant.tolist() == [False, False, True, True, False, True]
        assert Simulation(TINY, TINY_SCORES, relevant_from=1).relevant.sum() == 4
        binary = RankingDataset.from_arrays(np.eye(3), [1, 1, 1], labels=[0, 2, 1])
        assert Simulation(binary, [1, 2, 3]).relevant_from == 1
        with pytest.raises(DataError, match="5, the highest is 4"):
            Simulation(TINY, TINY_SCORES, relevant_from=5)


class TestSeeds:
    @every_world
    def test_the_same_seed_gives_the_same_clicks(self, world: dict[str, Any], tmp_path: Path) -> None:
        simulation = small_world(**world)
        first, again, other = (dense(simulation.draw(5_000, seed=seed), 5) for seed in (7, 7, 8))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            simulation.save_log(tmp_path / name, 5_000, seed=seed)
        contents = [(tmp_path / name).read_bytes() for name in "abc"]
        assert contents[0] == contents[1] != contents[2]

    def test_sessions_do_not_depend_on_how_many_follow(self) -> None:
        simulation = small_world(policy=ShuffledShare(0.5))
        few = next(simulation.sessions(BLOCK, seed=1))
        many = list(simulation.sessions(2 * BLOCK + 5, seed=1))
        assert [block.first for block in many] == [0, BLOCK, 2 * BLOCK]
        np.testing.assert_array_equal(few.rows, many[0].rows)
        np.testing.assert_array_equal(few.clicked, many[0].clicked)
        assert (many[1].queries != many[0].queries).any()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"depth": 0}, "`depth`.*not 0"),
        ({"scores": [1, 2, 3, 4, np.nan, 6]}, "production's score of row 4 is nan"),
        ({"policy": FirstSwaps(positions=(4,)), "depth": 3}, "position 4 cannot be swapped on pages of 3"),
        ({"model": TrustBiased(epsilon_minus=(0.1,)), "depth": 3}, "epsilon_minus.* has 1 entries"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CldrankError, match=complaint):
        Simulation(TINY, **{"scores": TINY_SCORES, **arguments})


@pytest.mark.parametrize(("sessions", "seed"), [(0, 0), (1.5, 0), (1e30, 0), (10, -1)])
def test_sessions_and_seeds_are_whole_numbers(sessions: Any, seed: Any) -> None:
    simulation = Simulation(TINY, TINY_SCORES)
    with pytest.raises(UsageError):
        simulation.draw(sessions, seed=seed)
    with pytest.raises(UsageError):
        simulation.sessions(sessions, seed=seed)
