"""A curve for each device, layout or other surface: given, or estimated by `BySegment`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UnidentifiableError, UsageError
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.estimator import CurveEstimator
from cldrank.propensity.propensities import CurveBase, Propensities, places_of
from cldrank.wording import kind_of, some


@dataclass(frozen=True, eq=False, repr=False)
class SegmentPropensities(CurveBase, Mapping[str, Propensities]):
    """The propensities of each segment, by name, each relative to the first position of its own segment.

    Where people examine the top of a surface much less than that of others, its clicks count less than they should, for
    all candidates alike.

    >>> curves = SegmentPropensities.of({"phone": Propensities.power(1, 2), "desktop": Propensities.power(0.5, 4)})
    >>> curves["phone"]
    Propensities(1, 0.5; segment phone, power law, eta 1)
    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
    >>> shown = {"row": [0, 0, 1], "position": [1, 4, 2], "impressions": [9, 9, 9], "clicks": [3, 1, 2]}
    >>> curves.per_cell(ClickTable.from_arrays(data, **shown, segment=["phone", "desktop", "phone"]))
    array([0.5, 1. , 0.5])
    """

    segments: Mapping[str, Propensities]

    def __post_init__(self) -> None:
        if not self.segments:
            raise DataError("propensities of segments need at least one segment.")
        for name, rho in self.segments.items():
            if not isinstance(name, str) or not name:
                raise DataError(f"the name of a segment is a text that is not empty, not {name!r}.")
            if not isinstance(rho, Propensities):
                raise UsageError(f"segment {name!r} needs Propensities, not {kind_of(rho)}.")

    @classmethod
    def of(cls, curves: Mapping[str, Propensities]) -> SegmentPropensities:
        """From known curves, by the names of their segments."""
        known = SegmentPropensities(curves)
        return known.mapped(lambda name, rho: replace(rho, origin=f"segment {name}, {rho.origin}"))

    def __getitem__(self, segment: str) -> Propensities:
        return self.segments[segment]

    def __iter__(self) -> Iterator[str]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __repr__(self) -> str:
        return f"SegmentPropensities({', '.join(f'{name}: {rho!r}' for name, rho in self.segments.items())})"

    @property
    def origin(self) -> str:
        """Where they come from, in words."""
        return "; ".join(rho.origin for rho in self.segments.values())

    @property
    def bound(self) -> bool:
        """Whether any of them is a lower bound of the curve, and not the curve."""
        return any(rho.bound for rho in self.segments.values())

    @property
    def uncertain(self) -> bool:
        """Whether the uncertainty of any curve is known."""
        return any(rho.uncertain for rho in self.segments.values())

    def per_cell(self, clicks: ClickTable) -> Floats:
        """(cells,) the propensity of each cell of a log, by its segment and position."""
        if not clicks.has_segments:
            raise DataError(
                f"the propensities are those of segments ({some(self)}), but the clicks have no segments; count the "
                "log by segment (`cldrank clicks aggregate --log-column segment=COLUMN`)."
            )
        propensity = np.empty(clicks.n_cells)
        for code in np.unique(clicks.segment):
            name, own = clicks.segment_names[code], clicks.segment == code
            if name not in self:
                lacking = f"there is no curve for it, only for {some(self)}"
                raise DataError(f"the clicks have a segment {name!r}, and {lacking}.")
            rho = self[name]
            propensity[own] = rho.values[places_of(clicks.position[own], len(rho), f"propensity of segment {name!r}")]
        return propensity

    def mean(self, clicks: ClickTable) -> Propensities:
        """The curve of all segments together: at each position, the mean over the impressions of a log there."""
        depth = max(clicks.depth, 1)
        place, shown = clicks.position - 1, clicks.impressions.astype(np.float64)
        examined, total = (np.bincount(place, part, depth) for part in (shown * self.per_cell(clicks), shown))
        others = [np.mean([rho.values[at] for rho in self.values() if len(rho) > at] or [1.0]) for at in range(depth)]
        values = np.where(total > 0, examined / np.maximum(total, 1.0), others)
        return Propensities(values, f"mean of {len(self)} segments", method="SegmentPropensities")

    def mapped(self, change: Callable[[str, Propensities], Propensities]) -> SegmentPropensities:
        """The same segments, each with another curve."""
        return SegmentPropensities({name: change(name, rho) for name, rho in self.segments.items()})

    def clip(self, minimum: float) -> SegmentPropensities:
        """The same with no value below a minimum, see `Propensities.clip`."""
        return self.mapped(lambda _, rho: rho.clip(minimum))

    def trusted(self) -> SegmentPropensities:
        """The same, to be used whatever the log's own pages show, see `Propensities.trusted`."""
        return self.mapped(lambda _, rho: rho.trusted())


