"""A curve held to the lower bound that the clicks themselves give: raised to it, or warned of."""

from __future__ import annotations

from typing import Literal

import numpy as np

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, Spelling, UnidentifiableError, setting, warn
from cldrank.propensity.checks.refuted import warn_if_refuted
from cldrank.propensity.counts import DEEPEST
from cldrank.propensity.envelope import Envelope
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions, some

EnvelopeUse = Literal["raise", "warn", "off"]

_SURE = 0.99  # confidence of the bound, so that chance seldom raises a true curve
_BOUND = Spelling("cldrank.propensity.Envelope", "`cldrank propensity estimate --method envelope`")
_COMPARE = Spelling("cldrank.propensity.compare_estimators", "`cldrank propensity compare`")


def held_to_clicks(propensities: Propensities, clicks: ClickTable, envelope: EnvelopeUse = "raise") -> Propensities:
    """The propensities that clicks are about to be divided by, after both checks; whatever is found is warned of.

    envelope   "raise": an assumed curve is raised where it lies below the bound of `Envelope`, at 99% confidence; an
               estimated one is only warned of, if its interval lies below. "warn": so is an assumed one. "off": neither

    Where clicks are too few for a bound there is none, and positions below the last that has one stay as they are.
    """
    bound = None if envelope == "off" or propensities.bound else _bound(clicks, len(propensities))
    least = np.empty(0) if bound is None or bound.low is None else np.minimum(bound.low, 1.0)
    most = propensities.values if propensities.high is None else propensities.high
    refuted = np.flatnonzero(most[: len(least)] < least)
    told = tuple(int(at) + 1 for at in refuted)
    if bound is None or not told:
        warn_if_refuted(propensities, clicks)
        return propensities
    changes = some(f"{propensities.values[at]:.3g} to {least[at]:.3g}" for at in refuted)
    if envelope == "raise" and propensities.method is None:
        raised = propensities.raised_to(bound)
        warn(
            CldrankWarning(
                "the clicks refute these propensities ({}): results clicked at {} are clicked again too often. They "
                "were raised to the lower bound that this proves ({}): {}. If results at low positions are better than "
                "those at the top, set {}; better than assuming a curve is to estimate one, see {}.",
                propensities.origin,
                positions(told),
                _BOUND,
                changes,
                setting("envelope", "off"),
                _COMPARE,
            )
        )
        warn_if_refuted(raised, clicks)
        return raised
    warn(
        CldrankWarning(
            "the clicks refute these propensities ({}): results clicked at {} are clicked again too often. The lower "
            "bound that this proves is higher ({}): {}. Clicks there would count too much; see {}, and {} for how to "
            "raise a curve.",
            propensities.origin,
            positions(told),
            _BOUND,
            changes,
            _COMPARE,
            Spelling("Propensities.raised_to", "--envelope raise"),
        )
    )
    warn_if_refuted(propensities, clicks, told)
    return propensities


def _bound(clicks: ClickTable, size: int) -> Propensities | None:
    """The bound of as many positions from the top as have one."""
    depth = min(clicks.depth, size, DEEPEST)
    while depth >= 2:
        try:
            return Envelope(confidence=_SURE, depth=depth).fit(clicks)
        except UnidentifiableError as refusal:
            depth = min(refusal.depth, depth - 1)
    return None
