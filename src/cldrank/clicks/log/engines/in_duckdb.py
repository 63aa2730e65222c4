"""Logs in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.engines.engine import Engine
from cldrank.clicks.log.engines.limits import memory_bytes
from cldrank.clicks.log.parts import LogPart
from cldrank.errors import UsageError
from cldrank.reading import reason

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir
    import pyarrow as pa

_SPECIAL = "*?["  # letters that would turn a path into a pattern
_ROW_GROUP = 61_440  # rows that are in memory while a file is written, for each thread
_MANY_ROWS = 5_000_000  # with fewer, grouping takes less time than the start of Numba
_BATCH = 1 << 17
_LARGEST_DICTIONARY = 2000  # most texts are ids that hardly repeat; to try dictionaries for them takes long
_AS_TEXT = ("JSON", '"NULL"', "DATE", "TIME", "UUID")  # DuckDB's types for JSON that is mixed, empty or text


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

    def repeated(self, rows: ir.Table, columns: Sequence[str], n: int) -> tuple[ir.Table, int] | None:
        """Values of some columns whose hashes repeat: if no hash does, no value does.

        DuckDB streams hashes, `Repeats` keeps them, in about half of the memory that DuckDB may use: if they need more,
        there is a pass for each part of them. Where a part gets many more than its share, because a value repeats all
        the time, its array grows beyond that. Two values of one hash, if there ever are any, are both among those that
        may repeat.
        """
        if n < _MANY_ROWS:
            return None
        import numpy as np
        import pyarrow as pa
        from ibis.util import gen_name

        from cldrank.clicks.log.engines.repeats import Repeats

        chosen = rows.select(*columns)
        names = ", ".join(f'"{column}"' for column in columns)
        complete = " AND ".join(f'"{column}" IS NOT NULL' for column in columns)
        log = f"({self.connection.compile(chosen)}) WHERE {complete}"
        memory, threads = self._limits()
        parts = -(-2 * 8 * n // memory)
        present, found = 0, []
        for part in range(parts):
            hashes = f"SELECT hash({names}) AS number FROM {log}"  # noqa: S608
            if parts > 1:
                hashes += f" AND number % {parts} = {part}"
            numbers = Repeats(n if parts == 1 else _most_of(n, parts))
            for batch in self.connection.con.sql(hashes).fetch_arrow_reader(_BATCH):
                numbers.add(batch.column(0).to_numpy())
            present += len(numbers)
            found.append(numbers.found(threads))
        doubtful = pa.table({"number": np.concatenate(found)})
        if not len(doubtful):
            return chosen.limit(0), n - present
        known, name = self.in_memory(doubtful).get_name(), gen_name("repeated")
        again = f"SELECT DISTINCT {names} FROM {log} AND hash({names}) IN (SELECT number FROM {known})"  # noqa: S608
        self.connection.con.execute(f"CREATE TEMP TABLE {name} AS {again}")
        self.connection.con.unregister(known)
        return self.connection.table(name), n - present

    def _limits(self) -> tuple[int, int]:
        """The memory that DuckDB may use, in bytes, and how many threads."""
        settings = "SELECT current_setting('memory_limit'), current_setting('threads')"
        ((memory, threads),) = self.connection.con.execute(settings).fetchall()
        return memory_bytes(memory), threads

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

    def keyed(self, rows: ir.Table, name: str) -> ir.Table:
        """A table that is held, with its row numbers as `key`."""
        del name
        return rows.mutate(key=rows.rowid())

    @contextmanager
    def streaming_left(self) -> Iterator[None]:
        """Joins without a choice of sides; DuckDB, which does not know how long files are, chooses the wrong one."""
        con = self.connection.con
        (before,) = con.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0]
        con.execute(f"SET disabled_optimizers = '{','.join(filter(None, [before, 'build_side_probe_side']))}'")
        try:
            yield
        finally:
            con.execute(f"SET disabled_optimizers = '{before}'")

    def differ(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        """Whether the hashes of some columns differ: a table of numbers, which is small beside one of texts."""
        relation = self.connection.con.sql(self.connection.compile(rows.select(*columns)))
        hashed = ", ".join(f'"{column}"' for column in columns)
        return bool(relation.aggregate(f"count(*) = count(DISTINCT hash({hashed}))").fetchall()[0][0])

    def save(self, rows: ir.Table, path: Path) -> None:
        """Write a table as a Parquet file, in a stream."""
        options = {"row_group_size": _ROW_GROUP, "dictionary_size_limit": _LARGEST_DICTIONARY}
        self.connection.to_parquet(rows, path, compression="zstd", compression_level=1, **options)


def _most_of(n: int, parts: int) -> int:
    """So many of n different hashes hardly ever fall into one of several parts: its share and eight deviations.

    >>> _most_of(1_000_000, 4)
    254001
    """
    share = n // parts
    return share + 8 * isqrt(share) + 1


def _literal(path: Path) -> str:
    """A path, escaped so that DuckDB does not read it as a pattern.

    >>> _literal(Path("/logs/day[1].csv"))
    '/logs/day[[]1].csv'
    """
    return "".join(f"[{letter}]" if letter in _SPECIAL else letter for letter in str(path.absolute()))


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


def duckdb_connection(memory_limit: str, threads: int | None, spill: str) -> Any:
    """An Ibis connection to DuckDB in this process, which spills to a folder."""
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
