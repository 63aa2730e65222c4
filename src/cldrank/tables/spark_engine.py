"""Spark: the same queries, translated by sqlglot."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.errors import DataError, MissingDependencyError, UsageError
from cldrank.reading import reason
from cldrank.tables.engine import Engine, Part, Relation
from cldrank.tables.frames import arrow_table, is_spark_frame
from cldrank.tables.sources import HIDDEN

if TYPE_CHECKING:
    import pyarrow as pa

_PATTERN_LETTERS = "{}[]*?\\"
_FUNCTIONS = {  # that sqlglot does not know
    "epoch_us": "unix_micros",
    "list_extract": "try_element_at",
    "list_position": "array_position",
    "strlen": "octet_length",
}


class Spark(Engine):
    """Spark, over files that all its machines can read."""

    name = "spark"

    def __init__(self, session: Any) -> None:
        self.session = session
        self._held: list[Any] = []

    def read_part(self, part: Part) -> Relation:
        """The rows of the files of a part; columns of CSV are text."""
        paths = [_literal(path) for path in part.paths]
        reader = self.session.read
        match part.format:
            case "parquet":
                return self._view(reader.parquet(*paths))
            case "csv":
                return self._view(reader.csv(paths, header=True, inferSchema=False, sep=part.delimiter, escape='"'))
            case "json":
                if part.json_schema is None:
                    return self._view(reader.json(paths))
                from pyspark.sql.pandas.types import from_arrow_schema

                return self._view(reader.schema(from_arrow_schema(part.json_schema)).json(paths, mode="FAILFAST"))
            case _:
                raise UsageError(f"{part.paths[0]}: a {part.format} file is not a table with named columns.")

    def read_frame(self, frame: Any, columns: Sequence[str] | None) -> Relation:
        """The rows of a frame; frames of other libraries are sent to Spark."""
        if not is_spark_frame(frame):
            return self._view(self.session.createDataFrame(arrow_table(frame, columns).to_pandas()))
        return self._view(frame if columns is None else frame.select(*(f"`{column}`" for column in columns)))

    def sql(self, query: str) -> Relation:
        """The result of a query, as a view."""
        return self._view(self.frame(query))

    def hold(self, query: str) -> Relation:
        """The result of a query, kept by the executors."""
        self._held.append(self.frame(query).persist())
        return self._view(self._held[-1])

    def release(self) -> None:
        """Let executors forget what was held: Spark would use it for a file of the same name with other content."""
        while self._held:
            frame = self._held.pop()
            with suppress(Exception):  # of many kinds, once the session was stopped, and then nothing is held
                frame.unpersist()

    def frame(self, query: str) -> Any:
        """The result of a query as a Spark DataFrame."""
        return self.session.sql(translated(query))

    def batches(self, query: str, rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        """The result of a query, batch by batch."""
        yield from self.arrow(query).to_batches(max_chunksize=rows)

    def arrow(self, query: str) -> pa.Table:
        """The result of a query as an Arrow table."""
        return self.frame(query).toArrow()

    def save(self, query: str, path: Path) -> None:
        """Write the result of a query as a folder of Parquet files."""
        self.session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # others forget the zone
        self.frame(query).write.mode("overwrite").option("compression", "zstd").parquet(str(path.absolute()))

    def _view(self, frame: Any) -> Relation:
        from pyspark.sql.pandas.types import to_arrow_schema

        name = self.new_name()
        frame.createOrReplaceTempView(name)
        return Relation(self, name, to_arrow_schema(frame.schema, timezone="UTC"))


def translated(query: str) -> str:
    """A query in Spark's dialect."""
    try:
        import sqlglot
    except ImportError:
        raise MissingDependencyError("queries on Spark need sqlglot; pip install 'cldrank[spark]'.") from None
    tree = sqlglot.parse_one(query, read="duckdb")
    for function in tree.find_all(sqlglot.exp.Anonymous):
        name = str(function.this).lower()
        function.set("this", _FUNCTIONS.get(name, function.this))
    return tree.sql(dialect="spark")


# -- the session ---------------------------------------------------------------------------------------------------


def spark_session(master: str = "local[*]", memory_limit: str = "3GB") -> Any:
    """The active Spark session, or a new one, which ends with this process."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError("Spark is not installed; pip install 'cldrank[spark]'.") from None
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has what this process has
    settings = {
        "spark.app.name": "cldrank",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.driver.memory": re.sub("i?b$", "", memory_limit.strip().lower()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4" if master.startswith("local") else "200",
        "spark.sql.legacy.parquet.nanosAsLong": "true",  # else Spark cannot read pandas' times
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Java's, as Py4J passes them on
        why = f"it needs Java, and a place to run ({reason(error)})"
        raise UsageError(f"Spark does not start at {master!r}; {why}.") from error


def _literal(path: Path) -> str:
    """A path, escaped so that Spark does not read it as a pattern."""
    if path.name.startswith(HIDDEN) or ":" in path.name:
        raise DataError(f"{path}: Spark reads no file whose name contains a colon or starts with _ or .; rename it.")
    return "".join(f"\\{letter}" if letter in _PATTERN_LETTERS else letter for letter in str(path.absolute()))
