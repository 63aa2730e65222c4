"""What clicks say about the relevance of a candidate at a position, with or without regard to their noise."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, warn
from cldrank.methods.click_worth import ClickWorth
from cldrank.methods.rating_quality import rated_relevance, rating_levels
from cldrank.parameters import parameter
from cldrank.propensity import Propensities, SegmentPropensities
from cldrank.propensity.cells import PooledCells

Estimate = Literal["ips", "clipped", "posterior", "mixed"]
Floats = NDArray[np.float64]

MOST = 2.0  # that a clipped estimate says; relevance itself is at most 1


def target_choice() -> Any:
    """Declare the parameter `target`."""
    return parameter(
        default="mixed", about="relevance of a cell: c/(nρ), clipped to 2, its posterior mean, or the last two mixed"
    )


def estimated_relevance(
    clicks: ClickTable, propensities: Propensities | SegmentPropensities, estimate: Estimate = "ips"
) -> Floats:
    """(cells,) the relevance r of each cell, c clicks in n impressions at a position of propensity ρ.

        ips         r̄ = c / (n ρ): without bias, but 0 or 5 after one impression at ρ = 0.2
        clipped     min(r̄, 2)
        posterior   E[r | c, n, k], where c ~ Binomial(n, ρ r) and r is at most 1
        mixed       w min(r̄, 2) + (1 - w) posterior,   w = n ρ / (1 + n ρ)

    All but ips pool the cells of a candidate at a position, whatever their segments: c and n ρ are then sums
    over segments, and the cells share a target. So pages that are labelled at random leave the targets as they are.

    The prior of the posterior is empirical, for each position: the distribution of relevance that makes its clicks
    most likely (`deconvolution`). So candidates at a position count as draws from the same distribution,
    and the order of production is evidence: a prior common to all positions would put what nobody examined at a low
    position above what everybody passed over at a high position. As n grows, all tend to r, the posterior to within its
    grid of 100 rates.

    Where the clicks have ratings that agree with them, candidates at a position share a prior only if they are rated
    alike (`rating_levels`).

    Where events have weights, relevance is value per examination in units of a mean click: for ips, c is the value of
    clicks; otherwise relevance is that of clicks, times what a click on the candidate seems worth (`ClickWorth`).

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 40, range(40))
    >>> shown = {"position": [2] * 40, "impressions": [1] * 39 + [100], "clicks": [1] * 8 + [0] * 31 + [30]}
    >>> clicks, rho = cr.ClickTable.from_arrays(data, **shown), cr.Propensities.power(1, 2)
    >>> for estimate in ("ips", "clipped", "posterior", "mixed"):
    ...     print(estimate, estimated_relevance(clicks, rho, estimate)[[0, 20, 39]].round(2))
    ips [2.  0.  0.6]
    clipped [2.  0.  0.6]
    posterior [0.58 0.41 0.59]
    mixed [1.06 0.28 0.6 ]
    """
    rho = propensities.per_cell(clicks)
    if estimate == "ips":
        return clicks.credit / (clicks.impressions.astype(np.float64) * rho)
    pooled = PooledCells.by(clicks, rho)
    clipped: Floats = np.minimum(pooled.clicks / pooled.exposure, MOST)
    worth = ClickWorth.of(clicks).expected[clicks.row]
    if estimate == "clipped":
        return clipped[pooled.of] * worth
    expected, level = np.empty(len(clipped)), None
    if clicks.ratings is not None:
        level = np.empty(len(clipped), dtype=np.int64)
        agreements, stands_for = rated_relevance(clicks, propensities)
        for agreement in agreements:
            if not agreement.is_used:
                warn(CldrankWarning(str(agreement)))
        level[pooled.of] = rating_levels(stands_for)[clicks.row]
    for position in np.unique(pooled.position):
        at = np.flatnonzero(pooled.position == position)
        expected[at] = pooled.expected_relevance(at, None if level is None else level[at])
    if estimate == "mixed":
        trust = pooled.exposure / (1 + pooled.exposure)
        expected = trust * clipped + (1 - trust) * expected
    return expected[pooled.of] * worth
