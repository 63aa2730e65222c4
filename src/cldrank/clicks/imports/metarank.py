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
from cldrank.clicks.imports.paging import each_once, located
from cldrank.clicks.log.engines import Engine
from cldrank.clicks.log.schema import ONE_QUERY
from cldrank.errors import DataError, setting
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from cldrank.clicks.log.parts import LogPart

QUERY_FIELDS = ("query", "search", "search_query", "search_term", "q")
_TEXTS = ("event", "id", "timestamp", "user", "ranking", "item", "type", "tenant")
_LISTS = {"fields": "array<struct<name: string, value: string>>", "items": "array<struct<id: string>>"}


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
            clicks=read.count(where=read.kind == "click"),
            other=read.count(where=read.kind == "other"),
        )
    )
    _check(read, counts, paths, options)
    rankings = _with_queries(read.filter(read.kind == "ranking"), options)
    rankings, notes = _asked(engine.keyed(held.enter_context(rankings.cache()), "page"), paths, options)
    pages = each_once(rankings.mutate(stray=False), "ranking", held)
    listed = pages.returned
    rest = read.filter(read.kind != "ranking")
    rest = rest.select("page", "doc_id", "mark", "action", record=rest.kind, position=fields.constant(None, "int64"))
    events = held.enter_context(located(rest, pages.known).cache())
    return Records(
        pages=pages.asked,
        known=pages.known,
        returned=listed.select("key", "position", doc_id=listed.document.id.nullif("")),
        events=events,
        shown=False,
        came_in={"ranking": pages.count, "click": counts["clicks"], "other": counts["other"]},
        rejects=pages.rejects,
        notes=notes,
        page="ranking",
        id="ranking",
    )


def _with_queries(rankings: ir.Table, options: MetarankOptions) -> ir.Table:
    """Rankings with their queries: the value of the first of some fields that they have."""
    import ibis

    names = QUERY_FIELDS if options.query_field is None else (options.query_field,)
    clean = fields.normalised if options.normalise else fields.as_typed
    pairs = rankings.select("page", "fields").unnest("fields")
    pairs = pairs.select("page", name=pairs.fields["name"], value=pairs.fields["value"])
    values = {f"value_{at}": pairs.value.min(where=pairs.name == name) for at, name in enumerate(names)}
    found = pairs.filter(pairs.name.isin(names)).group_by("page").aggregate(**values)
    found = found.select("page", query=clean(ibis.coalesce(*(found[name] for name in values))))
    return rankings.left_join(found, "page").select(*rankings.columns, "query")


def _asked(rankings: ir.Table, paths: Sequence[Path], options: MetarankOptions) -> tuple[ir.Table, list[Note]]:
    """Rankings of a log without queries belong to one query."""
    if count_row(rankings.aggregate(asked=rankings["query"].count()))["asked"]:
        return rankings, []
    if options.query_field is not None:
        where = some(paths, 3)
        raise DataError(
            "{}: no ranking has the field {!r}; see {}.", where, options.query_field, setting("query_field")
        )
    note = f"no ranking names a query: all pages belong to one, {ONE_QUERY!r}; if a field holds it, name it with {{}}"
    return rankings.mutate(query=fields.constant(ONE_QUERY)), [(note, (setting("query_field"),))]


def _read(paths: Sequence[Path], engine: Engine, options: MetarankOptions) -> ir.Table:
    import ibis

    schema = ibis.schema(dict.fromkeys(_TEXTS, "string") | _LISTS)
    return fields.stacked([_part(part, table, options) for part, table in engine.open_each(paths, schema)])


def _part(part: LogPart, table: ir.Table, options: MetarankOptions) -> ir.Table:
    import ibis

    found = {name: fields.value_at(table, name) for name in (*_TEXTS, "fields", "items")}
    fields.required({name: found[name] for name in ("event", "id", "items", "ranking", "item", "type")}, table, part)
    event, identity, _, user, ranking, item, kind, tenant = (fields.id_text(found[name], name, part) for name in _TEXTS)
    ranked = (event == "ranking").fill_null(False)
    interaction = (event == "interaction").fill_null(False)
    click = interaction & kind.isin(options.click_action).fill_null(False)
    time = found["timestamp"]
    lists = {name: fields.constant(None, form) for name, form in _LISTS.items()}
    for name in _LISTS:
        value = found[name]
        if value is not None:
            lists[name] = ranked.ifelse(value.cast(_LISTS[name]), None)
    return table.select(
        kind=ibis.cases((ranked, "ranking"), (click, "click"), else_="other"),
        page=ranked.ifelse(identity, click.ifelse(ranking, None)),
        fields=lists["fields"],
        documents=lists["items"],
        timestamp=ranked.ifelse(fields.moment(time), None),
        user_id=ranked.ifelse(user, None),
        surface=ranked.ifelse(tenant, None),
        doc_id=click.ifelse(item, None),
        mark=click.ifelse(ibis.null("string") if time is None else time.cast("string"), None),
        action=ranked.ifelse(None, interaction.ifelse(kind, event)),
    )


def _check(read: ir.Table, counts: dict[str, int], paths: Sequence[Path], options: MetarankOptions) -> None:
    where = some(paths, 3)
    if not counts["rankings"]:
        seen = other_actions(read, "kind") or "none"
        raise DataError(f"{where}: there are no ranking events; the events are {seen}.")
    if not counts["clicks"] and counts["other"]:
        raise DataError(
            "{}: no interaction has the type {}; the others are {}. Name those that count as clicks with {}.",
            where,
            " or ".join(map(repr, options.click_action)),
            other_actions(read, "kind"),
            setting("click_action"),
        )
