"""`connected`: an engine by name, or over a connection that the user has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cldrank.arguments import check_choice
from cldrank.clicks.log.engines.engine import Engine
from cldrank.clicks.log.engines.in_backend import Backend
from cldrank.clicks.log.engines.in_duckdb import DuckDB, duckdb_connection
from cldrank.clicks.log.engines.in_spark import Spark
from cldrank.clicks.log.engines.limits import explaining, memory_bytes
from cldrank.clicks.log.engines.starting_spark import spark_session
from cldrank.clicks.log.paths import LogFrame, LogSource
from cldrank.errors import UsageError
from cldrank.files import scratch


@contextmanager
def connected(
    engine: str | Any = "duckdb",
    *,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
) -> Iterator[Engine]:
    """An engine by name ("duckdb", "spark"), or over an Ibis connection, which stays open.

    memory_limit   DuckDB spills to disk beyond it
    master         where Spark runs
    """
    size = memory_bytes(memory_limit)
    if isinstance(engine, Engine):
        yield engine
        return
    if not isinstance(engine, str):
        if not hasattr(engine, "read_parquet"):
            raise UsageError(f"{type(engine).__name__} is not an Ibis connection; name an engine: duckdb, spark.")
        if engine.name != "duckdb":
            yield Spark(engine) if engine.name == "pyspark" else Backend(engine)
            return
        settings = "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        with explaining(*engine.con.execute(settings).fetchall()[0]):  # one row left unread would block the connection
            yield DuckDB(engine)
        return
    check_choice("engine", engine, ("duckdb", "spark"))
    if engine == "spark":
        import ibis

        with spark_session(master, size) as session:
            yield Spark(ibis.pyspark.connect(session))
        return
    with scratch(name="cldrank-spill") as spill:
        connection = duckdb_connection(memory_limit, threads, str(spill))
        try:
            with explaining(memory_limit, str(spill.parent)):
                yield DuckDB(connection)
        finally:
            connection.disconnect()


def engine_of(sources: Sequence[LogSource], engine: str | Any) -> Any:
    """The engine to read a log on: the one that is asked for or, of a table that lies in an engine, that one."""
    frame = sources[0].frame if isinstance(sources[0], LogFrame) else None
    if isinstance(engine, Engine) or frame is None:
        return engine
    module = type(frame).__module__
    if module.startswith("pyspark."):
        import ibis

        return ibis.pyspark.connect(frame.sparkSession)
    return frame.get_backend() if module.startswith("ibis.") else engine
