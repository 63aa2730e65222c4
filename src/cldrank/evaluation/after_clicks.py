"""`AfterClicks`: how much less people examine a result below a click, impression by impression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.contexts import Contexts
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError, CldrankWarning
from cldrank.propensity import AffineClicks, AllPairs, Propensities
from cldrank.propensity.behaviour import Behaviour
from cldrank.propensity.segment_propensities import Curve, SegmentPropensities, drawn_curves, slopes_and_bases

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AfterClicks:
    """What people examine where a click changes that: a curve without clicks above, and less below a click.

        slope = slope_k without a click above × Σ_context impressions ratio / Σ_context impressions

    contexts  of the log: where impressions were last clicked above
    below     (positions, positions) by position and last click above: examination relative to no click above
    unsure    the same: standard errors of its logarithm
    curve     examination without a click above; None where the log cannot tell it, since no result has moved
    raised    (positions,) then: by how much the curve of all pages is raised
    error     (positions,) and the standard error of its logarithm
    """

    contexts: Contexts
    below: Floats
    unsure: Floats
    curve: Propensities | None
    raised: Floats
    error: Floats

    def share(self, clicks: ClickTable) -> Floats:
        """(cells,) how much of a cell's impressions is examined, relative to impressions without a click above."""
        ratio = self.below[self.contexts.position - 1, self.contexts.last_click]
        examined = np.bincount(self.contexts.cell, self.contexts.impressions * ratio, clicks.n_cells)
        return np.asarray(examined / clicks.impressions)

    def doubt(self, clicks: ClickTable) -> Floats:
        """(cells,) how far examinations may be off, as a share: below a click they depend on more than the last."""
        ratio = self.below[self.contexts.position - 1, self.contexts.last_click]
        lost = self.contexts.impressions * ratio * (1 - ratio)
        examined = self.share(clicks) * clicks.impressions
        off = np.bincount(self.contexts.cell, lost, clicks.n_cells)
        return _DOUBT * np.divide(off, examined, out=np.zeros(clicks.n_cells), where=examined > 0)

    def slopes_and_bases(self, curve: Curve, clicks: ClickTable) -> tuple[Floats, Floats]:
        """(cells,) slope and base of each cell, given the curve of all pages."""
        slope, base = slopes_and_bases(curve if self.curve is None else self.curve, clicks)
        share = self.share(clicks)
        if self.curve is None:
            share = share * self.raised[clicks.position - 1]
        return slope * share, base * share

    def drawn(self, times: int, seed: int) -> list[AfterClicks]:
        """The same with curves and ratios drawn from their distribution."""
        random = np.random.default_rng([seed, 4])
        curves: list[Any] = [] if self.curve is None else drawn_curves(self.curve, times, seed)
        return [
            replace(
                self,
                below=np.minimum(self.below * np.exp(self.unsure * random.normal(size=self.below.shape)), 1.0),
                raised=self.raised * np.exp(self.error * random.normal(size=len(self.raised))),
                curve=curves[at] if curves else self.curve,
            )
            for at in range(times)
        ]


def after_clicks(clicks: ClickTable, curve: Curve, people: Behaviour) -> AfterClicks | None:
    """Where the log shows that people stop after a click, or examine less, what they examine; otherwise None.

    The curve without clicks above is estimated from the log itself where results have moved between positions.
    Otherwise that of all pages is raised, up to that of the first position,

        raised_k = 1 / (mean share of examination at k)

    and half of the logarithm of that counts as a standard error.

    >>> import cldrank as cr
    >>> from cldrank.clicks.simulate import Cascade, FirstSwaps, Simulation
    >>> from cldrank.propensity.behaviour import behaviour
    >>> data = cr.RankingDataset.from_arrays([[3], [2]] * 50, [i // 2 for i in range(100)], labels=[4, 0] * 50)
    >>> simulation = Simulation(data, data.features[:, 0], Cascade(noise=0.5), FirstSwaps(0.5))
    >>> clicks = simulation.draw(100_000, contexts=True)
    >>> after_clicks(clicks, cr.Propensities([1, 0.5]), behaviour(clicks)).below
    array([[1., 1.],
           [1., 0.]])
    """
    contexts = clicks.contexts
    if contexts is None or people.looks not in ("stop", "examine less"):
        return None
    below, unsure = _below_clicks(clicks.depth, people)
    free = np.ones(clicks.depth)
    examined = AfterClicks(contexts, below, unsure, _own_curve(clicks, contexts, curve), free, 0 * free)
    if examined.curve is not None:
        return examined
    raised = _raised(clicks, examined.share(clicks), curve)
    return replace(examined, raised=raised, error=np.log(raised) / 2)


def _below_clicks(depth: int, people: Behaviour) -> tuple[Floats, Floats]:
    """Examination by position and last click above, relative to none, as far as there were clicks to tell it by."""
    below, unsure = np.ones((depth, depth)), np.zeros((depth, depth))
    if people.looks == "stop":
        below[:, 1:] = 0.0
        return below, unsure
    overall = () if people.overall is None else (people.overall,)
    for each in (*overall, *people.by_position, *people.by_last_click):
        if each.position > depth:
            continue
        rows = slice(None) if each.position == 0 else each.position - 1
        columns = slice(1, None) if each.last_click == 0 else each.last_click
        below[rows, columns] = min(each.ratio, 1.0)
        unsure[rows, columns] = np.log(each.high / each.low) / (2 * _QUANTILE)
    return below, unsure


_DOUBT = 0.15  # of what clicks above take from examination; from simulations
_QUANTILE = 1.645  # of the 90% intervals of ratios


def _own_curve(clicks: ClickTable, contexts: Contexts, curve: Curve) -> Propensities | None:
    """What the pages without a click above tell by themselves; None where that is not all positions."""
    if not isinstance(curve, Propensities):
        return None
    first = contexts.where(contexts.last_click == 0)
    cells = {name: getattr(first, name) for name in ("row", "segment", "position", "impressions", "clicks")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CldrankWarning)
            estimated = AllPairs().fit(replace(clicks.clicks_alone(), **cells, contexts=None, display=None))
    except CldrankError:
        return None
    return estimated if len(estimated.values) >= clicks.depth else None


def _raised(clicks: ClickTable, share: Floats, curve: Curve) -> Floats:
    """(positions,) by how much a curve of all pages is raised for impressions without a click above."""
    depth, place = clicks.depth, clicks.position - 1
    of_all = curve.mean(clicks) if isinstance(curve, SegmentPropensities) else curve
    slope = (of_all if isinstance(of_all, AffineClicks) else AffineClicks.from_propensities(of_all)).slope[:depth]
    shown, examined = (np.bincount(place, clicks.impressions * part, depth) for part in (1.0, share))
    raised = np.divide(shown, examined, out=np.ones(depth), where=examined > 0)
    return np.clip(raised, 1.0, np.maximum(slope.max() / np.maximum(slope, 1e-12), 1.0))
