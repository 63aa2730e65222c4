r"""Fields of a table by their path, and SQL that reads their values as ids, whole numbers, true or false, and instants.

A path such as `event_attributes.object.object_id` leads into columns, also through a list (`locate`).

Other functions take SQL for a value and the Arrow type of that value, and give SQL in DuckDB's dialect. Values that
cannot be read become NULL; `odd` says which those are. Text is expected as `trimmed` gives it, in a column of its own:
the SQL names its value several times.

>>> print(whole("rank", pa.int32()).value)
CAST(rank AS BIGINT)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import types

from cldrank.data.rows import LONGEST_ID
from cldrank.errors import FormatError
from cldrank.tables import Relation, quoted
from cldrank.tables.columns import root_column
from cldrank.tables.types import is_list, is_number, is_text
from cldrank.wording import some

UNITS = {"seconds": 10**11, "milliseconds": 10**14, "microseconds": 10**17, "nanoseconds": 9 * 10**18}  # sizes below
_TRUE, _FALSE = ("TRUE", "T", "YES", "Y"), ("FALSE", "F", "NO", "N")
_MOST_WHOLE = 1 << 53  # from here on, floating point cannot hold every whole number
_LARGEST_NUMBER = 1 << 40
_YEARS = 1990, 2100  # in which logs are written; times outside of them are mistakes, or dates such as 20241114
_SECOND = 10**6  # in microseconds
_DATE = r"[0-9]{4}[-/](0?[1-9]|1[0-2])[-/](0?[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
_USUAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z$"
_OFFSET = r":[0-9]{2}(?:[.,][0-9]+)?[ ]*([+-][01][0-9]:?(?:[0-5][0-9])?)$"  # behind a time: a date ends alike
_ZULU = r"[ ]*([+]00:?00 )?(Z|UTC|GMT)$"
_ZONE = rf"{_OFFSET}|{_ZULU}"
_MOST_NAMED = 20  # paths, in a message
_ZONE_ALONE = r"[ ]*([+]00:?00 )?(Z|UTC|GMT|[+-][01][0-9]:?([0-5][0-9])?)$"


@dataclass(frozen=True)
class Cast:
    """SQL for a value, NULL where it cannot be read, and a condition for values that are there but unreadable."""

    value: str
    odd: str = "FALSE"


def trimmed(sql: str) -> str:
    """Text without the space around it, in capitals; what `whole`, `number` and `instant` expect of text."""
    return f"upper(trim({sql}))"


# -- ids and numbers ---------------------------------------------------------------------------------------------------


def identifier(sql: str, kind: pa.DataType, what: str = "the column", where: str = "the table") -> Cast:
    """Ids as whole numbers or text; `odd` are those that a cast would change, or that are too long to be ids."""
    if is_text(kind):
        text = f"CAST({sql} AS VARCHAR)"  # Arrow calls UUIDs text, DuckDB does not
        return Cast(f"CASE WHEN strlen({text}) <= {LONGEST_ID} THEN {text} END", f"strlen({text}) > {LONGEST_ID}")
    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return Cast(sql)
    if is_number(kind):
        number = f"CAST({sql} AS DOUBLE)"
        missing = f"isnan({number})"  # as pandas writes missing numbers
        odd = f"NOT {missing} AND (abs({number}) >= {_MOST_WHOLE} OR {number} <> floor({number}))"
        return Cast(f"CASE WHEN NOT {missing} AND NOT ({odd}) THEN CAST({number} AS BIGINT) END", odd)
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise FormatError(f"{what} holds {kind}, not text or whole numbers.", path=where)
    return Cast(f"CAST({sql} AS VARCHAR)")  # dates, UUIDs, booleans


def number(
    sql: str, kind: pa.DataType, what: str = "the column", where: str = "the table", *, truth: bool = False
) -> str:
    """Numbers in floating point; NULL for what is not a number. `truth`: words such as yes are 1, no is 0."""
    if is_text(kind):
        words = f"WHEN {sql} IN {_TRUE} THEN 1 WHEN {sql} IN {_FALSE} THEN 0"
        read = f"TRY_CAST({sql} AS DOUBLE)"
        return f"CASE {words} ELSE {read} END" if truth else read
    if is_number(kind) or types.is_null(kind):
        return f"CAST({sql} AS DOUBLE)"
    raise FormatError(f"{what} holds {kind}, not numbers.", path=where)


def whole(
    sql: str, kind: pa.DataType, what: str = "the column", where: str = "the table", *, truth: bool = False
) -> Cast:
    """Whole numbers up to 2^40; `truth`: true and false, also in words, are 1 and 0."""
    if (types.is_integer(kind) and not types.is_uint64(kind)) or (types.is_boolean(kind) and truth):
        return Cast(f"CAST({sql} AS BIGINT)")
    sensible = f"n BETWEEN -{_LARGEST_NUMBER} AND {_LARGEST_NUMBER} AND n = floor(n)"
    value = _let("n", number(sql, kind, what, where, truth=truth), f"CASE WHEN {sensible} THEN CAST(n AS BIGINT) END")
    given = f"coalesce({sql}, '') <> ''" if is_text(kind) else f"{sql} IS NOT NULL"
    return Cast(value, f"{given} AND {value} IS NULL")


# -- instants ----------------------------------------------------------------------------------------------------------


def instant(sql: str, kind: pa.DataType, zone: str = "UTC") -> str:
    """Times as timestamps in UTC: typed, text, or numbers since 1970, whose size tells their unit.

    A time that names no zone is in `zone`. NULL for what cannot be read, and for times in which no logs were written
    (before 1990, from 2100 on).
    """
    first, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * _SECOND for year in _YEARS)
    micros = _micros(sql, kind, zone)
    simple = types.is_timestamp(kind) and "lambda" not in micros  # computed as fast as it is bound to a name
    name = micros if simple else "moment"
    likely = f"CASE WHEN {name} >= {first} AND {name} < {end} THEN {name} END"
    return f"make_timestamp({likely if simple else _let(name, micros, likely)})"


def time_form(sql: str, kind: pa.DataType, instant: str) -> str:
    """How a time is written: 'zone' or 'wall', a unit such as 'seconds', or '?' and what could not be read.

    instant   SQL for the time as `instant` reads it
    """
    size = f"abs(TRY_CAST({sql} AS DOUBLE))"
    units = " ".join(f"WHEN {size} < {bound} THEN '{unit}'" for unit, bound in UNITS.items())
    form = f"CASE {units} END"
    if types.is_timestamp(kind) or types.is_date(kind):
        form = "'zone'" if getattr(kind, "tz", None) else "'wall'"
    elif is_text(kind):
        zoned = f"WHEN regexp_matches(upper({sql}), '{_ZONE}') THEN 'zone' ELSE 'wall'"
        form = f"CASE WHEN {sql} LIKE '%Z' THEN 'zone' {units} {zoned} END"
    given = f"{sql} <> ''" if is_text(kind) else f"{sql} IS NOT NULL"
    return f"CASE WHEN {instant} IS NOT NULL THEN {form} WHEN {given} THEN '?' || CAST({sql} AS VARCHAR) END"


def _micros(sql: str, kind: pa.DataType, zone: str) -> str:
    """Microseconds since 1970."""
    if is_text(kind):
        counted = _let("counted", f"TRY_CAST({sql} AS DOUBLE)", _since_1970("counted", False))
        usual = f"WHEN regexp_matches({sql}, '{_USUAL}') THEN epoch_us(TRY_CAST({sql} AS TIMESTAMP))"  # much faster
        return f"CASE {usual} ELSE coalesce({counted}, {_in_text(f'upper({sql})', zone)}) END"
    if is_number(kind):
        return _since_1970(sql, types.is_integer(kind) and not types.is_uint64(kind))
    if types.is_timestamp(kind) or types.is_date(kind):
        has_zone = getattr(kind, "tz", None) is not None
        moment = f"epoch_us(CAST({sql} AS {'TIMESTAMPTZ' if has_zone else 'TIMESTAMP'}))"
        return moment if has_zone or zone == "UTC" else _let("wall", moment, f"wall - {_wall_offset(zone)}")
    return "CAST(NULL AS BIGINT)"


def _since_1970(sql: str, is_whole: bool) -> str:
    """A number since 1970 in microseconds: today's times have 13 digits in milliseconds."""
    cases = []
    for power, bound in zip((6, 3, 0, -3), UNITS.values(), strict=True):
        scaled = f"CAST(round(CAST({sql} AS DOUBLE) * 1e{power}) AS BIGINT)"
        if is_whole:
            scaled = f"CAST({sql} AS BIGINT) * {10**power}" if power >= 0 else f"CAST({sql} AS BIGINT) // {10**-power}"
        cases.append(f"WHEN {sql} > -{bound} AND {sql} < {bound} THEN {scaled}")
    return f"CASE {' '.join(cases)} END"


