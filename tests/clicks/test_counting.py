"""Which rows count, and which are set aside, on DuckDB and on Spark: the same as in a plain loop."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_logs import CLEAN, DEFECTS, VIEWED, Row, cells, plainly, write, write_timed

from cldrank import RankingDataset
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.counting import Counted, by_view, count_cells, count_row, one_row
from cldrank.clicks.log import connected, open_log
from cldrank.clicks.log.engines import in_duckdb, memory_bytes, repeats
from cldrank.clicks.log.roles import KEYS
from cldrank.errors import UsageError


class TestOnEachEngine:
    def test_every_kind_of_defect(self, tmp_path: Path, engine: Any) -> None:
        data = RankingDataset.from_arrays(np.eye(4), ["q", "q", "q", "r"], doc_ids=["a", "b", "c", "a"])
        result = aggregate(write(tmp_path / "log.parquet", DEFECTS), data, engine=engine, max_rejected=1)
        assert cells(result.clicks) == {("q", "a", 1): (3, 2), ("q", "b", 2): (3, 2), ("r", "a", 1): (1, 0)}
        assert result.account.rejected == {
            "null key": 4,
            "position below 1": 1,
            "click never shown": 2,
            "second view": 1,
            "document twice": 1,
            "unknown query": 1,
            "unknown document": 1,
        }
        assert result.account.rows == len(DEFECTS)
        assert result.clicks.impressions.sum() + result.account.n_rejected == len(DEFECTS)  # nothing is lost
        assert set(result.rejects.column_names) >= {"reason", "session_id", "query_id", "doc_id", "position", "rows"}
        assert sum(result.rejects["rows"].to_pylist()) == result.account.n_rejected
        result.clicks.check_same(data)
        assert result.clicks.shown.tolist() == [True, True, False, True]

    def test_every_click_counts_on_request(self, tmp_path: Path, engine: Any) -> None:
        rows: list[Row] = [(1, "q", "a", 1, 3), (1, "q", "a", 1, 2), (2, "q", "a", 1, 0)]
        path = write(tmp_path / "log.parquet", rows)
        once = aggregate(path, engine=engine, max_rejected=1)
        each = aggregate(path, engine=engine, max_rejected=1, every_click=True)
        assert cells(once.clicks) == {("q", "a", 1): (2, 1)}
        assert cells(each.clicks) == {("q", "a", 1): (2, 5)}

    def test_pages_deeper_than_the_mask(self, tmp_path: Path, engine: Any) -> None:
        rows: list[Row] = [(1, "q", f"d{k}", k, k % 2) for k in range(1, 101)]
        result = aggregate(write(tmp_path / "log.parquet", rows), engine=engine)
        assert result.account.rejected == {}
        assert result.clicks.n_cells == 100

    @settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        rows=st.lists(
            st.tuples(
                st.sampled_from([1, 2, 3, None]),
                st.sampled_from(["q", "r", None]),
                st.sampled_from(["a", "b", "c", None]),
                st.sampled_from([1, 2, 3, 41, 0, None]),
                st.sampled_from([0, 1, 2, None]),
            ),
            min_size=1,
            max_size=25,
        ),
        every_click=st.booleans(),
    )
    def test_any_log(
        self, tmp_path_factory: pytest.TempPathFactory, engine: Any, rows: list[Row], every_click: bool
    ) -> None:
        path = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
        result = aggregate(path, engine=engine, max_rejected=1, every_click=every_click, first_position=1)
        expected, rejected = plainly(rows, every_click)
        assert cells(result.clicks) == expected
        assert result.account.rejected == rejected
        assert result.clicks.impressions.sum() + result.account.n_rejected == result.account.rows == len(rows)

    def test_views_of_a_page_and_copies_of_rows(self, tmp_path: Path, engine: Any) -> None:
        path = write_timed(tmp_path / "log.parquet", VIEWED)
        result = aggregate(path, engine=engine, max_rejected=1)
        assert result.account.rejected == {"repeated row": 2, "second view": 3}
        assert cells(result.clicks) == {("q", "a", 1): (2, 1), ("q", "b", 2): (2, 1)}
        each = aggregate(path, engine=engine, max_rejected=1, by_time=True)
        assert each.account.rejected == {"repeated row": 2}
        assert cells(each.clicks) == {("q", "a", 1): (3, 1), ("q", "b", 2): (3, 1), ("q", "a", 2): (1, 0)}


class TestByHashes:
    @settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        rows=st.lists(
            st.tuples(
                st.sampled_from([1, 2, 3, 4, None]),
                st.sampled_from(["q", "r", None]),
                st.sampled_from(["a", "b", "c", "d", None]),
                st.sampled_from([1, 2, 3, 41, 0, None]),
                st.sampled_from([0, 1, 2, None]),
            ),
            min_size=1,
            max_size=25,
        ),
        hashed=st.sampled_from([None, "7", "a % 2"]),
    )
    def test_by_hashes_as_by_grouping(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[Row], hashed: str | None
    ) -> None:
        """Large logs are checked by hashes. Hashes that collide make more pages suspect, and change nothing else."""
        path = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
        with pytest.MonkeyPatch.context() as patch, connected("duckdb") as engine:
            patch.setattr(in_duckdb, "_MANY_ROWS", 0)
            if hashed:
                engine.connection.raw_sql(f"CREATE TEMP MACRO hash(a, b, c) AS ({hashed})::UBIGINT")
            result = aggregate(path, engine=engine, max_rejected=1, first_position=1)
        expected, rejected = plainly(rows, every_click=False)
        assert cells(result.clicks) == expected
        assert result.account.rejected == rejected

    @pytest.mark.parametrize("limit", ["3GB", "700B"])
    def test_hashes_are_kept_in_parts_if_memory_is_short(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
    ) -> None:
        monkeypatch.setattr(in_duckdb, "_MANY_ROWS", 0)
        monkeypatch.setattr(in_duckdb.DuckDB, "_limits", lambda _: (memory_bytes(limit), 2))
        rows: list[Row] = [(s, "q", f"d{d}", d + 1, 0) for s in range(40) for d in range(7)]
        rows += [(3, "q", "d3", 9, 1), (None, "q", "d3", 1, 1), (9, "q", "d5", 6, 1)]
        path = write(tmp_path / "log.parquet", rows)
        with connected("duckdb") as engine:
            found = engine.repeated(open_log(path, engine).rows, KEYS, len(rows))
            assert found is not None
            doubtful, lacking = found
            assert lacking == 1
            named = sorted(tuple(row.values()) for row in doubtful.to_pyarrow().to_pylist())
            assert named == [(3, "q", "d3"), (9, "q", "d5")]
        rejected = aggregate(path, max_rejected=1).account.rejected
        assert rejected == {"null key": 1, "second view": 1, "document twice": 1}

    def test_the_hashes_of_a_part_have_room_from_the_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An array that grows lies in memory twice."""
        rooms: list[int] = []
        room_for = repeats._room_for

        def noted(n: int) -> Any:
            rooms.append(n)
            return room_for(n)

        monkeypatch.setattr(repeats, "_room_for", noted)
        monkeypatch.setattr(in_duckdb, "_MANY_ROWS", 0)
        monkeypatch.setattr(in_duckdb.DuckDB, "_limits", lambda _: (16 * 700, 2))
        path = write(tmp_path / "log.parquet", [(s, "q", f"d{d}", d + 1, 0) for s in range(700) for d in range(5)])
        with connected("duckdb") as engine:
            assert engine.repeated(open_log(path, engine).rows, KEYS, 3500) is not None
        assert len(rooms) == 5
        assert all(700 < room < 1000 for room in rooms)

    def test_few_rows_are_grouped(self, tmp_path: Path) -> None:
        with connected("duckdb") as engine:
            assert engine.repeated(open_log(write(tmp_path / "log.parquet", CLEAN), engine).rows, KEYS, 5) is None

    def test_segments_are_pages_of_their_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(in_duckdb, "_MANY_ROWS", 0)
        rows = [
            {"session_id": 1, "query_id": "q", "doc_id": "a", "position": 1, "clicked": 0, "device": d} for d in "xyy"
        ]
        path = tmp_path / "log.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        result = aggregate(path, segment="device", max_rejected=1)
        assert result.account.rejected == {"repeated row": 1}
        assert result.clicks.impressions.tolist() == [1, 1]


