"""Which estimator suits a log, and the curve that it leaves: one sequence for the command line and for pipelines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cldrank.clicks.audit.overlap import display_order
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.checks.refuted import warn_if_refuted
from cldrank.propensity.estimator import PropensityEstimator, estimators
from cldrank.propensity.harvesting.all_pairs import AllPairs
from cldrank.propensity.interventions.randomised import Randomised
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segmented import BySegment, EstimatedSegments

_CHANCE = 1e-3  # an order that chance brings about less often is not random, even if nearly so


@dataclass(frozen=True)
class ChosenMethod:
    """A method by name, and why it was chosen; None where the user named it."""

    name: str
    reason: str | None = None

    @property
    def affine(self) -> bool:
        """Whether it finds slopes and bases."""
        return estimators()[self.name].affine


def choose_method(table: ClickTable, depth: int | None) -> ChosenMethod:
    """The best founded method that a log supports; UnidentifiableError where none does."""
    order = display_order(table)
    strength = "" if order.strength is None else f" (strength {order.strength:.3f}, where 0 is random and 1 is fixed)"
    random = order.looks == "random"
    if random and (order.p_value is None or order.p_value >= _CHANCE):
        return ChosenMethod(Randomised.name, f"the display order looks random{strength}")
    try:
        AllPairs(depth=depth).check(table)
    except UnidentifiableError:
        if random:
            return ChosenMethod(Randomised.name, f"the display order is nearly random{strength}")
        raise
    seen = f"the display order is not {'quite ' if random else ''}random{strength}"
    return ChosenMethod(AllPairs.name, f"{seen}, but results shown at several positions connect all positions")


def fitted_curve(
    estimator: PropensityEstimator[Any],
    table: ClickTable,
    dataset: RankingDataset | None = None,
    *,
    smooth: str | None = None,
    clip: float | None = None,
) -> Propensities | AffineClicks:
    """What an estimator finds in a log, smoothed and clipped as asked; a curve that the log refutes is warned of."""
    found: Propensities | AffineClicks = finished(estimator.fit(table, estimator.used(dataset)), smooth, clip)
    if isinstance(found, Propensities):
        warn_if_refuted(found, table)
    return found


def fitted_segments(
    estimator: Any, clicks: ClickTable, *, smooth: str | None = None, clip: float | None = None
) -> EstimatedSegments:
    """The curves of all segments of a log, drawn towards their mean, each smoothed and clipped as asked.

    A curve that the clicks of its segment refute is warned of. One position alone has nothing to smooth.
    """
    found = BySegment(replace(estimator, depth=None)).fit(clicks)  # a segment may have shorter pages
    segments = {name: finished(rho, smooth if len(rho) > 1 else None, clip) for name, rho in found.items()}
    for name, table in clicks.by_segment().items():
        warn_if_refuted(segments[name], table)
    return replace(found, segments=segments, pooled=finished(found.pooled, smooth, clip))


def finished(found: Any, smooth: str | None, clip: float | None) -> Any:
    """A curve, smoothed and with its smallest values raised, where that is asked for."""
    if smooth is not None:
        found = found.smoothed(str(smooth))
    return found.clip(clip) if clip is not None else found
