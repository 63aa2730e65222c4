"""Where log queries run: DuckDB in this process, Spark, or any other Ibis backend.

An engine opens log files as Ibis tables. What is computed on them is written once, in `schema`, `counting` and `audit`,
and does not depend on the engine.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.arguments import check_choice
from cldrank.clicks.log.nested import root_of
from cldrank.clicks.log.parts import LogPart, log_parts, partition_keys, union
from cldrank.clicks.log.paths import HIDDEN, LogFrame, LogSource
from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError, setting
from cldrank.files import scratch
from cldrank.reading import reason
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir
    import pyarrow as pa

INSTANT = "timestamp('UTC')"  # what names its time zone, or is known to be UTC
_MOST_NAMED = 3  # files, in a message
_OF_DUCKDB, _OF_HADOOP = "*?[", "{}[]*?\\"  # letters that would turn a path into a pattern
_AS_TEXT = ("JSON", '"NULL"', "DATE", "TIME", "UUID")  # DuckDB's types for JSON that is mixed, empty or text
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Engine(ABC):
    """Something that can open log files as Ibis tables; files that are `left_out` it does not look at."""

    left_out: frozenset[Path] = frozenset()

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part: of exactly these, whatever characters their names contain."""

    def open(
        self, paths: Sequence[LogSource], choose: Callable[[Sequence[str]], Iterable[str]] | None = None
    ) -> ir.Table:
        """All files, and all files in folders, as one table; `choose` picks the columns that are wanted.

        The parts only have to agree on those (see `cldrank.clicks.log.parts`). Folders such as `day=1` below one that
        is named are columns too. A frame is the only part.
        """
        if isinstance(paths[0], LogFrame):
            return self._open_frame(paths[0], choose or (lambda columns: columns))
        files = [path for path in paths if isinstance(path, Path)]
        parts = [(part, self._read(part)) for part in log_parts(files, (), self.left_out)]
        keys = partition_keys(files, self.left_out)
        columns = list(dict.fromkeys([*(name for _, table in parts for name in table.columns), *keys]))
        wanted = columns if choose is None else list(choose(columns))
        kept_apart = [key for key in keys if key in wanted]
        if kept_apart:
            parts = [(part, self._read(part)) for part in log_parts(files, kept_apart, self.left_out)]
        return union(parts, wanted)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether it is cheap to prove that no (first, second) repeats, and true. False proves nothing."""
        del rows, first, second
        return False

    def _open_frame(self, log: LogFrame, choose: Callable[[Sequence[str]], Iterable[str]]) -> ir.Table:
        """The columns of a frame that are wanted, as Arrow holds them, or as a table where they are."""
        there = log.table_in(self.connection)
        if there is not None:
            return there.select(*_roots(there.columns, choose))
        from cldrank.data.frames import FramePart, frame_columns

        wanted = _roots(frame_columns(log.frame), choose)
        return self.in_memory(FramePart(log.frame, wanted).table(wanted))

    def in_memory(self, table: pa.Table) -> ir.Table:
        """An Arrow table, which the engine reads where it lies if it can."""
        import ibis

        return ibis.memtable(table)

    # -- for logs of other programs, see `cldrank.clicks.imports` ----------------------------------------------------

    saves_folders = False  # whether `save` writes a folder of parts instead of a file

    def open_each(self, paths: Sequence[Path], schema: ibis.Schema) -> list[tuple[LogPart, ir.Table]]:
        """The parts of all files; JSON with the fields and types of a schema, without a look at all values first."""
        return [(part, self._read(part, schema)) for part in log_parts(paths)]

    def read_as(self, part: LogPart, schema: ibis.Schema) -> ir.Table:
        """The rows of a part, where its format allows it with the fields and types of a schema; others are null."""
        del schema
        return self.read(part)

    def lines(self, files: Sequence[Path]) -> ir.Table:
        """The lines of text files, and a number that grows from line to line of a file."""
        raise UsageError(f"{some(files, _MOST_NAMED)}: lines of text are read by DuckDB and Spark only.")

    def save(self, rows: ir.Table, path: Path) -> None:
        """Write a table as Parquet, without holding it in memory."""
        import pyarrow.parquet as pq

        batches = rows.to_pyarrow_batches()
        with pq.ParquetWriter(path, batches.schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)

    def _read(self, part: LogPart, schema: ibis.Schema | None = None) -> ir.Table:
        try:
            return self.read(part) if schema is None else self.read_as(part, schema)
        except Exception as error:  # every engine has its own exceptions
            if isinstance(error, CldrankError) or _is_exhausted(error):
                raise
            files = some(part.files, _MOST_NAMED)
            raise DataError(f"{files} cannot be read as {part.form} ({reason(error)}).") from error


class DuckDB(Engine):
    """DuckDB: out of core, within a memory limit, spilling to a temporary folder."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        import duckdb

        with suppress(duckdb.Error):  # Ibis writes functions over lists with arrows, which only older DuckDBs expect
            connection.raw_sql("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")

    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part."""
        where = [_literal(file) for file in part.files]
        match part.form:
            case "parquet":
                return self.connection.read_parquet(where, hive_partitioning=False)
            case "csv":
                # as text: one odd value must neither decide the type of a column nor stop the reading
                return self.connection.read_csv(
                    where,
                    hive_partitioning=False,
                    header=True,
                    all_varchar=True,
                    null_padding=True,
                    delim=part.delimiter,
                    quote='"',
                    escape='"',
                )
            case "json":
                return self._read_json(where)

    def _read_json(self, where: list[str]) -> ir.Table:
        """Types from all values of all files: from a sample, DuckDB would round the fractions that come later."""
        options = {"format": "newline_delimited", "hive_partitioning": False}
        whole = {"sample_size": -1, "maximum_sample_files": -1, "union_by_name": True}
        arguments = ", ".join(f"{name}={value!r}" for name, value in {**options, **whole}.items())
        described = self.connection.con.execute(f"DESCRIBE FROM read_json(?, {arguments})", [where]).fetchall()
        kinds = {name: _json_type(kind) for name, kind, *_ in described}
        return self.connection.read_json(where, columns=kinds, **options)

    def in_memory(self, table: pa.Table) -> ir.Table:
        """An Arrow table, which DuckDB scans where it lies."""
        from ibis.util import gen_name

        name = gen_name("log_frame")
        self.connection.con.register(name, table)
        return self.connection.table(name)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether (first, second) grows from each row to the next, as in a log that is sorted by session.

        One pass over two columns that stops at the first step back; grouping would need a table of all sessions. The
        order of the rows does not matter: if every step grows, no pair occurs twice and none is null.
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

    def read_as(self, part: LogPart, schema: ibis.Schema) -> ir.Table:
        """The rows of a part; JSON as the schema says."""
        if part.form != "json":
            return self.read(part)
        from ibis.backends.sql.datatypes import DuckDBType

        kinds = {name: DuckDBType.to_string(kind) for name, kind in schema.items()}
        where = [_literal(file) for file in part.files]
        return self.connection.read_json(where, columns=kinds, format="newline_delimited", hive_partitioning=False)

    def lines(self, files: Sequence[Path]) -> ir.Table:
        """The lines of text files, numbered in the order of the files and of the lines in them."""
        from ibis.util import gen_name

        name = gen_name("lines")
        options = "columns={'line': 'VARCHAR'}, header=false, delim='\x01', quote='', escape='', auto_detect=false"
        self.connection.con.execute(
            f"CREATE TEMP TABLE {name} AS FROM read_csv(?, {options}, max_line_size=16777216)",
            [[_literal(file) for file in files]],
        )
        table = self.connection.table(name)
        return table.select(line=table.line, number=table.rowid())

    def save(self, rows: ir.Table, path: Path) -> None:
        """Write a table as a Parquet file, in a stream."""
        self.connection.to_parquet(rows, path, compression="zstd", compression_level=1)


class Backend(Engine):
    """Any other Ibis backend that reads files, one by one."""

    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part."""
        read = getattr(self.connection, f"read_{part.form}")
        options = {"delimiter": part.delimiter} if part.delimiter != "," else {}
        tables = [(part, read(str(file.absolute()), **options)) for file in part.files]
        return union(tables, tables[0][1].columns)


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
        return [_literal(file, _OF_HADOOP) for file in files]

    def _table(self, frame: Any) -> ir.Table:
        from ibis.util import gen_name

        name = gen_name("read_log")
        frame.createOrReplaceTempView(name)
        table = self.connection.table(name)
        instants = [column for column, kind in frame.dtypes if kind == "timestamp"]  # Ibis forgets which name no zone
        return table.mutate(**{column: table[column].cast(INSTANT) for column in instants}) if instants else table


