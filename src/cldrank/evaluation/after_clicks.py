"""Impressions without a click above them, which clicks elsewhere on the page cannot have changed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError, CldrankWarning
from cldrank.propensity import AffineClicks, AllPairs, Propensities
from cldrank.propensity.behaviour import Behaviour
from cldrank.propensity.segment_propensities import Curve, SegmentPropensities, drawn_curves, slopes_and_bases

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WithoutClicksAbove:
    """The cells of impressions without a click above, and how often people examine those.

    counted   the cells
    curve     examination by position; None where the log cannot tell it, since no result has moved
    ratio     (depth,) then: by how much the curve of all pages is raised
    error     (depth,) and the relative standard error of that
    """

    counted: ClickTable
    curve: Propensities | None
    ratio: Floats
    error: Floats

    def slopes_and_bases(self, curve: Curve) -> tuple[Floats, Floats]:
        """(counted cells,) slope and base of each cell, given the curve of all pages."""
        if self.curve is not None:
            return slopes_and_bases(self.curve, self.counted)
        slope, base = slopes_and_bases(curve, self.counted)
        ratio = self.ratio[self.counted.position - 1]
        return slope * ratio, base * ratio

    def drawn(self, times: int, seed: int) -> list[WithoutClicksAbove]:
        """The same with curves, or ratios, drawn from their distribution."""
        if self.curve is not None:
            return [replace(self, curve=curve) for curve in drawn_curves(self.curve, times, seed)] or [self] * times
        random = np.random.default_rng([seed, 4])
        ratios = self.ratio * np.exp(self.error * random.normal(size=(times, len(self.ratio))))
        return [replace(self, ratio=ratio) for ratio in ratios]


def without_clicks_above(clicks: ClickTable, curve: Curve, people: Behaviour) -> WithoutClicksAbove | None:
    """Keep to impressions without a click above, where the log shows that people then stop, or examine less.

    Their curve is estimated from the log itself where results have moved between positions. Otherwise that of all pages
    is raised, up to that of the first position,

        ratio_k = 1 / (share_k + (1 - share_k) after_k)

    with the share of impressions at k without a click above, and how often they are examined after one relative to
    without; half of the logarithm of what is raised counts as a standard error.

    >>> import cldrank as cr
    >>> from cldrank.clicks.simulate import Cascade, FirstSwaps, Simulation
    >>> from cldrank.propensity.behaviour import behaviour
    >>> data = cr.RankingDataset.from_arrays([[3], [2]] * 50, [i // 2 for i in range(100)], labels=[4, 4] * 50)
    >>> simulation = Simulation(data, data.features[:, 0], Cascade(noise=0.5), FirstSwaps(0.5))
    >>> clicks = simulation.draw(100_000, contexts=True)
    >>> without_clicks_above(clicks, cr.Propensities([1, 0.5]), behaviour(clicks)).curve.values.round(1)
    array([1., 1.])
    """
    contexts = clicks.contexts
    if contexts is None or people.looks not in ("stop", "examine less"):
        return None
    first = contexts.where(contexts.last_click == 0)
    cells = {name: getattr(first, name) for name in ("row", "segment", "position", "impressions", "clicks")}
    counted = replace(clicks, **cells, contexts=None, display=None)
    ratio, error = _raised(clicks, counted, curve, people)
    return WithoutClicksAbove(counted, _own_curve(counted, clicks.depth, curve), ratio, error)


def _own_curve(counted: ClickTable, depth: int, curve: Curve) -> Propensities | None:
    """What the pages without a click above tell by themselves; None where that is not all positions."""
    if not isinstance(curve, Propensities):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CldrankWarning)
            estimated = AllPairs().fit(counted)
    except CldrankError:
        return None
    return estimated if len(estimated.values) >= depth else None


def _raised(clicks: ClickTable, counted: ClickTable, curve: Curve, people: Behaviour) -> tuple[Floats, Floats]:
    """(depth,) by how much a curve of all pages is raised, and the relative standard error of that."""
    depth = clicks.depth
    of_all = curve.mean(clicks) if isinstance(curve, SegmentPropensities) else curve
    slope = (of_all if isinstance(of_all, AffineClicks) else AffineClicks.from_propensities(of_all)).slope[:depth]
    shown, kept = (np.bincount(table.position - 1, table.impressions, depth) for table in (clicks, counted))
    share = np.divide(kept, shown, out=np.ones(depth), where=shown > 0)
    after = np.full(depth, 1.0 if people.overall is None else min(people.overall.ratio, 1.0))
    for each in people.by_position:
        if each.position <= depth:
            after[each.position - 1] = min(each.ratio, 1.0)
    raised = 1 / np.maximum(share + (1 - share) * after, 1e-3)
    ratio = np.clip(raised, 1.0, np.maximum(slope.max() / np.maximum(slope, 1e-12), 1.0))
    return ratio, np.log(ratio) / 2
