"""Folders of days: what is counted when, what is left out, and what a window reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_logs import cells

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.aggregate import Aggregation, TooManyRejectsError, aggregate
from cldrank.clicks.days import DayFolder, as_day, n_days
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.files import holding

Row = tuple[int, str, str, int, int, datetime | None]
NAMES = ("session_id", "query_id", "doc_id", "position", "clicked", "timestamp")
START = datetime(2026, 11, 13, tzinfo=UTC)


def page(session: int, time: datetime | None, clicked: int = 1, query: str = "q", size: int = 3) -> list[Row]:
    return [(session, query, f"d{k}", k, int(k == clicked), time) for k in range(1, size + 1)]


def write(path: Path, rows: Sequence[Row], zone: str | None = "UTC") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    *others, times = zip(*rows, strict=True)
    columns = [*map(pa.array, others), pa.array(times, pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us", tz=zone))]
    pq.write_table(pa.table(columns, names=NAMES), path)
    return path


def content(folder: Path) -> dict[str, Any]:
    return {file.name: cells(ClickTable.read(file)) for file in sorted(folder.iterdir())}


@pytest.fixture
def three_days(tmp_path: Path) -> list[Path]:
    draw = np.random.default_rng(3)
    paths = []
    for at in range(3):
        rows: list[Row] = []
        for _ in range(40):
            time = START + timedelta(days=at, seconds=int(draw.integers(86_400)))
            size, query = int(draw.choice([2, 3, 5])), str(draw.choice(["p", "q"]))
            rows += page(int(draw.integers(30)), time, int(draw.integers(4)), query, size)
        paths.append(write(tmp_path / "logs" / f"{(START + timedelta(days=at)).date()}" / "part-0.parquet", rows))
    return paths


def test_a_date_far_away_is_warned_of_at_once(three_days: list[Path], tmp_path: Path) -> None:
    folder = DayFolder(tmp_path / "cells")
    folder.add(three_days, max_rejected=1)
    folder.file(START.date()).rename(folder.file(date(9999, 12, 31)))
    with pytest.warns(CldrankWarning, match=r"2,912,\d+ are missing: .* and 2,912,\d+ more"):
        folder.window()


class TestAdding:
    def test_on_every_engine(self, three_days: list[Path], tmp_path: Path, engine: Any) -> None:
        """Several days of one call, and a day that is added to."""
        folder, reference = DayFolder(tmp_path / "cells"), DayFolder(tmp_path / "reference")
        more = write(tmp_path / "more" / "log.parquet", page(99, START))
        for days, options in ((folder, {"engine": engine}), (reference, {})):
            before = days.add(three_days, max_rejected=1, **options).days[START.date()]
            after = days.add(more, **options).days[START.date()]
            assert after.impressions.sum() == before.impressions.sum() + 3  # a late file adds to its day
        assert list(folder.files()) == [(START + timedelta(days=at)).date() for at in range(3)]
        assert content(folder.path) == content(reference.path)
        assert folder.sources() == reference.sources()

    def test_days_are_the_same_together_and_one_by_one(self, three_days: list[Path], tmp_path: Path) -> None:
        together, single = DayFolder(tmp_path / "together"), DayFolder(tmp_path / "single")
        whole = together.add(three_days, max_rejected=1)
        for path in three_days:
            single.add(path, max_rejected=1)
        assert content(together.path) == content(single.path)
        assert list(content(single.path)) == [f"2026-11-{day}.parquet" for day in (13, 14, 15)]
        alone = [aggregate(path, max_rejected=1) for path in three_days]  # as aggregated without any days
        assert list(content(together.path).values()) == [cells(day.clicks) for day in alone]
        assert whole.account.n_rejected == sum(day.account.n_rejected for day in alone)

    def test_a_page_that_crosses_midnight_counts_on_both_days(self, tmp_path: Path) -> None:
        late, early = START + timedelta(hours=23.99), START + timedelta(hours=24.01)
        rows = [*page(1, late)[:2], page(1, early)[2]]
        rows += page(2, late) + page(2, early)  # seen again after midnight
        added = DayFolder(tmp_path / "cells").add(write(tmp_path / "log.parquet", rows))
        shown = {str(day): table.impressions.sum() for day, table in added.days.items()}
        assert shown == {"2026-11-13": 5, "2026-11-14": 4}
        assert added.account.n_rejected == 0

    def test_a_file_counts_once_whatever_it_is_called(self, three_days: list[Path], tmp_path: Path) -> None:
        folder = DayFolder(tmp_path / "cells")
        folder.add(three_days[:2], max_rejected=1)
        before = {file: file.read_bytes() for file in folder.path.iterdir()}
        moved = three_days[0].rename(tmp_path / "other.parquet")
        again = folder.add([moved, three_days[1]], max_rejected=0)
        assert (again.days, again.account.rows) == ({}, 0)
        assert [file.name for file in again.left_out] == ["other.parquet", "part-0.parquet"]
        assert {file: file.read_bytes() for file in folder.path.iterdir()} == before
        new = folder.add(tmp_path / "logs", max_rejected=1)
        assert (list(new.days), len(new.left_out)) == ([date(2026, 11, 15)], 1)

    def test_partitions_stay_known_where_files_are_left_out(self, tmp_path: Path) -> None:
        folder, log = DayFolder(tmp_path / "cells"), tmp_path / "log"
        for session, day in enumerate(("2026-11-13", "2026-11-14")):
            columns = list(map(list, zip(*page(session, START), strict=True)))[:5]
            (log / f"day={day}").mkdir(parents=True)
            pq.write_table(pa.table(columns, names=NAMES[:5]), log / f"day={day}" / "x.parquet")
            added = folder.add(log, columns={"timestamp": "day"})
            assert list(map(str, added.days)) == [day]

    def test_what_has_no_days_is_refused(self, tmp_path: Path) -> None:
        folder, path = DayFolder(tmp_path / "cells"), tmp_path / "log.csv"
        path.write_text("session_id,query_id,doc_id,position,clicked\n1,q,a,1,1\n")
        for source, named in ((path, "timestamp"), (pd.DataFrame({"session_id": [1]}), "pandas DataFrame")):
            with pytest.raises(UsageError, match=named):
                folder.add(source)

    def test_nothing_is_written_where_a_write_fails(
        self, three_days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = DayFolder(tmp_path / "cells")
        folder.add(three_days[0], max_rejected=1)
        before, save = content(folder.path), ClickTable.save

        def fails(table: ClickTable, path: Path) -> None:
            if path.name == "2026-11-15.parquet":
                raise OSError("full")
            save(table, path)

        monkeypatch.setattr(ClickTable, "save", fails)
        with pytest.raises(Exception, match="full"):
            folder.add(three_days, max_rejected=1)
        monkeypatch.undo()
        assert content(folder.path) == before
        assert len(folder.add(three_days, max_rejected=1).days) == 2

    def test_other_files_in_the_folder_are_respected(self, three_days: list[Path]) -> None:
        with pytest.raises(UsageError, match="'2026-11-13'"):
            DayFolder(three_days[0].parents[1]).add(three_days)
        with pytest.raises(UsageError, match="is a file"):
            DayFolder(three_days[0]).add(three_days)
        raw = three_days[0].rename(three_days[0].parent / "2026-11-13.parquet")  # named as cells are
        before = raw.read_bytes()
        with pytest.raises(UsageError, match=r"'2026-11-13\.parquet'"):
            DayFolder(raw.parent).add(raw)
        assert raw.read_bytes() == before

    def test_a_time_is_of_its_day(self, tmp_path: Path) -> None:
        folder, log = DayFolder(tmp_path / "cells"), write(tmp_path / "log.parquet", page(1, START))
        folder.add(log)
        for until in (datetime(2026, 11, 13, 8), pd.Timestamp("2026-11-13 08:00")):
            assert folder.read(last="1d", until=until).impressions.sum() == 3
        with pytest.raises(UsageError, match="not NaT"):
            folder.read(until=pd.NaT)


def by_device(path: Path, day: int, devices: Sequence[str]) -> Path:
    """A log with a page for each device."""
    rows = [
        f"{day}{device},q,d{k},{k},{int(k == 1)},2026-11-{day}T10:00:00Z,{device}" for device in devices for k in (1, 2)
    ]
    path.write_text("\n".join([f"{','.join(NAMES)},device", *rows]))
    return path


class TestDaysOfOneKind:
    def test_days_with_other_segments_are_read_together(self, tmp_path: Path) -> None:
        folder = DayFolder(tmp_path / "cells")
        kinds = {14: ("desktop", "phone"), 15: ("phone", "tablet"), 16: ("phone", "tablet")}
        logs = [by_device(tmp_path / f"{day}.csv", day, devices) for day, devices in kinds.items()]
        for log in logs:
            folder.add(log, columns={"segment": "device"})
        shown = {name: int(part.impressions.sum()) for name, part in folder.read().by_segment().items()}
        assert shown == {"desktop": 2, "phone": 6, "tablet": 4}
        assert cells(folder.read()) == cells(aggregate(logs, columns={"segment": "device"}).clicks)
        assert folder.read(last="2d").segment_names == ("phone", "tablet")

    def test_all_days_have_segments_or_none(self, tmp_path: Path) -> None:
        folder = DayFolder(tmp_path / "cells")
        monday, tuesday = (by_device(tmp_path / f"{day}.csv", day, ("phone", "tv")) for day in (14, 15))
        folder.add(monday, columns={"segment": "device"})
        with pytest.raises(DataError, match=r"2026-11-14.parquet was counted by segment, the log was not"):
            folder.add(tuesday)
        assert list(folder.files()) == [date(2026, 11, 14)]
        folder.file(date(2026, 11, 14)).unlink()
        folder.add([monday, tuesday])  # no day stays that has segments
        assert not folder.read().has_segments
        assert len(folder.files()) == 2


class TestSeveralProcesses:
    def test_a_folder_that_another_process_changes_meanwhile_is_refused(
        self, three_days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = DayFolder(tmp_path / "cells")
        folder.add(three_days[0], max_rejected=1)

        def overtaken(*given: Any, **options: Any) -> Aggregation:
            monkeypatch.undo()
            folder.add(three_days[1], max_rejected=1)
            return aggregate(*given, **options)

        monkeypatch.setattr("cldrank.clicks.aggregate.aggregate", overtaken)
        with pytest.raises(DataError, match="another process"):
            folder.add(three_days[1:], max_rejected=1)  # would count the second day twice
        assert [len(sources) for sources in folder.sources().values()] == [1, 1]
        assert folder.add(three_days[1:], max_rejected=1).days.keys() == {date(2026, 11, 15)}

    def test_others_wait_while_days_are_written(
        self, three_days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save, is_free = DayFolder._save, []

        def watched(folder: DayFolder, cells: Any) -> None:
            with holding(tmp_path, wait=False) as free:
                is_free.append(free)
            save(folder, cells)

        monkeypatch.setattr(DayFolder, "_save", watched)
        DayFolder(tmp_path / "cells").add(three_days, max_rejected=1)
        assert is_free == [False]


class TestCorrecting:
    def test_a_changed_file_is_refused_until_its_days_are_deleted(self, tmp_path: Path) -> None:
        folder, path, day = DayFolder(tmp_path / "cells"), tmp_path / "log" / "a.parquet", timedelta(days=1)
        folder.add(write(path, page(1, START) + page(1, START + day)))
        write(path, page(1, START) + page(2, START))
        with pytest.raises(DataError, match="a.parquet was counted before, with other content"):
            folder.add(path)
        for file in folder.files().values():
            file.unlink()
        added = folder.add(path)
        assert {str(day): table.impressions.sum() for day, table in added.days.items()} == {"2026-11-13": 6}
        assert list(content(folder.path)) == ["2026-11-13.parquet"]
        assert folder.add(path).days == {}

    def test_a_file_that_is_empty_now_is_refused(self, tmp_path: Path) -> None:
        folder, path = DayFolder(tmp_path / "cells"), tmp_path / "log" / "a.parquet"
        folder.add(write(path, page(1, START)))
        pq.write_table(pq.read_table(path).slice(0, 0), path)
        with pytest.raises(DataError, match="a.parquet .*empty now"):
            folder.add(path)
        folder.file(START.date()).unlink()
        write(tmp_path / "log" / "b.parquet", page(2, START))
        assert folder.add(path.parent).days[START.date()].impressions.sum() == 3


class TestTimes:
    @pytest.mark.parametrize("zone", ["UTC", None, "America/New_York"])
    def test_days_are_those_of_utc(self, zone: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        rows = page(1, START - timedelta(seconds=1)) + page(2, START)
        added = DayFolder(tmp_path / "cells").add(write(tmp_path / "log.parquet", rows, zone))
        assert list(map(str, added.days)) == ["2026-11-12", "2026-11-13"]

    def test_times_of_a_zone(self, tmp_path: Path, engine: Any) -> None:
        """Half past two is there twice in Berlin's night of 26 October 2025; the first is meant."""
        times = ("2025-10-26T00:30:00", "2025-10-26T02:30:00", "2025-10-26T23:30:00", "2025-10-26T23:30:00Z")
        rows = [f"{session},q,a,1,0,{time}" for session, time in enumerate(times)]
        path = tmp_path / "log.csv"
        path.write_text("\n".join([",".join(NAMES), *rows]))
        with pytest.raises(DataError, match="`time_zone`"):
            aggregate(path, engine=engine)
        counted = aggregate(path, engine=engine, time_zone="Europe/Berlin", days=True)
        shown = {str(day): cells.impressions.sum() for day, cells in counted.days.items()}
        assert shown == {"2025-10-25": 1, "2025-10-26": 3}
        assert "times that name no zone are in Europe/Berlin" in counted.account.found
        with pytest.raises(UsageError, match="not 'Mars'"):
            aggregate(path, time_zone="Mars")

    def test_rows_without_a_time_are_set_aside(self, tmp_path: Path) -> None:
        path, folder = tmp_path / "log.csv", DayFolder(tmp_path / "cells")
        path.write_text(f"{','.join(NAMES)}\n1,q,a,1,1,2026-11-13\n2,q,a,1,1,\n3,q,a,1,1,soon\n")
        added = folder.add(path, max_rejected=0.7)
        assert (added.account.rows, added.account.rejected) == (3, {"no day": 2})
        assert added.rejects["session_id"].to_pylist() == ["2", "3"]
        path.write_text(f"{','.join(NAMES)}\n2,q,a,1,1,\n")
        with pytest.raises(TooManyRejectsError):
            DayFolder(tmp_path / "others").add(path)
        assert DayFolder(tmp_path / "others").add(path, max_rejected=1).days == {}


