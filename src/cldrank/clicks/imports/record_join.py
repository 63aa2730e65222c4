"""Records of any format, joined to the rows of a plain log, with an account of every record that came in.

A page is a query by one person, with the results that it returned (a query of UBI, a ranking of Metarank). Results and
clicks are grouped by page and document; only where a document occurs twice, or was clicked but not shown, are records
judged individually. Everything is grouping and joining, so the order of records does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any

from cldrank.arguments import check_choice, check_flag, check_number
from cldrank.clicks.events import CLICK
from cldrank.clicks.log.layout import DEEPEST, OF_EXPERIMENTS, ROLES, check_zone
from cldrank.clicks.log.plain_log import check_zones, of_users
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.tables import Relation, quoted
from cldrank.tables.columns import text_literal
from cldrank.wording import count, listed, some

_REASONS = {
    "excluded user": "of a user who is left out on request",
    "no id": "it does not name its page",
    "not a query": "an event among the queries",
    "bulk line": "it only names the index of the line below",
    "no text": "the query is missing or blank",
    "no results": "no result of this page was shown",
    "repeated": "a copy of another record",
    "another query": "one of several queries with the same id, of which the earliest with results is kept",
    "second place": "the same document at another position of the same page; the uppermost counts",
    "no document": "it does not name a document",
    "unknown page": "no query with this id came in",
    "page without text": "the query of its page is missing or blank",
    "no position": "it has no position to trust, and its page does not list the document",
    "position out of range": "its position lies before the first, or beyond 10,000",
    "not logged": "a click on a result that was returned, without an impression that counts",
    "never shown": "a click on something that its page did not show",
    "other action": "neither a click nor an impression, and not on a result that its page showed",
}
RECORDS = {  # singular and plural, for counts
    "query": ("query", "queries"),
    "ranking": ("ranking", "rankings"),
    "impression": ("impression", "impressions"),
    "result": ("result returned", "results returned"),
    "click": ("click", "clicks"),
    "other": ("other record", "other records"),
    "bulk": ("line of a bulk file that is no record", "lines of a bulk file that are no records"),
}
_OPTIONAL = ("timestamp", "user_id", "surface")  # what a page may tell beside its query
_MOST_EXAMPLES, _MOST_NAMED = 3, 20
_MOST_ACTIONS = 20  # that become columns, the most frequent
_STRAY = 0.1  # ordinals at 0 or 1, relative to the others, up to which they are mistakes


@dataclass(frozen=True)
class Records:
    """What came in, in the terms of both formats; columns are NULL where a format does not have them.

    pages        page, query, documents, timestamp, time_form, user_id, surface, client (the program that logged it),
                 and stray: why it is not a page
    events       record ("impression", "click", "bulk" or "other"), page, doc_id, action, ordinal, mark, query,
                 features (JSON). Clicks on a result with the same action and mark are copies
    where        the source of the events, for messages
    page_name, id_name   what the format calls a page, and its id
    impressions  whether the format has events for impressions; if not, all that was returned counts as shown
    notes        what to know before the log is used
    """

    pages: Relation
    events: Relation
    where: str
    page_name: str = "query"
    id_name: str = "query_id"
    impressions: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportOptions:
    """How the records of another program are read and joined.

    click_action        the actions (UBI) or types of interactions (Metarank) that count as clicks
    impression_action   UBI: the actions that are impressions
    impressions         UBI: what counts as shown: "events", what was "returned", or "auto": events, if there are any
    object_id           UBI: which id of an object is the document, "object_id" or "internal_id"
    surface             UBI: the field of a query that names its surface, such as "query_attributes.device"
    first_position      UBI: whether ordinals count from 0 or 1; None: inferred from what was returned first
    query_field         Metarank: the field of a ranking that holds its query; None: one of the usual names
    normalise           write queries in lower case, with single blanks, so that spellings count together
    min_joined          the share of events that must find their page, and of clicks that must find their result
    time_zone           of times that name no zone; None: UTC, and a log in which other times name theirs is refused
    exclude_users       users whose records are set aside: their ids, or a file with an id per line

    >>> ImportOptions(click_action=("click", "add_to_cart")).min_joined
    0.8
    """

    click_action: str | Sequence[str] = "click"
    impression_action: str | Sequence[str] = "impression"
    impressions: str = "auto"
    object_id: str = "object_id"
    surface: str = "application"
    first_position: int | None = None
    query_field: str | None = None
    normalise: bool = True
    min_joined: float = 0.8
    time_zone: str | None = None
    exclude_users: str | PathLike[str] | Collection[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("click_action", "impression_action"):
            actions = getattr(self, name)
            words = (actions,) if isinstance(actions, str) else tuple(actions)
            if not words or not all(isinstance(word, str) and word for word in words):
                raise UsageError(f"`{name}` must be a name, or several, not {actions!r}.")
            object.__setattr__(self, name, words)
        check_choice("impressions", self.impressions, ("auto", "events", "returned"))
        check_choice("object_id", self.object_id, ("object_id", "internal_id"))
        if self.first_position is not None:
            check_choice("first_position", self.first_position, (0, 1))
        check_flag("normalise", self.normalise)
        check_number("min_joined", self.min_joined, least=0, most=1)
        check_zone(self.time_zone)


@dataclass(frozen=True)
class SetAside:
    """Records that were set aside for the same reason, with an example.

    >>> print(SetAside("click", "never shown", 3, "q1"))
               3  click, never shown: a click on something that its page did not show; such as q1
    """

    record: str
    reason: str
    count: int
    example: str

    def __str__(self) -> str:
        such = f"; such as {self.example}" if self.example else ""
        return f"{self.count:>12,}  {self.record}, {self.reason}: {_REASONS[self.reason]}{such}"


@dataclass(frozen=True)
class ImportReport:
    """What became of the records of an import.

    source        the format: ubi or metarank
    out           the log that was written
    came_in       how many records of each kind were read
    pages         pages in the log: each a query by one person
    rows          rows of the log: results that were shown
    clicked       rows with a click
    clicks        clicks in the log; several on the same result count separately
    set_aside     all that did not become part of the log
    joined        shares: of impressions and clicks joined to their page, of clicks joined to a result
    notes         what to know before the log is used
    actions       other actions on results in the log, by the column that says where they happened

    >>> aside = (SetAside("click", "never shown", 1, "q1"),)
    >>> report = ImportReport("ubi", "log.parquet", {"query": 2, "click": 3}, 2, 20, 2, 2, aside)
    >>> report.pages, len(report.set_aside)
    (2, 1)
    """

    source: str
    out: str
    came_in: Mapping[str, int]
    pages: int
    rows: int
    clicked: int
    clicks: int
    set_aside: tuple[SetAside, ...] = ()
    joined: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    actions: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def aside(self, record: str, reason: str | None = None) -> int:
        """How many records of a kind were set aside, for a reason or for any."""
        return sum(entry.count for entry in self.set_aside if entry.record == record and reason in (None, entry.reason))

    @property
    def returned_only(self) -> bool:
        """Whether what counts as shown is all that was returned, seen or not."""
        return self.source == "ubi" and "result" in self.came_in

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "notes": list(self.notes), "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        read = listed(count(number, *RECORDS[record]) for record, number in self.came_in.items())
        aside = sum(entry.count for entry in self.set_aside)
        lines = [f"{read} read, {aside:,} set aside", *map(str, self.set_aside)]
        lines += [f"{share:.1%} of {what}" for what, share in self.joined.items()]
        lines += [f"note: {note}." for note in self.notes]
        lines.append(
            f"{count(self.rows, 'row')} of {count(self.pages, 'page')} written, {self.clicked:,} of them clicked "
            f"({count(self.clicks, 'click')})"
        )
        if self.actions:
            actions = [f"{name} ({number:,})" for name, number in self.actions.items()]
            lines.append(f"other actions, each a column: {some(actions)}")
        return "\n".join(lines)


def join_records(records: Records, options: ImportOptions) -> tuple[Relation, Relation, ImportReport]:
    """The rows of a log, in which clicks are joined to what was shown; the records set aside, and the report."""
    if options.time_zone is None:
        check_zones(records.pages, records.where)
    pages = _with_reasons(records.pages, options)
    engine = pages.engine
    own = {"ordinal": "= 'impression'", "action": "<> 'impression'", "mark": "= 'click'", "features": "= 'impression'"}
    reason = "p.reason"
    if "shares_id" in pages.columns:
        own["query"] = "<> 'other'"
        reason = "CASE WHEN shares_id AND e.query <> p.query THEN 'another query' ELSE p.reason END"
    columns = [
        "page",
        "doc_id",
        *(f"CASE WHEN record {which} THEN {name} END AS {name}" for name, which in own.items()),
    ]
    events = engine.hold(
        "SELECT record, e.page AS page, doc_id, ordinal, action, mark, features, p.page IS NOT NULL AS is_known, "
        f"{reason} AS page_reason, client, nullif(list_position(documents, doc_id), 0) AS place "
        f"FROM (SELECT record, {', '.join(columns)} FROM {records.events}) AS e "
        f"LEFT JOIN (SELECT * FROM {pages} WHERE is_page) AS p ON e.page = p.page"
    )
    counts = _event_counts(events)
    _check_events(events, counts, records, options)
    shown, notes = "result", list(records.notes)
    position = "place"
    if options.impressions == "events" or (options.impressions == "auto" and counts["impression"]):
        shown = "impression"
        position, told = _position(events, options.first_position)
        notes += told
    elif records.impressions:
        others = f"there are no impression events (other actions: {other_actions(events) or 'none'}), so "
        every = "all results that were returned count as shown, seen or not"
        notes.append(every if options.impressions == "returned" else others + every)
    items = _positioned(events, pages, position, shown)
    results, judged = _matched(items, ", min(features) AS features" if counts["featured"] else "")
    acted, actions = _actions(items, results, options)
    rejects = _set_aside(records.page_name, pages, items, results, judged, acted)
    set_aside = tuple(
        replace(entry, example=other_actions(rejects, "CAST(sum(rows) AS BIGINT)"))
        if entry.reason == "other action"
        else entry
        for entry in _by_reason(rejects, records)
    )
    came_in = dict.fromkeys((records.page_name, shown, "click", "other"), 0)
    came_in[records.page_name] = engine.row(f"SELECT count(*) AS n FROM {pages}")["n"]
    came_in |= {row["record"]: row["n"] for row in engine.rows(f"SELECT record, count(*) AS n FROM {items} GROUP BY 1")}
    shares = _shares(came_in, set_aside, shown)
    _check_shares(shares, rejects, records, options.min_joined)
    kept = {
        record: n - sum(entry.count for entry in set_aside if entry.record == record) for record, n in came_in.items()
    }
    rows = _rows(results, judged, pages, acted, actions)
    clicked = engine.row(f"SELECT count(*) AS n FROM {rows} WHERE clicked > 0")["n"]
    made = kept[records.page_name], kept[shown], clicked, kept["click"]
    if not kept[shown]:
        why = "; ".join(str(aside).strip() for aside in set_aside)
        raise DataError(f"nothing was shown on any page, and there is no log to write ({why}).")
    facts: dict[str, Any] = {"joined": shares, "notes": tuple(notes), "actions": actions}
    return rows, rejects, ImportReport("", "", came_in, *made, set_aside=set_aside, **facts)


# -- pages -------------------------------------------------------------------------------------------------------------


def _with_reasons(raw: Relation, options: ImportOptions) -> Relation:
    """The pages, with a reason where they are set aside; of an id, the earliest with results is kept (`is_page`).

    A program may ask for counts and for results under the same id, or for what a person types next (`shares_id`).
    """
    engine = raw.engine
    n = engine.row(f"SELECT count(page) AS n, count(DISTINCT page) AS pages FROM {raw} WHERE stray IS NULL")
    repeats = n["n"] > n["pages"]
    order = "coalesce(array_length(documents), 0) = 0, timestamp, query, user_id, surface, CAST(documents AS VARCHAR)"
    of_id = "OVER (PARTITION BY page, stray"
    beside = f"row_number() {of_id} ORDER BY {order}) AS turn, first_value(query) {of_id} ORDER BY {order}) AS first"
    known = f"*, {beside}, min(query) {of_id}) <> max(query) {of_id}) AS shares_id" if repeats else "*, 1 AS turn"
    another = "WHEN query <> first THEN 'another query' " if repeats else ""
    excluded = "FALSE" if options.exclude_users is None else of_users(options.exclude_users, engine)
    reason = (
        "CASE WHEN stray IS NOT NULL THEN stray WHEN page IS NULL THEN 'no id' "
        f"{another}WHEN turn > 1 THEN 'repeated' "
        f"WHEN query IS NULL THEN 'no text' WHEN {excluded} THEN 'excluded user' END"
    )
    query = (
        f"SELECT page, query, {', '.join(_OPTIONAL)}, client, documents, {reason} AS reason, "
        f"{'shares_id, ' if repeats else ''}page IS NOT NULL AND stray IS NULL AND turn = 1 AS is_page "
        f"FROM (SELECT {known} FROM {raw})"
    )
    return engine.hold(query) if repeats else engine.sql(query)


# -- events ------------------------------------------------------------------------------------------------------------


def _event_counts(events: Relation) -> dict[str, int]:
    """How many events there are of each kind, and how many name their page, or have features."""
    kinds = [f"count(*) FILTER (WHERE record = '{kind}') AS {kind}" for kind in ("impression", "click", "other")]
    return events.engine.row(
        f"SELECT {', '.join(kinds)}, count(page) FILTER (WHERE record <> 'other') AS named, "
        f"count(features) AS featured FROM {events}"
    )


def _check_events(events: Relation, counts: Mapping[str, int], records: Records, options: ImportOptions) -> None:
    """Refuse events that cannot make a log: none that is a click, or none that names its page."""
    if records.impressions and not counts["impression"] + counts["click"] + counts["other"]:
        raise DataError(f"{records.where}: there are no events.")
    wanted = [("click", "click_action", options.click_action)] if counts["other"] else []
    if options.impressions == "events":
        wanted.append(("impression", "impression_action", options.impression_action))
    for kind, name, actions in wanted:
        if actions and not counts[kind]:
            raise DataError(
                f"{records.where}: no event has the action {' or '.join(map(repr, actions))}; the actions are "
                f"{other_actions(events) or 'missing'}. Name those that count as {kind}s with `{name}`."
            )
    if counts["click"] + counts["impression"] and not counts["named"]:
        raise FormatError(f"no click or impression has a {records.id_name}.", path=records.where)


def _position(events: Relation, first_position: int | None) -> tuple[str, list[str]]:
    """SQL for positions from 1, by the ordinals or places of impressions, and for each program how they are known."""
    if first_position is not None:
        return f"coalesce(ordinal + {1 - first_position}, place)", []
    own = ", ".join(
        f"count(*) FILTER (WHERE ordinal = {start}) AS at_{start}, "
        f"count(*) FILTER (WHERE ordinal = {start} AND place = 1) AS first_at_{start}, "
        f"min(doc_id) FILTER (WHERE ordinal = {start}) <> max(doc_id) FILTER (WHERE ordinal = {start}) AS clash_{start}"
        for start in (0, 1)
    )
    names = ("at_0", "at_1", "first_at_0", "first_at_1", "listed")
    evidence = events.engine.rows(
        f"SELECT client, {', '.join(f'CAST(sum({name}) AS BIGINT) AS {name}' for name in names)}, count(*) AS pages, "
        "count(*) FILTER (WHERE clash_0 OR clash_1) AS clashing FROM "
        f"(SELECT client, page, count(place) AS listed, {own} FROM {events} WHERE record = 'impression' AND is_known "
        "AND page_reason IS NULL AND ordinal IN (0, 1) GROUP BY client, page) GROUP BY client ORDER BY client"
    )
    cases, notes = "", []
    for counts in evidence:
        start, why = _first_ordinal(counts)
        notes.append(
            f"ordinals of {counts['client'] or 'no application'} {why}" if len(evidence) > 1 else f"ordinals {why}"
        )
        position = "place" if start is None else f"coalesce(ordinal + {1 - start}, place)"
        cases += f"WHEN coalesce(client, '') = {text_literal(counts['client'] or '')} THEN {position} "
    return f"CASE {cases}ELSE coalesce(ordinal, place) END" if cases else "coalesce(ordinal, place)", notes


def _first_ordinal(counts: Mapping[str, int]) -> tuple[int | None, str]:
    """Whether the ordinals of a program count from 0 or 1, and how that is known.

    The results that were returned first decide or, where no page lists what it returned, the smallest ordinals. None
    where ordinals contradict themselves, and pages list what they returned.
    """
    at_0, at_1 = counts["first_at_0"], counts["first_at_1"]
    is_odd = min(at_0, at_1) > _STRAY * (at_0 + at_1) or counts["clashing"] > _STRAY * counts["pages"]
    if is_odd and counts["listed"]:
        return None, (
            f"contradict themselves (of the results returned first, {at_0:,} are at 0 and {at_1:,} at 1; two results "
            f"share the top on {counts['clashing']:,} of {counts['pages']:,} pages): their places when returned count"
        )
    if not at_0 + at_1:
        start = 0 if counts["at_0"] > _STRAY * counts["at_1"] else 1
        return start, f"count from {start}: {counts['at_0']:,} impressions are at 0, {counts['at_1']:,} at 1"
    start = int(at_1 > at_0)
    return start, f"count from {start}, as {max(at_0, at_1):,} of {at_0 + at_1:,} results returned first show"


def other_actions(events: Relation, number: str = "count(*)") -> str:
    """The actions that are neither clicks nor impressions, the most frequent first."""
    rows = events.engine.rows(
        f"SELECT action, {number} AS number FROM {events} WHERE record = 'other' AND action IS NOT NULL "
        "GROUP BY action ORDER BY number DESC, action"
    )
    return some([f"{row['action']} ({row['number']:,})" for row in rows], _MOST_NAMED)


# -- results and clicks ------------------------------------------------------------------------------------------------


def _positioned(events: Relation, pages: Relation, position: str, shown: str) -> Relation:
    """Events with positions from 1, as SQL computes them for impressions, and what was returned."""
    position = f"CASE WHEN record = 'impression' THEN {position} END"
    reason = (
        "CASE WHEN record = 'other' THEN 'other action' WHEN record = 'bulk' THEN 'bulk line' "
        "WHEN page IS NULL THEN 'no id' WHEN doc_id IS NULL THEN 'no document' "
        "WHEN NOT is_known THEN 'unknown page' WHEN page_reason = 'no text' THEN 'page without text' "
        "WHEN page_reason IS NOT NULL THEN page_reason WHEN record <> 'impression' THEN NULL "
        f"WHEN position IS NULL THEN 'no position' WHEN NOT position BETWEEN 1 AND {DEEPEST} THEN "
        "'position out of range' END"
    )
    items = (
        "SELECT record, page, doc_id, position, action, mark, features, place IS NOT NULL AS returned, "
        f"{reason} AS reason "
        f"FROM (SELECT *, {position} AS position FROM {events})"
    )
    if shown == "impression":
        return events.engine.sql(items)
    places = (
        "SELECT page, documents, reason, unnest(range(1, array_length(documents) + 1)) AS position "
        f"FROM {pages} WHERE is_page AND reason IS DISTINCT FROM 'no text' AND documents IS NOT NULL"
    )
    return events.engine.hold(
        f"{items} UNION ALL SELECT 'result', page, doc_id, position, NULL, NULL, NULL, TRUE, "
        "CASE WHEN doc_id IS NULL THEN 'no document' ELSE reason END FROM "
        f"(SELECT page, list_extract(documents, position) AS doc_id, position, reason FROM ({places}))"
    )


def _matched(items: Relation, features: str) -> tuple[Relation, Relation]:
    """What was shown or clicked on each page by document: the `top` position, results and clicks; and what to take off.

    The latter are copies, second places, and clicks on what was not shown, with their reasons: only documents that
    occur in any of these ways are looked at record by record.
    """
    engine = items.engine
    results = engine.hold(
        "SELECT page, doc_id, min(position) AS top, count(position) AS shown, count(*) - count(position) AS clicks"
        f"{features} "
        f"FROM {items} WHERE reason IS NULL GROUP BY page, doc_id"
    )
    copy = "row_number() OVER (PARTITION BY page, doc_id, position, action, mark ORDER BY page) > 1"
    why = (
        "CASE WHEN position > top THEN 'second place' WHEN is_copy THEN 'repeated' "
        "WHEN returned THEN 'not logged' ELSE 'never shown' END"
    )
    odd = f"SELECT page, doc_id, top FROM {results} WHERE shown <> 1 OR clicks > 1"
    judged = engine.hold(
        f"SELECT record, {why} AS reason, page, doc_id, position, action FROM (SELECT record, page, doc_id, position, "
        f"action, returned, top, {copy} AS is_copy FROM {items} JOIN ({odd}) USING (page, doc_id) "
        "WHERE reason IS NULL) WHERE is_copy OR top IS NULL OR position > top"
    )
    return results, judged


def _actions(items: Relation, results: Relation, options: ImportOptions) -> tuple[Relation, dict[str, int]]:
    """Other actions, with a name for each that is `kept`, and how many there are by name, the most frequent first.

    Kept are those on results that their page showed, if a column can have their name, in small letters.
    """
    engine, name = items.engine, "regexp_replace(lower(action), '[^a-z0-9_]+', '_', 'g')"
    found = engine.hold(
        f"SELECT action, {name} AS name, page, doc_id, top IS NOT NULL AS on_page FROM (SELECT * FROM {items} WHERE "
        f"record = 'other') LEFT JOIN (SELECT page, doc_id, top FROM {results}) USING (page, doc_id)"
    )
    counts = engine.rows(
        f"SELECT name, count(*) AS n FROM {found} WHERE on_page AND regexp_matches(name, '^[a-z]') AND action NOT IN "
        f"({', '.join(map(text_literal, options.impression_action))}) GROUP BY name ORDER BY n DESC, name"
    )
    taken = (*ROLES, *OF_EXPERIMENTS, CLICK, "features")
    actions = {row["name"]: int(row["n"]) for row in counts if row["name"] not in taken}
    actions = dict(list(actions.items())[:_MOST_ACTIONS])
    among = f"name IN ({', '.join(map(text_literal, actions))})" if actions else "FALSE"
    return engine.sql(f"SELECT *, coalesce(on_page AND {among}, FALSE) AS kept FROM {found}"), actions


def _rows(results: Relation, judged: Relation, pages: Relation, others: Relation, actions: Collection[str]) -> Relation:
    """The log: a row per result that was shown, with a column for each kind of action on it."""
    known = f"(SELECT * FROM {pages} WHERE reason IS NULL)"
    filled = pages.engine.row(f"SELECT {', '.join(f'count({name}) AS {name}' for name in _OPTIONAL)} FROM {known}")
    values = {"timestamp": "CAST(timestamp AS TIMESTAMPTZ)", "user_id": "user_id", "surface": "surface"}
    optional = "".join(f", {values[name]} AS {name}" for name, number in filled.items() if number)
    optional += ", features" if "features" in results.columns else ""
    lost = f"SELECT page, doc_id, count(*) AS lost FROM {judged} WHERE position IS NULL GROUP BY page, doc_id"
    acted, joined = "", ""
    if actions:
        acted = "".join(f", coalesce(a{at} > 0, FALSE) AS {quoted(name)}" for at, name in enumerate(actions))
        sums = [f"count(*) FILTER (WHERE name = {text_literal(name)}) AS a{at}" for at, name in enumerate(actions)]
        by_result = f"SELECT page, doc_id, {', '.join(sums)} FROM {others} WHERE kept GROUP BY page, doc_id"
        joined = f"LEFT JOIN ({by_result}) USING (page, doc_id) "
    return pages.engine.sql(
        "SELECT page AS session_id, query AS query_id, doc_id, CAST(top AS INTEGER) AS position, "
        f"CAST(clicks - coalesce(lost, 0) AS INTEGER) AS clicked{acted}{optional} FROM {results} LEFT JOIN ({lost}) "
        f"USING (page, doc_id) {joined}JOIN {known} USING (page) WHERE top IS NOT NULL"
    )


# -- the account -------------------------------------------------------------------------------------------------------


def _set_aside(
    page_name: str, pages: Relation, items: Relation, results: Relation, judged: Relation, others: Relation
) -> Relation:
    """All records that did not become part of the log; `rows` are alike."""
    empty = f"CASE WHEN page IN (SELECT page FROM {results} WHERE top IS NOT NULL) THEN NULL ELSE 'no results' END"
    of_pages = (
        f"SELECT '{page_name}' AS record, coalesce(reason, {empty}) AS reason, page, query, NULL AS doc_id, NULL AS "
        f"position, NULL AS action FROM {pages}"
    )
    of_events = "SELECT record, reason, page, NULL AS query, doc_id, position, action FROM"
    of_others = (
        "SELECT 'other' AS record, 'other action' AS reason, NULL AS page, NULL AS query, NULL AS doc_id, NULL AS "
        f"position, action FROM {others} WHERE NOT kept"
    )
    every = " UNION ALL ".join(
        "SELECT record, reason, CAST(page AS VARCHAR) AS session_id, CAST(query AS VARCHAR) AS query_id, CAST(doc_id "
        "AS VARCHAR) AS doc_id, CAST(position AS BIGINT) AS position, CAST(action AS VARCHAR) AS action "
        f"FROM ({part}) WHERE reason IS NOT NULL"
        for part in (of_pages, f"{of_events} {items} WHERE record <> 'other'", f"{of_events} {judged}", of_others)
    )
    return pages.engine.hold(f"SELECT *, count(*) AS rows FROM ({every}) GROUP BY ALL")


def _by_reason(rejects: Relation, records: Records) -> tuple[SetAside, ...]:
    """The number of records for each reason; the example is the first in alphabetical order."""
    named = {
        records.id_name: "session_id",
        "query": "query_id",
        "document": "doc_id",
        "action": "action",
        "position": "CAST(position AS VARCHAR)",
    }
    example = " || ".join(f"coalesce(', {name} ' || {value}, '')" for name, value in named.items())
    counts = rejects.engine.rows(
        f"SELECT record, reason, CAST(sum(rows) AS BIGINT) AS number, min({example}) AS example FROM {rejects} "
        "GROUP BY record, reason"
    )
    kinds, reasons = list(RECORDS), list(_REASONS)
    counts.sort(key=lambda row: (kinds.index(row["record"]), reasons.index(row["reason"])))
    return tuple(SetAside(row["record"], row["reason"], row["number"], row["example"][2:]) for row in counts)


def _shares(came_in: Mapping[str, int], set_aside: Sequence[SetAside], shown: str) -> dict[str, float]:
    """The share of events joined to their page, and of clicks joined to a result."""

    def number(kinds: Sequence[str], reasons: Sequence[str]) -> int:
        return sum(entry.count for entry in set_aside if entry.record in kinds and entry.reason in reasons)

    events = ["impression", "click"] if shown == "impression" else ["click"]
    total = sum(came_in[record] for record in events)
    shares = {}
    if total:
        stray = number(events, ["no id", "unknown page", "no document"])
        shares[f"{listed(RECORDS[record][1] for record in events)} joined to a page"] = 1 - stray / total
    lost = number(["click"], ["not logged", "never shown"])
    on_pages = came_in["click"] - number(["click"], list(_REASONS)) + lost
    if on_pages:
        shares["those clicks joined to a result"] = 1 - lost / on_pages
    return shares


def _check_shares(shares: Mapping[str, float], rejects: Relation, records: Records, least: float) -> None:
    """Refuse a poor join, with examples of records that were not joined."""
    for what, share in shares.items():
        if share >= least:
            continue
        of_results = "joined to a result" in what
        reasons = "'not logged', 'never shown'" if of_results else "'unknown page', 'no id', 'no document'"
        rows = rejects.engine.rows(
            f"SELECT session_id, doc_id FROM {rejects} WHERE reason IN ({reasons}) "
            f"AND record <> '{records.page_name}' ORDER BY reason, session_id, doc_id LIMIT {_MOST_EXAMPLES}"
        )
        examples = "; ".join(f"{records.id_name} {row['session_id']}, document {row['doc_id']}" for row in rows)
        advice = "Are these the files of the same days?"
        if of_results and records.impressions:
            advice = (
                "Do results and clicks name documents by the same ids? If not, set `object_id`; if impressions are "
                "missing, `impressions=returned` counts what was returned."
            )
        raise DataError(
            f"only {share:.1%} of {what}, less than the {least:.1%} that `min_joined` asks for; such as {examples}. "
            f"{advice}"
        )
