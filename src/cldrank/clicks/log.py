"""The schema of an impression log: from whatever columns a log has to the ones that everything else knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank.clicks.engines import Engine
from cldrank.errors import DataError, FormatError, UsageError

if TYPE_CHECKING:
    import ibis.expr.types as ir

KEYS = ("session_id", "query_id", "doc_id")
REQUIRED = (*KEYS, "position", "clicked")
PAGE = ("session_id", "query_id", "documents", "clicked_positions")
OPTIONAL = ("timestamp", "user_id", "ranker_id", "surface", "propensity")
ONE_QUERY = "all"
DEEPEST = 10_000  # a position beyond it is a mistake
_MOST_NAMED = 20  # columns, in a message
ODD_POSITION = -(1 << 40)  # stands for a position or a number of clicks that is none

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True)
class Log:
    """An impression log, open in an engine.

    rows       one row a displayed result: session_id, query_id, doc_id, position (from 1), clicks (0 for none), and
               those of timestamp, user_id, ranker_id, surface, propensity that the log has
    phantoms   clicks on positions that their page does not have, in logs with one row a page; else None
    optional   which optional columns there are
    once       whether clicks are only ever 0 or 1
    """

    rows: ir.Table
    phantoms: ir.Table | None
    optional: tuple[str, ...]
    once: bool = False


def open_log(
    paths: Paths,
    engine: Engine,
    *,
    columns: Mapping[str, str] | None = None,
    first_position: int | None = None,
    one_query: bool = False,
) -> Log:
    """Open the files of a log.

    A log has one row a displayed result, with columns session_id, query_id, doc_id, position and clicked (true and
    false, or a number of clicks; null means none), or one row a page, with session_id, query_id, documents (a list, top
    first) and clicked_positions (a list). A session_id stands for one page of results: one search of one person.

    columns          what the columns are called, where it differs
    first_position   the number of the top position, 1 or, for logs that count from 0, 0
    one_query        take all pages as answers to one query, for logs that have none, such as recommendations
    """
    first = 1 if first_position is None else first_position
    files = existing(paths)
    table = engine.open(files)
    names = _named(table, files[0], columns or {}, one_query)
    optional = tuple(role for role in OPTIONAL if role in names)
    phantoms = None
    once = "documents" in names or table[names["clicked"]].type().is_boolean()
    if "documents" in names:
        table, phantoms = _unnested(table, files[0], names, first, one_query)
    else:
        table = _flat(table, files[0], names, first, one_query)
    return Log(table.select(*KEYS, "position", "clicks", *optional), phantoms, optional, once)


def existing(paths: Paths) -> list[Path]:
    """The files and folders that are named; a pattern such as `2024-*.parquet` names all that match."""
    named = [Path(paths)] if isinstance(paths, str | PathLike) else [Path(path) for path in paths]
    found: list[Path] = []
    for path in named:
        if path.exists():
            found.append(path)
        elif any(letter in path.name for letter in "*?["):
            found += sorted(path.parent.glob(path.name))
        else:
            raise DataError(f"{path}: no such log.")
    if not found:
        raise DataError(f"{', '.join(map(str, named)) or 'nothing'}: no log matches.")
    return found


def _named(table: ir.Table, path: Path, columns: Mapping[str, str], one_query: bool) -> dict[str, str]:
    """Which column plays which role."""
    known = (*REQUIRED, *PAGE[2:], *OPTIONAL)
    for role, column in columns.items():
        if role not in known:
            raise UsageError(f"columns maps {role!r}, which is none of {', '.join(known)}.")
        if column not in table.columns:
            raise FormatError(
                f"there is no column {column!r} (asked for as {role}); {listed_columns(table)}.", path=path
            )
    names = {role: columns.get(role, role) for role in known if columns.get(role, role) in table.columns}
    if one_query:
        names.pop("query_id", None)
    needed = PAGE if "documents" in names else REQUIRED
    for role in needed:
        if role not in names and not (one_query and role == "query_id"):
            raise FormatError(
                f"there is no column {role!r}; {listed_columns(table)}. Name the right one with "
                f"columns={{{role!r}: …}} (--column {role}=…).",
                path=path,
            )
    return names


def listed_columns(table: ir.Table) -> str:
    """The first columns of a log, for messages."""
    more = f" and {len(table.columns) - _MOST_NAMED} more" if len(table.columns) > _MOST_NAMED else ""
    return f"the log has {', '.join(table.columns[:_MOST_NAMED])}{more}"


def _common(table: ir.Table, names: dict[str, str], one_query: bool) -> dict[str, ir.Value]:
    import ibis

    values = {role: table[names[role]] for role in ("session_id", *OPTIONAL) if role in names}
    values["query_id"] = ibis.literal(ONE_QUERY) if one_query else table[names["query_id"]]
    return values


def _flat(table: ir.Table, path: Path, names: dict[str, str], first_position: int, one_query: bool) -> ir.Table:
    import ibis

    position, odd_position = _whole(table[names["position"]], f"{names['position']!r} (position)", path)
    clicked, odd_clicks = _whole(table[names["clicked"]], f"{names['clicked']!r} (clicked)", path)
    if first_position != 1:
        position = position + (1 - first_position)
    clicks = ibis.coalesce(clicked, 0)
    if not table[names["clicked"]].type().is_boolean():
        negative = (clicked < 0).fill_null(False)
        odd_clicks = negative if odd_clicks is None else negative | odd_clicks
        clicks = ibis.greatest(clicks, 0)
    for odd in (odd_position, odd_clicks):
        if odd is not None:  # the common types cannot be odd, and cost nothing here
            position = odd.ifelse(ODD_POSITION, position)
    return table.select(
        **_common(table, names, one_query), doc_id=table[names["doc_id"]], position=position, clicks=clicks
    )


def _whole(value: ir.Value, what: str, path: Path) -> tuple[ir.IntegerValue, ir.BooleanValue | None]:
    """Whole numbers from what a log has, and where that is something else; None if it cannot be."""
    kind = value.type()
    if kind.is_integer():
        return value, None
    if kind.is_boolean():
        return value.cast("int32"), None
    if kind.is_string():  # as in CSV; an empty text is a missing value
        text = value.strip().lower()
        text = (text == "").ifelse(None, text)
        text = (text == "true").ifelse("1", (text == "false").ifelse("0", text))
        number = text.try_cast("float64")
        odd = text.notnull() & number.isnull()
    elif kind.is_floating() or kind.is_decimal():
        number, odd = value.cast("float64"), None
    else:
        raise FormatError(f"column {what} holds {kind}, not numbers.", path=path)
    sensible = (number >= -DEEPEST) & (number <= 1 << 40) & (number % 1 == 0)
    fraction = number.notnull() & ~sensible.fill_null(False)
    whole = sensible.fill_null(False).ifelse(number, None).try_cast("int64")
    return whole, fraction if odd is None else odd | fraction


def _unnested(
    table: ir.Table, path: Path, names: dict[str, str], first_position: int, one_query: bool
) -> tuple[ir.Table, ir.Table]:
    """One row a displayed result from one row a page, and the clicks that no displayed result can have had."""
    for role in PAGE[2:]:
        if not table[names[role]].type().is_array():
            raise FormatError(
                f"column {names[role]!r} ({role}) holds {table[names[role]].type()}, not lists.", path=path
            )
    pages = table.select(
        **_common(table, names, one_query),
        documents=table[names["documents"]],
        clicked_positions=table[names["clicked_positions"]].cast("array<int64>"),
    )
    rows = pages.unnest("documents", offset="place")
    rows = rows.mutate(doc_id=rows.documents, position=rows.place.cast("int64") + 1)
    clicked = rows.clicked_positions.contains(rows.position + (first_position - 1)).fill_null(False)
    rows = rows.mutate(clicks=clicked.cast("int64"))
    clicks = pages.mutate(length=pages.documents.length()).unnest("clicked_positions")
    clicks = clicks.mutate(position=clicks.clicked_positions + (1 - first_position))
    outside = (clicks.position < 1) | (clicks.position > clicks.length)
    return rows, clicks.filter(outside).select("session_id", "query_id", "position")
