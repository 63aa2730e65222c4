from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_pipeline import write_definition, write_world

import cldrank as cr
from cldrank.errors import DataError
from cldrank.pipeline import RunRecord, read_pipeline, run_pipeline


def write_day(place: Path, day: int, rows: int | None = None) -> None:
    write_world(place, sessions=2000, seed=day)
    table = pq.read_table(place / "log.parquet").slice(0, rows)
    (place / "log.parquet").unlink()
    times = pa.array([datetime(2026, 11, day, 8, tzinfo=UTC)] * len(table))
    (place / "logs").mkdir(exist_ok=True)
    pq.write_table(table.append_column("timestamp", times), place / "logs" / f"{day}.parquet")


def run(place: Path, *more: tuple[str, str]) -> RunRecord:
    changes = [('"log.parquet"', '"logs"'), ("[train]", '[window]\nlast = "2d"\n[train]'), *more]
    return run_pipeline(read_pipeline(write_definition(place, changes)))


def impressions(record: RunRecord) -> int:
    found: Any = record.step("aggregate")
    return int(found.facts["impressions"])


def state(record: RunRecord, name: str) -> str:
    return record.states[name]


@pytest.fixture
def two_days(place: Path) -> Path:
    (place / "log.parquet").unlink()
    for day in (1, 2):
        write_day(place, day)
    return place


def test_only_the_last_days_count(two_days: Path) -> None:
    first = run(two_days)
    assert impressions(first) == 2 * 2000 * 5
    write_day(two_days, 3)
    second = run(two_days)
    counted: Any = second.step("days")
    assert (counted.facts["counted_before"], counted.facts["written"]) == (2, ["2026-11-03"])
    assert impressions(second) == 2 * 2000 * 5
    data = cr.load(two_days / "train.parquet")
    direct = [cr.ClickTable.read(two_days / "logs" / f"{day}.parquet", data) for day in (2, 3)]
    cells = cr.ClickTable.read(two_days / "runs" / "steps" / second.step("aggregate").folder / "cells.parquet", data)  # type: ignore[union-attr]
    assert int(cells.clicks.sum()) == sum(int(day.clicks.sum()) for day in direct)
    assert not run(two_days).changed


def test_days_stay_when_their_logs_are_gone(two_days: Path) -> None:
    run(two_days)
    (two_days / "logs" / "1.parquet").unlink()
    record = run(two_days)
    assert state(record, "days") == "reused"
    assert state(record, "aggregate") == "reused"
    assert impressions(record) == 2 * 2000 * 5


def test_a_file_of_two_days_is_counted_anew_in_both(two_days: Path) -> None:
    logs = two_days / "logs"
    first, second = pq.read_table(logs / "1.parquet"), pq.read_table(logs / "2.parquet")
    (logs / "2.parquet").unlink()
    pq.write_table(pa.concat_tables([first, second.slice(0, 1000)]), logs / "1.parquet")
    run(two_days)
    pq.write_table(pa.concat_tables([first, second]), logs / "1.parquet")
    assert impressions(run(two_days)) == 2 * 2000 * 5


def test_a_file_that_is_restored_counts_as_it_is_again_even_once_it_is_gone(two_days: Path) -> None:
    file = two_days / "logs" / "2.parquet"
    good = file.read_bytes()
    run(two_days)
    pq.write_table(pq.read_table(file).slice(0, 1000), file)
    assert impressions(run(two_days)) == 2000 * 5 + 1000
    file.write_bytes(good)
    assert impressions(run(two_days)) == 2 * 2000 * 5
    file.unlink()
    assert impressions(run(two_days)) == 2 * 2000 * 5


def test_files_of_one_name_in_the_folders_of_days(two_days: Path) -> None:
    logs = two_days / "logs"
    for day in (1, 2):
        (logs / f"day={day}" / "00").mkdir(parents=True)
        (logs / f"{day}.parquet").rename(logs / f"day={day}" / "00" / "part.parquet")
    assert impressions(run(two_days)) == 2 * 2000 * 5
    shutil.rmtree(logs / "day=1")
    write_day(two_days, 3)
    (logs / "day=3" / "00").mkdir(parents=True)
    (logs / "3.parquet").rename(logs / "day=3" / "00" / "part.parquet")
    record = run(two_days, ('last = "2d"', 'last = "3d"'))
    assert impressions(record) == 3 * 2000 * 5  # although day 1 is gone, and 3 has a file of its name


def test_what_is_lost_of_a_file_that_is_gone_is_told(two_days: Path) -> None:
    run(two_days)
    (two_days / "logs" / "1.parquet").unlink()
    for folder in (two_days / "runs" / "steps").glob("[cd][oa]*-*"):
        shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"logs/1\.parquet"):
        run(two_days)


ANY_VERDICT = (
    "trust_propensity = false",
    'trust_propensity = false\nship_if = ["better", "worse", "no difference", "cannot tell"]',
)


def test_a_day_that_lost_its_clicks_stops_the_run_whatever_may_ship(two_days: Path) -> None:
    for day in (3, 4):
        write_day(two_days, day)
    file = two_days / "logs" / "4.parquet"
    table = pq.read_table(file)
    kept = [bool(clicked) and row % 100 < 5 for row, clicked in enumerate(table["clicked"].to_pylist())]
    lost = pa.array(kept).cast(table["clicked"].type)
    pq.write_table(table.set_column(table.column_names.index("clicked"), "clicked", lost), file)
    record = run(two_days, ('last = "2d"', 'last = "4d"'), ANY_VERDICT)
    assert (record.status, record.stopped_by) == ("stopped", "blocking")
    audit: Any = record.step("audit")
    assert any("2026-11-04" in finding for finding in audit.facts["findings"])
    assert not (two_days / "shipped").exists()


def test_an_emptied_text_file_takes_its_day_with_it(two_days: Path) -> None:
    logs = two_days / "logs"
    for day in (1, 2):
        duckdb.sql(f"COPY (FROM '{logs}/{day}.parquet') TO '{logs}/{day}.csv' (FORMAT CSV, HEADER)")
        (logs / f"{day}.parquet").unlink()
    run(two_days)
    (logs / "1.csv").write_text((logs / "1.csv").read_text().partition("\n")[0])
    record = run(two_days)
    assert impressions(record) == 2000 * 5
    assert record.step("days").facts["days"] == ["2026-11-02"]  # type: ignore[union-attr]


def test_the_window_is_audited_by_itself(two_days: Path) -> None:
    write_day(two_days, 3)
    record = run(two_days)
    whole, window = record.step("audit"), record.step("window-audit")
    assert whole is not None
    assert window is not None
    assert "2 days from 2026-11-02 to 2026-11-03" in window.decided


def test_a_window_that_cannot_be_learned_from_stops_the_run(two_days: Path) -> None:
    logs = two_days / "logs"
    table = pq.read_table(logs / "2.parquet")
    none = pa.array([0] * len(table)).cast(table["clicked"].type)
    pq.write_table(table.set_column(table.column_names.index("clicked"), "clicked", none), logs / "2.parquet")
    run(two_days, ("[train]", '[audit]\nstop_at = "never"\n[train]'), ANY_VERDICT)
    (logs / "2.parquet").unlink()  # what was counted of it stays
    record = run(two_days, ('last = "2d"', 'last = "1d"'))
    assert (record.status, record.stopped_by) == ("stopped", "blocking")
    assert (state(record, "audit"), state(record, "window-audit")) == ("done", "stopped")
