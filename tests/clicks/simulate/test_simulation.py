from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from cldrank import ClickTable, RankingDataset, segments
from cldrank.clicks import simulate
from cldrank.clicks.simulate import (
    Cascade,
    DependentClicks,
    FirstSwaps,
    NeighbourSwaps,
    PlackettLuce,
    PositionBased,
    ShuffledShare,
    Simulation,
    TopK,
    TrustBiased,
)
from cldrank.clicks.simulate.simulation import BLOCK, Counts
from cldrank.errors import CldrankError, DataError, FormatError, UsageError

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
    {"model": Cascade(noise=0.3), "policy": PlackettLuce(0.5)},
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


class TestBothWaysAgree:
    @every_world
    def test_in_distribution(self, world: dict[str, Any]) -> None:
        """Means and covariances of all cells over repeated logs of one size, to 4.5 standard errors each."""
        simulation = Simulation(TINY, TINY_SCORES, depth=3, **world)
        counted = np.array([dense(simulation.draw(40, seed=seed), 3) for seed in range(500)])
        gone_through = np.array([dense(by_session(simulation, 40, seed), 3) for seed in range(500)])
        means = np.mean(np.concatenate([counted, gone_through]), axis=0)

        def products(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            apart = counts - means
            each: NDArray[np.float64] = apart[:, :, None] * apart[:, None, :]
            return each.reshape(len(counts), -1)

        for one, two in ((counted, gone_through), (products(counted), products(gone_through))):
            error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 500)
            # products of cells that hardly ever occur are far from normal
            tested = (np.concatenate([one, two]) != 0).sum(axis=0) > 50
            assert tested.sum() > 8
            assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) <= 4.5 * error + 1e-9)[tested].all()

    @pytest.mark.parametrize("way", ["counted", "by session"])
    @pytest.mark.parametrize("model", [PositionBased(eta=0.7, noise=0.2), TrustBiased(eta=1)], ids=repr)
    def test_clicks_are_binomial(self, model: Any, way: str) -> None:
        simulation = small_world(model=model, policy=NeighbourSwaps(0.5), depth=4)
        table = simulation.draw(60_000, seed=5) if way == "counted" else by_session(simulation, 60_000, 5)
        relevant = np.repeat(simulation.relevant[table.row][:, None], 4, axis=1)
        expected = model.click_probability(relevant)[np.arange(table.n_cells), table.position - 1]
        random = (expected < 1) & (table.impressions * expected * (1 - expected) > 3)
        deviation = (table.clicks - table.impressions * expected)[random]
        z = deviation / np.sqrt(table.impressions * expected * (1 - expected))[random]
        chi_square, cells = (z**2).sum(), len(z)
        assert cells > 100
        assert abs(chi_square - cells) < 4 * np.sqrt(2 * cells)
        assert (table.clicks == table.impressions)[expected == 1].all()

    @pytest.mark.parametrize("way", ["counted", "by session"])
    def test_queries_are_drawn_evenly(self, way: str) -> None:
        simulation = small_world(queries=50, depth=1)
        table = simulation.draw(50_000) if way == "counted" else by_session(simulation, 50_000, 0)
        pages = table.query_impressions
        assert pages.sum() == 50_000
        assert abs(((pages - 1000) ** 2 / 1000).sum() - 49) < 4 * np.sqrt(2 * 49)

    @every_world
    def test_the_log_and_its_cells(self, world: dict[str, Any], tmp_path: Path) -> None:
        simulation = Simulation(TINY, TINY_SCORES, depth=3, **world)
        written = simulation.save_log(tmp_path / "log.parquet", 2_000, seed=3, count=True)
        aggregated = ClickTable.read(tmp_path / "log.parquet", TINY)
        assert written.cells is not None
        np.testing.assert_array_equal(dense(aggregated, 3), dense(written.cells, 3))
        np.testing.assert_array_equal(dense(aggregated, 3), dense(by_session(simulation, 2_000, 3), 3))
        assert np.bincount(aggregated.position, aggregated.impressions)[1:].tolist() == written.impressions.tolist()
        assert np.bincount(aggregated.position, aggregated.clicks)[1:].tolist() == written.clicks.tolist()


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
        assert not Simulation(TINY, TINY_SCORES, policy=PlackettLuce()).counts_all

    def test_swapping_one_pair_half_the_time_is_symmetric(self) -> None:
        table = Simulation(TINY, TINY_SCORES, policy=FirstSwaps(0.5, positions=(3,)), depth=3).draw(4e8)
        first, third = (table.impressions[(table.row == row) & (table.position == 1)][0] for row in (1, 3))
        assert first / third == pytest.approx(1, abs=1e-3)
        assert set(table.position[table.row == 2]) == {2}
        assert (table.position[table.row == 5] == 2).all()  # query b has no third result

    def test_depth_and_few_candidates(self) -> None:
        assert Simulation(TINY, TINY_SCORES, depth=1).draw(100).depth == 1
        whole = Simulation(TINY, TINY_SCORES, depth=100, model=PositionBased(eta=0, noise=1))
        assert (whole.depth, whole.longest_page) == (100, 4)
        assert whole.draw(10_000).shown.all()
        assert whole.draw(10_000).clicks.sum() == whole.draw(10_000).impressions.sum()

    def test_ties_do_not_favour_the_relevant(self) -> None:
        labels = np.tile([4.0, 4, 0, 0, 0, 0], 300)
        data = RankingDataset.from_arrays(np.zeros((1800, 1)), np.repeat(np.arange(300), 6), labels)
        top = Simulation(data, np.zeros(1800), depth=1).ranking.top[:, 0]
        np.testing.assert_array_equal(top, segments.descending_order(np.zeros(1800), data.offsets)[data.offsets[:-1]])
        assert labels[top].mean() == pytest.approx(4 / 3, abs=0.4)

    def test_progress_counts_the_drawn_sessions(self) -> None:
        told: list[int] = []
        Simulation(TINY, TINY_SCORES, policy=PlackettLuce()).draw(BLOCK + 10, progress=told.append)
        assert told == [BLOCK, BLOCK + 10]


