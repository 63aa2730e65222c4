"""A plain log as an export of UBI would have it: queries and events, in plain Python that shares no code with cldrank.

What goes wrong on the way is counted as it happens, so that an import can be held to it.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Row = tuple[int, str, str, int, bool]  # session, query, document, position, clicked
_START = 1_717_200_000_000  # 2024-06-01, in milliseconds


@dataclass
class Export:
    """Lines of queries and events, and what an import has to say about them."""

    queries: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    aside: Counter[tuple[str, str]] = field(default_factory=Counter)

    def came_in(self) -> dict[str, int]:
        """The number of records of each kind."""
        kinds = Counter(
            {"impression": "impression", "click": "click"}.get(event["action_name"], "other") for event in self.events
        )
        return {"query": len(self.queries), **{kind: kinds[kind] for kind in ("impression", "click", "other")}}

    def write(self, folder: Path, seed: int = 0, wrapped: bool = False, suffix: str = "jsonl") -> tuple[Path, Path]:
        """Two files of lines in random order; `wrapped` puts every other record into the envelope of an index."""
        drawn = np.random.default_rng(seed)
        paths = folder / f"queries.{suffix}", folder / f"events.{suffix}"
        for path, records, index in zip(paths, (self.queries, self.events), ("ubi_queries", "ubi_events"), strict=True):
            lines = [
                {"_index": index, "_id": str(at), "_score": 1.0, "_source": one} if wrapped and at % 2 else one
                for at, one in enumerate(records)
            ]
            drawn.shuffle(lines)
            text = "".join(json.dumps(line) + "\n" for line in lines)
            path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
        return paths


def export(
    rows: Iterable[Row], *, first: int = 1, hits: bool = True, ordinals: bool = True, impressions: bool = True
) -> Export:
    """All of a log, with nothing wrong.

    first         the number of the top position
    hits          whether queries list what they returned
    ordinals      whether impressions have positions
    impressions   whether there are any
    """
    pages: dict[tuple[int, str], list[tuple[int, str, bool]]] = defaultdict(list)
    for session, query, document, position, clicked in rows:
        pages[session, query].append((position, document, clicked))
    made = Export()
    for (session, query), results in pages.items():
        results.sort()
        made.queries.append(_query(session, query, [document for _, document, _ in results] if hits else None))
        for position, document, clicked in results:
            place = position - 1 + first if ordinals else None
            if impressions:
                made.events.append(_event("impression", session, document, place, 1 + position))
            if clicked:
                made.events.append(_event("click", session, document, place, 5000 + 700 * position))
    return made


def _query(session: int, query: str, documents: Sequence[str] | None) -> dict[str, Any]:
    time: Any = _START + 60_000 * session  # milliseconds, or text
    found = {
        "query_id": name_of(session),
        "user_query": f"  {query.upper()} " if session % 2 else query,
        "client_id": f"client {session // 3}",
        "application": "shop",
        "timestamp": time if session % 3 else _iso(time),
        "query": '{"query": {"match_all": {}}}',
        "query_attributes": {"nested": {"depth": [1, 2]}},
    }
    if documents is not None:
        name = "query_response_objects_ids" if session % 5 == 4 else "query_response_hit_ids"  # the older name
        found[name] = list(documents)
    return found


def _event(action: str, session: int, document: str, ordinal: int | None, after: int) -> dict[str, Any]:
    position: dict[str, Any] = {"xy": {"x": 10, "y": 20}} if ordinal is None else {"ordinal": ordinal}
    return {
        "action_name": action,
        "query_id": name_of(session),
        "session_id": f"browser {session // 3}",
        "client_id": f"client {session // 3}",
        "timestamp": _iso(_START + 60_000 * session + after),
        "message_type": None,
        "event_attributes": {
            "object": {"object_id": document, "internal_id": f"_{document}", "object_id_field": "sku"},
            "position": position,
        },
    }


def name_of(session: int) -> str:
    """The query_id of a session."""
    return f"00000000-0000-4000-8000-{session:012d}"


def _iso(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    day, left = divmod(seconds - _START // 1000, 86_400)
    return f"2024-06-{1 + day:02d}T{left // 3600:02d}:{left // 60 % 60:02d}:{left % 60:02d}.{rest:03d}Z"


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def with_noise(made: Export) -> Export:
    """Events that have nothing to do with results."""
    for at in range(0, len(made.queries), 2):
        made.events.append({"action_name": "login", "timestamp": _iso(_START + at), "client_id": "somebody"})
        made.events.append({**_event("hover", at, "a", 1, 3), "query_id": made.queries[at]["query_id"]})
        made.aside["other", "other action"] += 2
    return made


def with_defects(made: Export, seed: int = 0) -> tuple[Export, set[tuple[str, str]], set[tuple[str, str]]]:
    """Some of all that can be wrong; also the results (query_id, document) that are lost, and those whose click is.

    Each page suffers at most once, so that the causes do not mix.
    """
    drawn = np.random.default_rng(seed)
    pages = [query["query_id"] for query in made.queries]
    drawn.shuffle(pages)
    by_page: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in made.events:
        by_page[event.get("query_id", "")].append(event)
    lost: set[tuple[str, str]] = set()
    unclicked: set[tuple[str, str]] = set()
    shares = len(pages) // 10
    kinds = (_without_query, _without_text, _copied, _nameless, _without_page, _unshown, _far_away)
    for at, defect in enumerate(kinds):
        for page in pages[at * shares : (at + 1) * shares]:
            defect(made, page, by_page[page], lost, unclicked)
    return made, lost, unclicked


Keys = set[tuple[str, str]]
Events = list[dict[str, Any]]


def _shown(events: Events) -> Events:
    return [event for event in events if event["action_name"] == "impression"]


def _clicked(events: Events) -> Events:
    return [event for event in events if event["action_name"] == "click"]


def _document(event: dict[str, Any]) -> str:
    return str(event["event_attributes"]["object"]["object_id"])


def _lose(made: Export, page: str, events: Events, lost: Keys, reason: str) -> None:
    lost.update((page, _document(event)) for event in _shown(events))
    made.aside["impression", reason] += len(_shown(events))
    made.aside["click", reason] += len(_clicked(events))


def _without_query(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    made.queries = [query for query in made.queries if query["query_id"] != page]
    _lose(made, page, events, lost, "unknown page")


def _without_text(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    for query in made.queries:
        if query["query_id"] == page:
            query["user_query"] = " "
    made.aside["query", "no text"] += 1
    _lose(made, page, events, lost, "page without text")


def _copied(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    """The query and all of its events come twice."""
    made.queries += [dict(query) for query in made.queries if query["query_id"] == page]
    made.events += [dict(event) for event in events]
    made.aside["query", "repeated"] += 1
    made.aside["impression", "repeated"] += len(_shown(events))
    made.aside["click", "repeated"] += len(_clicked(events))


def _nameless(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    """An impression and its clicks do not say what was shown."""
    document = _document(_shown(events)[-1])
    for event in events:
        if _document(event) == document:
            event["event_attributes"] = {"object": {"object_id": ""}}
            made.aside[event["action_name"], "no document"] += 1
    lost.add((page, document))


def _without_page(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    """Clicks do not say on which page."""
    for event in _clicked(events):
        unclicked.add((page, _document(event)))
        del event["query_id"]
        made.aside["click", "no id"] += 1


def _unshown(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    """The impression of the last result was never logged."""
    last = _shown(events)[-1]
    made.events = [event for event in made.events if event is not last]
    lost.add((page, _document(last)))
    made.aside["click", "not logged"] += sum(_document(event) == _document(last) for event in _clicked(events))


def _far_away(made: Export, page: str, events: Events, lost: Keys, unclicked: Keys) -> None:
    """A result is shown again further down, another at a position that cannot be."""
    first, last = _shown(events)[0], _shown(events)[-1]
    lower = json.loads(json.dumps(first))
    lower["event_attributes"]["position"] = {"ordinal": 40}
    made.events.append(lower)
    made.aside["impression", "second place"] += 1
    last["event_attributes"]["position"] = {"ordinal": 20_000}
    made.aside["impression", "position out of range"] += 1
    lost.add((page, _document(last)))
    made.aside["click", "not logged"] += sum(_document(event) == _document(last) for event in _clicked(events))
