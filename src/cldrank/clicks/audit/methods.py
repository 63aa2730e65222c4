"""Which ways of estimating propensities a log supports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cldrank.clicks.audit.overlap import Order, Overlap, Precision
from cldrank.clicks.audit.positions import Position

USABLE = 0.25  # an interval of ± so much, relative to the propensity, is still worth having
REFUSED = 0.5  # a standard error of a log propensity above which the estimators refuse
Z90 = 1.644854  # of a normal distribution, 90% lie within so many standard deviations


@dataclass(frozen=True)
class Method:
    """A way of estimating propensities (a class of `cldrank.propensity`), and whether this log supports it.

    error     the standard error of the log propensity at the position where it is largest; None: unknown or infinite
    usable_to the lowest position down to which intervals are within ±25%, at 90% confidence
    """

    name: str
    possible: bool
    reason: str
    error: float | None = None
    usable_to: int | None = None

    @property
    def within(self) -> float | None:
        """How far the least certain propensity may be off, relatively, at the 90% confidence of an estimate.

        >>> round(Method("AllPairs", True, "", error=0.1).within, 3)
        0.179
        """
        return None if self.error is None else math.expm1(Z90 * self.error)


def methods(
    curve: Sequence[Position],
    order: Order,
    overlap: Overlap,
    precision: Sequence[Precision],
    every_click: bool = False,
) -> tuple[Method, ...]:
    """Judge each method, the best founded first; `every_click`: some impressions count several clicks."""
    model = (
        "needs no overlap, but the truth of its model of relevance: it separates position from relevance by features"
    )
    assuming = (
        Method("RegressionEM", True, model),
        Method("DualLearning", True, model),
        Method("Propensities.power", True, "an assumed curve; a fit warns where the clicks refute it"),
    )
    compared = ("Randomised", "AllPairs", "AdjacentChain", "Pivot")
    if len(curve) < 2:
        reason = "only one position was shown, so there is nothing to compare"
        return tuple(Method(name, False, reason) for name in compared)
    missing = next((at for at, entry in enumerate(curve, start=1) if entry.position != at), None)
    if missing is not None:
        reason = f"position {missing} was never shown, so nothing leads from the first to those below it"
        return (*(Method(name, False, reason) for name in compared), *assuming)
    weak, broken, lacking = (
        [entry.position for entry in precision if getattr(entry, name) is None]
        for name in ("all_pairs", "adjacent_chain", "pivot")
    )
    common = f"{overlap.pairs:,} of {overlap.possible_pairs:,} pairs of positions have candidates in common"
    if every_click:
        pairs = "it takes an impression as clicked or not, and here some count several clicks"
    elif weak:
        pairs = f"{common}; too few clicks on such connect {_listed(weak)} with position 1"
    else:
        pairs = f"{common}, and they connect all positions"
    chain = "every position has clicked candidates in common with the one above"
    direct = "every position has clicked candidates in common with position 1"
    return (
        _judged("Randomised", order.looks == "random", _order_reason(order), precision, lambda p: p.randomised),
        _judged("AllPairs", not weak and not every_click, pairs, precision, lambda p: p.all_pairs),
        _judged(
            "AdjacentChain",
            not broken,
            f"the chain from position 1 down breaks at position {broken[0]}" if broken else chain,
            precision,
            lambda p: p.adjacent_chain,
        ),
        _judged(
            "Pivot",
            not lacking,
            f"{_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} too few in common with position 1"
            if lacking
            else direct,
            precision,
            lambda p: p.pivot,
        ),
        *assuming,
    )


def _judged(
    name: str,
    possible: bool,
    reason: str,
    precision: Sequence[Precision],
    error: Callable[[Precision], float | None],
) -> Method:
    errors = [error(entry) for entry in precision]
    usable = None
    for entry, value in zip(precision, errors, strict=True):
        if value is None or math.expm1(Z90 * value) > USABLE:
            break
        usable = entry.position
    known = [value for value in errors if value is not None]
    if not possible or len(known) < len(errors):
        return Method(name, False, reason, usable_to=usable if len(known) < len(errors) else None)
    worst = max(known)
    if worst > REFUSED:
        at = precision[errors.index(worst)].position
        reason = (
            f"the log propensity of position {at} has a standard error of {worst:.2f}; above {REFUSED}, it is refused"
        )
        return Method(name, False, reason, usable_to=usable)
    return Method(name, True, reason, worst, usable)


def _order_reason(order: Order) -> str:
    match order.looks:
        case "random":
            return f"the display order looks random (strength {order.strength:.3f}; 0 is random, 1 is fixed)"
        case "unknown":
            return "too few candidates were shown often enough to tell whether the display order is random"
        case _:
            return f"the display order is not random (strength {order.strength:.2f}; 0 is random, 1 is fixed)"


def _listed(positions: Sequence[int]) -> str:
    """Positions in words.

    >>> _listed([4]), _listed([4, 5, 6, 9])
    ('position 4', 'positions 4, 5, 6 and 1 more')
    """
    if len(positions) == 1:
        return f"position {positions[0]}"
    shown = ", ".join(map(str, positions[:3]))
    return f"positions {shown}" + (f" and {len(positions) - 3} more" if len(positions) > 3 else "")
