"""Where log queries run: DuckDB in this process, Spark, or any other Ibis backend.

An engine opens log files as Ibis tables. Everything that is computed on them is written once, in `log`, `aggregate` and
`audit`, and knows nothing of engines.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.parts import HIDDEN, Batch, batches, joined, partition_keys
from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError
from cldrank.files import scratch
from cldrank.reading import reason

if TYPE_CHECKING:
    import ibis.expr.types as ir

_MOST_NAMED = 3  # files, in a message
_OF_DUCKDB, _OF_HADOOP = "*?[", "{}[]*?\\"  # what a path may hold that would make a pattern of it
_AS_TEXT = ("JSON", '"NULL"', "DATE", "TIME", "UUID")  # what DuckDB makes of JSON that is mixed, empty or text
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


class Engine(ABC):
    """Something that can open log files as Ibis tables."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    def read(self, batch: Batch) -> ir.Table:
        """The rows of files that are alike: exactly these, whatever letters their names have."""

    def open(self, paths: Sequence[Path], choose: Callable[[Sequence[str]], Iterable[str]] | None = None) -> ir.Table:
        """All files, and all in folders, as one table; `choose` tells which of its columns are wanted.

        Only on those do the parts have to agree (see `cldrank.clicks.parts`). The names of folders such as `day=1`
        below one that is named are columns, too.
        """
        parts = [(batch, self._read(batch)) for batch in batches(paths)]
        keys = partition_keys(paths)
        columns = list(dict.fromkeys([*(name for _, table in parts for name in table.columns), *keys]))
        wanted = columns if choose is None else list(choose(columns))
        told_apart = [key for key in keys if key in wanted]
        if told_apart:
            parts = [(batch, self._read(batch)) for batch in batches(paths, told_apart)]
        return joined(parts, wanted)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether it is cheap to prove that no (first, second) repeats, and true. False tells nothing."""
        del rows, first, second
        return False

    def _read(self, batch: Batch) -> ir.Table:
        try:
            return self.read(batch)
        except Exception as error:  # every engine has its own exceptions
            if isinstance(error, CldrankError) or _is_exhausted(error):
                raise
            raise DataError(f"{_listed(batch.files)} cannot be read as {batch.form} ({reason(error)}).") from error


class DuckDB(Engine):
    """DuckDB: out of core, within a memory limit, spilling to a temporary folder."""

    def read(self, batch: Batch) -> ir.Table:
        """The rows of files that are alike."""
        where = [_literal(file) for file in batch.files]
        match batch.form:
            case "parquet":
                return self.connection.read_parquet(where, hive_partitioning=False)
            case "csv":
                # as text: one odd value must not decide the type of a column, nor stop the reading
                return self.connection.read_csv(
                    where,
                    hive_partitioning=False,
                    header=True,
                    all_varchar=True,
                    null_padding=True,
                    delim=batch.delimiter,
                    quote='"',
                    escape='"',
                )
            case "json":
                return self._read_json(where)

    def _read_json(self, where: list[str]) -> ir.Table:
        """Types from all values of all files: from a sample, DuckDB would round the fractions that come later."""
        options = {"format": "newline_delimited", "hive_partitioning": False}
        whole = {"sample_size": -1, "maximum_sample_files": -1, "union_by_name": True}
        told = ", ".join(f"{name}={value!r}" for name, value in {**options, **whole}.items())
        described = self.connection.con.execute(f"DESCRIBE FROM read_json(?, {told})", [where]).fetchall()
        kinds = {name: _json_type(kind) for name, kind, *_ in described}
        return self.connection.read_json(where, columns=kinds, **options)

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
    """Any other Ibis backend that reads files, one by one."""

    def read(self, batch: Batch) -> ir.Table:
        """The rows of files that are alike."""
        read = getattr(self.connection, f"read_{batch.form}")
        options = {"delimiter": batch.delimiter} if batch.delimiter != "," else {}
        tables = [(batch, read(str(file.absolute()), **options)) for file in batch.files]
        return joined(tables, tables[0][1].columns)


class Spark(Engine):
    """Spark, over local files."""

    def read(self, batch: Batch) -> ir.Table:
        """The rows of files that are alike."""
        from ibis.util import gen_name

        for file in batch.files:
            if file.name.startswith(HIDDEN) or ":" in file.name:
                raise DataError(
                    f"{file}: Spark does not read files of such names (a colon, or _ or . first); rename it."
                )
        where = [_literal(file, _OF_HADOOP) for file in batch.files]
        reader = self.connection._session.read
        match batch.form:
            case "parquet":
                frame = reader.parquet(*where)
            case "csv":
                frame = reader.csv(where, header=True, inferSchema=False, sep=batch.delimiter, escape='"')
            case "json":
                frame = reader.json(where)
        name = gen_name("read_log")
        frame.createOrReplaceTempView(name)
        return self.connection.table(name)


def _literal(path: Path, special: str = _OF_DUCKDB) -> str:
    r"""A path as an engine has to be told it, so that it is no pattern.

    >>> _literal(Path("/logs/day[1].csv")), _literal(Path("/logs/day[1].csv"), _OF_HADOOP)
    ('/logs/day[[]1].csv', '/logs/day\\[1\\].csv')
    """
    escape = "[{}]" if special == _OF_DUCKDB else "\\{}"
    return "".join(escape.format(letter) if letter in special else letter for letter in str(path.absolute()))


def _json_type(kind: str) -> str:
    """The type to read a JSON value as; what is not a number, truth value, list or object stays the text that it is."""
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
    """An engine by name ("duckdb", "spark"), or over an Ibis connection that the caller keeps; an open one stays open.

    memory_limit   DuckDB spills to disk beyond it
    master         where Spark runs
    """
    size = memory_bytes(memory_limit)
    if isinstance(engine, Engine):
        yield engine
        return
    if not isinstance(engine, str):
        if not hasattr(engine, "read_parquet"):
            raise UsageError(f"{type(engine).__name__} is no Ibis connection; name an engine: duckdb, spark.")
        if engine.name != "duckdb":
            yield Spark(engine) if engine.name == "pyspark" else Backend(engine)
            return
        asked = "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        with _explaining(*engine.con.execute(asked).fetchone()):
            yield DuckDB(engine)
        return
    match engine:
        case "duckdb":
            with scratch(name="cldrank-spill") as spill:
                connection = _duckdb(memory_limit, threads, str(spill))
                try:
                    with _explaining(memory_limit, str(spill.parent)):
                        yield DuckDB(connection)
                finally:
                    connection.disconnect()
        case "spark":
            yield Spark(_spark(master, size))
        case _:
            raise UsageError(f"there is no engine {engine!r}; the engines are duckdb and spark.")


@contextmanager
def reading(paths: Sequence[Path]) -> Iterator[None]:
    """Engines read files when a query runs: what they say of them then becomes an error that names the files."""
    try:
        yield
    except (CldrankError, MemoryError, AssertionError):
        raise
    except Exception as error:  # every engine has its own exceptions
        if _is_exhausted(error):
            raise  # `connected` knows the limits
        raise DataError(f"{_listed(paths)}: the log cannot be read ({reason(error)}).") from error


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(map(str, paths[:_MOST_NAMED])) + more


# -- limits ------------------------------------------------------------------------------------------------------------


def memory_bytes(text: str) -> int:
    """What a memory limit such as 3GB means.

    >>> memory_bytes("3GB"), memory_bytes("1.5 GiB")
    (3000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?|)b\s*", str(text), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if size <= 0:
        raise UsageError(f"the memory limit {text!r} is not an amount of memory; say 3GB, 500MB or 2GiB, for example.")
    return size


@contextmanager
def _explaining(limit: str, folder: str) -> Iterator[None]:
    """What DuckDB says when memory or disk are used up becomes advice."""
    try:
        yield
    except Exception as error:
        if isinstance(error, CldrankError) or not _is_exhausted(error):
            raise
        if "Out of Memory" in str(error) and "max_temp_directory_size" not in str(error):
            raise CldrankError(
                f"DuckDB ran out of memory within the limit of {limit}, though it spills what it can to disk; allow it "
                f"more with memory_limit=… (--memory-limit; {reason(error)})."
            ) from error
        raise CldrankError(
            f"the disk is full: DuckDB spills to {folder} what does not fit in the memory limit of {limit}. Make room "
            f"there, name another folder with the environment variable TMPDIR, or raise memory_limit=… "
            f"(--memory-limit; {reason(error)})."
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
        .config("spark.sql.legacy.parquet.nanosAsLong", "true")  # or it reads no file in which pandas wrote a time
    )
    try:
        return ibis.pyspark.connect(builder.getOrCreate())
    except Exception as error:  # Java's, as Py4J hands them over
        raise UsageError(
            f"Spark does not start at {master!r}; it needs Java, and a place to run ({reason(error)})."
        ) from error
