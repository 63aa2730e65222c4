"""Imports of logs of other programs: UBI and Metarank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from mutation import Random
from reader import Reader, WrongError, emptied, lines_of, parquet_of, same

_PAGES = [(f"p{page}", f"Query {page % 3}", [f"d{(page + place) % 5}" for place in range(3)]) for page in range(6)]
_SOURCE = {"ubi": "ubi", "ubi-parquet": "ubi", "metarank": "metarank"}


def _queries() -> list[dict[str, Any]]:
    return [
        {"query_id": page, "user_query": text, "client_id": f"u{at}", "timestamp": f"2026-11-15T08:00:0{at}Z",
         "query_response_hit_ids": documents}
        for at, (page, text, documents) in enumerate(_PAGES)
    ]  # fmt: skip


def _events() -> list[dict[str, Any]]:
    return [
        {"action_name": action, "query_id": page, "timestamp": f"2026-11-15T08:00:1{place}Z",
         "event_attributes": {"object": {"object_id": document}, "position": {"ordinal": place}}}
        for at, (page, _, documents) in enumerate(_PAGES)
        for place, document in enumerate(documents, start=1)
        for action in (("impression", "click") if place == 1 + at % 3 else ("impression",))
    ]  # fmt: skip


def _of_metarank() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at, (page, text, documents) in enumerate(_PAGES):
        found.append(
            {"event": "ranking", "id": page, "timestamp": str(1599391460000 + at), "user": f"u{at}",
             "fields": [{"name": "query", "value": text}], "items": [{"id": one} for one in documents]}
        )  # fmt: skip
        found.append(
            {"event": "interaction", "id": f"i{at}", "ranking": page, "timestamp": str(1599391470000 + at),
             "type": "click", "item": documents[at % 3]}
        )  # fmt: skip
    return found


def _seed_imports(folder: Path) -> None:
    for name in _SOURCE:
        (folder / name).mkdir()
    for name, records in (("queries", _queries()), ("events", _events())):
        (folder / "ubi" / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
        pq.write_table(pa.Table.from_pylist(records), folder / "ubi-parquet" / f"{name}.parquet")
    (folder / "metarank" / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in _of_metarank()))


def _case_imports(seeds: Path, place: Path, random: Random) -> Path:
    """The files of one format, of which one is mutated."""
    name = list(_SOURCE)[int(random.integers(len(_SOURCE)))]
    target = emptied(place / name)
    files = sorted((seeds / name).iterdir())
    for file in files:
        (target / file.name).write_bytes(file.read_bytes())
    chosen = files[int(random.integers(len(files)))].name
    change = parquet_of if name == "ubi-parquet" else lines_of
    change(chosen)(seeds / name, target, random)
    return target


def _read_imports(path: Path) -> None:
    from cldrank.clicks.imports import import_log

    out = path.parent / "imported.parquet"
    out.unlink(missing_ok=True)
    files = sorted(path.iterdir())
    source = _SOURCE[path.name]
    named: dict[str, Any] = {"queries": files[1], "events": files[0]} if source == "ubi" else {"paths": files}
    report = import_log(source, out=out, min_joined=0.0, memory_limit="500MB", threads=1, **named)
    str(report), json.dumps(report.as_dict())
    rows = pq.read_table(out).to_pylist()
    same(len(rows), report.rows, "rows of the log")
    same(sum(row["clicked"] for row in rows), report.clicks, "clicks")
    same(len({row["session_id"] for row in rows}), report.pages, "pages")
    if any(row[name] is None for row in rows for name in ("session_id", "query_id", "doc_id", "position", "clicked")):
        raise WrongError("a row without a key")
    _check_records(path, source, report)


def _check_records(path: Path, source: str, report: Any) -> None:
    """Every record of the files is counted."""
    found = sum(number for record, number in report.came_in.items() if record != "result")
    if path.name == "ubi-parquet":
        expected = sum(pq.read_metadata(file).num_rows for file in path.iterdir())
    else:
        expected = sum(len(_records(file)) for file in path.iterdir())
    same(found, expected, "records")


def _records(path: Path) -> list[Any]:
    """The JSON values of a file."""
    text, found, at = path.read_text(encoding="utf-8-sig").strip(), [], 0
    while at < len(text):
        one, at = json.JSONDecoder().raw_decode(text, at)
        found.append(one)
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
    return found


IMPORT_READERS = {"imports": Reader(_seed_imports, _case_imports, _read_imports, 1)}
