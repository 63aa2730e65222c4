"""A look at a log and its features, and the commented pipeline file that it leads to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.log.engines import connected
from cldrank.clicks.log.paths import existing, files_below, format_of
from cldrank.clicks.log.schema import OPTIONAL, PAGE, REQUIRED
from cldrank.data.dataset import RankingDataset
from cldrank.data.loading import load
from cldrank.decoding import keys_of
from cldrank.errors import CldrankError, DataError, UnidentifiableError, UsageError
from cldrank.parameters import Value
from cldrank.pipeline.definition import log_options
from cldrank.pipeline.sections import (
    AuditSettings,
    CurveSettings,
    ExportSettings,
    RunsSettings,
    TrainSettings,
    VerdictSettings,
    WindowSettings,
)
from cldrank.propensity.choosing import choose_method
from cldrank.wording import count, some

_ASSUMED = "power:1.0"
_EXAMPLES = {"depth": "10", "clip": "0.01", "margin": "0.01"}  # of keys that have no default
_LOG_OPTIONS = {
    "columns": "",
    "first_position": "the number of the top position, 0 or 1",
    "one_query": "the log has no queries (recommendations): all pages belong to one",
    "by_time": "what a session sees at another time is another page",
    "every_click": "count each of several clicks on one result in one session",
    "max_rejected": "fail if a larger share of the rows has to be set aside",
    "engine": "duckdb or spark",
    "memory_limit": "DuckDB spills to disk beyond it",
    "master": "Spark: where it runs",
}

_OTHER_NAMES = {
    "session_id": ("session", "sessionid", "search_id", "request_id", "page_id", "impression_id"),
    "query_id": ("query", "qid", "user_query", "search_term", "keywords"),
    "doc_id": ("doc", "document_id", "document", "item_id", "item", "product_id", "url", "object_id", "docid"),
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


def look(log: Sequence[str], features: Sequence[str]) -> LogLook:
    """Look at the beginning of a log, at its positions, at what its first file shows, and at the features."""
    dataset = load(list(features))
    told = f"features: {count(dataset.n_queries, 'query', 'queries')}, {count(len(dataset.feature_names), 'feature')}"
    kind, (queries, events) = _written_by(log)
    known: dict[str, Any] = {"features": tuple(features), "feature_names": tuple(dataset.feature_names)}
    if kind != "plain":
        remarks = (told, f"the log looks like one of {kind}: it is imported first")
        files = () if kind == "ubi" else tuple(log)
        return LogLook(kind, files, queries=queries, events=events, remarks=remarks, **known)
    there: list[str] = []

    def choose(columns: Sequence[str]) -> list[str]:
        there.extend(columns)
        return list(columns)

    with connected("duckdb") as engine:
        table = engine.open(existing(list(log)), choose)
        columns, roles = _roles(there)
        options = _positions(table, columns, roles)
    assumed, seen = _curve(log, dataset, columns, options)
    remarks = (told, f"log: {some(there, 12)}", *_said(columns, options), *seen)
    found = LogLook("plain", tuple(log), columns=columns, roles=roles, options=options, remarks=remarks, **known)
    return replace(found, assume=assumed)


def _said(columns: dict[str, str], options: dict[str, Any]) -> Iterator[str]:
    if columns:
        yield "columns taken for others: " + ", ".join(f"{role} is {name}" for role, name in columns.items())
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
    account, remarks = found.account, ()
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


def _roles(there: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The columns with other names than the usual ones, and the roles that were found; what is missing is refused."""
    by_name = {name.lower(): name for name in reversed(there)}
    paged = "documents" in there or ("doc_id" not in there and not _guess("doc_id", by_name, set()))
    wanted = (*(PAGE if paged else REQUIRED), *OPTIONAL)
    found, used = {role: role for role in wanted if role in there}, {role for role in wanted if role in there}
    for role in wanted:
        if role not in found and (name := _guess(role, by_name, used)):
            found[role] = name
            used.add(name)
    missing = [role for role in (PAGE if paged else REQUIRED) if role not in found]
    if missing:
        raise DataError(
            f"the log has no column that looks like {some(missing)}; it has {some(there, 20)}. Write the pipeline file "
            "by hand, with [log.columns], or rename the columns."
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
    nothing: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    queries, events = [], []
    for named in log:
        first = files_below(existing([named]))[0][0]
        record = _first_record(first)
        if isinstance(record, str):
            if record:
                return "yandex", nothing
            continue
        record = record.get("_source", record)
        if record.get("event") in ("ranking", "interaction", "item", "user") and "id" in record:
            return "metarank", nothing
        if "action_name" in record:
            events.append(named)
        elif "user_query" in record and ("query_response_hit_ids" in record or "query_response_id" in record):
            queries.append(named)
    if not queries and not events:
        return "plain", nothing
    if not queries or not events:
        there, missing = ("queries", "events") if queries else ("events", "queries")
        raise UsageError(f"these are {there} of UBI; name the files of its {missing} as well.")
    return "ubi", (tuple(queries), tuple(events))


def _first_record(path: Path) -> dict[str, Any] | str:
    """The first line of JSON, the line itself where it is one of Yandex, else an empty text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if format_of(path) == "parquet":
            names = pq.read_schema(path).names
            return dict.fromkeys(names)
    except CldrankError:
        pass  # a log of Yandex has no suffix that says so
    with pa.input_stream(str(path), compression="detect") as stream:
        line = stream.read(1 << 16).decode("utf-8", "replace").partition("\n")[0]
    try:
        found = json.loads(line)
    except ValueError:
        words = line.split("\t")
        return line if len(words) > 3 and words[2] in ("Q", "C") else ""
    return found if isinstance(found, dict) else ""


# -- writing -------------------------------------------------------------------------------------------------------


def write_pipeline(found: LogLook, folder: Path) -> str:
    """The text of a pipeline file in a folder; every setting is there, with its default and a sentence."""
    lines = [
        "# From a click log to a shipped ranker: `cldrank pipeline run` with this file.",
        "# Paths are relative to the folder of this file. What is commented out is at its default.",
        "",
        "# seed = 0",
        *_log_lines(found, folder),
        "",
        "[features]",
        f"files = {_toml(_seen_from(found.features, folder))}",
        f"# {count(len(found.feature_names), 'feature')}: {some(found.feature_names, 8)}",
    ]
    for title, kind, chosen in (
        ("audit", AuditSettings, {"stop_at": None}),
        ("window", WindowSettings, {}),
        ("propensities", CurveSettings, {"assume": found.assume} if found.assume else {}),
        ("train", TrainSettings, {"method": None}),
        ("verdict", VerdictSettings, {"against": None, "ship_if": None}),
        ("export", ExportSettings, {"folder": None}),
        ("runs", RunsSettings, {"folder": None}),
    ):
        lines += ["", *_section_lines(title, kind, chosen, _suggestions(found))]
    return "\n".join(lines) + "\n"


def _suggestions(found: LogLook) -> dict[str, str]:
    """Values for keys that are commented out, where the log makes one likely."""
    window = {"last": '"28d"'} if "timestamp" in found.roles else {}
    surface = found.columns.get("surface", "surface")
    return {
        **_EXAMPLES,
        "to": '["opensearch"]',
        **window,
        **({"segment": _toml(surface)} if "surface" in found.roles else {}),
    }


def _log_lines(found: LogLook, folder: Path) -> list[str]:
    lines = ["", "[log]"]
    if found.kind == "ubi":
        lines += [f"queries = {_toml(_seen_from(found.queries, folder))}"]
        lines += [f"events = {_toml(_seen_from(found.events, folder))}"]
    else:
        lines += [f"files = {_toml(_seen_from(found.files, folder))}"]
    lines.append(f"from = {_toml(found.kind)}  # plain, ubi, metarank or yandex")
    for name, default in log_options().items() if found.kind == "plain" else ():
        about = _LOG_OPTIONS.get(name, "as in `cldrank clicks aggregate`")
        if name in found.options:
            lines.append(f"{name} = {_toml(found.options[name])}  # {about}")
        elif about:
            value = _toml(1 if name == "first_position" else default)
            lines.append(f"# {name} = {value or '…'}  # {about}")
    if found.columns:
        lines += ["", "[log.columns]  # which column has a role, where its name does not say so"]
        lines += [f"{role} = {_toml(name)}" for role, name in found.columns.items()]
    return lines


def _section_lines(title: str, kind: type[Value], chosen: Mapping[str, Any], suggested: Mapping[str, str]) -> list[str]:
    """A section with all its keys, each with its sentence.

    chosen      keys that are written out, with a value, or None for the default; the others are commented out
    suggested   values for those, as TOML, in place of their defaults
    """
    about = " ".join((kind.__doc__ or "").split())
    lines = [f"[{title}]", f"# {about}"]
    for key, one in keys_of(kind).items():
        if key in chosen:
            value = one.default if chosen[key] is None else chosen[key]
            lines.append(f"{key} = {_toml(value)}  # {one.about}")
            continue
        default = _toml(one.default)
        value = suggested.get(key, default)
        unlike = "" if value == default else f" (by default {'not set' if default in ('', '""', '[]') else default})"
        lines.append(f"# {key} = {value}  # {one.about}{unlike}")
    return lines


def _seen_from(named: Sequence[str], folder: Path) -> list[str]:
    """Paths as they are seen from a folder; names of data sets stay as they are."""
    from cldrank.data import catalogue

    return [
        one if catalogue.is_reference(one) or Path(one).is_absolute() else Path(os.path.relpath(one, folder)).as_posix()
        for one in named
    ]


def _toml(value: Any) -> str:
    """A value as TOML writes it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
