"""From the log of an experiment to sums over persons: rows, pages, the days of each person, then second moments.

Every step is a query. What a person did is a vector, (1, pages, measures …), that grows from day to day; the sums of
its products over persons, at the end of each day, are all that estimates and their errors need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.aggregate import REASONS, log_source
from cldrank.clicks.log.layout import OF_EXPERIMENTS, LogLayout
from cldrank.clicks.log.plain_log import Log, open_log, querying
from cldrank.errors import DataError, UsageError
from cldrank.tables import Engine, Relation
from cldrank.tables.columns import text_literal
from cldrank.wording import count, listed, some

Floats = NDArray[np.float64]
Kind = Literal["interleaving", "ab"]
COLUMNS: Mapping[Kind, str] = {"interleaving": "team", "ab": "arm"}
BEFORE = "before "  # in the names of what persons did in the period before
BOTH = "both"  # the team of results that both rankers agree on
PAGE_REASONS = {
    "no team": "a result has no team, or one that the experiment does not have",
    "no draft": "the teams stand in an order that team draft never gives",
    "no arm": "the page has no arm, or one that the experiment does not have",
    "two arms": "the page has results of both arms",
    "person in both arms": "its person was seen in both arms",
}
_BITS = 62  # of a number: a bit for each position, so that repeated ones show
_EVEN = 0x1555555555555555  # every second bit
_MOST_NAMES = 5
_MOST = f"least(results, {_BITS})"
_AGREED = "bit_count(shown & ~(ours | theirs))"  # results from the top that belong to both
_DRAFTED = f"""(
    results > {_BITS} OR shown <> (1::BIGINT << CAST({_MOST} AS INTEGER)) - 1
    OR (
        (shown & ~(ours | theirs)) = (1::BIGINT << {_AGREED}) - 1
        AND {_EVEN} & ((1::BIGINT << CAST(2 * (({_MOST} - {_AGREED}) // 2) AS INTEGER)) - 1)
            & ~xor(ours >> {_AGREED}, ours >> ({_AGREED} + 1)) & ~((alone >> {_AGREED}) | (alone >> ({_AGREED} + 1))) = 0
    )
)"""  # of two picks, each side has one, unless a ranker does not list what the other picked; with gaps, it is not known
_CLOCK, _ORDERED = "INTERVAL 1 HOUR", 0.01  # a log in order of time may be out of order by so much, on so many pages


@dataclass(frozen=True)
class Rules:
    """How a log becomes credit.

    names     of the new side and of the old in the column `team` or `arm`
    top       A/B: how many results from the top count for clicks in the top
    weights   interleaving: what a click is worth by the rank of its result, from rank 1; empty: 1 / log2(1 + rank)
    """

    names: tuple[str, str] = ("new", "old")
    top: int = 3
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of products over persons: entry a, b is Σ v_a v_b.

    columns   what the vector of a person holds, in order: "persons", which is 1, "pages", then the measures and, behind
              "before ", their values in the period before
    matrix    (…, columns, columns)
    """

    columns: tuple[str, ...]
    matrix: Floats

    def of(self, first: str, second: str = "persons") -> Any:
        """Σ v_a v_b; by default Σ v_a."""
        return self.matrix[..., self.columns.index(first), self.columns.index(second)]


@dataclass(frozen=True, eq=False)
class ExperimentSums:
    """What the log of an experiment holds.

    arms       the names of the sides: ("new", "old") in an A/B test, one without a name for interleaved pages
    days       the ends of which `by_day` shows, None for pages without a time
    by_day     matrix (days, arms, …)
    segments   (arms, …) of each
    aside      pages set aside, by reason
    rows       read, set aside and repeated
    notes      what else a reader must know of the log
    depth      the deepest position
    """

    kind: Kind
    arms: tuple[str, ...]
    days: tuple[date | None, ...]
    by_day: Sums
    segments: Mapping[str, Sums]
    aside: Mapping[str, int]
    rows: Mapping[str, int]
    rejected: Mapping[str, int]
    notes: tuple[str, ...]
    depth: int
    experiment: str | None

    @property
    def total(self) -> Sums:
        """(arms, …) at the end."""
        return Sums(self.by_day.columns, self.by_day.matrix[-1])


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
    log = open_log(log_source(source)[0], engine, layout, experiment=True)
    kind = _kind_of(log, kind)
    if before is not None and kind == "interleaving":
        raise UsageError("`before` is for A/B tests; a person's credit on interleaved pages depends on no earlier one.")
    with querying(engine, log.table.where):
        overview = _Overview.of(log, kind)
        experiment = overview.check(rules, experiment, log.table.where)
        reading = _Reading(log, kind, rules, experiment, overview.depth, rankings)
        persons, repeated = reading.persons()
        account, columns = _account(persons), reading.columns
        sides = rules.names if kind == "ab" else ("",)
        if kind == "ab":
            persons, account["person in both arms"] = _of_one_arm(persons)
        if before is not None:
            persons, columns = _with_before(persons, before, reading, layout)
        days, matrix = _moments(persons, columns, sides)
        segments = _segment_moments(persons, columns, sides) if log.has("segment") else {}
        notes = _notes(log, persons)
    if not days:
        raise DataError(f"{log.table.where}: no page of the experiment can be used; {_words(account)}.")
    rows = {"read": overview.rows, "set aside": sum(overview.rejected.values()), "repeated": repeated}
    aside = {reason: n for reason, n in account.items() if n}
    by_day = Sums(columns, matrix)
    return ExperimentSums(
        kind, sides, days, by_day, segments, aside, rows, overview.rejected, tuple(notes), overview.depth, experiment
    )


def _words(account: Mapping[str, int]) -> str:
    return listed([f"{n:,} pages: {PAGE_REASONS[reason]}" for reason, n in account.items() if n]) or "there is none"


def _kind_of(log: Log, kind: Kind | None) -> Kind:
    """The kind of the experiment, by its column."""
    there = [known for known, column in COLUMNS.items() if log.has(column)]
    if kind is None and len(there) == 1:
        return there[0]
    if kind in there:
        return kind
    if kind is None and there:
        raise UsageError('the log has a column of teams and one of arms; say `kind="interleaving"` or `kind="ab"`.')
    needed = listed([f'"{COLUMNS[known]}"' for known in ([kind] if kind else COLUMNS)], "or")
    raise UsageError(
        f"{log.table.where}: the log does not say which ranker made what: name its column with "
        f"`columns={{{needed}: ...}}`, {'team' if kind != 'ab' else 'arm'} of each result or arm of each page."
        if kind is None
        else f"{log.table.where}: a log of this kind needs a column of {COLUMNS[kind]}s; name it with "
        f'`columns={{"{COLUMNS[kind]}": ...}}`.'
    )


# -- a first look ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Overview:
    """What one pass over the log shows: the names in it, when each was there, its depth, and rows set aside."""

    labels: Mapping[str | None, int]
    experiments: Mapping[str | None, tuple[int, datetime | None, datetime | None]]
    depth: int
    rows: int
    rejected: Mapping[str, int]

    @classmethod
    def of(cls, log: Log, kind: Kind) -> _Overview:
        experiment = "experiment" if log.has("experiment") else "CAST(NULL AS VARCHAR)"
        times = ("min", "max") if log.has("timestamp") else ()
        columns = ["count(*) AS n", "max(position) AS deepest", *(f"{end}(timestamp) AS {end}_time" for end in times)]
        parts = log.engine.rows(
            f"SELECT reason, CAST({experiment} AS VARCHAR) AS experiment, CAST({COLUMNS[kind]} AS VARCHAR) AS label, "
            f"{', '.join(columns)} FROM {log.table} GROUP BY ALL ORDER BY ALL"
        )
        kept = [part for part in parts if part["reason"] is None]
        labels: dict[str | None, int] = {}
        experiments: dict[str | None, tuple[int, datetime | None, datetime | None]] = {}
        for part in kept:
            labels[part["label"]] = labels.get(part["label"], 0) + part["n"]
            n, first, last = experiments.get(part["experiment"], (0, None, None))
            firsts, lasts = ([time for time in pair if time] for pair in (
                (first, part.get("min_time")), (last, part.get("max_time")),
            ))  # fmt: skip
            experiments[part["experiment"]] = n + part["n"], min(firsts, default=None), max(lasts, default=None)
        rejected = {why: sum(part["n"] for part in parts if part["reason"] == why) for why in REASONS}
        return cls(
            labels,
            experiments,
            max((part["deepest"] for part in kept), default=0),
            sum(part["n"] for part in parts),
            {why: n for why, n in rejected.items() if n},
        )

    def check(self, rules: Rules, experiment: str | None, where: str) -> str | None:
        """The experiment to read; refused where the log mixes several, or names other sides."""
        if not self.depth:
            raise DataError(f"{where}: no row of the log can be used; {some(map(REASONS.__getitem__, self.rejected))}.")
        if experiment is not None and experiment not in self.experiments:
            names = some([str(name) for name in self.experiments], _MOST_NAMES)
            raise UsageError(f"{where}: no row is of `experiment={experiment}`; there are {names}.")
        if experiment is None and len(self.experiments) > 1:
            parts = [f"{name or '(none)'}, {_period(*part)}" for name, part in self.experiments.items()]
            raise DataError(
                f"{where}: the experiment was changed on the way, or several are in the log: {some(parts, _MOST_NAMES)}. "
                "Pages of different rankers do not add up; choose one with `experiment`."
            )
        wanted = set(rules.names)
        if not wanted <= set(self.labels):
            there = some([str(name) for name in self.labels if name not in (None, BOTH)] or ["none"], _MOST_NAMES)
            raise DataError(
                f"{where}: the sides are called {there}, not {listed(rules.names)}; say which is new and which old with "
                "`names`. If they were renamed on the way, give them one name each first."
            )
        return experiment


def _period(rows: int, first: datetime | None, last: datetime | None) -> str:
    times = "" if first is None or last is None else f" from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"{rows:,} rows{times}"


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
    depth: int
    rankings: tuple[Any, Any] | None = None

    @property
    def measures(self) -> dict[str, str]:
        """SQL for the measures of a page from its rows, by name."""
        if self.kind == "ab":
            return {
                "clicks": "sum(clicks)",
                f"clicks@{self.rules.top}": f"sum(clicks) FILTER (WHERE position <= {self.rules.top})",
                "abandonment": "CASE WHEN max(clicks) = 0 THEN 1 ELSE 0 END",
            }
        new, old = map(text_literal, self.rules.names)
        of_team = {side: f"sum(clicks) FILTER (WHERE label = {name})" for side, name in (("new", new), ("old", old))}
        measures = {
            "team credit": f"coalesce({of_team['new']}, 0) - coalesce({of_team['old']}, 0)",
            "clicks": "sum(clicks)",
            "first": f"coalesce(arg_min(CASE label WHEN {new} THEN 1 WHEN {old} THEN -1 END, position) "
            f"FILTER (WHERE label IN ({new}, {old})), 0)",
        }
        if self.has_ranks:
            measures["counterfactual credit"] = "sum(clicks * (new_weight - old_weight))"
            measures["worth of clicks"] = "sum(clicks * old_weight)"
        return measures

    @property
    def columns(self) -> tuple[str, ...]:
        return ("persons", "pages", *self.measures)

    @property
    def has_ranks(self) -> bool:
        return self.rankings is not None or (self.log.has("new_rank") and self.log.has("old_rank"))

    def persons(self) -> tuple[Relation, int]:
        """What each person did on each day, in each arm and segment: pages, measures, pages set aside.

        And how many rows repeated others.
        """
        rows, counts = self.rows(), "SELECT sum(repeats) AS repeats, sum(results) AS results FROM"
        table = self._held(rows)
        before = self.log.engine.row(f"{counts} {table}")
        if not before["repeats"]:
            return table, 0
        table = self._held(self._without_repeats(rows))
        return table, int(before["results"] - self.log.engine.row(f"{counts} {table}")["results"])

    def _held(self, rows: str) -> Relation:
        """`persons` from the rows of the experiment."""
        sums = [f"CAST(coalesce(sum(m{at}) FILTER (WHERE why IS NULL), 0) AS DOUBLE) AS m{at}" for at in self.numbers]
        sums += [f"count(*) FILTER (WHERE why = '{why}') AS \"{why}\"" for why in PAGE_REASONS]
        return self.log.engine.hold(
            f"SELECT person, arm, segment, day, CAST(count(*) FILTER (WHERE why IS NULL) AS DOUBLE) AS pages, "
            f"CAST(sum(repeats) AS BIGINT) AS repeats, CAST(sum(results) AS BIGINT) AS results, {', '.join(sums)} FROM "
            f"({self.pages(rows)}) "
            "GROUP BY person, arm, segment, day"
        )

    @property
    def numbers(self) -> range:
        return range(len(self.measures))

    def rows(self) -> str:
        """The rows of the experiment that count: person, label, clicks (0 or 1), and weights of ranks."""
        log = self.log
        user = "CAST(user_id AS VARCHAR)" if log.has("user_id") else "NULL"
        label = COLUMNS[self.kind] if log.has(COLUMNS[self.kind]) else "CAST(NULL AS VARCHAR)"
        columns = [
            "session_id", "query_id", "position", "least(clicks, 1) AS clicks", f"{label} AS label",
            f"{user} AS person", f"{'timestamp' if log.has('timestamp') else 'CAST(NULL AS TIMESTAMP)'} AS time",
            f"{'segment' if log.has('segment') else 'CAST(NULL AS VARCHAR)'} AS segment",
        ]  # fmt: skip
        source = str(log.table)
        if self.kind == "interleaving" and self.has_ranks:
            if self.rankings is not None:
                source = self._with_rankings(source)
            columns += [f"{self._weight(rank)} AS {rank.replace('rank', 'weight')}" for rank in ("new_rank", "old_rank")]
            columns += ["new_rank IS NULL AS not_new", "old_rank IS NULL AS not_old"]
        else:
            columns += ["FALSE AS not_new", "FALSE AS not_old"]
        chosen = "" if self.experiment is None else f" AND CAST(experiment AS VARCHAR) = {text_literal(self.experiment)}"
        return f"(SELECT {', '.join(columns)} FROM {source} WHERE reason IS NULL{chosen})"

    def _weight(self, rank: str) -> str:
        """What a click is worth at a rank; nothing beyond the page."""
        worth = f"1 / log2(1 + {rank})"
        if self.rules.weights:
            worth = f"coalesce(list_extract([{', '.join(map(repr, self.rules.weights))}], CAST({rank} AS INTEGER)), 0)"
        return f"CASE WHEN clicks > 0 AND {rank} <= {self.depth} THEN {worth} ELSE 0 END"

    def _with_rankings(self, source: str) -> str:
        """The rows with the ranks of both rankers, from their scores of all candidates."""
        names = [name for name in ("new_rank", "old_rank") if self.log.has(name)]
        without = f" EXCLUDE ({', '.join(names)})" if names else ""
        query = f"(SELECT *{without} FROM {source}) AS shown"
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

    def pages(self, rows: str) -> str:
        """A row per page: its person, arm, segment and day, why it is set aside, and its measures."""
        measures = ", ".join(f"{sql} AS m{at}" for at, sql in enumerate(self.measures.values()))
        new, old = map(text_literal, self.rules.names)
        sides = f"{new}, {old}" + (f", {text_literal(BOTH)}" if self.kind == "interleaving" else "")
        bit = f"(1::BIGINT << CAST((position - 1) % {_BITS} AS INTEGER))"
        columns = [
            "coalesce('user ' || min(person), 'session ' || CAST(session_id AS VARCHAR)) AS person",
            "min(segment) AS segment", "CAST(min(time) AS DATE) AS day", "count(*) AS results",
            f"bit_or({bit}) AS shown", f"count(*) FILTER (WHERE label IN ({sides})) AS known",
        ]  # fmt: skip
        if self.kind == "ab":
            columns += ["min(label) AS arm", "max(label) AS last_arm"]
            why = "WHEN known < results THEN 'no arm' WHEN arm <> last_arm THEN 'two arms'"
        else:
            columns += [
                "'' AS arm",
                f"coalesce(bit_or({bit}) FILTER (WHERE label = {new}), 0) AS ours",
                f"coalesce(bit_or({bit}) FILTER (WHERE label = {old}), 0) AS theirs",
                f"coalesce(bit_or({bit}) FILTER (WHERE not_new OR not_old), 0) AS alone",
                f"coalesce(bool_or((not_new AND label = {new}) OR (not_old AND label = {old})), FALSE) AS unlisted",
            ]
            why = f"WHEN known < results THEN 'no team' WHEN unlisted OR NOT ({_DRAFTED}) THEN 'no draft'"
        grouped = f"SELECT {', '.join(columns)}, {measures} FROM {rows} GROUP BY session_id, query_id"
        return f"SELECT *, results - bit_count(shown) AS repeats, CASE {why} END AS why FROM ({grouped})"

    def _without_repeats(self, rows: str) -> str:
        """The rows, with those at one position of a page made one: the page was logged, or seen, more than once."""
        bit = f"bit_or(1::BIGINT << CAST((position - 1) % {_BITS} AS INTEGER))"
        pages = self.log.engine.hold(
            f"SELECT session_id, query_id FROM {rows} GROUP BY session_id, query_id HAVING bit_count({bit}) < count(*)"
        )
        columns = [*self.log.engine.sql(f"SELECT * FROM {rows}").columns]
        keys = ("session_id", "query_id", "position")
        merged = [name if name in keys else f"{'max' if name == 'clicks' else 'any_value'}({name}) AS {name}" for name in columns]
        return (
            f"(SELECT * FROM {rows} ANTI JOIN {pages} USING (session_id, query_id) UNION ALL SELECT {', '.join(merged)} "
            f"FROM {rows} SEMI JOIN {pages} USING (session_id, query_id) GROUP BY {', '.join(keys)})"
        )


# -- sums over persons -------------------------------------------------------------------------------------------------


def _account(persons: Relation) -> dict[str, int]:
    """Pages set aside, by reason."""
    reasons = ", ".join(f'CAST(coalesce(sum("{why}"), 0) AS BIGINT) AS "{why}"' for why in PAGE_REASONS)
    return dict(persons.engine.row(f"SELECT {reasons} FROM {persons}"))


def _of_one_arm(persons: Relation) -> tuple[Relation, int]:
    """The persons who were seen in one arm alone, and the pages of the others."""
    engine = persons.engine
    mixed = engine.hold(
        f"SELECT person FROM {persons} WHERE pages > 0 GROUP BY person HAVING min(arm) <> max(arm)"
    )
    left = f"FROM {persons} SEMI JOIN {mixed} USING (person)"
    pages = engine.row(f"SELECT coalesce(sum(pages), 0) AS n {left}")["n"]
    return (engine.sql(f"SELECT * FROM {persons} ANTI JOIN {mixed} USING (person)") if pages else persons), int(pages)


def _with_before(
    persons: Relation, before: Any, reading: _Reading, layout: LogLayout
) -> tuple[Relation, tuple[str, ...]]:
    """The persons with what they did in the period before: of each measure, how far it was from usual, summed."""
    engine, own = persons.engine, {name: role for name, role in layout.columns.items() if name not in OF_EXPERIMENTS}
    own.pop("segment", None)
    log = open_log(log_source(before)[0], engine, replace(layout, columns=own))
    if not (log.has("user_id") and reading.log.has("user_id")):
        raise UsageError('`before` needs persons who come back: both logs need users, `columns={"user_id": ...}`.')
    earlier = replace(reading, log=log, experiment=None)
    sums = ", ".join(f"CAST(coalesce(sum(m{at}), 0) AS DOUBLE) AS m{at}" for at in reading.numbers)
    pages = f"SELECT person, count(*) AS pages, {sums} FROM ({earlier.pages(earlier.rows())}) GROUP BY person"
    known = engine.hold(f"{pages}")
    usual = ", ".join(f"sum(m{at}) / sum(pages) AS rate{at}" for at in reading.numbers)
    rates = engine.row(f"SELECT {usual} FROM {known}")
    excess = [f"coalesce(b.m{at} - {rates[f'rate{at}'] or 0.0!r} * b.pages, 0) AS b{at}" for at in reading.numbers]
    joined = engine.hold(f"SELECT p.*, {', '.join(excess)} FROM {persons} AS p LEFT JOIN {known} AS b USING (person)")
    return joined, (*reading.columns, *(f"{BEFORE}{name}" for name in reading.measures))


def _names(columns: Sequence[str]) -> list[str]:
    """The columns of the table of persons that hold the vector, behind its first entry, 1."""
    earlier = sum(name.startswith(BEFORE) for name in columns)
    measures = len(columns) - 2 - earlier
    return ["pages", *(f"m{at}" for at in range(measures)), *(f"b{at}" for at in range(earlier))]


def _pairs(columns: Sequence[str]) -> list[tuple[int, int]]:
    """The products that estimates need: with persons and pages, of each with itself, and with its own past."""
    places = range(len(columns))
    return [
        (a, b)
        for a in places
        for b in places[a:]
        if a < 2 or columns[a].removeprefix(BEFORE) == columns[b].removeprefix(BEFORE)
    ]


def _moments(
    persons: Relation, columns: tuple[str, ...], sides: Sequence[str]
) -> tuple[tuple[date | None, ...], Floats]:
    """The days, and (days, arms, columns, columns) the sums at the end of each.

    On a day, the product of two entries that grow by v and w to c and d grows by c w + v d - v w.
    """
    names, engine = _names(columns), persons.engine
    ahead = "PARTITION BY person, arm ORDER BY day NULLS FIRST ROWS UNBOUNDED PRECEDING"
    steps = ["CASE WHEN row_number() OVER w = 1 THEN 1.0 ELSE 0.0 END AS v0", "1.0 AS c0"]
    for at, name in enumerate(names, start=1):
        growth = f"CASE WHEN row_number() OVER w = 1 THEN {name} ELSE 0 END" if name.startswith("b") else name
        whole = name if name.startswith("b") else f"sum({name}) OVER w"
        steps += [f"{growth} AS v{at}", f"{whole} AS c{at}"]
    running = f"SELECT arm, day, {', '.join(steps)} FROM {_by_person(persons, names, 'day')} WINDOW w AS ({ahead})"
    products = [f"sum(c{a} * v{b} + v{a} * c{b} - v{a} * v{b}) AS p{a}_{b}" for a, b in _pairs(columns)]
    rows = engine.rows(f"SELECT arm, day, {', '.join(products)} FROM ({running}) GROUP BY arm, day")
    days = sorted({row["day"] for row in rows}, key=lambda day: day or date.min)
    steps_of = np.zeros((len(days), len(sides), len(columns), len(columns)))
    for row in rows:
        steps_of[days.index(row["day"]), sides.index(row["arm"])] = _matrix(row, columns)
    return tuple(days), steps_of.cumsum(axis=0)


def _segment_moments(persons: Relation, columns: tuple[str, ...], sides: Sequence[str]) -> dict[str, Sums]:
    """(arms, columns, columns) the sums of each segment; a person with pages in two is in both."""
    names = _names(columns)
    vector = ["1.0", *names]
    products = [f"sum({vector[a]} * {vector[b]}) AS p{a}_{b}" for a, b in _pairs(columns)]
    people = _by_person(persons, names, "segment")
    rows = persons.engine.rows(
        f"SELECT segment, arm, {', '.join(products)} FROM {people} GROUP BY segment, arm ORDER BY segment"
    )
    sums: dict[str, Floats] = {}
    for row in rows:
        matrix = sums.setdefault(row["segment"], np.zeros((len(sides), len(columns), len(columns))))
        matrix[sides.index(row["arm"])] = _matrix(row, columns)
    return {segment: Sums(columns, matrix) for segment, matrix in sums.items()}


def _by_person(persons: Relation, names: Sequence[str], apart: str) -> str:
    """What each person did, by arm and day or segment."""
    sums = [f"{'max' if name.startswith('b') else 'sum'}({name}) AS {name}" for name in names]
    return f"(SELECT person, arm, {apart}, {', '.join(sums)} FROM {persons} WHERE pages > 0 GROUP BY person, arm, {apart})"


def _matrix(row: Mapping[str, Any], columns: Sequence[str]) -> Floats:
    matrix = np.full((len(columns), len(columns)), np.nan)
    for a, b in _pairs(columns):
        matrix[a, b] = matrix[b, a] = row[f"p{a}_{b}"]
    return matrix


# -- what else to know -------------------------------------------------------------------------------------------------


def _notes(log: Log, persons: Relation) -> list[str]:
    """Remarks on users and times."""
    engine, notes = log.engine, []
    if not log.has("user_id"):
        notes.append("The log has no users, so each session counts as a person; errors are too small if people return.")
    else:
        strangers = "count(DISTINCT person) FILTER (WHERE starts_with(person, 'session '))"
        counts = engine.row(f"SELECT {strangers} AS n FROM {persons}")
        if counts["n"]:
            notes.append(f"{count(counts['n'], 'session')} without a user counted as persons of their own.")
    if not log.has("timestamp"):
        return notes
    timeless = engine.row(f"SELECT coalesce(sum(pages), 0) AS n FROM {persons} WHERE day IS NULL")["n"]
    if timeless:
        notes.append(f"{timeless:,.0f} pages have no time; they count, before the first day.")
    steps = f"SELECT timestamp AS time, lag(timestamp) OVER () AS last FROM {log.table} WHERE position = 1"
    back = engine.row(f"SELECT count(*) AS n, count(*) FILTER (WHERE time < last - {_CLOCK}) AS back FROM ({steps})")
    if 0 < back["back"] < _ORDERED * back["n"]:
        notes.append(
            f"The log is in order of time, but its clock goes back by more than an hour {count(back['back'], 'time')}: "
            "pages may stand on a wrong day. Only the picture of days depends on them."
        )
    return notes
