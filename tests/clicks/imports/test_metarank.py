"""Metarank: rankings in the order of their items, and interactions, whatever the order of lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cldrank.clicks.imports import import_log
from cldrank.errors import DataError

EVENTS: list[dict[str, Any]] = [
    {"event": "interaction", "id": "i1", "ranking": "r1", "timestamp": "1599391467000", "type": "click", "item": "b"},
    {
        "event": "ranking",
        "id": "r1",
        "timestamp": "1599391460000",
        "user": "u1",
        "session": "s1",
        "tenant": "shop",
        "fields": [{"name": "search", "value": "no"}, {"name": "query", "value": " Black  CAT "}],
        "items": [{"id": "a", "relevancy": 2.0}, {"id": "b", "relevancy": 1.0}, {"id": 3}],
    },
    {
        "event": "ranking",
        "id": "r2",
        "timestamp": 1599391461,
        "fields": [{"name": "q", "value": 7}],
        "items": [{"id": "b"}],
    },
    {"event": "ranking", "id": "r3", "timestamp": "2020-09-06T11:24:22Z", "items": [{"id": "a"}]},  # no query
    {
        "event": "ranking",
        "id": "r2",
        "timestamp": 1599391469,
        "fields": [{"name": "q", "value": 7}],
        "items": [],
    },  # again
    {
        "event": "interaction",
        "id": "i2",
        "ranking": "r1",
        "timestamp": "1599391467000",
        "type": "click",
        "item": "b",
    },  # copy
    {"event": "interaction", "id": "i3", "ranking": "r1", "timestamp": "1599391468000", "type": "click", "item": "z"},
    {
        "event": "interaction",
        "id": "i4",
        "timestamp": "1599391468000",
        "type": "click",
        "item": "a",
    },  # outside rankings
    {
        "event": "interaction",
        "id": "i5",
        "ranking": "r2",
        "timestamp": "1599391468000",
        "type": "purchase",
        "item": "b",
    },
    {
        "event": "item",
        "id": "x",
        "timestamp": "1",
        "item": "a",
        "fields": [{"name": "color", "value": ["white", "black"]}],
    },
    {"event": "user", "id": "y", "timestamp": "1", "user": "u1", "fields": [{"name": "age", "value": 33}]},
]


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_rankings_and_interactions(tmp_path: Path, engine: Any) -> None:
    path = written(tmp_path / "events.jsonl", EVENTS)
    report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, engine=engine)
    rows = sorted(
        pq.read_table(tmp_path / "log.parquet").to_pylist(), key=lambda row: (row["session_id"], row["position"])
    )
    kept = [(row["session_id"], row["query_id"], row["doc_id"], row["position"], row["clicked"]) for row in rows]
    assert kept == [
        ("r1", "black cat", "a", 1, 0),
        ("r1", "black cat", "b", 2, 1),
        ("r1", "black cat", "3", 3, 0),
        ("r2", "7", "b", 1, 0),
    ]
    assert [row["timestamp"].isoformat() for row in rows[-2:]] == [
        "2020-09-06T11:24:20+00:00",
        "2020-09-06T11:24:21+00:00",
    ]
    assert (rows[0]["user_id"], rows[0]["surface"]) == ("u1", "shop")
    assert report.came_in == {"ranking": 4, "result": 4, "click": 4, "other": 3}
    assert {(one.record, one.reason): one.count for one in report.set_aside} == {
        ("ranking", "no text"): 1,
        ("ranking", "repeated"): 1,
        ("click", "repeated"): 1,
        ("click", "never shown"): 1,
        ("click", "no id"): 1,
        ("other", "other action"): 3,
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_lines_does_not_matter(tmp_path: Path, seed: int) -> None:
    found = []
    for order in (range(len(EVENTS)), np.random.default_rng(seed).permutation(len(EVENTS))):
        path = written(tmp_path / "events.jsonl", [EVENTS[at] for at in order])
        report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0)
        rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
        found.append((report.as_dict() | {"seconds": 0}, sorted(map(str, rows))))
    assert found[0] == found[1]


def test_other_interactions_as_clicks(tmp_path: Path) -> None:
    path = written(tmp_path / "events.jsonl", EVENTS)
    report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, click_action="purchase")
    assert report.clicks == 1
    with pytest.raises(DataError, match=r"no event has the action 'like'; the actions are click \(4\), item \(1\)"):
        import_log("metarank", path, out=tmp_path / "log.parquet", click_action="like")


def test_a_log_without_queries_has_one(tmp_path: Path) -> None:
    events = [{**event, "fields": []} for event in EVENTS]
    path = written(tmp_path / "events.jsonl", events)
    report = import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0)
    assert set(pq.read_table(tmp_path / "log.parquet")["query_id"].to_pylist()) == {"all"}
    assert "no ranking names a query: all pages belong to one, 'all'" in report.notes[0]
    assert "`query_field`" in report.notes[0]
    with pytest.raises(DataError, match="no ranking has the field 'words'"):
        import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, query_field="words")


def test_the_field_of_the_query(tmp_path: Path) -> None:
    path = written(tmp_path / "events.jsonl", EVENTS)
    import_log("metarank", path, out=tmp_path / "log.parquet", min_joined=0, query_field="search")
    assert set(pq.read_table(tmp_path / "log.parquet")["query_id"].to_pylist()) == {"no"}


def test_no_rankings(tmp_path: Path) -> None:
    path = written(tmp_path / "events.jsonl", [EVENTS[0], EVENTS[-1]])
    with pytest.raises(DataError, match=r"there are no ranking events; the events are user \(1\)"):
        import_log("metarank", path, out=tmp_path / "log.parquet")
