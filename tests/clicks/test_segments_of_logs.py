"""Logs counted by segment, on DuckDB and on Spark: the same as each segment in a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_logs import COLUMNS, Row, cells, plainly

from cldrank import ClickTable
from cldrank.clicks.aggregate import aggregate
from cldrank.errors import DataError

Device = str | None
TYPES = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.int64())


def write(path: Path, rows: list[tuple[Device, Row]]) -> Path:
    columns = zip(zip(*(row for _, row in rows), strict=True), TYPES, strict=True)
    arrays = [pa.array(values, kind) for values, kind in columns]
    devices = pa.array([device for device, _ in rows], pa.string())
    pq.write_table(pa.table([*arrays, devices], names=[*COLUMNS, "device"]), path)
    return path


def expected_of(rows: list[tuple[Device, Row]]) -> tuple[dict[str, Any], int]:
    """The cells of each device, counted by itself, and how many rows are set aside in all."""
    parts: dict[str, list[Row]] = {}
    for device, row in rows:
        parts.setdefault(device or "(missing)", []).append(row)
    counted = {name: plainly(own) for name, own in parts.items()}
    rejected = sum(sum(lost.values()) for _, lost in counted.values())
    return {name: own for name, (own, _) in counted.items() if own}, rejected


class TestOnEachEngine:
    @pytest.mark.exhaustive
    @settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        rows=st.lists(
            st.tuples(
                st.sampled_from(["phone", "desktop", None, ""]),
                st.tuples(
                    st.sampled_from([1, 2, None]),
                    st.sampled_from(["q", "r"]),
                    st.sampled_from(["a", "b", None]),
                    st.sampled_from([1, 2, 41, 0]),
                    st.sampled_from([0, 1, 2]),
                ),
            ),
            min_size=1,
            max_size=30,
        )
    )
    def test_any_log(self, tmp_path_factory: pytest.TempPathFactory, engine: Any, rows: Any) -> None:
        path = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
        result = aggregate(path, engine=engine, max_rejected=1, first_position=1, columns={"segment": "device"})
        expected, rejected = expected_of(rows)
        assert {name: cells(part) for name, part in result.clicks.by_segment().items()} == expected
        assert result.account.n_rejected == rejected
        assert result.clicks.impressions.sum() + rejected == result.account.rows == len(rows)

    def test_a_page_is_of_one_segment(self, tmp_path: Path, engine: Any) -> None:
        """One session on two devices saw two pages; without segments, it would be one page that repeats itself."""
        rows: list[tuple[Device, Row]] = [("phone", (1, "q", "a", 1, 1)), ("desktop", (1, "q", "a", 2, 0))]
        path = write(tmp_path / "log.parquet", rows)
        split = aggregate(path, engine=engine, columns={"segment": "device"})
        assert split.account.rejected == {}
        assert split.clicks.query_impressions.tolist() == [2]
        assert aggregate(path, engine=engine, max_rejected=1).account.rejected == {"document twice": 1}

    def test_columns_that_hold_no_segments(self, tmp_path: Path, engine: Any) -> None:
        rows: list[tuple[Device, Row]] = [(f"{at}", (at, "q", "a", 1, 0)) for at in range(101)]
        path = write(tmp_path / "log.parquet", rows)
        with pytest.raises(DataError, match=r"more than 100 values"):
            aggregate(path, engine=engine, columns={"segment": "device"})
        assert aggregate(write(path, rows[:100]), engine=engine, columns={"segment": "device"}).clicks.n_segments == 100


def test_a_column_called_segment_counts_only_if_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", [("phone", (1, "q", "a", 1, 1))])
    pq.write_table(pq.read_table(path).rename_columns([*COLUMNS, "segment"]), path)
    assert not ClickTable.read(path).has_segments
    assert ClickTable.read(path, columns={"segment": "segment"}).segment_names == ("phone",)
    assert ClickTable.read(path, columns={"segment": "session_id"}).segment_names == ("1",)
