"""Joining pages, impressions and clicks to the rows of a log, with an account of every record that came in.

Formats differ in what they call things; here a page is one query of one person with the documents that it returned
(a query of UBI, a ranking of Metarank). Everything is grouping and joining, so the order of records does not matter.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from cldrank.clicks.counting import count_row
from cldrank.clicks.imports.fields import constant, stacked
from cldrank.clicks.imports.import_report import REASONS, RECORDS, Note, SetAside
from cldrank.clicks.log.schema import DEEPEST
from cldrank.errors import DataError, setting
from cldrank.wording import listed, some

if TYPE_CHECKING:
    import ibis.expr.types as ir

KNOWN = ("timestamp", "user_id", "surface")  # what a page may tell beside its query
_MOST_EXAMPLES = 3
ASIDE = ("record", "reason", "session_id", "query_id", "doc_id", "position", "action", "rows")


@dataclass(frozen=True)
class Records:
    """What came in, in the terms of all formats.

    pages      page, query, timestamp, user_id, surface; each page once, with its query
    returned   page, doc_id, position (from 1): what each page listed
    known      page, text: whether it has a query; pages without one as well
    events     record ("impression", "click" or "other"), page, doc_id, position (from 1), mark, action. Clicks on one
               result with the same action and mark are copies
    shown      whether impressions are among the events; else all that was returned counts as shown
    came_in    the number of records of each kind
    rejects    records that were set aside before, with the columns of `ASIDE`
    page       the name of a page in the format: "query" or "ranking"
    id         the name of its id
    action     the name of what events do
    advice     what to do where clicks do not find what was shown
    """

    pages: ir.Table
    known: ir.Table
    returned: ir.Table
    events: ir.Table
    shown: bool
    came_in: Mapping[str, int]
    rejects: Sequence[ir.Table] = ()
    notes: Sequence[Note] = ()
    page: str = "query"
    id: str = "query_id"
    action: str = "action"
    advice: Note = ("", ())


@dataclass(frozen=True)
class Joined:
    """The rows of a log, the records set aside, and what the report says about both."""

    rows: ir.Table
    rejects: ir.Table
    came_in: Mapping[str, int]
    facts: Mapping[str, int]
    set_aside: tuple[SetAside, ...]
    joined: Mapping[str, float] = field(default_factory=dict)


def join(records: Records, min_joined: float, held: ExitStack, progress: Callable[[str], None]) -> Joined:
    """Join clicks to what was shown, and that to its page; `held` keeps tables until the caller is done."""
    progress("joining clicks to results …")
    clicks = held.enter_context(_distinct_clicks(records).cache())
    shown, kind = (_impressions(records), "impression") if records.shown else (_listed(records.returned), "result")
    grouped = held.enter_context(_grouped(shown, clicks, records).cache())
    joined = grouped.filter(grouped.text.fill_null(False))
    progress("accounting for every record …")
    facts = _facts(records, joined, clicks)
    rejects = [one.cache() for one in _rejects(records, shown, grouped, clicks, kind, facts)]
    aside = stacked([_typed(held.enter_context(one)) for one in rejects])
    set_aside = _by_reason(aside, records)
    came_in = dict(records.came_in)
    if not records.shown:
        listed_ = facts["shown"] + sum(
            one.count for one in set_aside if (one.record, one.reason) == (kind, "no document")
        )
        came_in = {records.page: came_in.pop(records.page), kind: listed_, **came_in}
    shares = _shares(came_in, set_aside, kind)
    _check_join(records, shares, aside, min_joined)
    _check_account(came_in, facts, set_aside, records.page, kind)
    return Joined(_log(joined, records), aside, came_in, facts, set_aside, shares)


def _rejects(
    records: Records, shown: ir.Table, grouped: ir.Table, clicks: ir.Table, kind: str, facts: Mapping[str, int]
) -> Iterator[ir.Table]:
    """What was set aside; what the counts rule out is not looked for."""
    joined, pressed = (table.filter(table.text.fill_null(False)) for table in (grouped, clicks))
    yield from records.rejects
    yield _bad_events(records)
    yield _strays(grouped, kind)
    yield _strays(clicks, "click")
    if facts["shown"] > facts["rows"]:
        yield _copies(shown, joined, kind)
    if facts["click_copies"] > facts["distinct_clicks"]:
        yield _copied_clicks(pressed)
    if facts["distinct_clicks"] > facts["clicks"]:
        yield _lost_clicks(pressed, joined)
    if facts["asked"] > facts["pages"]:
        yield _empty_pages(records, joined)
    if not records.shown:
        yield _nameless(records.returned)


def other_actions(events: ir.Table, column: str = "record") -> str:
    """The actions that are neither clicks nor impressions, the most frequent first."""
    other = events.filter((events[column] == "other") & events.action.notnull())
    found = other.group_by("action").aggregate(number=other.count())
    rows = found.order_by([found.number.desc(), "action"]).to_pyarrow().to_pylist()
    return some([f"{row['action']} ({row['number']:,})" for row in rows])


# -- what was shown and clicked ----------------------------------------------------------------------------------------


def _has_keys(events: ir.Table) -> ir.BooleanValue:
    return events.page.notnull() & events.doc_id.notnull()


def _is_placed(events: ir.Table) -> ir.BooleanValue:
    return events.position.between(1, DEEPEST).fill_null(False)


def _impressions(records: Records) -> ir.Table:
    events = records.events.filter(records.events.record == "impression")
    return events.filter(_has_keys(events) & _is_placed(events)).select("page", "doc_id", "position")


def _listed(returned: ir.Table) -> ir.Table:
    return returned.filter(returned.doc_id.notnull())


def _distinct_clicks(records: Records) -> ir.Table:
    """Clicks, copies of one counted together, and whether their page has a query; null: there is no such page."""
    events = records.events
    clicks = events.filter((events.record == "click") & _has_keys(events))
    keys = ["page", "doc_id", "action", "mark"]
    found = clicks.group_by(keys).aggregate(copies=clicks.count())
    return found.left_join(records.known, "page").select(*found.columns, "text")


def _grouped(shown: ir.Table, clicks: ir.Table, records: Records) -> ir.Table:
    """What was shown, each document of a page once, with its clicks and whether its page has a query."""
    keys = ["page", "doc_id"]
    results = shown.group_by(keys).aggregate(position=shown.position.min(), copies=shown.count())
    clicked = clicks.group_by(keys).aggregate(clicks=clicks.count())
    found = results.left_join(clicked, keys).select(*results.columns, "clicks")
    return found.left_join(records.known, "page").select(*found.columns, "text")


def _log(joined: ir.Table, records: Records) -> ir.Table:
    """The log: one row per result that was shown."""
    pages = records.pages.select("page", "query", *KNOWN)
    rows = joined.inner_join(pages, "page")
    known = _filled(pages)
    clicked = rows.clicks.fill_null(0).cast("int32")
    return rows.select(
        *known,
        session_id="page",
        query_id="query",
        doc_id="doc_id",
        position=rows.position.cast("int32"),
        clicked=clicked,
    ).select("session_id", "query_id", "doc_id", "position", "clicked", *known)


def _filled(pages: ir.Table) -> list[str]:
    """Which of the optional columns have a value anywhere."""
    found = pages.aggregate(**{name: pages[name].count() for name in KNOWN}).to_pyarrow().to_pylist()[0]
    return [name for name, number in found.items() if number]


# -- what was set aside ------------------------------------------------------------------------------------------------


def _bad_events(records: Records) -> ir.Table:
    """Impressions and clicks without keys or a position, and all other events, which are gathered by action."""
    import ibis

    events = records.events
    impression = (events.record == "impression") & records.shown
    fine = (events.record != "other") & _has_keys(events) & (~impression | _is_placed(events))
    found = events.filter(~fine)
    found = found.left_join(records.known, "page").select(*found.columns, "text")
    other = found.record == "other"
    reason = ibis.cases(
        (other, "other action"),
        (found.page.isnull(), "no id"),
        (found.doc_id.isnull(), "no document"),
        (found.text.isnull(), "unknown page"),
        (~found.text, "page without text"),
        (found.position.isnull(), "no position"),
        else_="position out of range",
    )
    keys = {name: other.ifelse(None, found[name]) for name in ("page", "doc_id", "position")}
    found = found.select("record", "action", **keys, reason=reason)
    grouped = found.group_by(found.columns).aggregate(rows=found.count())
    return grouped.rename(session_id="page")


def _strays(table: ir.Table, kind: str) -> ir.Table:
    """Impressions or clicks whose page is unknown, or has no query."""
    found = table.filter(~table.text.fill_null(False))
    return found.select(
        *(name for name in ("position", "action") if name in found.columns),
        "doc_id",
        record=constant(kind),
        reason=found.text.isnull().ifelse("unknown page", "page without text"),
        session_id=found.page,
        rows=found.copies,
    )


def _copies(shown: ir.Table, joined: ir.Table, kind: str) -> ir.Table:
    """Results that were shown again: at the same position, or further down."""
    several = joined.filter(joined.copies > 1).select("page", "doc_id", top="position")
    again = shown.inner_join(several, ["page", "doc_id"])
    grouped = again.group_by(["page", "doc_id", "position", "top"]).aggregate(number=again.count())
    same = grouped.position == grouped.top
    found = grouped.select(
        record=constant(kind),
        reason=same.ifelse("repeated", "second place"),
        session_id=grouped.page,
        doc_id=grouped.doc_id,
        position=grouped.position,
        rows=grouped.number - same.cast("int64"),
    )
    return found.filter(found.rows > 0)


def _copied_clicks(clicks: ir.Table) -> ir.Table:
    twice = clicks.filter(clicks.copies > 1)
    return twice.select(
        "doc_id",
        "action",
        record=constant("click"),
        reason=constant("repeated"),
        session_id=twice.page,
        rows=twice.copies - 1,
    )


def _lost_clicks(clicks: ir.Table, results: ir.Table) -> ir.Table:
    lost = clicks.anti_join(results, ["page", "doc_id"])
    found = lost.group_by(["page", "doc_id", "action"]).aggregate(rows=lost.count())
    return found.select(
        "doc_id",
        "action",
        "rows",
        record=constant("click"),
        reason=constant("never shown"),
        session_id=found.page,
    )


def _empty_pages(records: Records, results: ir.Table) -> ir.Table:
    empty = records.pages.anti_join(results, "page")
    return empty.select(
        record=constant(records.page),
        reason=constant("no results"),
        session_id=empty.page,
        query_id=empty["query"],
        rows=constant(1),
    )


def _nameless(returned: ir.Table) -> ir.Table:
    """Places in the lists of pages that name no document."""
    rows = returned.filter(returned.doc_id.isnull())
    return rows.select(
        "position",
        record=constant("result"),
        reason=constant("no document"),
        session_id=rows.page,
        rows=constant(1),
    )


def _typed(rejects: ir.Table) -> ir.Table:
    """Rejects with all columns, ids as text."""
    import ibis

    kinds = dict.fromkeys(ASIDE, "string") | {"position": "int64", "rows": "int64"}
    return rejects.select(
        **{
            name: rejects[name].cast(kind) if name in rejects.columns else ibis.null(kind)
            for name, kind in kinds.items()
        }
    )


# -- the account -------------------------------------------------------------------------------------------------------


def _facts(records: Records, joined: ir.Table, clicks: ir.Table) -> dict[str, int]:
    """Counts of what was joined, from which follows what has to be set aside."""
    found = joined.clicks.fill_null(0)
    counted = joined.aggregate(
        rows=joined.count(),
        pages=joined.page.nunique(),
        clicked=joined.count(where=found > 0),
        clicks=found.sum(),
        shown=joined.copies.sum(),
    )
    there = clicks.text.fill_null(False)
    pressed = clicks.aggregate(distinct_clicks=clicks.count(where=there), click_copies=clicks.copies.sum(where=there))
    asked = records.pages.aggregate(asked=records.pages.count())
    return count_row(counted) | count_row(pressed) | count_row(asked)


def _by_reason(aside: ir.Table, records: Records) -> tuple[SetAside, ...]:
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


def _shares(came_in: Mapping[str, int], set_aside: Sequence[SetAside], kind: str) -> dict[str, float]:
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


def _check_join(records: Records, shares: Mapping[str, float], aside: ir.Table, min_joined: float) -> None:
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


def _check_account(
    came_in: Mapping[str, int], facts: Mapping[str, int], set_aside: Sequence[SetAside], page: str, kind: str
) -> None:
    """Every record that came in is in the log or was set aside; anything else is a bug of ours."""
    kept = {page: facts["pages"], kind: facts["rows"], "click": facts["clicks"], "other": 0}
    for record, number in came_in.items():
        aside = sum(one.count for one in set_aside if one.record == record)
        if number != kept[record] + aside:
            raise AssertionError(f"{number} {record} came in, {kept[record]} are kept, {aside} set aside")
