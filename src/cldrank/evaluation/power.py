"""How precise an experiment must be, so that it decides with 80% power."""

from __future__ import annotations

import math

POWER = 0.8
_FEWEST = 30  # pages whose mean can be taken to be normal
_STEPS = 60  # of the bisection: more than doubles can tell apart
_WIDE = 100.0  # times the largest number involved: an error at which nothing is ever decided


def pages_to_show(difference: float, variance: float, confidence: float) -> int | None:
    """How many pages show that the mean of something per page is not 0; None where it is 0.

        n = variance (z_confidence + z_power)² / difference²

    z_confidence is the normal quantile of (1 + confidence) / 2, z_power that of 80%: the error to one side is
    (1 - confidence) / 2, as in the intervals. At least 30, since the mean is taken to be normal.

    >>> pages_to_show(0.1, 1.0, 0.9)
    619
    """
    from scipy.special import ndtri

    if difference == 0:
        return None
    z = float(ndtri((1 + confidence) / 2) + ndtri(POWER))
    return max(_FEWEST, math.ceil(variance * (z / difference) ** 2))


def chance_to_decide(error: float, low: float, high: float, margin: float, quantile: float) -> float:
    """The chance that an interval [low - quantile error, high + quantile error] decides, if its centre is normal.

    low, high   where the interval would end without any error: the gain, less and plus its bias
    margin      of a gain up to which "no difference" is right as well
    quantile    how many standard errors the interval reaches

    A decision is to lie above 0 (below 0, if the middle does) or, where the middle is within the margin, to lie within
    it whole. Without margin it is Φ(low / error - quantile).

    >>> round(chance_to_decide(0.02, 0.05, 0.05, 0.0, 1.645), 3)
    0.804
    """
    from scipy.special import ndtr

    if low + high < 0:
        low, high = -high, -low
    half = quantile * error
    above = half - low  # from this deviation on, the interval lies above 0
    chance = float(ndtr(-above / error))
    if (low + high) / 2 <= margin:
        first, last = half - margin - low, min(margin - high - half, above)
        chance += max(0.0, float(ndtr(last / error) - ndtr(first / error)))
    return chance


def largest_error(low: float, high: float, margin: float, quantile: float) -> float | None:
    """The largest standard error with which an interval decides with 80% power; None where no error is small enough.

        low / (quantile + z_power)    for a gain above the margin

    For one within the margin it is found by bisection. The interval around the gain itself must decide, too.

    >>> round(largest_error(0.05, 0.05, 0.0, 1.645), 4), largest_error(-0.01, 0.05, 0.0, 1.645)
    (0.0201, None)
    """
    if low + high < 0:
        low, high = -high, -low

    def suffices(error: float) -> bool:
        ends = low - quantile * error, high + quantile * error
        decided = ends[0] > 0 or (-margin <= ends[0] and ends[1] <= margin)
        return decided and chance_to_decide(error, low, high, margin, quantile) >= POWER

    scale = max(abs(low), abs(high), margin)
    least, most = scale / _WIDE**3, scale * _WIDE
    if scale == 0 or not suffices(least):
        return None
    for _ in range(_STEPS):
        middle = math.sqrt(least) * math.sqrt(most)
        least, most = (middle, most) if suffices(middle) else (least, middle)
    return least
