"""`LogLayout`: everything that a user says about how a log is laid out, and which column of a log has which role."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from cldrank.arguments import check_choice, check_flag, check_whole
from cldrank.errors import UsageError
from cldrank.reading import reading
from cldrank.tables import Role, resolve_columns
from cldrank.wording import listed

KEYS = ("session_id", "query_id", "doc_id")
REQUIRED = (*KEYS, "position", "clicked")
OPTIONAL = ("timestamp", "user_id", "ranker_id", "surface", "propensity")
CLICKS = ("clicked_positions", "clicked_documents", "clicked")  # the ways to say what was clicked
SEGMENT = "segment"
ON_REQUEST = ("page", "row", "column", SEGMENT)  # common names: a log may mean something else by them
ROLES = (*REQUIRED, "documents", *CLICKS[:2], *OPTIONAL, *ON_REQUEST)
NO_SEGMENT = "(missing)"  # the segment of rows that name none
DEEPEST = 10_000  # a position beyond it is a mistake, and so are more clicks on one result in one session
ONE_QUERY = "all"  # the query of a log without queries


@dataclass(frozen=True)
class LogLayout:
    """How to read a log.

    columns          what the columns are called, where it differs from their roles: {"doc_id": "item"}; fields inside
                     of columns by their path: {"doc_id": "event.object.id"}
    first_position   the number of the top position, 1 or, for logs that count from 0, 0; also of the first row and
                     column of a grid
    one_query        treat all pages as answers to one query, for logs without queries, such as recommendations; a text
                     is the id of that query
    by_time          count what a session saw of a query at different times as different pages
    page_size        how many results a page of results has, for logs whose positions start again on each `page`
    first_page       the number of the first page, 1 or 0
    grid_columns     how many columns a grid has, for logs with `row` and `column`
    time_zone        of times that name no zone; None: UTC, unless other times of the log do name one, which is refused
    exclude_users    users whose rows are set aside: their ids, or a file with an id per line
    exclude_bots     set aside the rows of users (or sessions, in a log without users) that do not look like people

    >>> LogLayout.of(None, {"columns": {"doc_id": "item"}, "first_position": 0}).first_position
    0
    >>> LogLayout(page_size=10)
    Traceback (most recent call last):
    cldrank.errors.UsageError: `page_size` is for logs with numbered pages of results; ...
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    first_position: int | None = None
    one_query: bool | str = False
    by_time: bool = False
    page_size: int | None = None
    first_page: int | None = None
    grid_columns: int | None = None
    time_zone: str | None = None
    exclude_users: str | PathLike[str] | Collection[Any] | None = None
    exclude_bots: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("by_time", "exclude_bots"):
                check_flag(name, value)
            elif name in ("first_position", "first_page") and value is not None:
                check_choice(name, value, (0, 1))
            elif name in ("page_size", "grid_columns") and value is not None:
                check_whole(name, value, least=1, optional=True)
            elif name == "time_zone" and value is not None:
                time_zone(value)
        self._check_together()

    @classmethod
    def of(cls, layout: LogLayout | None, options: Mapping[str, Any]) -> LogLayout:
        """A layout from options by their names, perhaps in place of those of another layout."""
        known = [entry.name for entry in fields(cls)]
        for name in options:
            if name not in known:
                raise UsageError(f"`{name}` is not an option for reading logs; those are {listed(known)}.")
        given = {name: value for name, value in options.items() if name != "columns" or value is not None}
        return replace(layout or cls(), **given)

    @property
    def top(self) -> int:
        """The number of the first position."""
        return 1 if self.first_position is None else self.first_position

    def page_settings(self) -> dict[str, int]:
        """What decides, beside the number of the first position, which place a position means."""
        given: dict[str, int] = {} if self.grid_columns is None else {"grid_columns": self.grid_columns}
        if self.page_size is not None:
            given |= {"first_page": 1 if self.first_page is None else self.first_page, "page_size": self.page_size}
        return given

    def _check_together(self) -> None:
        for name in ("page_size", "first_page"):
            if getattr(self, name) is not None and "page" not in self.columns:
                raise UsageError(
                    f"`{name}` is for logs with numbered pages of results; name their column with "
                    '`columns={"page": ...}`.'
                )
        if "page" in self.columns and self.page_size is None:
            raise UsageError(
                "positions that start again on each page need the size of a page: set `page_size`; if they go on from "
                'page to page, leave out `columns={"page": ...}`.'
            )
        grid = [role for role in ("row", "column") if role in self.columns]
        if len(grid) == 1 or (self.grid_columns is not None and not grid):
            missing = next(role for role in ("row", "column") if role not in grid)
            raise UsageError(
                f"a grid has rows and columns, and no {missing} is named; add `columns={{{missing!r}: ...}}`."
            )
        if grid and self.grid_columns is None:
            raise UsageError("positions in a grid need the number of its columns: set `grid_columns`.")
        if grid and "position" in self.columns:
            raise UsageError(
                'the row and the column are the position of a result; leave out `columns={"position": ...}`.'
            )


