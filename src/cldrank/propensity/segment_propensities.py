"""One curve for each device, layout or other surface: given ones, and `BySegment`, which estimates them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
    """The propensities of each segment, by name. Methods take them in place of one curve.

    Each curve is relative to the first position of its own segment, so that relevance is the probability of a click
    there: where people examine the top of one surface much less than that of another, its clicks count less than they
    should, alike for all candidates.

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
                raise DataError(f"a segment is called by a text that is not empty, not {name!r}.")
            if not isinstance(rho, Propensities):
                raise UsageError(f"segment {name!r} needs Propensities, not {kind_of(rho)}.")

    @classmethod
    def of(cls, curves: Mapping[str, Propensities]) -> SegmentPropensities:
        """From curves that are known, each under the name of its segment."""
        return SegmentPropensities(
            {
                name: replace(rho, origin=f"segment {name}, {rho.origin}") if isinstance(rho, Propensities) else rho
                for name, rho in curves.items()
            }
        )

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
        """Whether it is known of any of them how far it may be off."""
        return any(rho.uncertain for rho in self.segments.values())

    def per_cell(self, clicks: ClickTable) -> Floats:
        """(cells,) the propensity of each cell of a log, by its segment and position."""
        if not clicks.has_segments:
            raise DataError(
                f"the propensities are those of segments ({some(self)}), but the clicks have no segments; count the "
                "log by segment (`cldrank clicks aggregate --segment COLUMN`, or aggregate(…, segment=COLUMN))."
            )
        propensity = np.empty(clicks.n_cells)
        for code in np.unique(clicks.segment):
            name, own = clicks.segment_names[code], clicks.segment == code
            if name not in self.segments:
                raise DataError(
                    f"the clicks have a segment {name!r}, and there is no curve for it, only for {some(self)}."
                )
            rho = self.segments[name]
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

    def drawn(self, n: int, seed: int) -> list[SegmentPropensities]:
        """Curves that might have been estimated instead; those of one segment do not depend on those of another."""
        seeds = np.random.SeedSequence(seed).generate_state(len(self))
        draws = [rho.draws(n, int(own)) for rho, own in zip(self.values(), seeds, strict=True)]
        return [
            SegmentPropensities(
                {name: Propensities(draw, method="drawn") for name, draw in zip(self, each, strict=True)}
            )
            for each in zip(*draws, strict=True)
        ]


Curve = Propensities | SegmentPropensities | AffineClicks


def drawn_curves(curve: Curve, n: int, seed: int) -> list[Curve]:
    """Curves that might have been estimated instead; none where it is not known how far the curve may be off."""
    if not curve.uncertain:
        return []
    if isinstance(curve, AffineClicks):
        slopes, bases = curve.draws(n, seed)
        return [AffineClicks(slope, base) for slope, base in zip(slopes, bases, strict=True)]
    if isinstance(curve, SegmentPropensities):
        return [*curve.drawn(n, seed)]
    return [Propensities(draw, method="drawn") for draw in curve.draws(n, seed)]


def slopes_and_bases(curve: Curve, clicks: ClickTable) -> tuple[Floats, Floats]:
    """(cells,) what relevance adds to the click-through rate of each cell of a log, and what that is without any."""
    parts = curve.per_cell(clicks)
    return parts if isinstance(parts, tuple) else (parts, np.zeros(clicks.n_cells))


# -- estimated together --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedSegments(SegmentPropensities):
    """The propensities of each segment, estimated together.

    pooled      the mean curve, as deep as the deepest segment with an estimate
    pooling     for each segment, at its own positions, how far it was drawn towards the others: 0 is its own estimate
    spread      (k,) the standard deviation of log ρ between segments; where only one has an estimate, as further up
    refusals    why a segment alone has no estimate
    """

    pooled: Propensities
    pooling: Mapping[str, Floats]
    spread: Floats
    refusals: Mapping[str, UnidentifiableError]


