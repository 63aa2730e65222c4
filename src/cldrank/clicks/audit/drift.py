"""Whether clicking changed while a log was written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.audit.positions import wilson
from cldrank.clicks.counting import one_row

if TYPE_CHECKING:
    import ibis.expr.types as ir

_DAY = 86_400
_LEAST_DAYS = 3  # shorter logs are cut into slices of equal length
_MOST_DAYS = 60  # longer ones into slices of several days
_SLICES = 12
_LEAST_CLICKS = 60  # at position 1, before differences between slices can be tested


@dataclass(frozen=True)
class Slice:
    """A stretch of time; `top_rate` is the click-through rate at position 1, with its 95% interval."""

    start: str
    pages: int
    impressions: int
    clicks: int
    rate: float | None
    top_impressions: int
    top_clicks: int
    top_rate: float | None
    top_low: float | None
    top_high: float | None


@dataclass(frozen=True)
class Change:
    """How much a rate differs between slices: relative standard deviation beyond chance, and the p-value of none."""

    spread: float
    p_value: float

    @property
    def p_text(self) -> str:
        """The p-value in words."""
        return "p < 0.001" if self.p_value < 1e-3 else f"p = {self.p_value:.2g}"


@dataclass(frozen=True)
class Drift:
    """A log cut into slices of equal length, days where it is long enough.

    unit        how timestamps were read: as timestamps, text, or seconds … nanoseconds since 1970
    seconds     the length of a slice
    undated     pages without a timestamp
    silent      slices without a page
    top_rate    change of the click-through rate at position 1, None where there are too few clicks to tell
    page_clicks change of the clicks per page, None likewise
    """

    unit: str
    first: str
    last: str
    seconds: float
    undated: int
    silent: int
    slices: tuple[Slice, ...]
    top_rate: Change | None
    page_clicks: Change | None


def describe_drift(pages: ir.Table, unit: str) -> Drift | None:
    """Cut pages into slices by their `moment`, in seconds since 1970; None if no page has one.

    unit    how timestamps were read
    """
    span = one_row(
        pages.aggregate(first=pages.moment.min(), last=pages.moment.max(), undated=pages.moment.isnull().sum())
    )
    if span["first"] is None:
        return None
    first, last = int(span["first"]), int(span["last"])
    start, width = _cut(first, last)
    dated = pages.filter(pages.moment.notnull())
    dated = dated.mutate(slice=((dated.moment - start) / width).floor().cast("int64"))
    found = dated.group_by("slice").aggregate(
        pages=dated.count(),
        impressions=dated.size.sum().cast("int64"),
        clicks=dated.clicked.sum().cast("int64"),
        squares=(dated.clicked * dated.clicked).sum().cast("int64"),
        top_impressions=dated["first"].sum().cast("int64"),
        top_clicks=dated.first_clicked.sum().cast("int64"),
    )
    counts = found.order_by("slice").to_pyarrow().to_pydict()
    index = np.array(counts.pop("slice"), dtype=np.int64)
    columns = {name: np.array(values, dtype=np.float64) for name, values in counts.items()}
    return Drift(
        unit=unit,
        first=_date(first),
        last=_date(last),
        seconds=float(width),
        undated=int(span["undated"] or 0),
        silent=int(index[-1]) + 1 - len(index),
        slices=_slices(index, columns, start, width),
        top_rate=_top_change(columns),
        page_clicks=_page_change(columns),
    )


def _cut(first: int, last: int) -> tuple[int, int]:
    """Where the first slice begins, and how long slices are, in seconds."""
    days = last // _DAY - first // _DAY + 1
    if days > _LEAST_DAYS:
        return first // _DAY * _DAY, _DAY * math.ceil(days / _MOST_DAYS)
    return first, max(1, math.ceil((last - first + 1) / _SLICES))


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s"  # beyond any calendar


def _slices(
    index: NDArray[np.int64], columns: dict[str, NDArray[np.float64]], start: float, seconds: float
) -> tuple[Slice, ...]:
    low, high = wilson(columns["top_clicks"], columns["top_impressions"])
    slices = []
    for place, number in enumerate(index.tolist()):
        count = {name: int(values[place]) for name, values in columns.items() if name != "squares"}
        top = count["top_impressions"] > 0
        slices.append(
            Slice(
                start=_date(start + number * seconds),
                rate=count["clicks"] / count["impressions"] if count["impressions"] else None,
                top_rate=count["top_clicks"] / count["top_impressions"] if top else None,
                top_low=float(low[place]) if top else None,
                top_high=float(high[place]) if top else None,
                **count,
            )
        )
    return tuple(slices)


def _top_change(columns: dict[str, NDArray[np.float64]]) -> Change | None:
    n, clicks = columns["top_impressions"], columns["top_clicks"]
    rate = clicks.sum() / max(n.sum(), 1.0)
    if clicks.sum() < _LEAST_CLICKS or rate >= 1:
        return None
    shown = n > 0
    return _beyond_chance(clicks[shown] / n[shown], n[shown] / (rate * (1 - rate)))


def _page_change(columns: dict[str, NDArray[np.float64]]) -> Change | None:
    """Clicks on one page are correlated, so their variance is taken over pages."""
    n, clicks = columns["pages"], columns["clicks"]
    within = columns["squares"].sum() - (clicks**2 / n).sum()
    freedom = n.sum() - len(n)
    if clicks.sum() < _LEAST_CLICKS or freedom <= 0 or within <= 0:
        return None
    return _beyond_chance(clicks / n, n / (within / freedom))


def _beyond_chance(means: NDArray[np.float64], weights: NDArray[np.float64]) -> Change | None:
    """The spread of means with variances 1 / weight, less what those variances explain (DerSimonian and Laird)."""
    from scipy.stats import chi2

    freedom = len(means) - 1
    if freedom < 1:
        return None
    middle = float((weights * means).sum() / weights.sum())
    statistic = float((weights * (means - middle) ** 2).sum())
    room = float(weights.sum() - (weights**2).sum() / weights.sum())
    between = max(0.0, (statistic - freedom) / room)
    return Change(math.sqrt(between) / middle if middle else 0.0, float(chi2.sf(statistic, freedom)))
