"""Columns inside of columns: each log is the plain one, nested, and gives the cells of the plain one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odd_logs import expected, plain_rows, read, write_json, write_parquet

from cldrank.clicks.log.nested import locate
from cldrank.errors import DataError, FormatError, UsageError

PATHS = {"doc_id": "event.object.object_id", "position": "event.position.ordinal"}


def nested(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    event = {"object": {"object_id": row["doc_id"], **more}, "position": {"ordinal": row["position"]}}
    return {name: row[name] for name in ("session_id", "query_id", "clicked")} | {"event": event}


@pytest.mark.parametrize("write", [write_parquet, write_json])
def test_fields_by_their_path(tmp_path: Path, engine: Any, write: Any) -> None:
    path = write(tmp_path / f"log.{'parquet' if write is write_parquet else 'jsonl'}", map(nested, plain_rows()))
    assert read(path, engine, columns=PATHS)[0] == expected()


def test_parts_may_differ_in_fields_that_are_not_used(tmp_path: Path, engine: Any) -> None:
    rows = plain_rows()
    (tmp_path / "log").mkdir()
    write_parquet(tmp_path / "log" / "1.parquet", (nested(row, price=1.5) for row in rows[:20]))
    write_parquet(tmp_path / "log" / "2.parquet", map(nested, rows[20:30]))
    write_json(tmp_path / "log" / "3.jsonl", map(nested, rows[30:]))
    assert read(tmp_path / "log", engine, columns=PATHS)[0] == expected()


@pytest.mark.exhaustive
def test_a_column_with_dots_in_its_name_wins(tmp_path: Path, engine: Any) -> None:
    rows = [nested(row, object_id="?") | {"event.object.object_id": row["doc_id"]} for row in plain_rows()]
    assert read(write_parquet(tmp_path / "log.parquet", rows), engine, columns=PATHS)[0] == expected()


def test_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", map(nested, plain_rows()))
    with pytest.raises(FormatError, match=r"no field 'event.object.id'; there is event.object.object_id, event.pos"):
        read(path, columns={**PATHS, "doc_id": "event.object.id"})
    with pytest.raises(FormatError, match=r"no column 'events.object.id' \(for doc_id\); the log has session_id"):
        read(path, columns={**PATHS, "doc_id": "events.object.id"})
    with pytest.raises(FormatError, match=r"'event.object' \(doc_id\) holds struct"):
        read(path, columns={**PATHS, "doc_id": "event.object"})
    with pytest.raises(UsageError, match="cannot be both"):
        read(path, columns={**PATHS, "surface": PATHS["doc_id"]})


def test_parts_that_disagree(tmp_path: Path) -> None:
    """A field that one file has as a list and another does not, and one that a file lacks."""
    rows = [row | {"a": {"b": row["doc_id"]}} for row in plain_rows()]
    write_parquet(tmp_path / "1.parquet", rows)
    write_parquet(tmp_path / "2.parquet", [row | {"a": [row["a"]]} for row in rows])
    with pytest.raises(DataError, match=r"'a.b' leads to 'a.b' in .*1.parquet, 'a' in .*2.parquet"):
        read(tmp_path, columns={"doc_id": "a.b"})
    write_parquet(tmp_path / "2.parquet", [row | {"a": {"c": 1}} for row in rows])
    with pytest.raises(DataError, match=r"2.parquet has no column 'a.b', but .*1.parquet has"):
        read(tmp_path, columns={"doc_id": "a.b"})


@pytest.mark.exhaustive
def test_keys_that_json_leaves_out_are_missing_values(tmp_path: Path, engine: Any) -> None:
    rows = list(map(nested, plain_rows()))
    del rows[0]["event"]["object"]["object_id"]
    found, result = read(write_json(tmp_path / "log.jsonl", rows), engine, columns=PATHS)
    assert result.account.rejected == {"null key": 1}
    assert sum(n for n, _ in found.values()) == len(rows) - 1


def test_ids_inside_of_json_stay_text(tmp_path: Path) -> None:
    """DuckDB would make UUIDs and dates of them, in another spelling."""
    ids = ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "2024-01-02"]
    rows = [nested(row | {"doc_id": ids[place]}) for place, row in enumerate(plain_rows()[:2])]
    assert {key[1] for key in read(write_json(tmp_path / "log.jsonl", rows), columns=PATHS)[0]} == set(ids)


def test_partition_folders_are_columns_still(tmp_path: Path) -> None:
    for day, rows in (("1", plain_rows()[:24]), ("2", plain_rows()[24:])):
        (tmp_path / f"day={day}").mkdir()
        write_parquet(tmp_path / f"day={day}" / "part.parquet", map(nested, rows))
    assert read(tmp_path, columns={**PATHS, "surface": "day"})[0] == expected()


def test_where_a_path_leads() -> None:
    import ibis
    import ibis.expr.datatypes as dt

    element = dt.Struct({"c": dt.Struct({"d": dt.int64}), "e.f": dt.string})
    table = ibis.table({"a": dt.Struct({"b": dt.Array(element), "x": dt.int64}), "a.x": dt.string}, name="log")
    cases = {"a.x": ("a.x", ()), "a.b": ("a.b", ()), "a.b.c.d": ("a.b", ("c", "d")), "a.b.e.f": ("a.b", ("e.f",))}
    for path, (name, inner) in cases.items():
        found = locate(table, path)
        assert found is not None
        assert (found.name, found.inner) == (name, inner), path
    for path in ("a.b.z", "a.x.y", "z", "a.b.c.d.e"):
        assert locate(table, path) is None


@pytest.mark.exhaustive
def test_nested_times(tmp_path: Path, engine: Any) -> None:
    table = pa.Table.from_pylist([row | {"at": {"ms": 1_714_984_200_000}} for row in plain_rows()])
    pq.write_table(table, tmp_path / "log.parquet")
    found, result = read(tmp_path / "log.parquet", engine, columns={"timestamp": "at.ms"}, by_time=True)
    assert found == expected()
    assert result.account.found == ("timestamps are milliseconds since 1970",)
