"""Users, or sessions where a log has no users, that do not look human."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cldrank.tables import Relation

BOT_REASONS = ("many_pages", "all_clicked", "high_rate")
_RATE_STEPS = 1000  # click rates are binned to this fraction
_LEAST_IMPRESSIONS = 20  # of a user, before its click rate counts towards what is usual
_LEAST_PAGES = 50  # nobody is suspicious for fewer
_CHANCE = 1e-6


@dataclass(frozen=True)
class BotRule:
    """What does not look human in a log. The SQL of each reason refers to name, pages, impressions and clicks.

    page_limit         more pages than this: three quartile ranges, on a log scale and at least a factor of two each,
                       above the upper quartile
    all_clicked_from   everything clicked, of at least this many impressions, which chance alone would do less than once
                       in a million
    rate_limit         a click rate above this, three quartile ranges above the upper quartile, over enough impressions
                       that a user at the upper quartile would reach it less than once in a million; None: no rate
    usual_rate         the upper quartile of click rates
    """

    page_limit: int
    all_clicked_from: int
    rate_limit: float | None
    usual_rate: float

    def sql(self) -> dict[str, str]:
        """A condition for each of `BOT_REASONS`."""
        high = "FALSE"
        if self.rate_limit is not None:  # Chernoff: the chance is at most exp(-n KL(rate, usual))
            rate, usual = "greatest(least(clicks / impressions, 1 - 1e-9), 1e-9)", self.usual_rate
            unlikely = f"{rate} * ln({rate} / {usual}) + (1 - {rate}) * ln((1 - {rate}) / (1 - {usual}))"
            high = f"{rate} > {self.rate_limit} AND impressions * ({unlikely}) > {-math.log(_CHANCE)}"
        everything = f"clicks >= impressions AND impressions >= {self.all_clicked_from}"
        return dict(zip(BOT_REASONS, (f"pages > {self.page_limit}", everything, high), strict=True))


def find_bots(log: Relation) -> Relation:
    """The names of users, or sessions, of a plain log that do not look human."""
    column = "user_id" if "user_id" in log.columns else "session_id"
    pages = (
        f"SELECT session_id, query_id, max({column}) AS named, count(*) AS size, count(*) FILTER (WHERE clicks > 0) AS "
        f"clicked FROM {log} WHERE reason IS NULL GROUP BY session_id, query_id"
    )
    users = log.engine.hold(
        f"SELECT named AS name, count(*) AS pages, CAST(sum(size) AS BIGINT) AS impressions, "
        f"CAST(sum(clicked) AS BIGINT) AS clicks FROM ({pages}) WHERE named IS NOT NULL GROUP BY named"
    )
    odd = " OR ".join(f"({condition})" for condition in bot_rule(users).sql().values())
    return log.engine.hold(f"SELECT name FROM {users} WHERE {odd}")


def bot_rule(users: Relation, rate: float | None = None) -> BotRule:
    """The rule for users with their pages, impressions and clicks; `rate` is the click-through rate of the log."""
    engine = users.engine
    if rate is None:
        sums = engine.row(f"SELECT sum(clicks) AS clicks, sum(impressions) AS impressions FROM {users}")
        rate = float(sums["clicks"] or 0) / float(sums["impressions"] or 1)
    low, high = _quartiles(engine.rows(f"SELECT pages AS value, count(*) AS n FROM {users} GROUP BY pages"))
    page_limit = max(_LEAST_PAGES, math.ceil(high * max(high / max(low, 1.0), 2.0) ** 3))
    rates = engine.rows(
        f"SELECT CAST(floor(clicks * {_RATE_STEPS} / impressions) AS BIGINT) AS value, count(*) AS n "
        f"FROM {users} WHERE impressions >= {_LEAST_IMPRESSIONS} GROUP BY 1"
    )
    low, high = _quartiles(rates)
    limit = (high + 3 * max(high - low, 1.0)) / _RATE_STEPS
    usual = (high + 0.5) / _RATE_STEPS if rates else 0.0
    return BotRule(page_limit, all_clicked_from(rate), limit if rates and limit < 1 else None, usual)


def all_clicked_from(rate: float) -> int:
    """From how many impressions on clicking all of them is not chance: rate^n below one in a million; at least 5."""
    if not 0 < rate < 1:
        return 5
    return max(5, math.ceil(math.log(_CHANCE) / math.log(rate)))


def _quartiles(histogram: list[dict[str, Any]]) -> tuple[float, float]:
    if not histogram:
        return 0.0, 0.0
    values, counts = (np.array([float(entry[name]) for entry in histogram]) for name in ("value", "n"))
    order = np.argsort(values)
    below = np.cumsum(counts[order])
    low, high = np.searchsorted(below, [0.25 * below[-1], 0.75 * below[-1]])
    return float(values[order][low]), float(values[order][high])
