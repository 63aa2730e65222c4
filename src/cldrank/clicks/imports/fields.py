"""Fields of records: by path, in nested columns or in columns whose names have dots, and what their values mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from cldrank.errors import FormatError
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from cldrank.clicks.log.parts import LogPart

_ENVELOPE = "_source"  # where exports of an index keep the document
_BLANKS = "[\\s\u00a0\u3000]+"
_ZONE = "(z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_NUMBER = "^[0-9]{9,16}$"
_LARGEST_SECONDS = 100_000_000_000  # as milliseconds in 1973, as seconds in the year 5138
_MOST_NAMED = 12


def value_at(table: ir.Table, path: str) -> ir.Value | None:
    """The field at a path such as `event_attributes.object.object_id`, nested or not; None if there is none."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        if name not in table.columns:
            continue
        value = table[name]
        for part in parts[end:]:
            kind = value.type()
            if not kind.is_struct() or part not in kind.names:
                break
            value = value[part]
        else:
            return value
    return None


def first_value(table: ir.Table, paths: Sequence[str]) -> ir.Value | None:
    """The first of several fields that has a value, inside the envelope of an export or not."""
    import ibis

    found = [value_at(table, f"{prefix}{path}") for path in paths for prefix in (f"{_ENVELOPE}.", "")]
    there = [value for value in found if value is not None and not value.type().is_null()]
    kinds = {str(value.type()) for value in there}
    if len(kinds) > 1 and not any(value.type().is_nested() for value in there):
        there = [value.cast("string") for value in there]
    return ibis.coalesce(*there) if len(there) > 1 else there[0] if there else None


def id_text(value: ir.Value | None, name: str, part: LogPart) -> ir.StringValue:
    """Ids and words as text; blank ones are null."""
    import ibis

    if value is None:
        return ibis.null("string")
    kind = value.type()
    if kind.is_floating() or kind.is_decimal() or kind.is_nested() or kind.is_binary():
        raise FormatError(f"{name} holds {kind}, not text or whole numbers.", path=part.files[0])
    return (value if kind.is_string() else value.cast("string")).nullif("")


def id_texts(value: ir.Value | None, name: str, part: LogPart) -> ir.ArrayValue:
    """Lists of ids as lists of text."""
    import ibis

    if value is None:
        return ibis.null("array<string>")
    if not value.type().is_array():
        raise FormatError(f"{name} holds {value.type()}, not lists.", path=part.files[0])
    return value if value.type().value_type.is_string() else value.cast("array<string>")


def whole_number(value: ir.Value | None) -> ir.IntegerValue:
    """Positions as whole numbers; null for what is not one."""
    import ibis

    if value is None:
        return ibis.null("int64")
    if value.type().is_integer():
        return value.cast("int64")
    number = value.try_cast("float64")
    sensible = (number.abs() < 1 << 40) & (number % 1 == 0)
    return sensible.fill_null(False).ifelse(number, None).cast("int64")


def moment(value: ir.Value | None) -> ir.TimestampValue:
    """Times as instants: timestamps, ISO text (UTC where it names no zone), seconds or milliseconds since 1970."""
    import ibis

    instant = "timestamp('UTC')"
    if value is None:
        return ibis.null(instant)
    if value.type().is_timestamp() or value.type().is_date():
        return value.cast(instant)
    if value.type().is_integer():
        return _since_1970(value).cast(instant)
    words = value.cast("string").strip()
    zoned = ibis.cases((words.endswith("Z"), words), (words.re_search(_ZONE), words), else_=words + "Z")
    counted = ibis.cases((words.endswith("Z"), None), (words.re_search(_NUMBER), words))
    return ibis.coalesce(_since_1970(counted.try_cast("int64")).cast(instant), zoned.try_cast(instant))


def _since_1970(number: ir.IntegerValue) -> ir.TimestampValue:
    seconds = (number < _LARGEST_SECONDS).ifelse(number, number // 1000)  # whole ones: Spark knows no others
    return seconds.cast("int64").as_timestamp("s")


def normalised(query: ir.StringValue) -> ir.StringValue:
    """A query in lower case, with single blanks between its words."""
    return query.re_replace(_BLANKS, " ").strip().lower().nullif("")


def as_typed(query: ir.StringValue) -> ir.StringValue:
    """A query as it was typed; blank ones are null."""
    return (query.re_replace(_BLANKS, "") == "").ifelse(None, query)


def constant(value: Any, kind: str | None = None) -> ir.Scalar:
    """A value, as a column."""
    import ibis

    return ibis.literal(value, kind)


def required(found: Mapping[str, ir.Value | None], table: ir.Table, part: LogPart, what: str = "events") -> None:
    """Refuse a part that lacks a field; in JSON, every field may be missing."""
    for path, value in found.items():
        if value is None and part.form != "json":
            raise FormatError(
                f"there is no column {path}, which {what} have; the columns are {some(table.columns, _MOST_NAMED)}.",
                path=part.files[0],
            )


def stacked(tables: Sequence[ir.Table]) -> ir.Table:
    """The rows of several tables with the same columns."""
    found = list(tables)
    while len(found) > 1:  # in pairs: engines give up on unions nested as deep as there are parts
        found = [reduce(lambda one, two: one.union(two), found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0]
