"""Where a result stands in the whole list: positions counted page by page, and grids read row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.layout import LayoutFound, LogLayout
from cldrank.clicks.log.paging import STRAY, pagination_of, usual_tops
from cldrank.clicks.log.values import DEEPEST, ODD_POSITION, OFF_THE_PAGE, ValueReader
from cldrank.errors import DataError, setting
from cldrank.wording import count

if TYPE_CHECKING:
    import ibis.expr.types as ir

_MOST_PLACES = 200_000  # pages and positions that are looked at to find out how a log counts


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
        if "page" in self.raw and self.layout.paging == "continues" and self.layout.page_size is None:
            found.values["paging"] = "continues"
        elif "page" in self.raw:
            position = self._on_pages(position, found)
        return position, found

    # -- grids -----------------------------------------------------------------------------------------------------

    def _in_grid(self, found: LayoutFound) -> ir.IntegerValue:
        """Positions in reading order, from 1."""
        top = self.layout.top
        (row, odd_row), (column, odd_column) = (self.values.whole(self.raw[n], n) for n in ("row", "column"))
        row, column = from_1(row, top), from_1(column, top)
        width = self.layout.grid_columns
        if width is None:
            width = self._width(row, column, found)
        found.values["grid_columns"] = width
        cases = [(odd, ODD_POSITION) for odd in (odd_row, odd_column) if odd is not None]  # these have no number
        cases += [((row > DEEPEST) | (column > width), OFF_THE_PAGE), ((row < 1) | (column < 1), 0)]
        return _first_of(cases, (row - 1) * width + column)

    def _width(self, row: ir.IntegerValue, column: ir.IntegerValue, found: LayoutFound) -> int:
        """How many columns the grid has: the largest in the log, without those of a few stray rows."""
        grid = self.rows.select(row=row, column=column)
        grid = grid.filter(grid.row.between(0, DEEPEST) & grid.column.between(0, DEEPEST))
        entries = self.values.rows(grid.group_by("column").aggregate(rows=grid.count(), first_row=grid.row.min()))
        if not entries:
            return 1
        rows = {int(entry["column"]): int(entry["rows"]) for entry in entries}
        first_row, first = min(int(entry["first_row"]) for entry in entries), min(rows)
        if self.layout.top == 0 and min(first_row, first) > 1:
            raise DataError(
                "rows and columns of the grid begin at {} and {}, not at 0; leave out {}.",
                first_row - 1,
                first - 1,
                setting("first_position", 0),
            )
        width, narrow = (max(one, 1) for one in usual_tops(rows))
        beyond = sum(n for number, n in rows.items() if number > narrow)
        if width != narrow:
            raise DataError(
                "the grid may have {} or {} columns: {:,} of {:,} results are beyond the first {}. Set {}, which sets "
                "those aside, or {}.",
                narrow,
                width,
                beyond,
                sum(rows.values()),
                narrow,
                setting("grid_columns", narrow),
                setting("grid_columns", width),
            )
        how = f"as all but {count(beyond, 'result')} show" if beyond else "the largest in the log"
        found.sentences.append(f"the grid has {count(width, 'column')}, {how}")
        return width

    # -- pages -----------------------------------------------------------------------------------------------------

    def _on_pages(self, position: ir.IntegerValue, found: LayoutFound) -> ir.IntegerValue:
        """Positions in the whole list, given those on numbered pages of results."""
        page, odd = self.values.whole(self.raw["page"], "page")
        first, shown, sessions = self._shown(page, position)
        way = pagination_of(shown, sessions, self.layout)
        found.values["first_page"] = first
        if first == 0 and self.layout.first_page is None:
            found.sentences.append("pages count from 0")
        if way is None or not any(number > 1 for number, _ in shown):
            found.sentences.append("all results are on the first page")
        else:
            found.values.update(page_size=way.size, paging=way.name)
            found.sentences.append(f"positions {way.described}")
        far = ~page.between(first, DEEPEST)
        number = far.ifelse(None, page).cast("int64") - first  # whole pages before this one
        if way is not None and not way.restarts:  # the page adds nothing, but may contradict
            off = (position >= 1) & ((position <= number * way.size) | (position > (number + 1) * way.size))
            return off.fill_null(False).ifelse(OFF_THE_PAGE, position)
        size = DEEPEST if way is None else way.size
        cases = [] if odd is None else [(odd, ODD_POSITION)]
        cases += [(position < 1, position), (far | (position > size), OFF_THE_PAGE)]
        return _first_of(cases, number * size + position)

    def _shown(
        self, page: ir.IntegerValue, position: ir.IntegerValue
    ) -> tuple[int, dict[tuple[int, int], int], dict[tuple[int, int], Any]]:
        """The number of the first page; the rows of each page, counted from 1, and position; an example of each."""
        rows = self.rows.select(page=page, position=position, session=self.raw["session_id"])
        rows = rows.filter(rows.position.between(1, DEEPEST) & rows.page.between(0, DEEPEST))
        grouped = rows.group_by("page", "position").aggregate(rows=rows.count(), session=rows.session.min())
        entries = self.values.rows(grouped.order_by("page", "position").limit(_MOST_PLACES))
        zero, one = (sum(entry["rows"] for entry in entries if entry["page"] == number) for number in (0, 1))
        first = self.layout.first_page
        if first is None:
            first = 0 if zero > STRAY * one else 1
        shown, sessions = {}, {}
        for entry in entries:
            place = int(entry["page"]) + 1 - first, int(entry["position"])
            if place[0] >= 1:
                shown[place], sessions[place] = int(entry["rows"]), entry["session"]
        return first, shown, sessions


def _first_of(
    cases: list[tuple[ir.BooleanValue, int | ir.IntegerValue]], otherwise: ir.IntegerValue
) -> ir.IntegerValue:
    """The value of the first condition that holds."""
    import ibis

    return ibis.cases(*((condition.fill_null(False), value) for condition, value in cases), else_=otherwise)


def from_1(position: ir.IntegerValue, top: int) -> ir.IntegerValue:
    """A position counted from 1, given the number of the first."""
    far = (position > DEEPEST).fill_null(False)  # left as it is: one more could overflow its type
    return far.ifelse(position, far.ifelse(0, position).cast("int64") + (1 - top))
