"""`analyse` against the same sums, page by page, in plain Python."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from experiment_logs import Row, ab_rows, by_person, interleaved_rows, ratio, table
from scipy.special import ndtri

from cldrank import Propensities
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.measures.confidence_sequences import every_look_quantile
from cldrank.online import ExperimentResult, analyse, interleave

COUNTERFACTUAL = "counterfactual credit"


@pytest.fixture(scope="module")
def drafted() -> list[Row]:
    return interleaved_rows()


@pytest.fixture(scope="module")
def tested() -> list[Row]:
    return ab_rows()


def team_credit(row: Row) -> int:
    return int(row["clicked"]) * {"new": 1, "old": -1, "both": 0}[row["team"]]


def rank_credit(row: Row) -> float:
    worth = [1 / math.log2(1 + row[rank]) if row[rank] <= 4 else 0.0 for rank in ("new_rank", "old_rank")]
    return int(row["clicked"]) * (worth[0] - worth[1])


def checked(result: ExperimentResult, measure: str, mean: float, error: float, pages: int) -> None:
    """The estimate, and both of its intervals."""
    estimate = result.measures[measure]
    looks = every_look_quantile(pages, result.planned, 0.95) * error
    once = float(ndtri(0.975)) * error
    assert estimate.difference.estimate == pytest.approx(mean)
    assert (estimate.difference.low, estimate.difference.high) == pytest.approx((mean - looks, mean + looks))
    assert (estimate.fixed.low, estimate.fixed.high) == pytest.approx((mean - once, mean + once))
    assert estimate.error == pytest.approx(error)


# -- interleaving ------------------------------------------------------------------------------------------------------


def test_credit_is_a_ratio_of_sums_by_person(drafted: list[Row]) -> None:
    result = analyse(table(drafted))
    assert (result.kind, list(result.measures)) == ("interleaving", ["team credit", COUNTERFACTUAL])
    for measure, credit in (("team credit", team_credit), (COUNTERFACTUAL, rank_credit)):
        checked(result, measure, *ratio(*by_person(drafted, credit)), 300)
    assert (result.persons, result.pages) == ({"": len({row["user_id"] for row in drafted})}, {"": 300})
    assert result.verdict.decision == "better"
    clicks = sum(row["clicked"] for row in drafted) / 300
    assert result.first.old == pytest.approx(clicks / 2)
    assert result.verdict.margin == pytest.approx(0.01 * clicks / 2)


def test_without_users_each_session_is_a_person(drafted: list[Row]) -> None:
    result = analyse(table([{name: row[name] for name in row if name != "user_id"} for row in drafted]))
    sessions = [{**row, "user_id": row["session_id"]} for row in drafted]
    checked(result, "team credit", *ratio(*by_person(sessions, team_credit)), 300)
    assert any("no users" in note for note in result.notes)
    some = [{**row, "user_id": row["user_id"] if row["session_id"] % 2 else None} for row in drafted]
    result = analyse(table(some))
    mixed = [{**row, "user_id": row["user_id"] or row["session_id"]} for row in some]
    checked(result, "team credit", *ratio(*by_person(mixed, team_credit)), 300)
    assert any(note.startswith("150 pages without a user") for note in result.notes)


@pytest.mark.parametrize("depth", [1, 2, 15, 16, 20, 21, 31, 32, 62])
def test_pages_of_any_depth(depth: int) -> None:
    rows, random = list[Row](), np.random.default_rng(depth)
    for page in range(90):
        new, old = random.permutation(2 * depth).reshape(2, depth).tolist()
        draft = interleave(new, old, depth, page)
        about: Row = {"session_id": page, "query_id": "q", "user_id": page // 2}
        rows += [{**about, **record, "clicked": int(random.random() < 0.4)} for record in draft.records()]
    result = analyse(table(rows))
    checked(result, "team credit", *ratio(*by_person(rows, team_credit)), 90)
    assert not result.aside
    assert result.first.old == pytest.approx(sum(row["clicked"] for row in rows) / 180)


@pytest.mark.parametrize("measure", ["team credit", COUNTERFACTUAL])
def test_each_day_shows_what_a_look_then_would_have_shown(drafted: list[Row], measure: str) -> None:
    result = analyse(table(drafted), measure=measure)
    assert len(result.days) == 10
    for day in (date(2026, 3, 1), date(2026, 3, 5), date(2026, 3, 10)):
        until = analyse(table([row for row in drafted if row["timestamp"].date() <= day]), measure=measure)
        for name in ("estimate", "low", "high", "n"):
            assert getattr(result.days[day].difference, name) == pytest.approx(getattr(until.first.difference, name))


def test_segments_are_analysed_by_themselves(drafted: list[Row]) -> None:
    rows = [{**row, "device": "phone" if row["session_id"] % 3 else "desk"} for row in drafted]
    result = analyse(table(rows), columns={"segment": "device"})
    assert list(result.segments) == ["desk", "phone"]
    for name, part in result.segments.items():
        mean, error = ratio(*by_person([row for row in rows if row["device"] == name], team_credit))
        assert (part.difference.estimate, part.error) == pytest.approx((mean, error))
    for day, estimate in analyse(table(drafted)).days.items():
        assert result.days[day].difference.low == pytest.approx(estimate.difference.low)


def test_ranks_that_are_not_logged_come_from_scores(drafted: list[Row], tmp_path: Path) -> None:
    whole = analyse(table(drafted), measure=COUNTERFACTUAL)
    bare = [{name: row[name] for name in row if not name.endswith("rank")} for row in drafted]
    own = [{**row, "query_id": str(row["session_id"])} for row in bare]  # each page has orders of its own
    with pytest.raises(UsageError, match="new_rank"):
        analyse(table(own), measure=COUNTERFACTUAL)
    scores = []
    for rank in ("new_rank", "old_rank"):
        ids = [{"query_id": str(row["session_id"]), "doc_id": row["doc_id"], "score": -row[rank]} for row in drafted]
        pq.write_table(pa.Table.from_pylist(ids), tmp_path / f"{rank}.parquet")
        scores.append(pa.Table.from_pylist(_filled(ids)))
    result = analyse(table(own), measure=COUNTERFACTUAL, rankings=(scores[0], scores[1]))
    assert result.first.difference.estimate == pytest.approx(whole.first.difference.estimate)
    assert result.first.error == pytest.approx(whole.first.error)


def _filled(ids: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The scores with candidates that were not shown at the ranks that are missing."""
    known = {(row["query_id"], row["score"]) for row in ids}
    queries = {row["query_id"] for row in ids}
    others = [(query, -rank) for query in queries for rank in range(1, 9) if (query, -rank) not in known]
    return [*ids, *({"query_id": query, "doc_id": 100 - rank, "score": rank} for query, rank in others)]


