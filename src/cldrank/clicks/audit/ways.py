"""Which comparisons of positions a log supports, and how precise they would be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cldrank.clicks.audit.overlap import COMPARISONS, Order, Overlap, Precision
from cldrank.clicks.audit.positions import Position
from cldrank.clicks.units import FEWEST_CLICKED
from cldrank.errors import Spelling
from cldrank.wording import positions

USABLE = 0.25  # an interval of ± this much, relative to the propensity, is still useful
REFUSED = 0.5  # a standard error of a log propensity above which the estimators refuse
Z90 = 1.644854  # 90% of a normal distribution lie within this many standard deviations


@dataclass(frozen=True)
class PropensityWay:
    """A way of estimating propensities by comparing positions, and whether this log supports it.

    name        of the estimator in `cldrank.propensity`
    error       the standard error of the log propensity at the position where it is largest; None: unknown or infinite
    usable_to   the lowest position down to which intervals are within ±25%, at 90% confidence
    """

    name: str
    possible: bool
    reason: str
    error: float | None = None
    usable_to: int | None = None

    @property
    def within(self) -> float | None:
        """How far the least certain propensity may be off, relatively, at the 90% confidence of an estimate.

        >>> round(PropensityWay("AllPairs", True, "", error=0.1).within, 3)
        0.179
        """
        return None if self.error is None else math.expm1(Z90 * self.error)

    @property
    def spelling(self) -> Spelling:
        """The name in Python and on the command line.

        >>> PropensityWay("AllPairs", True, "").spelling.shell
        'all-pairs'
        """
        dashed = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in self.name)
        return Spelling(self.name, dashed.removeprefix("-"))


def ways(
    curve: Sequence[Position],
    order: Order,
    overlap: Overlap,
    precision: Sequence[Precision],
    clicked: Sequence[int] | None,
    every_click: bool = False,
) -> tuple[PropensityWay, ...]:
    """Judge each comparison, the best founded first, and last the bound that needs none.

    clicked       how many candidates were clicked at each position; None where every click counts
    every_click   whether some impressions count several clicks
    """
    missing = next((at for at, entry in enumerate(curve, start=1) if entry.position != at), None)
    if len(curve) < 2 or missing is not None:
        reason = (
            "only one position was shown, so there is nothing to compare"
            if len(curve) < 2
            else f"position {missing} was never shown, so nothing leads from the first to those below it"
        )
        names = [*map(_class_name, COMPARISONS), "Envelope"]
        return tuple(PropensityWay(name, False, reason) for name in names)
    unknown = {name: [entry.position for entry in precision if getattr(entry, name) is None] for name in COMPARISONS}
    reasons = {
        "randomised": (order.looks == "random", _order_reason(order)),
        "all_pairs": (
            not unknown["all_pairs"] and not every_click,
            _pairs_reason(overlap, unknown["all_pairs"], every_click),
        ),
        "adjacent_chain": (not unknown["adjacent_chain"], _chain_reason(unknown["adjacent_chain"])),
        "pivot": (not unknown["pivot"], _pivot_reason(unknown["pivot"])),
    }
    bound = PropensityWay("Envelope", *_bound_reason(clicked))
    return (*(_judged(name, *reasons[name], precision) for name in COMPARISONS), bound)


def _judged(comparison: str, possible: bool, reason: str, precision: Sequence[Precision]) -> PropensityWay:
    name, errors = _class_name(comparison), [getattr(entry, comparison) for entry in precision]
    usable = None
    for entry, value in zip(precision, errors, strict=True):
        if value is None or math.expm1(Z90 * value) > USABLE:
            break
        usable = entry.position
    known = [value for value in errors if value is not None]
    if not possible or len(known) < len(errors):
        return PropensityWay(name, False, reason, usable_to=usable if len(known) < len(errors) else None)
    worst = max(known)
    if worst > REFUSED:
        at = precision[errors.index(worst)].position
        reason = (
            f"the log propensity of position {at} has a standard error of {worst:.2f}; above {REFUSED}, it is refused"
        )
        return PropensityWay(name, False, reason, usable_to=usable)
    return PropensityWay(name, True, reason, worst, usable)


def _class_name(comparison: str) -> str:
    """The estimator that makes a comparison.

    >>> _class_name("adjacent_chain")
    'AdjacentChain'
    """
    return comparison.title().replace("_", "")


def _order_reason(order: Order) -> str:
    match order.looks:
        case "random":
            return f"the display order looks random (strength {order.strength:.3f}; 0 is random, 1 is fixed)"
        case "unknown":
            return "too few candidates were shown often enough to see whether the display order is random"
        case _:
            return f"the display order is not random (strength {order.strength:.2f}; 0 is random, 1 is fixed)"


def _pairs_reason(overlap: Overlap, unconnected: Sequence[int], every_click: bool) -> str:
    common = f"{overlap.pairs:,} of {overlap.possible_pairs:,} pairs of positions have candidates in common"
    if every_click:
        return "it treats an impression as clicked or not, but here some have several clicks"
    if unconnected:
        return f"{common}; too few clicks on these connect {positions(unconnected)} with position 1"
    return f"{common}, and they connect all positions"


def _chain_reason(broken: Sequence[int]) -> str:
    if broken:
        return f"the chain from position 1 down breaks at position {broken[0]}"
    return "every position has clicked candidates in common with the one above"


def _pivot_reason(lacking: Sequence[int]) -> str:
    if lacking:
        return f"{positions(lacking)} {'has' if len(lacking) == 1 else 'have'} too few in common with position 1"
    return "every position has clicked candidates in common with position 1"


def _bound_reason(clicked: Sequence[int] | None) -> tuple[bool, str]:
    if clicked is None:
        return False, "it counts who clicked what others clicked, but here every click counts, also of one person"
    few = [at for at, candidates in enumerate(clicked, start=1) if candidates < FEWEST_CLICKED]
    if few:
        return False, f"fewer than {FEWEST_CLICKED} candidates were clicked at {positions(few)}"
    return True, (
        "a lower bound of the curve, if results at low positions are no more relevant than those at the first; it is "
        "nearer to the curve where results are clicked again and again"
    )
