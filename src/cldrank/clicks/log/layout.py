"""`LogLayout`: everything that a user says about how a log is laid out, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from zoneinfo import ZoneInfo

from cldrank.arguments import check_choice, check_flag, check_number, check_whole
from cldrank.errors import Spelling, UsageError, setting
from cldrank.wording import listed

PAGING = ("restarts", "continues")
DWELL_UNITS = ("s", "ms")


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
    page_size        how many results a page of results has, for logs with a `page` column
    paging           whether positions restart on each page ("restarts") or not ("continues"); None: found out
    first_page       the number of the first page, 0 or 1; None: found out
    grid_columns     how many columns a grid has, for logs with `row` and `column`; None: found out
    satisfied        count a click only if its `dwell` time is at least this, in seconds, or unknown
    dwell_unit       the unit of dwell times in the log, "s" or "ms"; None: seconds, unless most exceed an hour, which
                     is refused
    time_zone        of timestamps that do not say theirs

    >>> LogLayout.of(None, {"columns": {"doc_id": "item"}, "first_position": 0}).first_position
    0
    >>> LogLayout(page_size=10)
    Traceback (most recent call last):
    cldrank.errors.UsageError: page_size is for logs with numbered pages of results; name their column with ...
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    first_position: int | None = None
    one_query: bool | str = False
    by_time: bool = False
    page_size: int | None = None
    paging: str | None = None
    first_page: int | None = None
    grid_columns: int | None = None
    satisfied: float | None = None
    dwell_unit: str | None = None
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.first_position is not None:
            check_choice("first_position", self.first_position, (0, 1))
        check_flag("by_time", self.by_time)
        for name in ("page_size", "grid_columns"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least=1, optional=True)
        if self.first_page is not None:
            check_choice("first_page", self.first_page, (0, 1))
        if self.paging is not None:
            check_choice("paging", self.paging, PAGING)
        if self.satisfied is not None:
            check_number("satisfied", self.satisfied, above=0, optional=True)
        if self.dwell_unit is not None:
            check_choice("dwell_unit", self.dwell_unit, DWELL_UNITS)
        zone(self.time_zone)
        self._check_together()

    @classmethod
    def of(cls, layout: LogLayout | None, options: Mapping[str, Any]) -> LogLayout:
        """A layout from options by their names, perhaps in place of those of another layout."""
        known = [one.name for one in fields(cls)]
        for name in options:
            if name not in known:
                raise UsageError(f"{name} is not an option for reading logs; those are {listed(known)}.")
        given = dict(options)
        if given.get("columns", ()) is None:
            del given["columns"]
        return replace(layout or cls(), **given)

    @property
    def top(self) -> int:
        """The number of the first position, as far as it is said."""
        return 1 if self.first_position is None else self.first_position

    def _check_together(self) -> None:
        for name in ("page_size", "paging", "first_page"):
            if getattr(self, name) is not None and "page" not in self.columns:
                raise UsageError(
                    "{} is for logs with numbered pages of results; name their column with {}.",
                    setting(name),
                    mapping("page"),
                )
        grid = [role for role in ("row", "column") if role in self.columns]
        if len(grid) == 1 or (self.grid_columns is not None and not grid):
            missing = next(role for role in ("row", "column") if role not in grid)
            raise UsageError(
                "a grid has rows and columns, and no {} is named; add {}.",
                missing,
                mapping(missing),
            )
        if grid and "position" in self.columns:
            raise UsageError("the row and the column are the position of a result; leave out {}.", mapping("position"))
        if self.dwell_unit is not None and self.satisfied is None:
            raise UsageError("{} is for dwell times, which only {} reads.", setting("dwell_unit"), setting("satisfied"))


def refuse_for_cells(source: object, given: object) -> None:
    """Refuse columns and options, if any are given, for something that holds cells already."""
    if given:
        raise UsageError(f"{source} holds cells already; columns and options are for raw logs.")


@dataclass(frozen=True)
class LayoutFound:
    """How a log turned out to be laid out; its reader fills it in.

    sentences   what was found out, in words
    values      what holds for this log, said or found: first_position, and where the log has them page_size, paging,
                first_page, grid_columns, time_unit
    """

    sentences: list[str] = field(default_factory=list)
    values: dict[str, int | str] = field(default_factory=dict)


def zone(name: str) -> ZoneInfo:
    """A time zone by its name."""
    try:
        return ZoneInfo(name)
    except Exception:  # of many kinds: for unknown names, for folders, and for what is not text
        raise UsageError(
            "{} must be the name of a time zone, such as Europe/Berlin or UTC, not {!r}.", setting("time_zone"), name
        ) from None


def mapping(role: str) -> Spelling:
    """How to say which column has a role.

    >>> mapping("timestamp").shell
    '--column timestamp=NAME'
    """
    return Spelling(f"columns={{{role!r}: NAME}}", f"--column {role}=NAME")