Curve = Propensities | SegmentPropensities | AffineClicks


def drawn_curves(curve: Curve, n: int, seed: int) -> list[Curve]:
    """Curves that might have been estimated instead; none where the uncertainty of the curve is unknown.

    Curves of different segments are drawn independently.
    """
    if not curve.uncertain:
        return []
    if isinstance(curve, AffineClicks):
        slopes, bases = curve.draws(n, seed)
        return [AffineClicks(slope, base) for slope, base in zip(slopes, bases, strict=True)]
    if isinstance(curve, Propensities):
        return [Propensities(draw, method="drawn") for draw in curve.draws(n, seed)]
    seeds = np.random.SeedSequence(seed).generate_state(len(curve))
    draws = [rho.draws(n, int(own)) for rho, own in zip(curve.values(), seeds, strict=True)]
    rows = ([Propensities(draw, method="drawn") for draw in row] for row in zip(*draws, strict=True))
    return [SegmentPropensities(dict(zip(curve, row, strict=True))) for row in rows]


def slopes_and_bases(curve: Curve, clicks: ClickTable) -> tuple[Floats, Floats]:
    """(cells,) slope and base of each cell of a log: what relevance adds to its click-through rate, and the rest."""
    parts = curve.per_cell(clicks)
    return parts if isinstance(parts, tuple) else (parts, np.zeros(clicks.n_cells))


@dataclass(frozen=True)
class BySegment:
    """Estimate the curve of each segment by itself, from candidates compared within that segment only.

    The curve of a segment goes down to the `depth` of the estimator, or to the end of its pages; a single position has
    propensity 1.

    >>> from cldrank.propensity import AllPairs
    >>> BySegment(AllPairs(depth=3))
    BySegment(estimator=AllPairs(depth=3))
    """

    estimator: CurveEstimator

    def __post_init__(self) -> None:
        if self.estimator.needs != "cells" or self.estimator.affine or self.estimator.bound:
            raise UsageError(
                f"{self.estimator.name} does not take segments; methods that estimate propensities from cells alone do."
            )

    def fit(self, clicks: ClickTable | Mapping[str, ClickTable], dataset: object = None) -> SegmentPropensities:
        """Estimate from a table whose cells have segments, or a table for each; no features are needed."""
        del dataset
        tables = clicks.by_segment() if isinstance(clicks, ClickTable) else clicks
        if not any(tables):
            raise DataError("the clicks have no segments; estimate a single curve, without BySegment.")
        depth, deepest = self.estimator.depth, max(table.depth for table in tables.values())
        if depth is not None and depth > deepest:
            raise UsageError(f"`depth={depth}` is too deep: nothing was shown below position {deepest}.")
        return SegmentPropensities.of({name: self._alone(name, table) for name, table in tables.items()})

    def _alone(self, name: str, table: ClickTable) -> Propensities:
        depth = self.estimator.depth
        table = table if depth is None or depth >= table.depth else table.first(depth)
        if table.depth <= 1:
            return Propensities(np.ones(1), "one position")
        try:
            return replace(self.estimator, depth=None).fit(table)
        except UnidentifiableError as refusal:
            raise UnidentifiableError(
                f"segment {name!r}: {refusal} Or leave the segment out, or estimate one curve for all segments.",
                positions=refusal.positions,
                depth=refusal.depth,
                reason=refusal.reason,
            ) from None
