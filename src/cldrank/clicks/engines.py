"""Where log queries run: DuckDB in this process, Spark, or any other Ibis backend.

An engine opens log files as Ibis tables. Everything that is computed on them is written once, in `log`, `aggregate` and
`audit`, and knows nothing of engines.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError

if TYPE_CHECKING:
    import ibis.expr.types as ir

Format = Literal["parquet", "csv", "json"]

_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")


class Engine(ABC):
    """Something that can open log files as Ibis tables."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    def read_one(self, path: Path, form: Format) -> ir.Table:
        """One file, or one folder of files in Hive partitions."""

    def open(self, paths: Sequence[Path]) -> ir.Table:
        """All files as one table; columns are matched by name."""
        tables = [self._read(path) for path in paths]
        first = set(tables[0].columns)
        for path, table in zip(paths[1:], tables[1:], strict=True):
            if set(table.columns) != first:
                odd = sorted(first.symmetric_difference(table.columns))
                raise DataError(f"{path} has other columns than {paths[0]}: they differ in {', '.join(odd)}.")
        return reduce(lambda one, two: one.union(two.select(*one.columns)), tables)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether it is cheap to prove that no (first, second) repeats, and true. False tells nothing."""
        del rows, first, second
        return False

    def _read(self, path: Path) -> ir.Table:
        form = format_of(path)
        try:
            return self.read_one(path, form)
        except Exception as error:  # every engine has its own exceptions
            raise DataError(f"{path} cannot be read as {form} ({_first_line(error)}).") from error


class DuckDB(Engine):
    """DuckDB: out of core, within a memory limit, spilling to a temporary folder."""

    def read_one(self, path: Path, form: Format) -> ir.Table:
        """One file, or every file below a folder."""
        if path.is_dir():
            where: Any = [str(file) for file in _files_below(path)]
            hive = True
        else:
            where, hive = str(path), False
        match form:
            case "parquet":
                return self.connection.read_parquet(where, hive_partitioning=hive)
            case "csv":
                # as text: one odd value must not decide the type of a column, nor stop the reading
                return self.connection.read_csv(where, hive_partitioning=hive, all_varchar=True, null_padding=True)
            case "json":
                return self.connection.read_json(where, format="newline_delimited", hive_partitioning=hive)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether (first, second) grows from each row to the next, as in a log that lies session by session.

        One pass over two columns, where grouping would need a table of all sessions; it ends at the first step back. In
        whatever order DuckDB hands over the rows: if every step grows, no pair occurs twice and none is null.
        """
        last: tuple[Any, Any] | None = None
        relation = self.connection.con.sql(self.connection.compile(rows.select(first, second)))
        for batch in relation.fetch_arrow_reader(1 << 16):
            if not batch.num_rows:
                continue
            one, two = batch.columns
            if one.null_count or two.null_count:
                return False
            one, two = (column.to_numpy(zero_copy_only=False) for column in (one, two))
            grows = (one[1:] > one[:-1]) | ((one[1:] == one[:-1]) & (two[1:] > two[:-1]))
            if not grows.all() or (last is not None and last >= (one[0], two[0])):
                return False
            last = (one[-1], two[-1])
        return True


class Backend(Engine):
    """Spark, or any other Ibis backend that reads files: a folder is read as its engine reads folders."""

    def read_one(self, path: Path, form: Format) -> ir.Table:
        """One file or folder."""
        where = str(path.resolve())
        match form:
            case "parquet":
                return self.connection.read_parquet(where)
            case "csv":
                separator = "\t" if path.suffix == ".tsv" else ","
                return self.connection.read_csv(where, header=True, inferSchema=False, sep=separator)
            case "json":
                return self.connection.read_json(where)


@contextmanager
def connected(
    engine: str | Any = "duckdb",
    *,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
) -> Iterator[Engine]:
    """An engine by name ("duckdb", "spark"), or over an Ibis connection that the caller keeps; an open one stays open.

    memory_limit   DuckDB spills to disk beyond it
    master         where Spark runs
    """
    if isinstance(engine, Engine):
        yield engine
        return
    if not isinstance(engine, str):
        if not hasattr(engine, "read_parquet"):
            raise UsageError(f"{type(engine).__name__} is no Ibis connection; name an engine: duckdb, spark.")
        yield DuckDB(engine) if engine.name == "duckdb" else Backend(engine)
        return
    match engine:
        case "duckdb":
            with tempfile.TemporaryDirectory(prefix="cldrank-") as spill:
                connection = _duckdb(memory_limit, threads, spill)
                try:
                    yield DuckDB(connection)
                finally:
                    connection.disconnect()
        case "spark":
            connection = _spark(master, memory_limit)
            yield Backend(connection)
        case _:
            raise UsageError(f"there is no engine {engine!r}; the engines are duckdb and spark.")


@contextmanager
def reading(paths: Sequence[Path]) -> Iterator[None]:
    """Engines read files when a query runs: what they say of them then becomes an error that names the files."""
    try:
        yield
    except (CldrankError, KeyboardInterrupt, MemoryError, AssertionError):
        raise
    except Exception as error:  # every engine has its own exceptions
        raise DataError(f"{', '.join(map(str, paths))}: the log cannot be read ({_first_line(error)}).") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def format_of(path: Path) -> Format:
    """The format of a log file or folder of such, by the names of the files.

    >>> format_of(Path("log.csv.gz"))
    'csv'
    """
    if path.is_dir():
        files = _files_below(path)
        formats = {format_of(file) for file in files}
        if len(formats) > 1:
            raise DataError(f"{path} holds files of several formats ({', '.join(sorted(formats))}); name one kind.")
        return formats.pop()
    suffixes = [suffix for suffix in path.suffixes if suffix not in _COMPRESSIONS]
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise DataError(f"{path}: a log ends in {', '.join(_SUFFIXES)}, perhaps compressed.")
    return _SUFFIXES[suffixes[-1]]


def _files_below(folder: Path) -> list[Path]:
    hidden = (".", "_")  # as Hive and Spark do: _SUCCESS, ._committed, …
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(hidden))
    if not files:
        raise DataError(f"{folder}: the folder holds no files.")
    return files


def _duckdb(memory_limit: str, threads: int | None, spill: str) -> Any:
    import duckdb
    import ibis

    options: dict[str, Any] = {"memory_limit": memory_limit, "temp_directory": spill}
    if threads is not None:
        options["threads"] = threads
    try:
        connection = ibis.duckdb.connect(**options)
        connection.raw_sql("SET enable_progress_bar = false")
        return connection
    except duckdb.Error as error:
        raise UsageError(f"DuckDB refuses its settings: {str(error).splitlines()[0]}") from None


def _spark(master: str, memory_limit: str) -> Any:
    import ibis

    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError("Spark is not installed; pip install 'cldrank[spark]'.") from None
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master(master)
        .appName("cldrank")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", memory_limit.lower().removesuffix("b"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4" if master.startswith("local") else "200")
        .getOrCreate()
    )
    return ibis.pyspark.connect(session)
