"""Refusals: why a log cannot identify a position, and what data would be needed.

They carry words, not sentences: Python names a class and writes `depth=4`, the shell names a method and writes
`--depth 4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import CldrankError, Language, Spelling, UnidentifiableError, setting, worded
from cldrank.propensity.counts import Cells
from cldrank.wording import count, positions

ALL_PAIRS = Spelling("AllPairs", "all-pairs")
PRECISION = 0.1  # what is promised of the data that are asked for: an interval of ±10%

_HOPELESS = 2.0  # a standard error of a log propensity beyond which its own size means nothing


def phrase(message: str, *words: Any) -> Spelling:
    """A part of a sentence, in the words of either language.

    >>> phrase("{} estimates 4 positions", setting("depth", 4)).shell
    '--depth 4 estimates 4 positions'
    """
    return Spelling(worded(message, words, "python"), worded(message, words, "shell"))


def quoted(error: CldrankError) -> Spelling:
    """What an error says, as a part of another."""
    return Spelling(error.said("python"), error.said("shell"))


def without_name(refusal: CldrankError, language: Language) -> str:
    """What a refusal says without the name of the estimator that it begins with, where that was named before.

    >>> without_name(UnidentifiableError("{} cannot estimate position 4.", ALL_PAIRS), "shell")
    'cannot estimate position 4.'
    """
    if refusal.message.startswith("{} ") and refusal.words:
        return worded(refusal.message.removeprefix("{} "), refusal.words[1:], language)
    return refusal.said(language)


def impressions_needed(rate: float, first_rate: float, *, precision: float = PRECISION, confidence: float = 0.9) -> int:
    """How many impressions, at each of two positions, estimate the ratio of their click-through rates to ± precision.

        n = ((1 - p) / p + (1 - q) / q) (z / precision)^2

    >>> impressions_needed(0.1, 0.3)
    3067
    """
    from scipy.special import ndtri

    rates = np.clip([rate, first_rate], 1e-6, 1 - 1e-6)
    z = ndtri((1 + confidence) / 2)
    return int(np.ceil(((1 - rates) / rates).sum() * (z / precision) ** 2))


def cannot_estimate(
    who: Spelling,
    why: str,
    lacking: Sequence[int],
    rates: NDArray[np.float64],
    confidence: float,
    remedy: str = "pages of a second ranker, or neighbours that change places on a share of pages",
) -> UnidentifiableError:
    """The error that says why the positions (from 1) that are lacking cannot be estimated, and what would help."""
    weak = tuple(sorted(int(position) for position in lacking))
    depth = weak[0] - 1 if weak else 0
    which = "any position" if len(weak) == len(rates) else positions(weak)
    clicked = [position for position in weak if rates[position - 1] > 0]
    if clicked and rates[0] > 0:
        worst = min(clicked, key=lambda position: rates[position - 1])
        impressions = impressions_needed(rates[worst - 1], rates[0], confidence=confidence)
        needed = (
            f"What is needed: {remedy}. About {impressions:,} impressions of the same candidates at position {worst} "
            f"and at another would give ±{PRECISION:.0%} at {confidence:.0%} confidence."
        )
    else:
        needed = f"What is needed: clicks at these positions, and {remedy}."
    return UnidentifiableError(
        "{} cannot estimate {}: {}. {} {}", who, which, why, needed, _way_out(depth), positions=weak, depth=depth
    )


def too_few(
    who: Spelling, weak: IntArray, worst: int, error: float | None, cells: Cells, confidence: float
) -> UnidentifiableError:
    """The error that says that the clicks at the weak positions do not suffice, and how many more would.

    worst   the weakest of them
    error   the standard error of its log propensity; None if resampling leaves it without any
    """
    from scipy.special import ndtri

    clicks = int(cells.clicks[cells.place == worst - 1].sum())
    if error is None or error > _HOPELESS:
        why = "resampling often leaves none that can be compared. What is needed: many more pages, of more queries."
    else:
        times = (float(ndtri((1 + confidence) / 2)) * error / PRECISION) ** 2
        why = (
            f"the standard error of its log propensity is {error:.2f}. It needs about {times:,.0f} times as many "
            f"pages for ±{PRECISION:.0%} at {confidence:.0%} confidence."
        )
    depth = int(weak.min()) - 1
    return UnidentifiableError(
        "{} cannot estimate {}: position {} has {} in all, and {} {}",
        who,
        positions(weak.tolist()),
        worst,
        count(clicks, "click"),
        why,
        _way_out(depth),
        positions=tuple(weak.tolist()),
        depth=depth,
    )


def clicked_too_rarely(who: Spelling, counts: IntArray, clicks: int, needed: int) -> UnidentifiableError:
    """The error of a bound for which too few candidates were clicked often enough.

    counts   (positions,) how many were clicked at least `clicks` times there; `needed` would do
    """
    weak = np.flatnonzero(counts < needed) + 1
    depth = int(weak[0]) - 1
    return UnidentifiableError(
        "{} cannot bound {}: {} clicked at position {} {}, and it needs {}. What is needed: more pages of "
        "the same queries. {}",
        who,
        positions(weak.tolist()),
        count(int(counts[depth]), "candidate was", "candidates were"),
        depth + 1,
        "at all" if clicks == 1 else f"at least {clicks} times",
        needed,
        _way_out(depth),
        positions=tuple(weak.tolist()),
        depth=depth,
    )


def counts_every_click(who: Spelling, instead: Spelling | None = None) -> UnidentifiableError:
    """The error of estimators whose model has at most one click per impression."""
    return UnidentifiableError(
        "{} needs impressions that are clicked or not, but this table counts every click; aggregate the log with one "
        "click per impression{}.",
        who,
        phrase(", or use {}", instead) if instead else "",
    )


def _way_out(depth: int) -> Spelling:
    if depth >= 2:
        return phrase("{} estimates the first {} positions.", setting("depth", depth), depth)
    return phrase(
        "Otherwise assume a curve ({}), or {}.",
        Spelling("Propensities.power", "`cldrank train` takes --propensity power:1.0"),
        Spelling(
            "use a method that models relevance as well",
            "model relevance as well with --method regression-em --features FILE, where what the features do not know "
            "of relevance counts as position",
        ),
    )
