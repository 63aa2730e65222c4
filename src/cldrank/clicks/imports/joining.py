"""Joining pages, impressions and clicks to the rows of a log, with an account of every record that came in.

Formats differ in what they call things; here a page is one query of one person with the documents that it returned
(a query of UBI, a ranking of Metarank). Everything is grouping and joining, so the order of records does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cldrank.clicks.imports.accounting import by_reason, check_account, check_join, facts_of, shares_of
from cldrank.clicks.imports.fields import constant, stacked
from cldrank.clicks.imports.import_report import Note, SetAside
from cldrank.clicks.log.values import DEEPEST
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from cldrank.clicks.log.engines import Engine

KNOWN = ("timestamp", "user_id", "surface")  # what a page may tell beside its query
_KEYS = ("key", "doc_id")
ASIDE = ("record", "reason", "session_id", "query_id", "doc_id", "position", "action", "rows")


@dataclass(frozen=True)
class Records:
    """What came in, in the terms of all formats.

    pages      key, page, query, timestamp, user_id, surface; each page once, with its query. The key stands for the
               page in the other tables
    returned   key, doc_id, position (from 1): what each page listed
    known      key, page, text: whether it has a query; pages without one as well
    events     record ("impression", "click" or "other"), key, text, page (where no such page came in), doc_id, position
               (from 1), mark, action. Clicks on one result with the same action and mark are copies
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


def join(
    records: Records, engine: Engine, min_joined: float, held: ExitStack, progress: Callable[[str], None]
) -> Joined:
    """Join clicks to what was shown, and that to its page; `held` keeps tables until the caller is done."""
    progress("joining clicks to results …")
    clicks = held.enter_context(_distinct_clicks(records).cache())
    clicked = clicks.group_by(_KEYS).aggregate(clicks=clicks.count())
    shown, kind = (_impressions(records), "impression") if records.shown else (_listed(records.returned), "result")
    results = shown if engine.differ(shown, _KEYS) else held.enter_context(_uppermost(shown).cache())
    progress("accounting for every record …")
    facts = facts_of(records, fine_events(records), shown, results, clicked, clicks)
    rejects = [_typed(one) for one in _rejects(records, shown, results, clicks, kind, facts)]
    nothing = _typed(records.pages.filter(constant(False)))
    aside = held.enter_context(stacked(rejects).cache()) if rejects else nothing
    set_aside = by_reason(aside, records) if rejects else ()
    came_in = dict(records.came_in)
    if not records.shown:
        nameless = sum(one.count for one in set_aside if (one.record, one.reason) == (kind, "no document"))
        came_in = {records.page: came_in.pop(records.page), kind: facts["shown"] + nameless, **came_in}
    shares = shares_of(came_in, set_aside, kind)
    check_join(records, shares, aside, min_joined)
    check_account(came_in, facts, set_aside, records.page, kind)
    return Joined(_log(results, clicked, records), aside, came_in, facts, set_aside, shares)


def _rejects(
    records: Records, shown: ir.Table, results: ir.Table, clicks: ir.Table, kind: str, facts: Mapping[str, int]
) -> Iterator[ir.Table]:
    """What was set aside; what the counts rule out is not looked for."""
    yield from records.rejects
    if facts["bad_events"]:
        yield _bad_events(records)
    if facts["shown"] > facts["rows"]:
        yield _named(_copies(shown, results, kind), records)
    if facts["click_copies"] > facts["distinct_clicks"]:
        yield _named(_copied_clicks(clicks), records)
    if facts["distinct_clicks"] > facts["clicks"]:
        yield _named(_lost_clicks(clicks, results), records)
    if facts["asked"] > facts["pages"]:
        yield _empty_pages(records, results)
    if not records.shown:
        yield _named(_nameless(records.returned), records)


def other_actions(events: ir.Table, column: str = "record") -> str:
    """The actions that are neither clicks nor impressions, the most frequent first."""
    other = events.filter((events[column] == "other") & events.action.notnull())
    found = other.group_by("action").aggregate(number=other.count())
    rows = found.order_by([found.number.desc(), "action"]).to_pyarrow().to_pylist()
    return some([f"{row['action']} ({row['number']:,})" for row in rows])


# -- what was shown and clicked ----------------------------------------------------------------------------------------


def fine_events(records: Records) -> ir.BooleanValue:
    """Which events are impressions and clicks of a document on a page with a query, at a position if they need one."""
    events = records.events
    impression = (events.record == "impression") & records.shown
    placed = ~impression | events.position.between(1, DEEPEST).fill_null(False)
    return (events.record != "other") & events.text.fill_null(False) & events.doc_id.notnull() & placed


