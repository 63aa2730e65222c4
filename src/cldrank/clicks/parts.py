"""The parts of a log: its files, what each holds, and how they become one table.

One rule for all parts, however they were named: columns are matched by name, and where types differ the wider one is
taken if no value changes by that; else the part is refused by name.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from cldrank.errors import DataError, FormatError, UsageError
from cldrank.reading import reading

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir

Format = Literal["parquet", "csv", "json"]

HIDDEN = (".", "_")  # as Hive and Spark have it: _SUCCESS, _temporary, .part-0.crc, …
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
_DELIMITERS = ",\t;|"
_LONGEST_HEADER = 1 << 20
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # what Hive calls the folder of rows without a value


@dataclass(frozen=True)
class Batch:
    """Files that can be read at once, since they have one format and the same columns of the same types.

    names       the columns as the files have them; None where only an engine can tell (JSON)
    delimiter   of CSV
    partition   what the names of their folders say, as far as it is asked for
    """

    files: tuple[Path, ...]
    form: Format
    names: tuple[str, ...] | None = None
    delimiter: str = ","
    partition: tuple[tuple[str, str | None], ...] = ()


def batches(paths: Sequence[Path], keys: Iterable[str] = ()) -> list[Batch]:
    """All files below the paths, those that are alike together; `keys` are partitions that are to be told apart."""
    wanted = frozenset(keys)
    found: dict[Any, list[Path]] = {}
    shapes: dict[Any, tuple[tuple[str, ...] | None, str]] = {}
    for path, root in files_below(paths):
        form = format_of(path)
        names, types, delimiter = _shape(path, form)
        here = partition(path, root)
        key = (form, names, types, delimiter, tuple((name, here[name]) for name in here if name in wanted))
        found.setdefault(key, []).append(path)
        shapes[key] = names, delimiter
    return [Batch(tuple(files), key[0], shapes[key][0], shapes[key][1], key[4]) for key, files in found.items()]


def partition_keys(paths: Sequence[Path]) -> list[str]:
    """The names of all partitions, such as day of `log/day=1/part.parquet`."""
    return list(dict.fromkeys(key for path, root in files_below(paths) for key in partition(path, root)))


def partition(path: Path, root: Path) -> dict[str, str | None]:
    """What the folders between a file and the folder that was named say of its rows.

    >>> partition(Path("log/day=1/surface=a%20b/part.parquet"), Path("log"))
    {'day': '1', 'surface': 'a b'}
    """
    pairs = (folder.partition("=") for folder in path.relative_to(root).parts[:-1] if "=" in folder)
    return {key: None if value == _NO_PARTITION else unquote(value) for key, _, value in pairs if key}


def format_of(path: Path) -> Format:
    """The format of a log file, by its name.

    >>> format_of(Path("log.csv.gz"))
    'csv'
    """
    suffixes = [suffix for suffix in map(str.lower, path.suffixes) if suffix not in _COMPRESSIONS]
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise DataError(f"{path}: a log ends in {', '.join(_SUFFIXES)}, perhaps compressed.")
    return _SUFFIXES[suffixes[-1]]


def files_below(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Every file with the folder that it was named by; hidden ones only where they are named themselves."""
    found = []
    for path in paths:
        if path.is_file():
            found.append((path, path.parent))
            continue
        if not path.is_dir():
            raise UsageError(f"{path} is neither a file nor a folder.")
        below = sorted(file for file in path.rglob("*") if file.is_file())
        below = [file for file in below if not any(p.startswith(HIDDEN) for p in file.relative_to(path).parts)]
        if not below:
            raise DataError(f"{path}: the folder holds no files.")
        found += [(file, path) for file in below]
    return found


# -- what a file holds -------------------------------------------------------------------------------------------------


def _shape(path: Path, form: Format) -> tuple[tuple[str, ...] | None, Any, str]:
    """The names of a file's columns, their types in whatever form can be compared, and the delimiter."""
    match form:
        case "parquet":
            import pyarrow.parquet as pq

            with reading(path, "a Parquet file"):
                schema = pq.read_schema(path)
                return tuple(schema.names), tuple(map(str, schema.types)), ","
        case "csv":
            names, delimiter = _header(path)
            return names, None, delimiter
        case "json":
            return None, None, ","


def _header(path: Path) -> tuple[tuple[str, ...], str]:
    """The names in the first line of a CSV file, and what stands between them."""
    import pyarrow as pa

    with reading(path, "a CSV file"), pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(_LONGEST_HEADER).decode("utf-8-sig", errors="replace")
    line = start.lstrip("\r\n").split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=line.count)
    with reading(path, "a CSV file"):
        names = next(csv.reader(io.StringIO(start.lstrip("\r\n"), newline=""), delimiter=delimiter), [])
    if not names:
        raise FormatError("the file is empty; a CSV log begins with the names of its columns.", path=path)
    return tuple(names), delimiter


