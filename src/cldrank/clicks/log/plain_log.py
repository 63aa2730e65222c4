"""`open_log`: a log of any layout as a plain table, with a reason for each row that must be set aside.

A single query makes the table, in steps that each SELECT from the step before:

    raw      the columns by their roles; a log of pages is split into a row per displayed result, and a row per click on
             what its page does not show
    read     ids, whole numbers and instants (see `casts`), and whether a value is unreadable
    plain    session_id, query_id, doc_id, position (from 1), clicks (0 for none), reason, and what else the log has:
             of each event, such as event_purchase, 1 where it followed, and unclicked where no click was logged for it

Everything else (counting, account, audit) reads that table. Rows that repeat others are found by `aggregate`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from cldrank.clicks.events import event_column, events_among
from cldrank.clicks.log import casts
from cldrank.clicks.log.casts import Cast, Field, locate
from cldrank.clicks.log.layout import (
    DEEPEST,
    KEYS,
    NO_SEGMENT,
    OF_EXPERIMENTS,
    OPTIONAL,
    SEGMENT,
    TEAM,
    LogLayout,
    columns_of,
    user_ids,
)
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.reading import reason
from cldrank.tables import Engine, Relation, is_frame, table_files
from cldrank.tables.columns import missing_columns, text_literal
from cldrank.tables.frames import frame_name
from cldrank.tables.types import is_number, is_text
from cldrank.wording import count

_TEXTS, _RANKS = OF_EXPERIMENTS[:3], OF_EXPERIMENTS[3:]
_AS_THEY_ARE = (*KEYS, "user_id", "ranker_id", "surface", *_TEXTS, SEGMENT)  # roles whose text stays as it is
_CLICKED_LISTS = ("clicked_positions", "clicked_documents")  # lists of what was clicked, not of results
_OF_RESULTS = ("doc_id", "clicked", "position")  # a page has a list of them
_FEW_ROWS = 10
_NOT_A_TIME = "not true, false or a number of clicks"
_ONE_QUERY = "all"  # the query of a log without queries
_LONGEST_EXAMPLE = 40  # letters


class Times(NamedTuple):
    """How the timestamps of a log are written: their unit, how many cannot be read, and both in words."""

    unit: str
    unread: int
    found: tuple[str, ...]


@dataclass(frozen=True)
class Log:
    """An impression log as a plain table in an engine.

    table       a row per displayed result: session_id, query_id, doc_id, position (from 1), clicks, reason (NULL: to
                be counted), and those of timestamp (UTC), user_id, ranker_id, surface, propensity, segment that the log
                has; with timestamp also time_form, how it is written
    time_zone   of times that name none
    by_clicks   whether only clicks have positions in the log, as in lists of clicked positions
    columns     the name of the column of each role
    interleaved whether it has a column of teams, read or not, as logs of interleaved pages have
    faults      the columns at fault, in words, by reason to set rows aside
    """

    table: Relation
    time_zone: str = "UTC"
    by_clicks: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    interleaved: bool = False
    faults: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}

    @property
    def engine(self) -> Engine:
        """Where the table is."""
        return self.table.engine

    def has(self, column: str) -> bool:
        """Whether the log has an optional column."""
        return column in self.table.columns

    @property
    def events(self) -> list[str]:
        """The columns of events beside clicks."""
        return [*map(event_column, events_among(self.table.columns))]

    def set_aside(self, condition: str, why: str, *, first: bool = False) -> Log:
        """The log with a reason for the rows that a condition of SQL names; `first`: also in place of other reasons."""
        free = "TRUE" if first else "reason IS NULL"
        judged = f"CASE WHEN {free} AND {condition} THEN '{why}' ELSE reason END AS reason"
        table = self.engine.sql(f"SELECT * EXCLUDE (reason), {judged} FROM {self.table}")
        return replace(self, table=replace(table, files=self.table.files, where=self.table.where))

    def times(self) -> Times:
        """How the timestamps are written, which takes a pass over them."""
        if not self.has("timestamp"):
            return Times("", 0, ())
        forms = "CASE WHEN time_form LIKE '?%' THEN '?' ELSE time_form END AS form, max(time_form) AS example"
        query = f"SELECT {forms}, count(*) AS n FROM {self.table} WHERE time_form IS NOT NULL GROUP BY 1"
        rows = {row["form"]: row for row in self.engine.rows(query)}
        counts = {form: int(row["n"]) for form, row in rows.items()}
        every, unread = sum(counts.values()), counts.pop("?", 0)
        units = {unit: counts[unit] for unit in casts.UNITS if unit in counts}
        found = [f"{count(n, 'timestamp')} in {unit} since 1970" for unit, n in units.items()]
        if units and list(units.values()) == [every - unread]:
            found = [f"timestamps are {next(iter(units))} since 1970"]
        if "wall" in counts:
            found.append(f"times that name no zone are in {self.time_zone}")
        if unread:
            example = rows["?"]["example"][1:]
            found.append(f"{unread:,} of {every:,} timestamps cannot be read, such as {example!r}")
        unit = f"epoch {max(units, key=lambda unit: units[unit])}" if units else "timestamps"
        return Times(unit, unread, tuple(found))


def open_log(source: Any, engine: Engine, layout: LogLayout, *, experiment: bool = False) -> Log:
    """Open a log: files, folders, patterns, or a frame.

    A log has a row per displayed result, with columns session_id, query_id, doc_id, position and clicked (true and
    false, or a number of clicks; null means none), or a row per page, with lists: session_id, query_id, documents (or
    doc_id, top first) and clicked_positions, clicked_documents or clicked (an entry per document). A session_id stands
    for a single page of results: one search of one person.

    source       as `cldrank.tables.Engine.open` takes it
    experiment   whether to read the columns that logs of experiments have, too: `OF_EXPERIMENTS`
    """
    source = source if is_frame(source) else table_files(source, what="log")
    where = frame_name(source) if is_frame(source) else str(source[0].path)
    columns: dict[str, str] = {}
    names: list[str] = []

    def choose(available: Sequence[str]) -> list[str]:
        names.extend(available)
        columns.update(columns_of(available, where, layout, OF_EXPERIMENTS if experiment else ()))
        return list(columns.values())

    table = engine.open(source, choose)
    fields = {role: locate(table, path) for role, path in columns.items()}
    query = _PlainQuery(table, columns, fields, layout)
    with querying(engine, table.where):
        log = query.log(names)
        log = _without(log, layout)
        _check_clicks(log, fields.get("clicked"))
        written = fields.get("timestamp")
        if written is not None and is_text(written.kind) and layout.time_zone is None:
            check_zones(log.table, f"column {columns['timestamp']!r} (timestamp)")
    return log


@contextmanager
def querying(engine: Engine, where: str) -> Iterator[None]:
    """Turn the errors of an engine, which reads files while a query runs, into errors that name the files."""
    try:
        yield
    except (CldrankError, MemoryError, AssertionError):
        raise
    except Exception as error:  # every engine has its own exceptions
        engine.check(error)
        raise DataError(f"{where}: the log cannot be read ({reason(error)}).") from error


_Kinds = Mapping[str, pa.DataType]  # the type of the value of each role
_Raw = tuple[str, _Kinds]  # a query for values as they were logged


class _Fault(NamedTuple):
    """A reason to set rows aside: the role whose value is wrong, a condition on the values as read, and the words."""

    reason: str
    role: str
    condition: str
    wrong: str


@dataclass(frozen=True)
class _PlainQuery:
    """The query that makes a log plain.

    table     the log as it is
    columns   the name of the column of each role, for messages
    fields    the field of each role
    """

    table: Relation
    columns: Mapping[str, str]
    fields: Mapping[str, Field]
    layout: LogLayout

    def log(self, names: Sequence[str]) -> Log:
        """The plain log; `names` are the columns of the table."""
        fields = dict(self.fields)
        if "documents" in fields:
            fields["doc_id"] = fields.pop("documents")
        has_lists = fields["doc_id"].is_list
        raw, kinds = self._of_pages(fields) if has_lists or "documents" in self.fields else self._of_results(names)
        read, faults = self._read(raw, kinds)
        self._check_ids(read, kinds)
        reasons = [("fault IS NOT NULL", "fault")] if has_lists else []
        reasons += [(fault.condition, f"'{fault.reason}'") for fault in faults]
        cases = " ".join(f"WHEN {condition} THEN {why}" for condition, why in reasons)
        extra = [role for role in (*OPTIONAL, *OF_EXPERIMENTS, SEGMENT) if role in kinds]
        extra += [*map(event_column, self.layout.events), *(["unclicked"] if self.layout.events else [])]
        form = ""
        if "timestamp" in kinds:
            form = f", {casts.time_form('raw_timestamp', kinds['timestamp'], 'timestamp')} AS time_form"
            extra.append("time_form")
        judged = f"SELECT *, CASE {cases} END AS reason{form} FROM ({read})"
        query = f"SELECT {', '.join([*KEYS, 'position', 'clicks', 'reason', *extra])} FROM ({judged})"
        engine = self.table.engine
        table = engine.hold(query) if has_lists or self._is_costly(kinds) else engine.sql(query)
        table = replace(table, files=self.table.files, where=self.table.where)
        zone, described = self.layout.time_zone or "UTC", partial(self._described, judged, faults)
        return Log(table, zone, "clicked_positions" in kinds, self.columns, TEAM in names, described)

    # -- the values as they were logged --------------------------------------------------------------------------------

    def _of_results(self, names: Sequence[str]) -> _Raw:
        """The values of a table with a row per displayed result."""
        for role in ("position", "clicked"):
            if role not in self.fields:
                raise missing_columns([role], names, self.table.where)
        return self._raw(self.fields, str(self.table))

    def _of_pages(self, fields: dict[str, Field]) -> _Raw:
        """The values of a table with a row per page: its lists, matched by place, and clicks on what they lack.

        A missing list has no values. `place` is the position that the list gives, or that was clicked; `entry` the
        place in the list, NULL for what is not there; `fault` what is wrong with the page or the click.
        """
        if "position" in fields and not fields["position"].is_list and "position" not in self.layout.columns:
            del fields["position"]  # of the page, say: results have their places in the list
        for role in (role for role in (*_CLICKED_LISTS, *_OF_RESULTS, *self.layout.events) if role in fields):
            if not fields[role].is_list or (role in _CLICKED_LISTS and fields[role].inner):
                raise FormatError(f"{self._called(role)} holds {fields[role].kind}, not lists.", path=self.table.where)
        of_page = {role: value for role, value in fields.items() if not value.is_list or role in _CLICKED_LISTS}
        lists = {value.path: value.sql for role, value in fields.items() if role not in of_page}
        names = {path: f"list_{number}" for number, path in enumerate(lists)}
        shown = names[fields["doc_id"].path]
        differ = " OR ".join(f"array_length({name}) <> n" for name in names.values() if name != shown) or "FALSE"
        values = [f"{value.sql} AS page_{role}" for role, value in of_page.items()]
        values += [f"{lists[path]} AS {name}" for path, name in names.items()]
        pages = self.table.engine.hold(
            f"SELECT *, coalesce({differ}, FALSE) AS unequal FROM (SELECT *, coalesce(array_length({shown}), 0) AS n "
            f"FROM (SELECT {', '.join(values)} FROM {self.table}))"
        )
        elements = {
            role: value.element(f"list_extract({names[value.path]}, entry)")
            for role, value in fields.items()
            if role not in of_page
        }
        documents = f"list_transform({shown}, lambda shown: CAST({fields['doc_id'].element('shown').sql} AS VARCHAR))"
        rows = self._entries(pages, of_page, documents, is_number(elements["doc_id"].kind))
        if "clicked_documents" in of_page:
            document = elements["doc_id"]
            elements["doc_id"] = replace(document, sql=f"coalesce({document.sql}, stray)")
        once = {role: replace(value, sql=f"page_{role}") for role, value in of_page.items()}
        return self._raw({**once, **elements}, f"({rows})", ("place", "entry", "fault"))

    def _entries(self, pages: Relation, of_page: Mapping[str, Field], documents: str, are_numbers: bool) -> str:
        """A row per entry of the lists of a page, and per click on what they lack; `documents` lists them as text."""
        columns, where = ", ".join(pages.columns), f"FROM {pages}"
        unequal = "CASE WHEN unequal THEN 'unequal lists' END AS fault"
        stray_kind = "BIGINT" if are_numbers else "VARCHAR"
        entries = [
            f"SELECT {columns}, place, place AS entry, CAST(NULL AS {stray_kind}) AS stray, {unequal} "
            f"FROM (SELECT *, unnest(generate_series(1, n)) AS place {where} WHERE n > 0)",
            f"SELECT {columns}, NULL, NULL, NULL, 'unequal lists' {where} WHERE unequal AND n = 0",
        ]
        if "clicked_positions" in of_page:
            kind = of_page["clicked_positions"].kind.value_type
            written = casts.trimmed("clicked") if is_text(kind) else "clicked"
            whole = casts.whole("written", kind, self._called("clicked_positions"), self.table.where).value
            clicks = f"SELECT *, unnest(page_clicked_positions) AS clicked {where}"
            clicks = f"SELECT *, {self._from_1(whole)} AS place FROM (SELECT *, {written} AS written FROM ({clicks}))"
            missing = f"({clicks}) WHERE NOT coalesce(place BETWEEN 1 AND n, FALSE)"
            entries.append(f"SELECT {columns}, place, NULL, NULL, 'click never shown' FROM {missing}")
        if "clicked_documents" in of_page:
            clicks = f"SELECT *, unnest(page_clicked_documents) AS clicked, {documents} AS texts {where}"
            missing = f"({clicks}) WHERE NOT coalesce(list_contains(texts, CAST(clicked AS VARCHAR)), FALSE)"
            stray = f"TRY_CAST(clicked AS {stray_kind})"
            entries.append(f"SELECT {columns}, NULL, NULL, {stray}, 'click never shown' FROM {missing}")
        return " UNION ALL ".join(entries)

    def _raw(self, values: Mapping[str, Field], rows: str, others: Sequence[str] = ()) -> _Raw:
        """The values of each role: raw_ and its name, with numbers and times in text trimmed, and written_."""
        columns = list(others)
        for role, value in values.items():
            sql = value.sql
            if is_text(value.kind) and role not in _AS_THEY_ARE:
                sql = f"trim({sql})" if role == "timestamp" else casts.trimmed(sql)
            columns += [f"{sql} AS raw_{role}", f"{value.sql} AS written_{role}"]
        return f"SELECT {', '.join(columns)} FROM {rows}", {role: value.kind for role, value in values.items()}

    # -- the values as they are read -----------------------------------------------------------------------------------

    def _read(self, raw: str, kinds: _Kinds) -> tuple[str, list[_Fault]]:
        """The query for the values as they are read, and what may be wrong with them, the first reason first."""
        ids = {role: self._id(role, kinds) for role in KEYS}
        position, clicks = self._position(kinds), self._clicks(kinds)
        values = {role: cast.value for role, cast in ids.items()}
        ranks = {role: self._whole(role, kinds) for role in _RANKS if role in kinds}
        events = {event: self._times(event, kinds) for event in self.layout.events}
        values |= {"position": position.value, "clicks": clicks.value}
        if events:  # who acts on a result has clicked it
            happened = {event: f"least({cast.value}, 1)" for event, cast in events.items()}
            values |= {event_column(event): value for event, value in happened.items()}
            values["clicks"] = f"greatest({clicks.value}, {', '.join(happened.values())})"
            values["unclicked"] = f"{clicks.value} = 0 AND {' + '.join(happened.values())} > 0"
        values |= {role: cast.value for role, cast in ranks.items()}
        odd = {**ids, "position": position, "clicked": clicks, **events, **ranks}
        values |= {f"odd_{role}": f"coalesce({cast.odd}, FALSE)" for role, cast in odd.items()}
        columns = [f"{sql} AS {name}" for name, sql in {**values, **self._optional(kinds)}.items()]
        top, number = self.layout.top, f"not a whole number up to {DEEPEST:,}"
        faults = [_Fault("long id", role, f"odd_{role}", "") for role in KEYS]
        faults += [_Fault("null key", role, f"{role} IS NULL", "empty") for role in KEYS]
        faults += [
            _Fault("not a number", "position", f"odd_position OR position > {DEEPEST}", number),
            *(_Fault("not a number", role, f"odd_{role}", _NOT_A_TIME) for role in ("clicked", *events)),
            *(_Fault("not a number", role, f"odd_{role} OR {role} < 1", f"{number}, from 1") for role in ranks),
            _Fault("click never shown", "position", "coalesce(position, 0) < 1 AND clicks > 0", ""),
            _Fault("null key", "position", "position IS NULL AND NOT odd_position", "empty"),
            _Fault("position below 1", "position", "position < 1", f"below {top}"),
        ]
        return f"SELECT *, {', '.join(columns)} FROM ({raw})", faults

    def _id(self, role: str, kinds: _Kinds) -> Cast:
        if role == "query_id" and self.layout.one_query:
            return Cast(text_literal(_ONE_QUERY if self.layout.one_query is True else self.layout.one_query))
        return casts.identifier(f"raw_{role}", kinds[role], self._called(role), self.table.where)

    def _check_ids(self, read: str, kinds: _Kinds) -> None:
        """Refuse ids in floating point that are not whole numbers: a cast would make others of them."""
        for role in (role for role in KEYS if role in kinds):
            kind = kinds[role]
            if not (types.is_floating(kind) or (types.is_decimal(kind) and kind.scale)):
                continue
            odd = self.table.engine.rows(f"SELECT raw_{role} AS id FROM ({read}) WHERE odd_{role} LIMIT 1")
            if odd:
                raise FormatError(
                    f"{self._called(role)} holds {odd[0]['id']}, as {kind}; ids are text or whole numbers, and "
                    "floating point holds every whole number only below 2^53.",
                    path=self.table.where,
                )

    def _position(self, kinds: _Kinds) -> Cast:
        """The position from 1."""
        if "position" not in kinds:
            return Cast("place")
        cast = self._whole("position", kinds)
        return Cast(self._from_1(cast.value), cast.odd)

    def _from_1(self, position: str) -> str:
        """A position as the log counts, counted from 1; numbers that are too large stay so."""
        shifted = f"CASE WHEN {position} > {DEEPEST} THEN {position} ELSE {position} + 1 END"
        return position if self.layout.top == 1 else shifted

    def _clicks(self, kinds: _Kinds) -> Cast:
        """How often each result was clicked."""
        if "clicked" in kinds:
            return self._times("clicked", kinds)
        own, clicked = f"TRY_CAST(value AS DOUBLE) = entry + {self.layout.top - 1}", "raw_clicked_positions"
        if "clicked_documents" in kinds:  # as text, since either may be written as numbers
            own, clicked = "CAST(value AS VARCHAR) = CAST(raw_doc_id AS VARCHAR)", "raw_clicked_documents"
        number = f"CAST(coalesce(array_length(list_filter({clicked}, lambda value: {own})), 0) AS BIGINT)"
        return Cast(f"CASE WHEN entry IS NULL THEN 0 ELSE {number} END")

    def _times(self, role: str, kinds: _Kinds) -> Cast:
        """How often something happened on a result: true and false, or a number; null means never."""
        cast = self._whole(role, kinds, truth=True)
        times = f"coalesce({cast.value}, 0)"
        if types.is_boolean(kinds[role]):
            return Cast(times)
        senseless = f"{times} NOT BETWEEN 0 AND {DEEPEST}"
        return Cast(f"CASE WHEN {senseless} THEN 0 ELSE {times} END", f"{cast.odd} OR {senseless}")

    def _optional(self, kinds: _Kinds) -> dict[str, str]:
        """What else the log says of a row."""
        values = {}
        for role in (role for role in ("user_id", "ranker_id", "surface", *_TEXTS) if role in kinds):
            values[role] = f"CAST(raw_{role} AS VARCHAR)" if types.is_nested(kinds[role]) else f"raw_{role}"
        if "propensity" in kinds:
            chance = casts.number("raw_propensity", kinds["propensity"], self._called("propensity"), self.table.where)
            values["propensity"] = chance
        if "timestamp" in kinds:
            values["timestamp"] = casts.instant("raw_timestamp", kinds["timestamp"], self.layout.time_zone or "UTC")
        if SEGMENT in kinds:
            text = f"CAST(raw_{SEGMENT} AS VARCHAR)"
            values[SEGMENT] = f"CASE WHEN coalesce(trim({text}), '') = '' THEN '{NO_SEGMENT}' ELSE {text} END"
        return values

    def _whole(self, role: str, kinds: _Kinds, *, truth: bool = False) -> Cast:
        return casts.whole(f"raw_{role}", kinds[role], self._called(role), self.table.where, truth=truth)

    def _called(self, role: str) -> str:
        role = "documents" if role == "doc_id" and "documents" in self.columns else role
        return f"column {self.columns.get(role, role)!r} ({role})"

    def _is_costly(self, kinds: _Kinds) -> bool:
        """Whether to read the rows again takes longer than to hold them: unless a Parquet file has them as needed."""
        formats = {file.format for file in self.table.files}
        texts = any(is_text(kind) for role, kind in kinds.items() if role not in _AS_THEY_ARE)
        return bool(formats - {"parquet"}) or texts

    def _described(self, judged: str, faults: Sequence[_Fault], reasons: Collection[str]) -> dict[str, str]:
        """Which columns made rows be set aside, in how many rows, with an example; by reason, where columns tell it."""
        known = {*self.columns, "doc_id"}
        faults = [fault for fault in faults if fault.wrong and fault.reason in reasons and fault.role in known]
        if not faults:
            return {}
        counts = ["count(*) AS every"]
        for at, (why, role, condition, _) in enumerate(faults):
            wrong = f"reason = '{why}' AND ({condition})"
            counts.append(f"count(*) FILTER (WHERE {wrong}) AS n{at}")
            counts.append(f"max(CASE WHEN {wrong} THEN nullif(CAST(written_{role} AS VARCHAR), '') END) AS value{at}")
        row = self.table.engine.row(f"SELECT {', '.join(counts)} FROM ({judged})")
        words: dict[str, list[str]] = {}
        for at, (why, role, _, wrong) in enumerate(faults):
            if row[f"n{at}"]:
                rows = f"{'all ' * (row[f'n{at}'] == row['every'] > 1)}{count(row[f'n{at}'], 'row')}"
                example = row[f"value{at}"]
                such = "" if example is None else f", such as {example[:_LONGEST_EXAMPLE]!r}"
                column = self.columns.get(role) or self.columns.get("documents", role)
                words.setdefault(why, []).append(f"column {column!r} is {wrong} in {rows}{such}")
        return {why: "; ".join(parts) for why, parts in words.items()}


# -- what users say to leave out ---------------------------------------------------------------------------------------


def _without(log: Log, layout: LogLayout) -> Log:
    """The log without users that are excluded, or look like bots."""
    if layout.exclude_users is not None:
        if not log.has("user_id"):
            raise UsageError('`exclude_users` needs a column of users; name it with `columns={"user_id": ...}`.')
        log = log.set_aside(of_users(layout.exclude_users, log.engine), "excluded user")
    if layout.exclude_bots:
        from cldrank.clicks.bots import find_bots

        column = "user_id" if log.has("user_id") else "session_id"
        log = log.set_aside(f"{column} IN (SELECT name FROM {find_bots(log.table)})", "bot")
    return log


def of_users(users: Any, engine: Engine) -> str:
    """A condition of SQL for the rows of some users, named as `user_ids` takes them."""
    listed = engine.open(pa.table({"excluded": pa.array(user_ids(users), pa.string())}))
    return f"CAST(user_id AS VARCHAR) IN (SELECT excluded FROM {listed})"


# -- refusals ----------------------------------------------------------------------------------------------------------


def _check_clicks(log: Log, clicked: Field | None) -> None:
    """Refuse a column of counts that is never 0: it cannot hold clicks."""
    if clicked is None or types.is_boolean(clicked.kind):
        return
    readable = f"FROM {log.table} WHERE reason IS DISTINCT FROM 'not a number'"
    if log.engine.rows(f"SELECT clicks {readable} AND clicks = 0 LIMIT 1"):
        return
    counts = log.engine.row(f"SELECT count(*) AS n, max(clicks) AS most {readable}")
    if counts["n"] >= _FEW_ROWS and counts["most"] > 1:
        raise DataError(
            f"{log.table.where}: column {log.columns['clicked']!r} (clicked) is never 0 and goes up to "
            f"{counts['most']}: these are not clicks. Name the column that says which displayed results were clicked."
        )


def check_zones(table: Relation, what: str) -> None:
    """Refuse a table that has times both with and without a zone, by its `time_form`."""
    forms = table.engine.rows(
        f"SELECT time_form AS form, count(*) AS n FROM {table} WHERE time_form IN ('zone', 'wall') GROUP BY 1"
    )
    counts = {row["form"]: row["n"] for row in forms}
    if len(counts) == 2:
        raise DataError(
            f"{what} has {counts['zone']:,} times that name their zone and {counts['wall']:,} that do not; say the "
            "zone of the latter with `time_zone`."
        )


def only_query(query_ids: Sequence[object] | NDArray[Any]) -> str:
    """The query of all pages of a log without queries: the only query of the dataset, whatever its id."""
    if len(query_ids) != 1:
        raise UsageError(
            f"`one_query` treats all pages as answers to one query, but the dataset has {len(query_ids):,} queries; "
            "give the candidates of one query, or a log that names the query of each page."
        )
    return str(query_ids[0])
