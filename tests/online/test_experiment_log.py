"""What is wrong with the log of an experiment is counted, or refused with its reason."""

from __future__ import annotations

import warnings
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from experiment_logs import Row, ab_rows, interleaved_rows, table
from hypothesis import given, settings
from hypothesis import strategies as st

from cldrank.auditing import audit
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.online import analyse, interleave


@pytest.fixture(scope="module")
def drafted() -> list[Row]:
    return interleaved_rows()


@pytest.fixture(scope="module")
def tested() -> list[Row]:
    return ab_rows()


def changed(rows: list[Row], share: int, **columns: Any) -> pa.Table:
    """The log with other values on the first result of every so-many-th page."""
    return table(
        [{**row, **(columns if row["session_id"] % share == 0 and row["position"] == 1 else {})} for row in rows]
    )


# -- teams -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("team", [None, "newest"])
def test_a_page_with_a_result_of_no_team_is_set_aside(drafted: list[Row], team: str | None) -> None:
    result = analyse(changed(drafted, 30, team=team))
    assert (result.aside, result.pages[""]) == ({"no team": 10}, 290)
    assert f"Sides that the experiment does not have: 10 rows of {team or 'no side'}." in result.notes
    with pytest.raises(DataError, match=r"30 of 300 pages.* does not have\. Sides that .*\. Such a log"):
        analyse(changed(drafted, 10, team=team))
    assert analyse(changed(drafted, 10, team=team), max_rejected=0.2).aside == {"no team": 30}


def test_cells_are_refused_since_they_do_not_know_pages(drafted: list[Row], tmp_path: Path) -> None:
    cells = ClickTable.read(table(drafted).drop_columns("team"))
    cells.save(tmp_path / "cells.parquet")
    with pytest.raises(UsageError, match=r"cells\.parquet .* do not know pages"):
        analyse(tmp_path / "cells.parquet")


def test_who_reads_clicks_from_the_log_is_warned_and_who_analyses_it_is_not(drafted: list[Row]) -> None:
    log = table(drafted)
    for read in (ClickTable.read, audit):
        with pytest.warns(CldrankWarning, match=r"column team.*name the old ranker") as warned:
            read(log)
        assert len(warned) == 1
    with warnings.catch_warnings(action="error"):
        analyse(log)
        ClickTable.read(log.drop_columns("team"))


def _is_draft(teams: tuple[str, ...]) -> bool:
    """Whether team draft can give these teams: those of both, then in each round one of each."""
    while teams[:1] == ("both",):
        teams = teams[1:]
    rounds = [teams[at : at + 2] for at in range(0, len(teams), 2)]
    return "both" not in teams and all(set(pair) == {"new", "old"} for pair in rounds if len(pair) == 2)


def test_exactly_the_orders_of_team_draft_pass() -> None:
    every = [teams for size in (1, 2, 3, 5) for teams in product(("new", "old", "both"), repeat=size)]
    rows = [
        {"session_id": page, "query_id": "q", "doc_id": at, "position": at + 1, "clicked": 0, "team": team}
        for page, teams in enumerate(every)
        for at, team in enumerate(teams)
    ]
    result = analyse(table(rows), max_rejected=1.0)
    assert result.aside == {"no draft": sum(not _is_draft(teams) for teams in every)}
    assert result.pages[""] == sum(map(_is_draft, every))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_drafted_page_passes(data: st.DataObject) -> None:
    listed = st.lists(st.integers(0, 9), min_size=1, max_size=8, unique=True)
    rows = []
    for page in range(40):  # two that pick first, so that the coin is not suspected
        draft = interleave(data.draw(listed), data.draw(listed), data.draw(st.integers(1, 8)), page)
        rows += [{"session_id": page, "query_id": "q", "clicked": 0, **record} for record in draft.records()]
    assert analyse(table(rows), confidence=0.5).aside == {}


def test_a_result_that_its_own_ranker_does_not_list_is_no_draft(drafted: list[Row]) -> None:
    rows = [
        {**row, "new_rank": None if row["team"] == "new" and row["session_id"] < 9 else row["new_rank"]}
        for row in drafted
    ]
    assert set(analyse(table(rows)).aside) == {"no draft"}


