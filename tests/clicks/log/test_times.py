"""Timestamps of every kind become the same instants on every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_logs import plain_rows, read, write_parquet

from cldrank.clicks.audit import audit
from cldrank.clicks.log import connected, open_log
from cldrank.clicks.log.times import wall_offsets
from cldrank.errors import UsageError

NOON = datetime(2024, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SECONDS = NOON.timestamp()
BERLIN = "Europe/Berlin"


def write(path: Path, times: pa.Array) -> Path:
    n = len(times)
    columns = {
        "session_id": range(n),
        "query_id": ["q"] * n,
        "doc_id": ["a"] * n,
        "position": [1] * n,
        "clicked": [0] * n,
    }
    pq.write_table(pa.table({**columns, "timestamp": times}), path)
    return path


def instants(path: Path, engine: Any = "duckdb", **options: Any) -> tuple[list[datetime | None], tuple[str, ...]]:
    """The times of a log, by session, and what was found out about them."""
    with connected(engine) as opened:
        log = open_log(path, opened, **options)
        table = log.rows.order_by("session_id").to_pyarrow()
        days = log.rows.order_by("session_id").select(day=log.rows.timestamp.date()).to_pyarrow()["day"].to_pylist()
        assert log.clock is not None
        assert pa.types.is_timestamp(table["timestamp"].type)
        assert table["timestamp"].type.tz == "UTC"
        times = table["timestamp"].to_pylist()
        assert days == [None if one is None else one.astimezone(UTC).date() for one in times]
        return times, log.clock.found().sentences


@pytest.mark.exhaustive
class TestKinds:
    @pytest.mark.parametrize(
        ("unit", "ticks"), [("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9)]
    )
    def test_numbers_tell_their_unit(self, tmp_path: Path, engine: Any, unit: str, ticks: int) -> None:
        whole = NOON.replace(microsecond=0)
        number = int(whole.timestamp()) * ticks
        for values in (pa.array([number, None]), pa.array([str(number), None])):
            found, said = instants(write(tmp_path / "log.parquet", values), engine)
            assert found == [whole, None]
            assert said == (f"timestamps are {unit} since 1970",)

    def test_fractions_of_seconds(self, tmp_path: Path, engine: Any) -> None:
        for values in (pa.array([SECONDS, float("nan")]), pa.array([str(SECONDS), ""])):
            assert instants(write(tmp_path / "log.parquet", values), engine)[0] == [NOON, None]

    def test_text_and_types(self, tmp_path: Path, engine: Any) -> None:
        naive = NOON.replace(tzinfo=None)
        cases = [
            pa.array(["2024-07-01T12:00:00.25Z", "2024-07-01 14:00:00.250+02:00", "2024-07-01T12:00:00.250"]),
            pa.array([naive] * 3, pa.timestamp("us")),
            pa.array([naive] * 3, pa.timestamp("ms", "America/New_York")),
        ]
        for values in cases:
            assert instants(write(tmp_path / "log.parquet", values), engine)[0] == [NOON] * 3, values.type

    def test_a_zone_for_what_names_none(self, tmp_path: Path, engine: Any) -> None:
        wall = datetime(2024, 7, 1, 14, 0, 0, 250_000)
        winter = datetime(2024, 1, 1, 0, 30)
        cases = [
            pa.array([wall.isoformat(), winter.isoformat()]),
            pa.array([wall, winter], pa.timestamp("us")),
            pa.array([f"{wall.isoformat()}+02:00", "2023-12-31T23:30Z"]),
            pa.array([NOON.replace(tzinfo=None), datetime(2023, 12, 31, 23, 30)], pa.timestamp("us", "UTC")),
        ]
        for place, values in enumerate(cases):
            found, said = instants(write(tmp_path / "log.parquet", values), engine, time_zone=BERLIN)
            assert found == [NOON, datetime(2023, 12, 31, 23, 30, tzinfo=UTC)], values
            assert said == (("times that name no zone are in Europe/Berlin",) if place < 2 else ())

    def test_numbers_have_no_zone(self, tmp_path: Path) -> None:
        assert instants(write(tmp_path / "log.parquet", pa.array([SECONDS])), time_zone=BERLIN)[0] == [NOON]

    def test_what_cannot_be_read_is_said(self, tmp_path: Path, engine: Any) -> None:
        times = pa.array(["2024-07-01T12:00:00.25Z", "soon", None, "", "2024-13-45", str(SECONDS)])
        found, said = instants(write(tmp_path / "log.parquet", times), engine)
        assert found == [NOON, None, None, None, None, NOON]
        assert said == ("1 timestamp in seconds since 1970", "2 of 4 timestamps cannot be read, such as 'soon'")

    def test_text_is_read_as_a_whole_or_not(self, tmp_path: Path, engine: Any) -> None:
        """Engines would drop what follows a time, or take it for something else."""
        odd = [
            "2024-07-01 12:00:00 EST",
            "2024-07-01 12:00:00 -0500 EST",
            "2024-07-01 11:30:00 PM",
            "2024-07-01 12:00:00 Europe/Berlin",
            "2024-07-01T12:00:00[Europe/Berlin]",
            "2024-07-01 12:00:00 junk",
            "2024-07-01 24:00:00",
            "2024-07-01 12",
            "2024-02-30",
            "24-07-01 12:00:00",
            "01/07/2024",
            "12:00:00",
            "20240701",
            "20240701120000",
            "0",
            "1969-12-31T23:00:00Z",
            "9999-12-31",
        ]
        whole = [
            "2024-07-01T12:00:00,25Z",
            "2024/07/01 12:00:00.250000000",
            "2024-7-1 12:00:00.25 +0000 UTC",
            "2024-07-01 07:00:00.25-05",
            "2024-07-01 17:30:00.25 +0530",
            "2024-07-01t12:00:00.25 gmt",
        ]
        found, said = instants(write(tmp_path / "log.parquet", pa.array(odd + whole)), engine)
        assert dict(zip(odd + whole, found, strict=True)) == dict.fromkeys(odd) | dict.fromkeys(whole, NOON)
        assert said[-1] == f"{len(odd)} of {len(odd + whole)} timestamps cannot be read, such as '9999-12-31'"

    def test_times_without_logs(self, tmp_path: Path, engine: Any) -> None:
        """Dates as numbers, and the times that stand for none, are not times of 1970, nor of 2611."""
        for values in (
            pa.array([20240701, 20240701120000, 0]),
            pa.array([datetime(1, 1, 2), datetime(1970, 1, 1), datetime(2611, 6, 1)], pa.timestamp("us", "UTC")),
        ):
            found, said = instants(write(tmp_path / "log.parquet", values), engine)
            assert found == [None] * 3
            assert said[0].startswith("3 of 3 timestamps cannot be read, such as '")

    def test_numbers_beyond_all_times(self, tmp_path: Path, engine: Any) -> None:
        values = [
            pa.array([2**63 - 1, -(2**63)]),
            pa.array([2**64 - 1, 2**63], pa.uint64()),
            pa.array([1e300, float("inf")]),
        ]
        for times in values[: 3 if engine == "duckdb" else 1]:
            found, said = instants(write(tmp_path / "log.parquet", times), engine)
            assert found == [None, None]
            assert said[0].startswith("2 of 2 timestamps cannot be read")


class TestClockChanges:
    """Berlin: 2024-03-31 02:00 becomes 03:00, 2024-10-27 03:00 becomes 02:00."""

    WALLS = (
        datetime(2024, 3, 31, 1, 59, 59),
        datetime(2024, 3, 31, 2, 30),  # left out
        datetime(2024, 3, 31, 3),
        datetime(2024, 10, 27, 1, 59, 59),
        datetime(2024, 10, 27, 2, 30),  # twice
        datetime(2024, 10, 27, 3),
    )

    @pytest.mark.exhaustive
    def test_as_python_reads_them(self, tmp_path: Path, engine: Any) -> None:
        expected = [wall.replace(tzinfo=ZoneInfo(BERLIN)).astimezone(UTC) for wall in self.WALLS]
        path = write(tmp_path / "log.parquet", pa.array([wall.isoformat() for wall in self.WALLS]))
        assert instants(path, engine, time_zone=BERLIN)[0] == expected

    @settings(max_examples=300)
    @given(
        wall=st.datetimes(datetime(1970, 1, 2), datetime(2069, 12, 30)),
        name=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca"]),
    )
    def test_offsets_of_any_zone(self, wall: datetime, name: str) -> None:
        micros = (wall.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        steps = wall_offsets(name)
        found = next(offset for start, offset in reversed(steps) if start <= micros or start == steps[0][0])
        expected = wall.replace(tzinfo=ZoneInfo(name)).utcoffset()
        assert expected is not None
        assert timedelta(microseconds=found) == expected

    def test_zones_that_are_none(self, tmp_path: Path) -> None:
        for name in ("Berlin/Europe", "", "../etc", 7):
            with pytest.raises(UsageError, match="time_zone must be the name of a time zone"):
                instants(tmp_path / "log.parquet", time_zone=name)


def test_views_are_told_apart_by_instants(tmp_path: Path, engine: Any) -> None:
    """One moment in three spellings is one view; another moment is another."""
    times = ["2024-07-01T12:00:00Z", "2024-07-01T14:00:00+02:00", str(int(SECONDS)), "2024-07-01T12:00:01Z"]
    rows = [{**plain_rows()[0], "timestamp": time} for time in times]
    _, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, by_time=True)
    assert result.account.rejected == {"repeated row": 2}
    assert result.clicks.impressions.sum() == 2
    assert result.account.found == ("1 timestamp in seconds since 1970",)
    assert result.account.layout["time_unit"] == "epoch seconds"


def test_the_audit_says_how_it_read_times(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", pa.array([int(SECONDS) * 1000 + 60_000 * n for n in range(50)]))
    result = audit(path, time_zone=BERLIN)
    assert result.facts.rejects is not None
    assert result.facts.rejects.found == ("timestamps are milliseconds since 1970",)
    assert "timestamps are milliseconds" in str(result)
