"""DuckDB: queries in this process, out of core, within a memory limit, spilling to a temporary folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.files import scratch
from cldrank.reading import reason
from cldrank.tables.columns import quoted, text_literal
from cldrank.tables.engine import Engine, Part, Relation
from cldrank.tables.frames import arrow_table
from cldrank.tables.types import sql_type

if TYPE_CHECKING:
    import pyarrow as pa

_PATTERN_LETTERS = "*?["
_ROW_GROUP = 61_440  # rows that are in memory while a file is written, for each thread
_LARGEST_DICTIONARY = 2000  # most texts are ids that hardly repeat; to try dictionaries for them takes long
_AS_TEXT = ("JSON", '"NULL"', "DATE", "TIME", "UUID")  # DuckDB's types for JSON that is mixed, empty or text


class DuckDB(Engine):
    """DuckDB in this process."""

    name = "duckdb"

    def __init__(self, connection: Any, spill: Path, memory_limit: str) -> None:
        self.connection = connection
        self._spill = spill
        self._memory_limit = memory_limit

    @classmethod
    @contextmanager
    def connected(cls, memory_limit: str = "3GB", threads: int | None = None) -> Iterator[DuckDB]:
        """A database in memory; beyond the limit it spills to a temporary folder."""
        import duckdb

        if "-" in memory_limit or not re.search("[1-9]", memory_limit):  # DuckDB takes less than nothing as no limit
            raise UsageError(f"`memory_limit` must be an amount of memory such as 3GB or 500MB, not {memory_limit!r}.")
        with scratch(name="cldrank-spill") as spill:
            config: dict[str, Any] = {"memory_limit": memory_limit, "temp_directory": str(spill)}
            if threads is not None:
                config["threads"] = threads
            try:
                connection = duckdb.connect(config=config)
            except duckdb.Error as error:
                raise UsageError(
                    f"DuckDB refuses its settings (`memory_limit={memory_limit}`): {reason(error)}."
                ) from None
            connection.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
            try:
                yield cls(connection, spill, memory_limit)
            finally:
                connection.close()

    # -- opening -------------------------------------------------------------------------------------------------------

    def read_part(self, part: Part) -> Relation:
        """The rows of the files of a part; columns of CSV are text, so that no odd value decides a type."""
        paths = [_literal(path) for path in part.paths]
        match part.format:
            case "parquet":
                reader = "read_parquet($files, hive_partitioning = false)"
            case "csv":
                reader = (
                    "read_csv($files, hive_partitioning = false, header = true, all_varchar = true, "
                    f"""null_padding = true, delim = '{part.delimiter}', quote = '"', escape = '"')"""
                )
            case "json":
                reader = self._json_reader(paths, part.json_schema)
            case _:
                raise UsageError(f"{part.paths[0]}: a {part.format} file is not a table with named columns.")
        listed = f"[{', '.join(map(text_literal, paths))}]"
        return self.sql(f"SELECT * FROM {reader.replace('$files', listed)}")

    def read_frame(self, frame: Any, columns: Sequence[str] | None) -> Relation:
        """The rows of a frame, which DuckDB scans where they lie."""
        name = self.new_name()
        table = arrow_table(frame, columns)
        self.connection.register(name, table)
        return Relation(self, name, table.schema)

    def _json_reader(self, paths: Sequence[str], schema: pa.Schema | None) -> str:
        """Types from all values of all files: from a sample, DuckDB would round the fractions that come later."""
        options = "format = 'newline_delimited', hive_partitioning = false"
        if schema is not None:
            known = ", ".join(f"{text_literal(entry.name)}: {text_literal(sql_type(entry.type))}" for entry in schema)
            return f"read_json($files, {options}, columns = {{{known}}})"
        sample = "sample_size = -1, maximum_sample_files = -1, union_by_name = true"
        described = self.connection.execute(
            f"DESCRIBE FROM read_json(?, {options}, {sample})", [list(paths)]
        ).fetchall()
        kinds = ", ".join(f"{text_literal(name)}: {text_literal(json_type(kind))}" for name, kind, *_ in described)
        return f"read_json($files, {options}, columns = {{{kinds}}})"

    # -- running -------------------------------------------------------------------------------------------------------

    def sql(self, query: str) -> Relation:
        """The result of a query, as a view."""
        return self._created("VIEW", query)

    def hold(self, query: str) -> Relation:
        """The result of a query as a table, spilled to disk where it is large."""
        return self._created("TABLE", query)

    def release(self) -> None:
        """Nothing to do: tables go with the connection."""

    def batches(self, query: str, rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        """The result of a query, batch by batch."""
        with self._explained():
            yield from self.connection.sql(query).to_arrow_reader(rows)

    def arrow(self, query: str) -> pa.Table:
        """The result of a query as an Arrow table."""
        with self._explained():
            return self.connection.sql(query).to_arrow_table()

    def save(self, query: str, path: Path) -> None:
        """Write the result of a query as a Parquet file, in a stream."""
        options = (
            f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {_ROW_GROUP}, "
            f"DICTIONARY_SIZE_LIMIT {_LARGEST_DICTIONARY}"
        )
        with self._explained():
            self.connection.execute(f"COPY ({query}) TO {text_literal(str(path))} ({options})")

    def check(self, error: Exception) -> None:
        """Raise errors that are not the fault of a file."""
        if str(error) == "Query interrupted" or type(error).__name__ == "InterruptException":
            raise KeyboardInterrupt from error
        text = str(error)
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            return
        line = re.search(r"Error on Line: (\d+)[^\0]*not utf-8[^\0]*file = (.+)", text)
        if line:
            raise FormatError(f"not a CSV file: line {line[1]} is not text in UTF-8.", path=line[2]) from error
        if "Out of Memory" in text or ("Could not write" in text and str(self._spill) in text):
            raise CldrankError(
                f"DuckDB ran out of memory within the limit of {self._memory_limit}, or of room for what it spills to "
                f"{self._spill.parent}: raise `memory_limit`, or make room there, or name another folder with the "
                f"environment variable TMPDIR ({reason(error)})."
            ) from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except CldrankError:
            raise
        except Exception as error:
            self.check(error)
            raise

    def _created(self, kind: str, query: str) -> Relation:
        name = self.new_name()
        with self._explained():
            self.connection.execute(f"CREATE TEMP {kind} {name} AS {query}")
            return Relation(self, name, self.connection.sql(f"FROM {name} LIMIT 0").to_arrow_table().schema)


def json_type(kind: str) -> str:
    """The type to read a JSON value as; what is not a number, boolean, list or object stays text, at any depth."""
    import duckdb

    parsed = duckdb.sqltype(kind)
    if parsed.id == "list":
        return f"{json_type(str(parsed.children[0][1]))}[]"
    if parsed.id == "struct":
        return f"STRUCT({', '.join(f'{quoted(name)} {json_type(str(inner))}' for name, inner in parsed.children)})"
    return "VARCHAR" if kind.startswith(_AS_TEXT) else kind


def _literal(path: Path) -> str:
    """A path, escaped so that DuckDB does not read it as a pattern."""
    return "".join(f"[{letter}]" if letter in _PATTERN_LETTERS else letter for letter in str(path.absolute()))
