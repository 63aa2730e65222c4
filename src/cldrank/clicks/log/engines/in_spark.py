"""Logs in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.engines.engine import INSTANT, Engine
from cldrank.clicks.log.parts import LogPart
from cldrank.clicks.log.paths import HIDDEN
from cldrank.errors import DataError

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

_SPECIAL = "{}[]*?\\"  # letters that would turn a path into a pattern of Hadoop's


class Spark(Engine):
    """Spark, over local files."""

    saves_folders = True

    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part."""
        where = self._where(part.files)
        reader = self.connection._session.read
        match part.form:
            case "parquet":
                return self._table(reader.parquet(*where))
            case "csv":
                return self._table(reader.csv(where, header=True, inferSchema=False, sep=part.delimiter, escape='"'))
            case "json":
                return self._table(reader.json(where))

    def read_as(self, part: LogPart, schema: ibis.Schema) -> ir.Table:
        """The rows of a part; JSON as the schema says."""
        if part.form != "json":
            return self.read(part)
        from ibis.backends.pyspark.datatypes import PySparkType

        kind = PySparkType.from_ibis(schema.as_struct())
        return self._table(self.connection._session.read.schema(kind).json(self._where(part.files), mode="FAILFAST"))

    def lines(self, files: Sequence[Path]) -> ir.Table:
        """The lines of text files; the numbers grow within a file, but files are not numbered in their order."""
        from pyspark.sql.functions import col, monotonically_increasing_id

        frame = self.connection._session.read.text(self._where(files))
        return self._table(frame.select(col("value").alias("line"), monotonically_increasing_id().alias("number")))

    def save(self, rows: ir.Table, path: Path) -> None:
        """Write a table as a folder of Parquet files."""
        session = self.connection._session
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # others forget the time zone
        frame = session.sql(self.connection.compile(rows))
        frame.write.mode("overwrite").option("compression", "zstd").parquet(str(path.absolute()))

    def _where(self, files: Sequence[Path]) -> list[str]:
        for file in files:
            if file.name.startswith(HIDDEN) or ":" in file.name:
                raise DataError(
                    f"{file}: Spark does not read files whose names contain a colon or start with _ or .; rename it."
                )
        return [_literal(file) for file in files]

    def _table(self, frame: Any) -> ir.Table:
        from ibis.util import gen_name

        name = gen_name("read_log")
        frame.createOrReplaceTempView(name)
        table = self.connection.table(name)
        instants = [column for column, kind in frame.dtypes if kind == "timestamp"]  # Ibis forgets which name no zone
        return table.mutate(**{column: table[column].cast(INSTANT) for column in instants}) if instants else table


def _literal(path: Path) -> str:
    r"""A path, escaped so that Spark does not read it as a pattern.

    >>> _literal(Path("/logs/day[1].csv"))
    '/logs/day\\[1\\].csv'
    """
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in str(path.absolute()))
