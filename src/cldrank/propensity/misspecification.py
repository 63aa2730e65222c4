"""Wrong propensities on purpose: how much does a method lose if the assumed curve is not the true one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError
from cldrank.propensity.propensities import Propensities


def misspecify(propensities: Propensities, power: float) -> Propensities:
    """The curve ρ^power: flatter than the truth below 1, steeper above; 0 assumes no position bias at all.

    A power law with eta becomes one with power * eta, so this is the paper's RQ4 for curves of any shape.

    >>> misspecify(Propensities.power(1, 3), 2).values
    array([1.        , 0.25      , 0.11111111])
    """
    if not np.isfinite(power) or power < 0:
        raise UsageError(f"power must be a number of at least 0, not {power}.")
    return replace(
        propensities,
        values=propensities.values**power,
        origin=f"{propensities.origin}; misspecified, to the power of {power:g}",
        low=None,
        high=None,
        confidence=None,
        covariance=None,
        goodness=None,
        replicates=None,
    )


def misspecified_powers(true_eta: float, assumed: Sequence[float], k: int) -> dict[float, Propensities]:
    """The curves of the paper's RQ4: power laws with the assumed etas, where the true one is another.

    >>> misspecified_powers(1.0, [0, 0.5, 1, 2], k=3)[0.5]
    Propensities(1, 0.7071, 0.5774; power law, eta 0.5, where 1 is true)
    """
    return {
        float(eta): replace(Propensities.power(eta, k), origin=f"power law, eta {eta:g}, where {true_eta:g} is true")
        for eta in assumed
    }


def distortion(assumed: Propensities, true: Propensities) -> NDArray[np.float64]:
    """(k,) how many times too much a click at each position counts, if it is divided by the assumed propensity.

        true_k / assumed_k

    >>> distortion(Propensities.power(0, 3), Propensities.power(1, 3))
    array([1.        , 0.5       , 0.33333333])
    """
    if len(assumed) != len(true):
        raise UsageError(f"{len(assumed)} positions cannot be compared with {len(true)}.")
    return true.values / assumed.values
