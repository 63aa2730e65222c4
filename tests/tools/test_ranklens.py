"""RankLens from events that were made up, and from the real tables turned into events and back."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepare import prepare
from public_sets.ranklens import make_ranklens

from cldrank.errors import FormatError

Event = dict[str, Any]


def item(number: int, time: str = "1636907100000", **fields: Any) -> Event:
    listed = [{"name": name, "value": value} for name, value in fields.items()]
    return {"event": "item", "id": f"i{number}", "item": str(number), "timestamp": time, "fields": listed}


def ranking(name: str, time: Any, user: str, shown: Iterable[int]) -> Event:
    items = [{"id": str(one), "fields": [{"name": "relevancy", "value": 0.0}]} for one in shown]
    told = {"event": "ranking", "id": name, "timestamp": time, "user": user, "session": user, "fields": []}
    return {**told, "items": items}


def click(name: str | None, number: int, kind: str = "click") -> Event:
    told = {"event": "interaction", "id": f"c{name}{number}", "ranking": name, "item": str(number), "type": kind}
    return {**told, "timestamp": "1636993900000", "user": "u", "session": "u", "fields": []}


def made(folder: Path, events: Iterable[Event | str]) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    path = folder / "events.jsonl.gz"
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    counts = make_ranklens([path], folder, lambda *_: None)
    impressions, items = (pq.read_table(folder / f"{name}.parquet") for name in ("impressions", "items"))
    return impressions, items, counts


def test_impressions(tmp_path: Path) -> None:
    events = [
        click("later", 5),  # in disorder
        ranking("later", "1636993900000", "bea", [3, 5]),
        ranking("first", "1636993834000", "ann", [9, 3, 5]),
        ranking("last", 1636993901, "bea", [3]),
        click("first", 9),
        click("first", 9),  # twice
        click("first", 5, kind="like"),
    ]
    table, _, counts = made(tmp_path, events)
    assert table.to_pydict() == {
        "ranking": [0, 0, 0, 1, 1, 2],
        "user": [0, 0, 0, 1, 1, 1],
        "ts_ms": [1636993834000] * 3 + [1636993900000] * 2 + [1636993901000],
        "position": [1, 2, 3, 1, 2, 1],
        "item": [9, 3, 5, 3, 5, 3],
        "click": [1, 0, 0, 0, 1, 0],
    }
    assert counts == {"lists": 3, "rows": 6, "clicks": 2, "clicks on nothing shown": 0, "items": 0}


def test_items(tmp_path: Path) -> None:
    events = [
        item(7, title="Heat", genres=["crime", "drama"], budget=60000000, vote_avg=7.9, writer="michael mann"),
        item(3, title="Up", tags=[], popularity=3.5),
        {**item(7, title="Heat", runtime=170), "event": "metadata"},  # what older files call it; adds to the first
        {"event": "user", "user": "u", "fields": []},
        ranking("a", "1636993834000", "u", [7]),
    ]
    _, table, counts = made(tmp_path, events)
    assert table.column_names == [
        *("item", "title", "popularity", "vote_avg", "vote_cnt", "budget", "runtime", "release_date"),
        *("genres", "tags", "actors", "description", "director", "writer"),
    ]
    up, heat = table.to_pylist()
    assert (up["item"], up["title"], up["popularity"], up["tags"], up["genres"]) == (3, "Up", 3.5, "", None)
    assert (heat["item"], heat["genres"], heat["budget"], heat["runtime"]) == (7, "crime|drama", 6e7, 170.0)
    assert counts["items"] == 2


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{", r"events\.jsonl\.gz:2: not JSON"),
        ({"event": "purchase"}, r":2: not an event of Metarank \(its kind is 'purchase'\)"),
        (item(1) | {"item": "x7"}, ":2: not an event of Metarank"),
    ],
)
def test_events_that_are_broken(tmp_path: Path, event: Event | str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        made(tmp_path, [ranking("ok", "1636993834000", "u", [1]), event])


def equal(ours: pa.Table, theirs: pa.Table) -> None:
    """The same values in the same order; text may be of either width."""
    assert ours.column_names == theirs.column_names
    assert ours.to_pydict() == theirs.to_pydict()


@pytest.mark.data
def test_the_published_events_give_the_tables_of_the_results(real_data: Path, tmp_path: Path) -> None:
    folder = Path(os.environ.get("CLDRANK_PUBLISHED", ""))
    if not (folder / "ranklens" / "events.jsonl.gz").is_file():
        pytest.skip("CLDRANK_PUBLISHED does not name a folder with ranklens/events.jsonl.gz")
    prepare("ranklens", [folder / "ranklens"], tmp_path / "ranklens")
    for name in ("impressions", "items"):
        equal(*(pq.read_table(where / "ranklens" / f"{name}.parquet") for where in (tmp_path, real_data)))