def _roots(columns: Sequence[str], choose: Callable[[Sequence[str]], Iterable[str]]) -> list[str]:
    """The columns that are wanted, or that hold the fields that are."""
    return list(dict.fromkeys(root_of(columns, path) or path for path in choose(columns)))


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


def _literal(path: Path, special: str = _OF_DUCKDB) -> str:
    r"""A path, escaped so that an engine does not read it as a pattern.

    >>> _literal(Path("/logs/day[1].csv")), _literal(Path("/logs/day[1].csv"), _OF_HADOOP)
    ('/logs/day[[]1].csv', '/logs/day\\[1\\].csv')
    """
    escape = "[{}]" if special == _OF_DUCKDB else "\\{}"
    return "".join(escape.format(letter) if letter in special else letter for letter in str(path.absolute()))


def _json_type(kind: str) -> str:
    """The type to read a JSON value as; what is not a number, boolean, list or object stays text, at any depth.

    >>> _json_type('STRUCT(id UUID, shown STRUCT("at" TIMESTAMP, n BIGINT)[])')
    'STRUCT("id" VARCHAR, "shown" STRUCT("at" VARCHAR, "n" BIGINT)[])'
    """
    import duckdb

    found = duckdb.sqltype(kind)
    if found.id == "list":
        return f"{_json_type(str(found.children[0][1]))}[]"
    if found.id == "struct":
        fields = (f'"{name.replace(chr(34), chr(34) * 2)}" {_json_type(str(inner))}' for name, inner in found.children)
        return f"STRUCT({', '.join(fields)})"
    return "VARCHAR" if kind.startswith(_AS_TEXT) else kind


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
        with _explaining(*engine.con.execute(settings).fetchall()[0]):  # one row left unread would block the connection
            yield DuckDB(engine)
        return
    check_choice("engine", engine, ("duckdb", "spark"))
    if engine == "spark":
        yield Spark(_spark(master, size))
        return
    with scratch(name="cldrank-spill") as spill:
        connection = _duckdb(memory_limit, threads, str(spill))
        try:
            with _explaining(memory_limit, str(spill.parent)):
                yield DuckDB(connection)
        finally:
            connection.disconnect()


