"""`LogLayout`: everything that a user says about how a log is laid out, and which column of a log has which role."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from cldrank.arguments import check_choice, check_flag
from cldrank.clicks.events import CLICK, checked_weights
from cldrank.errors import UsageError
from cldrank.reading import reading
from cldrank.tables import Role, resolve_columns
from cldrank.wording import listed

KEYS = ("session_id", "query_id", "doc_id")
REQUIRED = (*KEYS, "position", "clicked")
TEAM = "team"  # whose result it is, on interleaved pages
OF_EXPERIMENTS = (TEAM, "arm", "experiment", "new_rank", "old_rank")  # roles that `open_log` reads if it is told to
OPTIONAL = ("timestamp", "user_id", "ranker_id", "surface", "propensity")
CLICKS = ("clicked_positions", "clicked_documents", "clicked")  # the ways to say what was clicked
SEGMENT = "segment"
ROLES = (*REQUIRED, "documents", *CLICKS[:2], *OPTIONAL, SEGMENT)
NO_SEGMENT = "(missing)"  # the segment of rows that name none
DEEPEST = 10_000  # a position beyond it is a mistake, and so are more clicks on a result in a session


@dataclass(frozen=True)
class LogLayout:
    """How to read a log.

    columns          what the columns are called, where it differs from their roles: {"doc_id": "item"}; fields inside
                     of columns by their path: {"doc_id": "event.object.id"}
    first_position   the number of the top position, 1 or, for logs that count from 0, 0
    one_query        treat all pages as answers to one query, for logs without queries, such as recommendations; a text
                     is the id of that query
    time_zone        of times that name no zone, such as "Europe/Berlin"; None: UTC, and a log in which other times name
                     theirs is refused
    exclude_users    users whose rows are set aside: their ids, or a file with an id per line
    exclude_bots     set aside the rows of users (or sessions, in a log without users) that do not look human
    event_weights    what clicks and other events are worth: {"click": 1, "purchase": 10}. Each event but click is a
                     column of that name, true where it followed, or a number of times; empty: only clicks are counted

    >>> LogLayout.of(None, {"columns": {"doc_id": "item"}, "first_position": 0}).first_position
    0
    >>> LogLayout(first_position=2)
    Traceback (most recent call last):
    cldrank.errors.UsageError: `first_position` must be 0 or 1, not 2.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    first_position: int | None = None
    one_query: bool | str = False
    time_zone: str | None = None
    exclude_users: str | PathLike[str] | Collection[Any] | None = None
    exclude_bots: bool = False
    event_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_flag("exclude_bots", self.exclude_bots)
        if self.first_position is not None:
            check_choice("first_position", self.first_position, (0, 1))
        check_zone(self.time_zone)
        object.__setattr__(self, "event_weights", checked_weights(self.event_weights))
        taken = [name for name in self.events if name.lower() in (*ROLES, *OF_EXPERIMENTS)]  # as SQL compares them
        if taken:
            raise UsageError(
                f"`event_weights` names {taken[0]!r}, which is the role of another column; give the event another name."
            )

    @property
    def events(self) -> list[str]:
        """The events beside clicks."""
        return [name for name in self.event_weights if name != CLICK]

    @classmethod
    def of(cls, layout: LogLayout | None, options: Mapping[str, Any]) -> LogLayout:
        """A layout from options by name, which replace those of another layout if it is given."""
        known = [entry.name for entry in fields(cls)]
        for name in options:
            if name not in known:
                raise UsageError(f"`{name}` is not an option for reading logs; those are {listed(known)}.")
        by_name = ("columns", "event_weights")
        chosen = {name: value for name, value in options.items() if name not in by_name or value is not None}
        return replace(layout or cls(), **chosen)

    @property
    def top(self) -> int:
        """The number of the first position."""
        return 1 if self.first_position is None else self.first_position


def check_zone(name: str | None) -> None:
    """Refuse what is not the name of a time zone."""
    try:
        ZoneInfo("UTC" if name is None else name)
    except Exception:  # of many kinds: for unknown names, for folders, and for what is not text
        raise UsageError(f"`time_zone` must be the name of a zone, such as Europe/Berlin, not {name!r}.") from None


def user_ids(users: str | PathLike[str] | Collection[Any]) -> list[str]:
    """The ids of users to be left out, as text: from a collection, or from the lines of a file."""
    if not isinstance(users, str | PathLike):
        return [str(user) for user in users]
    with reading(users, "a file with the id of a user on each line"):
        lines = Path(users).read_text(encoding="utf-8-sig").splitlines()
    return [line.strip() for line in lines if line.strip()]


def refuse_for_cells(source: object, options: object) -> None:
    """Refuse columns and options for a source that holds cells already."""
    if options:
        raise UsageError(f"{source} holds cells already; columns and options are for reading raw logs, leave them out.")


def columns_of(
    available: Sequence[str], where: str, layout: LogLayout, further: Collection[str] = ()
) -> dict[str, str]:
    """The column, or the path of the field, of each role that is needed or may help.

    Only types tell whether results come in rows or in lists, so a missing position is reported later.

    further   roles that only logs of some kind have, such as those of experiments
    """
    known, optional = (*ROLES, *further, *layout.events), (*OPTIONAL, *further)
    every = [Role(role, by_name=False) for role in known]
    resolve_columns(available, layout.columns, every, where, shared=known)  # refuses unknown roles and columns
    by_name = [role for role in known if role in available and role != SEGMENT]
    wanted = [*_wanted({*by_name, *layout.columns}, layout), *further, *layout.events]
    lacking = [role for role in wanted if role not in (*optional, *available, *layout.columns)]
    later = () if lacking[1:] else ("position",)  # where others are missing as well, all are named at once
    roles = [Role(role, required=role not in (*optional, *later)) for role in wanted]
    named = {role: column for role, column in layout.columns.items() if role in wanted}
    shared = [SEGMENT, *further, *(role for role in OPTIONAL if role not in layout.columns)]
    return resolve_columns(available, named, roles, where, shared=shared)


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
    if ("position" in columns or documents == "doc_id") and clicks != CLICKS[0]:
        wanted.append("position")
    return [*wanted, *([SEGMENT] if SEGMENT in columns else []), *OPTIONAL]