def time_zone(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except Exception:  # of many kinds: for unknown names, for folders, and for what is not text
        raise UsageError(
            f"`time_zone` must be the name of a time zone, such as Europe/Berlin or UTC, not {name!r}."
        ) from None


def user_ids(given: str | PathLike[str] | Collection[Any] | None) -> list[str] | None:
    """The ids of users to be left out, as text: as they are given, or one per line of a file."""
    if given is None or not isinstance(given, str | PathLike):
        return None if given is None else [str(user) for user in given]
    with reading(given, "a file with the id of a user on each line"):
        lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
    return [line.strip() for line in lines if line.strip()]


def refuse_for_cells(source: object, given: object) -> None:
    """Refuse columns and options, if any are given, for something that holds cells already."""
    if given:
        raise UsageError(f"{source} holds cells already; columns and options are for reading raw logs, leave them out.")


def columns_of(available: Sequence[str], where: str, layout: LogLayout) -> dict[str, str]:
    """The column, or the path of the field, of each role that is needed or may help.

    Whether results come one per row or as lists, only the types can tell; a missing position is for later.
    """
    every = [Role(role, by_name=False) for role in ROLES]
    resolve_columns(available, layout.columns, every, where, shared=ROLES)  # refuses unknown roles and columns
    by_name = [role for role in ROLES if role in available and role not in ON_REQUEST]
    wanted = _wanted({*by_name, *layout.columns}, layout)
    lacking = [role for role in wanted if role not in (*OPTIONAL, *available, *layout.columns)]
    later = () if lacking[1:] else ("position",)  # where others are missing as well, all are named at once
    roles = [Role(role, required=role not in (*OPTIONAL, *later)) for role in wanted]
    given = {role: column for role, column in layout.columns.items() if role in wanted}
    shared = [SEGMENT, *(role for role in OPTIONAL if role not in layout.columns)]
    return resolve_columns(available, given, roles, where, shared=shared)


def _wanted(there: Collection[str], layout: LogLayout) -> list[str]:
    """The roles that a log of this kind has, as far as their names tell."""
    columns = layout.columns
    documents = "documents" if "documents" in there and "doc_id" not in columns else "doc_id"
    said = [role for role in CLICKS if role in columns]
    if len(said) > 1:
        raise UsageError(f"{said[0]} and {said[1]} both say what was clicked; name one of them.")
    order = CLICKS if documents == "documents" else CLICKS[::-1]
    clicks = next((role for role in said or order if role in there), order[0])
    wanted = ["session_id", "query_id", documents, clicks]
    if layout.one_query:
        wanted.remove("query_id")
    if "position" in columns and clicks == CLICKS[0]:
        raise UsageError(
            'clicked_positions are places in the list of documents; leave out `columns={"position": ...}`.'
        )
    if ("position" in columns or documents == "doc_id") and clicks != CLICKS[0] and "row" not in columns:
        wanted.append("position")
    return [*wanted, *(role for role in ON_REQUEST if role in columns), *OPTIONAL]
