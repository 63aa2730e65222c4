"""What cells must have in common to be added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cldrank.errors import DataError, setting


@dataclass(frozen=True)
class CellKind:
    """How cells were counted.

    every_click    whether each of several clicks on one impression was counted
    has_segments   whether their segments have names; None if there are no cells, which can be added to any
    layout         what was said or found out about the log and decides positions, by the names of options

    >>> narrow, wide = (CellKind(layout={"grid_columns": columns}) for columns in (3, 4))
    >>> narrow.check_same(wide, "the log", "2026-11-14.parquet")
    Traceback (most recent call last):
    cldrank.errors.DataError: the log was read with grid_columns=3, 2026-11-14.parquet with grid_columns=4, so ...
    """

    every_click: bool = False
    has_segments: bool | None = False
    layout: Mapping[str, int] = field(default_factory=dict)

    def check_same(self, other: CellKind, here: str, there: str) -> None:
        """Refuse to add cells to others that were counted in another way."""
        if self.every_click != other.every_click:
            every, once = (here, there) if self.every_click else (there, here)
            raise DataError(
                "{} counts every click, {} one click per impression; count both with {}, or both without.",
                every,
                once,
                setting("every_click"),
            )
        if None not in (self.has_segments, other.has_segments) and self.has_segments != other.has_segments:
            some, none = (here, there) if self.has_segments else (there, here)
            raise DataError(
                "{} has segments, {} has none; count both with {}, or both without.", some, none, setting("segment")
            )
        for name in sorted(self.layout.keys() & other.layout.keys()):
            if self.layout[name] != other.layout[name]:
                own, others = setting(name, self.layout[name]), setting(name, other.layout[name])
                raise DataError(
                    "{} was read with {}, {} with {}, so their positions do not mean the same. If the latter is right, "
                    "set {}; if not, count the logs of {} again with {}.",
                    *(here, own, there, others, others, there, own),
                )


def position_layout(layout: Mapping[str, int | str]) -> dict[str, int]:
    """Of how a log was read, as `Account.layout` has it, what decides which place a position means.

    >>> position_layout({"first_position": 0, "first_page": 1, "page_size": 10, "paging": "continues"})
    {}
    """
    if layout.get("paging") == "continues":
        return {}
    return {name: int(layout[name]) for name in ("grid_columns", "first_page", "page_size") if name in layout}


def joined_kind(kinds: Iterable[tuple[str, CellKind]]) -> CellKind:
    """How cells were counted that are to be added up, each called by a name; those that differ are refused."""
    distinct: list[tuple[str, CellKind]] = []
    for name, kind in kinds:
        if any(kind == other for _, other in distinct):
            continue
        for there, other in distinct:
            kind.check_same(other, name, there)
        distinct.append((name, kind))
    layout = {option: value for _, kind in distinct for option, value in kind.layout.items()}
    segments = {kind.has_segments for _, kind in distinct} - {None}
    return CellKind(distinct[0][1].every_click, segments.pop() if segments else None, layout)
