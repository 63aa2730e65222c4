r"""UBI, Metarank and Yandex: where each format keeps what a page and an event say.

UBI (User Behavior Insights 1.3, of OpenSearch, Solr and others) has queries and events, joined by query_id. Metarank
has rankings, whose items lie in the order of their positions, and interactions with them. The log of the Yandex
relevance prediction challenge has tab-separated lines of queries with their URLs, and of clicks:

    SessionID TimePassed Q QueryID RegionID URL…
    SessionID TimePassed C URL

A click there belongs to the last query of its session that showed the URL, by time and, at equal times, by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cldrank.clicks.imports.record_join import ImportOptions, Records, other_actions
from cldrank.clicks.log import casts
from cldrank.errors import DataError, FormatError
from cldrank.reading import reading
from cldrank.tables import Engine
from cldrank.tables.sources import text_files
from cldrank.tables.types import is_list, is_text
from cldrank.wording import some

FORMATS = {"ubi": "UBI", "metarank": "events of Metarank", "yandex": "a log of Yandex"}
_START = 1 << 20
_PARQUET = (".parquet", ".pq")
_ENVELOPE = "_source"  # where exports of an index keep the document
_BLANKS = "[\\s\u00a0\u3000]+"
_MOST_NAMED = 12
_HITS = ("query_response_hit_ids", "query_response_objects_ids")  # the second in older versions
_ORDINALS = ("event_attributes.position.ordinal", "event_attributes.rank", "ordinal", "rank")
_QUERY_FIELDS = ("query", "search", "search_query", "search_term", "q")  # of a ranking of Metarank
_ONE_QUERY = "all"  # the query of all pages in a log that names none
_ID = "[0-9]{1,18}"  # of Yandex
_LONGEST_EXAMPLE = 60


class RecordFields:
    """SQL for the fields of records, by path, also in the envelope of an index; the first path with a value counts.

    what   what the records are, for messages
    """

    def __init__(self, source: Any, engine: Engine, kinds: Mapping[str, pa.DataType], what: str) -> None:
        columns = _columns(kinds)
        schema = pa.schema([*columns, pa.field(_ENVELOPE, pa.struct(columns))])
        roots = {*kinds, *schema.names}
        self.what = what
        self.table = engine.open(
            source, lambda names: [name for name in names if name in roots], what="log", json_schema=schema
        )

    def value(self, *paths: str, required: bool = False) -> tuple[str, pa.DataType]:
        """SQL and type; NULL where no record has the field."""
        located = [
            casts.find_field(self.table, f"{prefix}{path}") for path in paths for prefix in (f"{_ENVELOPE}.", "")
        ]
        values = [(place.sql, place.kind) for place in located if place and not pa.types.is_null(place.kind)]
        if not values and required:
            raise FormatError(
                f"there is no column {paths[0]}, which {self.what} have; the columns are "
                f"{some(self.table.columns, _MOST_NAMED)}.",
                path=self.table.where,
            )
        if len(values) < 2:
            return values[0] if values else ("CAST(NULL AS VARCHAR)", pa.string())
        if len({kind for _, kind in values}) == 1:
            return f"coalesce({', '.join(sql for sql, _ in values)})", values[0][1]
        return f"coalesce({', '.join(f'CAST({sql} AS VARCHAR)' for sql, _ in values)})", pa.string()

    def text(self, *paths: str, required: bool = False) -> str:
        """Ids and words as text, NULL where they are blank."""
        sql, kind = self.value(*paths, required=required)
        return f"nullif(CAST({casts.identifier(sql, kind, paths[0], self.table.where).value} AS VARCHAR), '')"

    def texts(self, *paths: str) -> str:
        """Lists of ids as lists of text."""
        sql, kind = self.value(*paths)
        if not is_list(kind):
            if sql.startswith("CAST(NULL"):
                return "CAST(NULL AS VARCHAR[])"
            raise FormatError(f"{paths[0]} holds {kind}, not lists.", path=self.table.where)
        return f"list_transform(CAST({sql} AS VARCHAR[]), lambda hit: nullif(hit, ''))"

    def times(self, path: str, zone: str | None) -> str:
        """SQL for timestamp, in UTC, and for time_form, how it is written, which a given zone makes irrelevant."""
        sql, kind = self.value(path)
        sql = casts.trimmed(sql) if is_text(kind) else sql
        moment = casts.instant(sql, kind, zone or "UTC")
        form = casts.time_form(sql, kind, moment) if zone is None else "CAST(NULL AS VARCHAR)"
        return f"{moment} AS timestamp, {form} AS time_form"


def ubi_records(queries: Any, events: Any, engine: Engine, options: ImportOptions) -> Records:
    """The queries and events of some files or frames."""
    names = ("query_id", "user_query", "client_id", "timestamp", "action_name", options.surface)
    kinds = dict.fromkeys(names, pa.string()) | dict.fromkeys(_HITS, pa.list_(pa.string()))
    fields = RecordFields(queries, engine, kinds, "queries of UBI")
    pages = engine.hold(
        f"SELECT {fields.text('query_id', required=True)} AS page, "
        f"{_query_text(fields.text('user_query', required=True), options)} AS query, "
        f"{fields.times('timestamp', options.time_zone)}, {fields.text('client_id')} AS user_id, "
        f"{fields.text(options.surface)} AS surface, {fields.texts(*_HITS)} AS documents, "
        f"{fields.text('action_name')} IS NOT NULL AS stray FROM {fields.table}"
    )
    document = f"event_attributes.object.{options.object_id}"
    names = ("action_name", "query_id", "timestamp", document, *_ORDINALS[:2])
    fields = RecordFields(events, engine, dict.fromkeys(names, pa.string()), "events of UBI")
    ordinal = f"CAST({fields.value(*_ORDINALS)[0]} AS VARCHAR)"
    raw = (
        f"SELECT {fields.text('action_name', required=True)} AS action, "
        f"{fields.text('query_id', required=True)} AS page, "
        f"{fields.text(document, options.object_id, required=True)} AS doc_id, "
        f"{casts.whole(casts.trimmed(ordinal), pa.string()).value} AS ordinal, "
        f"CAST({fields.value('timestamp')[0]} AS VARCHAR) AS mark FROM {fields.table}"
    )
    shown = _among("action", options.impression_action) if options.impressions != "returned" else "FALSE"
    kind = f"CASE WHEN {_among('action', options.click_action)} THEN 'click' WHEN {shown} THEN 'impression'"
    return Records(
        pages,
        engine.sql(f"SELECT *, {kind} ELSE 'other' END AS record FROM ({raw})"),
        fields.table.where,
        impressions=True,
    )


def metarank_records(source: Any, engine: Engine, options: ImportOptions) -> Records:
    """The rankings and interactions of some files or a frame."""
    texts = ("event", "id", "timestamp", "user", "ranking", "item", "type", "tenant")
    named = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
    kinds = {**dict.fromkeys(texts, pa.string()), "fields": named, "items": pa.list_(pa.struct([("id", pa.string())]))}
    fields = RecordFields(source, engine, kinds, "events of Metarank")
    table, query_field = fields.table, options.query_field
    query, items = fields.value("fields")[0], fields.value("items", required=True)[0]
    if "CAST(NULL" not in query:
        names = _QUERY_FIELDS if query_field is None else (query_field,)
        wanted = [f"list_extract(list_filter({query}, lambda f: f.name = {_literal(name)}), 1).value" for name in names]
        query = f"CAST(coalesce({', '.join(wanted)}) AS VARCHAR)"
    needed = {"event": "event_", "id": "id_", "ranking": "page", "item": "doc_id", "type": "type_"}
    read = engine.hold(
        f"SELECT {', '.join(f'{fields.text(name, required=True)} AS {column}' for name, column in needed.items())}, "
        f"{_query_text(query, options)} AS query, {fields.times('timestamp', options.time_zone)}, "
        f"CAST({fields.value('timestamp')[0]} AS VARCHAR) AS mark, {fields.text('user')} AS user_id, "
        f"{fields.text('tenant')} AS surface, "
        f"list_transform({items}, lambda i: nullif(CAST(i.id AS VARCHAR), '')) AS documents FROM {table}"
    )
    click = f"event_ = 'interaction' AND {_among('type_', options.click_action)}"
    events = engine.sql(
        f"SELECT CASE WHEN {click} THEN 'click' ELSE 'other' END AS record, page, doc_id, mark, CASE WHEN event_ = "
        f"'interaction' THEN type_ ELSE event_ END AS action FROM {read} WHERE event_ IS DISTINCT FROM 'ranking'"
    )
    counts = engine.row(f"SELECT count(*) AS n, count(query) AS asked FROM {read} WHERE event_ = 'ranking'")
    notes: tuple[str, ...] = ()
    if not counts["n"]:
        raise DataError(
            f"{table.where}: there are no ranking events; the events are {other_actions(events) or 'none'}."
        )
    if not counts["asked"]:
        if query_field is not None:
            raise DataError(f"{table.where}: no ranking has the field {query_field!r}; see `query_field`.")
        notes = (
            f"no ranking names a query: all pages belong to one, {_ONE_QUERY!r}; if a field holds it, name it with "
            "`query_field`",
        )
    query = "query" if counts["asked"] else _literal(_ONE_QUERY)
    pages = engine.sql(
        f"SELECT id_ AS page, {query} AS query, timestamp, time_form, user_id, surface, documents FROM {read} "
        "WHERE event_ = 'ranking'"
    )
    return Records(pages, events, table.where, page_name="ranking", id_name="ranking", notes=notes)


def yandex_records(source: Any, engine: Engine) -> Records:
    """The queries and clicks of some files; the region of a query is its surface."""
    files = text_files(source, "log")
    for file in files:
        parts = first_line(file).split("\t")
        if parts[1:2] == ["M"] or any("," in part for part in parts[3:]):
            raise FormatError(
                "this is not a log of Yandex relevance prediction, whose lines are SessionID TimePassed Q QueryID "
                "RegionID URL… and SessionID TimePassed C URL; records M, terms and domains belong to another layout.",
                path=file,
            )
    kinds = {
        "query": f"^{_ID}\t{_ID}\tQ\t{_ID}\t{_ID}(\t{_ID})+$",
        "click": f"^{_ID}\t{_ID}\tC\t{_ID}$",
        "unknown type": f"^{_ID}\t{_ID}\t[^QC\t]+(\t|$)",
    }
    kind = " ".join(f"WHEN regexp_matches(line, '{pattern}') THEN '{name}'" for name, pattern in kinds.items())
    lines = f"SELECT number, regexp_replace(line, '\r$', '') AS line FROM {engine.lines(files)}"
    read = engine.hold(
        f"SELECT *, string_split(line, '\t') AS parts, CASE {kind} ELSE 'broken line' END AS kind FROM ({lines}) "
        "WHERE trim(line) <> ''"
    )
    if not engine.rows(f"SELECT 1 AS n FROM {read} WHERE kind = 'query' LIMIT 1"):
        where = some(files, 3)
        raise DataError(f"{where}: there are no lines of queries (SessionID TimePassed Q QueryID RegionID URL…).")
    part = "CAST(list_extract(parts, {}) AS BIGINT)".format
    timed = f"number, list_extract(parts, 1) AS session, {part(2)} AS time"
    documents = f"list_transform(range(6, array_length(parts) + 1), lambda place: {part('place')})"
    turn = "row_number() OVER (PARTITION BY session ORDER BY time, number)"
    serps = engine.hold(
        f"SELECT *, {turn} AS turn FROM (SELECT {timed}, {part(4)} AS query, list_extract(parts, 5) AS region, "
        f"{documents} AS documents FROM {read} WHERE kind = 'query')"
    )
    pages = engine.sql(
        f"SELECT session || '-' || CAST(turn AS VARCHAR) AS page, query, region AS surface, documents FROM {serps}"
    )
    clicks = f"SELECT {timed}, {part(4)} AS doc_id FROM {read} WHERE kind = 'click'"
    shown = f"SELECT session, turn, time, number, unnest(documents) AS doc_id FROM {serps}"
    attributed = (
        f"SELECT c.session, c.doc_id, c.time, max(s.turn) AS turn FROM ({clicks}) AS c LEFT JOIN ({shown}) AS s "
        "ON c.session = s.session AND c.doc_id = s.doc_id AND (s.time < c.time OR (s.time = c.time AND s.number < "
        "c.number)) GROUP BY c.number, c.session, c.doc_id, c.time"
    )
    events = engine.sql(
        "SELECT 'click' AS record, session || coalesce('-' || CAST(turn AS VARCHAR), '') AS page, doc_id, "
        "CAST(NULL AS VARCHAR) AS action, CAST(time AS VARCHAR) AS mark, CASE WHEN turn IS NULL THEN 'never shown' END "
        f"AS reason FROM ({attributed}) UNION ALL SELECT 'other', NULL, NULL, left(line, {_LONGEST_EXAMPLE}), NULL, "
        f"kind FROM {read} WHERE kind NOT IN ('query', 'click')"
    )
    return Records(pages, events, some(files, 3), id_name="session", action_name="line")


def _columns(kinds: Mapping[str, pa.DataType]) -> list[pa.Field]:
    """Fields of JSON records; dots in names lead into objects."""
    inner: dict[str, dict[str, pa.DataType]] = {}
    for path, kind in kinds.items():
        root, _, rest = path.partition(".")
        inner.setdefault(root, {})[rest] = kind
    return [pa.field(root, below.get("") or pa.struct(_columns(below))) for root, below in inner.items()]


def _query_text(sql: str, options: ImportOptions) -> str:
    """A query in lower case with single blanks between its words, or as it was typed; blank ones are NULL."""
    if options.normalise:
        return f"nullif(lower(trim(regexp_replace({sql}, '{_BLANKS}', ' ', 'g'))), '')"
    return f"CASE WHEN regexp_replace({sql}, '{_BLANKS}', '', 'g') <> '' THEN {sql} END"


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _among(sql: str, words: Sequence[str]) -> str:
    return f"coalesce({sql} IN ({', '.join(map(_literal, words))}), FALSE)"


# -- is it the format that was named? ----------------------------------------------------------------------------------


def check_format(source: str, paths: Any) -> None:
    """Refuse files that are empty, that hold one JSON array, or that look like another format than the one named."""
    files = text_files(paths, "log")
    lines = {file: first_line(file) for file in files if file.suffix not in _PARQUET}
    if lines and len(lines) == len(files) and not any(lines.values()):
        raise DataError(f"{some(files, 3)}: the log is empty, it has no records.")
    for file, line in lines.items():
        if line.startswith("["):
            raise FormatError("a JSON array; write one record per line, as `jq -c '.[]'` does.", path=file)
        seems = format_of_line(line)
        if seems is not None and seems != source:
            raise FormatError(f"this looks like {FORMATS[seems]}, not {FORMATS[source]}; import it as such.", path=file)


def format_of_line(line: str) -> str | None:
    """The format that the first line of a file seems to be in; None where nothing tells."""
    fields = line.split("\t")
    if len(fields) >= 4 and fields[2] in ("Q", "C") and fields[0].isdigit():
        return "yandex"
    try:
        record = json.loads(line)
    except ValueError:
        return None
    record = record if isinstance(record, dict) else {}
    record = record["_source"] if isinstance(record.get("_source"), dict) else record
    if isinstance(record.get("event"), str) and {"items", "item", "ranking", "id"} & set(record):
        return "metarank"
    if {"action_name", "user_query", "query_response_id", "query_response_hit_ids"} & set(record):
        return "ubi"
    return None


def first_line(path: Path) -> str:
    """The first line of a text file that is not blank, of its first MiB."""
    import pyarrow as pa

    with reading(path, "a log"), pa.input_stream(str(path), compression="detect") as stream:
        start: str = stream.read(_START).decode("utf-8-sig", errors="replace")
    return next((line for line in start.splitlines() if line.strip()), "").strip("\r\n ")
