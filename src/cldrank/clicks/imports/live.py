"""`pull`: all documents of a live index, as of one moment, in a file that appears whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cldrank.files import replacing
from cldrank.web import Client

_PAGE = 1000  # documents
_KEEP = "5m"  # between two pages


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
    """Page after page of a scroll, which all versions of both engines have."""
    answer = client.ask(f"/{index}/_search?scroll={_KEEP}", {"size": _PAGE, "sort": ["_doc"]})
    while hits := answer["hits"]["hits"]:
        yield hits
        answer = client.ask("/_search/scroll", {"scroll": _KEEP, "scroll_id": answer["_scroll_id"]})
