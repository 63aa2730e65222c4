"""The log-likelihood of CLD, candidate by candidate, with first and second derivatives, always in float64.

    shown:       -(r̄ - x·β)² + log Φ((x·ω + γ (r̄ - x·β)) / √(1 - γ²))        `shown`
    not shown:   log Φ(-x·ω)                                                  `unshown`

The target r̄ is clicks over impressions and propensity, the score x·β the predicted relevance, the selection x·ω the
tendency to be shown. In terms of the residual e and the index z, with a = atanh γ:

    e = (target - score) / σ,    z = (selection + γ e) / √(1 - γ²) = selection cosh a + e sinh a

Arrays may be numpy's or torch's: the result is of the same kind, on the same device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from array_api_compat import array_namespace, is_numpy_namespace

from cldrank.arguments import check_number
from cldrank.errors import UsageError

Array = Any  # a numpy array or a torch tensor, float64

_FAR = 60.0  # below -60, z + m(z) has lost 12 digits, and the series is accurate to 14
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


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


@dataclass(frozen=True)
class Form:
    """How the target of a shown candidate is distributed around its score.

    gamma      γ, the correlation of the noise in selection and in relevance, between -1 and 1
    sigma      σ, the size of the noise in relevance; always 1 in the paper's form
    gaussian   False: the paper's -e², a Gaussian of variance ½ beside a Φ that assumes 1;
               True: the type-II Tobit likelihood, -e²/2 - log σ - log √(2π), which integrates to one
    """

    gamma: float
    sigma: float = 1.0
    gaussian: bool = False

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=-1, below=1)
        check_number("sigma", self.sigma, above=1e-100, below=1e100)  # so that its square is a number too
        if not self.gaussian and self.sigma != 1:
            raise UsageError(f"the paper's form has no sigma; `sigma={self.sigma!r}` needs the Tobit form.")

    @property
    def tilt(self) -> tuple[float, float]:
        """The pair cosh a and sinh a: what a unit of selection and a unit of residual add to the index."""
        scale = math.sqrt((1 - self.gamma) * (1 + self.gamma))
        return 1 / scale, self.gamma / scale

    @property
    def squares(self) -> float:
        """The curvature of the square: minus its second derivative by the score."""
        return (1.0 if self.gaussian else 2.0) / self.sigma**2

    @property
    def direction(self) -> tuple[float, float]:
        """The derivatives of the index by score and selection. With them, the Hessian of a shown row is
        -squares (1, 0)(1, 0)ᵀ - curvature direction directionᵀ.
        """
        cosh, sinh = self.tilt
        return -sinh / self.sigma, cosh


class ShownLikelihood(NamedTuple):
    """Per shown candidate: the log-likelihood, its derivatives by score and selection, and the curvature of log Φ."""

    value: Array
    score: Array
    selection: Array
    curvature: Array


def shown(score: Array, selection: Array, target: Array, form: Form) -> ShownLikelihood:
    """The log-likelihood of candidates that were shown.

        paper:   -e² + log Φ(z),                            e = r̄ - x·β
        Tobit:   -e²/2 - log σ - log √(2π) + log Φ(z),      e = (r̄ - x·β) / σ

    >>> import numpy as np
    >>> shown(np.array([0.2]), np.array([1.0]), np.array([1.0]), Form(0.5)).value
    array([-0.694])
    """
    half = 0.5 if form.gaussian else 1.0
    residual = (target - score) / form.sigma
    square = half * residual**2  # the paper's (r̄ - x·β)²
    constant = math.log(form.sigma) + _LOG_SQRT_2PI if form.gaussian else 0.0
    cosh, sinh = form.tilt
    index = log_cdf(cosh * selection + sinh * residual)
    return ShownLikelihood(
        index.value - square - constant,
        (2 * half * residual - sinh * index.slope) / form.sigma,
        cosh * index.slope,
        index.curvature,
    )


def unshown(selection: Array) -> LogCdf:
    """The log-likelihood of candidates that were not shown, log Φ(-selection), with its derivatives by it."""
    index = log_cdf(-selection)
    return LogCdf(index.value, -index.slope, index.curvature)


class Nuisance(NamedTuple):
    """Derivatives of the shown rows' log-likelihood by log σ and by a = atanh γ.

    gradient    (2, rows)
    score       (2, rows): the mixed second derivatives with the score
    selection   (2, rows): the same with the selection
    hessian     (2, 2, rows)
    """

    gradient: Array
    score: Array
    selection: Array
    hessian: Array


def shown_nuisance(score: Array, selection: Array, target: Array, form: Form) -> Nuisance:
    """The derivatives of `shown` by log σ and atanh γ, which all rows share; the paper's form has no σ.

    ∂e/∂log σ = -e,    ∂z/∂a = selection sinh a + e cosh a,    ∂²z/∂a² = z
    """
    xp = array_namespace(score)
    cosh, sinh = form.tilt
    residual = (target - score) / form.sigma
    z = cosh * selection + sinh * residual
    turned = sinh * selection + cosh * residual  # ∂z/∂a
    _, slope, curvature = log_cdf(z)
    squares = 1.0 if form.gaussian else 2.0
    by_residual = -squares * residual + sinh * slope
    by_residual_twice = -squares - sinh**2 * curvature
    by_residual_turn = cosh * slope - sinh * curvature * turned
    sigma_sigma = residual * (residual * by_residual_twice + by_residual)
    sigma_turn = -residual * by_residual_turn
    turn_turn = slope * z - curvature * turned**2
    return Nuisance(
        xp.stack([-residual * by_residual - (1.0 if form.gaussian else 0.0), slope * turned]),
        xp.stack([by_residual + residual * by_residual_twice, -by_residual_turn]) / form.sigma,
        xp.stack([residual * sinh * cosh * curvature, sinh * slope - cosh * curvature * turned]),
        xp.stack([xp.stack([sigma_sigma, sigma_turn]), xp.stack([sigma_turn, turn_turn])]),
    )


def _special(xp: Any) -> Any:
    if is_numpy_namespace(xp):
        import scipy.special

        return scipy.special
    import torch

    return torch.special
