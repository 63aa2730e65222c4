"""Timestamps of any kind as instants in UTC: typed, as text, or as numbers since 1970 whose size tells their unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.engines import INSTANT
from cldrank.clicks.log.layout import zone
from cldrank.clicks.log.values import ValueReader, stripped
from cldrank.wording import count

if TYPE_CHECKING:
    import ibis.expr.types as ir

_SECOND = 10**6  # in microseconds
_UNITS = {"seconds": 10**11, "milliseconds": 10**14, "microseconds": 10**17, "nanoseconds": 9 * 10**18}  # below
_OFFSET = r":\d\d(?:[.,]\d+)?\s*([+-])([01]\d):?([0-5]\d)?$"  # behind a time: a date ends alike
_OFFSET_ALONE = r"\s*[+-]\d\d:?(\d\d)?$"
_ZULU = r"\s*(\+00:?00 )?(Z|UTC|GMT)$"
_DATE = r"\d{4}[-/](0?[1-9]|1[0-2])[-/](0?[1-9]|[12]\d|3[01])"
_CLOCK = r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d{1,9})?)?"
_WALL = rf"^{_DATE}([T ]{_CLOCK})?$"  # all that is read as text: of more, engines drop the rest, each in its own way
_YEARS = 1970, 2070  # in which clocks are known to change
_LOGGED = 1990, 2100  # in which logs are written; times outside of them are mistakes, or dates such as 20241114
_CALLED = {"duckdb": ("epoch_us", "make_timestamp"), "pyspark": ("unix_micros", "timestamp_micros")}


@dataclass(frozen=True)
class TimesFound:
    """What the timestamps of a log turned out to be: `unit` in a word or two, and sentences."""

    unit: str
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """The timestamps of a log, and how to read them.

    rows      a table with the column `timestamp`, as it was logged
    zone      the time zone of what does not say its own
    engine    the name of the Ibis backend
    """

    rows: ir.Table
    zone: str
    engine: str
    values: ValueReader

    def instant(self, timestamp: ir.Value) -> ir.TimestampValue:
        """Timestamps as instants; null for what cannot be read, and for times at which there were no logs."""
        instant = self._any_instant(timestamp)
        first, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * _SECOND for year in _LOGGED)
        micros = self._micros(instant)
        return ((micros >= first) & (micros < end)).ifelse(instant, None)

    def _any_instant(self, timestamp: ir.Value) -> ir.TimestampValue:
        import ibis

        kind: Any = timestamp.type()
        if kind.is_numeric() and not kind.is_boolean():
            return self._at(_since_1970(timestamp))
        if kind.is_string():
            return self._at(
                ibis.coalesce(_since_1970(stripped(timestamp).try_cast("float64")), self._in_text(timestamp))
            )
        if kind.is_unknown():  # DuckDB's nanoseconds with a time zone, which Ibis does not know
            return timestamp.try_cast(INSTANT)
        if not (kind.is_date() or kind.is_timestamp()):
            return ibis.null(INSTANT)
        instant = timestamp.cast(INSTANT)
        if self.zone == "UTC" or getattr(kind, "timezone", None):
            return instant
        return self._at(self._from_wall(self._micros(instant)))

    def found(self) -> TimesFound:
        """What they are, from a pass over all of them where their type does not say."""
        raw = self.rows.timestamp
        kind: Any = raw.type()
        if not (kind.is_numeric() or kind.is_string()) or kind.is_boolean():
            if not (kind.is_date() or kind.is_timestamp() or kind.is_unknown()):
                return TimesFound("timestamps", (f"timestamps are {kind}, which is not a time",))
            naive = kind.is_date() or (kind.is_timestamp() and not kind.timezone)
            return TimesFound("timestamps", ((self._wall,) if naive else ()) + self._unread(raw))
        is_text, instant = kind.is_string(), self.instant(raw)
        text = stripped(raw) if is_text else raw
        number = text.try_cast("float64")
        size = number.isnan().ifelse(None, number).abs()
        given = (text != "").fill_null(False) if is_text else raw.notnull()
        asked = {name: (instant.notnull() & (size < bound)).sum() for name, bound in _UNITS.items()}
        asked |= self._asked(raw, given)
        if is_text:
            asked["walls"] = (instant.notnull() & number.isnull() & ~_says_zone(text)).sum()
        (found,) = self.values.rows(self.rows.aggregate(**asked))
        return self._described(found)

    def _asked(self, raw: ir.Value, given: ir.BooleanValue) -> dict[str, ir.Value]:
        """How many times are given, how many of them cannot be read, and one of those."""
        unread = given & self.instant(raw).isnull()
        example = unread.ifelse(raw.cast("string"), None).max()
        return {"rows": given.sum(), "unread": unread.sum(), "example": example}

    def _unread(self, raw: ir.Value) -> tuple[str, ...]:
        """What cannot be read of times that need no reading: those at which there were no logs."""
        (found,) = self.values.rows(self.rows.aggregate(**self._asked(raw, raw.notnull())))
        return _unread(found["rows"], found["unread"], found["example"])

    def _described(self, found: dict[str, Any]) -> TimesFound:
        """Counts in words; those of a unit include those of smaller ones."""
        example = found.pop("example")
        counts = {name: int(value or 0) for name, value in found.items()}
        below = [0, *(counts[name] for name in _UNITS)]
        units = {name: counts[name] - less for name, less in zip(_UNITS, below, strict=False)}
        used = {name: number for name, number in units.items() if number}
        sentences = []
        if len(used) == 1 and sum(used.values()) + counts["unread"] == counts["rows"]:
            sentences.append(f"timestamps are {next(iter(used))} since 1970")
        elif used:
            sentences += [f"{count(number, 'timestamp')} in {name} since 1970" for name, number in used.items()]
        if counts.get("walls"):
            sentences.append(self._wall)
        sentences += _unread(counts["rows"], counts["unread"], example)
        unit = f"epoch {max(used, key=lambda name: used[name])}" if used else "text"
        return TimesFound(unit, tuple(sentences))

    @property
    def _wall(self) -> str:
        return f"times that name no zone are in {self.zone}"

    # -- in microseconds since 1970 ------------------------------------------------------------------------------------

    def _in_text(self, text: ir.StringValue) -> ir.IntegerValue:
        """A date and a time. The offset is removed first: engines ignore it, or read text in their own time zone."""
        text = stripped(text)
        has_offset, says_zone = text.re_search(_OFFSET), _says_zone(text)
        sign = (text.re_extract(_OFFSET, 1) == "-").ifelse(-1, 1)
        hours, minutes = (text.re_extract(_OFFSET, group).try_cast("int64").fill_null(0) for group in (2, 3))
        micros = self._micros(_naive(text).cast(INSTANT))
        offset = has_offset.ifelse(sign * (hours * 3600 + minutes * 60), 0)
        moment = micros - offset * _SECOND
        return moment if self.zone == "UTC" else says_zone.ifelse(moment, self._from_wall(micros))

    def _from_wall(self, micros: ir.IntegerValue) -> ir.IntegerValue:
        """What clocks on the wall of the zone showed, in UTC."""
        return micros - _stepwise(micros, self._offsets)

    @cached_property
    def _offsets(self) -> Sequence[tuple[int, int]]:
        """The offsets that held while the log was written; from a pass over it, since there are many in a century."""
        first, last = self.values.row(
            self._walls().aggregate(first=lambda t: t.wall.min(), last=lambda t: t.wall.max())
        )
        steps = wall_offsets(self.zone)
        begin = max(sum(start <= (first or 0) for start, _ in steps) - 1, 0)
        end = max(sum(start <= (last or 0) for start, _ in steps), begin + 1)
        return steps[begin:end]

    def _walls(self) -> ir.Table:
        """What clocks on the wall showed, in microseconds, as if in UTC."""
        raw = self.rows.timestamp
        naive = _naive(stripped(raw)) if raw.type().is_string() else raw
        return self.rows.select(wall=self._micros(naive.cast(INSTANT)))

    def _micros(self, instant: ir.TimestampValue) -> ir.IntegerValue:
        if self.engine in _CALLED:
            return _built_in(_CALLED[self.engine][0], INSTANT, "int64")(instant)
        return instant.epoch_seconds().cast("int64") * _SECOND

    def _at(self, micros: ir.IntegerValue) -> ir.TimestampValue:
        if self.engine in _CALLED:
            return _built_in(_CALLED[self.engine][1], "int64", "timestamp")(micros).cast(INSTANT)
        return (micros / _SECOND).floor().cast("int64").as_timestamp("s").cast(INSTANT)


def _since_1970(number: ir.NumericValue) -> ir.IntegerValue:
    """A number since 1970 in microseconds; its size tells its unit: today's times have 13 digits in milliseconds."""
    import ibis

    whole = number.type().is_integer()
    if not whole:
        number = number.cast("float64")
        number = number.isnan().ifelse(None, number)
    size = number.cast("float64").abs()
    cases = []
    for power, bound in zip((6, 3, 0, -3), _UNITS.values(), strict=True):
        small = size < bound
        safe = small.ifelse(number, None)  # a number of another unit could overflow
        if whole:
            safe = safe.try_cast("int64")
            cases.append((small, safe * 10**power if power >= 0 else safe // 10**-power))
        else:
            cases.append((small, (safe * 10.0**power).round().cast("int64")))
    return ibis.cases(*cases, else_=ibis.null("int64"))


def _unread(rows: int | None, unread: int | None, example: object) -> tuple[str, ...]:
    return (f"{unread:,} of {rows:,} timestamps cannot be read, such as {example!r}",) if unread else ()


def _naive(text: ir.StringValue) -> ir.TimestampValue:
    """A date and a time without the offset at its end; null for whatever else there is."""
    text = text.re_search(_OFFSET).ifelse(text.re_replace(_OFFSET_ALONE, ""), text.re_replace(_ZULU, ""))
    text = text.re_search(_WALL).ifelse(text, None)
    return text.replace("/", "-").replace(",", ".").try_cast("timestamp")


def _says_zone(text: ir.StringValue) -> ir.BooleanValue:
    return text.re_search(_OFFSET) | text.re_search(_ZULU)


def _stepwise(value: ir.IntegerValue, steps: Sequence[tuple[int, int]]) -> ir.IntegerValue:
    """A function with steps, each given by where it begins and its value; the first has no beginning."""
    import ibis

    if len(steps) == 1:
        return ibis.literal(steps[0][1], "int64")
    middle = len(steps) // 2
    return (value < steps[middle][0]).ifelse(_stepwise(value, steps[:middle]), _stepwise(value, steps[middle:]))


@lru_cache(maxsize=8)
def wall_offsets(name: str) -> tuple[tuple[int, int], ...]:
    """From when on, by the clock on the wall, which offset from UTC holds in a zone; all in microseconds.

    Where clocks are put back, an hour occurs twice: the first of them is meant. Where they are put forward, times in
    the hour that is left out are read as if the clock had not been touched. Python's datetime does the same.

    >>> [(str(datetime.fromtimestamp(at / 1e6, UTC)), to / 3.6e9) for at, to in wall_offsets("Europe/Berlin")[-2:]]
    [('2069-03-31 03:00:00+00:00', 2.0), ('2069-10-27 03:00:00+00:00', 1.0)]
    """
    place = zone(name)

    def offset(moment: datetime) -> timedelta:
        return moment.astimezone(place).utcoffset() or timedelta()

    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in _YEARS)
    steps = [(0, offset(first) // timedelta(microseconds=1))]
    day = first
    while day < last:
        following = day + timedelta(days=1)
        if offset(day) != offset(following):
            low, high = day, following
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) / 2
                middle = middle.replace(microsecond=0)
                low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
            later = high + max(offset(day), offset(following))
            since = (later - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            steps.append((since, offset(following) // timedelta(microseconds=1)))
        day = following
    return tuple(steps)


def _elsewhere(value: Any) -> Any:
    raise AssertionError(f"this function runs in engines only; it was called on {value}")


def _built_in(name: str, takes: str, gives: str) -> Any:
    """A function of an engine that Ibis does not know."""
    import ibis

    return ibis.udf.scalar.builtin(_elsewhere, name=name, signature=((takes,), gives))
