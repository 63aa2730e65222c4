"""The queries to ask, and what a log knows of them: what was shown, and features that were logged with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cldrank.clicks.imports.log_formats import RecordFields, query_text
from cldrank.errors import DataError
from cldrank.tables import Engine, Relation, Role, resolve_columns
from cldrank.tables.columns import quoted, text_literal
from cldrank.tables.types import is_text

_ROLES = (Role("query_id", required=True), Role("doc_id", required=True), Role("timestamp"))

Shown = dict[str, dict[str, dict[str, Any]]]  # by query and document: the logged features, perhaps none


def read_queries(source: Any, engine: Engine, *, normalise: bool = True) -> dict[str, str]:
    """The texts of queries by id, sorted by id.

    A table has the columns query_id and query; without texts, as in a log imported from UBI, the id is the text. In
    queries of UBI, which have `user_query`, the normalised text is the id, as an import has it.
    """
    names = ("query_id", "query", "user_query")
    fields = RecordFields(source, engine, dict.fromkeys(names, pa.string()), "queries", None)
    query_id, text, typed = (fields.text(name) for name in names)
    rows = (
        f"(SELECT {query_id} AS query_id, {text} AS text, {query_text(typed, normalise)} AS typed FROM {fields.table})"
    )
    known = engine.row(f"SELECT count(query_id) AS ids, count(text) AS texts, count(typed) AS typed FROM {rows}")
    if known["typed"]:
        both = "typed AS query_id, typed AS text"
    else:
        both = "query_id, text" if known["texts"] else "query_id, query_id AS text"
    found = engine.rows(f"SELECT DISTINCT {both} FROM {rows} ORDER BY 1, 2")
    queries = {row["query_id"]: row["text"] for row in found if row["query_id"] is not None and row["text"] is not None}
    if not queries:
        raise DataError(f"{fields.table.where}: there are no queries, which have query_id and query, or user_query.")
    for row in found:
        if row["text"] not in (None, queries.get(row["query_id"], row["text"])):
            raise DataError(f"{fields.table.where}: query {row['query_id']!r} has several texts.")
        if row["text"] is None and row["query_id"] not in (None, *queries):
            raise DataError(f"{fields.table.where}: query {row['query_id']!r} has no text.")
    return queries


def open_log(source: Any, engine: Engine, columns: Mapping[str, str] | None) -> Relation:
    """A row per query and document that a log shows, with the latest features that were logged, if any (as JSON)."""
    table = engine.open(source, what="log")
    own = {role: quoted(name) for role, name in resolve_columns(table.columns, columns, _ROLES, table.where).items()}
    features = "CAST(NULL AS VARCHAR)"
    if "features" in table.columns:
        features = "features" if is_text(table.schema.field("features").type) else "CAST(to_json(features) AS VARCHAR)"
    latest = f"max_by({features}, {own['timestamp']})" if "timestamp" in own else "NULL"
    ids = ", ".join(f"CAST({own[role]} AS VARCHAR) AS {role}" for role in ("query_id", "doc_id"))
    return engine.hold(
        f"SELECT {ids}, coalesce({latest}, max({features})) AS features FROM {table} WHERE {own['query_id']} IS NOT NULL "
        f"AND {own['doc_id']} IS NOT NULL GROUP BY ALL ORDER BY 1, 2"
    )


def shown_of(log: Relation, queries: Sequence[str]) -> Shown:
    """What a log shows for some queries."""
    chosen = ", ".join(map(text_literal, queries))
    shown: Shown = {query: {} for query in queries}
    for row in log.engine.rows(f"SELECT * FROM {log} WHERE query_id IN ({chosen}) ORDER BY query_id, doc_id"):
        shown[row["query_id"]][row["doc_id"]] = _logged(row)
    return shown


def _logged(row: Mapping[str, Any]) -> dict[str, Any]:
    """The logged features of a document; what is no number or null is refused."""
    place = f"query {row['query_id']!r}, document {row['doc_id']!r}"
    try:
        values = {} if row["features"] is None else json.loads(row["features"])
    except ValueError:
        values = None
    if not isinstance(values, dict) or any(not isinstance(value, int | float | None) for value in values.values()):
        raise DataError(f"the features logged for {place} must be an object of numbers, not {row['features']!r:.80}.")
    return values
