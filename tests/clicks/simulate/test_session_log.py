from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from simulated_worlds import TINY, TINY_SCORES, small_world

from cldrank import ClickTable
from cldrank.clicks.simulate import FirstSwaps, NeighbourSwaps, ShuffledShare, Simulation
from cldrank.clicks.simulate.simulation import BLOCK
from cldrank.errors import CldrankError


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
        pages: dict[int, list[Any]] = {}
        for row in log.to_pylist():
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

    @pytest.mark.parametrize("policy", [NeighbourSwaps(0.6), ShuffledShare(0.3), ShuffledShare(0.3, "candidates")])
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

    def test_a_failure_leaves_nothing_behind(self, tmp_path: Path) -> None:
        def fail(done: int) -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            Simulation(TINY, TINY_SCORES).save_log(tmp_path / "log.parquet", 10, progress=fail)
        assert not list(tmp_path.iterdir())
        with pytest.raises(CldrankError, match="does not exist"):
            Simulation(TINY, TINY_SCORES).save_log(tmp_path / "no" / "log.parquet", 10)

    def test_threads_do_not_change_a_log(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        simulation = Simulation(TINY, TINY_SCORES, policy=ShuffledShare(0.5, shuffle="candidates"))
        for threads in (1, 3):
            monkeypatch.setattr("cldrank.clicks.simulate.simulation._DRAWERS", threads)
            simulation.save_log(tmp_path / f"{threads}.parquet", 5 * BLOCK + 5, seed=3)
        assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "3.parquet").read_bytes()
