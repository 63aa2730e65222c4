from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from experiment_logs import ab_rows, interleaved_rows, table

from cldrank.online import analyse

Run = Callable[..., Any]


@pytest.fixture
def logs(folder: Path) -> Path:
    """The logs of two experiments, and of a period before one of them."""
    pq.write_table(table(interleaved_rows()), folder / "pages.parquet")
    pq.write_table(table(ab_rows()), folder / "arms.parquet")
    pq.write_table(table(ab_rows(seed=5, arms=False)), folder / "before.parquet")
    return folder


def test_the_verdict_is_printed_written_and_the_exit_code(run: Run, logs: Path) -> None:
    ran = run("online", "analyse", "pages.parquet", "--html", "verdict.html")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "Verdict: better")
    assert "every look" in (logs / "verdict.html").read_text()
    turned = run("online", "analyse", "pages.parquet", "--names", "old,new")
    assert (turned.code, turned.out.splitlines()[-1]) == (3, "Verdict: worse")
    assert run("online", "analyse", "pages.parquet", "--margin", "9").code == 4
    assert run("online", "analyse", "arms.parquet").code == 5
    ran = run("online", "analyse", "arms.parquet", "--before", "before.parquet", "--planned", "400")
    assert (ran.code, "variance" in ran.out) == (0, True)


def test_options_are_the_arguments(run: Run, logs: Path) -> None:
    options = ("-m", "counterfactual credit", "-p", "power:1", "--confidence", "0.8", "--json")
    ran = run("online", "analyse", "pages.parquet", *options, "--log-column", "segment=query_id")
    assert (ran.code, ran.json["measures"]["counterfactual credit"]["difference"]["confidence"]) == (0, 0.8)
    assert set(ran.json["segments"]) == {"q0", "q1", "q2", "q3", "q4"}
    ran = run("online", "analyse", "arms.parquet", "-m", "clicks@1", "--shares", "0.5,0.5", "--json")
    result = analyse(logs / "arms.parquet", measure="clicks@1")
    assert ran.json["measures"]["clicks@1"]["difference"]["low"] == pytest.approx(result.first.difference.low)
    assert ran.json["verdict"] == result.verdict.words


def test_the_arm_may_be_an_attribute_of_queries_in_ubi(run: Run, folder: Path) -> None:
    queries, events = dict[int, Any](), []
    for row in ab_rows():
        page = {"query_id": f"v{row['session_id']}", "timestamp": f"{row['timestamp']:%Y-%m-%dT%H:%M:%SZ}"}
        about = {"user_query": "q", "client_id": row["user_id"], "query_attributes": {"ranker": row["arm"]}}
        queries[row["session_id"]] = {**page, **about}
        result = {"object": {"object_id": str(row["doc_id"])}, "position": {"ordinal": row["position"]}}
        actions = ["impression", *(["click"] if row["clicked"] else [])]
        events += [{**page, "action_name": action, "event_attributes": result} for action in actions]
    for name, records in (("queries", queries.values()), ("events", events)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    given = ("--queries", "queries.jsonl", "--events", "events.jsonl", "--surface", "query_attributes.ranker")
    assert run("clicks", "import", "--from", "ubi", *given, "--out", "log.parquet").code == 0
    imported = run("online", "analyse", "log.parquet", "--log-column", "arm=surface", "--json").json
    plain = analyse(table(ab_rows()))
    assert (imported["kind"], imported["persons"]) == ("ab", plain.persons)
    for name, estimate in plain.measures.items():
        assert imported["measures"][name]["difference"]["low"] == pytest.approx(estimate.difference.low)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--names", "new"), "--names"),
        (("--shares", "a,b"), "--shares"),
        (("--new-scores", "scores.csv"), "--old-scores"),
        (("--kind", "ab"), "--log-column arm="),
        (("--experiment", "May"), "--experiment"),
        (("-m", "clicks"), "--measure"),
        (("--before", "pages.parquet"), "--before"),
        (("-p", "power:x"), "power:1.0"),
        (("--html", "pages.parquet"), "pages.parquet"),
    ],
)
def test_a_wrong_call_names_the_option(run: Run, logs: Path, options: tuple[str, ...], named: str) -> None:
    ran = run("online", "analyse", "pages.parquet", *options)
    assert (ran.code, named in ran.err) == (2, True), ran.err


def test_a_log_that_is_unsound_ends_with_1(run: Run, logs: Path) -> None:
    rows = [row for row in ab_rows(pages=3000, people=1600) if row["arm"] == "old" or int(row["user_id"][1:]) % 3]
    pq.write_table(table(rows), logs / "lost.parquet")
    ran = run("online", "analyse", "lost.parquet")
    assert (ran.code, "persons of each arm" in ran.err) == (1, True)
