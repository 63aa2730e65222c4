"""User Behavior Insights (UBI 1.3, of OpenSearch, Solr and others): queries and events, joined by query_id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.counting import count_row
from cldrank.clicks.imports import fields
from cldrank.clicks.imports.joining import Records, other_actions
from cldrank.clicks.imports.paging import ImportedPages, each_once, located
from cldrank.clicks.imports.recognising import fields_of
from cldrank.clicks.log.engines import Engine
from cldrank.errors import DataError, FormatError, setting
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir

    from cldrank.clicks.imports.import_report import Note
    from cldrank.clicks.log.parts import LogPart

_HITS = ("query_response_hit_ids", "query_response_objects_ids")  # the second in older versions
_OBJECT = "event_attributes.object"
_ORDINALS = ("event_attributes.position.ordinal", "event_attributes.rank", "ordinal", "rank")
_KINDS = ("impression", "click", "other")
_STRAY = 0.1  # the share of ordinals that may speak for the other start


@dataclass(frozen=True)
class UbiOptions:
    """How events are read.

    impressions   "auto", "events" or "returned": what counts as shown
    object_id     which id of an object is the document: "object_id" or "internal_id"
    surface       the field of a query that names its surface, such as "query_attributes.device"
    """

    click_action: tuple[str, ...]
    impression_action: tuple[str, ...]
    impressions: str
    object_id: str
    normalise: bool
    first_position: int | None
    surface: str = "application"


def ubi_records(
    queries: Sequence[Path],
    events: Sequence[Path],
    engine: Engine,
    options: UbiOptions,
    held: ExitStack,
    progress: Callable[[str], None],
) -> Records:
    """The queries and events of some files."""
    progress("reading queries …")
    pages = each_once(_queries(queries, engine, options, held), "query", held)
    if not pages.count:
        raise DataError(f"{some(queries, 3)}: there are no queries.")
    progress("reading events …")
    with engine.streaming_left():  # engines cannot know that there are more events than pages
        read = held.enter_context(_events(events, engine, options, pages).cache())
    counts = _counts(read)
    _check_events(read, counts, events, options)
    shown = options.impressions == "events" or (options.impressions == "auto" and counts["impression"] > 0)
    placed, start = _placed(read, counts, pages, options, held) if shown else (read.mutate(position=read.ordinal), None)
    came_in = {"query": pages.count, **{kind: counts[kind] for kind in _KINDS}}
    if not shown:
        del came_in["impression"]
    return Records(
        pages=pages.asked,
        known=pages.known,
        returned=_returned(pages),
        events=placed,
        shown=shown,
        came_in=came_in,
        rejects=pages.rejects,
        notes=_notes(read, options, shown, start),
        advice=_advice(pages, options, shown),
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def _schema(record: dict[str, Any]) -> ibis.Schema:
    """Records as they are, or in the envelope of an exported index."""
    import ibis
    import ibis.expr.datatypes as dt

    return ibis.schema({**record, "_source": dt.Struct(record)})


def _queries(paths: Sequence[Path], engine: Engine, options: UbiOptions, held: ExitStack) -> ir.Table:
    texts = ("query_id", "user_query", "client_id", "timestamp", "action_name")
    schema = _schema(dict.fromkeys(texts, "string") | _text_at(options.surface) | dict.fromkeys(_HITS, "array<string>"))
    tables = [_query_part(part, table, options) for part, table in engine.open_each(paths, schema)]
    return engine.keyed(held.enter_context(fields.stacked(tables).cache()), "page")


def _text_at(path: str) -> dict[str, str]:
    """The type of the column that holds a text at a path.

    >>> _text_at("query_attributes.device")
    {'query_attributes': 'struct<device: string>'}
    """
    root, *inner = path.split(".")
    kind = "string"
    for name in reversed(inner):
        kind = f"struct<{name}: {kind}>"
    return {root: kind}


def _query_part(part: LogPart, table: ir.Table, options: UbiOptions) -> ir.Table:
    names = ("query_id", "user_query", "client_id", options.surface)
    found = {name: fields.first_value(table, [name]) for name in names}
    fields.required({name: found[name] for name in ("query_id", "user_query")}, table, part, "queries of UBI")
    texts = {name: fields.id_text(value, name, part) for name, value in found.items()}
    clean = fields.normalised if options.normalise else fields.as_typed
    action = fields.id_text(fields.first_value(table, ["action_name"]), "action_name", part)
    return table.select(
        page=texts["query_id"],
        query=clean(texts["user_query"]),
        timestamp=fields.moment(fields.first_value(table, ["timestamp"])),
        user_id=texts["client_id"],
        surface=texts[options.surface],
        documents=fields.id_texts(fields.first_value(table, _HITS), _HITS[0], part),
        stray=action.notnull(),
    )


def _events(paths: Sequence[Path], engine: Engine, options: UbiOptions, pages: ImportedPages) -> ir.Table:
    """Events, and whether each names what its page returned first."""
    inside = "object: struct<object_id: string, internal_id: string>, position: struct<ordinal: string>, rank: string"
    texts = dict.fromkeys(("action_name", "query_id", "timestamp"), "string")
    tables = [
        _event_part(part, table, options)
        for part, table in engine.open_each(paths, _schema(texts | {"event_attributes": f"struct<{inside}>"}))
    ]
    asked = pages.every["query"].notnull()
    there = asked & (pages.every.documents.length() > 0)
    known = pages.every.select("key", "page", text=asked, first=there.ifelse(pages.every.documents[0], None))
    found = located(fields.stacked(tables), known)
    return found.mutate(top=(found.first == found.doc_id).fill_null(False)).drop("first")


def _event_part(part: LogPart, table: ir.Table, options: UbiOptions) -> ir.Table:
    import ibis

    document = f"{_OBJECT}.{options.object_id}"
    found = {name: fields.first_value(table, [name]) for name in ("action_name", "query_id")}
    found[document] = fields.first_value(table, [document, options.object_id])
    fields.required(found, table, part, "events of UBI")
    action, page, doc_id = (fields.id_text(value, name, part) for name, value in found.items())
    time = fields.first_value(table, ["timestamp"])
    click = action.isin(options.click_action).fill_null(False)
    seen = action.isin(options.impression_action).fill_null(False) & (options.impressions != "returned")
    used = click | seen
    return table.select(
        record=ibis.cases((click, "click"), (seen, "impression"), else_="other"),
        page=used.ifelse(page, None),
        doc_id=used.ifelse(doc_id, None),
        ordinal=seen.ifelse(fields.whole_number(fields.first_value(table, _ORDINALS)), None),
        mark=click.ifelse(ibis.null("string") if time is None else time.cast("string"), None),
        action=seen.ifelse(None, action),
    )


def _counts(read: ir.Table) -> dict[str, int]:
    """How many events there are of each kind, and what their ordinals say."""
    seen = read.record == "impression"
    return count_row(
        read.aggregate(
            **{kind: read.count(where=read.record == kind) for kind in _KINDS},
            **{f"at_{place}": read.count(where=seen & (read.ordinal == place)) for place in (0, 1)},
            **{f"first_at_{place}": read.count(where=seen & read.top & (read.ordinal == place)) for place in (0, 1)},
            missing=read.count(where=seen & read.ordinal.isnull()),
            named=read.key.count() + read.page.count(),
        )
    )


def _check_events(read: ir.Table, counts: dict[str, int], paths: Sequence[Path], options: UbiOptions) -> None:
    """Refuse events that cannot make a log: none, none with a query, none that is a click."""
    if not any(counts[kind] for kind in _KINDS):
        raise DataError(f"{some(paths, 3)}: there are no events.")
    if not counts["click"] and counts["other"]:
        raise DataError(
            "{}: no event has the action {}; the actions are {}. Name those that count as clicks with {}.",
            some(paths, 3),
            " or ".join(map(repr, options.click_action)),
            other_actions(read) or f"missing (the fields are {fields_of(paths)})",
            setting("click_action"),
        )
    if options.impressions == "events" and not counts["impression"]:
        raise DataError(
            "{}: no event has the action {}; the actions are {}. Name those that are impressions with {}.",
            some(paths, 3),
            " or ".join(map(repr, options.impression_action)),
            other_actions(read),
            setting("impression_action"),
        )
    if not counts["named"]:
        raise FormatError(f"no click or impression has a query_id; the fields are {fields_of(paths)}.", path=paths[0])


def _returned(pages: ImportedPages) -> ir.Table:
    rows = pages.returned
    return rows.select("key", "position", doc_id=rows.document.nullif(""))


# -- positions ---------------------------------------------------------------------------------------------------------


def _placed(
    read: ir.Table, counts: dict[str, int], pages: ImportedPages, options: UbiOptions, held: ExitStack
) -> tuple[ir.Table, Note | None]:
    """Events with positions from 1: their ordinals or, where these are missing, their places among the hits."""
    import ibis

    start, note = _start(counts, options)
    events = read.mutate(position=read.ordinal + (1 - start))
    if counts["missing"]:
        listed = _returned(pages)
        places = listed.group_by(["key", "doc_id"]).aggregate(place=listed.position.min())
        events = events.left_join(places, ["key", "doc_id"]).drop("key_right", "doc_id_right")
        events = events.mutate(position=ibis.coalesce(events.position, events.place)).drop("place")
        events = held.enter_context(events.cache())
    return events, note


def _start(counts: dict[str, int], options: UbiOptions) -> tuple[int, Note | None]:
    """Whether ordinals count from 0 or 1: what the first hits say or, if there are none, the smallest ordinals."""
    if options.first_position is not None:
        return options.first_position, None
    zero, one = counts["first_at_0"], counts["first_at_1"]
    if zero + one:
        if min(zero, one) > _STRAY * max(zero, one):
            raise DataError(
                "some ordinals count from 0 and some from 1: of the results returned first, {:,} are at 0 and {:,} at "
                "1. Import the clients one by one, or set {} or {}.",
                zero,
                one,
                setting("first_position", 0),
                setting("first_position", 1),
            )
        words = f"ordinals count from {int(one > zero)}, as {max(zero, one):,} of {zero + one:,} results returned first"
        return int(one > zero), (f"{words} show", ())
    start = 0 if counts["at_0"] > _STRAY * counts["at_1"] else 1
    at = f"{counts['at_0']:,} impressions at 0 and {counts['at_1']:,} at 1"
    return start, (f"ordinals count from {start}, judged by {at}: no page lists what it returned", ())


# -- words -------------------------------------------------------------------------------------------------------------


def _notes(read: ir.Table, options: UbiOptions, shown: bool, start: Note | None) -> list[Note]:
    if shown:
        return [start] if start else []
    actions = other_actions(read)
    why = f"there are no impression events (other actions: {actions or 'none'}), so "
    text = "all results that were returned count as shown, seen or not"
    return [("{}{}", ("" if options.impressions == "returned" else why, text))]


def _advice(pages: ImportedPages, options: UbiOptions, shown: bool) -> Note:
    """What to do where clicks do not find results."""
    if shown:
        return "Are impressions of all results logged, under the same ids? Set {} to count what was returned.", (
            setting("impressions", "returned"),
        )
    hits = pages.asked.filter(pages.asked.documents.length() > 0)
    found = hits.select(hit=hits.documents[0]).order_by("hit").limit(1).to_pyarrow().to_pylist()
    example = found[0]["hit"] if found else "nothing"
    other = "internal_id" if options.object_id == "object_id" else "object_id"
    return "The results returned have ids such as {}: if that is the _id, and events have it as {}, set {}.", (
        repr(example),
        other,
        setting("object_id", other),
    )