def test_a_click_may_be_worth_the_examination_of_its_rank(drafted: list[Row]) -> None:
    result = analyse(table(drafted), measure=COUNTERFACTUAL, propensities=Propensities.power(1.0, 3))

    def credit(row: Row) -> float:
        worth = [1 / row[rank] if row[rank] <= 3 else 0.0 for rank in ("new_rank", "old_rank")]
        return int(row["clicked"]) * (worth[0] - worth[1])

    checked(result, COUNTERFACTUAL, *ratio(*by_person(drafted, credit)), 300)


def test_rows_that_repeat_others_count_once(drafted: list[Row]) -> None:
    plain = analyse(table(drafted), measure=COUNTERFACTUAL)
    copies = [{**row, "clicked": 0} for row in drafted if row["session_id"] < 30]
    result = analyse(table([*copies, *drafted]), measure=COUNTERFACTUAL)
    assert (plain.rows["repeated"], result.rows["repeated"]) == (0, len(copies))
    for name, estimate in plain.measures.items():
        assert result.measures[name].difference.estimate == pytest.approx(estimate.difference.estimate)


def test_a_log_in_lists_or_text_says_the_same(drafted: list[Row], tmp_path: Path) -> None:
    whole = analyse(table(drafted)).first
    pa.csv.write_csv(table(drafted), tmp_path / "log.csv")
    pages: dict[int, Row] = {}
    for row in drafted:
        page = pages.setdefault(row["session_id"], {**row, "documents": [], "team": [], "clicked": []})
        for column, name in (("documents", "doc_id"), ("team", "team"), ("clicked", "clicked")):
            page[column].append(row[name])
    keep = ("session_id", "query_id", "user_id", "timestamp", "documents", "team", "clicked")
    pq.write_table(table([{name: page[name] for name in keep} for page in pages.values()]), tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        again = analyse(tmp_path / name).first
        assert (again.difference.estimate, again.error) == pytest.approx((whole.difference.estimate, whole.error))


# -- A/B ---------------------------------------------------------------------------------------------------------------


def test_arms_differ_by_the_difference_of_their_means(tested: list[Row]) -> None:
    result = analyse(table(tested), measure="clicks@2")
    assert list(result.measures) == ["clicks@2", "clicks", "abandonment"]
    parts = [[row for row in tested if row["arm"] == arm] for arm in ("new", "old")]
    seen = {"clicks": lambda row: row["clicked"], "clicks@2": lambda row: row["clicked"] * (row["position"] <= 2)}
    for measure, credit in seen.items():
        (new, one), (old, other) = (ratio(*by_person(part, credit)) for part in parts)
        checked(result, measure, new - old, math.hypot(one, other), 400)
        assert (result.measures[measure].new, result.measures[measure].old) == pytest.approx((new, old))
    clicked = {row["session_id"] for row in tested if row["clicked"]}
    left = np.mean([page not in clicked for page in {row["session_id"] for row in parts[0]}])
    assert result.measures["abandonment"].new == pytest.approx(left)
    assert result.sample_ratio == pytest.approx({"new": 0.5, "old": 0.5}, abs=0.02)


def test_fewer_pages_without_a_click_are_better() -> None:
    tested = ab_rows(pages=1200, lift=0.4)
    assert analyse(table(tested), measure="abandonment", margin=0.0).verdict.decision == "better"
    turned = [{**row, "arm": {"new": "old", "old": "new"}[row["arm"]]} for row in tested]
    assert analyse(table(turned), measure="abandonment", margin=0.0).verdict.decision == "worse"
    named = [{**row, "arm": {"new": "B", "old": "A"}[row["arm"]]} for row in tested]
    assert analyse(table(named), names=("B", "A"), margin=0.0).verdict.decision == "better"
    assert analyse(table(tested), margin=9.0).verdict.decision == "no difference"


def test_a_period_before_takes_off_what_persons_always_do(tested: list[Row]) -> None:
    before, plain = ab_rows(seed=5, arms=False), analyse(table(tested))
    result = analyse(table(tested), before=table(before))
    arms = {row["user_id"]: row["arm"] for row in tested}
    credit, pages = {}, {}
    for name, rows in (("now", tested), ("then", before)):
        people = list(dict.fromkeys(row["user_id"] for row in rows))
        sums, counts = by_person(rows, lambda row: row["clicked"])
        credit[name], pages[name] = dict(zip(people, sums, strict=True)), dict(zip(people, counts, strict=True))
    usual = sum(credit["then"].values()) / sum(pages["then"].values())
    excess = {who: credit["then"].get(who, 0) - usual * pages["then"].get(who, 0) for who in arms}
    mean = np.mean(list(excess.values()))
    u = {arm: np.array([excess[who] for who in arms if arms[who] == arm]) for arm in ("new", "old")}
    y = {arm: np.array([credit["now"][who] for who in arms if arms[who] == arm]) for arm in u}
    n = {arm: np.array([pages["now"][who] for who in arms if arms[who] == arm]) for arm in u}
    residual = {arm: y[arm] - y[arm].sum() / n[arm].sum() * n[arm] for arm in u}
    theta = sum(residual[arm] @ (u[arm] - u[arm].mean()) for arm in u) / sum(
        ((part - part.mean()) ** 2).sum() for part in u.values()
    )
    means = {arm: (y[arm] - theta * (u[arm] - mean)).sum() / n[arm].sum() for arm in u}
    assert result.first.difference.estimate == pytest.approx(means["new"] - means["old"])
    errors = [
        ((residual[arm] - theta * (u[arm] - u[arm].mean())) ** 2).sum()
        * len(u[arm])
        / (len(u[arm]) - 1)
        / n[arm].sum() ** 2
        for arm in u
    ]
    assert result.first.error == pytest.approx(np.sqrt(sum(errors)))
    assert 0.2 < result.first.reduction == pytest.approx(1 - (result.first.error / plain.first.error) ** 2)


def test_a_period_before_is_for_persons_who_come_back(drafted: list[Row], tested: list[Row]) -> None:
    with pytest.raises(UsageError, match="before"):
        analyse(table(drafted), before=table(drafted))
    bare = table(tested).drop_columns("user_id")
    with pytest.raises(UsageError, match="user_id"):
        analyse(table(tested), before=bare)
    strangers = [{**row, "user_id": f"v{row['user_id']}"} for row in ab_rows(seed=5, arms=False)]
    with pytest.raises(DataError, match="called alike"):
        analyse(table(tested), before=table(strangers))


def test_a_period_before_ends_before_the_experiment_begins(tested: list[Row]) -> None:
    with pytest.raises(DataError, match="until 2026-03-10.*begins on 2026-03-01"):
        analyse(table(tested), before=table(tested))
    timeless = table(tested).drop_columns("timestamp")
    assert analyse(table(tested), before=timeless).first.reduction > 0.5  # nobody can know


def test_what_is_wrong_with_the_period_before_is_counted(tested: list[Row]) -> None:
    before = ab_rows(seed=5, arms=False)
    plain = analyse(table(tested), before=table(before))
    assert plain.notes == ("73 of 78 persons were there in the period before.",)
    faulty = [
        {**before[0], "doc_id": None},
        {**before[0], "session_id": -1, "position": 40, "clicked": 1},
    ]  # deeper than the experiment
    result = analyse(table(tested), before=table([*before, *faulty]))
    assert result.first.difference.estimate != plain.first.difference.estimate  # another page
    assert result.notes == ("73 of 78 persons were there in the period before; 1 of its 2,002 rows were set aside.",)
    few = [row for row in before if row["user_id"] in ("u1", "u2", "u3")]
    assert analyse(table(tested), before=table(few)).notes[0].startswith("3 of 78 persons")


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_few_persons_decide_nothing() -> None:
    rows = interleaved_rows(pages=200, people=20, lift=0.6)
    result = analyse(table(rows))
    assert result.first.difference.low > 0
    assert (result.verdict.decision, result.first.difference.n < 30) == ("cannot tell", True)
    assert result.more is not None
    assert result.more.pages is None


def test_few_persons_of_one_arm_decide_nothing() -> None:
    rows = [row for row in ab_rows(pages=3000, people=200, lift=0.6) if row["arm"] == "old" or row["user_id"] < "u14"]
    persons = {arm: len({row["user_id"] for row in rows if row["arm"] == arm}) for arm in ("new", "old")}
    assert persons["new"] < 30 < persons["old"]
    result = analyse(table(rows), shares=(persons["new"], persons["old"]))
    assert result.first.difference.low > 0
    assert result.first.difference.n == persons["new"]
    assert result.verdict.decision == "cannot tell"
    assert f"there are {persons['new']} persons of an arm" in result.verdict.reason


def test_the_pages_still_needed_decide() -> None:
    small = analyse(table(interleaved_rows(pages=150, people=90, lift=0.12, seed=3)), margin=0.0)
    assert small.verdict.decision == "cannot tell"
    assert small.more is not None
    total = 150 + (small.more.pages or 0)
    quantile = every_look_quantile(total, small.planned, 0.95) + float(ndtri(0.8))
    error = small.first.error * math.sqrt(150 / total)
    assert abs(small.first.difference.estimate) / error == pytest.approx(quantile, rel=0.03)


@pytest.mark.parametrize(
    "given",
    [
        {"confidence": 1.0}, {"planned": 0}, {"margin": -1}, {"names": ("new",)}, {"names": ("a", "a")},
        {"shares": (0, 1)}, {"measure": "clicks@many"}, {"measure": "purchases"}, {"max_rejected": 2}, {"kind": "ab"},
        {"experiment": "May"}, {"unknown": 1},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(drafted: list[Row], given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        analyse(table(drafted), **given)
    with pytest.raises(UsageError):
        analyse(table(drafted).drop_columns("team"))
    with pytest.raises((UsageError, FormatError)):
        analyse(table(drafted), columns={"team": "nowhere"})


def test_a_log_with_teams_and_arms_needs_its_kind(drafted: list[Row]) -> None:
    rows = table([{**row, "arm": ("new", "old")[int(row["user_id"][1:]) % 2]} for row in drafted])
    with pytest.raises(UsageError, match="kind"):
        analyse(rows)
    assert [analyse(rows, kind=kind).kind for kind in ("interleaving", "ab")] == ["interleaving", "ab"]


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(DataError):
        analyse(table(interleaved_rows(pages=1)).slice(0, 0))
