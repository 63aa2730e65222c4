"""Records of any format, joined to the rows of a plain log, with an account of every record that came in.

A page is one query of one person with the results that it returned (a query of UBI, a ranking of Metarank). Everything
is grouping and joining, so the order of records does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from cldrank.clicks.bots import find_bots
from cldrank.clicks.imports.import_report import REASONS, RECORDS, ImportReport, SetAside
from cldrank.clicks.log.layout import DEEPEST
from cldrank.clicks.log.plain_log import check_zones
from cldrank.errors import DataError, FormatError
from cldrank.tables import Relation
from cldrank.wording import listed, some

_OPTIONAL = ("timestamp", "user_id", "surface")  # what a page may tell beside its query
_STRAY = 0.1  # the share of ordinals that may speak for the other start
_MOST_EXAMPLES = 3


@dataclass(frozen=True)
class Records:
    """What came in, in the terms of all formats.

    pages        page, query, timestamp, time_form, user_id, surface, documents, and stray: whether it is not a page
    events       record ("impression", "click" or "other"), page, doc_id, ordinal, action, mark, reason (NULL, or why it
                 is set aside). Clicks on one result with the same action and mark are copies
    where        the source of the events, for messages
    page_name, id_name, action_name   what the format calls a page, its id, and what events do
    impressions  whether the format has events for impressions; if not, all that was returned counts as shown
    notes        what to know before the log is used
    """

    pages: Relation
    events: Relation
    where: str
    page_name: str = "query"
    id_name: str = "query_id"
    action_name: str = "action"
    impressions: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinOptions:
    """How records are joined; see `import_log`."""

    click_action: tuple[str, ...] = ()
    impression_action: tuple[str, ...] = ()
    impressions: str = "auto"
    first_position: int | None = None
    min_joined: float = 0.8
    exclude_users: Sequence[str] | None = None
    exclude_bots: bool = False


class Joined(NamedTuple):
    """The rows of a log, the records set aside, and the report about both, without what was written where."""

    rows: Relation
    rejects: Relation
    report: ImportReport


def join_records(records: Records, options: JoinOptions) -> Joined:
    """Join clicks to what was shown, and that to its page, without the users who are excluded."""
    check_zones(records.pages, records.where)  # where a zone was given, no form is known
    pages = _with_reasons(records.pages)
    if options.exclude_users is not None:
        users = pages.engine.open(pa.table({"excluded": pa.array(options.exclude_users, pa.string())}))
        pages = _excluding(pages, "user_id", f"SELECT excluded FROM {users}", "excluded user")
    joined = _Join(records, pages, options).joined()
    if options.exclude_bots:
        rows = f"SELECT *, clicked AS clicks, CAST(NULL AS VARCHAR) AS reason FROM {joined.rows}"
        bots = find_bots(pages.engine.sql(rows))
        by = "user_id" if "user_id" in joined.rows.columns else "page"
        pages = _excluding(pages, by, f"SELECT name FROM {bots}", "bot")
        joined = _Join(records, pages, options).joined()
    if not joined.report.rows:
        why = "; ".join(str(aside).strip() for aside in joined.report.set_aside)
        raise DataError(f"nothing was shown on any page, and there is no log to write ({why}).")
    return joined


# -- pages -------------------------------------------------------------------------------------------------------------


def _with_reasons(raw: Relation) -> Relation:
    """The pages with the reason to set one aside; of several with one id, the earliest is kept (`is_page`)."""
    engine = raw.engine
    n = engine.row(f"SELECT count(page) AS n, count(DISTINCT page) AS pages FROM {raw} WHERE NOT stray")
    repeats = n["n"] > n["pages"]
    order = "timestamp, query, user_id, surface, CAST(documents AS VARCHAR)"
    turn = f"row_number() OVER (PARTITION BY page, stray ORDER BY {order})" if repeats else "1"
    reason = (
        "CASE WHEN stray THEN 'not a query' WHEN page IS NULL THEN 'no id' WHEN turn > 1 THEN 'repeated' "
        "WHEN query IS NULL THEN 'no text' END"
    )
    query = (
        f"SELECT page, query, {', '.join(_OPTIONAL)}, documents, {reason} AS reason, "
        f"page IS NOT NULL AND NOT stray AND turn = 1 AS is_page FROM (SELECT *, {turn} AS turn FROM {raw})"
    )
    return engine.hold(query) if repeats else engine.sql(query)


def _excluding(pages: Relation, by: str, names: str, why: str) -> Relation:
    """The pages with some of them set aside: those of users, or by their own names; `names` is SQL."""
    reason = f"CASE WHEN reason IS NULL AND {by} IN ({names}) THEN '{why}' ELSE reason END AS reason"
    return pages.engine.hold(f"SELECT * EXCLUDE (reason), {reason} FROM {pages}")


# -- the join ----------------------------------------------------------------------------------------------------------


class _Join:
    """One join of events to pages."""

    def __init__(self, records: Records, pages: Relation, options: JoinOptions) -> None:
        self.records, self.pages, self.options, self.engine = records, pages, options, pages.engine
        self.events = self.engine.hold(
            "SELECT record, e.page AS page, doc_id, ordinal, action, mark, e.reason AS reason, p.page IS NOT NULL AS "
            "is_known, p.reason AS page_reason, nullif(list_position(documents, doc_id), 0) AS place "
            f"FROM {records.events} AS e LEFT JOIN (SELECT * FROM {pages} WHERE is_page) AS p ON e.page = p.page"
        )
        self.counts = self._counted()
        self._check_events()
        from_events = options.impressions == "events" or (options.impressions == "auto" and self.counts["impression"])
        self.shown = "impression" if records.impressions and from_events else "result"

    def joined(self) -> Joined:
        """The rows, and the account of all records."""
        start, notes = 1, list(self.records.notes)
        if self.shown == "impression":
            start, note = self._first_ordinal()
            notes += [note] if note else []
        elif self.records.impressions:
            notes.append(self._returned_note())
        items = self._items(start)
        page_name, counts = self.records.page_name, self.counts
        came_in = {
            page_name: self.engine.row(f"SELECT count(*) AS n FROM {self.pages}")["n"],
            self.shown: self.engine.row(f"SELECT count(*) AS n FROM {items} WHERE record = '{self.shown}'")["n"],
            "click": counts["click"],
            "other": counts["other"],
        }
        results, clicks, matched = self._matched(items)
        facts = self.engine.row(
            "SELECT count(DISTINCT CASE WHEN position IS NOT NULL THEN page END) AS pages, count(position) AS rows, "
            "count(*) FILTER (WHERE position IS NOT NULL AND clicks > 0) AS clicked, "
            f"coalesce(CAST(sum(clicks) FILTER (WHERE position IS NOT NULL) AS BIGINT), 0) AS clicks FROM {matched}"
        )
        aside = self.engine.hold(" UNION ALL ".join(self._set_aside(items, results, clicks, matched)))
        set_aside = self._by_reason(aside)
        shares = _shares(came_in, set_aside, self.shown)
        self._check_shares(shares, aside)
        kept = {page_name: facts["pages"], self.shown: facts["rows"], "click": facts["clicks"], "other": 0}
        for record, number in came_in.items():
            lost = sum(entry.count for entry in set_aside if entry.record == record)
            if number != kept[record] + lost:
                raise AssertionError(f"{number} {record} came in, {kept[record]} are kept, {lost} set aside")
        report = ImportReport("", "", came_in, **facts, set_aside=set_aside, joined=shares, notes=tuple(notes))
        return Joined(self._log(matched), aside, report)

    def _counted(self) -> dict[str, int]:
        """How many events there are of each kind, and what the ordinals of impressions say."""
        kinds = [f"count(*) FILTER (WHERE record = '{kind}') AS {kind}" for kind in ("impression", "click", "other")]
        ordinals = [
            f"count(*) FILTER (WHERE record = 'impression' AND ordinal = {start}{also}) AS {name}_{start}"
            for start in (0, 1)
            for name, also in (("at", ""), ("first_at", " AND place = 1"))
        ]
        return self.engine.row(f"SELECT {', '.join([*kinds, *ordinals])}, count(page) AS named FROM {self.events}")

    def _check_events(self) -> None:
        """Refuse events that cannot make a log: none that is a click, or none that names its page."""
        options, counts = self.options, self.counts
        if self.records.impressions and not counts["impression"] + counts["click"] + counts["other"]:
            raise DataError(f"{self.records.where}: there are no events.")
        wanted = [("click", "click_action", options.click_action)] if counts["other"] else []
        if options.impressions == "events":
            wanted.append(("impression", "impression_action", options.impression_action))
        for kind, name, actions in wanted:
            if actions and not counts[kind]:
                raise DataError(
                    f"{self.records.where}: no event has the action {' or '.join(map(repr, actions))}; the actions "
                    f"are {other_actions(self.events) or 'missing'}. Name those that count as {kind}s with `{name}`."
                )
        if counts["click"] + counts["impression"] and not counts["named"]:
            raise FormatError(f"no click or impression has a {self.records.id_name}.", path=self.records.where)

    def _first_ordinal(self) -> tuple[int, str]:
        """Whether ordinals count from 0 or 1: what the first hits say or, if there are none, the smallest ordinals."""
        if self.options.first_position is not None:
            return self.options.first_position, ""
        zero, one = self.counts["first_at_0"], self.counts["first_at_1"]
        if not zero + one:
            zero, one = self.counts["at_0"], self.counts["at_1"]
            start = 0 if zero > _STRAY * one else 1
            seen = f"{zero:,} impressions at 0 and {one:,} at 1"
            return start, f"ordinals count from {start}, judged by {seen}: no page lists what it returned"
        if min(zero, one) > _STRAY * max(zero, one):
            raise DataError(
                f"some ordinals count from 0 and some from 1: of the results returned first, {zero:,} are at 0 and "
                f"{one:,} at 1. Import the clients one by one, or set `first_position=0` or `first_position=1`."
            )
        start, number = int(one > zero), max(zero, one)
        return start, f"ordinals count from {start}, as {number:,} of {zero + one:,} results returned first show"

    def _returned_note(self) -> str:
        text = "all results that were returned count as shown, seen or not"
        if self.options.impressions == "returned":
            return text
        return f"there are no impression events (other actions: {other_actions(self.events) or 'none'}), so {text}"

    def _items(self, start: int) -> Relation:
        """Events with positions from 1 (their ordinals or else their places among the hits), and what was returned."""
        position = f"CASE WHEN record = 'impression' THEN coalesce(ordinal + {1 - start}, place) END"
        reason = (
            "CASE WHEN reason IS NOT NULL THEN reason WHEN record = 'other' THEN 'other action' "
            "WHEN page IS NULL THEN 'no id' WHEN doc_id IS NULL THEN 'no document' "
            "WHEN NOT is_known THEN 'unknown page' WHEN page_reason = 'no text' THEN 'page without text' "
            "WHEN page_reason IS NOT NULL THEN page_reason WHEN record <> 'impression' THEN NULL "
            f"WHEN position IS NULL THEN 'no position' WHEN NOT position BETWEEN 1 AND {DEEPEST} THEN "
            "'position out of range' END"
        )
        events = (
            f"SELECT record, page, doc_id, position, action, mark, {reason} AS reason "
            f"FROM (SELECT *, {position} AS position FROM {self.events})"
        )
        if self.shown == "impression":
            return self.engine.sql(events)
        places = (
            "SELECT page, documents, reason, unnest(range(1, array_length(documents) + 1)) AS position "
            f"FROM {self.pages} WHERE is_page AND reason IS DISTINCT FROM 'no text' AND documents IS NOT NULL"
        )
        returned = self.engine.hold(
            "SELECT 'result' AS record, page, doc_id, position, CAST(NULL AS VARCHAR) AS action, CAST(NULL AS VARCHAR) "
            "AS mark, CASE WHEN doc_id IS NULL THEN 'no document' ELSE reason END AS reason FROM "
            f"(SELECT page, list_extract(documents, position) AS doc_id, position, reason FROM ({places}))"
        )
        return self.engine.sql(f"{events} UNION ALL SELECT * FROM {returned}")

    def _matched(self, items: Relation) -> tuple[Relation, Relation, Relation]:
        """What was shown, what was clicked, and both together; a click on nothing has no position."""
        results = self.engine.hold(
            f"SELECT page, doc_id, min(position) AS position, count(*) AS copies FROM {items} "
            f"WHERE reason IS NULL AND record = '{self.shown}' GROUP BY page, doc_id"
        )
        clicks = self.engine.hold(
            f"SELECT page, doc_id, action, mark, count(*) AS copies FROM {items} "
            "WHERE reason IS NULL AND record = 'click' GROUP BY page, doc_id, action, mark"
        )
        matched = self.engine.hold(
            f"SELECT page, doc_id, position, clicks FROM {results} FULL JOIN (SELECT page, doc_id, count(*) AS clicks "
            f"FROM {clicks} GROUP BY page, doc_id) USING (page, doc_id)"
        )
        return results, clicks, matched

    def _log(self, matched: Relation) -> Relation:
        """The log: one row per result that was shown."""
        filled = self.engine.row(
            f"SELECT {', '.join(f'count({name}) AS {name}' for name in _OPTIONAL)} FROM {self.pages} "
            "WHERE reason IS NULL"
        )
        values = {"timestamp": "CAST(timestamp AS TIMESTAMPTZ)", "user_id": "user_id", "surface": "surface"}
        known = "".join(f", {values[name]} AS {name}" for name, number in filled.items() if number)
        return self.engine.sql(
            "SELECT page AS session_id, query AS query_id, doc_id, CAST(position AS INTEGER) AS position, "
            f"CAST(coalesce(clicks, 0) AS INTEGER) AS clicked{known} FROM {matched} "
            f"JOIN (SELECT * FROM {self.pages} WHERE is_page) USING (page) WHERE position IS NOT NULL"
        )

    # -- the account ---------------------------------------------------------------------------------------------------

    def _set_aside(self, items: Relation, results: Relation, clicks: Relation, matched: Relation) -> list[str]:
        """SQL for all that was set aside."""
        bad = (  # other events are gathered by action
            "SELECT record, reason, CASE WHEN record <> 'other' THEN page END AS page, CASE WHEN record <> 'other' "
            "THEN doc_id END AS doc_id, CASE WHEN record <> 'other' THEN position END AS position, action "
            f"FROM {items} WHERE reason IS NOT NULL"
        )
        again = (
            "SELECT i.page, i.doc_id, i.position, r.position AS top, count(*) AS number "
            f"FROM {items} AS i JOIN (SELECT * FROM {results} WHERE copies > 1) AS r USING (page, doc_id) "
            f"WHERE i.record = '{self.shown}' AND i.reason IS NULL GROUP BY i.page, i.doc_id, i.position, r.position"
        )
        lost = (
            f"SELECT page, doc_id, action, count(*) AS number FROM {clicks} "
            f"JOIN (SELECT page, doc_id FROM {matched} WHERE position IS NULL) USING (page, doc_id) "
            "GROUP BY page, doc_id, action"
        )
        kept = f"SELECT page FROM {matched} WHERE position IS NOT NULL"
        empty = f"(SELECT * FROM {self.pages} WHERE reason IS NULL) ANTI JOIN ({kept}) USING (page)"
        same = "CASE WHEN position = top THEN number - 1 ELSE number END"
        where = "CASE WHEN position = top THEN 'repeated' ELSE 'second place' END"
        page = {"record": f"'{self.records.page_name}'", "query": "query"}
        return [
            _aside(f"{self.pages} WHERE reason IS NOT NULL", **page, reason="reason"),
            _aside(empty, **page, reason="'no results'"),
            _aside(f"({bad}) GROUP BY ALL", "record", "reason", "doc_id", "position", "action", "count(*)"),
            _aside(f"{clicks} WHERE copies > 1", "'click'", "'repeated'", "doc_id", action="action", rows="copies - 1"),
            _aside(f"({again}) WHERE {same} > 0", f"'{self.shown}'", where, "doc_id", "position", rows=same),
            _aside(f"({lost})", "'click'", "'never shown'", "doc_id", action="action", rows="number"),
        ]

    def _by_reason(self, aside: Relation) -> tuple[SetAside, ...]:
        """The number of records for each reason; the example is the first in alphabetical order."""
        named = {
            self.records.id_name: "session_id",
            "query": "query_id",
            "document": "doc_id",
            self.records.action_name: "action",
            "position": "CAST(position AS VARCHAR)",
        }
        example = " || ".join(f"coalesce(', {name} ' || {value}, '')" for name, value in named.items())
        rows = self.engine.rows(
            f"SELECT record, reason, CAST(sum(rows) AS BIGINT) AS number, min({example}) AS example FROM {aside} "
            "GROUP BY record, reason"
        )
        kinds, reasons = list(RECORDS), list(REASONS)
        rows.sort(key=lambda row: (kinds.index(row["record"]), reasons.index(row["reason"])))
        return tuple(SetAside(row["record"], row["reason"], row["number"], row["example"][2:]) for row in rows)

    def _check_shares(self, shares: Mapping[str, float], aside: Relation) -> None:
        """Refuse a poor join, with examples of what did not find its counterpart."""
        for what, share in shares.items():
            if share >= self.options.min_joined:
                continue
            of_results = "joined to a result" in what
            reasons = "'never shown'" if of_results else "'unknown page', 'no id', 'no document'"
            rows = self.engine.rows(
                f"SELECT session_id, doc_id FROM {aside} WHERE reason IN ({reasons}) "
                f"AND record <> '{self.records.page_name}' ORDER BY reason, session_id, doc_id LIMIT {_MOST_EXAMPLES}"
            )
            examples = "; ".join(
                f"{self.records.id_name} {row['session_id']}, document {row['doc_id']}" for row in rows
            )
            advice = "Are these the files of the same days?"
            if of_results and self.records.impressions:
                advice = (
                    "Do results and clicks name documents by the same ids? If not, set `object_id`; if impressions are "
                    "missing, `impressions=returned` counts what was returned."
                )
            raise DataError(
                f"only {share:.1%} of {what}, less than the {self.options.min_joined:.1%} that `min_joined` asks for; "
                f"such as {examples}. {advice}"
            )


def other_actions(events: Relation) -> str:
    """The actions that are neither clicks nor impressions, the most frequent first."""
    rows = events.engine.rows(
        f"SELECT action, count(*) AS number FROM {events} WHERE record = 'other' AND action IS NOT NULL "
        "GROUP BY action ORDER BY number DESC, action"
    )
    return some([f"{row['action']} ({row['number']:,})" for row in rows])


def _aside(
    source: str,
    record: str,
    reason: str,
    document: str = "NULL",
    position: str = "NULL",
    action: str = "NULL",
    rows: str = "1",
    query: str = "NULL",
) -> str:
    """SQL for records that are set aside."""
    return (
        f"SELECT {record} AS record, {reason} AS reason, CAST(page AS VARCHAR) AS session_id, CAST({query} AS VARCHAR) "
        f"AS query_id, CAST({document} AS VARCHAR) AS doc_id, CAST({position} AS BIGINT) AS position, "
        f"CAST({action} AS VARCHAR) AS action, CAST({rows} AS BIGINT) AS rows FROM {source}"
    )


def _shares(came_in: Mapping[str, int], set_aside: Sequence[SetAside], shown: str) -> dict[str, float]:
    """Which share of events found their page, and of clicks what was clicked."""

    def number(records: Sequence[str], reasons: Any) -> int:
        return sum(entry.count for entry in set_aside if entry.record in records and entry.reason in reasons)

    events = ["impression", "click"] if shown == "impression" else ["click"]
    total = sum(came_in.get(record, 0) for record in events)
    shares = {}
    if total:
        stray = number(events, ["no id", "unknown page", "no document"])
        shares[f"{listed(RECORDS[record][1] for record in events)} joined to a page"] = 1 - stray / total
    lost = number(["click"], ["never shown"])
    on_pages = came_in.get("click", 0) - (number(["click"], REASONS) - lost)
    if on_pages:
        shares["those clicks joined to a result"] = 1 - lost / on_pages
    return shares