class TestReading:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> DayFolder:
        folder = DayFolder(tmp_path / "cells")
        for at in (0, 1, 3, 5):
            day = START + timedelta(days=at)
            rows = [row for session in range(at + 1) for row in page(session, day, query=f"q{at}")]
            folder.add(write(tmp_path / f"{at}.parquet", rows))
        return folder

    def test_windows_and_gaps(self, folder: DayFolder) -> None:
        with pytest.warns(CldrankWarning, match=r"of the 6 days .*, 2 are missing: 2026-11-15"):
            assert ClickTable.read(folder.path).impressions.sum() == 3 * (1 + 2 + 4 + 6)
        with pytest.warns(CldrankWarning, match=r"of the 3 days .* 1 is missing: 2026-11-17\."):
            assert ClickTable.read(folder.path, last="3d").impressions.sum() == 3 * (4 + 6)
        with warnings.catch_warnings(action="error"):
            assert ClickTable.read(folder.path, last="1d").impressions.sum() == 3 * 6
            assert ClickTable.read(folder.path, last="2d", until="2026-11-14").impressions.sum() == 3 * (1 + 2)
        with pytest.warns(CldrankWarning, match="26 are missing"):  # before the first day as well
            assert ClickTable.read(folder.path, last="4w", until=date(2026, 11, 14)).impressions.sum() == 9
        with pytest.raises(DataError, match="no day from 2026-12-01"):
            ClickTable.read(folder.path, last="1d", until="2026-12-01")

    def test_candidates_that_are_gone_are_left_out_with_a_warning(self, folder: DayFolder) -> None:
        data = RankingDataset.from_arrays([[0.0]] * 4, ["q5"] * 3 + ["q3"], doc_ids=["d1", "d2", "d3", "d1"])
        with pytest.warns(CldrankWarning) as warned:
            table = ClickTable.read(folder.path, data, last="6d")
        assert "8 of 12 cells are of candidates that" in str(warned[1].message)
        assert "left out, with 43.6% of the impressions" in str(warned[1].message)
        assert table.row_impressions.tolist() == [6, 6, 6, 4]
        other = RankingDataset.from_arrays([[0.0]], ["else"])
        with pytest.raises(DataError, match="of query q5"):
            ClickTable.read(folder.path, other, last="1d")

    def test_days_of_the_same_log_do_not_count_twice(self, folder: DayFolder) -> None:
        first, second, *_ = folder.files().values()
        second.write_bytes(first.read_bytes())
        with pytest.raises(DataError, match="0.parquet"):
            folder.read(last="2d", until="2026-11-14")

    def test_only_folders_of_days_have_windows(self, folder: DayFolder, tmp_path: Path) -> None:
        for path in (next(iter(folder.files().values())), tmp_path / "0.parquet"):
            with pytest.raises(UsageError, match="`last` and `until`"):
                ClickTable.read(path, last="3d")
        with pytest.raises(UsageError, match="holds cells already"):
            ClickTable.read(folder.path, columns={"clicked": "c"})
        assert not DayFolder.is_one(tmp_path)
        assert not DayFolder.is_one([folder.path])

    def test_spans_and_days(self) -> None:
        assert (n_days("90d"), n_days("2w"), as_day(date(2026, 1, 2))) == (90, 14, date(2026, 1, 2))
        for wrong in ("0d", "28", "1m", "-3d"):
            with pytest.raises(UsageError, match=wrong):
                n_days(wrong)


class TestMerged:
    def test_many_at_once_are_as_many_in_pairs(self) -> None:
        random_numbers = np.random.default_rng(0)
        tables = []
        for at in range(6):
            data = RankingDataset.from_arrays(np.zeros((5, 1)), [at % 2] * 2 + [at] * 3, doc_ids=[0, 1, 2, 3, 4])
            counts, places = random_numbers.integers(1, 9, 5), random_numbers.integers(1, 4, 5)
            tables.append(ClickTable.from_arrays(data, position=places, impressions=counts, clicks=counts))
        pairwise = tables[0]
        for other in tables[1:]:
            pairwise = pairwise.merge(other)
        many = ClickTable.merged(tables)
        assert cells(many) == cells(pairwise)
        assert many.candidates.equals(pairwise.candidates)
        with pytest.raises(UsageError, match="no tables"):
            ClickTable.merged([])

    def test_a_day_of_a_file_is_in_the_whole_file(self, tmp_path: Path) -> None:
        path, days = write(tmp_path / "a.parquet", page(1, START)), DayFolder(tmp_path / "cells")
        days.add(path)
        with pytest.raises(DataError, match=r"a\.parquet"):
            days.read().merge(aggregate(path).clicks)