def test_a_coin_that_is_not_fair_is_refused() -> None:
    rows = interleaved_rows(pages=1500, people=700)
    first = {
        page: min(
            (row for row in rows if row["session_id"] == page and row["team"] != "both"),
            key=lambda row: row["position"],
            default=None,
        )
        for page in range(1500)
    }
    kept = [
        row
        for row in rows
        if (own := first[row["session_id"]]) is None or own["team"] == "new" or row["session_id"] % 2
    ]
    with pytest.raises(DataError, match="picks first"):
        analyse(table(kept))


def test_pages_are_read_as_deep_as_a_number_has_bits() -> None:
    orders = [np.random.default_rng(seed).permutation(80).tolist() for seed in range(2)]
    rows = []
    for page in range(60):
        draft = interleave(orders[0], orders[1], 70, page)
        rows += [
            {"session_id": page, "query_id": "q", "clicked": int(r["position"] > 60), **r} for r in draft.records()
        ]
    result = analyse(table(rows))
    assert result.aside == {}
    assert result.first.old == pytest.approx(1)  # two clicks, one of each half
    assert any("position 62" in note for note in result.notes)


# -- arms --------------------------------------------------------------------------------------------------------------


def test_pages_of_no_arm_or_two_are_set_aside(tested: list[Row]) -> None:
    assert analyse(changed(tested, 40, arm="blue")).aside == {"no arm": 10}
    both = analyse(changed(tested, 25, arm="new"), max_rejected=0.2).aside
    twofold = {row["session_id"] for row in tested if row["session_id"] % 25 == 0 and row["arm"] == "old"}
    assert both == {"two arms": len(twofold)}


def test_persons_in_both_arms_are_set_aside_with_all_their_pages(tested: list[Row]) -> None:
    often = {row["session_id"] for row in tested if row["user_id"] == "u79"}
    rows = [{**row, "arm": "new" if row["session_id"] == min(often) else row["arm"]} for row in tested]
    assert next(row["arm"] for row in tested if row["user_id"] == "u79") == "old"
    result = analyse(table(rows))
    assert result.aside == {"person in both arms": len(often)}
    assert sum(result.pages.values()) == 400 - len(often)
    with pytest.raises(DataError, match="both arms"):
        analyse(table([{**row, "arm": ("new", "old")[row["session_id"] % 2]} for row in tested]), max_rejected=0.5)


def test_arms_that_were_renamed_on_the_way_are_refused(tested: list[Row]) -> None:
    rows = [{**row, "arm": "B" if row["arm"] == "new" and row["session_id"] > 200 else row["arm"]} for row in tested]
    with pytest.raises(DataError, match="rows of B"):
        analyse(table(rows))
    with pytest.raises(DataError, match="names"):
        analyse(table([{**row, "arm": {"new": "B", "old": "A"}[row["arm"]]} for row in tested]))


def test_a_wrong_sample_ratio_is_refused(tested: list[Row]) -> None:
    rows = ab_rows(pages=3000, people=1600)
    assert analyse(table(rows)).kind == "ab"
    lost = [row for row in rows if row["arm"] == "old" or int(row["user_id"][1:]) % 3]
    with pytest.raises(DataError, match="persons of each arm"):
        analyse(table(lost))
    assert analyse(table(lost), shares=(0.4, 0.6)).kind == "ab"


# -- experiments, times ------------------------------------------------------------------------------------------------


def test_an_experiment_that_changed_on_the_way_is_refused_until_one_is_named(drafted: list[Row]) -> None:
    rows = [{**row, "experiment": "3f2a" if row["session_id"] < 100 else "77b0"} for row in drafted]
    with pytest.raises(DataError, match="3f2a.*from 2026-03-01.*77b0"):
        analyse(table(rows))
    result = analyse(table(rows), experiment="77b0")
    assert (result.experiment, result.pages) == ("77b0", {"": 200})
    assert "400 rows of other experiments, which were left out: 3f2a." in result.notes
    alone = analyse(table([row for row in rows if row["experiment"] == "77b0"]))
    assert result.first.difference == alone.first.difference


