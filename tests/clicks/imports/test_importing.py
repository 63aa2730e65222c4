"""What holds for all formats: files written whole or not at all, arguments, and formats that are recognised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cldrank.clicks.imports import import_log
from cldrank.errors import CldrankError, DataError, FormatError, UsageError

UBI = {"query_id": "1", "user_query": "x", "query_response_hit_ids": ["a"]}
RANKING = {"event": "ranking", "id": "1", "items": [{"id": "a"}, {"id": "b"}]}
CLICK = {"event": "interaction", "id": "2", "ranking": "1", "item": "b", "type": "click"}
METARANK = f"{json.dumps(RANKING)}\n{json.dumps(CLICK)}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(METARANK)
    return path


def test_the_wrong_format_is_refused(tmp_path: Path, log: Path) -> None:
    (tmp_path / "ubi.jsonl").write_text(json.dumps(UBI))
    with pytest.raises(DataError, match="there are no ranking events"):
        import_log("metarank", tmp_path / "ubi.jsonl", out=tmp_path / "log.parquet")
    with pytest.raises(CldrankError, match="no event has the action 'click'"):
        import_log("ubi", queries=log, events=log, out=tmp_path / "log.parquet")


def test_files_without_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n")
    (tmp_path / "array.json").write_text(json.dumps([UBI]))
    with pytest.raises(DataError, match="there are no ranking events"):
        import_log("metarank", tmp_path / "a.jsonl", out=tmp_path / "log.parquet")
    with pytest.raises(FormatError, match="one array; write one object per line"):
        import_log("ubi", queries=tmp_path / "array.json", events=tmp_path / "a.jsonl", out=tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_joined": 2}, "min_joined"),
        ({"impressions": "all"}, "impressions"),
        ({"object_id": "id"}, "object_id"),
        ({"first_position": 2}, "first_position"),
        ({"click_action": []}, "click_action"),
        ({"normalise": "no"}, "normalise"),
        ({"engine": "dask"}, "engine"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, log: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        import_log("metarank", log, out=tmp_path / "log.parquet", **options)
    with pytest.raises(UsageError, match="solr"):
        import_log("solr", log, out=tmp_path / "log.parquet")


def test_a_log_that_is_refused_leaves_the_old_one(tmp_path: Path, log: Path) -> None:
    out = tmp_path / "log.parquet"
    import_log("metarank", log, out=out)
    before = out.read_bytes()
    log.write_text(METARANK + json.dumps({**CLICK, "id": "3", "item": "c"}) + "\n")
    with pytest.raises(DataError, match="only 50.0%"):
        import_log("metarank", log, out=out)
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "log.parquet"]


def test_spark_replaces_only_logs(tmp_path: Path, log: Path, spark: Any) -> None:
    out = tmp_path / "log.parquet"
    for _ in range(2):
        import_log("metarank", log, out=out, engine=spark)
    assert pq.read_table(out).num_rows == 2
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds other files \(notes.txt\); name a new folder"):
        import_log("metarank", log, out=out, engine=spark)


def test_progress_and_report(tmp_path: Path, log: Path) -> None:
    told: list[str] = []
    report = import_log("metarank", log, out=tmp_path / "log.parquet", progress=told.append)
    assert told[0] == "reading records …"
    assert told[-1] == "writing the log …"
    assert json.loads(json.dumps(report.as_dict()))["rows"] == 2
    assert "2 rows of 1 page written, 1 of them clicked (1 click)" in str(report)


def test_a_tiny_memory_limit_says_so(tmp_path: Path, log: Path) -> None:
    with pytest.raises(CldrankError, match="ran out of memory within the limit of 1KB"):
        import_log("metarank", log, out=tmp_path / "log.parquet", memory_limit="1KB")
