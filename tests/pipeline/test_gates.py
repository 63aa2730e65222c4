from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_pipeline import run, write_without_clicks, write_world

GOOD = 5.0  # what production knows where nothing can be gained


def shipped(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "shipped" / "shipped.json").read_text())
    return found


@pytest.fixture
def even(place: Path) -> Path:
    """A place where the clicks do not show that the new ranker is better."""
    write_world(place, quality=GOOD, sessions=3000)
    return place


def test_an_audit_that_stops_leaves_the_rest_undone(place: Path) -> None:
    write_without_clicks(place)
    record = run(place)
    assert (record.status, record.stopped_by) == ("stopped", "blocking")
    assert record.states.pop("audit") == "stopped"
    assert set(list(record.states.values())[1:]) == {"not run"}
    assert not (place / "shipped").exists()
    again = run(place)
    assert again.status == "stopped"
    assert again.steps[0].seconds == record.steps[0].seconds  # it was not computed again
    assert (record.changed, again.changed) == (True, False)


def test_a_verdict_that_is_not_better_keeps_production(ran: Path) -> None:
    before = shipped(ran)
    write_world(ran, quality=GOOD, sessions=3000)
    record = run(ran)
    assert record.status == "stopped"
    assert record.stopped_by == record.verdict != "better"
    assert record.states["verdict"] == "stopped"
    assert record.states["export"] == record.states["card"] == "not run"
    assert shipped(ran) == before


def test_verdicts_that_may_pass_are_settings(even: Path) -> None:
    every = 'ship_if = ["better", "no difference", "cannot tell", "worse"]\ntrust_propensity = false'
    record = run(even, ("trust_propensity = false", every))
    assert record.status == "shipped"
    assert shipped(even)["verdict"] == record.verdict != "better"


def test_a_ranker_that_is_not_safe_keeps_production(even: Path) -> None:
    safe = ('method = "ips"', 'method = "ips"\nsafe = true\nsafe_margin = 0')
    record = run(even, safe)
    assert (record.status, record.stopped_by) == ("stopped", "unsafe")
    assert record.states["train"] == "stopped"
    assert record.states["verdict"] == "not run"
    assert run(even, safe).stopped_by == "unsafe"


def test_excluded_users_are_a_reason_in_the_account(place: Path) -> None:
    table = pq.read_table(place / "log.parquet")
    sessions = table["session_id"].to_pylist()
    users = ["crawler" if int(session) % 50 == 0 else f"user {session}" for session in sessions]
    pq.write_table(table.append_column("user_id", pa.array(users)), place / "log.parquet")
    (place / "bots.txt").write_text("crawler\n")
    record = run(place, ("features.", 'log.exclude_users = "bots.txt"\nlog.exclude_bots = true\nfeatures.'))
    cells: Any = record.step("aggregate")
    assert cells.facts["set_aside"] == users.count("crawler")
    assert any("user" in reason for reason in cells.facts["reasons"])
    (place / "bots.txt").write_text("nobody\n")
    again = run(place, ("features.", 'log.exclude_users = "bots.txt"\nlog.exclude_bots = true\nfeatures.'))
    assert again.states["audit"] == again.states["aggregate"] == "done"
