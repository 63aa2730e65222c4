"""Smoothing: the nearest curve that falls, or that is a power law."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions

Floats = NDArray[np.float64]


def monotone(propensities: Propensities) -> Propensities:
    """The nearest curve that never rises: isotonic regression of log ρ, weighted by 1 / variance, and at most 0.

    Intervals are those of the smoothed replicates; without replicates, their ends are smoothed alike.

    >>> rho = monotone(Propensities(np.array([1, 0.5, 0.6, 0.7]), method="Randomised"))
    >>> rho.values.round(3), rho.notes
    (array([1.   , 0.594, 0.594, 0.594]), ('smoothed to a falling curve: positions 2, 3 and 4 changed',))
    """
    weights = 1 / _variances(propensities)[1:]
    values = _falling(propensities.values, weights)
    changed = np.flatnonzero(np.abs(values - propensities.values) > 1e-9) + 1
    parts: dict[str, Any] = {}
    if propensities.replicates is not None:
        replicates = np.stack([_falling(draw, weights) for draw in propensities.replicates])
        parts = _from_replicates(values, replicates, propensities.confidence or 0.9)
    elif propensities.low is not None and propensities.high is not None:
        low, high = (_falling(np.maximum(end, 1e-12), weights) for end in (propensities.low, propensities.high))
        parts = {"low": np.minimum(low, values), "high": np.maximum(high, values)}
    outcome = f"{positions(changed.tolist(), most=len(changed))} changed" if len(changed) else "nothing changed"
    return replace(
        propensities,
        values=values,
        origin=f"{propensities.origin}; monotone",
        goodness=None if len(changed) else propensities.goodness,
        notes=(*_kept(propensities), f"smoothed to a falling curve: {outcome}"),
        **parts,
    )


def power_law(propensities: Propensities) -> Propensities:
    """The power law k^-eta nearest to log ρ, by least squares weighted by 1 / variance.

        eta = -sum_k w_k log(k) log(rho_k) / sum_k w_k log(k)^2

    Its interval follows from the covariance of log ρ; so does the test of whether a power law fits at all.

    >>> power_law(Propensities.power(0.8, 5)).origin
    'power law, eta 0.8; fitted to power law, eta 0.8'
    """
    from scipy.special import ndtri

    if len(propensities) < 2:
        raise DataError("a power law needs at least two positions.")
    logs, distance = np.log(propensities.values[1:]), np.log(np.arange(2, len(propensities) + 1))
    weight = distance / _variances(propensities)[1:]
    shares = weight / (weight @ distance)
    eta = -float(shares @ logs)
    curve = np.exp(-eta * np.log(np.arange(1, len(propensities) + 1)))
    parts: dict[str, Any] = {"low": None, "high": None, "covariance": None, "replicates": None, "confidence": None}
    outcome = f"eta {eta:.4g}"
    if propensities.covariance is not None:
        inner, confidence = propensities.covariance[1:, 1:], propensities.confidence or 0.9
        error = float(np.sqrt(shares @ inner @ shares))
        z = float(ndtri((1 + confidence) / 2))
        p_value = _misfit(logs + eta * distance, inner, shares, distance)
        outcome += f" ({eta - z * error:.4g} to {eta + z * error:.4g} at {confidence:.0%} confidence)"
        if p_value is not None:
            outcome += f"; a power law {'fits' if p_value >= 0.01 else 'does not fit'}, p = {p_value:.2g}"
        steps = np.log(np.arange(1, len(propensities) + 1))
        parts |= {"low": np.exp(-(eta + z * error) * steps), "high": np.exp(-(eta - z * error) * steps)}
        parts |= {"covariance": error**2 * np.outer(steps, steps), "confidence": confidence}
    return replace(
        propensities,
        values=curve,
        origin=f"power law, eta {eta:.4g}; fitted to {propensities.origin}",
        goodness=None,
        notes=(*_kept(propensities), f"smoothed to a power law: {outcome}"),
        **parts,
    )


def _kept(propensities: Propensities) -> tuple[str, ...]:
    """The notes that still hold of a smoothed curve."""
    return tuple(note for note in propensities.notes if "more often than the first" not in note)


def _variances(propensities: Propensities) -> Floats:
    """Of log ρ; all equal where they are unknown."""
    if propensities.covariance is None:
        return np.ones(len(propensities))
    variances = np.diag(propensities.covariance)
    bounded: Floats = np.maximum(variances, 1e-12 + 1e-6 * variances.max())
    return bounded


def _falling(values: Floats, weights: Floats) -> Floats:
    from sklearn.isotonic import isotonic_regression

    logs: Floats = isotonic_regression(np.log(values[1:] / values[0]), sample_weight=weights, increasing=False)
    return np.concatenate([[1.0], np.exp(np.minimum(logs, 0.0))])


def _from_replicates(values: Floats, replicates: Floats, confidence: float) -> dict[str, Any]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=0)
    return {
        "low": np.minimum(low, values),
        "high": np.maximum(high, values),
        "covariance": np.cov(np.log(replicates), rowvar=False),
        "replicates": replicates,
        "confidence": confidence,
    }


def _misfit(residuals: Floats, covariance: Floats, shares: Floats, distance: Floats) -> float | None:
    """The p-value of the residuals of the power law, by their own covariance; None if none are left."""
    from scipy.special import chdtrc

    free = len(residuals) - 1
    if not free:
        return None
    left = np.eye(len(residuals)) - np.outer(distance, shares)
    spread = left @ covariance @ left.T
    statistic = float(residuals @ np.linalg.pinv(spread, rcond=1e-8, hermitian=True) @ residuals)
    return float(chdtrc(free, statistic))
