"""`cldrank clicks audit`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_logs import Logs

from cldrank.auditing import audit

Run = Callable[..., Any]


@pytest.fixture
def made(folder: Path) -> Logs:
    return Logs(folder)


def test_json_and_page(made: Logs, run: Run, folder: Path) -> None:
    path = made.add(300, made.shuffled, who=lambda page: page % 30).write()
    ran = run("clicks", "audit", path, "--log-column", "user_id=who", "--html", "audit.html", "--json")
    assert ran.code == 0
    result = ran.json
    same = json.loads(json.dumps(audit(path, columns={"user_id": "who"}).as_dict()))
    assert {**result, "verdict": None} == {**same, "verdict": None}  # which is worded for the shell
    assert result["log"]["bots"]["kind"] == "user"
    assert result["totals"]["impressions"] == 1500
    assert (folder / "audit.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_plan_is_printed_and_written(made: Logs, run: Run, folder: Path) -> None:
    path = made.add(400, made.shuffled).write()
    ran = run("clicks", "audit", path, "--plan", "0.05", "--html", "audit.html")
    assert "What a verdict will take" in ran.out
    assert "What a verdict will take" in (folder / "audit.html").read_text(encoding="utf-8")
    assert run("clicks", "audit", path, "--plan", "0.05", "--json").json["plan"]["difference"] == 0.05
    refused = run("clicks", "audit", path, "--plan", "5")
    assert (refused.code, "--plan" in refused.err) == (2, True)


def test_blocking_has_an_exit_code_of_its_own(made: Logs, run: Run, folder: Path) -> None:
    made.add(50, lambda _: np.arange(12))
    for row in made.rows:
        row["clicked"] = False
    ran = run("clicks", "audit", made.write(), "--html", "audit.html", "--json")
    assert ran.code == 3
    assert ran.json["verdict"]["severity"] == "blocking"
    assert (folder / "audit.html").exists()


def test_columns_of_features_and_of_the_log_have_options_of_their_own(made: Logs, run: Run, folder: Path) -> None:
    path = made.add(300, made.shuffled, who=lambda page: page % 30).write()
    rows = ["q,sku,price", *(f"{query},d{item},1" for query in range(10) for item in range(14))]
    (folder / "features.csv").write_text("\n".join(rows))
    named = ("--column", "query_id=q", "--column", "doc_id=sku", "--log-column", "user_id=who")
    ran = run("clicks", "audit", path, "--features", "features.csv", *named, "--json")
    assert ran.json["queries"]["candidates"] == 140
    assert ran.json["log"]["bots"]["kind"] == "user"
    refused = run("clicks", "audit", path, "--features", "features.csv", "--column", "user_id=who")
    assert (refused.code, "user_id" in refused.err) == (2, True)


def test_features_with_gaps_are_noted_with_the_options_that_close_them(made: Logs, run: Run, folder: Path) -> None:
    path = made.add(300, made.shuffled).write()
    rows = ["query_id,doc_id,price,stars,age"]
    rows += [f"{query},d{item},{item or ''},1,{query or ''}" for query in range(10) for item in range(14)]
    (folder / "features.csv").write_text("\n".join(rows))
    ran = run("clicks", "audit", path, "--features", "features.csv", "--json")
    (finding,) = [told for told in ran.json["verdict"]["findings"] if told["topic"] == "features"]
    assert (finding["severity"], finding["found"]) == ("note", "2 of 3 features have missing values.")
    assert finding["advice"] == "Train trees with --missing keep, or fill them in with --missing 0."
    filled = run("clicks", "audit", path, "--features", "features.csv", "--missing", "0", "--json").json
    assert filled["incomplete"] == [0, 3]
    assert "features" not in {told["topic"] for told in filled["verdict"]["findings"]}


def test_bots_and_users_can_be_left_out(made: Logs, run: Run, folder: Path) -> None:
    made.add(400, made.shuffled, user_id=lambda page: f"u{page % 100}")
    path = made.add(200, made.shuffled, boost=0.0, user_id="crawler").write()
    out = run("clicks", "audit", path).out
    assert "--exclude-bots" in out
    (folder / "users.txt").write_text("crawler\n")
    for given in (("--exclude-bots",), ("--exclude-users", "users.txt")):
        found = run("clicks", "audit", path, *given, "--json").json
        assert found["totals"]["impressions"] == 2000
        assert sum(found["account"]["rejected"].values()) == 1000
        assert found["log"]["bots"]["suspicious"] == 0


def test_advice_is_spelled_for_the_shell(made: Logs, run: Run) -> None:
    made.add(20, made.fixed)
    for row in made.rows:
        row["position"] -= 1
    out = run("clicks", "audit", made.write()).out
    assert "--first-position 0" in out
    assert "Give the candidates with --features," in out
    assert "--log-column timestamp=NAME" in out
    assert "first_position=0" not in out