# -- one table of several ----------------------------------------------------------------------------------------------


def joined(parts: Sequence[tuple[Batch, ir.Table]], columns: Iterable[str]) -> ir.Table:
    """The rows of all parts, with some of their columns."""
    chosen = list(dict.fromkeys(columns))
    kinds = {column: _agreed(column, parts) for column in chosen}
    tables = [_typed(batch, table, kinds) for batch, table in parts]
    while len(tables) > 1:  # in pairs: nested as deep as there are parts, engines would give up
        tables = [reduce(lambda one, two: one.union(two), tables[at : at + 2]) for at in range(0, len(tables), 2)]
    return tables[0]


def _typed(batch: Batch, table: ir.Table, kinds: Mapping[str, dt.DataType]) -> ir.Table:
    import ibis

    said = dict(batch.partition)
    values: dict[str, ir.Value] = {}
    for column, kind in kinds.items():
        if column in said:
            value = said[column]
            values[column] = ibis.null(kind) if value is None else ibis.literal(value).cast(kind)
        elif column not in table.columns or _is_null(table[column].type()):
            values[column] = ibis.null(kind)
        else:
            own = table[column]
            values[column] = own if own.type().copy(nullable=True) == kind else own.cast(kind)
    return table.select(**values)


def _agreed(column: str, parts: Sequence[tuple[Batch, ir.Table]]) -> dt.DataType:
    """The type of a column that fits all parts."""
    import ibis.expr.datatypes as dt

    kinds: dict[dt.DataType, Path] = {}
    for batch, table in parts:
        _check_once(column, batch)
        if column in dict(batch.partition):
            kinds.setdefault(dt.string, batch.files[0])
        elif column in table.columns:
            kinds.setdefault(table[column].type().copy(nullable=True), batch.files[0])
        elif batch.form != "json":  # there, a key that is left out is a missing value
            has = next(other.files[0] for other, rows in parts if column in (*rows.columns, *dict(other.partition)))
            raise DataError(f"{batch.files[0]} has no column {column!r}, which {has} has; the parts of a log agree.")
    known = {kind: path for kind, path in kinds.items() if not _is_null(kind)}
    if not known:
        return dt.string
    agreed = common_type(list(known))
    if agreed is None:
        told = ", ".join(f"{kind} in {path}" for kind, path in known.items())
        raise DataError(f"column {column!r} is {told}; write it with one type in all parts.")
    return agreed


def _check_once(column: str, batch: Batch) -> None:
    """Refuse a column that is there twice: engines would take one of them, or rename it."""
    alike = [name for name in batch.names or () if name.casefold() == column.casefold()]
    if len(alike) > 1:
        raise FormatError(
            f"column {column!r} is there {len(alike)} times ({', '.join(alike)}); engines cannot tell them apart.",
            path=batch.files[0],
        )


def common_type(kinds: Sequence[dt.DataType]) -> dt.DataType | None:
    """The narrowest type that holds the values of all, so that none changes and equal ids stay equal; None if none.

    Whole numbers and truth values become text where others have text. Fractions do not: 1.0 would become another id
    than 1.

    >>> import ibis.expr.datatypes as dt
    >>> [str(common_type([dt.int64, other])) for other in (dt.int32, dt.float32, dt.string)]
    ['int64', 'float64', 'string']
    >>> common_type([dt.float64, dt.string])
    """
    import ibis.expr.datatypes as dt

    first, *others = kinds
    if all(kind == first for kind in others):
        return first
    if all(kind.is_array() for kind in kinds):
        inner = common_type([kind.value_type for kind in kinds])
        return inner and dt.Array(inner)
    if all(kind.is_numeric() or kind.is_boolean() for kind in kinds):
        if not all(_is_whole(kind) for kind in kinds):
            return dt.float64
        return dt.Decimal(38, 0) if any(kind.is_decimal() or kind.is_uint64() for kind in kinds) else dt.int64
    if all(kind.is_timestamp() or kind.is_date() for kind in kinds):
        return dt.Timestamp("UTC" if any(getattr(kind, "timezone", None) for kind in kinds) else None, 6)
    if any(kind.is_string() for kind in kinds) and all(_is_whole(kind) or _is_text(kind) for kind in kinds):
        return dt.string
    return None


def _is_whole(kind: dt.DataType) -> bool:
    return bool(kind.is_integer() or kind.is_boolean() or (kind.is_decimal() and kind.scale == 0))


def _is_text(kind: dt.DataType) -> bool:
    return bool(kind.is_string() or kind.is_temporal() or kind.is_uuid())


def _is_null(kind: dt.DataType) -> bool:
    """Whether a column holds nothing but null; Ibis does not know DuckDB's name for it."""
    return kind.is_null() or (kind.is_unknown() and '"NULL"' in repr(kind))