@dataclass(frozen=True)
class BySegment:
    """Estimate each segment by itself, then draw its curve towards the mean of all, the more the weaker it is.

        log rho_s ~ Normal(mu, tau^2),   estimate_s ~ Normal(log rho_s, v_s)
        pooled share of s = v_s / (v_s + tau^2)

    position by position: v_s from resampling, tau^2 by the method of Paule and Mandel (1982), mu by weighting.
    Candidates are compared within their segment only. The curve of a segment ends where its pages do. A segment whose
    log supports no estimate gets the mean curve of two or more others, with the interval of a segment yet unseen, and a
    note. Below the end of some segments, the mean curve goes on by the steps of those that are left, so that it does
    not jump to theirs.

    >>> import cldrank as cr
    >>> from cldrank.propensity import AllPairs
    >>> BySegment(AllPairs(depth=3))
    BySegment(estimator=AllPairs(depth=3))
    """

    estimator: CurveEstimator

    def __post_init__(self) -> None:
        if self.estimator.needs != "cells" or self.estimator.affine or self.estimator.bound:
            raise UsageError(
                f"{self.estimator.name} does not take segments; methods that find one curve from cells alone do."
            )

    def fit(self, clicks: ClickTable | Mapping[str, ClickTable]) -> EstimatedSegments:
        """Estimate from a table whose cells have segments, or from one table per segment."""
        tables = clicks.by_segment() if isinstance(clicks, ClickTable) else clicks
        if len(tables) < 2:
            raise DataError(
                "it takes two segments to estimate them together, and the clicks have "
                f"{f'only {next(iter(tables))!r}' if any(tables) else 'none'}; estimate one curve, without segments."
            )
        known: dict[str, Propensities] = {}
        refusals: dict[str, UnidentifiableError] = {}
        for name, table in tables.items():
            try:
                known[name] = self.estimator.fit(table)
            except UnidentifiableError as refusal:
                refusals[name] = refusal
        if not known:
            name, first = next(iter(refusals.items()))
            raise UnidentifiableError(f"no segment can be estimated; {name!r}: {first}")
        lacking = [name for name in refusals if tables[name].depth > 1]
        if lacking and len(known) == 1:
            raise UnidentifiableError(
                f"only segment {next(iter(known))!r} can be estimated, and one curve cannot tell how much segments "
                "differ, so leave the others out or estimate one curve for all; "
                f"{lacking[0]!r}: {refusals[lacking[0]]}"
            )
        depths = {name: max(table.depth, 1) for name, table in tables.items()}
        return _pooled(known, depths, refusals, self.estimator.confidence)


def _pooled(
    known: Mapping[str, Propensities],
    depths: Mapping[str, int],
    refusals: Mapping[str, UnidentifiableError],
    confidence: float,
) -> EstimatedSegments:
    """All segments, drawn towards the mean; `depths` are those of their pages, whether they have an estimate or not."""
    size = max(len(rho) for rho in known.values())
    logs, variances = (np.stack(part) for part in zip(*(_moments(rho, size) for rho in known.values()), strict=True))
    several = np.isfinite(variances).sum(axis=0) > 1
    between = _between(logs, variances)
    between[0] = 0.0
    between = between[np.maximum.accumulate(np.where(several, np.arange(size), 0))]
    mean, variance = _weighted(logs, variances + between)
    mean[0] = variance[0] = 0.0
    usual = np.mean([_correlation(rho, size) for rho in known.values()], axis=0)
    whole, error = _going_on(logs, variances, between, mean, variance)
    pooled = _curve(whole, error, usual, confidence, f"mean of {len(known)} segments", ())
    segments, pooling = {}, {}
    for name, depth in depths.items():
        rho = known.get(name)
        if rho is None:
            at = min(depth, size)
            share, drawn, left = np.ones(at), whole[:at], (error + between)[:at]
            pooled_by, correlation = "all of the mean curve: alone, this segment supports no estimate", usual[:at, :at]
        else:
            at = len(rho)
            own, spread = _moments(rho, at)
            share = np.where(several[:at], 1 / (1 + between[:at] / spread), 0.0)
            drawn = own + share * (mean[:at] - own)
            # the segment's own uncertainty, as far as it is left, and that of the mean, as far as it is drawn to it
            left = np.where(several[:at], share * between[:at], spread) + share**2 * variance[:at]
            left[0] = 0.0
            pooled_by, correlation = "one position, which needs no estimate", _correlation(rho, at)
            if at > 1:
                pooled_by = f"drawn {share[1:].mean():.0%} towards the mean of all segments"
        share[0] = 0.0
        notes = (*(rho.notes if rho is not None else ()), pooled_by)
        origin = f"segment {name}" if rho is not None else f"mean of {len(known)} segments, for segment {name}"
        curve = _curve(drawn, left, correlation, confidence, origin, notes)
        segments[name] = curve if rho is None else replace(curve, comparisons=rho.comparisons)
        pooling[name] = share
    return EstimatedSegments(segments, pooled, pooling, np.sqrt(between), refusals)


