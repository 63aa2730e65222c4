"""Whether clicks refute a curve: results clicked too often for it, or results shown at several positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from cldrank._typing import Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, DataError, warn
from cldrank.propensity.cells import MOST_COMPARED, Cells
from cldrank.propensity.envelope import Envelope
from cldrank.propensity.estimator import check_attraction, comparing_estimators
from cldrank.propensity.identifiability import USABLE
from cldrank.propensity.propensities import MISFIT, Propensities
from cldrank.propensity.segment_propensities import SegmentPropensities
from cldrank.wording import positions, some

EnvelopeUse = Literal["raise", "warn", "off"]
Held = TypeVar("Held", Propensities, SegmentPropensities, Propensities | SegmentPropensities)

_CHANCE = 1e-4  # that clicks refute a true curve, at any position
_HALVINGS = 30
_NOTHING = 1e-9  # a bound without effect
_SURE = 0.99  # confidence of the bound, so that chance seldom raises a true curve
_OWN_CHANCE = 1e-3  # that a log's own pages refute a true curve, at any position
_OWN_DEPTH = 20  # positions that are compared with the log's own pages
_MOST = 3  # positions in a message


# -- what clicks prove ---------------------------------------------------------------------------------------------


def held_to_clicks(propensities: Held, clicks: ClickTable, envelope: EnvelopeUse = "raise") -> Held:
    """The propensities that clicks are about to be divided by, checked against these clicks; warns of a refutation.

    envelope   "raise": an assumed curve is raised to `proven_bound` where it lies significantly below; one that is
               refuted at half of the positions or more is not used where the bound is loose (`_midway`). Otherwise, and
               for estimates, there is only a warning. "off": only single results are checked

    Curves of segments are held to the clicks of their own; a segment without any keeps its curve.
    """
    if isinstance(propensities, SegmentPropensities):
        parts = clicks.by_segment()
        return propensities.mapped(
            lambda name, rho: held_to_clicks(rho, parts[name], envelope) if name in parts else rho
        )
    bound = proven_bound(clicks, len(propensities), envelope=envelope != "off")
    below = () if propensities.bound else propensities.refuted_by(bound)
    if not below:
        return propensities
    raised, assumed = propensities.raised_to(bound), propensities.method is None
    pairs = ((raised.values[at - 1], propensities.values[at - 1]) for at in below)
    higher = some((f"{least:.3g} instead of {value:.3g}" for least, value in pairs), most=4)
    if not assumed:
        advice = "Trust in high positions may be behind it, see trust-bias"
    elif envelope == "raise":
        midway = _midway(raised, bound, below, clicks)
        used = "They were raised to it" if midway is None else "It is loose; what is used lies midway to no bias"
        advice = f"{used}; `envelope=off` keeps them, for rankers whose results are better further down"
        raised = midway or raised
    else:
        advice = "`envelope=raise` raises them" if envelope == "warn" else "Assume a flatter curve"
    warn(
        CldrankWarning(
            f"the clicks refute these propensities ({propensities.origin}): results at {positions(below)} are clicked "
            f"too often for them. The clicks give a lower bound that is higher: {higher}. {advice}. Or estimate them "
            "from this log."
        )
    )
    return raised if assumed and envelope == "raise" else propensities


def _midway(
    raised: Propensities, bound: Propensities, below: tuple[int, ...], clicks: ClickTable
) -> Propensities | None:
    """In place of a curve refuted nearly everywhere, √ρ of the bound ρ where that rests on click-through rates alone.

    Few sessions prove little: the true curve is then between the bound and 1, and a curve that is too steep costs more
    than one that is too flat. Where results were clicked again and again, the bound is near the curve, and stays.
    """
    depth = min(clicks.depth, len(raised))
    rates = Envelope(others=0, confidence=_SURE, depth=depth).fit_upper(clicks) if 2 * len(below) >= depth - 1 else None
    if rates is None:
        return None
    values = raised.values.copy()
    loose = np.flatnonzero(np.isclose(bound.values[: len(rates)], rates.values))
    values[loose] = np.sqrt(bound.values[loose])
    if not len(loose[1:]):
        return None
    origin = f"midway between what the clicks prove and no position bias, as they refute {raised.origin}"
    return replace(raised, values=values, origin=origin, raised=tuple(range(2, len(values) + 1)))


def proven_bound(clicks: ClickTable, size: int, *, envelope: bool = True) -> Propensities:
    """The lower bound of `Envelope` at 99% confidence, or, where it is higher, what no single result refutes.

    Positions below the last that `Envelope` can bound have the second alone; so have all without `envelope`.
    """
    single = np.maximum(least_unrefuted(clicks, size), _NOTHING)
    single[0] = 1.0
    ends: dict[str, Any] = dict.fromkeys(("values", "low", "high"), single)
    depth = min(clicks.depth, size, MOST_COMPARED) if envelope else 0
    bound = Envelope(confidence=_SURE, depth=depth).fit_upper(clicks) if depth > 1 else None
    if bound is not None:
        lengths = (0, size - len(bound))
        ends = {
            name: np.maximum(np.pad(getattr(bound, name), lengths, constant_values=_NOTHING), single) for name in ends
        }
    return Propensities(**ends, origin="what the clicks prove", method="Envelope", bound=True, confidence=_SURE)


def least_unrefuted(clicks: ClickTable, size: int) -> Floats:
    """(size,) the smallest propensities that no single result, and no position as a whole, refutes; 0 without clicks.

    An impression is clicked with a probability of at most rho_k, so that c clicks in n impressions, at a rate r above
    rho, have a chance of at most

        exp(-n (r log(r / rho) + (1 - r) log((1 - r) / (1 - rho))))        (Chernoff)

    This is tested for every candidate at every position and for every position as a whole; any of these tests refutes a
    true curve less than once in 10,000 logs.
    """
    low, high = np.zeros(size), np.zeros(size)
    if not clicks.n_cells:
        return low
    used = (clicks.impressions > 0) & (clicks.position <= size)
    place, n, c = clicks.position[used] - 1, clicks.impressions[used].astype(float), clicks.clicks[used].astype(float)
    limit = np.log((len(n) + min(clicks.depth, size)) / _CHANCE)
    n, c = (np.append(part, np.bincount(place, part, size)) for part in (n, c))
    place = np.append(place, np.arange(size))
    place, n, c = place[c > 0], n[c > 0], c[c > 0]
    np.maximum.at(high, place, c / n)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuting = _evidence(n, c, middle[place]) > limit
        too_low = np.bincount(place[refuting], minlength=size) > 0
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
        kept = refuting | ~too_low[place]  # what does not refute this does not refute more either
        place, n, c = place[kept], n[kept], c[kept]
    return high


def _evidence(n: Floats, c: Floats, rho: Floats) -> Floats:
    """-log of the bound on the chance of this many clicks; 0 where there are no more than expected."""
    rate = c / np.maximum(n, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(rate < 1, (1 - rate) * np.log((1 - rate) / (1 - rho)), 0.0)
        return np.where(rate > rho, n * (rate * np.log(rate / rho) + missed), 0.0)


# -- the log's own pages -------------------------------------------------------------------------------------------


def check_own_pages(propensities: Propensities | SegmentPropensities, clicks: ClickTable) -> None:
    """Refuse a curve that the log's own pages contradict, unless it is `trusted`.

    The curve is refuted where it differs from `own_curve` by more than 25%, and by more than chance would bring about
    at any position once in 1,000 logs; positions that were clipped or raised on purpose are left out. Where the
    position-based model does not fit the log, there is only a warning.
    """
    if isinstance(propensities, SegmentPropensities):
        for name, table in clicks.by_segment().items():
            if name in propensities:
                check_own_pages(propensities[name], table)
        return
    named = None if propensities.is_trusted or propensities.bound else own_curve(clicks, len(propensities))
    if named is None:
        return
    name, own = named
    differing = _differing(propensities, own)
    if not len(differing):
        return
    errors = np.zeros(len(own)) if own.errors is None else own.values * own.errors
    differences = "; ".join(
        f"position {at + 1}: {propensities.values[at]:.2f} supplied, {own.values[at]:.2f} ± {errors[at]:.2f} on this "
        "log's own pages"
        for at in differing[:_MOST]
    )
    message = (
        f"this log refutes the propensities ({propensities.origin}). {differences} ({name}). Estimate propensities "
        "from this log, or insist on these with `trust_propensity` (in Python, `propensities.trusted()`)."
    )
    fit = None if own.goodness is None else own.goodness.p_value
    p_values = fit, check_attraction(Cells.of(clicks, len(own), 0), own.values)
    if all(p_value is None or p_value >= MISFIT for p_value in p_values):
        raise DataError(message)
    warn(CldrankWarning(message))


def _differing(supplied: Propensities, own: Propensities) -> IntArray:
    """The places, from 0, at which a curve differs from that of a log's own pages, materially and beyond chance."""
    from scipy.special import ndtri

    size = len(own)
    mine, theirs = (np.zeros(size) if rho.errors is None else rho.errors[:size] for rho in (own, supplied))
    difference = np.abs(np.log(supplied.values[:size]) - np.log(own.values))
    limit = -float(ndtri(_OWN_CHANCE / (2 * (size - 1))))
    beyond = (difference > limit * np.hypot(mine, theirs)) & (difference > np.log1p(USABLE))
    beyond[[at - 1 for at in (1, *supplied.clipped, *supplied.raised) if at <= size]] = False
    return np.flatnonzero(beyond)


_own_curves: WeakKeyDictionary[ClickTable, dict[int, tuple[str, Propensities] | None]] = WeakKeyDictionary()


def own_curve(clicks: ClickTable, depth: int) -> tuple[str, Propensities] | None:
    """The best founded estimator that applies, with its curve of the first positions; None where none does.

    Estimates are remembered for each table, to which several models may be fitted.
    """
    known, depth = _own_curves.setdefault(clicks, {}), min(depth, clicks.depth, _OWN_DEPTH)
    if depth not in known:
        known[depth] = None
        shown_twice = depth > 1 and (np.bincount(clicks.segment_row) > 1).any()
        for kind in comparing_estimators() if shown_twice else ():
            curve = kind(depth=depth).fit_upper(clicks)
            if curve is not None:
                known[depth] = kind.name, curve
                break
    return known[depth]
