"""One layer for tables? The counting of cells in narwhals and in Ibis, on every engine, and what narwhals cannot say.

    python benchmarks/table_layer.py --rows 1e6 1e7          # figures
    python benchmarks/table_layer.py --gaps                  # each operation that logs need, tried on each engine

A log is grouped into cells, its pages are checked for repeated positions, and its moving documents are found: the three
passes of `clicks/counting.py`. All engines must find the same; ratios are to Ibis on the same engine, in one run.

The finding, with narwhals 2.28, Ibis 12.0, DuckDB 2.0, Polars 2.1 and Spark 4.3: Ibis stays, for what is missing.

- Speed would not decide it. 10⁶ rows on DuckDB took 1.67 times as long in narwhals as in Ibis, but Ibis without its bit
  masks took 1.62 times as long: that is the price of counting distinct positions, not of the layer. Polars (1.46),
  Arrow (1.74) and pandas (0.74) in memory are near.
- What logs need and narwhals does not have on DuckDB and Spark: a cast that gives null for what it cannot read (a
  guard by a regular expression works in simple cases); the place of an entry in a list that is unnested; bit_or,
  bit_count and shifts; whether a list contains the value of another column; groups of a regular expression; results
  kept in the engine between queries; on Spark also the epoch of a timestamp, which on DuckDB a difference replaces.
- What it has, although it takes finding: a number per row over an order (`cum_count().over(…, order_by=…)`), and a rank
  over several columns (`struct(…).rank("min").over(…)`), on DuckDB, Spark and Polars. On Arrow tables neither works.

Each gap may have a detour (not tried: `list.get` for each position of a page in place of an offset), but all together
they would make the queries longer and slower than they are. So a frame becomes Arrow columns, which DuckDB scans where
they lie, and all queries stay in one language.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.clicks.counting import bit_count, bit_or
from cldrank.clicks.log.engines import connected

LOG = """
COPY (
    SELECT i // 10 AS session_id, hash(i // 10, 1) % ({rows} // 500 + 1) AS query_id,
        (i % 10 + 3 * (hash(i // 10, 3) % 4))::BIGINT AS doc_id, (i % 10 + 1)::BIGINT AS position,
        (hash(i, 2) % 10 = 0)::BIGINT AS clicks
    FROM range({rows}) t(i)
) TO '{path}' (FORMAT parquet)
"""
CELL = ("query_id", "doc_id", "position")
PAGE = ("session_id", "query_id")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Found = tuple[int, int, int, int, int]  # cells, impressions, clicks, suspect pages, moving documents


# -- narwhals ---------------------------------------------------------------------------------------------------------


def in_narwhals(rows: Any) -> Found:
    """The three passes as narwhals can say them; distinct positions are counted, where Ibis sets bits."""
    cells = rows.group_by(*CELL).agg(impressions=nw.len(), clicks=nw.col("clicks").sum())
    pages = rows.group_by(*PAGE).agg(size=nw.len(), places=nw.col("position").n_unique())
    documents = cells.group_by("query_id", "doc_id").agg(positions=nw.len())
    sums = cells.select(n=nw.len(), impressions=nw.col("impressions").sum(), clicks=nw.col("clicks").sum())
    suspect = pages.filter(nw.col("size") != nw.col("places")).select(n=nw.len())
    moving = documents.filter(nw.col("positions") > 1).select(n=nw.len())
    return (*_row(sums), *_row(suspect), *_row(moving))  # type: ignore[return-value]


def _row(frame: Any) -> tuple[int, ...]:
    return tuple(map(int, (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).rows()[0]))


# -- Ibis -------------------------------------------------------------------------------------------------------------


def in_ibis(rows: Any, *, bits: bool = True) -> Found:
    """The same as `clicks/counting.py` has it."""
    cells = rows.group_by(CELL).aggregate(impressions=rows.count(), clicks=rows.clicks.sum())
    one = ibis.literal(1, "int64")
    places = bit_or(one << (rows.position % 62)) if bits else rows.position.nunique()
    pages = rows.group_by(PAGE).aggregate(size=rows.count(), places=places)
    found = bit_count(pages.places) if bits else pages.places
    documents = cells.group_by("query_id", "doc_id").aggregate(positions=cells.count())
    sums = cells.aggregate(n=cells.count(), impressions=cells.impressions.sum(), clicks=cells.clicks.sum())
    suspect = pages.filter(found != pages["size"]).aggregate(n=lambda table: table.count())
    moving = documents.filter(documents.positions > 1).aggregate(n=lambda table: table.count())
    values = [value for part in (sums, suspect, moving) for value in part.to_pyarrow().to_pylist()[0].values()]
    return tuple(map(int, values))  # type: ignore[return-value]


# -- engines ----------------------------------------------------------------------------------------------------------


@contextmanager
def engines(path: Path, spark: bool) -> Iterator[dict[str, Callable[[], Found]]]:
    """What counts the log, by name."""
    import pandas as pd
    import polars as pl

    duck = duckdb.connect(config={"memory_limit": "3GB"})
    duck.execute("SET enable_progress_bar = false")
    table = pq.read_table(path)
    frame = table.to_pandas()
    with connected("duckdb") as engine:
        log = engine.connection.read_parquet(str(path))
        found: dict[str, Callable[[], Found]] = {
            "Ibis, DuckDB": lambda: in_ibis(log),
            "Ibis without bits, DuckDB": lambda: in_ibis(log, bits=False),
            "narwhals, DuckDB": lambda: in_narwhals(nw.from_native(duck.read_parquet(str(path)))),
            "narwhals, DuckDB on Arrow": lambda: in_narwhals(nw.from_native(duck.from_arrow(table))),
            "narwhals, Polars lazy": lambda: in_narwhals(nw.from_native(pl.scan_parquet(path))),
            "narwhals, Arrow": lambda: in_narwhals(nw.from_native(table)),
            "narwhals, pandas": lambda: in_narwhals(nw.from_native(pd.DataFrame(frame))),
        }
        if not spark:
            yield found
            return
        with connected("spark") as other:
            session = other.connection._session
            rows = other.connection.read_parquet(str(path))
            yield found | {
                "Ibis, Spark": lambda: in_ibis(rows),
                "narwhals, Spark": lambda: in_narwhals(nw.from_native(session.read.parquet(str(path)))),
            }


def figures(rows: int, repeats: int, spark: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        duckdb.connect().execute(LOG.format(path=path, rows=rows))
        with engines(path, spark) as counting:
            results: dict[str, tuple[float, Found]] = {}
            for _ in range(repeats):  # in turn, so that a busy moment hits all alike
                for name, count in counting.items():
                    seconds, found = _timed(count)
                    results[name] = min(seconds, results.get(name, (seconds,))[0]), found
    expected = results["Ibis, DuckDB"][1]
    for name, (seconds, found) in results.items():
        assert found == expected, (name, found, expected)  # of the last turn
        own = "Ibis, Spark" if name.endswith("Spark") else "Ibis, DuckDB"
        ratio = seconds / results[own][0]
        record = {"benchmark": "table_layer", "rows": rows, "cells": found[0], "layer": name}
        print(json.dumps({**record, "seconds": round(seconds, 3), "ratio": round(ratio, 2)}), flush=True)


def _timed(count: Callable[[], Found]) -> tuple[float, Found]:
    start = time.perf_counter()
    found = count()
    return time.perf_counter() - start, found


# -- what is missing --------------------------------------------------------------------------------------------------

SAMPLE = {
    "q": [1, 1, 2],
    "d": [3, 2, 1],
    "text": ["1", "x", ""],
    "items": [["b", "a"], ["c"], []],
    "inside": [{"id": 1}, {"id": 2}, {"id": 3}],
    "moment": pa.array([0, 10**6, 2 * 10**6], pa.timestamp("us", "UTC")),
}

api: Any = nw  # what it does not have is to be found out

# by what needs it: a frame of SAMPLE in, the values that it should give out (None: any)
NEEDS: dict[str, tuple[Callable[[Any], Any], list[Any] | None]] = {
    "try_cast of text (schema, drift)": (
        lambda t: t.select(api.col("text").cast(api.Float64)),
        [1.0, None, None],
    ),
    "try_cast, by a guard in its place": (
        lambda t: t.select(
            api.when(api.col("text").str.contains("^[0-9]+$")).then(api.col("text")).otherwise(None).cast(api.Float64)
        ),
        [1.0, None, None],
    ),
    "unnest with an offset (schema)": (  # there is no offset: the nearest is to number by value
        lambda t: (
            t.select("d", "items")
            .explode("items")
            .with_columns(place=api.col("d").cum_count().over("d", order_by="items"))
            .filter(api.col("items") == "b")
            .select("place")
        ),
        [1],
    ),
    "unnest (schema)": (
        lambda t: t.select("q", "items").explode("items").select("items"),
        ["b", "a", "c", None],
    ),
    "row_number over an order (counting)": (
        lambda t: t.select(api.col("d").cum_count().over("q", order_by="d")),
        [2, 1, 1],
    ),
    "rank over another column's order (counting)": (
        lambda t: t.select(api.col("d").rank("min").over("q", order_by="d")),
        [2, 1, 1],
    ),
    "rank over the order of several columns (counting)": (
        lambda t: t.select(api.struct("d", "text").rank("min").over("q")),
        [2, 1, 1],
    ),
    "minimum over a window (counting)": (lambda t: t.select(api.col("d").min().over("q")), [2, 2, 1]),
    "bit_or of a group (counting)": (lambda t: t.group_by("q").agg(api.col("d").bit_or()), None),
    "bit_count (counting)": (lambda t: t.select(api.col("d").bit_count()), [2, 1, 1]),
    "shift of bits (counting)": (lambda t: t.select(api.col("d") << 1), None),
    "count where (counting, audit)": (lambda t: t.select((api.col("d") > 1).cast(api.Int64).sum()), [2]),
    "cases (counting)": (
        lambda t: t.select(api.when(api.col("d") > 1).then(api.lit("a")).otherwise(api.lit("b"))),
        None,
    ),
    "semi join (counting)": (lambda t: t.select("q").join(t.select("q"), on="q", how="semi"), [1, 1, 2]),
    "epoch of a timestamp (drift)": (lambda t: t.select(api.col("moment").dt.timestamp("us")), [0, 10**6, 2 * 10**6]),
    "epoch, by a difference in its place": (
        lambda t: t.select((api.col("moment") - api.lit(EPOCH)).dt.total_seconds()),
        [0, 1, 2],
    ),
    "list contains a value (schema)": (lambda t: t.select(api.col("items").list.contains("a")), [True, False, False]),
    "list contains another column (schema)": (
        lambda t: t.select(api.col("items").list.contains(api.col("text"))),
        [False, False, False],
    ),
    "length of a list (schema)": (lambda t: t.select(api.col("items").list.len()), [2, 1, 0]),
    "field of a struct (schema)": (lambda t: t.select(api.col("inside").struct.field("id")), [1, 2, 3]),
    "regular expression: search (drift)": (lambda t: t.select(api.col("text").str.contains("[0-9]")), None),
    "regular expression: replace (drift)": (lambda t: t.select(api.col("text").str.replace_all("[0-9]", "n")), None),
    "regular expression: extract (drift)": (lambda t: t.select(api.col("text").str.extract("([0-9])")), None),
    "keep a result in the engine (counting)": (lambda t: t.select("q").cache(), None),
    "quantile (audit)": (lambda t: t.select(api.col("d").quantile(0.5, "linear")), [2.0]),
    "distinct count of a group (audit)": (lambda t: t.group_by("q").agg(api.col("d").n_unique()), None),
}


def gaps(spark: bool) -> None:
    import pandas as pd
    import polars as pl

    table = pa.table(SAMPLE)
    duck = duckdb.connect()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.parquet"
        pq.write_table(table, path)
        makers: dict[str, Callable[[], Any]] = {
            "DuckDB": lambda: duck.from_arrow(table),
            "Polars lazy": lambda: pl.from_arrow(table).lazy(),
            "Arrow": lambda: table,
            "pandas": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        }
        with connected("spark") if spark else connected("duckdb") as engine:
            if spark:
                makers["Spark"] = lambda: engine.connection._session.read.parquet(str(path))
            for need, (say, expected) in NEEDS.items():
                answers = {name: _tried(say, make, expected) for name, make in makers.items()}
                print(json.dumps({"needs": need, **answers}, ensure_ascii=False), flush=True)


def _tried(say: Callable[[Any], Any], make: Callable[[], Any], expected: list[Any] | None) -> str:
    """Whether that worked, or what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = say(nw.from_native(make()))
            found = found.collect() if isinstance(found, nw.LazyFrame) else found
            values = found.to_arrow().column(0).to_pylist()
    except Exception as error:
        return (
            f"{type(error).__name__}: {str(error).strip().splitlines()[0][:110]}"
            if str(error)
            else type(error).__name__
        )
    if expected is not None and sorted(map(_comparable, values)) != sorted(map(_comparable, expected)):
        return f"wrong: {values}"
    return "yes"


def _comparable(value: Any) -> str:
    return str(float(value)) if isinstance(value, int | float | Decimal) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--gaps", action="store_true")
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", str(os.cpu_count()))
    if arguments.gaps:
        gaps(arguments.spark)
        return
    for rows in map(int, arguments.rows):
        figures(rows, arguments.repeats, arguments.spark)


if __name__ == "__main__":
    main()
