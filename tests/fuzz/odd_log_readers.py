"""Click logs in odd layouts: nested, lists of results, several times; and folders of days."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click_readers import check_counts
from mutation import Random
from reader import Reader, WrongError, emptied, lines_of, parquet_of, same

_ROWS = [
    (page, f"q{page % 2}", f"d{(page + place) % 4}", place, (page + place) % 3 == 0)
    for page in range(8)
    for place in range(1, 5)
]
_LAYOUTS: dict[str, dict[str, Any]] = {
    "nested": {
        "columns": {"session_id": "page.id", "query_id": "page.search.text", "doc_id": "hit.id", "position": "hit.rank"}
    },
    "lists": {},
    "results": {"columns": {"doc_id": "results.id", "clicked": "results.hit"}},
    "zones": {"days": True},
    "times": {"segment": "device"},
}


def _plain(page: int, query: str, document: str, place: int, clicked: bool) -> dict[str, Any]:
    return {"session_id": page, "query_id": query, "doc_id": document, "position": place, "clicked": clicked}


def _rows(layout: str) -> list[dict[str, Any]]:
    """The log in one of the layouts."""
    if layout in ("lists", "results"):
        return [_page(layout, [row for row in _ROWS if row[0] == page]) for page in range(8)]
    found = []
    for page, query, document, place, clicked in _ROWS:
        row = _plain(page, query, document, place, clicked)
        match layout:
            case "nested":
                inside = {"id": page, "search": {"text": query}}
                row = {"page": inside, "hit": {"id": document, "rank": place}, "clicked": clicked}
            case "zones":
                row["timestamp"] = f"2026-03-{28 + page % 3} 0{place}:30:00"
            case _:
                row |= {"timestamp": f"2026-11-15T08:00:0{page}Z", "device": ("phone", "desktop")[page % 2]}
        found.append(row)
    return found


def _page(layout: str, rows: list[tuple[int, str, str, int, bool]]) -> dict[str, Any]:
    page: dict[str, Any] = {"session_id": rows[0][0], "query_id": rows[0][1]}
    if layout == "lists":
        clicked = [row[3] for row in rows if row[4]]
        return page | {"documents": [row[2] for row in rows], "clicked_positions": clicked}
    return page | {"results": [{"id": row[2], "hit": row[4]} for row in rows]}


def _seed_odd_logs(folder: Path) -> None:
    for layout in _LAYOUTS:
        (folder / layout).mkdir()
        rows = _rows(layout)
        (folder / layout / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pq.write_table(pa.Table.from_pylist(rows), folder / layout / "log.parquet")


def _case_odd_log(seeds: Path, place: Path, random: Random) -> Path:
    layout = list(_LAYOUTS)[int(random.integers(len(_LAYOUTS)))]
    target = emptied(place / layout)
    if random.random() < 0.5:
        return parquet_of("log.parquet")(seeds / layout, target, random)
    return lines_of("log.jsonl")(seeds / layout, target, random)


def _read_odd_log(path: Path) -> None:
    from cldrank.clicks.aggregate import aggregate

    layout = path.parent.name
    done = aggregate(path, max_rejected=1.0, memory_limit="500MB", threads=1, **_LAYOUTS[layout])
    check_counts(done)
    if path.suffix == ".parquet" and layout not in ("lists", "results"):
        same(done.account.rows, pq.read_metadata(path).num_rows, "rows of the log")
    if layout == "zones":
        same(
            sum(int(cells.impressions.sum()) for cells in done.days.values()),
            int(done.clicks.impressions.sum()),
            "impressions of all days",
        )


# -- folders of days ---------------------------------------------------------------------------------------------------


def _seed_days(folder: Path) -> None:
    from cldrank.clicks.days import DayFolder

    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in _rows("zones")))
    DayFolder(folder / "cells").add(log)
    (folder / "more.jsonl").write_text(log.read_text().replace('"session_id": ', '"session_id": 1'))


def _case_days(seeds: Path, place: Path, random: Random) -> Path:
    """A folder of which one file is mutated, called otherwise, or missing."""
    target = emptied(place / "cells")
    files = sorted((seeds / "cells").iterdir())
    for file in files:
        (target / file.name).write_bytes(file.read_bytes())
    name = files[int(random.integers(len(files)))].name
    kind = random.random()
    if kind < 0.7:
        parquet_of(name)(seeds / "cells", target, random)
    elif kind < 0.9:
        names = ["2026-02-30.parquet", "2026-03-01.parquet", "0000-01-01.parquet", "9999-12-31.parquet", "x", ".x"]
        names += ["٢٠٢٦-٠٣-٠١.parquet", "2026-03-01.PARQUET", "2026-3-1.parquet"]
        (target / name).rename(target / names[int(random.integers(len(names)))])
    else:
        (target / name).unlink()
        (target / name).mkdir()
    return target


def _read_days(path: Path) -> None:
    from cldrank import ClickTable
    from cldrank.clicks.days import DayFolder

    folder = DayFolder(path)
    if not DayFolder.is_one(path):
        raise_if_days(path)
    whole = ClickTable.read(path)
    same(
        int(whole.impressions.sum()),
        sum(int(n) for file in folder.files().values() for n in pq.read_table(file)["impressions"].to_pylist()),
        "impressions",
    )
    folder.read(last="2d")
    added = folder.add(path.parent.parent / "seeds" / "more.jsonl")
    after = folder.read()
    same(
        int(after.impressions.sum()),
        int(whole.impressions.sum()) + int(added.clicks.impressions.sum()),
        "impressions after a log was added",
    )


def raise_if_days(path: Path) -> None:
    """What cannot be told as a folder of days is read as a log, and refused."""
    from cldrank import ClickTable

    read = ClickTable.read(path)
    raise WrongError(f"read as {read}")


ODD_LOG_READERS = {
    "odd log": Reader(_seed_odd_logs, _case_odd_log, _read_odd_log, 1),
    "days": Reader(_seed_days, _case_days, _read_days, 1),
}
