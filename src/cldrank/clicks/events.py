"""Events beside clicks: carts, purchases or whatever else a log names, and what each is worth."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from cldrank._typing import Floats, IntArray
from cldrank.arguments import check_number
from cldrank.errors import UsageError
from cldrank.wording import listed

CLICK = "click"
_PREFIX = "event_"  # of the columns that count events, in plain logs and in files of cells
_WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)


def event_column(event: str) -> str:
    """The column that counts an event.

    >>> event_column("purchase"), events_among(["position", "event_purchase"])
    ('event_purchase', ['purchase'])
    """
    return f"{_PREFIX}{event}"


def events_among(columns: Collection[str]) -> list[str]:
    """The events that columns count."""
    return [column.removeprefix(_PREFIX) for column in columns if column.startswith(_PREFIX)]


def is_event(name: Any) -> bool:
    """Whether a column can count an event of this name."""
    return isinstance(name, str) and bool(_WORD.fullmatch(name))


def checked_weights(weights: Any, known: Collection[str] | None = None) -> dict[str, float]:
    """What each event is worth; refused where an event has no sensible name, no sensible weight, or was not counted.

    known   the events that were counted, beside clicks; None: all may be

    >>> checked_weights({"click": 1, "purchase": 10})
    {'click': 1.0, 'purchase': 10.0}
    """
    if not isinstance(weights, Mapping):
        raise UsageError('`event_weights` must name events and what each is worth: {"click": 1, "purchase": 10}.')
    checked = {name: check_number("event_weights", weight, least=0) for name, weight in weights.items()}
    for name in checked:
        if not is_event(name):
            raise UsageError(
                f"`event_weights` names {name!r}; an event is a word such as add_to_cart, and `columns` says what its "
                'column is called, such as `columns={"add_to_cart": "add to cart"}`.'
            )
        if known is not None and name not in (CLICK, *known):
            there = listed([CLICK, *known])
            raise UsageError(f"`event_weights` names {name!r}, which the clicks do not count; they count {there}.")
    if len({name.casefold() for name in checked}) < len(checked):
        raise UsageError(f"`event_weights` names an event twice: {listed(checked)}.")
    if checked and not any(checked.values()):
        raise UsageError("`event_weights` are all 0; give at least one event a weight.")
    return checked


def value_of(counts: Mapping[str, IntArray], weights: Mapping[str, float]) -> Floats:
    """(cells,) Σ weight × count: what all events of a cell were worth."""
    return np.asarray(sum(weight * counts[name] for name, weight in weights.items()), dtype=np.float64)


def squares_of(counts: Mapping[str, IntArray], weights: Mapping[str, float]) -> Floats:
    """(cells,) the sum over clicks of (what it was worth)².

        Σ_ab weight_a weight_b min(count_a, count_b)

    That is exact where every rarer event follows the more frequent ones, as a purchase follows a cart, and otherwise
    the largest that the counts allow.

    >>> counts = {"click": np.array([3]), "purchase": np.array([1])}
    >>> squares_of(counts, {"click": 1.0, "purchase": 10.0})  # 1 + 1 + 11²
    array([123.])
    """
    pairs = [(counts[a], counts[b], weights[a] * weights[b]) for a in weights for b in weights]
    return np.asarray(sum(weight * np.minimum(first, second) for first, second, weight in pairs), dtype=np.float64)
