"""From the log of an experiment to what persons did: rows, pages, the days of each person, and sums over persons.

Every step is a query. A page is grouped into bits, one for each position: what was shown, by whom, and what was
clicked, so that rows that repeat others change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

import numpy as np

from cldrank.arguments import check_choice, check_whole
from cldrank.clicks.aggregate import REASONS, log_source
from cldrank.clicks.events import CLICK, event_column
from cldrank.clicks.log.layout import DEEPEST, OF_EXPERIMENTS, LogLayout
from cldrank.clicks.log.plain_log import Log, open_log, querying
from cldrank.errors import DataError, UsageError
from cldrank.online.person_sums import PersonVector, Sums
from cldrank.tables import Engine, Relation
from cldrank.tables.columns import text_literal
from cldrank.wording import count, listed, some

Kind = Literal["interleaving", "ab"]
_COLUMNS: Mapping[Kind, str] = {"interleaving": "team", "ab": "arm"}
_BOTH = "both"  # the team of results that both rankers agree on
PAGE_REASONS = {
    "no team": "a result has no team, or one that the experiment does not have",
    "no draft": "the teams stand in an order that team draft never gives",
    "no arm": "the page has no arm, or one that the experiment does not have",
    "two arms": "the page has results of both arms",
    "person in both arms": "its person was seen in both arms",
}
DEEPEST_READ = 62  # a number has a bit for each position
_BIT = "(1::BIGINT << CAST(position - 1 AS INTEGER))"
_EVEN = 0x1555555555555555  # every second bit
_MOST_NAMES = 5
_NO_PAGES = "cells, which do not know pages; give the log itself"
_NAMELESS = "no name"  # the experiment of rows that name none
_AGREED = "bit_count(both_bits)"  # results from the top that belong to both
_DRAFTED = f"""(
    shown <> (1::BIGINT << results) - 1
    OR (
        both_bits = (1::BIGINT << {_AGREED}) - 1
        AND {_EVEN} & ((1::BIGINT << CAST(2 * ((results - {_AGREED}) // 2) AS INTEGER)) - 1)
            & ~xor(new_bits >> {_AGREED}, new_bits >> ({_AGREED} + 1))
            & ~(((not_new | not_old) >> {_AGREED}) | ((not_new | not_old) >> ({_AGREED} + 1))) = 0
        AND (not_new & new_bits) | (not_old & old_bits) = 0
    )
)"""  # of two picks, each side has one, unless a ranker does not list what the other picked; with gaps, nobody knows
_CLOCK, _ORDERED = "INTERVAL 1 HOUR", 0.1  # a log in order of time may be out of order by an hour, on 10% of pages


@dataclass(frozen=True)
class Rules:
    """How a log becomes credit.

    names     of the new side and of the old in the column `team` or `arm`
    measure   what decides; None: the first that the log has
    weights   interleaving: what a click is worth by the rank of its result, from rank 1; empty: 1 / log2(1 + rank)
    events    what clicks and other events are worth; empty: clicks alone count
    """

    names: tuple[str, str] = ("new", "old")
    measure: str | None = None
    weights: tuple[float, ...] = ()
    events: Mapping[str, float] = field(default_factory=dict)

    @property
    def top(self) -> int:
        """A/B: how many results from the top count for clicks in the top."""
        name, _, top = (self.measure or "").partition("@")
        if name not in ("clicks", "value") or not top:
            return 3
        if not top.isdecimal():
            raise UsageError(f"`measure` must be {name}@3 or such, not {self.measure!r}.")
        return check_whole("measure", int(top), least=1, most=DEEPEST_READ)


@dataclass(frozen=True, eq=False)
class ExperimentSums:
    """What the log of an experiment holds.

    arms       the names of the sides in an A/B test; one without a name for interleaved pages
    measures   the one that decides first
    total      (arms, …) of all measures
    days       (arms, …) of the first measure at the end of each day
    segments   (arms, …) of each
    aside      pages set aside, by reason
    rows       read, set aside and repeated
    rejected   rows set aside, by reason
    notes      what else a reader must know of the log
    """

    kind: Kind
    arms: tuple[str, ...]
    measures: tuple[str, ...]
    total: Sums
    days: Mapping[date, Sums]
    segments: Mapping[str, Sums]
    aside: Mapping[str, int]
    rows: Mapping[str, int]
    rejected: Mapping[str, int]
    notes: tuple[str, ...]
    experiment: str | None


def experiment_sums(
    source: Any,
    engine: Engine,
    layout: LogLayout,
    rules: Rules,
    *,
    kind: Kind | None = None,
    experiment: str | None = None,
    rankings: tuple[Any, Any] | None = None,
    before: Any = None,
) -> ExperimentSums:
    """Read the log of an experiment; refused where it cannot be one."""
    log = open_log(log_source(source, _NO_PAGES)[0], engine, layout, experiment=True)
    kind = _kind_of(log, kind)
    if before is not None and kind == "interleaving":
        raise UsageError("`before` is for A/B tests; credit on interleaved pages depends on no earlier page.")
    with querying(engine, log.table.where):
        overview = _Overview.of(log, kind, experiment)
        overview.check(rules, experiment, log)
        reading = _Reading(log, kind, rules, experiment, overview, rankings)
        measures = reading.chosen()
        persons, account = reading.persons()
        vector = PersonVector(tuple(reading.measures))
        repeated, sides = account.pop("repeats"), rules.names if kind == "ab" else ("",)
        notes = [*overview.notes(rules, experiment, log), *_notes(reading, account.pop("without user"), persons)]
        if kind == "ab":
            persons, account["person in both arms"] = _of_one_arm(persons)
        if before is not None:
            persons, more = _with_before(persons, before, reading, layout)
            notes, vector = [*notes, *more], replace(vector, before=True)
        total = vector.sums(persons, len(sides))
        days = vector.only(measures[0]).days(persons, len(sides)) if log.has("timestamp") else {}
        segments = vector.segments(persons, len(sides)) if log.has("segment") else {}
    aside = {reason: n for reason, n in account.items() if n}
    if not np.sum(total.of("pages")):
        why = listed([f"{n:,} pages: {PAGE_REASONS[reason]}" for reason, n in aside.items()]) or "there is none"
        raise DataError(f"{log.table.where}: no page of the experiment can be used; {why}.")
    if rules.events:
        worth = listed(f"{name} {weight:g}" for name, weight in rules.events.items())
        notes.append(f"Clicks count by what they are worth, with the events that followed: {worth}.")
    if len(overview.experiments) == 1:
        (experiment,) = overview.experiments
    rows = {"read": overview.rows, "set aside": sum(overview.rejected.values()), "repeated": repeated}
    return ExperimentSums(
        kind, sides, measures, total, days, segments, aside, rows, overview.rejected, tuple(notes), experiment
    )


def experiments_in(source: Any, engine: Engine, layout: LogLayout) -> list[str]:
    """The names in the column `experiment` of a log."""
    log = open_log(log_source(source, _NO_PAGES)[0], engine, layout, experiment=True)
    if not log.has("experiment"):
        raise UsageError(
            f"{log.table.where}: the log does not say which rankers it tested; keep the `experiment` that the service "
            'answers with each page, and name its column with `columns={"experiment": ...}`.'
        )
    with querying(engine, log.table.where):
        names = log.engine.rows(f"SELECT DISTINCT CAST(experiment AS VARCHAR) AS name FROM {log.table} ORDER BY name")
    return [row["name"] for row in names if row["name"] is not None]


def _kind_of(log: Log, kind: Kind | None) -> Kind:
    """The kind of the experiment, by its column."""
    there = [known for known, column in _COLUMNS.items() if log.has(column)]
    if kind in there:
        return kind
    if kind is None and len(there) == 1:
        return there[0]
    if kind is None and there:
        raise UsageError('the log has a column of teams and one of arms; say `kind="interleaving"` or `kind="ab"`.')
    ways = [f'{known}: `columns={{"{_COLUMNS[known]}": ...}}`' for known in ([kind] if kind else _COLUMNS)]
    raise UsageError(
        f"{log.table.where}: no column says which ranker made what; name the team of each result, or the arm of each "
        f"page ({listed(ways, 'or')})."
    )


# -- a first look ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Overview:
    """What one pass over the log shows: the names in it, its depth, and rows set aside.

    labels        rows of each, in the experiment that was chosen
    experiments   rows of each
    unlisted      rows without one of their ranks
    """

    labels: Mapping[str | None, int]
    experiments: Mapping[str | None, int]
    depth: int
    rows: int
    rejected: Mapping[str, int]
    unlisted: int

    @classmethod
    def of(cls, log: Log, kind: Kind, chosen: str | None) -> _Overview:
        experiment = "CAST(experiment AS VARCHAR)" if log.has("experiment") else "CAST(NULL AS VARCHAR)"
        ranks = [f"{rank} IS NULL" for rank in ("new_rank", "old_rank") if log.has(rank)]
        parts = log.engine.rows(
            f"SELECT reason, {experiment} AS experiment, CAST({_COLUMNS[kind]} AS VARCHAR) AS label, count(*) AS n, "
            f"max(position) AS deepest, count(*) FILTER (WHERE {' OR '.join(ranks) or 'FALSE'}) AS unlisted "
            f"FROM {log.table} GROUP BY ALL ORDER BY ALL"
        )
        kept = [part for part in parts if part["reason"] is None]
        own = [part for part in kept if chosen in (None, part["experiment"])]
        rejected = {why: sum(part["n"] for part in parts if part["reason"] == why) for why in REASONS}
        return cls(
            _rows_by("label", own),
            _rows_by("experiment", kept),
            max((part["deepest"] for part in own), default=0),
            sum(part["n"] for part in parts),
            {why: n for why, n in rejected.items() if n},
            sum(part["unlisted"] for part in own),
        )

    def check(self, rules: Rules, experiment: str | None, log: Log) -> None:
        """Refuse a log that mixes several experiments, unless one is chosen, or that names other sides."""
        where = log.table.where
        if not self.experiments:
            why = [log.faults([reason]).get(reason, REASONS[reason]) for reason in self.rejected]
            raise DataError(f"{where}: no row of the log can be used; {some(why or ['there is none'])}.")
        if experiment is not None and experiment not in self.experiments:
            names = some([name or _NAMELESS for name in self.experiments], _MOST_NAMES)
            raise UsageError(f"{where}: no row is of `experiment={experiment}`; there are {names}.")
        if experiment is None and len(self.experiments) > 1:
            parts = some(_periods(log), _MOST_NAMES)
            raise DataError(
                f"{where}: the experiment was changed on the way, or there are several: {parts}. Pages of different "
                "rankers do not add up; choose one with `experiment`."
            )
        if not {*rules.names} <= {*self.labels} and not {_BOTH} <= {*self.labels} <= {*rules.names, _BOTH}:
            there = some([str(name) for name in self.labels if name not in (None, _BOTH)] or ["none"], _MOST_NAMES)
            raise DataError(
                f"{where}: the sides are called {there}, not {listed(rules.names)}; say which is new and which old "
                "with `names`. If they were renamed on the way, give them one name each first."
            )

    def notes(self, rules: Rules, experiment: str | None, log: Log) -> list[str]:
        """Rows that cannot be read, of other experiments, of no side, and too deep."""
        notes = [f"{words[0].upper()}{words[1:]}." for words in log.faults([*self.rejected]).values()]
        others = {name or _NAMELESS: n for name, n in self.experiments.items() if experiment not in (None, name)}
        if others:
            names = some(list(others), _MOST_NAMES)
            notes.append(f"{count(sum(others.values()), 'row')} of other experiments, which were left out: {names}.")
        strange = {name or "no side": n for name, n in self.labels.items() if name not in (*rules.names, _BOTH)}
        if strange:
            names = some([f"{count(n, 'row')} of {name}" for name, n in strange.items()], _MOST_NAMES)
            notes.append(f"Sides that the experiment does not have: {names}.")
        if self.depth > DEEPEST_READ:
            notes.append(f"Pages are read down to position {DEEPEST_READ}; the log goes down to {self.depth:,}.")
        return notes


def _rows_by(name: str, parts: Sequence[Mapping[str, Any]]) -> dict[str | None, int]:
    """How many rows have each value of a column."""
    counts: dict[str | None, int] = {}
    for part in parts:
        counts[part[name]] = counts.get(part[name], 0) + part["n"]
    return counts


def _periods(log: Log) -> list[str]:
    """The experiments in a log, with their rows and days."""
    ends = ", CAST(min(timestamp) AS DATE) AS first, CAST(max(timestamp) AS DATE) AS last"
    days = ends if log.has("timestamp") else ""
    parts = log.engine.rows(f"SELECT experiment, count(*) AS n{days} FROM {log.table} GROUP BY 1 ORDER BY 1")
    times = [f" from {part['first']} to {part['last']}" if part.get("first") else "" for part in parts]
    names = [_NAMELESS if part["experiment"] is None else part["experiment"] for part in parts]
    return [f"{name}, {part['n']:,} rows{time}" for name, part, time in zip(names, parts, times, strict=True)]


# -- pages and persons -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Reading:
    """The queries from rows to persons.

    rankings   the scores of both rankers as tables, in place of logged ranks
    """

    log: Log
    kind: Kind
    rules: Rules
    experiment: str | None
    overview: _Overview
    rankings: tuple[Any, Any] | None = None

    @property
    def measures(self) -> dict[str, str]:
        """SQL for the measures of a page, by name, from its bits."""
        if self.kind == "ab":
            top = (1 << self.rules.top) - 1
            return {
                **({"value": self._value(), f"value@{self.rules.top}": self._value(f"& {top}")} if self.events else {}),
                "clicks": "bit_count(clicked)",
                f"clicks@{self.rules.top}": f"bit_count(clicked & {top})",
                "abandonment": "CASE WHEN clicked = 0 THEN 1 ELSE 0 END",
            }
        measures = {"team credit": f"{self._value('& new_bits')} - {self._value('& old_bits')}"}
        if self.has_ranks:
            measures["counterfactual credit"] = "new_worth - old_worth"
            measures["worth of clicks"] = "old_worth"
        first = f"((new_bits >> {_AGREED}) & 1) - ((old_bits >> {_AGREED}) & 1)"
        return {**measures, "clicks": self._value(), "first": first}

    @property
    def events(self) -> dict[str, float]:
        """The weight of each event that has one, by the bits or the column that say where it happened."""
        return {"clicked" if name == CLICK else event_column(name): w for name, w in self.rules.events.items() if w}

    def _value(self, where: str = "") -> str:
        """SQL for the clicks of a page, or for what they and other events are worth, on some of its results."""
        weighted = [f"{weight!r} * bit_count({bits} {where})" for bits, weight in self.events.items()]
        return f"({' + '.join(weighted)})" if weighted else f"bit_count(clicked {where})"

    @property
    def has_ranks(self) -> bool:
        """Whether the ranks of results under both rankers are known."""
        return self.rankings is not None or (self.log.has("new_rank") and self.log.has("old_rank"))

    def chosen(self) -> tuple[str, ...]:
        """The measures to report, the one that decides first."""
        known = [name for name in self.measures if self.kind == "ab" or name.endswith("credit")]
        measure = known[0] if self.rules.measure is None else self.rules.measure
        if measure == "counterfactual credit" and measure not in known:
            raise UsageError(
                "counterfactual credit needs the rank of each result under both rankers: log `new_rank` and "
                "`old_rank`, or give the scores of both as `rankings`."
            )
        check_choice("measure", measure, known)
        return (measure, *(name for name in known if name != measure))

    def persons(self) -> tuple[Relation, dict[str, int]]:
        """What each person did on each day, in each arm and segment; and the account of rows and pages.

        Worths of ranks are no bits, so pages that repeat rows are read again without these.
        """
        persons = self._grouped(self.rows())
        account = _account(persons, self.kind)
        if account["repeats"] and self.kind == "interleaving" and self.has_ranks:
            persons = self._grouped(self._without_repeats())
        return persons.engine.sql(f"SELECT * EXCLUDE (why) FROM {persons} WHERE why = 0"), account

    def _grouped(self, rows: str) -> Relation:
        """What each person did, from the rows: pages and measures, by why pages are set aside."""
        keys = ["person", "why", *(["arm"] if self.kind == "ab" else []), *self._apart]
        sums = [f"sum(CAST(m{at} AS DOUBLE)) AS m{at}" for at in self.numbers]  # of whole numbers, sums are slow
        return self.log.engine.hold(
            f"SELECT {', '.join(keys)}, {'' if self.kind == 'ab' else '0 AS arm, '}CAST(count(*) AS DOUBLE) AS pages, "
            "CAST(sum(results - bit_count(shown)) AS BIGINT) AS repeats, "
            f'count(*) FILTER (WHERE nobody) AS "without user", {", ".join(sums)} '
            f"FROM ({self.pages(rows)}) GROUP BY {', '.join(keys)}"
        )

    @property
    def _apart(self) -> dict[str, str]:
        """What else tells pages of a person apart, as far as the log has it."""
        known = {"segment": ("segment", "min(segment)"), "day": ("timestamp", "CAST(min(timestamp) AS DATE)")}
        return {name: sql for name, (column, sql) in known.items() if self.log.has(column)}

    @property
    def numbers(self) -> range:
        """Of the measures: m0, m1, …"""
        return range(len(self.measures))

    def pages(self, rows: str = "") -> str:
        """A row per page of the log: its person (a hash), arm, segment, day, why it is set aside, its measures."""
        user = "min(user_id)" if self.log.has("user_id") else "NULL"
        own = {"session_id": "session_id", "user": f"CAST({user} AS VARCHAR)", **self._apart}
        own |= {"results": "CAST(count(*) AS INTEGER)", **(self._arm() if self.kind == "ab" else self._worths())}
        conditions = {"shown": "TRUE", "clicked": "clicks > 0", **({} if self.kind == "ab" else self._draft())}
        conditions |= {name: f"{name} > 0" for name in self.events if name != "clicked"}
        gathered, bits = _bits(conditions, min(self.overview.depth, DEEPEST_READ))
        by_page = f"SELECT {_listing({**own, **gathered})} FROM {rows or self.rows()} GROUP BY session_id, query_id"
        by_page = f"SELECT *, {_listing(bits)} FROM ({by_page})"
        arm, why = "side - 1", "WHEN side >= 4 THEN 1 WHEN side = 3 THEN 2"
        if self.kind == "interleaving":
            if "both_bits" not in bits:
                by_page = f"SELECT *, shown & ~(new_bits | old_bits) AS both_bits FROM ({by_page})"
            arm = "0"
            why = f"WHEN (new_bits | old_bits | both_bits) <> shown THEN 1 WHEN NOT {_DRAFTED} THEN 2"
        person = "CASE WHEN user IS NULL THEN hash(CAST(session_id AS VARCHAR), 1) ELSE hash(user) END"
        measures = _listing({f"m{at}": sql for at, sql in enumerate(self.measures.values())})
        return (
            f"SELECT {', '.join([f'{person} AS person', 'user IS NULL AS nobody', f'{arm} AS arm', *self._apart])}, "
            f"results, shown, CASE {why} ELSE 0 END AS why, {measures} FROM ({by_page})"
        )

    def _arm(self) -> dict[str, str]:
        """The arms on a page: 1 for new, 2 for old, 4 for any other, added up."""
        label, (new, old) = "arm" if self.log.has("arm") else "NULL", map(text_literal, self.rules.names)
        return {"side": f"bit_or(CASE {label} WHEN {new} THEN 1 WHEN {old} THEN 2 ELSE 4 END)"}

    def _draft(self) -> dict[str, str]:
        """When a row is of which side, or not listed by one."""
        sides = {"new": self.rules.names[0], "old": self.rules.names[1], "both": _BOTH}
        if {*self.overview.labels} <= {*sides.values()}:
            del sides["both"]  # all that is left
        teams = {f"{side}_bits": f"team = {text_literal(name)}" for side, name in sides.items()}
        all_listed = not self.has_ranks or (self.rankings is None and not self.overview.unlisted)
        return teams | {f"not_{side}": "FALSE" if all_listed else f"{side}_rank IS NULL" for side in ("new", "old")}

    def _worths(self) -> dict[str, str]:
        """What the clicks on a page are worth by its ranks."""
        sides = ("new", "old") if self.has_ranks else ()
        return {f"{side}_worth": f"sum({self._worth(f'{side}_rank')})" for side in sides}

    def rows(self) -> str:
        """The rows of the experiment that count, with ranks."""
        source = f"{self.log.table}" if self.rankings is None else self._with_rankings()
        conditions = ["reason IS NULL"] if self.overview.rejected else []  # what is not asked is not computed
        conditions += [f"position <= {DEEPEST_READ}"] if self.overview.depth > DEEPEST_READ else []
        if self.experiment is not None:
            conditions.append(f"CAST(experiment AS VARCHAR) = {text_literal(self.experiment)}")
        return f"(SELECT * FROM {source} WHERE {' AND '.join(conditions) or 'TRUE'})"

    def _without_repeats(self) -> str:
        """The rows with a single one, clicked if any is, at each position of a page."""
        rows, bits = self.rows(), f"bit_count(bit_or({_BIT}))"
        pages = self.log.engine.hold(
            f"SELECT session_id, query_id FROM {rows} GROUP BY session_id, query_id HAVING {bits} < count(*)"
        )
        place = "session_id, query_id, position"
        acted = "".join(f"{name} DESC, " for name in self.events if name != "clicked")
        number = f"row_number() OVER (PARTITION BY {place} ORDER BY clicks DESC, {acted}team, new_rank, old_rank)"
        repeated = f"(SELECT * FROM {rows} SEMI JOIN {pages} USING (session_id, query_id) QUALIFY {number} = 1)"
        return f"(FROM {rows} ANTI JOIN {pages} USING (session_id, query_id) UNION ALL BY NAME FROM {repeated})"

    def _worth(self, rank: str) -> str:
        """What a row adds: the worth of its rank if it is clicked; nothing beyond the page."""
        worth = f"1 / log2(1 + {rank})"
        if self.rules.weights:
            worth = f"coalesce(list_extract([{', '.join(map(repr, self.rules.weights))}], CAST({rank} AS INTEGER)), 0)"
        of_events = [f"{weight!r} * {'1' if column == 'clicked' else column}" for column, weight in self.events.items()]
        worth = f"({' + '.join(of_events)}) * {worth}" if of_events else worth
        return f"CASE WHEN clicks > 0 AND {rank} <= {self.overview.depth} THEN {worth} ELSE 0 END"

    def _with_rankings(self) -> str:
        """The rows with the ranks of both rankers, from their scores of all candidates."""
        names = [name for name in ("new_rank", "old_rank") if self.log.has(name)]
        without = f" EXCLUDE ({', '.join(names)})" if names else ""
        query = f"(SELECT *{without} FROM {self.log.table}) AS shown"
        for name, scores in zip(("new_rank", "old_rank"), self.rankings or (), strict=True):
            table = self.log.engine.open(scores, lambda _: ("query_id", "doc_id", "score"), what="scores")
            ranks = (
                "SELECT CAST(query_id AS VARCHAR) AS q, CAST(doc_id AS VARCHAR) AS d, row_number() OVER (PARTITION BY "
                f"query_id ORDER BY CAST(score AS DOUBLE) DESC, doc_id) AS {name} FROM {table}"
            )
            query += (
                f" LEFT JOIN ({ranks}) AS {name}s ON {name}s.q = CAST(shown.query_id AS VARCHAR) "
                f"AND {name}s.d = CAST(shown.doc_id AS VARCHAR)"
            )
        return query


def _bits(conditions: Mapping[str, str], depth: int) -> tuple[dict[str, str], dict[str, str]]:
    """The positions of the rows for which conditions hold, as bits: aggregates that gather them, and the bits of each.

    A number has room for several conditions on short pages, since each aggregate takes time.
    """
    room, known = DEEPEST_READ // depth, [name for name, condition in conditions.items() if condition != "FALSE"]
    gathered, bits = {}, {name: "0" for name in conditions if name not in known}
    for first in range(0, len(known), room):
        places = {name: place * depth for place, name in enumerate(known[first : first + room])}
        row = " + ".join(f"CASE WHEN {conditions[name]} THEN {1 << place} ELSE 0 END" for name, place in places.items())
        gathered[f"bits_{first}"] = f"bit_or(CAST({row} AS BIGINT) << CAST(position - 1 AS INTEGER))"
        bits |= {name: f"(bits_{first} >> {place}) & {(1 << depth) - 1}" for name, place in places.items()}
    return gathered, bits


def _listing(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{sql} AS {name}" for name, sql in columns.items())


def _of_kind(kind: Kind) -> tuple[str, str]:
    return ("no arm", "two arms") if kind == "ab" else ("no team", "no draft")


# -- persons ---------------------------------------------------------------------------------------------------------


def _account(persons: Relation, kind: Kind) -> dict[str, int]:
    """Pages set aside by reason, pages without a user, and rows that repeat others."""
    sums = {why: f"sum(pages) FILTER (WHERE why = {at})" for at, why in enumerate(_of_kind(kind), start=1)}
    sums |= {name: f'sum("{name}")' for name in ("without user", "repeats")}
    columns = [f'CAST(coalesce({sql}, 0) AS BIGINT) AS "{name}"' for name, sql in sums.items()]
    return dict(persons.engine.row(f"SELECT {', '.join(columns)} FROM {persons}"))


def _of_one_arm(persons: Relation) -> tuple[Relation, int]:
    """The persons who were seen in one arm alone, and the pages of the others."""
    engine = persons.engine
    mixed = engine.hold(f"SELECT person FROM {persons} GROUP BY person HAVING min(arm) <> max(arm)")
    counted = f"SELECT coalesce(sum(pages), 0) AS n FROM {persons} SEMI JOIN {mixed} USING (person)"
    pages = int(engine.row(counted)["n"])
    return (engine.sql(f"FROM {persons} ANTI JOIN {mixed} USING (person)") if pages else persons), pages


def _with_before(persons: Relation, before: Any, reading: _Reading, layout: LogLayout) -> tuple[Relation, list[str]]:
    """The persons with what they did in the period before: of each measure, how far it was from usual, summed."""
    engine = persons.engine
    columns = {role: name for role, name in layout.columns.items() if role not in (*OF_EXPERIMENTS, "segment")}
    log = open_log(log_source(before, _NO_PAGES)[0], engine, replace(layout, columns=columns))
    if not (log.has("user_id") and reading.log.has("user_id")):
        raise UsageError('`before` needs persons who come back: both logs need users, `columns={"user_id": ...}`.')
    _check_times(log, reading)
    unknown = replace(reading.overview, depth=DEEPEST, rejected=dict.fromkeys(REASONS, 1))
    pages = replace(reading, log=log, experiment=None, overview=unknown).pages()
    sums = ", ".join(f"sum(m{at}) AS m{at}" for at in reading.numbers)
    known = engine.hold(f"SELECT person, count(*) AS pages, {sums} FROM ({pages}) WHERE NOT nobody GROUP BY person")
    usual = ", ".join(f"coalesce(sum(m{at}) / sum(pages), 0) AS m{at}" for at in reading.numbers)
    rates = engine.row(f"SELECT {usual} FROM {known}")
    excess = [f"coalesce(b.m{at} - {rates[f'm{at}']!r} * b.pages, 0) AS b{at}" for at in reading.numbers]
    both = f"FROM {persons} AS p LEFT JOIN {known} AS b USING (person)"
    return engine.hold(f"SELECT p.*, {', '.join(excess)} {both}"), _notes_on_before(log, both)


def _check_times(before: Log, reading: _Reading) -> None:
    """Refuse a period before that goes on in the experiment: CUPED would take off what the new ranker brings."""
    if not (before.has("timestamp") and reading.log.has("timestamp")):
        return
    end = before.engine.row(f"SELECT max(timestamp) AS time FROM {before.table}")["time"]
    start = before.engine.row(f"SELECT min(timestamp) AS time FROM {reading.rows()}")["time"]
    if end is not None and start is not None and end >= start:
        raise DataError(
            f"{before.table.where}: the period before goes on until {end:%Y-%m-%d %H:%M}, and the experiment begins on "
            f"{start:%Y-%m-%d %H:%M}; give `before` only what happened earlier."
        )


def _notes_on_before(log: Log, both: str) -> list[str]:
    """How many persons were there before, and what was set aside; refused if there is none."""
    persons = log.engine.row(f"SELECT count(DISTINCT person) AS n, count(DISTINCT b.person) AS known {both}")
    if not persons["known"]:
        raise DataError(f"{log.table.where}: nobody in the experiment is in `before`; are users called alike in both?")
    rows = log.engine.row(f"SELECT count(*) AS n, count(reason) AS aside FROM {log.table}")
    aside = f"; {rows['aside']:,} of its {rows['n']:,} rows were set aside" if rows["aside"] else ""
    return [f"{persons['known']:,} of {count(persons['n'], 'person')} were there in the period before{aside}."]


# -- what else to know -------------------------------------------------------------------------------------------------


def _notes(reading: _Reading, without_user: int, persons: Relation) -> list[str]:
    """Remarks on users and times."""
    log, notes = reading.log, list[str]()
    if not log.has("user_id"):
        notes.append("The log has no users, so each session counts as a person; errors are too small if people return.")
    elif without_user:
        notes.append(f"{count(without_user, 'page')} without a user: each counted as a person of its own.")
    if not log.has("timestamp"):
        return notes
    timeless = log.engine.row(f"SELECT coalesce(sum(pages), 0) AS n FROM {persons} WHERE day IS NULL")["n"]
    if timeless:
        notes.append(f"{count(int(timeless), 'page')} without a time: counted, before the first day.")
    rows = replace(reading, rankings=None).rows()  # in the order of the log
    steps = f"SELECT timestamp AS time, lag(timestamp) OVER () AS last FROM {rows} WHERE position = 1"
    back = log.engine.row(
        f"SELECT count(*) AS n, count(*) FILTER (WHERE time < last - {_CLOCK}) AS back FROM ({steps})"
    )
    if 0 < back["back"] < _ORDERED * back["n"]:
        notes.append(
            f"From page to page, time goes back by more than an hour {count(back['back'], 'time')}: if a clock was set "
            "back, and no parts of a log joined, pages stand on a wrong day. Only the picture of days depends on them."
        )
    return notes
