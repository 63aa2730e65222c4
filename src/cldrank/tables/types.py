"""Types of columns, as Arrow has them: which type holds the values of several."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from cldrank.tables.columns import quoted


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The narrowest type that holds all values unchanged, so that equal ids stay equal; None if there is no such type.

    Whole numbers and booleans become text where other parts have text. Fractions do not: 1.0 would become another
    id than 1. Lists and nested values are alike or have none.

    >>> [str(common_type([pa.int64(), other])) for other in (pa.int32(), pa.float32(), pa.string())]
    ['int64', 'double', 'string']
    >>> common_type([pa.float64(), pa.string()])
    """
    first, *others = kinds = list(dict.fromkeys(map(_plain, kinds)))
    if not others:
        return first
    if all(is_number(kind) or types.is_boolean(kind) for kind in kinds):
        if not all(map(is_whole, kinds)):
            return pa.float64()
        wide = any(types.is_decimal(kind) or types.is_uint64(kind) for kind in kinds)
        return pa.decimal128(38, 0) if wide else pa.int64()
    if all(types.is_timestamp(kind) or types.is_date(kind) for kind in kinds):
        return pa.timestamp("us", "UTC" if any(getattr(kind, "tz", None) for kind in kinds) else None)
    if any(map(is_text, kinds)) and all(is_whole(kind) or is_text(kind) or types.is_temporal(kind) for kind in kinds):
        return pa.string()
    return None


def is_text(kind: pa.DataType) -> bool:
    """Whether a type holds text."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a type holds lists."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type holds numbers; true and false are none."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def is_whole(kind: pa.DataType) -> bool:
    """Whether a type holds whole numbers only, or true and false."""
    return bool(types.is_integer(kind) or types.is_boolean(kind) or (types.is_decimal(kind) and kind.scale == 0))


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without dictionaries and with the usual kind of text."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if is_text(kind) else kind


_TYPE_NAMES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "halffloat": "FLOAT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
    "date64[ms]": "DATE",
    "binary": "BLOB",
    "large_binary": "BLOB",
}


def sql_type(kind: pa.DataType) -> str:
    """What SQL calls a type, in DuckDB's dialect."""
    if types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(entry.name)} {sql_type(entry.type)}' for entry in kind)})"
    if is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    if is_text(kind):
        return "VARCHAR"
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    return _TYPE_NAMES.get(str(kind), "VARCHAR")
