"""Metarank: rankings in the order of their items, and interactions, whatever the order of lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cldrank.clicks.imports import import_log
from cldrank.errors import DataError

Event = dict[str, Any]


def interaction(name: str, item: str, ranking: str | None = "r1", second: int = 8, kind: str = "click") -> Event:
    event = {"event": "interaction", "id": name, "timestamp": f"159939146{second}000", "type": kind, "item": item}
    return event if ranking is None else {**event, "ranking": ranking}


def ranking(name: str, time: Any, items: list[Any], **more: Any) -> Event:
    return {"event": "ranking", "id": name, "timestamp": time, "items": [{"id": item} for item in items], **more}


NO_SEARCH, CAT = {"name": "search", "value": "no"}, {"name": "query", "value": " Black  CAT "}
EVENTS: list[Event] = [
    interaction("i1", "b", second=7),
    ranking("r1", "1599391460000", ["a", "b", 3], user="u1", session="s1", tenant="shop", fields=[NO_SEARCH, CAT]),
    ranking("r2", 1599391461, ["b"], fields=[{"name": "q", "value": 7}]),
    ranking("r3", "2020-09-06T11:24:22Z", ["a"]),  # no query
    ranking("r2", 1599391469, [], fields=[{"name": "q", "value": 7}]),  # again
    interaction("i2", "b", second=7),  # a copy
    interaction("i3", "z"),
    interaction("i4", "a", ranking=None),
    interaction("i5", "b", ranking="r2", kind="purchase"),
    {"event": "item", "id": "x", "item": "a", "fields": [{"name": "color", "value": ["white", "black"]}]},
    {"event": "user", "id": "y", "user": "u1", "fields": [{"name": "age", "value": 33}]},
]


def written(path: Path, events: list[Event]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_rankings_and_interactions(tmp_path: Path, engine: Any) -> None:
    path = written(tmp_path / "events.jsonl", EVENTS)
    report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, engine=engine)
    rows = pq.read_table(tmp_path / "log.parquet").sort_by([("session_id", "ascending"), ("position", "ascending")])
    rows = rows.to_pylist()
    kept = [(row["session_id"], row["query_id"], row["doc_id"], row["position"], row["clicked"]) for row in rows]
    assert kept == [
        ("r1", "black cat", "a", 1, 0),
        ("r1", "black cat", "b", 2, 1),
        ("r1", "black cat", "3", 3, 0),
        ("r2", "7", "b", 1, 0),
    ]
    assert [f"{row['timestamp']:%F %T}" for row in rows[-2:]] == ["2020-09-06 11:24:20", "2020-09-06 11:24:21"]
    assert (rows[0]["user_id"], rows[0]["surface"]) == ("u1", "shop")
    assert report.came_in == {"ranking": 4, "result": 4, "click": 4, "other": 3}
    assert {(aside.record, aside.reason): aside.count for aside in report.set_aside} == {
        ("ranking", "no text"): 1,
        ("ranking", "repeated"): 1,
        ("click", "repeated"): 1,
        ("click", "never shown"): 1,
        ("click", "no id"): 1,
        ("other", "other action"): 2,
    }
    assert report.actions == {"purchase": 1}
    assert [row["purchase"] for row in rows] == [False, False, False, True]


def test_other_interactions_as_clicks(tmp_path: Path) -> None:
    path = written(tmp_path / "events.jsonl", EVENTS)
    report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, click_action="purchase")
    assert report.clicks == 1
    with pytest.raises(DataError, match=r"'like'; the actions are click \(4\), item \(1\)"):
        import_log("metarank", path, out=tmp_path / "log.parquet", click_action="like")


def test_a_log_without_queries_has_one(tmp_path: Path) -> None:
    events = [{**event, "fields": []} for event in EVENTS]
    path = written(tmp_path / "events.jsonl", events)
    report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0)
    assert set(pq.read_table(tmp_path / "log.parquet")["query_id"].to_pylist()) == {"all"}
    assert "`query_field`" in report.notes[0]
    with pytest.raises(DataError, match="'words'"):
        import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, query_field="words")
    written(path, EVENTS)
    import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, query_field="search")
    assert set(pq.read_table(tmp_path / "log.parquet")["query_id"].to_pylist()) == {"no"}