class TestRelevance:
    def test_threshold(self) -> None:
        assert Simulation(TINY, TINY_SCORES).relevant_from == 3
        assert Simulation(TINY, TINY_SCORES).relevant.tolist() == [False, False, True, True, False, True]
        assert Simulation(TINY, TINY_SCORES, relevant_from=1).relevant.sum() == 4
        binary = RankingDataset.from_arrays(np.eye(3), [1, 1, 1], labels=[0, 2, 1])
        assert Simulation(binary, [1, 2, 3]).relevant_from == 1

    def test_nothing_relevant(self) -> None:
        with pytest.raises(DataError, match="no label reaches 5, the highest is 4"):
            Simulation(TINY, TINY_SCORES, relevant_from=5)

    def test_without_labels(self) -> None:
        with pytest.raises(DataError, match="has no labels; a simulation needs"):
            Simulation(RankingDataset.from_arrays([[1.0]], [1]), [1])


class TestSeeds:
    @every_world
    def test_the_same_seed_gives_the_same_clicks(self, world: dict[str, Any], tmp_path: Path) -> None:
        simulation = small_world(**world)
        one, two, other = (dense(simulation.draw(5_000, seed=seed), 5) for seed in (7, 7, 8))
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()
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

    def test_row_groups_are_only_a_matter_of_storage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        simulation = small_world(depth=2)
        simulation.save_log(tmp_path / "large.parquet", 2 * BLOCK + 5)
        monkeypatch.setattr("cldrank.clicks.simulate.session_log._GROUP_ROWS", 1)
        simulation.save_log(tmp_path / "small.parquet", 2 * BLOCK + 5)
        assert pq.ParquetFile(tmp_path / "large.parquet").num_row_groups == 1
        assert pq.ParquetFile(tmp_path / "small.parquet").num_row_groups == 3
        assert pq.read_table(tmp_path / "small.parquet").equals(pq.read_table(tmp_path / "large.parquet"))


