"""Whether clicking changed while a log was written, and days on which something broke."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import Floats
from cldrank.tables import Relation
from cldrank.wording import count

DAY = 86_400  # seconds
_Z95 = 1.959964  # 95% of a normal distribution lie within this many standard deviations
_LEAST_CLICKS = 60  # at position 1, before differences between days can be tested
_BROKEN = 0.1  # of the usual clicks or impressions, at most, on a day on which something broke
_CHANCE = 1e-6  # for so few clicks on a usual day
_ALIKE = 5  # days between the first and the last that it takes to know what impressions are usual …
_RARE = 0.2  # … and the share of them, at most, that may have so few
_WHOLE = 0.5  # of the first and the last day, what the log must cover before its impressions are judged


@dataclass(frozen=True)
class Day:
    """A day (in UTC); `top_impressions` and `top_clicks` are those at position 1."""

    day: str
    pages: int
    impressions: int
    clicks: int
    top_impressions: int
    top_clicks: int


@dataclass(frozen=True)
class Change:
    """How much a rate differs between days: relative standard deviation beyond chance, and the p-value of none."""

    spread: float
    p_value: float


@dataclass(frozen=True)
class BrokenDay:
    """A day (in UTC) with at most a tenth of the usual clicks per impression, or of the usual impressions.

    usual    the click-through rate of the other days, or their median number of impressions
    """

    day: str
    lacks: str
    impressions: int
    clicks: int
    usual: float

    def __str__(self) -> str:
        shown = f"on {self.day} {count(self.impressions, 'impression')}, where {self.usual:,.0f} are usual"
        clicks = f"on {self.day} {count(self.clicks, 'click')} in {count(self.impressions, 'impression')}"
        return shown if self.lacks == "impressions" else f"{clicks}, where {self.usual:.2%} is usual"


@dataclass(frozen=True)
class Drift:
    """A log day by day.

    first, last  when the first and the last page was shown
    undated      pages without a timestamp
    days         those that have pages
    top_rate     change of the click-through rate at position 1, None where there are too few clicks to tell
    broken_days  days on which clicks or impressions nearly vanished
    """

    first: str
    last: str
    undated: int
    days: tuple[Day, ...]
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
    """What happened when, by the `moment` of each page in seconds since 1970; None if no page has one."""
    span = pages.engine.row(
        f"SELECT min(moment) AS first, max(moment) AS last, count(*) - count(moment) AS undated FROM {pages}"
    )
    if span["first"] is None:
        return None
    rows = pages.engine.rows(f"""
        SELECT moment // {DAY} AS day, count(*) AS pages, sum(size) AS impressions, sum(clicked) AS clicks,
            sum(first) AS top_impressions, sum(first_clicked) AS top_clicks
        FROM {pages} WHERE moment IS NOT NULL GROUP BY 1 ORDER BY 1""")
    columns: dict[str, Any] = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    names = ("pages", "impressions", "clicks", "top_impressions", "top_clicks")
    return Drift(
        first=_date(span["first"]),
        last=_date(span["last"]),
        undated=int(span["undated"]),
        days=tuple(Day(_date(row["day"] * DAY)[:10], *(int(row[name]) for name in names)) for row in rows),
        top_rate=_top_change(columns["top_impressions"], columns["top_clicks"]),
        broken_days=broken_days(columns, int(span["first"]), int(span["last"])),
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


def broken_days(columns: dict[str, Floats], first: int, last: int) -> tuple[BrokenDay, ...]:
    """The days with a tenth of the usual clicks per impression, beyond chance, or of the usual impressions.

    columns        day (counted from 1970), impressions and clicks of the days that have pages
    first, last    the times of the first and the last page; the days in between count also without any page
    """
    day = columns["day"].astype(np.int64)
    impressions, clicks = (np.zeros(int(day[-1] - day[0]) + 1) for _ in range(2))
    impressions[day - day[0]], clicks[day - day[0]] = columns["impressions"], columns["clicks"]
    few, usual = _few_impressions(impressions, first, last)
    broken = []
    for place, (shown, clicked) in enumerate(zip(impressions, clicks, strict=True)):
        date = _date(float(day[0] + place) * DAY)[:10]
        rate = (clicks.sum() - clicked) / max(impressions.sum() - shown, 1.0)
        if few[place]:
            broken.append(BrokenDay(date, "impressions", int(shown), int(clicked), usual))
        elif _is_rare(clicked, shown * rate):
            broken.append(BrokenDay(date, "clicks", int(shown), int(clicked), rate))
    return tuple(broken)


def _is_rare(clicks: float, expected: float) -> bool:
    """Whether so few clicks are at most a tenth of what was expected, and not by chance."""
    from scipy.stats import poisson

    return clicks <= _BROKEN * expected and bool(poisson.cdf(clicks, expected) < _CHANCE)


def _few_impressions(impressions: NDArray[np.float64], first: int, last: int) -> tuple[NDArray[np.bool_], float]:
    """The days with far fewer impressions than usual, where days are usually alike; and how many are usual."""
    between = impressions[1:-1]
    usual = float(np.median(between)) if len(between) else 0.0
    few = impressions <= _BROKEN * usual
    if len(between) < _ALIKE or few[1:-1].mean() > _RARE:
        return np.zeros(len(impressions), dtype=bool), usual
    for place, covered in ((0, 1 - first % DAY / DAY), (-1, last % DAY / DAY)):
        few[place] = covered >= _WHOLE and impressions[place] <= _BROKEN * covered * usual
    return few, usual
