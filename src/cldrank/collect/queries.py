"""The queries to ask, and what a log knows of them: what was shown, and features that were logged with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cldrank.clicks.imports.log_formats import RecordFields, query_text
from cldrank.errors import DataError
from cldrank.tables import Engine, Relation
from cldrank.tables.columns import text_literal
from cldrank.tables.types import is_text

Shown = dict[str, dict[str, dict[str, Any]]]  # by query and document: logged features, if any


def read_queries(source: Any, engine: Engine) -> dict[str, str]:
    """The texts of queries by id, sorted by id.

    A table has the columns query_id and query; without texts, as in a log imported from UBI, the id is the text. In
    queries of UBI, which have `user_query`, the normalised text is the id, as an import has it.
    """
    fields = RecordFields(
        source, engine, dict.fromkeys(("query_id", "query", "user_query"), pa.string()), "queries", None
    )
    typed, text = query_text(fields.text("user_query"), True), query_text(fields.text("query"), False)
    rows = f"(SELECT {fields.text('query_id')} AS id, {text} AS text, {typed} AS typed FROM {fields.table})"
    has = engine.row(f"SELECT count(typed) > 0 AS typed, count(text) > 0 AS text FROM {rows}")
    query, words = ("typed", "typed") if has["typed"] else ("id", "text" if has["text"] else "id")
    found = engine.rows(
        f"SELECT {query} AS id, min({words}) AS text, count(DISTINCT {words}) AS texts FROM {rows} "
        f"WHERE {query} IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    for row in found:
        if row["texts"] != 1:
            problem = f"query {row['id']!r} has {row['texts']} texts, and needs one"
            raise DataError(f"{fields.table.where}: {problem}, in the column query.")
    if not found:
        raise DataError(f"{fields.table.where}: there are no queries, which have query_id and query, or user_query.")
    return {row["id"]: row["text"] for row in found}


def shown_log(source: Any, engine: Engine) -> Relation:
    """A row per query and document that a log shows, with the latest features that were logged, if any (as JSON)."""
    names = ("query_id", "doc_id", "timestamp", "features")
    fields = RecordFields(source, engine, dict.fromkeys(names, pa.string()), "logs", None)
    query, document = (fields.text(name, required=True) for name in names[:2])
    (moment, _), (features, kind) = map(fields.value, names[2:])
    features = features if is_text(kind) else f"CAST(to_json({features}) AS VARCHAR)"
    rows = f"SELECT {query} AS query, {document} AS document, {moment} AS moment, {features} AS features"
    return engine.hold(
        "SELECT query AS query_id, document AS doc_id, coalesce(max_by(features, moment), max(features)) AS features "
        f"FROM ({rows} FROM {fields.table}) WHERE query IS NOT NULL AND document IS NOT NULL GROUP BY 1, 2"
    )


def shown_of(log: Relation, queries: Sequence[str]) -> Shown:
    """What a log shows for some queries; features that are no numbers are refused."""
    shown: Shown = {query: {} for query in queries}
    chosen = ", ".join(map(text_literal, queries))
    for row in log.engine.rows(f"SELECT * FROM {log} WHERE query_id IN ({chosen}) ORDER BY query_id, doc_id"):
        try:
            values = json.loads(row["features"] or "{}")
            own = {name: None if value is None else float(value) for name, value in values.items()}
        except (ValueError, TypeError, AttributeError):
            place = f"query {row['query_id']!r}, document {row['doc_id']!r}"
            raise DataError(f"the features of {place} in the log are no object of numbers.") from None
        shown[row["query_id"]][row["doc_id"]] = own
    return shown
