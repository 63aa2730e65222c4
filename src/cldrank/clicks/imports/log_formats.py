"""UBI and Metarank: where each format keeps what a page and an event say.

UBI (User Behavior Insights 1.3, of OpenSearch, Solr and others) has queries and events, joined by query_id. Metarank
has rankings, whose items lie in the order of their positions, and interactions with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cldrank.clicks.imports.record_join import ImportOptions, Records, other_actions
from cldrank.clicks.log import casts
from cldrank.errors import DataError, FormatError
from cldrank.tables import Engine
from cldrank.tables.columns import text_literal
from cldrank.tables.types import is_list, is_text
from cldrank.wording import some

_ENVELOPE = "_source"  # where exports of an index keep the document
_BULK = ("index", "create")  # what the lines of a bulk file hold that stand above a document
_BLANKS = "[\\s\u00a0\u3000]+"
_MOST_NAMED = 12
_HITS = ("query_response_hit_ids", "query_response_objects_ids")  # the second in older versions
_FEATURES = ("event_attributes.features", "features")  # as they were when the result was shown
_ORDINALS = ("event_attributes.position.ordinal", "event_attributes.rank", "ordinal", "rank")
_QUERY_FIELDS = ("query", "search", "search_query", "search_term", "q")  # of a ranking of Metarank
_ONE_QUERY = "all"  # the query of all pages in a log that names none


class RecordFields:
    """SQL for the fields of records, by path, also in the envelope of an index; the first path with a value counts.

    what   what the records are, for messages
    zone   of times that name none
    """

    def __init__(
        self, source: Any, engine: Engine, kinds: Mapping[str, pa.DataType], what: str, zone: str | None
    ) -> None:
        columns = _columns(kinds)
        schema = pa.schema([*columns, pa.field(_ENVELOPE, pa.struct(columns))])
        roots = {*kinds, *schema.names}
        self.what, self.zone = what, zone or "UTC"
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

    def times(self, path: str) -> str:
        """SQL for timestamp, in UTC, and for time_form, how it is written."""
        sql, kind = self.value(path)
        sql = casts.trimmed(sql) if is_text(kind) else sql
        moment = casts.instant(sql, kind, self.zone)
        return f"{moment} AS timestamp, {casts.time_form(sql, kind, moment)} AS time_form"


def ubi_records(sources: Sequence[Any], engine: Engine, options: ImportOptions, *, together: bool) -> Records:
    """The queries and events of two sources; `together`: they are the same files, which hold both."""
    queries, events = sources
    names = ["query_id", "user_query", "client_id", "application", "timestamp", "action_name", options.surface, *_BULK]
    kinds = dict.fromkeys(names, pa.string()) | dict.fromkeys(_HITS, pa.list_(pa.string()))
    fields = RecordFields(queries, engine, kinds, "queries of UBI", options.time_zone)
    bulk = f"{fields.value(*_BULK)[0]} IS NOT NULL AND {fields.text('query_id')} IS NULL"
    stray = f"CASE WHEN {fields.text('action_name')} IS NOT NULL THEN 'not a query' WHEN {bulk} THEN 'bulk line' END"
    raw = (
        f"SELECT {fields.text('query_id', required=True)} AS page, "
        f"{query_text(fields.text('user_query', required=True), options.normalise)} AS query, "
        f"{fields.times('timestamp')}, {fields.text('client_id')} AS user_id, "
        f"{fields.text(options.surface)} AS surface, {fields.texts(*_HITS)} AS documents, "
        f"{fields.text('application')} AS client, {stray} AS stray FROM {fields.table}"
    )
    pages = engine.hold(f"SELECT * FROM ({raw}) WHERE stray IS NULL" if together else raw)
    document = f"event_attributes.object.{options.object_id}"
    names = ["action_name", "query_id", "user_query", "timestamp", document, *_ORDINALS[:2], _FEATURES[0], *_BULK]
    fields = RecordFields(events, engine, dict.fromkeys(names, pa.string()), "events of UBI", options.time_zone)
    ordinal = f"CAST({fields.value(*_ORDINALS)[0]} AS VARCHAR)"
    features, kind = fields.value(*_FEATURES)
    action = fields.text("action_name", required=True)
    raw = (
        f"SELECT {action} AS action, "
        f"{fields.text('query_id', required=True)} AS page, "
        f"{fields.text(document, options.object_id, required=True)} AS doc_id, "
        f"{casts.whole(casts.trimmed(ordinal), pa.string()).value} AS ordinal, "
        f"CAST({fields.value('timestamp')[0]} AS VARCHAR) AS mark, "
        f"{query_text(fields.text('user_query'), options.normalise)} AS query, "
        f"{features if is_text(kind) else f'to_json({features})'} AS features, "
        f"{fields.value(*_BULK)[0]} IS NOT NULL AND {action} IS NULL AS is_bulk FROM {fields.table}"
    )
    shown = _among("action", options.impression_action) if options.impressions != "returned" else "FALSE"
    record = (
        f"CASE WHEN {_among('action', options.click_action)} THEN 'click' WHEN {shown} THEN 'impression' "
        "WHEN is_bulk THEN 'bulk' ELSE 'other' END"
    )
    own = "WHERE action IS NOT NULL OR is_bulk" if together else ""
    return Records(
        pages, engine.sql(f"SELECT *, {record} AS record FROM ({raw}) {own}"), fields.table.where, impressions=True
    )


def metarank_records(source: Any, engine: Engine, options: ImportOptions) -> Records:
    """The rankings and interactions of some files or a frame."""
    texts = ("event", "id", "timestamp", "user", "ranking", "item", "type", "tenant")
    named = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
    kinds = {**dict.fromkeys(texts, pa.string()), "fields": named, "items": pa.list_(pa.struct([("id", pa.string())]))}
    fields = RecordFields(source, engine, kinds, "events of Metarank", options.time_zone)
    table, query_field = fields.table, options.query_field
    query, items = fields.value("fields")[0], fields.value("items", required=True)[0]
    if "CAST(NULL" not in query:
        names = _QUERY_FIELDS if query_field is None else (query_field,)
        named = (f"list_filter({query}, lambda f: f.name = {text_literal(name)})" for name in names)
        wanted = [f"list_extract({fields_of_name}, 1).value" for fields_of_name in named]
        query = f"CAST(coalesce({', '.join(wanted)}) AS VARCHAR)"
    needed = {"event": "event_", "id": "id_", "ranking": "page", "item": "doc_id", "type": "type_"}
    read = engine.hold(
        f"SELECT {', '.join(f'{fields.text(name, required=True)} AS {column}' for name, column in needed.items())}, "
        f"{query_text(query, options.normalise)} AS query, {fields.times('timestamp')}, "
        f"CAST({fields.value('timestamp')[0]} AS VARCHAR) AS mark, {fields.text('user')} AS user_id, "
        f"{fields.text('tenant')} AS surface, "
        f"list_transform({items}, lambda i: nullif(CAST(i.id AS VARCHAR), '')) AS documents FROM {table}"
    )
    click = f"event_ = 'interaction' AND {_among('type_', options.click_action)}"
    events = engine.sql(
        f"SELECT CASE WHEN {click} THEN 'click' ELSE 'other' END AS record, page, doc_id, mark, "
        "CAST(NULL AS BIGINT) AS ordinal, CAST(NULL AS VARCHAR) AS query, CAST(NULL AS VARCHAR) AS features, "
        "CASE WHEN event_ = 'interaction' THEN type_ ELSE event_ END AS action "
        f"FROM {read} WHERE event_ IS DISTINCT FROM 'ranking'"
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
            f"no ranking names a query: all pages count for the query {_ONE_QUERY!r}; if a field holds the query, name "
            "it with `query_field`",
        )
    query = "query" if counts["asked"] else text_literal(_ONE_QUERY)
    pages = engine.sql(
        f"SELECT id_ AS page, {query} AS query, timestamp, time_form, user_id, surface, documents, "
        "CAST(NULL AS VARCHAR) AS client, CAST(NULL AS VARCHAR) AS stray "
        f"FROM {read} WHERE event_ = 'ranking'"
    )
    return Records(pages, events, table.where, page_name="ranking", id_name="ranking", notes=notes)


def _columns(kinds: Mapping[str, pa.DataType]) -> list[pa.Field]:
    """Fields of JSON records; dots in names lead into objects."""
    inner: dict[str, dict[str, pa.DataType]] = {}
    for path, kind in kinds.items():
        root, _, rest = path.partition(".")
        inner.setdefault(root, {})[rest] = kind
    return [pa.field(root, below.get("") or pa.struct(_columns(below))) for root, below in inner.items()]


def query_text(sql: str, normalise: bool) -> str:
    """A query in lower case with single blanks between its words, or as it was typed; blank ones are NULL."""
    if normalise:
        return f"nullif(lower(trim(regexp_replace({sql}, '{_BLANKS}', ' ', 'g'))), '')"
    return f"CASE WHEN regexp_replace({sql}, '{_BLANKS}', '', 'g') <> '' THEN {sql} END"


def _among(sql: str, words: Sequence[str]) -> str:
    return f"coalesce({sql} IN ({', '.join(map(text_literal, words))}), FALSE)"