@contextmanager
def querying(paths: Sequence[LogSource]) -> Iterator[None]:
    """Engines read files while a query runs: their complaints become errors that name the files."""
    try:
        yield
    except (CldrankError, MemoryError, AssertionError):
        raise
    except Exception as error:  # every engine has its own exceptions
        if _is_exhausted(error):
            raise  # `connected` knows the limits
        raise DataError(f"{some(paths, _MOST_NAMED)}: the log cannot be read ({reason(error)}).") from error


# -- limits ------------------------------------------------------------------------------------------------------------


def memory_bytes(text: str) -> int:
    """A memory limit such as 3GB in bytes.

    >>> memory_bytes("3GB"), memory_bytes("1.5 GiB")
    (3000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?|)b\s*", str(text), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if size <= 0:
        raise UsageError(
            "{} must be an amount of memory such as 3GB, 500MB or 2GiB, not {!r}.", setting("memory_limit"), text
        )
    return size


@contextmanager
def _explaining(limit: str, folder: str) -> Iterator[None]:
    """Turn DuckDB's errors about memory or disk that ran out into advice."""
    try:
        yield
    except Exception as error:
        if isinstance(error, CldrankError) or not _is_exhausted(error):
            raise
        if "Out of Memory" in str(error) and "max_temp_directory_size" not in str(error):
            raise CldrankError(
                "DuckDB ran out of memory within the limit of {}, although it spills to disk; raise {} ({}).",
                limit,
                setting("memory_limit"),
                reason(error),
            ) from error
        raise CldrankError(
            "the disk is full: DuckDB spills to {} what does not fit in the memory limit of {}. Make room there, name "
            "another folder with the environment variable TMPDIR, or raise {} ({}).",
            folder,
            limit,
            setting("memory_limit"),
            reason(error),
        ) from error


def _is_exhausted(error: Exception) -> bool:
    ours = type(error).__module__.startswith(("duckdb", "_duckdb"))
    return ours and any(words in str(error) for words in ("Out of Memory", "Could not write"))


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
        raise UsageError(f"DuckDB refuses its settings: {reason(error)}.") from None


def _spark(master: str, memory: int) -> Any:
    import ibis

    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError("Spark is not installed; pip install 'cldrank[spark]'.") from None
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName("cldrank")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", f"{max(memory >> 20, 1)}m")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4" if master.startswith("local") else "200")
        .config("spark.sql.legacy.parquet.nanosAsLong", "true")  # else Spark cannot read pandas' times
    )
    try:
        return ibis.pyspark.connect(builder.getOrCreate())
    except Exception as error:  # Java's, as Py4J passes them on
        raise UsageError(
            f"Spark does not start at {master!r}; it needs Java, and a place to run ({reason(error)})."
        ) from error
