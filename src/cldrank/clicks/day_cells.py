"""The days of a log: which day a row is of, and the cells of each day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np

from cldrank._typing import IntArray
from cldrank.clicks.cell_file import segments_of
from cldrank.clicks.counting import one_row
from cldrank.clicks.log.layout import mapping
from cldrank.clicks.log.roles import DAY
from cldrank.clicks.log.schema import Log
from cldrank.clicks.table import ClickTable
from cldrank.errors import Spelling, UsageError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_SAY_DAY = Spelling('day="2026-11-15"', "--day 2026-11-15")


@dataclass(frozen=True)
class DaySpan:
    """The first and the last day of a log, since 1970; None without any. `lost` has the rows without a day, if any."""

    first: int | None
    last: int | None
    lost: ir.Table | None

    @property
    def several(self) -> bool:
        """Whether it has more than one day."""
        return self.first != self.last


NO_DAYS = DaySpan(None, None, None)


def by_day(log: Log) -> tuple[Log, DaySpan]:
    """The log with a column `day`, and what days it has; rows without a day are left out.

    A session that sees a page on two days has two pages: so days give the same cells together and one by one.
    """
    if "timestamp" not in log.optional:
        raise UsageError(
            "the days of a log are those of its timestamp, which it lacks; map one with {}, or name the day with {}.",
            mapping("timestamp"),
            _SAY_DAY,
        )
    rows = log.rows.mutate(**{DAY: day_number(log.rows.timestamp)})
    known = rows.aggregate(first=rows.day.min(), last=rows.day.max(), without=rows.day.isnull().sum())
    found = one_row(known)
    lost = rows.filter(rows.day.isnull()) if found["without"] else None
    rows = rows if lost is None else rows.filter(rows.day.notnull())
    if found["first"] == found["last"]:
        rows = rows.drop(DAY)
    return replace(log.with_times(), rows=rows), DaySpan(found["first"], found["last"], lost)


def day_number(timestamp: ir.TimestampValue) -> ir.IntegerValue:
    """The UTC day of an instant, in days since 1970."""
    return (timestamp.epoch_seconds().cast("float64") / 86_400).floor().cast("int64")


def cells_by_day(
    cells: pa.Table, whole: ClickTable, row: IntArray, span: DaySpan, days: bool | date
) -> dict[date, ClickTable]:
    """The cells of each day, as parts of a table; `row` has the candidate of each cell, below 0 for unknown ones."""
    if isinstance(days, date):
        return {days: whole}
    if not span.several:
        return {} if span.first is None else _of_days({span.first: whole})
    number = cells[DAY].to_numpy()
    position, impressions, clicks = (cells[name].to_numpy() for name in ("position", "impressions", "clicks"))
    segment, names = segments_of(cells)
    found = {}
    for day in np.unique(number).tolist():
        mine = (number == day) & (row >= 0)
        counts = position[mine], impressions[mine], clicks[mine]
        found[day] = ClickTable(
            whole.candidates,
            row[mine],
            *counts,
            every_click=whole.every_click,
            sources=whole.sources,
            segment=segment[mine],
            segment_names=names,
            layout=whole.layout,
        )
    return _of_days(found)


def _of_days(tables: Mapping[int, ClickTable]) -> dict[date, ClickTable]:
    """By date, each with the part of its sources that it holds."""
    found = {}
    for number, table in tables.items():
        day = date(1970, 1, 1) + timedelta(days=number)
        parts = (replace(one, part=", ".join(filter(None, (one.part, f"day={day}")))) for one in table.sources)
        found[day] = replace(table, sources=tuple(parts))
    return found


def rows_without_day(rows: ir.Table) -> pa.Table:
    """The rows that are set aside because they have no day."""
    import pyarrow as pa

    found = rows.select("session_id", "query_id", "doc_id", "position", "clicks").to_pyarrow()
    return found.append_column("reason", pa.array(["no day"] * len(found), pa.string()))
