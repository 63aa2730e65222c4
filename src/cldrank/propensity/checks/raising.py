"""A curve held to the lower bound that the clicks themselves give: raised to it, or warned of."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, Spelling, UnidentifiableError, setting, warn
from cldrank.propensity.checks.refuted import least_unrefuted, warn_if_refuted
from cldrank.propensity.counts import DEEPEST
from cldrank.propensity.envelope import Envelope
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions, some

EnvelopeUse = Literal["raise", "warn", "off"]

_NOTHING = 1e-9  # a bound that bounds nothing
_SURE = 0.99  # confidence of the bound, so that chance seldom raises a true curve
_RAISED = Spelling(
    *(
        f"They were raised to it; {off} keeps them, for rankers whose results are better further down"
        for off in setting("envelope", "off")
    )
)
_RAISE = Spelling("Propensities.raised_to raises them", "--envelope raise raises them")
_TRUST = Spelling(
    *(f"Trust in high positions may be behind it, see {name}" for name in ("TrustBias", "--method trust-bias"))
)
_COMPARE = Spelling("cldrank.propensity.compare_estimators", "`cldrank propensity compare`")


def held_to_clicks(propensities: Propensities, clicks: ClickTable, envelope: EnvelopeUse = "raise") -> Propensities:
    """The propensities that clicks are about to be divided by, checked; whatever is found is warned of.

    envelope   "raise": an assumed curve is raised to `proven_bound` where it lies significantly below; an estimated one
               is only warned of, if its interval lies below. "warn": so is an assumed one. "off": neither

    Without a bound, `warn_if_refuted` is all that is done.
    """
    bound = None if envelope == "off" or propensities.bound else proven_bound(clicks, len(propensities))
    if bound is None:
        warn_if_refuted(propensities, clicks)
        return propensities
    refuted = propensities.refuted_by(bound)
    if not refuted:
        return propensities
    assumed = propensities.method is None
    raised = envelope == "raise" and assumed
    warn(
        CldrankWarning(
            "the clicks refute these propensities ({}): results at {} are clicked too often for them. The clicks give "
            "a lower bound that is higher: {}. {}. Or estimate them, see {}.",
            propensities.origin,
            positions(refuted),
            some(
                (
                    f"{min(bound.values[at - 1], 1.0):.3g} instead of {propensities.values[at - 1]:.3g}"
                    for at in refuted
                ),
                most=4,
            ),
            _RAISED if raised else _RAISE if assumed else _TRUST,
            _COMPARE,
        )
    )
    return propensities.raised_to(bound) if raised else propensities


def proven_bound(clicks: ClickTable, size: int) -> Propensities | None:
    """The lower bound of `Envelope` at 99% confidence, or, if it is higher, what no single result refutes.

    Positions below the last that `Envelope` can bound have the second alone. None where clicks are too few to bound
    two positions.
    """
    depth = min(clicks.depth, size, DEEPEST)
    while depth >= 2:
        try:
            found = Envelope(confidence=_SURE, depth=depth).fit(clicks)
        except UnidentifiableError as refusal:
            depth = min(refusal.depth, depth - 1)
            continue
        low, values, high = (np.full(size, _NOTHING) for _ in range(3))
        for end, own in ((low, found.low), (values, found.values), (high, found.high)):
            end[:depth] = own
        single = least_unrefuted(clicks, size)
        single[0] = 1.0
        low, values, high = (np.maximum(end, single) for end in (low, values, high))
        return replace(found, values=values, low=low, high=high, covariance=None, comparisons=None, replicates=None)
    return None
