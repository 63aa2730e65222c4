"""What a method learns from: the one place that help, messages, pages and experiments take it from."""

from __future__ import annotations

from typing import Literal

Needs = Literal["labels", "clicks", "propensities", "trust"]

TRUST_BIAS = "`cldrank propensity estimate --method trust-bias`"  # what estimates affine propensities

_SOURCES: dict[Needs, tuple[str, ...]] = {
    "labels": ("labels",),
    "clicks": ("clicks",),
    "propensities": ("clicks", "propensities"),
    "trust": ("clicks", "affine propensities"),
}


def learned_from(needs: Needs) -> tuple[str, ...]:
    """What a method learns from, in words.

    >>> learned_from("trust")
    ('clicks', 'affine propensities')
    """
    return _SOURCES[needs]


def uses_clicks(needs: Needs) -> bool:
    """Whether a method learns from clicks; if not, from labels.

    >>> uses_clicks("labels"), uses_clicks("trust")
    (False, True)
    """
    return "clicks" in _SOURCES[needs]


def uses_curve(needs: Needs) -> bool:
    """Whether a method is given the propensities of positions, plain or affine.

    >>> uses_curve("clicks"), uses_curve("trust")
    (False, True)
    """
    return len(_SOURCES[needs]) > 1
