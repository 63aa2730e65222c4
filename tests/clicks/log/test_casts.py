"""Values of any type as ids, whole numbers and instants, by SQL alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest

from cldrank.clicks.log import casts
from cldrank.data.rows import LONGEST_ID
from cldrank.tables.types import is_text

NOON = datetime(2024, 11, 14, 12)


def read(sql: str, values: list[Any], kind: pa.DataType) -> list[Any]:
    table = pa.table({"raw": pa.array(values, kind)})
    value = casts.trimmed("raw") if is_text(kind) else "raw"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("logged", table)
        rows = connection.execute(f"SELECT {sql} FROM (SELECT {value} AS value FROM logged)").fetchall()
    return [row[0] for row in rows]


class TestIds:
    @pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float64(), pa.decimal128(20, 0)])
    def test_whole_numbers_stay(self, kind: pa.DataType) -> None:
        assert read(casts.identifier("value", kind).value, [7, None, 3], kind) == [7, None, 3]

    def test_fractions_and_endless_ids_are_odd(self) -> None:
        floats = casts.identifier("value", pa.float64())
        assert read(floats.odd, [1.5, 2.0**60, 3.0, float("nan")], pa.float64()) == [True, True, False, False]
        texts = casts.identifier("value", pa.string())
        assert read(texts.odd, ["a", "a" * (LONGEST_ID + 1)], pa.string()) == [False, True]


class TestWholeNumbers:
    def test_text(self) -> None:
        values = ["1", " 2 ", "3.0", "1e3", "4.5", "x", "", None, "99999999999999999999", "nan"]
        cast = casts.whole("value", pa.string())
        assert read(cast.value, values, pa.string()) == [1, 2, 3, 1000, None, None, None, None, None, None]
        assert read(cast.odd, values, pa.string()) == [False] * 4 + [True, True, False, False, True, True]

    def test_words_of_truth(self) -> None:
        values = ["true", "F", "Yes", "no", "0", "maybe"]
        assert read(casts.whole("value", pa.string(), truth=True).value, values, pa.string()) == [1, 0, 1, 0, 0, None]
        assert read(casts.whole("value", pa.bool_(), truth=True).value, [True, None], pa.bool_()) == [1, None]


class TestInstants:
    @pytest.mark.parametrize(
        ("text", "form"),
        [
            ("2024-11-14T12:00:00Z", "zone"),
            ("2024-11-14 12:00", "wall"),
            ("2024-11-14T13:30:00+01:30", "zone"),
            ("2024-11-14 04:00:00 -0800", "zone"),
            ("2024-11-14 12:00:00 +0000 UTC", "zone"),
            ("1731585600", "seconds"),
            ("1731585600000000000", "nanoseconds"),
        ],
    )
    def test_text(self, text: str, form: str) -> None:
        instant = casts.instant("value", pa.string())
        assert read(instant, [text], pa.string()) == [NOON]
        assert read(casts.time_form("value", pa.string(), instant), [text], pa.string()) == [form]

    @pytest.mark.parametrize("text", ["junk", "20241114", "2024-11-14 25:00:00", "1850-01-01"])
    def test_no_time(self, text: str) -> None:
        instant = casts.instant("value", pa.string())
        assert read(instant, [text], pa.string()) == [None]
        assert read(casts.time_form("value", pa.string(), instant), [text], pa.string()) == [f"?{text.upper()}"]

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_numbers_of_any_unit_and_typed_times(self, unit: str) -> None:
        typed = pa.array([NOON.replace(tzinfo=UTC)], pa.timestamp(unit, "UTC"))
        numbers = typed.cast(pa.int64()).to_pylist()
        assert read(casts.instant("value", pa.int64()), numbers, pa.int64()) == [NOON]
        assert read(casts.instant("value", typed.type), typed.to_pylist(), typed.type) == [NOON]

    def test_extreme_numbers_do_not_overflow(self) -> None:
        extremes = [-(1 << 63), (1 << 63) - 1]
        assert read(casts.instant("value", pa.int64()), extremes, pa.int64()) == [None, None]

    @pytest.mark.parametrize("wall", ["2024-07-01 10:00:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00"])
    @pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
    def test_a_zone_is_read_as_python_reads_it(self, wall: str, zone: str) -> None:
        """In the hour that occurs twice, and in the one that is left out, as well."""
        naive = datetime.fromisoformat(wall)
        expected = naive.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None)
        assert read(casts.instant("value", pa.string(), zone), [wall], pa.string()) == [expected]
        assert read(casts.instant("value", pa.timestamp("us"), zone), [naive], pa.timestamp("us")) == [expected]
        assert read(casts.instant("value", pa.string(), zone), [f"{wall}Z"], pa.string()) == [naive]
