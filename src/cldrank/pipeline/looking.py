"""A look at a log and its features, from which `writing` makes a pipeline file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.imports.recognising import first_line, format_of_line
from cldrank.clicks.log.engines import connected
from cldrank.clicks.log.paths import existing, files_below
from cldrank.clicks.log.roles import CLICKS, OPTIONAL, REQUIRED, ROLES
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats import is_parquet
from cldrank.data.loading import load
from cldrank.errors import CldrankError, DataError, UnidentifiableError, UsageError
from cldrank.propensity.choosing import choose_method
from cldrank.wording import count, some

_ASSUMED = "power:1.0"
_OTHER_NAMES = {
    "session_id": ("session", "sessionid", "search_id", "request_id", "page_id", "impression_id"),
    "query_id": ("query", "qid", "user_query", "search_term", "keywords"),
    "doc_id": ("doc", "document_id", "document", "item_id", "item", "product_id", "sku", "url", "object_id", "docid"),
    "position": ("rank", "pos", "ordinal", "slot"),
    "clicked": ("click", "clicks", "is_click", "is_clicked", "label"),
    "documents": ("results", "items", "docs", "hits"),
    "clicked_positions": ("clicks", "clicked_ranks"),
    "timestamp": ("time", "ts", "datetime", "event_time", "date"),
    "user_id": ("user", "uid", "client_id", "visitor_id"),
    "surface": ("device", "layout", "page_type"),
}


@dataclass(frozen=True)
class LogLook:
    """What a look at the log and the features has found.

    kind        what wrote the log
    files       its files, as they were named; of UBI those of `queries` and of `events`
    columns     the columns that do not have the usual names, by role
    roles       all roles that the log has
    options     how it must be read
    assume      the curve to assume where the log does not show one
    remarks     what the user should know, a sentence each
    """

    kind: str
    files: tuple[str, ...]
    features: tuple[str, ...]
    queries: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    roles: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    assume: str = ""
    remarks: tuple[str, ...] = ()


def look(log: Sequence[str], features: Sequence[str], columns: Mapping[str, str] | None = None) -> LogLook:
    """Look at the beginning of a log, at its positions, at what its first file shows, and at the features.

    columns   the columns of the log that are known, by role; the others are found by their names
    """
    dataset = load(list(features))
    told = f"features: {count(dataset.n_queries, 'query', 'queries')}, {count(len(dataset.feature_names), 'feature')}"
    kind, (queries, events) = _written_by(log)
    known: dict[str, Any] = {"features": tuple(features), "feature_names": tuple(dataset.feature_names)}
    if kind != "plain":
        notes = (told, f"the log looks like one of {kind}: it is imported first")
        files = () if kind == "ubi" else tuple(log)
        return LogLook(kind, files, queries=queries, events=events, remarks=notes, **known)
    there: list[str] = []

    def choose(columns: Sequence[str]) -> list[str]:
        there.extend(columns)
        return list(columns)

    with connected("duckdb") as engine:
        table = engine.open(existing(list(log)), choose)
        renamed, roles = _roles(there, columns or {})
        options = _positions(table, renamed, roles)
    assumed, seen = _curve(log, dataset, renamed, options)
    remarks = (told, f"log: {some(there, 12)}", *_said(renamed, options), *seen)
    found = LogLook("plain", tuple(log), columns=renamed, roles=roles, options=options, remarks=remarks, **known)
    return replace(found, assume=assumed)


def _said(columns: dict[str, str], options: dict[str, Any]) -> Iterator[str]:
    if columns:
        yield "columns recognised: " + ", ".join(f"{name} as {role}" for role, name in columns.items())
    if options.get("first_position") == 0:
        yield "positions count from 0"


def _curve(
    log: Sequence[str], dataset: RankingDataset, columns: dict[str, str], options: dict[str, Any]
) -> tuple[str, tuple[str, ...]]:
    """A curve to assume, where the first file of the log does not show one; and what that file says."""
    first = files_below(existing(list(log)))[0][0]
    try:
        found = aggregate(first, dataset, columns=columns or None, max_rejected=1.0, **options)
    except CldrankError as error:
        return "", (f"{first} cannot be aggregated as it is: {error.said('shell')}",)
    account = found.account
    remarks: tuple[str, ...] = ()
    if account.n_rejected:
        remarks = (f"{first.name}: {str(account).splitlines()[0]}", *str(account).splitlines()[1:])
    try:
        chosen = choose_method(found.clicks, None)
    except UnidentifiableError as error:
        return _ASSUMED, (
            *remarks,
            f"propensities cannot be estimated, so {_ASSUMED} is assumed: {error.said('shell')}",
        )
    return "", (*remarks, f"propensities can be estimated by {chosen.name}: {chosen.reason}")


def _roles(there: Sequence[str], named: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The columns with other names than the usual ones, and the roles that were found; what is missing is refused."""
    for role, name in named.items():
        if role not in ROLES:
            raise UsageError(f"a column has the role {role!r}; the roles are {', '.join(ROLES)}.")
        if name.partition(".")[0] not in there:
            raise DataError(f"the log has no column {name!r} to be {role}; it has {some(there, 20)}.")
    by_name = {name.lower(): name for name in reversed(there)}
    needed: tuple[str, ...] = REQUIRED
    if {"documents"} & {*there, *named} or not (named.get("doc_id") or _guess("doc_id", by_name, set(named.values()))):
        clicks = (one for one in CLICKS if one in there or one in named)
        needed = ("session_id", "query_id", "documents", next(clicks, CLICKS[0]))
    found = dict(named) | {role: role for role in (*needed, *OPTIONAL) if role in there and role not in named}
    for role in (*needed, *OPTIONAL):
        if role not in found and (name := _guess(role, by_name, set(found.values()))):
            found[role] = name
    missing = [role for role in needed if role not in found]
    if missing:
        lacking = ["doc_id" if role == "documents" else role for role in missing]
        lists = " (or documents, if a row is a page with lists)" if "documents" in missing else ""
        raise DataError(
            f"the log has no column that looks like {some(lacking)}; it has {some(there, 20)}. Name the right one: "
            f"--column {lacking[0]}=NAME{lists}."
        )
    return {role: name for role, name in found.items() if role != name}, tuple(found)


