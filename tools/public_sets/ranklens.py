"""RankLens: tables of impressions and of items from the events that Metarank publishes.

The file holds one JSON object per line, of the kinds `item` (metadata of a movie), `ranking` (a list that somebody was
shown, in order) and `interaction` (a click on one of its movies).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cldrank.errors import FormatError
from public_sets.lines import as_id, as_texts, finite_number, json_lines

_NUMBERS = ("popularity", "vote_avg", "vote_cnt", "budget", "runtime", "release_date")
_TEXTS = ("genres", "tags", "actors", "description", "director", "writer")
_LARGEST_ITEM = 2**31 - 1
_LONGEST = 10_000  # movies in a list
_MOST_DIGITS = 15  # of a time in milliseconds
_MILLISECONDS = 100_000_000_000  # from here on, a number is a time in milliseconds, not in seconds


@dataclass
class RankLensEvents:
    """What the file tells: movies by id; lists as (time, id, user, movies); the movies clicked on, by list."""

    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    rankings: list[tuple[int, str, str, list[int]]] = field(default_factory=list)
    clicks: dict[str | None, set[int]] = field(default_factory=dict)


def make_ranklens(files: Sequence[Path], out: Path, progress: Callable[[str, int, int], None]) -> dict[str, int]:
    """Make impressions and items from the published events; returns what was counted."""
    import pyarrow.parquet as pq

    progress("reading events", 0, 2)
    events = _read(files[0])
    if not events.rankings:
        raise FormatError("holds no event of the kind ranking.", path=files[0])
    progress("writing", 1, 2)
    impressions, clicked = _impressions(events)
    pq.write_table(impressions, out / "impressions.parquet", compression="zstd")
    pq.write_table(_items(events), out / "items.parquet", compression="zstd")
    progress("writing", 2, 2)
    lost = sum(map(len, events.clicks.values())) - clicked
    return {
        "lists": len(events.rankings),
        "rows": impressions.num_rows,
        "clicks": clicked,
        "clicks on nothing shown": lost,
        "items": len(events.items),
    }


def _read(path: Path) -> RankLensEvents:
    events = RankLensEvents()
    for number, event in json_lines(path):
        try:
            _take(event, events)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise FormatError(f"not an event of Metarank ({what}).", path=path, line=number) from error
    return events


def _take(event: dict[str, Any], events: RankLensEvents) -> None:
    kind = event["event"]
    if kind in ("item", "metadata"):
        item = events.items.setdefault(_item(event["item"]), {})
        item.update({one["name"]: _value(one["name"], one["value"]) for one in event["fields"]})
    elif kind == "ranking":
        shown = [_item(item["id"]) for item in event["items"]]
        if len(shown) > _LONGEST:
            raise ValueError(f"a list of {len(shown):,} movies")
        time, name, user = _milliseconds(event["timestamp"]), _text(event, "id"), _text(event, "user")
        events.rankings.append((time, name, user, shown))
    elif kind == "interaction":
        if event["type"] == "click":
            ranking = None if event["ranking"] is None else _text(event, "ranking")
            events.clicks.setdefault(ranking, set()).add(_item(event["item"]))
    elif kind != "user":
        raise ValueError(f"its kind is {kind!r}")


def _item(value: Any) -> int:
    found = as_id(value, "the item")
    if found > _LARGEST_ITEM:
        raise ValueError(f"the item is {found}, too large a number")
    return found


def _text(event: dict[str, Any], name: str) -> str:
    if isinstance(event[name], bool) or not isinstance(event[name], str | int):
        raise ValueError(f"its {name} is {event[name]!r}")
    return str(event[name])


def _value(name: str, value: Any) -> Any:
    """The value of a field that is kept, checked; lists are joined by |."""
    if value is None:
        return None
    if name in _NUMBERS:
        return finite_number(value, name)
    return "|".join(as_texts(value, name)) if name in ("title", *_TEXTS) else value


def _milliseconds(time: str | int) -> int:
    """A time in milliseconds since 1970, from a number or a text in one of Metarank's forms.

    >>> _milliseconds("1636993834000"), _milliseconds(1636993834), _milliseconds("2021-11-15T16:30:34")
    (1636993834000, 1636993834000, 1636993834000)
    """
    text = str(time)
    if len(text) > _MOST_DIGITS and text.isdigit():
        raise ValueError(f"its time is {text[:80]}")
    if not (text.isascii() and text.isdigit()):
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    return int(text) if int(text) >= _MILLISECONDS else int(text) * 1000


def _impressions(events: RankLensEvents) -> tuple[Any, int]:
    """One row per movie shown, lists in order of time, people numbered as they appear; and how many were clicked."""
    import pyarrow as pa

    lists = sorted(events.rankings, key=lambda ranking: ranking[0])
    sizes = [len(shown) for *_, shown in lists]
    people = {user: number for number, user in enumerate(dict.fromkeys(user for _, _, user, _ in lists))}
    none: set[int] = set()
    clicks = [item in events.clicks.get(name, none) for _, name, _, shown in lists for item in shown]
    table = pa.table(
        {
            "ranking": pa.array(np.repeat(np.arange(len(lists)), sizes), pa.int32()),
            "user": pa.array(np.repeat([people[user] for _, _, user, _ in lists], sizes), pa.int32()),
            "ts_ms": pa.array(np.repeat([time for time, *_ in lists], sizes), pa.int64()),
            "position": pa.array([place for size in sizes for place in range(1, size + 1)], pa.int16()),
            "item": pa.array([item for *_, shown in lists for item in shown], pa.int32()),
            "click": pa.array(np.array(clicks, dtype=np.int8), pa.int8()),
        }
    )
    return table, sum(clicks)


def _items(events: RankLensEvents) -> Any:
    """One row per movie, by id; what is not known is null."""
    import pyarrow as pa

    found = sorted(events.items.items())
    columns: dict[str, Any] = {"item": pa.array([item for item, _ in found], pa.int64())}
    columns["title"] = pa.array([fields.get("title") for _, fields in found], pa.string())
    for name in _NUMBERS:
        columns[name] = pa.array([fields.get(name) for _, fields in found], pa.float64())
    for name in _TEXTS:
        columns[name] = pa.array([fields.get(name) for _, fields in found], pa.string())
    return pa.table(columns)
