"""`BySegment`: propensities of each device, surface or class of queries, the weak ones drawn towards the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, Spelling, UnidentifiableError, UsageError, setting
from cldrank.propensity.checks.refusal import quoted
from cldrank.propensity.estimator import CurveEstimator
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import SegmentPropensities

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedSegments(SegmentPropensities):
    """The propensities of each segment, estimated together.

    pooled      the mean curve, as deep as the deepest segment with an estimate
    pooling     for each segment, at its own positions, how far it was drawn towards the others: 0 is its own estimate
    spread      (k,) the standard deviation of log ρ between segments; where only one has an estimate, as further up
    unpooled    the estimate of each segment alone; None where it had none
    refusals    why it had none
    """

    pooled: Propensities
    pooling: Mapping[str, Floats]
    spread: Floats
    unpooled: Mapping[str, Propensities | None]
    refusals: Mapping[str, UnidentifiableError]


@dataclass(frozen=True)
class BySegment:
    """Estimate each segment by itself, then draw its curve towards the mean of all, the more the weaker it is.

        log rho_s ~ Normal(mu, tau^2),   estimate_s ~ Normal(log rho_s, v_s)
        pooled share of s = v_s / (v_s + tau^2)

    position by position: v_s from resampling, tau^2 by the method of Paule and Mandel (1982), mu by weighting.
    Candidates are compared within their segment only. The curve of a segment ends where its pages do. A segment whose
    log supports no estimate gets the mean curve of two or more others, with the interval of a segment yet unseen, and a
    note.

    Below the end of some segments, the mean curve goes on by the steps of those that are left, so that it does not jump
    to theirs.

    >>> import cldrank as cr
    >>> from cldrank.propensity import AllPairs
    >>> BySegment(AllPairs(depth=3))
    BySegment(estimator=AllPairs(depth=3))
    """

    estimator: CurveEstimator

    def __post_init__(self) -> None:
        if self.estimator.needs != "cells" or self.estimator.affine or self.estimator.bound:
            raise UsageError(
                "{} does not take {}; methods that find one curve from cells alone do.",
                self.estimator.spelling,
                Spelling("segments", "--segment"),
            )

    def fit(self, clicks: ClickTable | Mapping[str, ClickTable], segment: ArrayLike | None = None) -> EstimatedSegments:
        """Estimate from a table whose cells have segments, or from one table per segment.

        segment   of a table without segments, that of each query or of each cell
        """
        tables = _split(clicks, segment)
        if len(tables) < 2:
            raise DataError(
                "it takes two segments to estimate them together, and the clicks have {}; {}.",
                f"only {next(iter(tables))!r}" if tables else "none",
                Spelling("fit the estimator itself", "leave out --segment"),
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
            raise UnidentifiableError("no segment can be estimated; {!r}: {}", name, quoted(first))
        lacking = [name for name in refusals if tables[name].depth > 1]
        if lacking and len(known) == 1:
            raise UnidentifiableError(
                "only segment {!r} can be estimated, and one curve cannot tell how much segments differ, so leave the "
                "others out or estimate one curve for all; {!r}: {}",
                next(iter(known)),
                lacking[0],
                quoted(refusals[lacking[0]]),
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
    from scipy.special import ndtri

    size = max(len(rho) for rho in known.values())
    moments = [_moments(rho, size) for rho in known.values()]
    logs, variances = (np.stack(part) for part in zip(*moments, strict=True))
    among = _Among.of(logs, variances)
    z = float(ndtri((1 + confidence) / 2))
    usual = np.mean([_correlation(rho, size) for rho in known.values()], axis=0)
    whole, error = among.going_on()
    pooled = _curve(whole, _covariance(error, usual), z, confidence, f"mean of {len(known)} segments", ())
    segments, pooling = {}, {}
    for name, depth in depths.items():
        rho = known.get(name)
        if rho is None:
            at = min(depth, size)
            share, drawn, variance = np.ones(at), whole[:at], (error + among.between)[:at]
            pooled_by, correlation = "all of the mean curve: alone, this segment supports no estimate", usual[:at, :at]
        else:
            share, drawn, variance = among.drawn(*_moments(rho, len(rho)))
            pooled_by, correlation = _how_far(share[1:]), _correlation(rho, len(rho))
        share[0] = 0.0
        notes = (*(rho.notes if rho is not None else ()), pooled_by)
        covariance = _covariance(variance, correlation)
        curve = _curve(drawn, covariance, z, confidence, f"segment {name}, {pooled_by}", notes)
        segments[name] = curve if rho is None else replace(curve, comparisons=rho.comparisons)
        pooling[name] = share
    unpooled = {name: known.get(name) for name in depths}
    return EstimatedSegments(segments, pooled, pooling, np.sqrt(among.between), unpooled, refusals)


@dataclass(frozen=True, eq=False)
class _Among:
    """What segments with an estimate have in common, position by position.

    logs, variances   (segments, k) of log ρ; the variance is infinite below the end of a segment
    between           (k,) tau^2; where only one segment has an estimate, that of the position above
    mean, variance    (k,) of those that have the position
    """

    logs: Floats
    variances: Floats
    between: Floats
    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, logs: Floats, variances: Floats) -> _Among:
        several = np.isfinite(variances).sum(axis=0) > 1
        between = _between(logs, variances)
        between[0] = 0.0
        between = between[np.maximum.accumulate(np.where(several, np.arange(len(several)), 0))]
        mean, variance = _weighted(logs, variances + between)
        mean[0] = variance[0] = 0.0
        return cls(logs, variances, between, mean, variance)

    def drawn(self, own: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
        """The share of the mean in a segment that has an estimate, what that makes of it, and its variance."""
        at = len(own)
        others = np.isfinite(self.variances).sum(axis=0)[:at] > 1
        between, mean = self.between[:at], self.mean[:at]
        share = np.where(others, 1 / (1 + between / variance), 0.0)
        # the segment's own uncertainty, as far as it is left, and that of the mean, as far as it is drawn towards it
        left = np.where(others, share * between, variance) + share**2 * self.variance[:at]
        left[0] = 0.0
        return share, own + share * (mean - own), left

    def going_on(self) -> tuple[Floats, Floats]:
        """The mean curve and its variance: below the end of some segments, by the steps of those that are left."""
        mean, variance = self.mean.copy(), self.variance.copy()
        has = np.isfinite(self.variances)
        for at in np.flatnonzero(has[:, 1:].sum(axis=0) < has[:, :-1].sum(axis=0)) + 1:
            left = has[:, at]
            theirs, _ = _weighted(self.logs[left, at - 1], self.variances[left, at - 1] + self.between[at - 1])
            mean[at:] += self.mean[at - 1] - theirs
            variance[at:] += self.variance[at - 1]
        return mean, variance


def _weighted(values: Floats, variances: Floats) -> tuple[Any, Any]:
    """The mean over segments, the first axis, by precision; and its variance."""
    weights = 1 / variances
    variance = 1 / weights.sum(axis=0)
    return (weights * values).sum(axis=0) * variance, variance


def _how_far(share: Floats) -> str:
    if not len(share):
        return "one position, which needs no estimate"
    return f"pooled {share.mean():.0%} on average, {share.min():.0%} to {share.max():.0%}"


def _moments(rho: Propensities, size: int) -> tuple[Floats, Floats]:
    """Log propensities and their variances, infinite at positions without an estimate."""
    logs, variances = np.zeros(size), np.full(size, np.inf)
    if rho.errors is not None:
        logs[: len(rho)] = np.log(rho.values)
        variances[: len(rho)] = np.maximum(rho.errors**2, 1e-12)
    return logs, variances


def _correlation(rho: Propensities, size: int) -> Floats:
    """(size, size) of the errors of log ρ: all are relative to the first position, so they err together."""
    found = np.eye(size)
    if rho.covariance is not None and rho.errors is not None:
        scale = np.where(rho.errors > 0, rho.errors, 1.0)
        found[: len(rho), : len(rho)] = rho.covariance / np.outer(scale, scale)
        np.fill_diagonal(found, 1.0)
    return found


def _covariance(variance: Floats, correlation: Floats) -> Floats:
    scale = np.sqrt(variance)
    covariance: Floats = correlation * np.outer(scale, scale)
    return covariance


def _curve(
    logs: Floats, covariance: Floats, z: float, confidence: float, origin: str, notes: tuple[str, ...]
) -> Propensities:
    half = z * np.sqrt(np.diag(covariance))
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
        found: Floats = (weights * (logs - mean) ** 2).sum(axis=0) - freedom
        return found

    low, high = np.zeros(logs.shape[1]), np.full(logs.shape[1], 1e-6)
    for _ in range(60):
        high = np.where(excess(high) > 0, 2 * high, high)
    for _ in range(80):
        middle = (low + high) / 2
        above = excess(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where((freedom > 0) & (excess(np.zeros_like(low)) > 0), (low + high) / 2, 0.0)


def _split(clicks: ClickTable | Mapping[str, ClickTable], segment: ArrayLike | None) -> dict[str, ClickTable]:
    """One table per segment; all keep the candidates of the whole."""
    if isinstance(clicks, Mapping):
        if segment is not None:
            raise DataError("the tables are those of segments already; segment= is for one table.")
        return {str(name): table for name, table in clicks.items()}
    if segment is None and clicks.has_segments:
        return clicks.by_segment()
    if segment is None:
        raise DataError(
            "the clicks have no segments; count the log with {}, give one table for each segment, or segment=: one "
            "entry per query, or one per cell.",
            setting("segment", "COLUMN"),
        )
    named: NDArray[Any] = np.asarray(segment)
    if named.shape == (clicks.n_queries,):
        named = named[clicks.candidates.row_queries[clicks.row]]
    elif named.shape != (clicks.n_cells,):
        raise DataError(
            f"segment has shape {named.shape}; it needs one entry for each of {clicks.n_queries:,} queries, or of "
            f"{clicks.n_cells:,} cells."
        )
    names, code = np.unique(named, return_inverse=True)
    return {str(name): clicks.where(code == at) for at, name in enumerate(names)}
