"""`open_log`: a log of any layout as a plain table, with a reason for each row that must be set aside.

One query makes the table, in steps that are each a SELECT over the one before:

    raw      the columns by their roles, text trimmed; of a log with one row per page, one row per displayed result
    read     ids, whole numbers and instants (see `casts`)
    plain    session_id, query_id, doc_id, position (from 1), clicks (0 for none), reason, and what else the log has

Everything else (counting, account, audit) reads that table. Rows that repeat others are found by `counting`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from cldrank.clicks.log import casts
from cldrank.clicks.log.casts import Cast, Field, locate
from cldrank.clicks.log.layout import DEEPEST, KEYS, NO_SEGMENT, ONE_QUERY, OPTIONAL, SEGMENT, LogLayout, columns_of
from cldrank.clicks.log.layout import user_ids as listed_users
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.reading import reason
from cldrank.tables import Engine, Relation, is_frame, table_files
from cldrank.tables.columns import missing_columns
from cldrank.tables.frames import frame_name
from cldrank.tables.types import is_number, is_text
from cldrank.wording import count

_AS_THEY_ARE = (*KEYS, "documents", "user_id", "ranker_id", "surface", SEGMENT)  # roles whose text stays as it is
_CLICKED_LISTS = ("clicked_positions", "clicked_documents")  # lists of what was clicked, not of results
_OF_RESULTS = ("clicked", "position", "row", "column")  # a page has a list of them
_FEW_ROWS = 10
_LONGEST_EXAMPLE = 40  # letters


@dataclass(frozen=True)
class Log:
    """An impression log as a plain table in an engine.

    table       one row per displayed result: session_id, query_id, doc_id, position (from 1), clicks, reason (NULL: to
                be counted), and those of timestamp (UTC), user_id, ranker_id, surface, propensity, segment that the log
                has; with timestamp also time_form, how it is written
    by_clicks   whether only clicks have positions in the log, as in lists of clicked positions
    found       what was found out, in words
    settings    how positions were read, by the names of options
    time_zone   of times that name none
    columns     the name of the column of each role
    faults      says, of reasons to set rows aside, which columns gave them
    """

    table: Relation
    by_clicks: bool = False
    found: tuple[str, ...] = ()
    settings: Mapping[str, int | str] = field(default_factory=dict)
    time_zone: str = "UTC"
    columns: Mapping[str, str] = field(default_factory=dict)
    faults: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}

    @property
    def engine(self) -> Engine:
        """Where the table is."""
        return self.table.engine

    def has(self, column: str) -> bool:
        """Whether the log has an optional column."""
        return column in self.table.columns

    def of(self, table: Relation) -> Log:
        """The log with another table, made of its own."""
        return replace(self, table=replace(table, files=self.table.files, where=self.table.where))

    def with_times(self) -> Log:
        """The log with what its timestamps turned out to be."""
        if not self.has("timestamp"):
            return self
        forms = "CASE WHEN time_form LIKE '?%' THEN '?' ELSE time_form END AS form, max(time_form) AS example"
        query = f"SELECT {forms}, count(*) AS n FROM {self.table} WHERE time_form IS NOT NULL GROUP BY 1"
        rows = {row["form"]: row for row in self.engine.rows(query)}
        counts = {form: int(row["n"]) for form, row in rows.items()}
        every, unread = sum(counts.values()), counts.pop("?", 0)
        units = {unit: counts[unit] for unit in casts.UNITS if unit in counts}
        sentences = [f"{count(n, 'timestamp')} in {unit} since 1970" for unit, n in units.items()]
        if units and list(units.values()) == [every - unread]:
            sentences = [f"timestamps are {next(iter(units))} since 1970"]
        if "wall" in counts:
            sentences.append(f"times that name no zone are in {self.time_zone}")
        if unread:
            example = rows["?"]["example"][1:]
            sentences.append(f"{unread:,} of {every:,} timestamps cannot be read, such as {example!r}")
        unit = f"epoch {max(units, key=lambda unit: units[unit])}" if units else "timestamps"
        settings = {**self.settings, "time_unit": unit, **({"unread_times": unread} if unread else {})}
        return replace(self, found=(*self.found, *sentences), settings=settings)


def open_log(source: Any, engine: Engine, layout: LogLayout) -> Log:
    """Open a log: files, folders, patterns, or a frame.

    A log has one row per displayed result, with columns session_id, query_id, doc_id, position and clicked (true and
    false, or a number of clicks; null means none), or one row per page, with lists: session_id, query_id, documents (or
    doc_id, top first) and clicked_positions, clicked_documents or clicked (one entry per document). A session_id stands
    for one page of results: one search of one person.

    source    as `cldrank.tables.Engine.open` takes it
    """
    source = source if is_frame(source) else table_files(source, what="log")
    where = frame_name(source) if is_frame(source) else str(source[0].path)
    columns: dict[str, str] = {}
    names: list[str] = []

    def choose(available: Sequence[str]) -> list[str]:
        names.extend(available)
        columns.update(columns_of(available, where, layout))
        return list(columns.values())

    table = engine.open(source, choose)
    fields = {role: locate(table, path) for role, path in columns.items()}
    query = _PlainQuery(table, columns, fields, layout)
    with querying(engine, table.where):
        log = query.log(query.of_pages() if query.has_lists else query.of_results(names))
        log = _without(log, layout)
        _check_clicks(log, query)
        written = query.fields.get("timestamp")
        if written is not None and is_text(written.kind) and layout.time_zone is None:
            check_zones(log.table, f"column {columns['timestamp']!r} (timestamp)")
    return log


@contextmanager
def querying(engine: Engine, where: str) -> Iterator[None]:
    """Engines read files while a query runs: their complaints become errors that name the files."""
    try:
        yield
    except (CldrankError, MemoryError, AssertionError):
        raise
    except Exception as error:  # every engine has its own exceptions
        engine.check(error)
        raise DataError(f"{where}: the log cannot be read ({reason(error)}).") from error


@dataclass(frozen=True)
class _Raw:
    """A query for displayed results with the values of their roles, raw_ and the role, as they were logged.

    kinds       the types of these values
    documents   the role of the documents
    phantoms    queries for clicks on what their page does not show
    """

    query: str
    kinds: Mapping[str, pa.DataType]
    documents: str = "doc_id"
    phantoms: Sequence[str] = ()


@dataclass(frozen=True)
class _PlainQuery:
    """The query that makes a log plain; in it, the value of a role is called raw_ and the role.

    table     the log as it is
    columns   the name of the column of each role, for messages
    fields    where each role is found
    """

    table: Relation
    columns: Mapping[str, str]
    fields: Mapping[str, Field]
    layout: LogLayout

    @property
    def has_lists(self) -> bool:
        """Whether a row is a page with a list of results."""
        return "documents" in self.fields or self.fields["doc_id"].is_list

    def of_results(self, names: Sequence[str]) -> _Raw:
        """The results of a table with one row for each; `names` are its columns."""
        for role in ("position", "clicked"):
            if role not in self.fields and not (role == "position" and "row" in self.fields):
                raise missing_columns([role], names, self.table.where)
        columns = [f"{_selected(role, value)}, {value.sql} AS written_{role}" for role, value in self.fields.items()]
        kinds = {role: value.kind for role, value in self.fields.items()}
        return _Raw(f"SELECT {', '.join(columns)} FROM {self.table}", kinds)

    # -- one row per page ----------------------------------------------------------------------------------------------

    def of_pages(self) -> _Raw:
        """The results of a table with one row per page. Lists are matched by place; a missing list has no values."""
        fields = dict(self.fields)
        if "position" in fields and not fields["position"].is_list and "position" not in self.layout.columns:
            del fields["position"]  # of the page, say: results have their places in the list
        documents = "documents" if "documents" in fields else "doc_id"
        for role in (role for role in (documents, *_CLICKED_LISTS, *_OF_RESULTS) if role in fields):
            if not fields[role].is_list or (role in _CLICKED_LISTS and fields[role].inner):
                raise FormatError(f"{self._called(role)} holds {fields[role].kind}, not lists.", path=self.table.where)
        once = {role: value for role, value in fields.items() if not value.is_list or role in _CLICKED_LISTS}
        lists = {value.path: value.sql for role, value in fields.items() if role not in once}
        names = {path: f"list_{number}" for number, path in enumerate(lists)}
        shown = names[fields[documents].path]
        differ = [f"array_length({name}) <> n" for name in names.values() if name != shown]
        columns = [*map(_selected, once, once.values()), *(f"{lists[path]} AS {name}" for path, name in names.items())]
        pages = self.table.engine.hold(
            f"SELECT *, coalesce({' OR '.join(differ) or 'FALSE'}, FALSE) AS unequal FROM (SELECT *, "
            f"coalesce(array_length({shown}), 0) AS n FROM (SELECT {', '.join(columns)} FROM {self.table}))"
        )
        elements = {
            role: value.element(f"list_extract({names[value.path]}, place)")
            for role, value in fields.items()
            if role not in once
        }
        kinds = {role: value.kind for role, value in {**once, **elements}.items()}
        columns = [*(f"raw_{role}" for role in once), "place", "unequal", *map(_selected, elements, elements.values())]
        spread = f"SELECT *, unnest(generate_series(1, n)) AS place FROM {pages} WHERE n > 0"
        texts = f"list_transform({shown}, lambda shown: CAST({fields[documents].element('shown').sql} AS VARCHAR))"
        phantoms = self._phantoms(pages, kinds, texts, documents)
        return _Raw(f"SELECT {', '.join(columns)} FROM ({spread})", kinds, documents, phantoms)

    def _phantoms(self, pages: Relation, kinds: Mapping[str, pa.DataType], texts: str, documents: str) -> list[str]:
        """Queries for clicks on what their page does not show; `texts` is the list of documents that it does show."""
        phantoms = [self._phantom(f"{pages} WHERE unequal AND n = 0", kinds, "unequal lists")]
        if "clicked_positions" in kinds:
            kind = kinds["clicked_positions"].value_type
            whole = casts.whole("written", kind, self._called("clicked_positions"), self.table.where).value
            written = casts.trimmed("clicked") if is_text(kind) else "clicked"
            clicks = f"SELECT *, unnest(raw_clicked_positions) AS clicked FROM {pages}"
            clicks = f"SELECT *, {written} AS written FROM ({clicks})"
            clicks = f"SELECT *, {_bounded(whole)} + {1 - self.layout.top} AS position FROM ({clicks})"
            beyond = f"({clicks}) WHERE NOT coalesce(position BETWEEN 1 AND n, FALSE)"
            phantoms.append(self._phantom(beyond, kinds, "click never shown", position="position"))
        if "clicked_documents" in kinds:
            clicks = f"SELECT *, unnest(raw_clicked_documents) AS clicked, {texts} AS texts FROM {pages}"
            absent = f"({clicks}) WHERE NOT coalesce(list_contains(texts, CAST(clicked AS VARCHAR)), FALSE)"
            document = f"TRY_CAST(clicked AS {'BIGINT' if is_number(kinds[documents]) else 'VARCHAR'})"
            phantoms.append(self._phantom(absent, kinds, "click never shown", document=document))
        return phantoms

    def _phantom(
        self, source: str, kinds: Mapping[str, pa.DataType], why: str, document: str = "NULL", position: str = "NULL"
    ) -> str:
        ids = self._ids({role: kinds[role] for role in KEYS[:2] if role in kinds})
        named = f"{ids['session_id'].value} AS session_id, {ids['query_id'].value} AS query_id, {document} AS doc_id"
        return f"SELECT {named}, CAST({position} AS BIGINT) AS position, 0 AS clicks, '{why}' AS reason FROM {source}"

    # -- the plain rows ------------------------------------------------------------------------------------------------

    def log(self, raw: _Raw) -> Log:
        """The plain log of displayed results."""
        kinds = {**raw.kinds, "doc_id": raw.kinds[raw.documents]}
        ids = self._ids({role: kinds[role] for role in KEYS if role in kinds}, raw.documents)
        self._check_ids(raw, ids)
        position, odd_position, off = self._position(kinds)
        clicks, odd_clicks = self._clicks(kinds, raw.documents)
        optional = self._optional(kinds)
        read = {
            **{role: cast.value for role, cast in ids.items()},
            "position": position,
            "clicks": clicks,
            "is_long": " OR ".join(f"coalesce({cast.odd}, FALSE)" for cast in ids.values()),
            "is_odd": f"({odd_position}) OR ({odd_clicks})",
            "is_off": f"coalesce({off}, FALSE)",
            "is_unequal": "unequal" if raw.phantoms else "FALSE",
            **optional,
        }
        query = f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in read.items())} FROM ({raw.query})"
        extra = [name for name in (*OPTIONAL, SEGMENT) if name in optional]
        if "timestamp" in kinds:
            form = casts.time_form("written", kinds["timestamp"], "timestamp")
            query, extra = f"SELECT *, {form} AS time_form FROM ({query})", [*extra, "time_form"]
        query = f"SELECT {', '.join([*KEYS, 'position', 'clicks', f'{_REASON} AS reason', *extra])} FROM ({query})"
        same = ", ".join([*KEYS, "position", "clicks", "reason", *(f"NULL AS {name}" for name in extra)])
        query = " UNION ALL ".join([query, *(f"SELECT {same} FROM ({entry})" for entry in raw.phantoms)])
        if self.layout.by_time:
            query = self._by_time(query, kinds)
        engine = self.table.engine
        table = engine.hold(query) if self._is_costly(kinds) else engine.sql(query)
        settings = {"first_position": self.layout.top, **self.layout.page_settings()}
        zone, faults = self.layout.time_zone or "UTC", partial(self._faults, raw, ids)
        return Log(self.table, "clicked_positions" in kinds, (), settings, zone, self.columns, faults).of(table)

    def _faults(self, raw: _Raw, ids: Mapping[str, Cast], reasons: Collection[str]) -> dict[str, str]:
        """Which columns made rows be set aside, in how many rows, with an example; by reason, where columns tell it."""
        top, tests = self.layout.top, list[tuple[str, str, str, str]]()  # reason, role, condition, what is wrong
        numbers = [role for role in ("position", "row", "column", "page") if role in raw.kinds]
        whole = {role: self._whole(role, raw.kinds) for role in numbers}
        for role, cast in {**ids, **whole}.items():
            tests.append(("null key", role, f"{cast.value} IS NULL AND NOT coalesce({cast.odd}, FALSE)", "empty"))
        for role, cast in whole.items():
            wrong = f"{cast.odd} OR {cast.value} > {DEEPEST}"
            tests.append(("not a number", role, wrong, f"not a whole number up to {DEEPEST:,}"))
        if "clicked" in raw.kinds:
            wrong = self._clicks(raw.kinds, raw.documents)[1]
            tests.append(("not a number", "clicked", wrong, "not true, false or a number of clicks"))
        if "position" in whole:
            tests.append(("position below 1", "position", f"{whole['position'].value} < {top}", f"below {top}"))
        tests = [test for test in tests if test[0] in reasons]
        written = "raw" if self.has_lists else "written"
        counts = ["count(*) AS every"]
        for at, (why, role, condition, _) in enumerate(tests):
            value = "NULL" if why == "null key" else f"CAST({written}_{role} AS VARCHAR)"
            counts.append(f"count(*) FILTER (WHERE {condition}) AS n{at}")
            counts.append(f"max(CASE WHEN {condition} THEN {value} END) AS value{at}")
        row = self.table.engine.row(f"SELECT {', '.join(counts)} FROM ({raw.query})") if tests else {}
        words: dict[str, list[str]] = {}
        for at, (why, role, _, wrong) in enumerate(tests):
            if row[f"n{at}"]:
                rows = f"{'all ' * (row[f'n{at}'] == row['every'] > 1)}{count(row[f'n{at}'], 'row')}"
                such = "" if row[f"value{at}"] is None else f", such as {row[f'value{at}'][:_LONGEST_EXAMPLE]!r}"
                column = self.columns.get(raw.documents if role == "doc_id" else role, role)
                words.setdefault(why, []).append(f"column {column!r} is {wrong} in {rows}{such}")
        return {why: "; ".join(parts) for why, parts in words.items()}

    def _is_costly(self, kinds: Mapping[str, pa.DataType]) -> bool:
        """Whether to read the rows again takes longer than to hold them: unless a Parquet file has them as needed."""
        formats = {file.format for file in self.table.files}
        texts = any(is_text(kind) for role, kind in kinds.items() if role not in _AS_THEY_ARE)
        return bool(formats - {"parquet"}) or texts or self.has_lists

    def _ids(self, kinds: Mapping[str, pa.DataType], documents: str = "doc_id") -> dict[str, Cast]:
        """The ids of a row."""
        ids = {}
        for role, kind in kinds.items():
            name = documents if role == "doc_id" else role
            ids[role] = casts.identifier(f"raw_{name}", kind, self._called(name), self.table.where)
        if self.layout.one_query:
            query = ONE_QUERY if self.layout.one_query is True else self.layout.one_query
            ids["query_id"] = Cast("'" + query.replace("'", "''") + "'")
        return ids

    def _check_ids(self, raw: _Raw, ids: Mapping[str, Cast]) -> None:
        """Refuse ids in floating point that are not whole numbers: a cast would make others of them."""
        for role, cast in ids.items():
            name = raw.documents if role == "doc_id" else role
            kind = raw.kinds.get(name)
            if kind is None or not (types.is_floating(kind) or (types.is_decimal(kind) and kind.scale)):
                continue
            odd = self.table.engine.rows(f"SELECT raw_{name} AS id FROM ({raw.query}) WHERE {cast.odd} LIMIT 1")
            if odd:
                raise FormatError(
                    f"{self._called(name)} holds {odd[0]['id']}, as {kind}; ids are text or whole numbers, and "
                    "floating point holds every whole number only below 2^53.",
                    path=self.table.where,
                )

    def _position(self, kinds: Mapping[str, pa.DataType]) -> tuple[str, str, str]:
        """SQL for the position from 1, for whether it cannot be read, and for whether it is beyond its page."""
        layout, shift = self.layout, 1 - self.layout.top
        position, odd, off = "place", "FALSE", "FALSE"
        if "row" in kinds:
            row, column = self._whole("row", kinds), self._whole("column", kinds)
            down, across = f"({_bounded(row.value)} + {shift})", f"({_bounded(column.value)} + {shift})"
            position = f"(({down} - 1) * {layout.grid_columns} + {across})"
            position = f"CASE WHEN {down} < 1 OR {across} < 1 THEN 0 ELSE {position} END"
            off, odd = f"{down} > {DEEPEST} OR {across} > {layout.grid_columns}", f"{row.odd} OR {column.odd}"
        elif "position" in kinds:
            cast = self._whole("position", kinds)
            position, odd = (f"({_bounded(cast.value)} + {shift})" if shift else cast.value), cast.odd
        if "page" not in kinds:
            return position, odd, off
        page, size = self._whole("page", kinds), layout.page_size
        before = f"({_bounded(page.value)} - {layout.page_settings()['first_page']})"
        beyond = f"{position} >= 1 AND ({before} < 0 OR {before} > {DEEPEST} OR {position} > {size})"
        whole = f"CASE WHEN {position} < 1 THEN {position} ELSE {before} * {size} + {position} END"
        return whole, f"{odd} OR {page.odd}", f"{off} OR {beyond}"

    def _clicks(self, kinds: Mapping[str, pa.DataType], documents: str) -> tuple[str, str]:
        """SQL for how often each result was clicked, and for whether that is not a number."""
        if "clicked" in kinds:
            cast = self._whole("clicked", kinds, truth=True)
            clicks = f"coalesce({cast.value}, 0)"
            if types.is_boolean(kinds["clicked"]):
                return clicks, "FALSE"
            senseless = f"{clicks} NOT BETWEEN 0 AND {DEEPEST}"
            return f"CASE WHEN {senseless} THEN 0 ELSE {clicks} END", f"{cast.odd} OR {senseless}"
        own = f"TRY_CAST(value AS DOUBLE) = place + {self.layout.top - 1}"
        clicked = "raw_clicked_positions"
        if "clicked_documents" in kinds:  # as text, since either may be written as numbers
            own, clicked = f"CAST(value AS VARCHAR) = CAST(raw_{documents} AS VARCHAR)", "raw_clicked_documents"
        return f"CAST(coalesce(array_length(list_filter({clicked}, lambda value: {own})), 0) AS BIGINT)", "FALSE"

    def _optional(self, kinds: Mapping[str, pa.DataType]) -> dict[str, str]:
        """What else the log says of a row; `written` is the timestamp before it is read."""
        values = {}
        for role in (role for role in ("user_id", "ranker_id", "surface") if role in kinds):
            values[role] = f"CAST(raw_{role} AS VARCHAR)" if types.is_nested(kinds[role]) else f"raw_{role}"
        if "propensity" in kinds:
            chance = casts.number("raw_propensity", kinds["propensity"], self._called("propensity"), self.table.where)
            values["propensity"] = chance
        if "timestamp" in kinds:
            instant = casts.instant("raw_timestamp", kinds["timestamp"], self.layout.time_zone or "UTC")
            values |= {"timestamp": instant, "written": "raw_timestamp"}
        if SEGMENT in kinds:
            text = f"CAST(raw_{SEGMENT} AS VARCHAR)"
            values[SEGMENT] = f"CASE WHEN coalesce(trim({text}), '') = '' THEN '{NO_SEGMENT}' ELSE {text} END"
        return values

    def _by_time(self, query: str, kinds: Mapping[str, pa.DataType]) -> str:
        """A session per view, for logs that keep one session_id while a page is shown again."""
        if "timestamp" not in kinds:
            raise UsageError(
                "`by_time` separates views by time, but the log has no timestamp; name one with "
                '`columns={"timestamp": ...}`.'
            )
        session = "CAST(session_id AS VARCHAR) || '@' || coalesce(CAST(timestamp AS VARCHAR), '')"
        return f"SELECT * EXCLUDE (session_id), {session} AS session_id FROM ({query})"

    def _whole(self, role: str, kinds: Mapping[str, pa.DataType], *, truth: bool = False) -> Cast:
        return casts.whole(f"raw_{role}", kinds[role], self._called(role), self.table.where, truth=truth)

    def _called(self, role: str) -> str:
        return f"column {self.columns.get(role, role)!r} ({role})"


def _selected(role: str, value: Field) -> str:
    """A value under the name of its role; text that is to be read as a number or a time is trimmed."""
    sql = value.sql
    if is_text(value.kind) and role not in _AS_THEY_ARE:
        sql = f"trim({sql})" if role == "timestamp" else casts.trimmed(sql)
    return f"{sql} AS raw_{role}"


def _bounded(whole: str) -> str:
    """A whole number that can be added to and multiplied."""
    return f"CASE WHEN {whole} > {1 << 40} THEN {1 << 40} ELSE {whole} END"


_REASON = f"""CASE
    WHEN session_id IS NOT NULL AND query_id IS NOT NULL AND doc_id IS NOT NULL AND position BETWEEN 1 AND {DEEPEST}
        AND NOT (is_long OR is_unequal OR is_odd OR is_off) THEN NULL
    WHEN is_long THEN 'long id'
    WHEN session_id IS NULL OR query_id IS NULL OR doc_id IS NULL THEN 'null key'
    WHEN is_unequal THEN 'unequal lists'
    WHEN is_odd THEN 'not a number'
    WHEN is_off THEN 'off the page'
    WHEN position > {DEEPEST} THEN 'not a number'
    WHEN coalesce(position, 0) < 1 AND clicks > 0 THEN 'click never shown'
    WHEN position IS NULL THEN 'null key'
    ELSE 'position below 1' END"""


# -- what users say to leave out ---------------------------------------------------------------------------------------


def set_aside(log: Log, condition: str, why: str, *, first: bool = False) -> Log:
    """The log with a reason for the rows that a condition of SQL names; `first`: also in place of other reasons."""
    return log.of(log.engine.sql(with_reason(log.table, condition, why, first=first)))


def with_reason(table: Relation, condition: str, why: str, *, first: bool = False) -> str:
    """SQL for a table with a reason for the rows that a condition names, unless they have one."""
    free = "TRUE" if first else "reason IS NULL"
    reason = f"CASE WHEN {free} AND {condition} THEN '{why}' ELSE reason END AS reason"
    return f"SELECT * EXCLUDE (reason), {reason} FROM {table}"


def is_listed(column: str, users: Sequence[str], engine: Engine) -> str:
    """A condition of SQL: whether a user is one of those that are listed."""
    listed = engine.open(pa.table({"excluded": pa.array(users, pa.string())}))
    return f"CAST({column} AS VARCHAR) IN (SELECT excluded FROM {listed})"


def _without(log: Log, layout: LogLayout) -> Log:
    """The log without users that are excluded, or look like bots."""
    users = listed_users(layout.exclude_users)
    if users is not None:
        if not log.has("user_id"):
            raise UsageError('`exclude_users` needs a column of users; name it with `columns={"user_id": ...}`.')
        log = set_aside(log, is_listed("user_id", users, log.engine), "excluded user")
    if layout.exclude_bots:
        from cldrank.clicks.bots import find_bots

        column = "user_id" if log.has("user_id") else "session_id"
        log = set_aside(log, f"{column} IN (SELECT name FROM {find_bots(log.table)})", "bot")
    return log


# -- refusals ----------------------------------------------------------------------------------------------------------


def _check_clicks(log: Log, query: _PlainQuery) -> None:
    """Refuse a column that cannot hold clicks: one that counts, but never counts 0."""
    clicked = query.fields.get("clicked")
    if clicked is None or types.is_boolean(clicked.kind):
        return
    readable = f"FROM {log.table} WHERE reason IS DISTINCT FROM 'not a number'"
    if log.engine.rows(f"SELECT clicks {readable} AND clicks = 0 LIMIT 1"):
        return
    counts = log.engine.row(f"SELECT count(*) AS n, max(clicks) AS most {readable}")
    if counts["n"] >= _FEW_ROWS and counts["most"] > 1:
        raise DataError(
            f"{log.table.where}: column {query.columns['clicked']!r} (clicked) is never 0 and goes up to "
            f"{counts['most']}: these are not clicks. Name the column that says which displayed results were clicked."
        )


def check_zones(table: Relation, what: str) -> None:
    """Refuse times with and without a zone in one table, by its `time_form`."""
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
    """The query of all pages of a log without queries: the only one of the dataset, whatever its id."""
    if len(query_ids) != 1:
        raise UsageError(
            f"`one_query` treats all pages as answers to one query, but the dataset has {len(query_ids):,} queries; "
            "give the candidates of one query, or a log that names the query of each page."
        )
    return str(query_ids[0])
