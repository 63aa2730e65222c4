"""Whether clicks refute a curve: no result can be clicked more often than its position is examined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, Spelling, warn
from cldrank.propensity.checks.refusal import phrase
from cldrank.propensity.propensities import Propensities

Floats = NDArray[np.float64]

REFUTED = "the clicks refute this curve"
CHANCE = 1e-4  # that clicks refute a true curve, at any position
_MOST = 3  # positions in a warning
_HALVINGS = 30


@dataclass(frozen=True)
class Refutation:
    """A position that was clicked more often than its propensity allows, beyond chance.

    propensity    the share of impressions that would be examined, at most
    rate          the share that was clicked: of all impressions, or of those of the candidate clicked most beyond it
    impressions   how many those are
    candidates    how many candidates exceed it, each by itself; 0 where only all together do
    """

    position: int
    propensity: float
    rate: float
    impressions: int
    candidates: int

    def __str__(self) -> str:
        examined = f"where at most {self.propensity:.3g} would be examined"
        if not self.candidates:
            return f"at position {self.position} the click-through rate is {self.rate:.3g} {examined}"
        others = f", and {self.candidates - 1} more exceed it" if self.candidates > 1 else ""
        return (
            f"at position {self.position}, a candidate has a click-through rate of {self.rate:.3g} in "
            f"{self.impressions:,} impressions {examined}{others}"
        )


def refutations(propensities: Propensities, clicks: ClickTable) -> tuple[Refutation, ...]:
    """The positions whose clicks refute their propensities, in order.

    An impression is clicked with a probability of at most rho_k, since rho_1 is at most 1 and nothing is more than
    relevant. So c clicks in n impressions, at a rate r above rho, have a chance of at most

        exp(-n (r log(r / rho) + (1 - r) log((1 - r) / (1 - rho))))        (Chernoff)

    which is tested for every candidate at every position, and for every position as a whole; the chance that any of
    these tests refutes a true curve is below 1 in 10,000. For an estimate, rho is the upper end of its interval. Tables
    that count every click are not tested: there an impression may have several. Nor is a lower bound of a curve.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 2, [0] * 2)
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 4], impressions=[500, 500], clicks=[250, 200])
    >>> print(refutations(Propensities.power(1, 4), clicks)[0])
    at position 4 the click-through rate is 0.4 where at most 0.25 would be examined
    """
    if clicks.every_click or not clicks.n_cells or propensities.bound:
        return ()
    size = min(clicks.depth, len(propensities))
    bound = np.minimum(propensities.values if propensities.high is None else propensities.high, 1.0)[:size]
    used = (clicks.impressions > 0) & (clicks.position <= size)
    place, n, c = clicks.position[used] - 1, clicks.impressions[used].astype(float), clicks.clicks[used].astype(float)
    shown, clicked = (np.bincount(place, part, size).astype(np.float64) for part in (n, c))
    limit = np.log((len(n) + size) / CHANCE)
    alone = _evidence(n, c, bound[place]) - limit
    whole = _evidence(shown, clicked, bound) - limit
    found = []
    for at in np.unique(np.concatenate([np.flatnonzero(whole > 0), place[alone > 0]])):
        own = np.flatnonzero((place == at) & (alone > 0))
        if whole[at] > 0:
            rate, seen, count = clicked[at] / shown[at], shown[at], 0
        else:
            worst = own[alone[own].argmax()]
            rate, seen, count = c[worst] / n[worst], n[worst], len(own)
        found.append(Refutation(int(at) + 1, float(bound[at]), float(rate), int(seen), count))
    return tuple(found)


def least_unrefuted(clicks: ClickTable, size: int) -> Floats:
    """(size,) the smallest propensities that the clicks do not refute, see `refutations`; 0 where there are no clicks.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 2, [0] * 2)
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 4], impressions=[500, 500], clicks=[250, 200])
    >>> least_unrefuted(clicks, 4).round(3)
    array([0.396, 0.   , 0.   , 0.301])
    """
    low, high = np.zeros(size), np.zeros(size)
    if clicks.every_click or not clicks.n_cells:
        return low
    used = (clicks.impressions > 0) & (clicks.position <= size)
    place, n, c = clicks.position[used] - 1, clicks.impressions[used].astype(float), clicks.clicks[used].astype(float)
    limit = np.log((len(n) + min(clicks.depth, size)) / CHANCE)
    shown, clicked = (np.bincount(place, part, size).astype(np.float64) for part in (n, c))
    tests = [np.concatenate(parts) for parts in ((place, np.arange(size)), (n, shown), (c, clicked))]
    place, n, c = (part[tests[2] > 0] for part in tests)
    np.maximum.at(high, place, c / n)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuting = _evidence(n, c, middle[place]) > limit
        refuted = np.bincount(place[refuting], minlength=size) > 0
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
        kept = refuting | ~refuted[place]  # what does not refute this does not refute more either
        place, n, c = place[kept], n[kept], c[kept]
    return high


def warn_if_refuted(propensities: Propensities, clicks: ClickTable) -> None:
    """Warn where clicks refute the propensities that they are about to be divided by."""
    found = refutations(propensities, clicks)
    if not found:
        return
    advice: str | Spelling = Spelling(
        "estimate propensities from this log (`cldrank.propensity.compare_estimators`), or assume a flatter curve",
        "estimate propensities from this log (`cldrank propensity compare`), or assume a flatter curve",
    )
    if propensities.method is not None:
        advice = phrase(
            "trust in high positions may be behind it (see {}), or results that stood out",
            Spelling("TrustBias", "--method trust-bias"),
        )
    warn(
        CldrankWarning(
            "the clicks refute these propensities ({}): {}. Clicks there would count too much; {}.",
            propensities.origin,
            _first(found),
            advice,
        )
    )


def with_refutation(propensities: Propensities, clicks: ClickTable) -> Propensities:
    """The same, with a note where clicks refute them."""
    found = refutations(propensities, clicks)
    if not found:
        return propensities
    return replace(propensities, notes=(*propensities.notes, f"{REFUTED}: {_first(found)}"))


def _first(found: Sequence[Refutation]) -> str:
    first = "; ".join(str(entry) for entry in found[:_MOST])
    return first + (f"; and {len(found) - _MOST} more positions" if len(found) > _MOST else "")


def _evidence(n: Floats, c: Floats, rho: Floats) -> Floats:
    """-log of the bound on the chance of this many clicks; 0 where there are no more than expected."""
    rate = c / np.maximum(n, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(rate < 1, (1 - rate) * np.log((1 - rate) / (1 - rho)), 0.0)
        found = n * (rate * np.log(rate / rho) + missed)
    return np.where(rate > rho, found, 0.0)
