"""Which column of a log has which role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cldrank.clicks.log.layout import LogLayout, mapping
from cldrank.clicks.log.nested import root_of
from cldrank.errors import FormatError, Spelling, UsageError
from cldrank.wording import some

KEYS = ("session_id", "query_id", "doc_id")
REQUIRED = (*KEYS, "position", "clicked")
OPTIONAL = ("timestamp", "user_id", "ranker_id", "surface", "propensity")
CLICKS = ("clicked_positions", "clicked_documents", "clicked")  # the ways to say what was clicked
SEGMENT = "segment"
DAY = "day"  # not a role: days are those of the timestamp
NO_SEGMENT = "(missing)"  # the segment of rows that name none
ON_REQUEST = ("page", "row", "column", SEGMENT, "dwell")  # common names: a log may mean something else by them
ROLES = (*REQUIRED, "documents", *CLICKS[:2], *OPTIONAL, *ON_REQUEST)
COLUMNS = Spelling("columns", "--column")
_MOST_NAMED = 20  # columns, in a message


def roles_of(there: Sequence[str], path: Path, layout: LogLayout) -> dict[str, str]:
    """The column, or the path of the field, of each role that is needed or may help.

    Whether results come one per row or as lists, only the types can tell; a missing position is for later.
    """
    columns = layout.columns
    for role, column in columns.items():
        if role not in ROLES:
            raise UsageError("{} maps {!r}, which is not one of {}.", COLUMNS, role, ", ".join(ROLES))
        if root_of(there, column) is None:
            raise FormatError(f"there is no column {column!r} (for {role}); {columns_of(there)}.", path=path)
    asked = ("dwell",) if layout.satisfied is not None else ()
    names = {role: role for role in ROLES if role in there and (role not in ON_REQUEST or role in asked)}
    names |= columns
    wanted = _wanted(names, columns, layout)
    for role in wanted:
        if role not in names and role not in (*OPTIONAL, "position"):
            raise missing(role, there, path)
    names = {role: names[role] for role in wanted if role in names}
    _check_roles(names, columns)
    return names


def _wanted(names: Mapping[str, str], columns: Mapping[str, str], layout: LogLayout) -> list[str]:
    """The roles that a log of this kind has, as far as their names tell."""
    documents = "documents" if "documents" in names and "doc_id" not in columns else "doc_id"
    said = [role for role in CLICKS if role in columns]
    if len(said) > 1:
        raise UsageError("{} and {} both say what was clicked; map one of them.", *said[:2])
    order = CLICKS if documents == "documents" else CLICKS[::-1]
    clicks = next((role for role in said or order if role in names), order[0])
    wanted = ["session_id", "query_id", documents, clicks]
    if layout.one_query:
        wanted.remove("query_id")
    if "position" in columns and clicks == CLICKS[0]:
        raise UsageError("clicked_positions are places in the list of documents; leave out {}.", mapping("position"))
    grid = "row" in columns
    if ("position" in columns or documents == "doc_id") and clicks != CLICKS[0] and not grid:
        wanted.append("position")
    if layout.satisfied is not None:
        wanted.append("dwell")
    return [*wanted, *(role for role in ON_REQUEST[:-1] if role in columns), *OPTIONAL]


def _check_roles(names: Mapping[str, str], columns: Mapping[str, str]) -> None:
    """Refuse a column in two roles, unless one of them is the segment, or an optional role that it has by its name."""
    roles: dict[str, str] = {}
    for role, column in names.items():
        if role == SEGMENT or (role in OPTIONAL and role not in columns):
            continue
        if column in roles:
            raise UsageError(f"column {column!r} cannot be both {roles[column]} and {role}; name two columns.")
        roles[column] = role


def missing(role: str, there: Sequence[str], path: Path) -> FormatError:
    """The error for a role without a column."""
    text = "there is no column {!r}; {}. Name the right one with {}."
    return FormatError(text, role, columns_of(there), mapping(role), path=path)


def columns_of(names: Sequence[str]) -> str:
    """The columns of a log, for messages."""
    return f"the log has {some(names, _MOST_NAMED)}"
