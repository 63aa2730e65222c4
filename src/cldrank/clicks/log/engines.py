"""Where log queries run: DuckDB in this process, Spark, or any other Ibis backend.

An engine opens log files as Ibis tables. What is computed on them is written once, in `schema`, `counting` and `audit`,
and does not depend on the engine.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.arguments import check_choice
from cldrank.clicks.log.parts import LogPart, log_parts, partition_keys, union
from cldrank.clicks.log.paths import HIDDEN, LogFrame, LogSource
from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError, setting
from cldrank.files import scratch
from cldrank.reading import reason
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_MOST_NAMED = 3  # files, in a message
_OF_DUCKDB, _OF_HADOOP = "*?[", "{}[]*?\\"  # letters that would turn a path into a pattern
_AS_TEXT = ("JSON", '"NULL"', "DATE", "TIME", "UUID")  # DuckDB's types for JSON that is mixed, empty or text
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Engine(ABC):
    """Something that can open log files as Ibis tables."""

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
        parts = [(part, self._read(part)) for part in log_parts(files)]
        keys = partition_keys(files)
        columns = list(dict.fromkeys([*(name for _, table in parts for name in table.columns), *keys]))
        wanted = columns if choose is None else list(choose(columns))
        kept_apart = [key for key in keys if key in wanted]
        if kept_apart:
            parts = [(part, self._read(part)) for part in log_parts(files, kept_apart)]
        return union(parts, wanted)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether it is cheap to prove that no (first, second) repeats, and true. False proves nothing."""
        del rows, first, second
        return False

    def _open_frame(self, log: LogFrame, choose: Callable[[Sequence[str]], Iterable[str]]) -> ir.Table:
        """The columns of a frame that are wanted, as Arrow holds them, or as a table where they are."""
        there = log.table_in(self.connection)
        if there is not None:
            return there.select(*dict.fromkeys(choose(list(there.columns))))
        from cldrank.data.frames import FramePart, frame_columns

        wanted = list(dict.fromkeys(choose(frame_columns(log.frame))))
        return self.in_memory(FramePart(log.frame, wanted).table(wanted))

    def in_memory(self, table: pa.Table) -> ir.Table:
        """An Arrow table, which the engine reads where it lies if it can."""
        import ibis

        return ibis.memtable(table)

    def _read(self, part: LogPart) -> ir.Table:
        try:
            return self.read(part)
        except Exception as error:  # every engine has its own exceptions
            if isinstance(error, CldrankError) or _is_exhausted(error):
                raise
            files = some(part.files, _MOST_NAMED)
            raise DataError(f"{files} cannot be read as {part.form} ({reason(error)}).") from error


class DuckDB(Engine):
    """DuckDB: out of core, within a memory limit, spilling to a temporary folder."""

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

    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part."""
        from ibis.util import gen_name

        for file in part.files:
            if file.name.startswith(HIDDEN) or ":" in file.name:
                raise DataError(
                    f"{file}: Spark does not read files whose names contain a colon or start with _ or .; rename it."
                )
        where = [_literal(file, _OF_HADOOP) for file in part.files]
        reader = self.connection._session.read
        match part.form:
            case "parquet":
                frame = reader.parquet(*where)
            case "csv":
                frame = reader.csv(where, header=True, inferSchema=False, sep=part.delimiter, escape='"')
            case "json":
                frame = reader.json(where)
        name = gen_name("read_log")
        frame.createOrReplaceTempView(name)
        return self.connection.table(name)


class OneSegment(Engine):
    """Another engine, restricted to the rows with one value in a column; None stands for rows without a value."""

    def __init__(self, whole: Engine, column: str, value: Any, name: str) -> None:
        super().__init__(whole.connection)
        self.whole, self.column, self.value = whole, column, value
        self.part = f"{column}={name}"

    def read(self, part: LogPart) -> ir.Table:
        """As the whole engine reads."""
        return self.whole.read(part)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """As the whole engine proves it."""
        return self.whole.rises(rows, first, second)

    def open(
        self, paths: Sequence[LogSource], choose: Callable[[Sequence[str]], Iterable[str]] | None = None
    ) -> ir.Table:
        """The rows of the segment, from all files."""
        table = self.whole.open(paths, choose and (lambda columns: [*choose(columns), self.column]))
        column = table[self.column]
        return table.filter(column.isnull() if self.value is None else column == self.value)


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
    """The type to read a JSON value as; what is not a number, boolean, list or object stays text."""
    single = kind.rstrip("[]")
    return kind.replace(single, "VARCHAR") if single.startswith(_AS_TEXT) else kind


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
