"""Before there is a ranker: how many held-out queries a verdict on it will take, from the variances of a log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cldrank._typing import Floats
from cldrank.arguments import check_number
from cldrank.clicks.table import ClickTable
from cldrank.propensity import AffineClicks, Propensities, estimators
from cldrank.propensity.choosing import best_requirement
from cldrank.propensity.estimator import REFUSALS
from cldrank.propensity.identifiability import Requirement
from cldrank.propensity.segment_propensities import Curve, drawn_curves, slopes_and_bases

_CONFIDENCE, _POWER = 0.9, 0.8
_CURVES = 50  # drawn
_FEWEST_QUERIES = 50  # below which intervals are rough


@dataclass(frozen=True)
class VerdictPlan:
    """The held-out queries with which a verdict tells a difference of a given size, with 80% power at 90% confidence.

        queries = queries now (queries_error² + curve_error²) ((z_95% + z_80%) / difference)²

    It is for a ranker whose top was shown at some time, in an order that has nothing to do with production's.

    difference       as a share of production's value
    measure          DCG at the length of a page
    production       production's value now
    queries_error    standard error of the difference, by the queries and clicks of this log, as a share of the value
    curve_error      the same by the curve; 0 where it is assumed
    curve            the source of the propensities
    queries, pages   how many are needed, rounded to two digits; None where the log does not tell
    log_queries, log_pages    how many the log has
    model_limit      if half of the top was never shown: how far predictions of its mean relevance may be off, as a
                     share of it, for any number of queries to be enough; at half of that it takes four times as many

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2]] * 40, [query // 2 for query in range(80)])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2] * 40, impressions=[9] * 80, clicks=[5, 1, 3, 2] * 20)
    >>> plan = cr.auditing.audit_table(clicks, plan=0.02).facts.plan
    >>> plan.measure, plan.queries, plan.pages
    ('DCG@2', 76, 690)
    """

    difference: float
    measure: str
    production: float
    queries_error: float
    curve_error: float
    curve: str
    queries: int | None
    pages: int | None
    log_queries: int
    log_pages: int
    model_limit: float

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it takes, and what that assumes."""
        size = f"a difference of {_percent(self.difference)} of production's {self.measure}"
        if self.queries is None:
            return (f"No plan for {size}: no query has results that differ in corrected clicks.",)
        known = "with its error" if self.curve_error else "taken as known"
        return (
            f"To tell {size} in four of five cases, a verdict needs about {self.queries:,} held-out queries with about "
            f"{self.pages:,} pages on them; the log has {self.log_queries:,} queries with {self.log_pages:,} pages.",
            f"This is for a ranker whose top was shown at some time, in an order of its own; one closer to production "
            f"needs fewer. Propensities: {self.curve}, {known}.",
            "If half of its top was never shown, a model has to predict how relevant that half is. Where it may be off "
            f"by {_percent(self.model_limit / 2)} of the mean relevance, four times as many queries are needed; where "
            f"by {_percent(self.model_limit)}, no number is enough.",
        )


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def plan_verdict(table: ClickTable, requirements: Sequence[Requirement], difference: float) -> VerdictPlan:
    """Plan a verdict on a difference, as a share of production's DCG, from the cells of a log."""
    from scipy.special import ndtri

    check_number("plan", difference, above=0, below=1)
    curve = _curve(table, requirements)
    queries, pages = int((table.query_impressions > 0).sum()), int(table.query_impressions.sum())
    value, _, error = _reordered(table, curve) if pages else (0.0, 0.0, 0.0)
    drawn = [_reordered(table, draw)[1] for draw in drawn_curves(curve, _CURVES, 0)] if error else []
    errors = error, float(np.std(drawn, ddof=1)) if drawn else 0.0
    z = float(ndtri((1 + _CONFIDENCE) / 2) + ndtri(_POWER))
    needed = max(_FEWEST_QUERIES, queries * (errors[0] ** 2 + errors[1] ** 2) * (z / difference) ** 2)
    return VerdictPlan(
        difference=difference,
        measure=f"DCG@{max(table.depth, 1)}",
        production=value,
        queries_error=errors[0],
        curve_error=errors[1],
        curve=curve.origin,
        queries=_rounded(needed) if error else None,
        pages=_rounded(needed * pages / queries) if error else None,
        log_queries=queries,
        log_pages=pages,
        model_limit=2 * difference,
    )


def _curve(table: ClickTable, requirements: Sequence[Requirement]) -> Propensities | AffineClicks:
    """The curve by the estimator that the log supports best; 1 / position where it supports none."""
    best = best_requirement(requirements)
    try:
        if best is not None:
            curve: Propensities | AffineClicks = estimators()[best.estimator]().fit(table)
            return curve
    except REFUSALS:  # the requirements are necessary, and may not be enough
        pass
    return Propensities.power(1.0, max(table.depth, 1))


def _reordered(table: ClickTable, curve: Curve) -> tuple[float, float, float]:
    """Production's DCG; what an order at random of the results that were shown loses on it; and that order's error.

        variance = Σ_q share_q² Σ_i (d_i - mean d)² Σ_i (r_i - mean r)² / (n_q - 1)    over the n_q results of a query

    where d are the discounts of all ranks, 0 beyond the page, and r are the corrected clicks: the variance of Σ d r
    over all orders. Loss and error are shares of the DCG.
    """
    slope, base = slopes_and_bases(curve, table)
    of_row, n, depth, shown = table.candidates.row_queries, table.n_queries, table.depth, table.shown

    def rows(values: Floats) -> Floats:
        return np.bincount(table.row, values, len(of_row)).astype(np.float64, copy=False)

    def total(values: Floats) -> Floats:
        return np.bincount(of_row[shown], values[shown], n).astype(np.float64, copy=False)

    exposure = rows(table.impressions * slope)
    relevance = np.divide(
        rows(table.clicks - table.impressions * base), exposure, out=np.zeros(len(of_row)), where=exposure > 0
    )
    pages, at = np.maximum(table.query_impressions, 1), table.position - 1
    by_rank = np.bincount(of_row[table.row] * depth + at, table.impressions, n * depth).reshape(n, depth)
    discounts = 1 / np.log2(np.arange(1.0, depth + 1) + 1)
    ranks = discounts * by_rank / pages[:, None]  # 0 where pages have ended
    size, share = np.maximum(total(np.ones(len(of_row))), 1.0), table.query_impressions / table.query_impressions.sum()
    value = float(share @ total(rows(table.impressions * discounts[at]) / pages[of_row] * relevance))
    if value <= 0:
        return value, 0.0, 0.0
    loss = 1 - float(share @ (ranks.sum(axis=1) * total(relevance) / size)) / value
    spreads = [
        (ranks**2).sum(axis=1) - ranks.sum(axis=1) ** 2 / size,
        total(relevance**2) - total(relevance) ** 2 / size,
    ]
    variance = float(share**2 @ (np.maximum(spreads[0] * spreads[1], 0.0) / np.maximum(size - 1, 1.0)))
    return value, loss, float(np.sqrt(variance)) / value


def _rounded(number: float) -> int:
    """Rounded up to two digits."""
    step = int(10 ** max(math.floor(math.log10(number)) - 1, 0))
    return math.ceil(number / step) * step
