"""What holds for all formats: files written whole or not at all, arguments, and formats that are recognised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cldrank.clicks.imports import import_log
from cldrank.errors import CldrankError, DataError, UsageError

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
    with pytest.raises(CldrankError, match="there are no events"):
        import_log("ubi", queries=log, events=log, out=tmp_path / "log.parquet")


def test_files_without_records(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(DataError, match="there are no ranking events"):
        import_log("metarank", tmp_path / "a.jsonl", out=tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("option", "value"),
    [("min_joined", 2), ("impressions", "all"), ("click_action", []), ("surface", "device"), ("engine", "dask")],
)
def test_arguments_are_checked(tmp_path: Path, log: Path, option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=option):
        import_log("metarank", log, out=tmp_path / "log.parquet", **{option: value})
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
    (tmp_path / "log.parquet").mkdir()
    (tmp_path / "log.parquet" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="notes.txt"):
        import_log("metarank", log, out=tmp_path / "log.parquet", engine=spark)
