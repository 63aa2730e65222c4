"""`Engine` and `Relation`: where queries run, and what they run on.

What to compute is SQL in DuckDB's dialect; an engine opens tables and runs queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cldrank.errors import CldrankError, DataError, FormatError
from cldrank.reading import reading, reason
from cldrank.tables.columns import quoted, root_column, text_literal
from cldrank.tables.frames import frame_columns, frame_name, is_frame
from cldrank.tables.sources import Format, Source, TableFile, csv_header, table_files
from cldrank.wording import listed, some

if TYPE_CHECKING:
    import pyarrow as pa

Choose = Callable[[Sequence[str]], Iterable[str]]
_MOST_NAMED = 3  # files, in a message
_NUMBERS = count(1)


@dataclass(frozen=True, eq=False)
class Relation:
    """A table that an engine has opened, or the result of a query.

    name     what stands for it in SQL, behind FROM
    schema   the names and types of its columns, as Arrow has them
    files    the files that it was read from
    where    what messages call it
    """

    engine: Engine = field(repr=False)
    name: str
    schema: pa.Schema
    files: tuple[TableFile, ...] = ()
    where: str = ""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema.names)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Part:
    """Files that can be read together: of the same format, with the same columns of the same types.

    names         the columns of CSV and Parquet
    partition     the values in the names of their folders, as far as they are wanted
    json_schema   the columns of JSON, where the caller knows them; others are not read
    """

    files: tuple[TableFile, ...]
    format: Format
    names: tuple[str, ...] | None = None
    delimiter: str = ","
    partition: tuple[tuple[str, str | None], ...] = ()
    json_schema: pa.Schema | None = None

    @property
    def paths(self) -> list[Path]:
        """Where the files lie."""
        return [file.path for file in self.files]


class Engine(ABC):
    """Something that opens tables and runs SQL on them: DuckDB in this process, or Spark."""

    name: ClassVar[str]

    # -- what an engine must do ----------------------------------------------------------------------------------------

    @abstractmethod
    def read_part(self, part: Part) -> Relation:
        """The rows of the files of a part: of exactly these, whatever characters their names contain."""

    @abstractmethod
    def read_frame(self, frame: Any, columns: Sequence[str] | None) -> Relation:
        """The rows of a frame."""

    @abstractmethod
    def sql(self, query: str) -> Relation:
        """The result of a query, which is computed whenever it is read."""

    @abstractmethod
    def hold(self, query: str) -> Relation:
        """The result of a query, computed once and kept until the engine closes."""

    @abstractmethod
    def release(self) -> None:
        """Give up what was held."""

    @abstractmethod
    def batches(self, query: str, rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        """The result of a query, batch by batch."""

    @abstractmethod
    def arrow(self, query: str) -> pa.Table:
        """The result of a query as an Arrow table."""

    @abstractmethod
    def save(self, query: str, path: Path) -> None:
        """Write the result of a query as Parquet, without holding it in memory."""

    # -- what follows from that ----------------------------------------------------------------------------------------

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The few rows of a result."""
        result: list[dict[str, Any]] = self.arrow(query).to_pylist()
        return result

    def row(self, query: str) -> dict[str, Any]:
        """The only row of a result."""
        (row,) = self.rows(query)
        return row

    def open(
        self,
        source: Source | Any,
        choose: Choose | None = None,
        *,
        what: str = "table",
        json_schema: pa.Schema | None = None,
    ) -> Relation:
        """The table that a source holds: files, folders, patterns, a name of the catalogue, or a frame.

        The parts of a table are matched by the names of their columns. Where types differ, the narrowest type that
        keeps every value is taken, or the part is refused. Folders such as `day=1` below a folder that is named are
        columns as well.

        choose        picks, from the names of all columns, those that are wanted; parts only have to agree on these
        json_schema   the columns of JSON files, where they are known: else a pass over the files finds them
        """
        if is_frame(source):
            columns = None if choose is None else _roots(frame_columns(source), choose)
            table = self.read_frame(source, columns)
            return Relation(self, table.name, table.schema, (), frame_name(source))
        files = table_files(source, what=what)
        parts = [(part, self._read(part)) for part in _parts(files, frozenset(), json_schema)]
        keys = list(dict.fromkeys(key for file in files for key in file.partition))
        names = list(dict.fromkeys([*(name for _, table in parts for name in table.columns), *keys]))
        wanted = names if choose is None else _roots(names, choose)
        if names and not wanted:
            paths = some([file.path for file in files], _MOST_NAMED)
            raise DataError(f"{paths}: there is none of the columns that are read here; it has {listed(names)}.")
        kept_apart = frozenset(wanted) & frozenset(keys)
        if kept_apart:
            parts = [(part, self._read(part)) for part in _parts(files, kept_apart, json_schema)]
        if len(parts) == 1 and not kept_apart:
            part, table = parts[0]
            _check_unique(wanted, part)
            if wanted != table.columns:
                table = self.sql(f"SELECT {', '.join(map(quoted, wanted))} FROM {table}")
        else:
            table = self._union(parts, wanted)
        return Relation(self, table.name, table.schema, tuple(files), some([file.path for file in files], _MOST_NAMED))

    def new_name(self) -> str:
        """A name that no other table has."""
        return f"cldrank_{next(_NUMBERS)}"

    def _read(self, part: Part) -> Relation:
        try:
            table = self.read_part(part)
        except (CldrankError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:  # every engine has its own exceptions
            self.check(error)
            files = some(part.paths, _MOST_NAMED)
            raise DataError(f"{files} cannot be read as {part.format} ({reason(error)}).") from error
        return Relation(self, table.name, table.schema, part.files, some(part.paths, _MOST_NAMED))

    def check(self, error: Exception) -> None:
        """Raise errors that are not the fault of a file: interruptions, or memory and disk that ran out."""
        del error

    def _union(self, parts: Sequence[tuple[Part, Relation]], columns: Sequence[str]) -> Relation:
        from cldrank.tables.types import sql_type

        kinds = {column: sql_type(_agreed(column, parts)) for column in columns}
        selects = []
        for part, table in parts:
            own = {column: quoted(column) for column in table.columns}
            own |= {key: "NULL" if value is None else text_literal(value) for key, value in part.partition}
            values = [
                f"CAST({own.get(column, 'NULL')} AS {kind}) AS {quoted(column)}" for column, kind in kinds.items()
            ]
            selects.append(f"SELECT {', '.join(values)} FROM {table}")
        return self.sql(_stacked(selects))


def _stacked(selects: Sequence[str]) -> str:
    """The rows of several queries, in pairs: engines give up on unions that are nested as deep as there are parts."""
    if len(selects) == 1:
        return f"({selects[0]})"
    half = len(selects) // 2
    upper, lower = _stacked(selects[:half]), _stacked(selects[half:])
    return f"{upper if half == 1 else f'({upper})'} UNION ALL {lower if len(selects) - half == 1 else f'({lower})'}"


def _roots(names: Sequence[str], choose: Choose) -> list[str]:
    """The columns that are wanted, or that hold the fields that are."""
    return list(dict.fromkeys(root_column(names, path) or path for path in choose(names)))


def _parts(files: Sequence[TableFile], keys: frozenset[str], json_schema: pa.Schema | None) -> list[Part]:
    """Files grouped by what they have in common; partitions by `keys` are kept apart."""
    groups: dict[Any, list[TableFile]] = {}
    for file in files:
        partition = tuple((name, value) for name, value in file.partition.items() if name in keys)
        groups.setdefault((file.format, *_shape(file), partition), []).append(file)
    return [
        Part(tuple(group), form, names, delimiter, partition, json_schema)
        for (form, names, _, delimiter, partition), group in groups.items()
    ]


def _shape(file: TableFile) -> tuple[tuple[str, ...] | None, tuple[str, ...], str]:
    """The columns of a file and their types, as far as they are known before it is read, and the delimiter."""
    if file.format == "csv":
        names, delimiter = csv_header(file.path)
        return names, (), delimiter
    if file.format != "parquet":
        return None, (), ","
    import pyarrow.parquet as pq

    with reading(file.path, "a Parquet file"):
        schema = pq.read_schema(file.path)
    return tuple(schema.names), tuple(map(str, schema.types)), ","


def _agreed(column: str, parts: Sequence[tuple[Part, Relation]]) -> pa.DataType:
    """A type for a column that fits all parts."""
    import pyarrow as pa

    from cldrank.tables.types import common_type

    kinds: dict[pa.DataType, str] = {}
    lacking = []
    for part, table in parts:
        _check_unique([column], part)
        if column in dict(part.partition) or column in table.columns:
            kind = pa.string() if column in dict(part.partition) else table.schema.field(column).type
            kinds.setdefault(kind, table.where)
        elif part.format != "json":  # in JSON, a missing key is a missing value
            lacking.append(part.paths[0])
    if lacking:
        where = next(iter(kinds.values()))
        raise DataError(f"{lacking[0]} has no column {column!r}, but {where} has; all parts must have it.")
    kinds.pop(pa.null(), None)
    agreed = common_type(list(kinds)) if kinds else pa.string()
    if agreed is None:
        types = ", ".join(f"{kind} in {where}" for kind, where in kinds.items())
        raise DataError(f"column {column!r} is {types}; write it with the same type in all parts.")
    return agreed


def _check_unique(columns: Sequence[str], part: Part) -> None:
    """Refuse a column that occurs twice: an engine would take one of them, or rename it."""
    if part.names is None:
        return
    folded = [name.casefold() for name in part.names]
    for column in columns:
        if folded.count(column.casefold()) > 1:
            raise FormatError(f"column {column!r} occurs more than once; names must differ.", path=part.paths[0])