class TestViewsWithoutTimes:
    def test_rows_alike_are_copies(self, tmp_path: Path) -> None:
        result = aggregate(write(tmp_path / "log.parquet", [*CLEAN, *CLEAN[:2]]), max_rejected=1)
        assert result.account.rejected == {"repeated row": 2}

    def test_other_clicks_are_a_second_view(self, tmp_path: Path) -> None:
        rows: list[Row] = [*CLEAN, (1, "q", "a", 1, 1), (1, "q", "b", 2, 1)]
        result = aggregate(write(tmp_path / "log.parquet", rows), max_rejected=1)
        assert result.account.rejected == {"second view": 2}  # b too: it was on the page that was seen twice
        assert "other clicks" in str(result.account)

    def test_times_are_needed_to_tell_views_apart(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="the log has no timestamp"):
            aggregate(write(tmp_path / "log.parquet", CLEAN), by_time=True)

    def test_copies_do_not_add_clicks(self, tmp_path: Path) -> None:
        path = write_timed(tmp_path / "log.parquet", [(1, "a", 1, 3, 10), (1, "a", 1, 3, 10), (1, "a", 1, 2, 11)])
        result = aggregate(path, max_rejected=1, every_click=True)
        assert cells(result.clicks) == {("q", "a", 1): (1, 5)}