def _guess(role: str, by_name: dict[str, str], used: set[str]) -> str:
    """The column that probably has a role."""
    named = (by_name[other] for other in (role, *_OTHER_NAMES.get(role, ())) if other in by_name)
    return next((name for name in named if name not in used), "")


def _positions(table: Any, columns: dict[str, str], roles: Sequence[str]) -> dict[str, Any]:
    """Where positions begin, if they are numbers."""
    if "position" not in roles:
        return {}
    position = table[columns.get("position", "position")]
    try:
        low = position.cast("int64").min().execute()
    except Exception:  # text that is not a number: aggregation accounts for it
        return {}
    return {"first_position": 0} if low == 0 else {}


def _written_by(log: Sequence[str]) -> tuple[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """What wrote a log, by its first record, and of UBI which files hold queries and which events."""
    queries, events = [], []
    for named in log:
        line = _beginning(files_below(existing([named]))[0][0])
        kind = format_of_line(line)
        if kind in ("metarank", "yandex"):
            return kind, ((), ())
        if kind == "ubi" and '"action_name"' in line:
            events.append(named)
        elif kind == "ubi" and '"query_response_' in line:  # a text of a query alone, any log may have
            queries.append(named)
    if not queries and not events:
        return "plain", ((), ())
    if not queries or not events:
        there, missing = ("queries", "events") if queries else ("events", "queries")
        raise UsageError(f"these are {there} of UBI; name the files of its {missing} as well.")
    return "ubi", (tuple(queries), tuple(events))


def _beginning(path: Path) -> str:
    """The first record of a file as a line; of Parquet, its fields alone."""
    import pyarrow.parquet as pq

    return json.dumps(dict.fromkeys(pq.read_schema(path).names)) if is_parquet(path) else first_line(path)
