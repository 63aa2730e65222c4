"""Which rows count, and which are set aside, on DuckDB and on Spark: the same as in a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_logs import DEFECTS, VIEWED, Row, cells, contexts, plain_contexts, plainly, write, write_timed

from cldrank import RankingDataset
from cldrank.clicks import aggregate as counting
from cldrank.clicks.aggregate import aggregate

some_rows = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, None]),
        st.sampled_from(["q", "r", None]),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([1, 2, 3, 41, 0, None]),
        st.sampled_from([0, 1, 2, None]),
    ),
    min_size=1,
    max_size=25,
)


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
        assert contexts(result.clicks) == {
            ("q", "a", 1, 0): (3, 2), ("q", "b", 2, 0): (1, 1), ("q", "b", 2, 1): (2, 1), ("r", "a", 1, 0): (1, 0)
        }  # fmt: skip

    def test_pages_deeper_than_the_mask(self, tmp_path: Path, engine: Any) -> None:
        rows: list[Row] = [(1, "q", f"d{k}", k, k % 2) for k in range(1, 101)]
        result = aggregate(write(tmp_path / "log.parquet", rows), engine=engine)
        assert result.account.rejected == {}
        assert result.clicks.n_cells == 100

    @pytest.mark.exhaustive
    @settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(rows=some_rows)
    def test_any_log(self, tmp_path_factory: pytest.TempPathFactory, engine: Any, rows: list[Row]) -> None:
        path = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
        result = aggregate(path, engine=engine, max_rejected=1, first_position=1)
        expected, rejected = plainly(rows)
        assert cells(result.clicks) == expected
        assert contexts(result.clicks) == plain_contexts(rows)
        assert result.account.rejected == rejected
        assert result.clicks.impressions.sum() + result.account.n_rejected == result.account.rows == len(rows)

    def test_views_of_a_page_and_copies_of_rows(self, tmp_path: Path, engine: Any) -> None:
        path = write_timed(tmp_path / "log.parquet", VIEWED)
        result = aggregate(path, engine=engine, max_rejected=1)
        assert result.account.rejected == {"repeated row": 2, "second view": 3}
        assert cells(result.clicks) == {("q", "a", 1): (2, 1), ("q", "b", 2): (2, 1)}


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(rows=[(1, "q", "a", 1, 1), (1, "q", "a", 1, 1), (2, "q", "b", 1, 0)], at_a_time=1)
@given(rows=some_rows, at_a_time=st.sampled_from([100, 3]))
def test_by_hashes_as_by_grouping(tmp_path_factory: pytest.TempPathFactory, rows: list[Row], at_a_time: int) -> None:
    """Large logs are checked by hashes, in parts where there are many."""
    path = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_MANY_ROWS", 0)
        patch.setattr(counting, "_HASHES_AT_A_TIME", at_a_time)
        result = aggregate(path, max_rejected=1, first_position=1)
    expected, rejected = plainly(rows)
    assert cells(result.clicks) == expected
    assert result.account.rejected == rejected
