"""Logs as frames: the same cells as from a file, wherever the frame lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.auditing import audit
from cldrank.clicks.aggregate import aggregate
from cldrank.errors import CldrankWarning, DataError, FormatError, UsageError
from cldrank.propensity import logged_probability
from cldrank.tables.frames import arrow_table

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
duckdb: Any = pytest.importorskip("duckdb")


def sessions(n: int = 60) -> dict[str, Any]:
    random = np.random.default_rng(0)
    rows = [(s, s % 3, f"d{(s + at) % 4}", at + 1) for s in range(n) for at in range(3)]
    session, query, document, position = zip(*rows, strict=True)
    return {
        "session": list(session),
        "query_id": list(query),
        "doc_id": list(document),
        "position": list(position),
        "clicked": (random.random(len(rows)) < 0.4).tolist(),
        "device": ["phone" if s % 2 else "desktop" for s in session],
        "propensity": [0.25] * len(rows),
        "junk": [None] * len(rows),
    }


COLUMNS = {"session_id": "session"}
MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.table,
    "chunks": lambda columns: pa.concat_tables([pa.table(columns).slice(0, 7), pa.table(columns).slice(7)]),
    "batch": pa.record_batch,
    "duckdb": lambda columns: duckdb.from_arrow(pa.table(columns)),
}
every_frame = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def same_cells(one: cr.ClickTable, two: cr.ClickTable) -> bool:
    arrays = ("row", "position", "impressions", "clicks")
    same = [np.array_equal(getattr(one, name), getattr(two, name)) for name in arrays]
    return repr(one) == repr(two) and all(same) and one.candidates.equals(two.candidates)


@pytest.fixture
def from_file(tmp_path: Path) -> cr.ClickTable:
    pq.write_table(pa.table(sessions()), tmp_path / "log.parquet")
    return cr.ClickTable.read(tmp_path / "log.parquet", columns=COLUMNS)


@every_frame
def test_the_cells_are_those_of_the_file(make: Any, from_file: cr.ClickTable) -> None:
    assert same_cells(cr.ClickTable.read(make(sessions()), columns=COLUMNS), from_file)


@every_frame
def test_all_that_reads_logs_reads_frames(make: Any, from_file: cr.ClickTable) -> None:
    frame = make(sessions())
    parts = aggregate(frame, segment="device", columns=COLUMNS).clicks
    assert parts.segment_names == ("desktop", "phone")
    assert parts.impressions.sum() == from_file.impressions.sum()
    facts = audit(frame, columns=COLUMNS).facts
    assert facts.impressions == 180
    assert facts.source.startswith("the ")
    chance = logged_probability(frame, from_file, columns=COLUMNS)
    np.testing.assert_allclose(chance, 0.25)


def test_columns_that_nobody_asked_for_are_not_converted() -> None:
    frame = pd.DataFrame(sessions()).assign(junk=[[1], "x", 3] * 60)  # Arrow cannot hold these
    assert cr.ClickTable.read(frame, columns=COLUMNS).impressions.sum() == 180


def test_of_a_lazy_frame_only_what_is_wanted_is_computed() -> None:
    def fail(values: Any) -> Any:
        raise AssertionError("nobody asked for this column")

    frame = pl.LazyFrame(sessions()).with_columns(pl.col("device").map_batches(fail, return_dtype=pl.String))
    assert cr.ClickTable.read(frame, columns=COLUMNS).impressions.sum() == 180


def test_an_index_is_not_a_column() -> None:
    frame = pd.DataFrame(sessions()).set_index("session")
    with pytest.raises(FormatError, match="the pandas DataFrame: there is no column 'session'"):
        cr.ClickTable.read(frame, columns=COLUMNS)


def test_duckdb_scans_arrow_memory_where_it_lies() -> None:
    """What is registered is the table itself: its buffers are those of the frame."""
    table = pa.table(sessions())
    seen = arrow_table(table, ["position", "clicked"])
    for name in seen.column_names:
        mine, theirs = (one[name].chunk(0).buffers()[1].address for one in (seen, table))
        assert mine == theirs
    numbers = pl.DataFrame({"position": np.arange(5)})
    mine = arrow_table(numbers, ["position"])["position"].chunk(0).buffers()[1].address
    assert mine == numbers["position"].to_numpy().__array_interface__["data"][0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": ["first"] * 180}, "100.0% of 180 rows had to be set aside"),
        ({"doc_id": pd.Categorical(["a", "b", "c"] * 60)}, None),
        ({"query_id": pd.array([1, 2, None] * 60, dtype="Int64")}, "33.3% of 180 rows"),
        ({"clicked": [1.5] * 180}, "100.0% of 180 rows"),
    ],
)
def test_odd_columns(changes: dict[str, Any], message: str | None) -> None:
    frame = pd.DataFrame({**sessions(), **changes})
    if message is None:
        assert set(aggregate(frame, columns=COLUMNS).clicks.candidates.doc_ids) == {"a", "b", "c"}
        return
    with pytest.raises(Exception, match=message):
        aggregate(frame, columns=COLUMNS)


def test_an_empty_log() -> None:
    with pytest.raises(DataError, match="the pyarrow Table: the log is empty"):
        cr.ClickTable.read(pa.table(sessions()).slice(0, 0), columns=COLUMNS)


def test_names_that_appear_twice() -> None:
    frame = pd.DataFrame(sessions())
    frame.columns = [*frame.columns[:-1], "position"]
    with pytest.raises(FormatError, match="column 'position' appears more than once"):
        cr.ClickTable.read(frame, columns=COLUMNS)


def test_what_was_set_aside_is_said() -> None:
    twice = {name: [*values, *values[:3]] for name, values in sessions().items()}
    with pytest.warns(CldrankWarning, match="of the log, 183 rows read, 3 set aside"):
        cr.ClickTable.read(pd.DataFrame(twice), columns=COLUMNS)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_cells_in_a_frame(make: Any, from_file: cr.ClickTable, tmp_path: Path) -> None:
    from_file.save(tmp_path / "cells.parquet")
    cells = make(pq.read_table(tmp_path / "cells.parquet").to_pydict())
    assert same_cells(cr.ClickTable.read(cells), from_file)
    assert audit(cells).facts.clicks == from_file.clicks.sum()
    with pytest.raises(UsageError, match="holds cells already"):
        cr.ClickTable.read(cells, columns=COLUMNS)
    with pytest.raises(UsageError, match="holds cells already"):
        aggregate(cells)


def test_spark_counts_its_own_frames(from_file: cr.ClickTable, engine: Any) -> None:
    """A Spark DataFrame is counted by Spark, other frames on any engine."""
    assert same_cells(cr.ClickTable.read(pa.table(sessions()), columns=COLUMNS, engine=engine), from_file)
    if getattr(engine, "name", "") != "pyspark":
        return
    frame = engine._session.createDataFrame(pd.DataFrame(sessions()).drop(columns="junk"))
    assert same_cells(cr.ClickTable.read(frame, columns=COLUMNS), from_file)
