"""What a method learns from, as help, messages, pages and experiments say it."""

from __future__ import annotations

from typing import Literal

Needs = Literal["labels", "clicks", "propensities", "trust"]

TRUST_BIAS = "`cldrank propensity estimate --method trust-bias`"  # what estimates affine propensities


def learned_from(needs: Needs) -> tuple[str, ...]:
    """What a method learns from, in words.

    >>> learned_from("trust")
    ('clicks', 'affine propensities')
    """
    curve = {"propensities": ("propensities",), "trust": ("affine propensities",)}.get(needs, ())
    return ("clicks", *curve) if uses_clicks(needs) else ("labels",)


def uses_clicks(needs: Needs) -> bool:
    """Whether a method learns from clicks; if not, from labels."""
    return needs != "labels"


def uses_curve(needs: Needs) -> bool:
    """Whether a method is given the propensities of positions, plain or affine."""
    return needs in ("propensities", "trust")
