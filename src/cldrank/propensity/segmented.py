"""`BySegment`: propensities of each device, surface or class of queries, the weak ones drawn towards the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

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

    pooled      the mean curve, which segments were drawn towards
    pooling     for each segment, (k,) how far: 0 is its own estimate, 1 the mean curve
    spread      (k,) the standard deviation of log ρ between segments
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
    Candidates are compared within their segment only. A segment whose log supports no estimate gets the mean curve,
    with the interval of a segment yet unseen, and a note.

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
            raise DataError("there is one segment only; fit the estimator itself.")
        alone: dict[str, Propensities | None] = {}
        refusals: dict[str, UnidentifiableError] = {}
        for name, table in tables.items():
            try:
                alone[name] = self.estimator.fit(table)
            except UnidentifiableError as refusal:
                alone[name], refusals[name] = None, refusal
        known = {name: rho for name, rho in alone.items() if rho is not None}
        if not known:
            name, first = next(iter(refusals.items()))
            raise UnidentifiableError("no segment can be estimated; {!r}: {}", name, quoted(first))
        return _pooled(known, alone, refusals, self.estimator.confidence)


def _pooled(
    known: Mapping[str, Propensities],
    alone: Mapping[str, Propensities | None],
    refusals: Mapping[str, UnidentifiableError],
    confidence: float,
) -> EstimatedSegments:
    size = max(len(rho) for rho in known.values())
    moments = [_moments(rho, size) for rho in known.values()]
    logs, variances = (np.stack(part) for part in zip(*moments, strict=True))
    between = _between(logs, variances)
    weights = 1 / (variances + between)
    mean_variance = 1 / weights.sum(axis=0)
    mean = (weights * logs).sum(axis=0) * mean_variance
    mean[0] = mean_variance[0] = between[0] = 0.0
    z = float(ndtri((1 + confidence) / 2))
    usual = np.mean([_correlation(rho, size) for rho in known.values()], axis=0)
    pooled = _curve(mean, _covariance(mean_variance, usual), z, confidence, f"mean of {len(known)} segments", ())
    segments, pooling = {}, {}
    for name, rho in alone.items():
        own, variance = _moments(rho, size)
        share = np.where(np.isinf(variance), 1.0, variance / np.where(np.isinf(variance), 1.0, variance + between))
        share[0] = 0.0
        pooled_by = f"pooled {share[1:].mean():.0%} on average, {share[1:].min():.0%} to {share[1:].max():.0%}"
        if rho is None:
            pooled_by = "all of the mean curve: alone, this segment supports no estimate"
        # the segment's own uncertainty, as far as it is left, and that of the mean, as far as it is drawn towards it
        spread = share * between + share**2 * mean_variance
        notes = (*(rho.notes if rho is not None else ()), pooled_by)
        covariance = _covariance(spread, usual if rho is None else _correlation(rho, size))
        curve = _curve(own + share * (mean - own), covariance, z, confidence, f"segment {name}, {pooled_by}", notes)
        comparisons = rho.comparisons if rho is not None and len(rho) == size else None
        segments[name], pooling[name] = replace(curve, comparisons=comparisons), share
    return EstimatedSegments(segments, pooled, pooling, np.sqrt(between), alone, refusals)


def _moments(rho: Propensities | None, size: int) -> tuple[Floats, Floats]:
    """Log propensities and their variances, infinite at positions without an estimate."""
    logs, variances = np.zeros(size), np.full(size, np.inf)
    if rho is not None and rho.errors is not None:
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
