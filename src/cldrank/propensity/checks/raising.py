"""A curve held to the lower bound that the clicks themselves give: raised to it, or warned of."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, Spelling, UnidentifiableError, setting, warn
from cldrank.propensity.checks.refuted import least_unrefuted, warn_if_refuted
from cldrank.propensity.counts import DEEPEST
from cldrank.propensity.envelope import Envelope
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import SegmentPropensities
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
               is only warned of, if its interval lies below. "warn": so is an assumed one. "off": only what
               `warn_if_refuted` finds is warned of
    """
    if envelope == "off":
        warn_if_refuted(propensities, clicks)
        return propensities
    bound = proven_bound(clicks, len(propensities))
    refuted = propensities.refuted_by(bound)
    if not refuted:
        return propensities
    bounded, assumed = propensities.raised_to(bound), propensities.method is None
    raised = envelope == "raise" and assumed
    warn(
        CldrankWarning(
            "the clicks refute these propensities ({}): results at {} are clicked too often for them. The clicks give "
            "a lower bound that is higher: {}. {}. Or estimate them, see {}.",
            propensities.origin,
            positions(refuted),
            some(
                (f"{bounded.values[at - 1]:.3g} instead of {propensities.values[at - 1]:.3g}" for at in refuted),
                most=4,
            ),
            _RAISED if raised else _RAISE if assumed else _TRUST,
            _COMPARE,
        )
    )
    return bounded if raised else propensities


def segments_held_to_clicks(
    curves: SegmentPropensities, clicks: ClickTable, envelope: EnvelopeUse = "raise"
) -> SegmentPropensities:
    """`held_to_clicks` of each segment, by the clicks of its own; a segment without any keeps its curve."""
    parts = clicks.by_segment()
    return curves.mapped(lambda name, rho: held_to_clicks(rho, parts[name], envelope) if name in parts else rho)


def proven_bound(clicks: ClickTable, size: int) -> Propensities:
    """The lower bound of `Envelope` at 99% confidence, or, where it is higher, what no single result refutes.

    Positions below the last that `Envelope` can bound have the second alone.
    """
    single = np.maximum(least_unrefuted(clicks, size), _NOTHING)
    single[0] = 1.0
    ends: dict[str, Any] = {"values": single, "low": single, "high": single}
    found = _enveloped(clicks, min(clicks.depth, size, DEEPEST))
    if found is not None:
        for name in ends:
            own = np.pad(getattr(found, name), (0, size - len(found)), constant_values=_NOTHING)
            ends[name] = np.maximum(own, single)
    return Propensities(**ends, origin="what the clicks prove", method="Envelope", bound=True, confidence=_SURE)


def _enveloped(clicks: ClickTable, depth: int) -> Propensities | None:
    """The bound of as many positions from the top as have one."""
    while depth >= 2:
        try:
            return Envelope(confidence=_SURE, depth=depth).fit(clicks)
        except UnidentifiableError as refusal:
            depth = min(refusal.depth, depth - 1)
    return None