def _in_text(text: str, zone: str) -> str:
    """A date and a time. The zone is removed first: engines ignore it, or each reads it in its own way."""
    zoned = f"regexp_matches({text}, '{_ZONE}')"
    bare = f"CASE WHEN {zoned} THEN regexp_replace({text}, '{_ZONE_ALONE}', '') ELSE {text} END"
    readable = rf"^{_DATE}([T ]{_CLOCK})?$"  # of more, engines drop the rest
    read = f"CASE WHEN regexp_matches(bare, '{readable}') THEN replace(replace(bare, '/', '-'), ',', '.') END"
    micros = f"epoch_us(TRY_CAST({_let('bare', bare, read)} AS TIMESTAMP))"
    hours, minutes = (f"coalesce(TRY_CAST(substr(ahead, {start}, 2) AS BIGINT), 0)" for start in (2, 4))
    seconds = f"CASE WHEN ahead LIKE '-%' THEN -60 ELSE 60 END * (60 * {hours} + {minutes})"
    offset = _let("ahead", f"replace(regexp_extract({text}, '{_OFFSET}', 1), ':', '')", seconds)  # +0130, or nothing
    if zone == "UTC":
        return f"{micros} - {_SECOND} * {offset}"
    return _let("wall", micros, f"wall - CASE WHEN {zoned} THEN {_SECOND} * {offset} ELSE {_wall_offset(zone)} END")


