"""How pages count positions, from how often each position occurs on each page: single rows do not decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cldrank.clicks.log.layout import LogLayout
from cldrank.errors import DataError, setting
from cldrank.wording import count

STRAY = 0.1  # of the rows beside them, up to which rows may be mistakes
_FEW = 0.01  # of all rows, up to which those that do not fit are mistakes

Shown = Mapping[tuple[int, int], int]  # the rows at each page, from 1, and position


@dataclass(frozen=True)
class Pagination:
    """A way to count positions on pages of a size: they restart on each page, or continue from page to page."""

    size: int
    restarts: bool

    def fits(self, page: int, position: int) -> bool:
        """Whether a page may have a position.

        >>> [Pagination(10, restarts).fits(2, 11) for restarts in (True, False)]
        [False, True]
        """
        before = 0 if self.restarts else (page - 1) * self.size
        return before < position <= before + self.size

    def misfits(self, shown: Shown) -> int:
        """How many rows do not fit."""
        return sum(rows for place, rows in shown.items() if not self.fits(*place))

    @property
    def name(self) -> str:
        """What the layout calls it."""
        return "restarts" if self.restarts else "continues"

    @property
    def described(self) -> str:
        """The same in words."""
        return f"{'restart on each page' if self.restarts else 'continue from page to page'} of {self.size}"


def usual_tops(rows: Mapping[int, int]) -> tuple[int, int]:
    """The largest number, given how many rows have each: without what is surely a mistake, and what may be one.

    Mistakes are few, and fewer than a tenth of the rows with the number below. More of them may be where a gap is.

    >>> usual_tops({1: 200, 2: 200, 3: 200, 9: 1, 73: 1})
    (3, 3)
    >>> usual_tops({1: 200, 2: 80, 3: 20, 4: 3})  # seen less and less
    (4, 4)
    >>> usual_tops({1: 8, 2: 8, 3: 8, 9: 1})
    (9, 3)
    """
    return _top(rows, _FEW), _top(rows, STRAY, gaps=True)


def _top(rows: Mapping[int, int], few: float, *, gaps: bool = False) -> int:
    numbers = sorted(rows)
    top, above, most = numbers[-1], 0, few * sum(rows.values())
    for number, below in zip(numbers[:0:-1], numbers[-2::-1], strict=True):
        above += rows[number]
        if above > most:
            break
        if above < STRAY * rows[below] or (gaps and number - below > 1):
            top = below
    return top


def pagination_of(shown: Shown, sessions: Mapping[tuple[int, int], object], layout: LogLayout) -> Pagination | None:
    """How a log with several pages counts, as far as that is not said; None if all its results are on the first.

    One way has to fit all but very few rows, and no other may fit nearly as well. `sessions` has an example for each
    page and position.
    """
    first = {position: rows for (page, position), rows in shown.items() if page == 1}
    later = {place: rows for place, rows in shown.items() if place[0] > 1}
    if layout.page_size is not None and layout.paging is not None:
        return Pagination(layout.page_size, layout.paging == "restarts")
    if not later:
        return None
    if layout.page_size is not None:
        sizes = layout.page_size, layout.page_size
    elif first:
        sizes = usual_tops(first)
    else:
        raise DataError("no result is on the first page, which would tell its size; set {}.", setting("page_size"))
    ways = (True,) if layout.paging == "restarts" else (True, False)
    n_later = sum(later.values())
    fit, nearly = (
        [one for one in (Pagination(size, way) for way in ways) if one.misfits(later) <= most * n_later]
        for size, most in zip(sizes, (_FEW, STRAY), strict=True)
    )
    for other in nearly:
        if fit and other != fit[0]:
            raise _two(fit[0], other, shown)
    if not fit:
        raise _none(sizes[0], first, later, sessions)
    return fit[0]


def _two(one: Pagination, other: Pagination, shown: Shown) -> DataError:
    """The error for pages that may be counted in two ways."""
    total = count(sum(shown.values()), "row")
    return DataError(
        "the log can be read in two ways: positions {} ({:,} of {} do not fit), or {} ({:,} do not). Choose with {} "
        "and {}, or {} and {}; rows that do not fit are set aside then.",
        one.described,
        one.misfits(shown),
        total,
        other.described,
        other.misfits(shown),
        setting("page_size", one.size),
        setting("paging", one.name),
        setting("page_size", other.size),
        setting("paging", other.name),
    )


def _none(size: int, first: Mapping[int, int], later: Shown, sessions: Mapping[tuple[int, int], object]) -> DataError:
    """The error for pages that are not counted in one way."""
    number = min(page for page, position in later if position > size)
    there = [place for place in later if place[0] == number]
    low, high = min(there), max(there)
    whole = f"positions {min(first)} to {max(first)}" if first else f"{size} results, as was said"
    return DataError(
        "positions are not counted in one way: the first page has {}, page {} positions {} (session {}) to {} "
        "(session {}). Set {} and {} or {}; results that do not fit are set aside then.",
        whole,
        number,
        low[1],
        sessions[low],
        high[1],
        sessions[high],
        setting("page_size"),
        setting("paging", "restarts"),
        setting("paging", "continues"),
    )
