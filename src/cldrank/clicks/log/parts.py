"""The parts of a log: files that are alike, and how several parts become one table.

One rule for all parts: columns are matched by name. Where types differ, the wider one is taken if that changes no
value; otherwise the part is refused by name.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.nested import locate, paths_below, root_of
from cldrank.clicks.log.paths import Format, files_below, format_of, partition
from cldrank.data.formats.lines import csv_header
from cldrank.errors import DataError, FormatError
from cldrank.reading import reading
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir

_MOST_NAMED = 20  # fields, in a message


@dataclass(frozen=True)
class LogPart:
    """Files that can be read together: one format, and the same columns of the same types.

    names       the columns as the files have them; None where only the engine knows them (JSON)
    delimiter   of CSV
    partition   the keys and values in the names of their folders, as far as they are wanted
    """

    files: tuple[Path, ...]
    form: Format
    names: tuple[str, ...] | None = None
    delimiter: str = ","
    partition: tuple[tuple[str, str | None], ...] = ()


def log_parts(paths: Sequence[Path], keys: Iterable[str] = (), left_out: Container[Path] = ()) -> list[LogPart]:
    """All files below the paths, grouped by what they have in common; partitions of `keys` are kept apart."""
    wanted = frozenset(keys)
    found: dict[Any, list[Path]] = {}
    shapes: dict[Any, tuple[tuple[str, ...] | None, str]] = {}
    for path, root in files_below(paths, left_out):
        form = format_of(path)
        names, types, delimiter = _shape(path, form)
        here = partition(path, root)
        key = (form, names, types, delimiter, tuple((name, here[name]) for name in here if name in wanted))
        found.setdefault(key, []).append(path)
        shapes[key] = names, delimiter
    return [LogPart(tuple(files), key[0], shapes[key][0], shapes[key][1], key[4]) for key, files in found.items()]


def partition_keys(paths: Sequence[Path], left_out: Container[Path] = ()) -> list[str]:
    """The keys of all partitions, such as day in `log/day=1/part.parquet`."""
    return list(dict.fromkeys(key for path, root in files_below(paths, left_out) for key in partition(path, root)))


# -- what a file holds -------------------------------------------------------------------------------------------------


def _shape(path: Path, form: Format) -> tuple[tuple[str, ...] | None, Any, str]:
    """The columns of a file, their types in a form that can be compared, and the delimiter."""
    match form:
        case "parquet":
            import pyarrow.parquet as pq

            with reading(path, "a Parquet file"):
                schema = pq.read_schema(path)
                return tuple(schema.names), tuple(map(str, schema.types)), ","
        case "csv":
            names, delimiter = csv_header(path)
            return names, None, delimiter
        case "json":
            return None, None, ","


# -- one table of several ----------------------------------------------------------------------------------------------


def union(parts: Sequence[tuple[LogPart, ir.Table]], columns: Iterable[str]) -> ir.Table:
    """The rows of all parts, with some of their columns, or of the fields inside of them.

    A field is found by its path (see `cldrank.clicks.log.nested`), as far as to the first list on its way, and becomes
    a column of that name. So parts may differ in the other fields.
    """
    chosen = list(dict.fromkeys(_name(column, parts) for column in columns))
    kinds = {column: _agreed(column, parts) for column in chosen}
    tables = [_typed(part, table, kinds) for part, table in parts]
    while len(tables) > 1:  # in pairs: engines give up on unions nested as deep as there are parts
        tables = [reduce(lambda one, two: one.union(two), tables[at : at + 2]) for at in range(0, len(tables), 2)]
    return tables[0]


def _name(path: str, parts: Sequence[tuple[LogPart, ir.Table]]) -> str:
    """The path as far as it leads in all parts that have it: to its end, or to a list."""
    found: dict[str, Path] = {}
    for part, table in parts:
        place = locate(table, path)
        if path in dict(part.partition):
            found.setdefault(path, part.files[0])
        elif place is not None:
            found.setdefault(place.name, part.files[0])
    if len(found) > 1:
        where = ", ".join(f"{name!r} in {file}" for name, file in found.items())
        raise DataError(f"{path!r} leads to {where}; write it in one way in all parts.")
    if not found:
        part, table = next((one for one in parts if root_of(one[1].columns, path)), parts[0])
        root = root_of(table.columns, path)
        there = some(paths_below(table[root].type(), root), _MOST_NAMED) if root else "no such column"
        raise FormatError(f"there is no field {path!r}; there is {there}.", path=part.files[0])
    return next(iter(found))


def _value(table: ir.Table, name: str) -> ir.Value | None:
    """A column, or the field that a path leads to."""
    place = locate(table, name)
    return None if place is None else place.value


def _typed(part: LogPart, table: ir.Table, kinds: Mapping[str, dt.DataType]) -> ir.Table:
    import ibis

    keys = dict(part.partition)
    values: dict[str, ir.Value] = {}
    for column, kind in kinds.items():
        if column in keys:
            value = keys[column]
            values[column] = ibis.null(kind) if value is None else ibis.literal(value).cast(kind)
            continue
        own = _value(table, column)
        if own is None or _is_null(own.type()):
            values[column] = ibis.null(kind)
        else:
            values[column] = own if own.type().copy(nullable=True) == kind else own.cast(kind)
    return table.select(**values)


def _agreed(column: str, parts: Sequence[tuple[LogPart, ir.Table]]) -> dt.DataType:
    """A type for a column that fits all parts."""
    import ibis.expr.datatypes as dt

    kinds: dict[dt.DataType, Path] = {}
    for part, table in parts:
        _check_unique(column, part)
        if column in dict(part.partition):
            kinds.setdefault(dt.string, part.files[0])
            continue
        own = _value(table, column)
        if own is not None:
            kinds.setdefault(own.type().copy(nullable=True), part.files[0])
        elif part.form != "json":  # in JSON, a missing key is a missing value
            has = next(
                other.files[0] for other, rows in parts if column in dict(other.partition) or locate(rows, column)
            )
            raise DataError(f"{part.files[0]} has no column {column!r}, but {has} has; the parts of a log must agree.")
    known = {kind: path for kind, path in kinds.items() if not _is_null(kind)}
    if not known:
        return dt.string
    agreed = common_type(list(known))
    if agreed is None:
        types = ", ".join(f"{kind} in {path}" for kind, path in known.items())
        raise DataError(f"column {column!r} is {types}; write it with one type in all parts.")
    return agreed


def _check_unique(column: str, part: LogPart) -> None:
    """Refuse a column that occurs twice: an engine would take one of them, or rename it."""
    column = root_of(part.names or (), column) or column
    alike = [name for name in part.names or () if name.casefold() == column.casefold()]
    if len(alike) > 1:
        raise FormatError(
            f"column {column!r} occurs {len(alike)} times ({', '.join(alike)}); engines cannot tell them apart.",
            path=part.files[0],
        )


def common_type(kinds: Sequence[dt.DataType]) -> dt.DataType | None:
    """The narrowest type that holds all values unchanged, so that equal ids stay equal; None if there is no such type.

    Whole numbers and booleans become text where other parts have text. Fractions do not: 1.0 would become another
    id than 1.

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
    """Whether a column holds only nulls; Ibis does not know DuckDB's name for that type."""
    return kind.is_null() or (kind.is_unknown() and '"NULL"' in repr(kind))