def _going_on(
    logs: Floats, variances: Floats, between: Floats, mean: Floats, variance: Floats
) -> tuple[Floats, Floats]:
    """The mean curve and its variance: below the end of some segments, by the steps of those that are left."""
    whole, error, has = mean.copy(), variance.copy(), np.isfinite(variances)
    for at in np.flatnonzero(has[:, 1:].sum(axis=0) < has[:, :-1].sum(axis=0)) + 1:
        left = has[:, at]
        theirs, _ = _weighted(logs[left, at - 1], variances[left, at - 1] + between[at - 1])
        whole[at:] += mean[at - 1] - theirs
        error[at:] += variance[at - 1]
    return whole, error


def _weighted(values: Floats, variances: Floats) -> tuple[Any, Any]:
    """The mean over segments, the first axis, by precision; and its variance."""
    weights = 1 / variances
    variance = 1 / weights.sum(axis=0)
    return (weights * values).sum(axis=0) * variance, variance


def _moments(rho: Propensities, size: int) -> tuple[Floats, Floats]:
    """Log propensities and their variances, infinite at positions without an estimate."""
    logs, variances = np.zeros(size), np.full(size, np.inf)
    if rho.errors is not None:
        logs[: len(rho)] = np.log(rho.values)
        variances[: len(rho)] = np.maximum(rho.errors**2, 1e-12)
    return logs, variances


def _correlation(rho: Propensities, size: int) -> Floats:
    """(size, size) of the errors of log ρ: all are relative to the first position, so they err together."""
    correlation = np.eye(size)
    if rho.covariance is not None and rho.errors is not None:
        scale = np.where(rho.errors > 0, rho.errors, 1.0)
        correlation[: len(rho), : len(rho)] = rho.covariance / np.outer(scale, scale)
        np.fill_diagonal(correlation, 1.0)
    return correlation


def _curve(
    logs: Floats, variance: Floats, correlation: Floats, confidence: float, origin: str, notes: tuple[str, ...]
) -> Propensities:
    from scipy.special import ndtri

    scale = np.sqrt(variance)
    covariance: Floats = correlation * np.outer(scale, scale)
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt(np.diag(covariance))
    return Propensities(
        np.exp(logs),
        origin,
        method="BySegment",
        low=np.exp(logs - half),
        high=np.exp(logs + half),
        confidence=confidence,
        covariance=covariance,
        notes=notes,
    )


def _between(logs: Floats, variances: Floats) -> Floats:
    """tau^2 of each position: the variance between segments at which their squared residuals are what they should be.

    Of Q(t) = sum_s (x_s - mean(t))^2 / (v_s + t), which falls with t, the t with Q(t) = segments - 1, or 0.
    """
    freedom = np.isfinite(variances).sum(axis=0) - 1

    def excess(between: Floats) -> Floats:
        weights = 1 / (variances + between)
        mean = (weights * logs).sum(axis=0) / weights.sum(axis=0)
        beyond: Floats = (weights * (logs - mean) ** 2).sum(axis=0) - freedom
        return beyond

    low, high = np.zeros(logs.shape[1]), np.full(logs.shape[1], 1e-6)
    for _ in range(60):
        high = np.where(excess(high) > 0, 2 * high, high)
    for _ in range(80):
        middle = (low + high) / 2
        above = excess(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where((freedom > 0) & (excess(np.zeros_like(low)) > 0), (low + high) / 2, 0.0)
