"""`cldrank clicks import`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import ubi_export

Run = Callable[..., Any]
ROWS: list[ubi_export.Row] = [
    (session, f"query {session % 3}", f"d{place}", place, (session + place) % 3 == 0)
    for session in range(30)
    for place in range(1, 5)
]


@pytest.fixture
def ubi(folder: Path) -> list[str]:
    """The words that name an export with nothing wrong."""
    queries, events = ubi_export.export(ROWS).write(folder)
    return ["clicks", "import", "--from", "ubi", "--queries", queries.name, "--events", events.name]


def test_a_log_that_the_other_commands_take(run: Run, ubi: list[str], folder: Path) -> None:
    ran = run(*ubi, "-o", "log.parquet")
    assert ran.code == 0
    assert "30 queries, 120 impressions, 40 clicks and 0 other records read, 0 set aside" in ran.out
    assert "wrote log.parquet" in ran.out
    assert "warning" not in ran.err
    made = run("clicks", "aggregate", "log.parquet", "-o", "cells.parquet", "--json").json
    assert (made["impressions"], made["clicks"], made["log"]["set_aside"]) == (120, 40, 0)


def test_records_set_aside(run: Run, folder: Path, ubi: list[str]) -> None:
    made, _, _ = ubi_export.with_defects(ubi_export.export(ROWS))
    made.write(folder)
    refused = run(*ubi, "-o", "log.parquet", "--rejects", "rejects.parquet", "--min-joined", "0.99")
    assert refused.code == 1
    assert "less than the 99.0% that --min-joined asks for" in refused.err
    assert not (folder / "log.parquet").exists()
    ran = run(*ubi, "-o", "log.parquet", "--min-joined", "0")
    assert "Write the records set aside to a file with --rejects FILE." in ran.err
    ran = run(*ubi, "-o", "log.parquet", "--min-joined", "0", "--rejects", "rejects.parquet")
    assert "the records set aside: rejects.parquet" in ran.out
    rows = pq.read_table(folder / "rejects.parquet").to_pylist()
    assert sum(row["rows"] for row in rows) == sum(made.aside.values())


def test_errors(run: Run, ubi: list[str], folder: Path) -> None:
    (folder / "m.jsonl").write_text(json.dumps({"event": "ranking", "id": "1", "items": [{"id": "a"}]}))
    cases: list[tuple[int, str, list[str]]] = [
        (2, "must end in .parquet", [*ubi, "-o", "log.csv"]),
        (2, "would be written twice", [*ubi, "-o", "l.parquet", "--rejects", "l.parquet"]),
        (2, "not 'solr'", ["clicks", "import", "--from", "solr", "m.jsonl", "-o", "l.parquet"]),
        (2, "with --queries and --events", [*ubi[:-2], "-o", "l.parquet"]),
        (1, "the actions are click (40)", [*ubi, "-o", "l.parquet", "--click-action", "tap"]),
    ]
    for code, words, arguments in cases:
        ran = run(*arguments)
        assert (ran.code, words in ran.err) == (code, True), (arguments, ran.err)
        assert "Traceback" not in ran.err
