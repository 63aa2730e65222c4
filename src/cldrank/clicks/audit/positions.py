"""Facts about positions and queries from cells: clicks by position, sessions by query, candidates never shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable

Floats = NDArray[np.float64]

Z95 = 1.959964  # 95% of a normal distribution lie within this many standard deviations
_QUANTILES = {"least": 0.0, "10%": 0.1, "25%": 0.25, "median": 0.5, "75%": 0.75, "90%": 0.9, "most": 1.0}


@dataclass(frozen=True)
class Position:
    """Impressions and clicks at one position; `low` … `high` is the 95% Wilson interval of the click-through rate."""

    position: int
    impressions: int
    clicks: int
    rate: float
    low: float
    high: float
    error: float  # the standard error of the rate


@dataclass(frozen=True)
class Bin:
    """How many of something lie between `low` and `high`, both included."""

    low: int
    high: int
    count: int


@dataclass(frozen=True)
class Queries:
    """How the traffic spreads over queries and their candidates.

    searched      queries with at least one impression
    sessions      quantiles of the pages shown for a searched query
    histogram     of the same, in powers of two
    clicks        quantiles of the clicks of a searched query
    unclicked     searched queries without a click
    candidates    of searched queries, None where only displayed ones are known
    never_shown   of those, how many were at no position ever, or None
    """

    queries: int
    searched: int
    sessions: dict[str, float]
    histogram: tuple[Bin, ...]
    clicks: dict[str, float]
    unclicked: int
    shown: int
    candidates: int | None
    never_shown: int | None


def wilson(clicks: Floats, impressions: Floats) -> tuple[Floats, Floats]:
    """The 95% Wilson score interval of a rate, sound also near 0 and 1.

    >>> [bound.round(3).tolist() for bound in wilson(np.array([0.0, 5.0]), np.array([10.0, 10.0]))]
    [[0.0, 0.237], [0.278, 0.763]]
    """
    n = np.maximum(impressions, 1.0)
    rate = np.minimum(clicks / n, 1.0)
    middle = (rate + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * np.sqrt(rate * (1 - rate) / n + Z95**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, rate), np.clip(middle + half, rate, 1.0)


def curve(table: ClickTable) -> tuple[Position, ...]:
    """Impressions and clicks at every position where anything was shown."""
    impressions = np.bincount(table.position, table.impressions).astype(np.float64)
    clicks = np.bincount(table.position, table.clicks).astype(np.float64)
    places = np.flatnonzero(impressions)
    n, c = impressions[places], clicks[places]
    low, high = wilson(c, n)
    rate = c / n
    error = np.sqrt(np.maximum(rate * (1 - rate), 0.0) / n)
    return tuple(
        Position(int(place), int(shown), int(clicked), float(r), float(lo), float(hi), float(e))
        for place, shown, clicked, r, lo, hi, e in zip(places, n, c, rate, low, high, error, strict=True)
    )


def describe_queries(table: ClickTable, knows_candidates: bool, pages: IntArray | None = None) -> Queries:
    """How the traffic spreads over queries.

    knows_candidates   whether the table is aligned to a dataset
    pages              of each query; cells alone imply them only if no position of a page has two results
    """
    most = table.query_impressions
    searched = most > 0
    pages = most if pages is None else np.where(pages > 0, pages, most)
    clicks = np.bincount(table.candidates.row_queries, table.row_clicks, table.n_queries)[searched]
    shown = int(table.shown.sum())
    candidates = int(table.candidates.sizes[searched].sum())
    return Queries(
        queries=table.n_queries,
        searched=int(searched.sum()),
        sessions=_quantiles(pages[searched]),
        histogram=_histogram(pages[searched]),
        clicks=_quantiles(clicks),
        unclicked=int((clicks == 0).sum()),
        shown=shown,
        candidates=candidates if knows_candidates else None,
        never_shown=candidates - shown if knows_candidates else None,
    )


def _quantiles(values: Floats | IntArray) -> dict[str, float]:
    if not len(values):
        return {}
    found = np.quantile(values, list(_QUANTILES.values()), method="inverted_cdf")
    return {name: float(value) for name, value in zip(_QUANTILES, found, strict=True)}


def _histogram(values: IntArray) -> tuple[Bin, ...]:
    if not len(values):
        return ()
    power = np.frexp(values.astype(np.float64))[1] - 1  # 1 | 2, 3 | 4 … 7 | …
    counts = np.bincount(power)
    first = int(np.flatnonzero(counts)[0])
    return tuple(Bin(2**p, 2 ** (p + 1) - 1, int(counts[p])) for p in range(first, len(counts)))