class TestLog:
    def test_columns(self, tmp_path: Path) -> None:
        simulation = Simulation(TINY, TINY_SCORES, depth=3)
        told: list[int] = []
        simulation.save_log(tmp_path / "log.parquet", 1e3, progress=told.append)
        log = pq.read_table(tmp_path / "log.parquet")
        kinds = {field.name: str(field.type) for field in log.schema}
        assert kinds == {
            "session_id": "int64", "query_id": "string", "doc_id": "string", "position": "int32", "clicked": "bool",
        }  # fmt: skip
        assert told == [1000]
        rows = log.to_pylist()
        pages: dict[int, list[Any]] = {}
        for row in rows:
            pages.setdefault(row["session_id"], []).append((row["query_id"], row["doc_id"], row["position"]))
        assert list(pages) == list(range(1000))
        assert set(map(tuple, pages.values())) == {
            (("a", "q", 1), ("a", "r", 2), ("a", "s", 3)),
            (("b", "x", 1), ("b", "y", 2)),
        }

    def test_ids_that_are_numbers_and_documents_without_ids(self, tmp_path: Path) -> None:
        simulation = small_world()
        simulation.save_log(tmp_path / "log.parquet", 100)
        log = pq.read_table(tmp_path / "log.parquet")
        assert str(log.schema.field("query_id").type) == str(log.schema.field("doc_id").type) == "int64"
        aggregated = ClickTable.read(tmp_path / "log.parquet", simulation.dataset)
        assert aggregated.query_impressions.sum() == 100

    def test_many_text_ids(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        simulation = Simulation(TINY, TINY_SCORES, policy=PlackettLuce())
        simulation.save_log(tmp_path / "coded.parquet", 500)
        monkeypatch.setattr("cldrank.clicks.simulate.session_log._GROUP_ROWS", 16)
        simulation.save_log(tmp_path / "plain.parquet", 500)
        coded, plain = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("coded", "plain"))
        assert coded.equals(plain)
        assert set(plain["doc_id"].to_pylist()) == set("pqrsxy")

    @pytest.mark.parametrize(
        "policy", [NeighbourSwaps(0.6), FirstSwaps(0.5, (2,)), ShuffledShare(0.3), ShuffledShare(0.3, "candidates")],
        ids=repr,
    )  # fmt: skip
    def test_propensity_is_the_chance_of_being_shown_there(self, policy: Any, tmp_path: Path) -> None:
        simulation = Simulation(TINY, TINY_SCORES, policy=policy, depth=3)
        simulation.save_log(tmp_path / "log.parquet", 40_000)
        log = pq.read_table(tmp_path / "log.parquet").to_pandas()
        assert log.groupby(["doc_id", "position"])["propensity"].nunique().max() == 1
        sessions = log[log.position == 1].groupby("query_id").size()
        cells = log.groupby(["query_id", "doc_id", "position"]).agg(n=("clicked", "size"), p=("propensity", "first"))
        total = cells.index.get_level_values("query_id").map(sessions).to_numpy()
        p = cells["p"].to_numpy()
        assert (np.abs(cells["n"] - total * p) <= 4.5 * np.sqrt(total * p * (1 - p)) + 1e-6).all()
        np.testing.assert_allclose(cells["p"].groupby(["query_id", "position"]).sum(), 1)

    def test_ranker_id_names_the_layout(self, tmp_path: Path) -> None:
        simulation = Simulation(TINY, TINY_SCORES, policy=FirstSwaps(0.5, positions=(2,)), depth=3)
        simulation.save_log(tmp_path / "log.parquet", 4_000)
        log = pq.read_table(tmp_path / "log.parquet").to_pandas()
        first = log[(log.query_id == "a") & (log.position == 1)]
        assert dict(first.groupby("ranker_id").doc_id.unique().str[0]) == {"production": "q", "swap-1-2": "r"}
        shuffled = Simulation(TINY, TINY_SCORES, policy=ShuffledShare(0.25))
        shuffled.save_log(tmp_path / "log.parquet", 4_000)
        log = pq.read_table(tmp_path / "log.parquet").to_pandas()
        assert (log[log.position == 1].ranker_id == "shuffled").mean() == pytest.approx(0.25, abs=0.04)

    def test_plackett_luce_cannot_tell_its_propensity(self, tmp_path: Path) -> None:
        Simulation(TINY, TINY_SCORES, policy=PlackettLuce()).save_log(tmp_path / "log.parquet", 10)
        assert "propensity" not in pq.read_schema(tmp_path / "log.parquet").names

    def test_a_failure_leaves_nothing_behind(self, tmp_path: Path) -> None:
        def fail(done: int) -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            Simulation(TINY, TINY_SCORES).save_log(tmp_path / "log.parquet", 10, progress=fail)
        assert not list(tmp_path.iterdir())
        with pytest.raises(CldrankError, match="does not exist"):
            Simulation(TINY, TINY_SCORES).save_log(tmp_path / "no" / "log.parquet", 10)


