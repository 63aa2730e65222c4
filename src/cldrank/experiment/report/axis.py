"""Axes of figures: from which value to which, on what scale, with marks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cldrank.pages.numbers import round_step, short

_LOG_FROM = 30.0  # values that span more than this stand on a logarithmic axis


@dataclass(frozen=True)
class Axis:
    """A range of values on a linear or logarithmic scale.

    >>> axis = Axis.across([1_000, 10_000, 100_000])
    >>> axis.logarithmic, [axis.told(tick) for tick in axis.ticks]
    (True, ['1k', '10k', '100k'])
    >>> 0 < axis.place(1_000) < axis.place(10_000) < axis.place(100_000) < 1
    True
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    @classmethod
    def across(cls, values: Iterable[float]) -> Axis:
        """A horizontal axis that marks the values themselves, as far as there is room."""
        known = sorted(set(values))
        logarithmic = known[0] > 0 and known[-1] / known[0] >= _LOG_FROM
        low, high = (math.log10(known[0]), math.log10(known[-1])) if logarithmic else (known[0], known[-1])
        margin = 0.035 * (high - low) or 0.5
        low, high = low - margin, high + margin
        if logarithmic:
            low, high = 10.0 ** max(low, -307.0), 10.0 ** min(high, 308.0)
        axis = cls(low, high, tuple(known), logarithmic)
        return cls(low, high, axis._with_room(known), logarithmic)

    @classmethod
    def around(cls, values: Iterable[float], marks: int = 8) -> Axis:
        """A linear axis just wide enough, with at most so many marks at round numbers.

        >>> Axis.around([0.312, 0.447]).ticks
        (0.32, 0.34, 0.36, 0.38, 0.4, 0.42, 0.44)
        """
        known = list(values)
        least, most = min(known), max(known)
        margin = 0.04 * (most - least)
        if margin < 1e-9 * max(abs(most), 1.0):  # all alike
            margin = 0.01 * (abs(most) if abs(most) > 1e-6 else 1.0)
        least, most = least - margin, most + margin
        step = round_step((most - least) / marks)
        ticks = range(math.ceil(least / step - 1e-9), math.floor(most / step + 1e-9) + 1)
        return cls(least, most, tuple(float(f"{index * step:.10g}") for index in ticks))

    def place(self, value: float) -> float:
        """Where a value stands: 0 at the low end, 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def told(self, value: float) -> str:
        """A value in as few letters as this axis needs."""
        if max(abs(self.low), abs(self.high)) >= 1_000:
            return short(value)
        distance = min((abs(b - a) for a, b in zip(self.ticks, self.ticks[1:], strict=False)), default=0.0)
        digits = max((_digits(tick) for tick in self.ticks), default=0) if distance else _digits(value)
        return f"{value:.{digits}f}"

    def _with_room(self, values: list[float]) -> tuple[float, ...]:
        """Of the values, those whose labels do not run into the one before."""
        kept: list[float] = []
        for value in values:
            space = 0.045 + 0.011 * (len(self.told(value)) + len(self.told(kept[-1]))) if kept else 0.0
            if not kept or self.place(value) - self.place(kept[-1]) >= space:
                kept.append(value)
        return tuple(kept)


def _digits(value: float) -> int:
    """How many digits after the point a value needs, at most four."""
    text = f"{value:.4f}".rstrip("0")
    return len(text) - text.index(".") - 1