def _wall_offset(zone: str) -> str:
    """The microseconds by which the clocks of a zone are ahead of UTC when they show `wall`."""
    ends, last = _wall_offsets(zone)
    return f"CASE {' '.join(f'WHEN wall < {end} THEN {offset}' for end, offset in ends)} ELSE {last} END"


@lru_cache(maxsize=8)
def _wall_offsets(zone: str) -> tuple[list[tuple[int, int]], int]:
    """The times on the clock at which offsets from UTC end, each with its offset, and the last offset; in microseconds.

    A time in an hour that occurs twice is taken in the first. Times in an hour that is skipped are read as if the clock
    had not been put forward. Engines differ in this; Python's datetime does the same.
    """
    place, micro, quarter = ZoneInfo(zone), timedelta(microseconds=1), timedelta(minutes=15)  # clocks change on these
    start, end = (datetime(year, 1, 1, tzinfo=place) for year in _YEARS)

    def offset(wall: datetime) -> timedelta:
        return wall.utcoffset() or timedelta()

    ends = [(0, offset(start) // micro)]
    for day in (start + timedelta(days=number) for number in range((end - start).days)):
        if offset(day + timedelta(days=1)) != offset(day):
            change = next(wall for at in range(97) if offset(wall := day + at * quarter) != offset(day))
            shown = change.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
            ends.append((shown // micro, offset(day) // micro))
    return ends, offset(end) // micro


def _let(name: str, value: str, body: str) -> str:
    """SQL for a body that uses a value by its name; a value that is repeated would be computed again."""
    return f"list_transform([{value}], lambda {name}: {body})[1]"


# -- fields inside of columns ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """Where a path leads to in a table.

    path    as far as its end, or the first list on its way
    sql     SQL for what is there
    kind    its type
    inner   the fields to take from each element of the list
    """

    path: str
    sql: str
    kind: pa.DataType
    inner: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether there is a list of values for each row."""
        return is_list(self.kind)

    def element(self, sql: str) -> Field:
        """The value in an element of the list, given SQL for the element."""
        kind = self.kind.value_type
        for name in self.inner:
            sql, kind = f"({sql}).{quoted(name)}", kind.field(name).type
        return Field(self.path, sql, _plain_type(kind))


def locate(table: Relation, path: str) -> Field:
    """What a path leads to in a table that has the column which it begins with."""
    place = find_field(table, path)
    if place is None:
        root = root_column(table.columns, path)
        there = some(paths_below(table.schema.field(root).type, root), _MOST_NAMED) if root else "no such column"
        raise FormatError(f"there is no field {path!r}; there is {there}.", path=table.where)
    return place


def find_field(table: Relation, path: str) -> Field | None:
    """What a path leads to; None if nothing is there. A column whose own name has dots comes first."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        head = ".".join(parts[:end])
        if head in table.columns:
            place = _below(head, quoted(head), table.schema.field(head).type, parts[end:])
            if place is not None:
                return place
    return None


def _below(path: str, sql: str, kind: pa.DataType, names: list[str]) -> Field | None:
    """From a value down some names; behind the first list, they are taken from its elements."""
    for at, name in enumerate(names):
        if is_list(kind):
            inner = _below(path, sql, kind.value_type, names[at:])
            return None if inner is None or is_list(inner.kind) else Field(path, sql, kind, tuple(names[at:]))
        if not types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        path, sql, kind = f"{path}.{name}", f"({sql}).{quoted(name)}", kind.field(name).type
    return Field(path, sql, _plain_type(kind))


def paths_below(kind: pa.DataType, name: str) -> Iterator[str]:
    """The paths of all values below a column."""
    while is_list(kind):
        kind = kind.value_type
    if not types.is_struct(kind):
        yield name
        return
    for entry in kind:
        yield from paths_below(entry.type, f"{name}.{entry.name}")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of values, whether or not a dictionary holds them."""
    return kind.value_type if types.is_dictionary(kind) else kind
