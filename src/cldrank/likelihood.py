"""The log-likelihood of CLD, candidate by candidate, with first and second derivatives, always in float64.

    shown:       -(r̄ - x·β)² + log Φ((x·ω + γ (r̄ - x·β)) / √(1 - γ²))        `shown`
    not shown:   log Φ(-x·ω)                                                  `unshown`

The target r̄ is clicks over impressions and propensity, the score x·β the predicted relevance, the selection x·ω the
tendency to be shown. In terms of the residual e and the index z, with a = atanh γ:

    e = target - score,    z = (selection + γ e) / √(1 - γ²) = selection cosh a + e sinh a

Arrays may be numpy's or torch's: the result is of the same kind, on the same device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from array_api_compat import array_namespace, is_numpy_namespace

Array = Any  # a numpy array or a torch tensor, float64

SQUARES = 2.0  # minus the second derivative of -e² by the score

_FAR = 60.0  # below -60, z + m(z) has lost 12 digits, and the series is accurate to 14


class LogCdf(NamedTuple):
    """log Φ(z), its slope m(z) = φ(z)/Φ(z), and its curvature -m'(z) = m (z + m), which lies in 0 … 1."""

    value: Array
    slope: Array
    curvature: Array


def log_cdf(z: Array) -> LogCdf:
    """The logarithm of Φ with its slope, the inverse Mills ratio, and its curvature; accurate for any finite z.

    m(z) = sqrt(2/π) / erfcx(-z/√2);    far to the left, m (z + m) = 1 - 1/z² + 6/z⁴ - 50/z⁶ + 518/z⁸ - …
    """
    xp = array_namespace(z)
    special = _special(xp)
    slope = math.sqrt(2 / math.pi) / special.erfcx(z * -math.sqrt(0.5))
    inverse = 1 / xp.where(z < -_FAR, z, -_FAR) ** 2
    far = 1 - inverse * (1 - inverse * (6 - inverse * (50 - 518 * inverse)))
    return LogCdf(special.log_ndtr(z), slope, xp.where(z < -_FAR, far, slope * (z + slope)))


class ShownLikelihood(NamedTuple):
    """Per shown candidate: the log-likelihood, its derivatives by score and selection, and the curvature of log Φ."""

    value: Array
    score: Array
    selection: Array
    curvature: Array


def tilt(gamma: float) -> tuple[float, float]:
    """The pair cosh a and sinh a: what a unit of selection and a unit of residual add to the index.

    With them, the Hessian of a shown row by score and selection is

        -SQUARES (1, 0)(1, 0)ᵀ - curvature (-sinh a, cosh a)(-sinh a, cosh a)ᵀ
    """
    scale = math.sqrt((1 - gamma) * (1 + gamma))
    return 1 / scale, gamma / scale


def shown(score: Array, selection: Array, target: Array, gamma: float) -> ShownLikelihood:
    """The log-likelihood of candidates that were shown.

    -e² + log Φ(z),    e = r̄ - x·β

    >>> import numpy as np
    >>> shown(np.array([0.2]), np.array([1.0]), np.array([1.0]), 0.5).value
    array([-0.694])
    """
    cosh, sinh = tilt(gamma)
    residual = target - score
    index = log_cdf(cosh * selection + sinh * residual)
    return ShownLikelihood(
        index.value - residual**2, 2 * residual - sinh * index.slope, cosh * index.slope, index.curvature
    )


def unshown(selection: Array) -> LogCdf:
    """The log-likelihood of candidates that were not shown, log Φ(-selection), with its derivatives by it."""
    index = log_cdf(-selection)
    return LogCdf(index.value, -index.slope, index.curvature)


def _special(xp: Any) -> Any:
    if is_numpy_namespace(xp):
        import scipy.special

        return scipy.special
    import torch

    return torch.special
