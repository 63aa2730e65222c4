"""Where a result stands in the whole list: positions counted page by page, and grids read row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.layout import LayoutFound, LogLayout
from cldrank.clicks.log.values import DEEPEST, ODD_POSITION, OFF_THE_PAGE, ValueReader
from cldrank.errors import DataError, setting
from cldrank.wording import count

if TYPE_CHECKING:
    import ibis.expr.types as ir

_STRAY = 0.1  # rows on page 0, relative to page 1, up to which they are mistakes
_MOST_PAGES = 10_000


@dataclass(frozen=True)
class PlaceReader:
    """Positions of results.

    rows   one row per result
    raw    the values of its roles, as they were logged
    """

    rows: ir.Table
    raw: Mapping[str, ir.Value]
    layout: LogLayout
    values: ValueReader

    def read(self, place: ir.IntegerValue | None = None) -> tuple[ir.IntegerValue, LayoutFound]:
        """The position of each result from 1, and what was found out; `place` is that in a list, from 0."""
        found = LayoutFound(values={"first_position": self.layout.top})
        if "row" in self.raw:
            position = self._in_grid(found)
        elif "position" in self.raw:
            position, odd = self.values.whole(self.raw["position"], "position")
            if self.layout.top != 1:
                position = from_1(position, self.layout.top)
            if odd is not None:  # the common types cannot be odd, and cost nothing here
                position = odd.ifelse(ODD_POSITION, position)
        elif place is not None:
            position = place + 1
        else:
            raise AssertionError("a log of single results has positions or a grid")
        if "page" in self.raw and self.layout.paging != "continues":
            position = self._on_pages(position, found)
        elif "page" in self.raw:
            found.values["paging"] = "continues"
        return position, found

    # -- grids -----------------------------------------------------------------------------------------------------

    def _in_grid(self, found: LayoutFound) -> ir.IntegerValue:
        """Positions in reading order, from 1."""
        import ibis

        top = self.layout.top
        (row, odd_row), (column, odd_column) = (self.values.whole(self.raw[n], n) for n in ("row", "column"))
        row, column = from_1(row, top), from_1(column, top)
        width = self.layout.grid_columns
        if width is None:
            grid = self.rows.select(row=row, column=column)
            grid = grid.filter(grid.row.between(0, DEEPEST) & grid.column.between(0, DEEPEST))
            first_row, first, last = self.values.row(
                grid.aggregate(first_row=grid.row.min(), first=grid.column.min(), last=grid.column.max())
            )
            if top == 0 and first is not None and min(first_row, first) > 1:
                raise DataError(
                    "rows and columns of the grid begin at {} and {}, not at 0; leave out {}.",
                    first_row - 1,
                    first - 1,
                    setting("first_position", 0),
                )
            width = max(last or 1, 1)
            found.sentences.append(f"the grid has {count(width, 'column')}, the largest in the log")
        found.values["grid_columns"] = width
        position = (row - 1) * width + column
        cases = [
            (odd, ODD_POSITION) for odd in (odd_row, odd_column) if odd is not None
        ]  # before all: an odd value has no number
        cases += [((row > DEEPEST) | (column > width), OFF_THE_PAGE), ((row < 1) | (column < 1), 0)]
        return ibis.cases(*((condition.fill_null(False), value) for condition, value in cases), else_=position)

    # -- pages -----------------------------------------------------------------------------------------------------

    def _on_pages(self, position: ir.IntegerValue, found: LayoutFound) -> ir.IntegerValue:
        """Positions in the whole list, given those on numbered pages of results."""
        import ibis

        page, odd = self.values.whole(self.raw["page"], "page")
        first, spans = self._spans(page, position)
        size, restarts = self._paging(spans)
        found.values["first_page"] = first
        if first == 0 and self.layout.first_page is None:
            found.sentences.append("pages count from 0")
        if not spans or max(spans) == 1:
            found.sentences.append("all results are on the first page")
        else:
            found.values.update(page_size=size, paging="restarts" if restarts else "continues")
            how = "restart on each page" if restarts else "continue from page to page"
            found.sentences.append(f"positions {how} of {size}")
        if not restarts:
            return position
        far = ~page.between(first, DEEPEST)
        number = far.ifelse(None, page).cast("int64") - first  # whole pages before this one
        cases = [] if odd is None else [(odd, ODD_POSITION)]
        cases += [(position < 1, position), (far | (position > size), OFF_THE_PAGE)]
        return ibis.cases(
            *((condition.fill_null(False), value) for condition, value in cases),
            else_=number * size + position,
        )

    def _spans(self, page: ir.IntegerValue, position: ir.IntegerValue) -> tuple[int, dict[int, dict[str, Any]]]:
        """The number of the first page, and the positions on each page, which is counted from 1."""
        rows = self.rows.select(page=page, position=position, session=self.raw["session_id"])
        rows = rows.filter(rows.position.between(1, DEEPEST) & rows.page.between(0, DEEPEST))
        grouped = rows.group_by("page").aggregate(
            rows=rows.count(),
            low=rows.position.min(),
            high=rows.position.max(),
            low_session=rows.session.argmin(rows.position),
            high_session=rows.session.argmax(rows.position),
        )
        spans = {entry["page"]: entry for entry in self.values.rows(grouped.order_by("page").limit(_MOST_PAGES))}
        zero, one = (spans[number]["rows"] if number in spans else 0 for number in (0, 1))
        first = self.layout.first_page
        if first is None:
            first = 0 if zero > _STRAY * one else 1
        return first, {number + 1 - first: entry for number, entry in spans.items() if number >= first}

    def _paging(self, spans: dict[int, dict[str, Any]]) -> tuple[int, bool]:
        """How many results a page has, and whether positions restart on each."""
        layout = self.layout
        later = {number: entry for number, entry in spans.items() if number > 1}
        size = layout.page_size
        if size is None and 1 in spans:
            size = int(spans[1]["high"])
        if size is None:
            if not later:
                return 1, True
            raise DataError("no result is on the first page, which would tell its size; set {}.", setting("page_size"))
        if layout.page_size is not None and layout.paging is not None:
            return size, True
        if all(entry["high"] <= size for entry in later.values()):
            return size, True
        inside = {number: ((number - 1) * size, number * size) for number in later}
        if layout.paging is None and all(
            inside[number][0] < entry["low"] <= entry["high"] <= inside[number][1] for number, entry in later.items()
        ):
            return size, False
        raise self._mixed(size, spans.get(1), later)

    def _mixed(self, size: int, first: dict[str, Any] | None, later: dict[int, dict[str, Any]]) -> DataError:
        """The error for pages that are not counted in one way."""
        number, entry = next((n, e) for n, e in later.items() if e["high"] > size)
        whole = f"positions {first['low']} to {first['high']}" if first else f"{size} results, as was said"
        return DataError(
            "positions are not counted in one way: the first page has {}, page {} positions {} (session {}) to {} "
            "(session {}). Set {} and {}; results that do not fit are set aside then.",
            whole,
            number,
            entry["low"],
            entry["low_session"],
            entry["high"],
            entry["high_session"],
            setting("page_size"),
            setting("paging", "restarts"),
        )


def from_1(position: ir.IntegerValue, top: int) -> ir.IntegerValue:
    """A position counted from 1, given the number of the first."""
    far = (position > DEEPEST).fill_null(False)  # left as it is: one more could overflow its type
    return far.ifelse(position, far.ifelse(0, position).cast("int64") + (1 - top))
