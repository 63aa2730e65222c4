"""Tables: the way in for features, logs, cells, scores and judgements, from files and frames, on DuckDB and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cldrank.arguments import check_choice
from cldrank.tables.columns import Role, quoted, resolve_columns
from cldrank.tables.engine import Engine, Relation
from cldrank.tables.frames import is_frame, is_spark_frame
from cldrank.tables.sources import Source, TableFile, named_paths, table_files

__all__ = [
    "Engine", "Relation", "Role", "TableFile", "connect", "is_frame", "named_paths", "open_table", "quoted",
    "resolve_columns", "table_files",
]  # fmt: skip


@contextmanager
def connect(
    engine: str | Engine = "duckdb",
    *,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    source: Any = None,
) -> Iterator[Engine]:
    """An engine by its name, or the engine itself, which then stays open.

    memory_limit   of DuckDB, which spills to disk beyond it, or of Spark's driver
    threads        of DuckDB; by default as many as there are cores
    master         where Spark runs
    source         what is to be opened: a Spark DataFrame is read where it lies, whatever the name says

    >>> with connect() as engine:
    ...     engine.rows("SELECT 1 + 1 AS two")
    [{'two': 2}]
    """
    from cldrank.tables.duckdb_engine import DuckDB

    if not isinstance(engine, Engine):
        check_choice("engine", engine, ("duckdb", "spark"))
        if is_spark_frame(source) or engine == "spark":
            from cldrank.tables.spark_engine import Spark, spark_session

            engine = Spark(source.sparkSession if is_spark_frame(source) else spark_session(master, memory_limit))
    if isinstance(engine, Engine):
        try:
            yield engine
        finally:
            engine.release()
        return
    with DuckDB.connected(memory_limit, threads) as database:
        yield database


@contextmanager
def open_table(source: Source | Any, engine: str | Engine = "duckdb", **options: Any) -> Iterator[Relation]:
    """The table in files, folders, patterns, a name of the catalogue or a frame; `options` are those of `connect`.

    >>> import pyarrow as pa
    >>> with open_table(pa.table({"query_id": [7, 7, 8]})) as table:
    ...     table.engine.rows(f"SELECT count(DISTINCT query_id) AS queries FROM {table}")
    [{'queries': 2}]
    """
    with connect(engine, source=source, **options) as opened:
        yield opened.open(source)
