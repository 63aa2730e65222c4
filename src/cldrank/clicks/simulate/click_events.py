"""`EventModel`: what follows a click, the more often the better the result: carts and purchases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import Floats, IntArray
from cldrank.arguments import check_number
from cldrank.clicks.events import CLICK
from cldrank.clicks.log.layout import LogLayout
from cldrank.errors import UsageError


@dataclass(frozen=True, eq=False)
class EventModel:
    """How often each event follows a click on each candidate; rarer events follow more frequent ones.

        P(event | click) = chance (label + 1) / (highest label + 1)

    chances   (rows,) of each event, the most frequent first

    >>> model = EventModel.of({"purchase": 0.1, "cart": 0.5}, np.array([0, 4]))
    >>> model.chances["cart"].round(2), list(model.chances)
    (array([0.1, 0.5]), ['cart', 'purchase'])
    """

    chances: Mapping[str, Floats]

    @classmethod
    def of(cls, events: Mapping[str, float], labels: NDArray[Any] | None) -> EventModel:
        """The model of events with their chances after a click on a result of the highest label."""
        if CLICK in events:
            raise UsageError("`events` follow a click; leave 'click' out.")
        LogLayout(event_weights=events)  # refuses what a log could not name
        known = np.zeros(0) if labels is None else np.asarray(labels, dtype=np.float64)
        share = (known + 1) / (known.max(initial=0) + 1)
        chances = {name: check_number("events", chance, least=0, most=1) for name, chance in events.items()}
        return cls({name: chances[name] * share for name in sorted(chances, key=lambda name: -chances[name])})

    def draw(self, rows: IntArray, clicks: NDArray[Any], random: np.random.Generator) -> dict[str, IntArray]:
        """How many of the clicks on some rows each event follows."""
        drawn, number, before = {}, np.asarray(clicks, dtype=np.int64), np.ones(1)
        for name, chance in self.chances.items():
            happens = np.divide(chance, before, out=np.zeros(len(chance)), where=before > 0)  # after the event before
            drawn[name] = number = random.binomial(number, happens[rows])
            before = chance
        return drawn
