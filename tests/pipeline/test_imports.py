from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_pipeline import DEFINITION, write_world

from cldrank.pipeline import RunRecord, read_pipeline, run_pipeline


def write_ubi(place: Path, days: int = 1) -> None:
    """The log of the place as UBI: a query per page, and its impressions and clicks as events, over some days."""
    pages: dict[str, list[dict[str, object]]] = {}
    for row in pq.read_table(place / "log.parquet").to_pylist():
        pages.setdefault(str(row["session_id"]), []).append(row)
    with (place / "queries.jsonl").open("w") as queries, (place / "events.jsonl").open("w") as events:
        for page, rows in pages.items():
            day = f"2026-11-{15 + int(page) % days}"
            hits = [str(row["doc_id"]) for row in rows]
            query = {"query_id": page, "user_query": rows[0]["query_id"], "query_response_hit_ids": hits}
            query["client_id"] = f"user {page}"
            queries.write(json.dumps({**query, "timestamp": f"{day}T08:00:00Z"}) + "\n")
            for row in rows:
                for action in ("impression", "click") if row["clicked"] else ("impression",):
                    event = {"action_name": action, "query_id": page, "timestamp": f"{day}T08:00:01Z"}
                    seen = {"object": {"object_id": str(row["doc_id"])}, "position": {"ordinal": row["position"]}}
                    events.write(json.dumps({**event, "event_attributes": seen}) + "\n")


def facts(record: RunRecord, step: str) -> dict[str, object]:
    found = record.step(step)
    assert found is not None
    return dict(found.facts)


@pytest.fixture
def ubi(place: Path) -> Path:
    write_world(place, sessions=3000)
    write_ubi(place)
    return place


def test_ubi_leads_to_the_same_cells_as_the_plain_log(ubi: Path) -> None:
    plain = run_pipeline(read_pipeline(ubi / "pipeline.toml"))
    text = DEFINITION.replace('log.files = "log.parquet"', "")
    (ubi / "pipeline.toml").write_text(
        f'log.from = "ubi"\nlog.queries = "queries.jsonl"\nlog.events = "events.jsonl"\nlog.min_joined = 0.9\n{text}'
    )
    record = run_pipeline(read_pipeline(ubi / "pipeline.toml"))
    for name in ("impressions", "clicks", "cells"):
        assert facts(record, "aggregate")[name] == facts(plain, "aggregate")[name]
    assert set(record.inputs) == {"queries", "events", "features"}
    assert record.step("import") is not None
    assert not run_pipeline(read_pipeline(ubi / "pipeline.toml")).changed


def test_a_file_of_users_is_an_input_of_what_counts_the_imported_log(ubi: Path) -> None:
    text = DEFINITION.replace('log.files = "log.parquet"', 'log.exclude_users = "bots.txt"')
    (ubi / "ubi.toml").write_text(
        f'log.from = "ubi"\nlog.queries = "queries.jsonl"\nlog.events = "events.jsonl"\n{text}'
    )
    (ubi / "bots.txt").write_text("crawler\n")
    first = run_pipeline(read_pipeline(ubi / "ubi.toml"))
    assert first.inputs["excluded users"].keys() == {"bots.txt"}
    (ubi / "bots.txt").write_text("crawler\nscraper\n")
    second = run_pipeline(read_pipeline(ubi / "ubi.toml"))
    assert second.step("import").state == "reused"  # type: ignore[union-attr]
    assert second.step("aggregate").state == "done"  # type: ignore[union-attr]


def test_a_window_over_imports_counts_each_page_once(ubi: Path) -> None:
    text = DEFINITION.replace('log.files = "log.parquet"', "").replace("[train]", '[window]\nlast = "2d"\n[train]')
    (ubi / "ubi.toml").write_text(
        f'log.from = "ubi"\nlog.queries = "queries.jsonl"\nlog.events = "events.jsonl"\n{text}'
    )
    write_ubi(ubi, days=2)
    first = run_pipeline(read_pipeline(ubi / "ubi.toml"))
    assert facts(first, "aggregate")["impressions"] == 3000 * 5
    write_ubi(ubi, days=3)  # the same pages, and their events, on three days
    second = run_pipeline(read_pipeline(ubi / "ubi.toml"))
    assert facts(second, "aggregate")["impressions"] == 2000 * 5
