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
from cldrank.propensity import logged_probability

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


def same_cells(first: cr.ClickTable, second: cr.ClickTable) -> bool:
    arrays = ("row", "position", "impressions", "clicks")
    same = [np.array_equal(getattr(first, name), getattr(second, name)) for name in arrays]
    return repr(first) == repr(second) and all(same) and first.candidates.equals(second.candidates)


@pytest.fixture
def from_file(tmp_path: Path) -> cr.ClickTable:
    pq.write_table(pa.table(sessions()), tmp_path / "log.parquet")
    return cr.ClickTable.read(tmp_path / "log.parquet", columns=COLUMNS)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_cells_are_those_of_the_file(make: Any, from_file: cr.ClickTable) -> None:
    assert same_cells(cr.ClickTable.read(make(sessions()), columns=COLUMNS), from_file)


def test_all_that_reads_logs_reads_frames(from_file: cr.ClickTable) -> None:
    frame = pl.LazyFrame(sessions())
    parts = aggregate(frame, columns={**COLUMNS, "segment": "device"}).clicks
    assert parts.segment_names == ("desktop", "phone")
    assert parts.impressions.sum() == from_file.impressions.sum()
    facts = audit(frame, columns=COLUMNS).facts
    assert facts.impressions == 180
    assert facts.source.startswith("the ")
    chance = logged_probability(frame, from_file, columns=COLUMNS)
    np.testing.assert_allclose(chance, 0.25)


def test_of_a_lazy_frame_only_what_is_wanted_is_computed() -> None:
    def fail(values: Any) -> Any:
        raise AssertionError("nobody asked for this column")

    frame = pl.LazyFrame(sessions()).with_columns(pl.col("device").map_batches(fail, return_dtype=pl.String))
    assert cr.ClickTable.read(frame, columns=COLUMNS).impressions.sum() == 180


def test_spark_counts_its_own_frames(from_file: cr.ClickTable, engine: Any) -> None:
    """A Spark DataFrame is counted by Spark, other frames on any engine."""
    assert same_cells(cr.ClickTable.read(pa.table(sessions()), columns=COLUMNS, engine=engine), from_file)
    if getattr(engine, "name", "") != "pyspark":
        return
    frame = engine._session.createDataFrame(pd.DataFrame(sessions()).drop(columns="junk"))
    assert same_cells(cr.ClickTable.read(frame, columns=COLUMNS), from_file)