class TestTruth:
    def test_content(self, tmp_path: Path) -> None:
        simulation = Simulation(
            TINY, TINY_SCORES, PositionBased(eta=2, noise=0.3), depth=3, production={"kind": "column", "source": "f1"}
        )
        told = simulate.truth_of(simulation, 1e4, 9)
        assert simulate.save_truth(told, tmp_path / "cells.parquet") == tmp_path / "cells.parquet.json"
        found = simulate.load_truth(tmp_path / "cells.parquet")
        assert found == json.loads(json.dumps(told))
        assert (found["sessions"], found["seed"], found["depth"], found["drawn"]) == (10_000, 9, 3, "counted")
        assert found["propensities"] == [1, 1 / 4, 1 / 9]
        assert found["attraction"] == {"relevant": [1, 1, 1], "irrelevant": [0.3, 0.3, 0.3]}
        assert found["model"] == {"name": "pbm", "eta": 2, "noise": 0.3}
        assert found["policy"] == {"name": "top"}
        assert found["relevance"] == {"relevant_from": 3, "relevant_rows": 3}
        assert found["production"] == {"kind": "column", "source": "f1"}
        assert found["data"]["name"] == "tiny"
        assert found["data"]["synthetic"] is False

    @every_world
    def test_every_world_can_be_told(self, world: dict[str, Any]) -> None:
        told = simulate.truth_of(Simulation(TINY, TINY_SCORES, **world), 10, 0, by_session=True)
        assert json.loads(json.dumps(told, allow_nan=False))["drawn"] == "by session"

    @pytest.mark.parametrize("policy", [TopK(), NeighbourSwaps(0.7)], ids=repr)
    def test_examination_of_a_cascade(self, policy: Any) -> None:
        """Every result of a page without stopping is clicked where it is examined, so clicks count examinations."""
        simulation = small_world(model=Cascade(noise=0.4), policy=policy, depth=4)
        told = simulate.truth_of(simulation, 10, 0)
        assert told["propensities"] is None
        table = simulation.draw(1e9)
        attraction = np.where(simulation.relevant[table.row], 1, 0.4)
        impressions, examined = (
            np.bincount(table.position, values)[1:] for values in (table.impressions, table.clicks / attraction)
        )
        np.testing.assert_allclose(told["examination"], examined / impressions, rtol=2e-3)

    def test_examination_is_unknown_where_pages_are_drawn(self) -> None:
        simulation = small_world(model=Cascade(), policy=PlackettLuce())
        assert simulate.truth_of(simulation, 10, 0)["examination"] is None

    def test_what_is_no_truth(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="there is no such file"):
            simulate.load_truth(tmp_path / "x")
        for damaged in ("{", "[" * 100_000, '{"seed": ' + "9" * 5000 + "}"):
            (tmp_path / "x.json").write_text(damaged)
            with pytest.raises(FormatError, match="not a JSON file"):
                simulate.load_truth(tmp_path / "x")
        (tmp_path / "x.json").write_text("{}")
        with pytest.raises(CldrankError, match="does not describe a simulation"):
            simulate.load_truth(tmp_path / "x")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"depth": 0}, "depth must be a whole number of at least 1 and up to 10000, not 0"),
        ({"depth": 2.5}, "depth must be a whole number"),
        ({"scores": [1, 2]}, r"production's scores have shape \(2,\) for 6 rows"),
        ({"scores": [1, 2, 3, 4, np.nan, 6]}, "production's score of row 4 is nan"),
        ({"relevant_from": "3"}, "relevant_from must be a number"),
        ({"policy": FirstSwaps(positions=(4,)), "depth": 3}, "position 4 cannot be swapped on pages of 3"),
        ({"model": TrustBiased(epsilon_minus=(0.1,)), "depth": 3}, "epsilon_minus has 1 entries for pages of 3"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CldrankError, match=complaint):
        Simulation(TINY, **{"scores": TINY_SCORES, **arguments})


@pytest.mark.parametrize(("sessions", "seed"), [(0, 0), (1.5, 0), (np.nan, 0), (-1, 0), (1e30, 0), (10, -1)])
def test_sessions_and_seeds_are_whole_numbers(sessions: Any, seed: Any) -> None:
    simulation = Simulation(TINY, TINY_SCORES)
    with pytest.raises(UsageError):
        simulation.draw(sessions, seed=seed)
    with pytest.raises(UsageError):
        simulation.sessions(sessions, seed=seed)
