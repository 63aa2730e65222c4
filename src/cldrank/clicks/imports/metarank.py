"""Events of Metarank: rankings, whose items lie in the order of their positions, and interactions with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank.clicks.counting import count_row
from cldrank.clicks.imports import fields
from cldrank.clicks.imports.import_report import Note
from cldrank.clicks.imports.joining import Records, other_actions
from cldrank.clicks.imports.paging import each_once
from cldrank.clicks.log.engines import Engine
from cldrank.clicks.log.schema import ONE_QUERY
from cldrank.errors import DataError, setting
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from cldrank.clicks.log.parts import LogPart

QUERY_FIELDS = ("query", "search", "search_query", "search_term", "q")
_TEXTS = ("event", "id", "timestamp", "user", "ranking", "item", "type", "tenant")


@dataclass(frozen=True)
class MetarankOptions:
    """How events are read.

    query_field   the field of a ranking that holds its query; None: the first of the usual ones
    """

    click_action: tuple[str, ...]
    query_field: str | None
    normalise: bool


def metarank_records(
    paths: Sequence[Path], engine: Engine, options: MetarankOptions, held: ExitStack, progress: Callable[[str], None]
) -> Records:
    """The rankings and interactions of some files."""
    progress("reading events …")
    read = held.enter_context(_read(paths, engine, options).cache())
    counts = count_row(
        read.aggregate(
            rankings=read.count(where=read.kind == "ranking"),
            asked=read["query"].count(),
            clicks=read.count(where=read.kind == "click"),
            other=read.count(where=read.kind == "other"),
        )
    )
    _check(read, counts, paths, options)
    rankings = read.filter(read.kind == "ranking").mutate(stray=False)
    notes: list[Note] = []
    if not counts["asked"]:
        rankings = rankings.mutate(query=fields.constant(ONE_QUERY))
        words = (
            f"no ranking names a query: all pages belong to one, {ONE_QUERY!r}; if a field holds it, name it with {{}}"
        )
        notes.append((words, (setting("query_field"),)))
    pages = each_once(rankings, "ranking", held)
    rest = read.filter(read.kind != "ranking")
    events = rest.select("page", "doc_id", "mark", "action", record=rest.kind, position=fields.constant(None, "int64"))
    marked = events.left_join(pages.marks, "page").select(*events.columns, "text")
    return Records(
        pages=pages.asked,
        events=held.enter_context(marked.cache()),
        shown=False,
        came_in={"ranking": pages.count, "click": counts["clicks"], "other": counts["other"]},
        rejects=pages.rejects,
        notes=notes,
        page="ranking",
        id="ranking",
    )


def _read(paths: Sequence[Path], engine: Engine, options: MetarankOptions) -> ir.Table:
    import ibis

    lists = {"fields": "array<struct<name: string, value: string>>", "items": "array<struct<id: string>>"}
    schema = ibis.schema(dict.fromkeys(_TEXTS, "string") | lists)
    return fields.stacked([_part(part, table, options) for part, table in engine.open_each(paths, schema)])


def _part(part: LogPart, table: ir.Table, options: MetarankOptions) -> ir.Table:
    import ibis

    found = {name: fields.value_at(table, name) for name in (*_TEXTS, "fields", "items")}
    fields.required({name: found[name] for name in ("event", "id", "items", "ranking", "item", "type")}, table, part)
    event, identity, _, user, ranking, item, kind, tenant = (fields.id_text(found[name], name, part) for name in _TEXTS)
    ranked = (event == "ranking").fill_null(False)
    interaction = (event == "interaction").fill_null(False)
    click = interaction & kind.isin(options.click_action).fill_null(False)
    clean = fields.normalised if options.normalise else fields.as_typed
    names = QUERY_FIELDS if options.query_field is None else (options.query_field,)
    time = found["timestamp"]
    return table.select(
        kind=ibis.cases((ranked, "ranking"), (click, "click"), else_="other"),
        page=ranked.ifelse(identity, click.ifelse(ranking, None)),
        query=ranked.ifelse(clean(_field(found["fields"], names)), None),
        documents=ranked.ifelse(found["items"].map(lambda one: one["id"].nullif("")), None),
        timestamp=ranked.ifelse(fields.moment(time), None),
        user_id=ranked.ifelse(user, None),
        surface=ranked.ifelse(tenant, None),
        doc_id=click.ifelse(item, None),
        mark=click.ifelse(ibis.null("string") if time is None else time.cast("string"), None),
        action=ranked.ifelse(None, interaction.ifelse(kind, event)),
    )


def _field(values: ir.ArrayValue | None, names: Sequence[str]) -> ir.StringValue:
    """The value of the first of some fields that a ranking has."""
    import ibis

    if values is None:
        return ibis.null("string")
    found = [values.filter(lambda one, name=name: one["name"] == name) for name in names]
    return ibis.coalesce(
        *((some_.length() > 0).ifelse(some_[0]["value"], None) for some_ in found), ibis.null("string")
    )


def _check(read: ir.Table, counts: dict[str, int], paths: Sequence[Path], options: MetarankOptions) -> None:
    where = some(paths, 3)
    if not counts["rankings"]:
        seen = other_actions(read, "kind") or "none"
        raise DataError(f"{where}: there are no ranking events; the events are {seen}.")
    if options.query_field is not None and not counts["asked"]:
        raise DataError(
            "{}: no ranking has the field {!r}, see {}.", where, options.query_field, setting("query_field")
        )
    if not counts["clicks"] and counts["other"]:
        raise DataError(
            "{}: no interaction has the type {}; the others are {}. Name those that count as clicks with {}.",
            where,
            " or ".join(map(repr, options.click_action)),
            other_actions(read, "kind"),
            setting("click_action"),
        )
