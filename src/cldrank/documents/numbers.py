"""Numbers for figures and pages: short, and at round distances."""

from __future__ import annotations

import math


def short(value: float) -> str:
    """A number in a few characters.

    >>> short(0), short(999.9), short(12_000), short(1_500_000)
    ('0', '1k', '12k', '1.5M')
    """
    rounded = float(f"{value:.3g}")  # before its size is judged, or 999.9 would be 1e+03
    for bound, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= bound:
            return f"{rounded / bound:.3g}{letter}"
    return f"{rounded:.3g}"


def plain_number(value: float) -> str:
    """A number as people write it: 100,000, 0.1, 1."""
    whole = isinstance(value, int) or (abs(value) >= 1000 and value.is_integer())
    return f"{int(value):,}" if whole else f"{value:g}"


def percent(value: float, digits: int = 0) -> str:
    """A share in percent, with a true minus sign: 34%, −28%."""
    return f"{100 * value:.{digits}f}%".replace("-", "−")


def round_step(least: float) -> float:
    """The smallest of …, 0.5, 1, 2, 5, 10, … that is not below `least`: a distance between grid lines."""
    size = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{part * size:.6g}") for part in (1, 2, 5, 10) if part * size >= least * (1 - 1e-9))
