"""Numbers of charts: in few letters, and at round distances."""

from __future__ import annotations

import math


def short(value: float) -> str:
    """A number in few letters.

    >>> short(0), short(999.9), short(12_000), short(1_500_000)
    ('0', '1k', '12k', '1.5M')
    """
    rounded = float(f"{value:.3g}")  # before its size is judged, or 999.9 would be 1e+03
    for bound, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= bound:
            return f"{rounded / bound:.3g}{letter}"
    return f"{rounded:.3g}"


def round_step(least: float) -> float:
    """The smallest round number that is no less: a distance between grid lines.

    >>> round_step(0.027), round_step(0.7), round_step(30)
    (0.05, 1.0, 50.0)
    """
    size = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{part * size:.6g}") for part in (1, 2, 5, 10) if part * size >= least * (1 - 1e-9))
