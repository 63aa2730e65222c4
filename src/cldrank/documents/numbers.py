"""Numbers for figures and pages: short, and at round distances."""

from __future__ import annotations

import math
import re


def short(value: float) -> str:
    """A number in a few characters."""
    rounded = float(f"{value:.3g}")  # before its size is judged, or 999.9 would be 1e+03
    for bound, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(rounded) >= bound:
            return minus(f"{rounded / bound:.3g}{letter}")
    return minus(f"{rounded:.3g}")


def percent(value: float, digits: int = 0) -> str:
    """A share in percent, with a true minus sign: 34%, −28%."""
    return minus(f"{100 * value:.{digits}f}%")


def minus(text: str) -> str:
    """A text whose negative numbers have a true minus.

    >>> minus("by -0.1 to +0.2, doubly-robust")
    'by −0.1 to +0.2, doubly-robust'
    """
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def span(low: float, high: float, form: str = "+.4f") -> str:
    """A range in words, from its low to its high end."""
    return minus(f"{low:{form}} to {high:{form}}")


def round_step(least: float) -> float:
    """The smallest of …, 0.5, 1, 2, 5, 10, … that is not below `least`: a distance between grid lines."""
    size = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{part * size:.6g}") for part in (1, 2, 5, 10) if part * size >= least * (1 - 1e-9))
