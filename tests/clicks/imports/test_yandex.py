"""Yandex: a click belongs to the last query of its session that showed the URL."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cldrank.clicks.imports import import_log
from cldrank.errors import DataError, FormatError, UsageError

Line = tuple[Any, ...]


def written(path: Path, lines: list[Line], end: str = "\n") -> Path:
    path.write_text("".join("\t".join(map(str, line)) + end for line in lines))
    return path


def drawn(seed: int, sessions: int = 30) -> list[Line]:
    """Sessions of several queries whose results overlap; every line has its own time."""
    random = np.random.default_rng(seed)
    lines: list[Line] = []
    for session in range(sessions):
        shown: list[int] = []
        for time in range(int(random.integers(3, 15))):
            if not shown or random.random() < 0.3:
                urls = (random.permutation(15)[:5] + 100).tolist()
                shown += urls
                lines.append((session, 10 * time, "Q", int(random.integers(3)), 1, *urls))
            else:
                url = 999 if random.random() < 0.1 else shown[int(random.integers(len(shown)))]
                lines.append((session, 10 * time, "C", url))
    return lines


def plainly(lines: list[Line]) -> tuple[dict[Any, int], int]:
    """Clicks by session, query, document and position, one line after the other; and those that belong nowhere."""
    pages: dict[int, list[tuple[int, list[int]]]] = {}
    found: Counter[Any] = Counter()
    clicks: Counter[Any] = Counter()
    lost = 0
    for session, _, kind, *rest in lines:
        known = pages.setdefault(session, [])
        if kind == "Q":
            known.append((rest[0], rest[2:]))
            found.update((f"{session}-{len(known)}", rest[0], url, at) for at, url in enumerate(rest[2:], 1))
            continue
        for turn in range(len(known), 0, -1):
            query, urls = known[turn - 1]
            if rest[0] in urls:
                clicks[f"{session}-{turn}", query, rest[0], urls.index(rest[0]) + 1] += 1
                break
        else:
            lost += 1
    return {key: clicks[key] for key in found}, lost


def rows_of(path: Path) -> dict[Any, int]:
    names = ("session_id", "query_id", "doc_id", "position")
    return {tuple(row[name] for name in names): row["clicked"] for row in pq.read_table(path).to_pylist()}


def test_clicks_find_their_page(tmp_path: Path, engine: Any) -> None:
    lines = drawn(1)
    expected, lost = plainly(lines)
    path = written(tmp_path / "Clicklog.txt", lines)
    report = import_log("yandex", path, out=tmp_path / "log.parquet", min_joined=0, engine=engine)
    assert rows_of(tmp_path / "log.parquet") == expected
    assert lost > 0
    assert report.aside("click", "never shown") == lost
    assert report.came_in["query"] == report.pages == sum(line[2] == "Q" for line in lines)
    assert report.clicks + lost == report.came_in["click"]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_lines_does_not_matter_where_times_differ(tmp_path: Path, seed: int) -> None:
    lines = drawn(seed)
    mixed = [lines[at] for at in np.random.default_rng(seed).permutation(len(lines))]
    import_log("yandex", written(tmp_path / "log.tsv", mixed), out=tmp_path / "log.parquet", min_joined=0)
    assert rows_of(tmp_path / "log.parquet") == plainly(lines)[0]


def test_at_equal_times_lines_decide(tmp_path: Path, engine: Any) -> None:
    lines: list[Line] = [(1, 0, "Q", 5, 1, 10, 11), (1, 0, "C", 11), (1, 0, "Q", 5, 1, 11, 10)]
    path = written(tmp_path / "log.tsv", lines, end="\r\n")
    import_log("yandex", path, out=tmp_path / "log.parquet", engine=engine)
    assert rows_of(tmp_path / "log.parquet") == {
        ("1-1", 5, 10, 1): 0,
        ("1-1", 5, 11, 2): 1,
        ("1-2", 5, 11, 1): 0,
        ("1-2", 5, 10, 2): 0,
    }


def test_lines_that_are_odd(tmp_path: Path, engine: Any) -> None:
    lines: list[Line] = [
        (1, 0, "Q", 5, 1, 10, 11),
        (1, 3, "T", 5, 1, 10),
        ("x", 3, "C", 10),
        (1, "C"),
        (1, 5, "C", "a"),
    ]
    lines += [(1, 6, "Q", 5, 1), (1, 7, "C", 10), (1, 7, "C", 10)]
    path = written(tmp_path / "log.tsv", lines)
    report = import_log("yandex", path, out=tmp_path / "log.parquet", engine=engine)
    assert {(one.record, one.reason): one.count for one in report.set_aside} == {
        ("click", "repeated"): 1,
        ("other", "broken line"): 4,
        ("other", "unknown type"): 1,
    }
    assert report.came_in == {"query": 1, "result": 2, "click": 2, "other": 5}


def test_files_that_are_not_such_logs(tmp_path: Path) -> None:
    other = written(tmp_path / "train", [(7, "M", 23, 123), (7, 0, "Q", 0, 19, "4,5", "63,2", "30,8")])
    with pytest.raises(FormatError, match="not a log of Yandex relevance prediction"):
        import_log("yandex", other, out=tmp_path / "log.parquet")
    clicks = written(tmp_path / "clicks", [(7, 0, "C", 19)])
    with pytest.raises(DataError, match="there are no lines of queries"):
        import_log("yandex", clicks, out=tmp_path / "log.parquet")
    with pytest.raises(UsageError, match="a log of yandex is one set of files"):
        import_log("yandex", queries=clicks, events=clicks, out=tmp_path / "log.parquet")


def test_regions_are_surfaces(tmp_path: Path) -> None:
    """Regions were merged without a word."""
    path = written(tmp_path / "log.tsv", [(1, 0, "Q", 5, 1, 10, 11), (2, 0, "Q", 5, 213, 10, 11)])
    import_log("yandex", path, out=tmp_path / "log.parquet")
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert {(row["session_id"], row["surface"]) for row in rows} == {("1-1", "1"), ("2-1", "213")}