def _impressions(records: Records) -> ir.Table:
    events = records.events
    return events.filter(fine_events(records) & (events.record == "impression")).select(*_KEYS, "position")


def _listed(returned: ir.Table) -> ir.Table:
    return returned.filter(returned.doc_id.notnull())


def _distinct_clicks(records: Records) -> ir.Table:
    """Clicks, copies of one counted together."""
    events = records.events
    clicks = events.filter(fine_events(records) & (events.record == "click"))
    return clicks.group_by([*_KEYS, "action", "mark"]).aggregate(copies=clicks.count())


def _uppermost(shown: ir.Table) -> ir.Table:
    """What was shown, each document of a page once."""
    return shown.group_by(_KEYS).aggregate(position=shown.position.min(), copies=shown.count())


def _log(results: ir.Table, clicked: ir.Table, records: Records) -> ir.Table:
    """The log: one row per result that was shown."""
    pages = records.pages.select("key", "page", "query", *KNOWN)
    rows = results.inner_join(pages, "key")
    rows = rows.left_join(clicked, _KEYS).select(*rows.columns, "clicks")
    known = _filled(pages)
    clicks = rows.clicks.fill_null(0).cast("int32")
    return rows.select(
        *known,
        session_id="page",
        query_id="query",
        doc_id="doc_id",
        position=rows.position.cast("int32"),
        clicked=clicks,
    ).select("session_id", "query_id", "doc_id", "position", "clicked", *known)


def _filled(pages: ir.Table) -> list[str]:
    """Which of the optional columns have a value anywhere."""
    found = pages.aggregate(**{name: pages[name].count() for name in KNOWN}).to_pyarrow().to_pylist()[0]
    return [name for name, number in found.items() if number]


# -- what was set aside ------------------------------------------------------------------------------------------------


def _bad_events(records: Records) -> ir.Table:
    """Impressions and clicks that cannot be joined, and all other events, which are gathered by action."""
    import ibis

    found = records.events.filter(~fine_events(records))
    other = found.record == "other"
    reason = ibis.cases(
        (other, "other action"),
        (found.page.isnull() & found.key.isnull(), "no id"),
        (found.doc_id.isnull(), "no document"),
        (found.text.isnull(), "unknown page"),
        (~found.text, "page without text"),
        (found.position.isnull(), "no position"),
        else_="position out of range",
    )
    keys = {name: other.ifelse(None, found[name]) for name in ("key", "page", "doc_id", "position")}
    found = found.select("record", "action", **keys, reason=reason)
    grouped = _named(found.group_by(found.columns).aggregate(rows=found.count()), records)
    return grouped.mutate(session_id=ibis.coalesce(grouped.page, grouped.session_id))


def _named(rejects: ir.Table, records: Records) -> ir.Table:
    """Rejects with the id of their page, for its key."""
    ids = records.known.select("key", session_id="page")
    return rejects.left_join(ids, "key").select(*rejects.columns, "session_id")


def _copies(shown: ir.Table, results: ir.Table, kind: str) -> ir.Table:
    """Results that were shown again: at the same position, or further down."""
    several = results.filter(results.copies > 1).select(*_KEYS, top="position")
    again = shown.inner_join(several, _KEYS)
    grouped = again.group_by([*_KEYS, "position", "top"]).aggregate(number=again.count())
    same = grouped.position == grouped.top
    found = grouped.select(
        record=constant(kind),
        reason=same.ifelse("repeated", "second place"),
        key=grouped.key,
        doc_id=grouped.doc_id,
        position=grouped.position,
        rows=grouped.number - same.cast("int64"),
    )
    return found.filter(found.rows > 0)


def _copied_clicks(clicks: ir.Table) -> ir.Table:
    twice = clicks.filter(clicks.copies > 1)
    return twice.select(*_KEYS, "action", record=constant("click"), reason=constant("repeated"), rows=twice.copies - 1)


def _lost_clicks(clicks: ir.Table, results: ir.Table) -> ir.Table:
    lost = clicks.anti_join(results, _KEYS)
    found = lost.group_by([*_KEYS, "action"]).aggregate(rows=lost.count())
    return found.mutate(record=constant("click"), reason=constant("never shown"))


def _empty_pages(records: Records, results: ir.Table) -> ir.Table:
    empty = records.pages.anti_join(results, "key")
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
    return rows.select("key", "position", record=constant("result"), reason=constant("no document"), rows=constant(1))


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
