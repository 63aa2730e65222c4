"""Whether clicking changed while a log was written, and days on which something broke."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cldrank._typing import Floats
from cldrank.tables import Relation
from cldrank.wording import count

DAY = 86_400  # seconds
_Z95 = 1.959964  # 95% of a normal distribution lie within this many standard deviations
_LEAST_CLICKS = 60  # at position 1, before differences between days can be tested
_BROKEN = 0.1  # of the usual clicks, at most, on a day on which something broke
_CHANCE = 1e-6  # at most, of as few clicks on a usual day


@dataclass(frozen=True)
class Change:
    """How much a rate differs between days: relative standard deviation beyond chance, and the p-value of no change."""

    spread: float
    p_value: float


@dataclass(frozen=True)
class BrokenDay:
    """A day (in UTC) with at most a tenth of the `usual` click-through rate, that of the other days."""

    day: str
    impressions: int
    clicks: int
    usual: float

    def __str__(self) -> str:
        shown = count(self.impressions, "impression")
        return f"on {self.day} {count(self.clicks, 'click')} in {shown}, where {self.usual:.2%} is usual"


@dataclass(frozen=True)
class Drift:
    """When a log was written, and how days differ.

    first, last  when the first and the last page was shown
    undated      pages without a timestamp
    top_rate     change of the click-through rate at position 1, None where there are too few clicks to tell
    broken_days  days on which clicks nearly vanished
    """

    first: str
    last: str
    undated: int
    top_rate: Change | None
    broken_days: tuple[BrokenDay, ...]


def wilson(clicks: ArrayLike, impressions: ArrayLike) -> tuple[Floats, Floats]:
    """The 95% Wilson score interval of a rate, sound also near 0 and 1."""
    n: Floats = np.maximum(impressions, 1.0)
    rate: Floats = np.minimum(np.asarray(clicks) / n, 1.0)
    middle = (rate + _Z95**2 / (2 * n)) / (1 + _Z95**2 / n)
    half = _Z95 / (1 + _Z95**2 / n) * np.sqrt(rate * (1 - rate) / n + _Z95**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, rate), np.clip(middle + half, rate, 1.0)


def describe_drift(pages: Relation) -> Drift | None:
    """The days of a log, by the `moment` of each page in seconds since 1970; None if no page has a time."""
    span = pages.engine.row(
        f"SELECT min(moment) AS first, max(moment) AS last, count(*) - count(moment) AS undated FROM {pages}"
    )
    if span["first"] is None:
        return None
    rows = pages.engine.rows(f"""
        SELECT moment // {DAY} AS day, sum(size) AS impressions, sum(clicked) AS clicks,
            sum(first) AS top_impressions, sum(first_clicked) AS top_clicks
        FROM {pages} WHERE moment IS NOT NULL GROUP BY 1 ORDER BY 1""")
    columns: dict[str, Any] = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    return Drift(
        first=_date(span["first"]),
        last=_date(span["last"]),
        undated=int(span["undated"]),
        top_rate=_top_change(columns["top_impressions"], columns["top_clicks"]),
        broken_days=broken_days(columns["day"], columns["impressions"], columns["clicks"]),
    )


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _top_change(n: Floats, clicks: Floats) -> Change | None:
    """How click-through rates differ beyond what chance explains (DerSimonian and Laird)."""
    from scipy.stats import chi2

    rate, shown = clicks.sum() / max(n.sum(), 1.0), n > 0
    freedom = int(shown.sum()) - 1
    if clicks.sum() < _LEAST_CLICKS or rate >= 1 or freedom < 1:
        return None
    means, weights = clicks[shown] / n[shown], n[shown] / (rate * (1 - rate))
    middle = float((weights * means).sum() / weights.sum())
    statistic = float((weights * (means - middle) ** 2).sum())
    room = float(weights.sum() - (weights**2).sum() / weights.sum())
    between = max(0.0, (statistic - freedom) / room)
    return Change(math.sqrt(between) / middle if middle else 0.0, float(chi2.sf(statistic, freedom)))


def broken_days(day: Floats, impressions: Floats, clicks: Floats) -> tuple[BrokenDay, ...]:
    """The days, counted from 1970, with a tenth of the usual clicks per impression at most, and not by chance."""
    from scipy.stats import poisson

    usual = (clicks.sum() - clicks) / np.maximum(impressions.sum() - impressions, 1.0)
    expected = impressions * usual
    broken = np.flatnonzero((clicks <= _BROKEN * expected) & (poisson.cdf(clicks, expected) < _CHANCE))
    return tuple(
        BrokenDay(_date(day[at] * DAY)[:10], int(impressions[at]), int(clicks[at]), float(usual[at])) for at in broken
    )
