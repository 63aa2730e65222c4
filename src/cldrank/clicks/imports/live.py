"""`pull`: all documents of a live index, as of one moment, in a file that appears whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from cldrank.files import replacing
from cldrank.web import Client, EngineError

_PAGE = 1000  # documents
_KEEP = "5m"  # between two pages
_POINTS_IN_TIME = {"_pit": "id", "_search/point_in_time": "pit_id"}  # of Elasticsearch, and of OpenSearch


def pull(url: str, index: str, path: Path, progress: Callable[[str], Any]) -> Path:
    """Write the documents of an index as JSON Lines; `cldrank.web.Client` says where credentials come from."""
    done = 0
    with Client(url) as client, replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for hits in _pages(client, index):
            file.writelines(json.dumps(hit["_source"], ensure_ascii=False) + "\n" for hit in hits)
            done += len(hits)
            progress(f"{done:,} documents of {index} …")
    return path


def _pages(client: Client, index: str) -> Iterator[list[dict[str, Any]]]:
    """Page after page of a point in time or, where the engine has none that can be sorted, of a scroll."""
    for place, name in _POINTS_IN_TIME.items():
        with suppress(EngineError):
            point = client.ask(f"/{index}/{place}?keep_alive={_KEEP}")[name]
            search: dict[str, Any] = {
                "size": _PAGE,
                "sort": [{"_shard_doc": "asc"}],
                "pit": {"id": point, "keep_alive": _KEEP},
            }
            answer = client.ask("/_search", search)
            break
    else:
        answer = client.ask(f"/{index}/_search?scroll={_KEEP}", {"size": _PAGE, "sort": ["_doc"]})
        search = {}
    while hits := answer["hits"]["hits"]:
        yield hits
        if search:
            search["pit"]["id"] = answer.get("pit_id", search["pit"]["id"])
            answer = client.ask("/_search", {**search, "search_after": hits[-1]["sort"]})
        else:
            answer = client.ask("/_search/scroll", {"scroll": _KEEP, "scroll_id": answer["_scroll_id"]})
