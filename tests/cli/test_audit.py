"""`cldrank clicks audit`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from audit_logs import Logs
from pyarrow.csv import read_csv

from cldrank.clicks.audit import audit

Run = Callable[..., Any]


@pytest.fixture
def made(folder: Path) -> Logs:
    return Logs(folder)


def test_json_and_page(made: Logs, run: Run, folder: Path) -> None:
    path = made.add(300, made.shuffled, who=lambda page: page % 30).write()
    ran = run("clicks", "audit", path, "--column", "user_id=who", "--html", "audit.html", "--json")
    assert ran.code == 0
    result = ran.json
    assert result == json.loads(json.dumps(audit(path, columns={"user_id": "who"}).said("shell").as_dict()))
    assert result["log"]["actors"]["kind"] == "user"
    assert result["totals"]["impressions"] == 1500
    assert (folder / "audit.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_blocking_has_an_exit_code_of_its_own(made: Logs, run: Run, folder: Path) -> None:
    made.add(50, lambda _: np.arange(12))
    for row in made.rows:
        row["clicked"] = False
    ran = run("clicks", "audit", made.write(), "--html", "audit.html", "--json")
    assert ran.code == 3
    assert ran.json["verdict"]["severity"] == "blocking"
    assert (folder / "audit.html").exists()


def test_the_terminal(made: Logs, run: Run) -> None:
    path = made.add(300, made.shuffled).write()
    out = run("clicks", "audit", path).out
    assert "1,500 impressions" in out
    assert "in common" in out
    assert audit(path).said("shell").verdict.sentence in out
    assert str(audit(path)).count("\n") > 20


def test_features_may_be_missing_where_only_candidates_are_asked_for(made: Logs, run: Run, folder: Path) -> None:
    path = made.add(300, made.shuffled).write()
    rows = ["query_id,doc_id,price", *(f"{query},d{item},{item or ''}" for query in range(10) for item in range(14))]
    (folder / "features.csv").write_text("\n".join(rows))
    pq.write_table(read_csv(folder / "features.csv"), folder / "features.parquet")
    ran = run("clicks", "audit", path, "--features", "features.parquet", "--json")
    assert ran.json["queries"]["candidates"] == 140


def test_advice_is_spelled_for_the_shell(made: Logs, run: Run) -> None:
    made.add(20, made.fixed)
    for row in made.rows:
        row["position"] -= 1
    out = run("clicks", "audit", made.write()).out
    assert "--first-position 0" in out
    assert "--features FILE" in out
    assert "--column timestamp=NAME" in out
    assert "first_position=0" not in out


def test_one_query(made: Logs, run: Run) -> None:
    made.add(300, made.shuffled)
    made.rows = [{key: row[key] for key in row if key != "query_id"} for row in made.rows]
    ran = run("clicks", "audit", made.write(), "--one-query", "--json")
    assert ran.json["queries"]["searched"] == 1
