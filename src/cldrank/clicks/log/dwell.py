"""Dwell times: a click counts if the reader stayed long enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.log.values import ValueReader, stripped
from cldrank.errors import DataError, setting

if TYPE_CHECKING:
    import ibis.expr.types as ir

_LONG = 3600.0  # seconds on one result that few readers stay
_SHORT = 0.1


def satisfied(
    rows: ir.Table, clicks: ir.IntegerValue, dwell: ir.Value, layout: LogLayout, values: ValueReader
) -> tuple[ir.IntegerValue, ir.BooleanValue, str]:
    """Clicks without those that were too short, where a dwell time is not a number from 0, and what was found.

    A click without a dwell time counts: it is often the last of a session, and nothing shows that its reader left.
    """
    least = layout.satisfied or 0.0
    number = values.number(dwell, "dwell")
    number = number.isnan().ifelse(None, number)
    if layout.dwell_unit == "ms":
        number = number / 1000
    known = (stripped(dwell) != "").fill_null(False) if dwell.type().is_string() else number.notnull()
    sensible = (number >= 0) & (number < float("inf"))
    clicked = clicks > 0
    odd = clicked & known & ~sensible.fill_null(False)
    short = (number < least).fill_null(False) & ~odd
    seen = rows.select(clicked=clicked, number=number, known=known, short=short, odd=odd)
    seen = seen.filter(seen.clicked & ~seen.odd)
    said = seen.known
    every, brief, unknown, timed, long, tiny = (
        int(value or 0)
        for value in values.row(
            seen.aggregate(
                every=seen.count(),
                brief=seen.short.sum(),
                unknown=(~said).sum(),
                timed=(seen.number >= 0).sum(),
                long=(seen.number > _LONG).sum(),
                tiny=((seen.number > 0) & (seen.number < _SHORT)).sum(),
            )
        )
    )
    _check_unit(layout.dwell_unit, timed, long, tiny)
    found = (
        f"clicks of {least:g} s or longer: {every - brief - unknown:,}, counted; shorter: {brief:,}, not counted; of "
        f"unknown length: {unknown:,}, counted"
    )
    return short.ifelse(0, clicks), odd, found


def _check_unit(unit: str | None, timed: int, long: int, tiny: int) -> None:
    """Refuse dwell times that are far from what readers do, as in another unit; seconds only if they are not said."""
    if unit is None and long * 2 > timed:
        raise DataError(
            "{:,} of {:,} dwell times would be longer than an hour if they were seconds. If they are milliseconds, set "
            "{}; if they are seconds, set {}.",
            long,
            timed,
            setting("dwell_unit", "ms"),
            setting("dwell_unit", "s"),
        )
    if unit == "ms" and tiny * 2 > timed:
        raise DataError(
            "{:,} of {:,} dwell times would be shorter than a tenth of a second if they were milliseconds. If they are "
            "seconds, leave out {}.",
            tiny,
            timed,
            setting("dwell_unit", "ms"),
        )
