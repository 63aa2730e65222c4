"""Goodness of fit: whether clicks of the same candidates at other positions agree with the estimated curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.propensity.counts import PairSums
from cldrank.propensity.parsing import as_number, as_whole, entry
from cldrank.wording import count

Floats = NDArray[np.float64]
FEWEST_CLICKS = 10.0  # at each of two positions: below, the log of a ratio of clicks is far from normal
FEWEST_UNITS = 20  # queries, or whatever is resampled: fewer do not show the error of a pair
_FEWEST_REPLICATES = 20
_EXACT = 1e-9  # a pair that the estimator itself solved for has no residual to test


@dataclass(frozen=True)
class Goodness:
    """How well a curve fits the clicks of candidates that were shown at several positions.

        statistic = mean over pairs of positions (k, l) of (residual / its standard error)^2
        residual  = log(clicks at l / clicks at k, of the candidates shown at both) - log(rho_l / rho_k)

    pairs     pairs of positions that could be tested
    p_value   how often resampling alone brings a larger statistic; a small one refutes the position-based model
    worst     the pair of positions with the largest residual, in standard errors
    """

    statistic: float
    pairs: int
    p_value: float
    worst: tuple[int, int]

    def __str__(self) -> str:
        verdict = "contradict" if self.p_value < 0.01 else "agree with"
        pairs = count(self.pairs, "pair")
        return (
            f"clicks of the same candidates elsewhere {verdict} the curve: {pairs} of positions, mean squared residual "
            f"{self.statistic:.2f}, p = {self.p_value:.2g}, worst at {self.worst[0]} and {self.worst[1]}"
        )

    @classmethod
    def parsed(cls, content: Any, positions: int) -> Goodness:
        """From a file of this many positions."""
        statistic, pairs, p_value, worst = (
            entry(content, name, "goodness") for name in ("statistic", "pairs", "p_value", "worst")
        )
        if not isinstance(worst, list) or len(worst) != 2:
            raise DataError("worst, of goodness, is not a pair of positions.")
        one, two = (as_whole(at, "worst, of goodness,", 1, positions) for at in worst)
        return cls(
            as_number(statistic, "statistic, of goodness,", 0),
            as_whole(pairs, "pairs, of goodness,", 1, positions * (positions - 1) // 2),
            as_number(p_value, "p_value, of goodness,", 0, 1),
            (one, two),
        )


def goodness_of_fit(pairs: PairSums, rho: Floats, draws: Floats, weights: Floats) -> Goodness | None:
    """Test a curve against the pairs that it was not fitted to; None where nothing is left to test.

    draws     (replicates, k) the resampled estimates
    weights   (replicates, groups) how often each replicate drew each group of queries
    """
    clicked = np.minimum(pairs.clicks_upper, pairs.clicks_lower)
    rich = np.flatnonzero((clicked >= FEWEST_CLICKS) & (pairs.units >= FEWEST_UNITS))
    if not len(rich):
        return None
    upper, lower = pairs.upper[rich], pairs.lower[rich]
    with np.errstate(divide="ignore", invalid="ignore"):
        here = np.log(pairs.below.sum(axis=0)[rich] / pairs.above.sum(axis=0)[rich]) - np.log(rho[lower] / rho[upper])
        resampled = np.log((weights @ pairs.below[:, rich]) / (weights @ pairs.above[:, rich]))
        spread = resampled - np.log(draws[:, lower] / draws[:, upper]) - here
    found = chance_of(here, spread)
    if found is None:
        return None
    statistic, p_value, tested, worst = found
    return Goodness(statistic, tested, p_value, (int(upper[worst]) + 1, int(lower[worst]) + 1))


def chance_of(here: Floats, spread: Floats) -> tuple[float, float, int, int] | None:
    """The mean squared residual, its p-value, how many were tested, and the worst; None if nothing can be tested.

    here     (pairs,) residuals
    spread   (replicates, pairs) what resampling adds to them
    """
    whole = np.isfinite(spread).all(axis=1)
    if whole.sum() < _FEWEST_REPLICATES:
        return None
    spread = spread[whole]
    error = np.sqrt((spread**2).mean(axis=0))
    tested = np.flatnonzero(error > _EXACT)
    if not len(tested):
        return None
    scores = (here[tested] / error[tested]) ** 2
    chance = ((spread[:, tested] / error[tested]) ** 2).mean(axis=1)
    statistic = float(scores.mean())
    p_value = (1 + int((chance >= statistic).sum())) / (1 + len(chance))
    return statistic, p_value, len(tested), int(tested[scores.argmax()])
