"""Which ways of estimating propensities a log supports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cldrank.clicks.audit.overlap import Order, Overlap, Precision
from cldrank.clicks.audit.positions import Position

USABLE = 0.2  # a standard error of a log propensity up to which it is worth having


@dataclass(frozen=True)
class Method:
    """A way of estimating propensities (a class of `cldrank.propensity`), and whether this log supports it.

    error     the standard error of the log propensity at the position where it is largest; None: unknown or infinite
    usable_to the lowest position down to which the error stays below 0.2
    """

    name: str
    possible: bool
    reason: str
    error: float | None = None
    usable_to: int | None = None


def methods(
    curve: Sequence[Position], order: Order, overlap: Overlap, precision: Sequence[Precision]
) -> tuple[Method, ...]:
    """Judge each method, the best founded first."""
    if len(curve) < 2:
        reason = "only one position was shown, so there is nothing to compare"
        return tuple(Method(name, False, reason) for name in ("Randomised", "Pivot", "AdjacentChain", "AllPairs"))
    top = curve[0].position
    links = {entry.position for entry in precision if entry.pivot is not None}
    lacking = [entry.position for entry in precision if entry.position not in links]
    broken = [entry.position for entry in precision if entry.adjacent_chain is None]
    connected = len(overlap.components) == 1
    weak = [entry.position for entry in precision if entry.all_pairs is None]
    found = [
        _judged("Randomised", order.looks == "random", _order_reason(order), precision, lambda p: p.randomised),
        _judged(
            "AllPairs",
            connected and not weak,
            f"{overlap.pairs:,} of {overlap.possible_pairs:,} pairs of positions have candidates in common"
            + (
                ", and they connect all positions"
                if connected and not weak
                else f"; {_listed(weak)} cannot be connected with position {top} by clicks on common candidates"
            ),
            precision,
            lambda p: p.all_pairs,
        ),
        _judged(
            "AdjacentChain",
            not broken,
            "every position has clicked candidates in common with the one above"
            if not broken
            else f"the chain from position {top} down breaks at position {broken[0]}",
            precision,
            lambda p: p.adjacent_chain,
        ),
        _judged(
            "Pivot",
            not lacking,
            f"every position has clicked candidates in common with position {top}"
            if not lacking
            else f"{_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} none in common with position {top}",
            precision,
            lambda p: p.pivot,
        ),
    ]
    model = (
        "needs no overlap, but the truth of its model of relevance: it separates position from relevance by features"
    )
    found += [Method("RegressionEM", True, model), Method("DualLearning", True, model)]
    found.append(Method("Propensities.power", True, "an assumed curve; nothing in the log supports or refutes it"))
    return tuple(found)


def _judged(
    name: str,
    possible: bool,
    reason: str,
    precision: Sequence[Precision],
    error: Callable[[Precision], float | None],
) -> Method:
    errors = [error(entry) for entry in precision]
    known = [value for value in errors if value is not None]
    usable = None
    for entry, value in zip(precision, errors, strict=True):
        if value is None or value > USABLE:
            break
        usable = entry.position
    worst = max(known) if possible and len(known) == len(errors) else None
    return Method(name, possible, reason, worst, usable if possible else None)


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
