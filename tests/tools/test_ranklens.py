"""RankLens from events that were made up, and from the real tables turned into events and back."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepare import prepare
from public_sets.ranklens import make_ranklens

from cldrank import ClickTable
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


def test_lists_of_one_moment_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    table, _, _ = made(tmp_path, [ranking(name, "1636993834000", name, [place]) for place, name in enumerate("cab")])
    assert table["item"].to_pylist() == [0, 1, 2]


def test_clicks_on_nothing_shown_are_counted(tmp_path: Path) -> None:
    events = [ranking("a", "1636993834000", "u", [1, 2]), click("a", 3), click("b", 1), click(None, 1), click("a", 2)]
    table, _, counts = made(tmp_path, events)
    assert table["click"].to_pylist() == [0, 1]
    assert counts["clicks on nothing shown"] == 3


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
        ({"id": 1}, r":2: not an event of Metarank \(no 'event'\)"),
        ({"event": "purchase"}, r":2: not an event of Metarank \(its kind is 'purchase'\)"),
        (
            ranking("a", "yesterday", "u", [1]),
            r":2: not an event of Metarank \(Invalid isoformat string: 'yesterday'\)",
        ),
        ({**ranking("a", "1636993834000", "u", []), "items": None}, ":2: not an event of Metarank"),
        (item(1) | {"item": "x7"}, ":2: not an event of Metarank"),
    ],
)
def test_events_that_are_broken(tmp_path: Path, event: Event | str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        made(tmp_path, [ranking("ok", "1636993834000", "u", [1]), event])


def test_a_file_without_lists(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no event of the kind ranking"):
        made(tmp_path, [item(3)])


def equal(ours: pa.Table, theirs: pa.Table) -> None:
    """The same values in the same order; text may be of either width."""
    assert ours.column_names == theirs.column_names
    assert ours.to_pydict() == theirs.to_pydict()


@pytest.mark.data
@pytest.mark.slow
def test_the_real_tables_survive_as_events(real_data: Path, tmp_path: Path) -> None:
    """Every number comes back if the tables are written as Metarank writes events; the lines are in disorder."""
    theirs = [pq.read_table(real_data / "ranklens" / f"{name}.parquet") for name in ("impressions", "items")]
    shown = theirs[0].to_pydict()
    lists: dict[int, Event] = {}
    events = []
    for number, user, time, one, clicked in zip(
        *(shown[name] for name in ("ranking", "user", "ts_ms", "item", "click")), strict=True
    ):
        event = lists.setdefault(number, ranking(f"r{number}", str(time), f"u{user}", []))
        event["items"].append({"id": str(one), "fields": []})
        if clicked:
            events.append(click(f"r{number}", one))
    for row in theirs[1].to_pylist():
        fields = {name: value for name, value in row.items() if name != "item" and value is not None}
        for name in ("genres", "tags", "actors"):
            fields[name] = fields[name].split("|")
        events.append(item(row["item"], **fields))
    events = [events[place] for place in np.random.default_rng(0).permutation(len(events))]
    *ours, counts = made(tmp_path, [*events, *lists.values()])
    for mine, real in zip(ours, theirs, strict=True):
        equal(mine, real)
    assert ours[0].schema.types == theirs[0].schema.types
    assert counts == {
        "lists": 9800,
        "rows": 235_200,
        "clicks": 46_125,
        "clicks on nothing shown": 0,
        "items": 2512,
    }


@pytest.mark.data
def test_the_published_events_give_the_tables_of_the_results(real_data: Path, tmp_path: Path) -> None:
    folder = Path(os.environ.get("CLDRANK_PUBLISHED", ""))
    if not (folder / "ranklens" / "events.jsonl.gz").is_file():
        pytest.skip("CLDRANK_PUBLISHED does not name a folder with ranklens/events.jsonl.gz")
    prepare("ranklens", [folder / "ranklens"], tmp_path / "ranklens")
    for name in ("impressions", "items"):
        equal(*(pq.read_table(where / "ranklens" / f"{name}.parquet") for where in (tmp_path, real_data)))


def test_what_is_made_is_a_log(tmp_path: Path) -> None:
    made(tmp_path, [ranking("a", "1636993834000", "u", [1, 2]), click("a", 2)])
    columns = {"session_id": "ranking", "doc_id": "item", "clicked": "click"}
    table = ClickTable.read(tmp_path / "impressions.parquet", columns=columns, one_query=True)
    assert (table.impressions.sum(), table.clicks.sum()) == (2, 1)