class TestCounted:
    def count(self, path: Path, every_click: bool = False) -> Counted:
        with connected("duckdb") as engine, ExitStack() as held:
            return count_cells(open_log(path, engine), engine, every_click, held)

    def test_cells_rows_and_rejects(self, tmp_path: Path) -> None:
        counted = self.count(write(tmp_path / "log.parquet", DEFECTS))
        assert counted.rows == len(DEFECTS)
        set_aside = sum(len(part) for part in counted.rejects)
        assert sum(counted.cells["impressions"].to_pylist()) + set_aside == len(DEFECTS)
        assert counted.top == (1, 10, 3)
        assert counted.from_0 == 1  # session 4
        assert min(counted.cells["impressions"].to_pylist()) > 0

    def test_pages_that_begin_at_0(self, tmp_path: Path) -> None:
        rows: list[Row] = [(s, "q", d, k, 0) for s in range(3) for k, d in enumerate("ab")]
        counted = self.count(write(tmp_path / "log.parquet", [*rows, (9, "q", "a", 0, 0)]))
        assert counted.top == (4, 3, 0)
        assert counted.from_0 == 3

    def test_many_moving_documents_are_grouped_by_document(self, tmp_path: Path) -> None:
        """More documents move than there are bits for; one page shows one of them twice."""
        rows: list[Row] = [(s, "q", f"d{d:03}", 1 + (d + s) % 300, 0) for s in range(2) for d in range(300)]
        rows.append((0, "q", "d010", 400, 1))
        counted = self.count(write(tmp_path / "log.parquet", rows))
        assert counted.rows == 601
        assert [part["reason"].to_pylist() for part in counted.rejects] == [["document twice"]]

    def test_one_session_per_view(self, tmp_path: Path) -> None:
        with connected("duckdb") as engine:
            log = by_view(open_log(write_timed(tmp_path / "log.parquet", VIEWED), engine))
            sessions = set(log.rows.session_id.to_pyarrow().to_pylist())
        times = ((1, 10), (1, 20), (1, 30), (2, 10))
        assert sessions == {f"{session}@2024-07-01 00:00:{second}+00" for session, second in times}

    def test_small_results(self) -> None:
        import ibis

        table = ibis.memtable({"a": [1, 2], "b": [None, None]}, schema={"a": "int64", "b": "int64"})
        totals = table.aggregate(a=table.a.sum(), b=table.b.sum())
        assert one_row(totals) == {"a": 3, "b": None}
        assert count_row(totals) == {"a": 3, "b": 0}