def test_what_other_experiments_call_their_sides_does_not_matter(drafted: list[Row]) -> None:
    sides = {"new": "B", "old": "A", "both": "both"}
    other = [{**row, "session_id": -1 - row["session_id"], "team": sides[row["team"]]} for row in drafted]
    log = table([{**row, "experiment": "May"} for row in drafted] + [{**row, "experiment": "June"} for row in other])
    may = analyse(log, experiment="May")
    assert may.notes == ("1,200 rows of other experiments, which were left out: June.",)
    assert analyse(log, experiment="June", names=("B", "A")).first.difference == may.first.difference
    with pytest.raises(DataError, match="called A, B, not new and old"):
        analyse(log, experiment="June")


def test_rows_that_name_no_experiment_are_not_of_the_one_that_others_name(drafted: list[Row]) -> None:
    rows = table([{**row, "experiment": "May" if row["session_id"] < 290 else None} for row in drafted])
    with pytest.raises(DataError, match="no name, 40 rows"):
        analyse(rows)
    result = analyse(rows, experiment="May")
    assert (result.pages, result.notes) == ({"": 290}, ("40 rows of other experiments, which were left out: no name.",))


def test_a_clock_that_goes_back_is_noted(drafted: list[Row]) -> None:
    early = np.datetime64("2026-02-01", "us").item()
    result = analyse(changed([{**row} for row in drafted], 299, timestamp=early), max_rejected=1.0)
    assert not any("clock" in note for note in analyse(table(drafted)).notes)
    assert any("time goes back by more than an hour 1 time:" in note for note in result.notes)
    often = analyse(changed([{**row} for row in drafted], 20, timestamp=early))
    assert any("14 times:" in note for note in often.notes)  # 15 pages, of which one is the first
    mixed = table(drafted).take(np.random.default_rng(0).permutation(len(drafted)))  # in no order at all
    assert not any("clock" in note for note in analyse(mixed).notes)


def test_pages_without_a_time_count_before_the_first_day(drafted: list[Row]) -> None:
    rows = [{**row, "timestamp": None if row["session_id"] < 50 else row["timestamp"]} for row in drafted]
    result = analyse(table(rows))
    assert any(note.startswith("50 pages without a time") for note in result.notes)
    last = list(result.days.values())[-1]
    assert last.difference == result.first.difference
    day = date(2026, 3, 5)
    until = analyse(table([row for row in rows if row["timestamp"] is None or row["timestamp"].date() <= day])).first
    for name in ("estimate", "low", "high", "n"):
        assert getattr(result.days[day].difference, name) == pytest.approx(getattr(until.difference, name))


def test_rows_that_cannot_be_read_are_counted_as_clicks_count_them(drafted: list[Row]) -> None:
    rows = [{**row, "new_rank": str(row["new_rank"])} for row in drafted]
    rows[7]["new_rank"], rows[20]["doc_id"] = "first", None
    result = analyse(table(rows))
    assert result.rejected == {"null key": 1, "not a number": 1}
    assert result.rows["set aside"] == 2
    assert "Column 'new_rank' is not a whole number up to 10,000, from 1 in 1 row, such as 'first'." in result.notes


def test_ranks_count_from_1_as_the_service_answers_them_wherever_positions_do(drafted: list[Row]) -> None:
    from_0 = [{**row, "position": row["position"] - 1} for row in drafted]
    plain, shifted = analyse(table(drafted)), analyse(table(from_0), first_position=0)
    for name, estimate in plain.measures.items():
        assert shifted.measures[name].difference.low == pytest.approx(estimate.difference.low)
    with pytest.raises(DataError, match="new_rank"):
        analyse(table([{**row, "new_rank": row["new_rank"] - 1} for row in from_0]), first_position=0)


def test_users_that_are_left_out_are_left_out(drafted: list[Row]) -> None:
    result = analyse(table(drafted), exclude_users=["u0", "u1"])
    assert result.pages[""] == len({row["session_id"] for row in drafted if row["user_id"] not in ("u0", "u1")})
    assert set(result.rejected) == {"excluded user"}
