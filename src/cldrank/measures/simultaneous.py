"""Several estimates at once: how much wider intervals must be for all of them to hold together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DRAWS = 100_000


def confidence_of_each(
    deviations: NDArray[np.float64], confidence: float, freedom: int, seed: int = 0, *, two_sided: bool = True
) -> float:
    """The confidence of each interval by itself, such that all of them hold with `confidence` together.

    They reach the quantile of max_i |t_i| standard errors (of max_i t_i, one-sided), where t is multivariate with the
    correlations of the estimates; drawn at random, the same for every call with a seed.

    deviations   (estimates, sources) how far each source of error moves each estimate: the product of two rows is
                 their covariance; rows of zeros, estimates without any error, are left out
    freedom      degrees of freedom

    >>> round(confidence_of_each(np.eye(3), 0.9, 1000), 3), round(confidence_of_each(np.ones((3, 1)), 0.9, 1000), 3)
    (0.965, 0.9)
    """
    from scipy.special import stdtr

    errors = np.linalg.norm(deviations, axis=1)
    rows = deviations[errors > 0] / errors[errors > 0, None]
    if two_sided and len(rows) < 2:
        return confidence
    share = (1 + confidence) / 2 if two_sided else confidence  # of a single estimate below the quantile
    if not two_sided and len(rows) < 2:
        return 2 * share - 1
    random = np.random.default_rng([seed, 5])
    correlations = np.clip(rows @ rows.T, -1, 1)
    drawn = random.multivariate_normal(np.zeros(len(rows)), correlations, _DRAWS, check_valid="ignore", method="eigh")
    drawn /= np.sqrt(random.chisquare(freedom, _DRAWS) / freedom)[:, None]
    quantile = np.quantile((np.abs(drawn) if two_sided else drawn).max(axis=1), confidence)
    each = 1 - 2 * float(stdtr(freedom, -quantile))
    return min(max(each, 2 * share - 1), 1 - 2 * (1 - share) / len(rows))  # never narrower than one, nor than needed
