"""Refusals: why a log cannot tell, and what data would be needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from cldrank._typing import IntArray
from cldrank.errors import UnidentifiableError
from cldrank.propensity.cells import Cells

PRECISION = 0.1  # what is promised of the data that are asked for: an interval of ±10%

_HOPELESS = 2.0  # a standard error of a log propensity beyond which its own size means nothing


def impressions_needed(rate: float, first_rate: float, *, precision: float = PRECISION, confidence: float = 0.9) -> int:
    """How many impressions, at each of two positions, estimate the ratio of their click-through rates to ± precision.

        n = ((1 - p) / p + (1 - q) / q) (z / precision)^2

    >>> impressions_needed(0.1, 0.3)
    3067
    """
    rates = np.clip([rate, first_rate], 1e-6, 1 - 1e-6)
    z = ndtri((1 + confidence) / 2)
    return int(np.ceil(((1 - rates) / rates).sum() * (z / precision) ** 2))


def listed(positions: Sequence[int]) -> str:
    """Positions in words, counted from 1.

    >>> listed([4]), listed([2, 3]), listed([2, 3, 4, 5]), listed([4, 5, 6, 9, 10])
    ('position 4', 'positions 2 and 3', 'positions 2, 3, 4 and 5', 'positions 4, 5, 6 and 2 more')
    """
    if len(positions) == 1:
        return f"position {positions[0]}"
    if len(positions) == 2:
        return f"positions {positions[0]} and {positions[1]}"
    if len(positions) == 4:
        return f"positions {', '.join(map(str, positions[:3]))} and {positions[3]}"
    shown = ", ".join(map(str, positions[:3]))
    return f"positions {shown}" + (f" and {len(positions) - 3} more" if len(positions) > 3 else "")


def refuse(
    who: str,
    reason: str,
    lacking: Sequence[int],
    rates: NDArray[np.float64],
    confidence: float,
    remedy: str = "pages of a second ranker, or neighbours that change places on a share of pages",
) -> UnidentifiableError:
    """The error that says why the positions (from 1) that are lacking cannot be estimated, and what would help."""
    positions = tuple(sorted(int(position) for position in lacking))
    depth = positions[0] - 1 if positions else 0
    which = "any position" if len(positions) == len(rates) else listed(positions)
    parts = [f"{who} cannot estimate {which}: {reason}."]
    clicked = [position for position in positions if rates[position - 1] > 0]
    if clicked and rates[0] > 0:
        worst = min(clicked, key=lambda position: rates[position - 1])
        needed = impressions_needed(rates[worst - 1], rates[0], confidence=confidence)
        parts.append(
            f"Needed are {remedy}: about {needed:,} impressions of the same candidates at position {worst} and at "
            f"another would give ±{PRECISION:.0%} at {confidence:.0%} confidence."
        )
    else:
        parts.append(f"Needed are clicks at these positions, and {remedy}.")
    return UnidentifiableError(" ".join([*parts, _way_out(depth)]), positions=positions, depth=depth)


def too_few(
    who: str, weak: IntArray, worst: int, error: float | None, cells: Cells, confidence: float
) -> UnidentifiableError:
    """The error that says that the clicks at the weak positions do not suffice, and how many more would.

    worst   the weakest of them
    error   the standard error of its log propensity; None if resampling leaves it without any
    """
    clicks = int(cells.clicks[cells.place == worst - 1].sum())
    told = f"{who} cannot estimate {listed(weak.tolist())}: position {worst} has "
    told += f"{clicks:,} click{'' if clicks == 1 else 's'} in all, and "
    if error is None or error > _HOPELESS:
        told += "resampling often leaves none that can be compared. Needed are many more pages, of more queries."
    else:
        times = (float(ndtri((1 + confidence) / 2)) * error / PRECISION) ** 2
        told += (
            f"the standard error of its log propensity is {error:.2f}. It needs about {times:,.0f} times as many "
            f"pages for ±{PRECISION:.0%} at {confidence:.0%} confidence."
        )
    depth = int(weak.min()) - 1
    return UnidentifiableError(f"{told} {_way_out(depth)}", positions=tuple(weak.tolist()), depth=depth)


def _way_out(depth: int) -> str:
    if depth >= 2:
        return f"depth={depth} estimates the first {depth} positions."
    return "Else assume a curve (Propensities.power), or use a method that models relevance as well."
