"""The account of an import: what was kept, what was set aside and why, and whether that is everything."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from cldrank.clicks.counting import count_row
from cldrank.clicks.imports.import_report import REASONS, RECORDS, SetAside
from cldrank.errors import DataError, setting
from cldrank.wording import listed

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from cldrank.clicks.imports.joining import Records

_MOST_EXAMPLES = 3


def facts_of(
    records: Records, fine: ir.BooleanValue, shown: ir.Table, results: ir.Table, clicked: ir.Table, clicks: ir.Table
) -> dict[str, int]:
    """Counts of what was joined, from which follows what has to be set aside.

    fine      which of the events can be joined
    shown     what was shown; `results` has each document of a page once
    clicked   the number of clicks on each document of a page; `clicks` are those that differ
    """
    there = clicked.semi_join(results, ["key", "doc_id"])
    counts = [
        records.events.aggregate(bad_events=records.events.count(where=~fine)),
        results.aggregate(rows=results.count(), pages=results.key.nunique()),
        there.aggregate(clicked=there.count(), clicks=there.clicks.sum()),
        clicks.aggregate(distinct_clicks=clicks.count(), click_copies=clicks.copies.sum()),
        records.pages.aggregate(asked=records.pages.count()),
    ]
    facts = {name: number for one in counts for name, number in count_row(one).items()}
    return facts | ({"shown": facts["rows"]} if results is shown else count_row(shown.aggregate(shown=shown.count())))


def by_reason(aside: ir.Table, records: Records) -> tuple[SetAside, ...]:
    """The number of records for each reason; the example is the first in alphabetical order."""
    import ibis

    named = {
        records.id: aside.session_id,
        "query": aside.query_id,
        "document": aside.doc_id,
        records.action: aside.action,
        "position": aside.position.cast("string"),
    }
    parts = [(ibis.literal(f", {name} ") + value).fill_null("") for name, value in named.items()]
    example = reduce(operator.add, parts).substr(2)
    found = aside.group_by(["record", "reason"]).aggregate(number=aside.rows.sum(), example=example.min())
    rows = found.to_pyarrow().to_pylist()
    order = list(RECORDS), list(REASONS)
    rows.sort(key=lambda row: (order[0].index(row["record"]), order[1].index(row["reason"])))
    return tuple(SetAside(row["record"], row["reason"], int(row["number"]), row["example"] or "") for row in rows)


def shares_of(came_in: Mapping[str, int], set_aside: Sequence[SetAside], kind: str) -> dict[str, float]:
    """Which share of events found their page, and of clicks what was clicked."""

    def number(records: Sequence[str], reasons: Sequence[str]) -> int:
        return sum(one.count for one in set_aside if one.record in records and one.reason in reasons)

    events = ["impression", "click"] if kind == "impression" else ["click"]
    total = sum(came_in.get(record, 0) for record in events)
    stray = number(events, ["no id", "unknown page", "no document"])
    found = {}
    if total:
        found[f"{listed(RECORDS[record][1] for record in events)} joined to a page"] = 1 - stray / total
    lost = number(["click"], ["never shown"])
    there = came_in.get("click", 0) - (number(["click"], list(REASONS)) - lost)
    if there:
        found["those clicks joined to a result"] = 1 - lost / there
    return found


def check_join(records: Records, shares: Mapping[str, float], aside: ir.Table, min_joined: float) -> None:
    """Refuse a poor join, with examples of what did not find its counterpart."""
    for what, share in shares.items():
        if share >= min_joined:
            continue
        clicks_only = "clicks joined to a result" in what
        reasons = ["never shown"] if clicks_only else ["unknown page", "no id", "no document"]
        lost = aside.filter(aside.reason.isin(reasons) & (aside.record != records.page))
        rows = lost.order_by(["reason", "session_id", "doc_id"]).limit(_MOST_EXAMPLES).to_pyarrow().to_pylist()
        examples = [f"{records.id} {row['session_id']}, document {row['doc_id']}" for row in rows]
        text, words = records.advice if clicks_only else ("", ())
        raise DataError(
            "only {:.1%} of {}, less than the {:.1%} that {} asks for; such as {}. " + (text or "{}"),
            share,
            what,
            min_joined,
            setting("min_joined"),
            "; ".join(examples),
            *(words if text else ("Are these the files of the same days?",)),
        )


def check_account(
    came_in: Mapping[str, int], facts: Mapping[str, int], set_aside: Sequence[SetAside], page: str, kind: str
) -> None:
    """Every record that came in is in the log or was set aside; anything else is a bug of ours."""
    kept = {page: facts["pages"], kind: facts["rows"], "click": facts["clicks"], "other": 0}
    for record, number in came_in.items():
        aside = sum(one.count for one in set_aside if one.record == record)
        if number != kept[record] + aside:
            raise AssertionError(f"{number} {record} came in, {kept[record]} are kept, {aside} set aside")
