"""Users, or sessions where a log has no users, that do not look like people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from cldrank.clicks.counting import count_row

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_RATE_STEPS = 1000  # click rates are binned to this fraction
_LEAST_IMPRESSIONS = 20  # of an actor, before its click rate counts towards what is usual
_LEAST_PAGES = 50  # nobody is suspicious for fewer
_CHANCE = 1e-6
_MOST_NAMED = 10


@dataclass(frozen=True)
class Suspect:
    """A suspicious user or session."""

    name: str
    pages: int
    impressions: int
    clicks: int


@dataclass(frozen=True)
class Actors:
    """Users (or sessions), and those among them whose behaviour lies far outside of the rest.

    kind            "user", or "session" where the log has no users
    unnamed         impressions without a user
    many_pages      actors with more than `page_limit` pages: three quartile ranges, on a log scale and at least a
                    factor of two each, above the upper quartile
    all_clicked     actors that clicked everything they saw, at least `all_clicked_from` impressions, which chance alone
                    would do less than once in a million
    high_rate       actors with a click rate above `rate_limit`, three quartile ranges above the upper quartile, over
                    enough impressions that one at the upper quartile would reach it less than once in a million
    suspicious      actors with any of the three; `impressions` and `clicks` are theirs
    named           the busiest of them
    """

    kind: Literal["user", "session"]
    actors: int
    unnamed: int
    page_limit: int
    many_pages: int
    all_clicked_from: int
    all_clicked: int
    rate_limit: float | None
    high_rate: int
    suspicious: int
    impressions: int
    clicks: int
    named: tuple[Suspect, ...]


def describe_actors(pages: ir.Table, column: str, rate: float) -> Actors:
    """Find the actors of a table of pages that do not look like people; `rate` is the click-through rate of the log."""
    import ibis

    unnamed = count_row(pages.aggregate(n=pages[column].isnull().ifelse(pages.size, 0).sum()))["n"]
    known = pages.filter(pages[column].notnull())
    actors = known.group_by(actor=known[column]).aggregate(
        pages=known.count(), impressions=known.size.sum().cast("int64"), clicks=known.clicked.sum().cast("int64")
    )
    with actors.cache() as kept:
        page_limit = _page_limit(kept.group_by("pages").aggregate(n=kept.count()).to_pyarrow())
        steady = kept.filter(kept.impressions >= _LEAST_IMPRESSIONS)
        bins = steady.mutate(step=(steady.clicks * _RATE_STEPS / steady.impressions).floor().cast("int64"))
        usual, rate_limit = _rate_limit(bins.group_by("step").aggregate(n=bins.count()).to_pyarrow())
        least = all_clicked_from(rate)
        flagged = kept.mutate(
            many_pages=kept.pages > page_limit,
            all_clicked=(kept.clicks >= kept.impressions) & (kept.impressions >= least),
            high_rate=_is_high(kept, usual, rate_limit),
        )
        flagged = flagged.mutate(odd=flagged.many_pages | flagged.all_clicked | flagged.high_rate)
        found = count_row(
            flagged.aggregate(
                actors=flagged.count(),
                **{name: flagged[name].sum() for name in ("many_pages", "all_clicked", "high_rate")},
                suspicious=flagged.odd.sum(),
                impressions=flagged.odd.ifelse(flagged.impressions, 0).sum(),
                clicks=flagged.odd.ifelse(flagged.clicks, 0).sum(),
            )
        )
        busiest = flagged.filter(flagged.odd).order_by([ibis.desc("impressions"), "actor"]).limit(_MOST_NAMED)
        named = tuple(
            Suspect(str(entry["actor"]), int(entry["pages"]), int(entry["impressions"]), int(entry["clicks"]))
            for entry in busiest.to_pyarrow().to_pylist()
        )
    return Actors(
        kind="user" if column == "user_id" else "session",
        unnamed=unnamed,
        page_limit=page_limit,
        all_clicked_from=least,
        rate_limit=rate_limit,
        named=named,
        **found,
    )


def all_clicked_from(rate: float) -> int:
    """From how many impressions on clicking all of them is not chance: rate^n below one in a million; at least 5.

    >>> all_clicked_from(0.2)
    9
    """
    if not 0 < rate < 1:
        return 5
    return max(5, math.ceil(math.log(_CHANCE) / math.log(rate)))


def _page_limit(histogram: pa.Table) -> int:
    """The number of pages above which an actor is suspicious, from how many actors have how many pages."""
    low, high = _quartiles(histogram, "pages")
    return max(_LEAST_PAGES, math.ceil(high * max(high / max(low, 1.0), 2.0) ** 3))


def _rate_limit(histogram: pa.Table) -> tuple[float, float | None]:
    """The upper quartile of click rates, and the rate above which an actor is suspicious; None: no rate is."""
    if not len(histogram):
        return 0.0, None
    low, high = _quartiles(histogram, "step")
    limit = (high + 3 * max(high - low, 1.0)) / _RATE_STEPS
    return (high + 0.5) / _RATE_STEPS, limit if limit < 1 else None


def _is_high(actors: ir.Table, usual: float, limit: float | None) -> ir.BooleanValue:
    """Whether a click rate is above the limit, beyond chance at the usual rate.

    Chernoff's bound on that chance is exp(-n KL(rate, usual)).
    """
    import ibis

    if limit is None:
        return ibis.literal(False)
    rate = ibis.greatest(ibis.least(actors.clicks / actors.impressions, 1 - 1e-9), 1e-9)  # for the logarithms
    unlikely = rate * (rate / usual).ln() + (1 - rate) * ((1 - rate) / (1 - usual)).ln()
    surprise = ibis.ifelse(rate > limit, actors.impressions * unlikely, 0.0)
    return surprise > -math.log(_CHANCE)


def _quartiles(histogram: pa.Table, name: str) -> tuple[float, float]:
    if not len(histogram):
        return 0.0, 0.0
    values = histogram[name].to_numpy().astype(np.float64)
    order = np.argsort(values)
    below = np.cumsum(histogram["n"].to_numpy()[order])
    low, high = np.searchsorted(below, [0.25 * below[-1], 0.75 * below[-1]])
    return float(values[order][low]), float(values[order][high])
