"""Axes of figures: from which value to which, on what scale, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cldrank.drawing.numbers import percent, round_step, short

_LOG_FROM = 30.0  # values that span more than this factor get a logarithmic axis
_MOST_STEPS = 6  # of an axis that begins at 0


@dataclass(frozen=True)
class Axis:
    """A range of values on a linear or logarithmic scale.

    ticks, labels    where there are ticks, and what is written there
    name, brief      what the axis shows, in full and in one or two words

    >>> axis = Axis.across([1_000, 10_000, 100_000])
    >>> axis.logarithmic, axis.labels
    (True, ('1k', '10k', '100k'))
    >>> 0 < axis.place(1_000) < axis.place(10_000) < axis.place(100_000) < 1
    True
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    logarithmic: bool = False
    name: str = ""
    brief: str = ""

    @classmethod
    def across(cls, values: Iterable[float], name: str = "", brief: str = "") -> Axis:
        """A horizontal axis with ticks at the values themselves, as far as there is room."""
        known = sorted(set(values))
        logarithmic = known[0] > 0 and known[-1] / known[0] >= _LOG_FROM
        low, high = (math.log10(known[0]), math.log10(known[-1])) if logarithmic else (known[0], known[-1])
        margin = 0.035 * (high - low) or 0.5
        low, high = low - margin, high + margin
        if logarithmic:
            low, high = 10.0 ** max(low, -307.0), 10.0 ** min(high, 308.0)
        axis = cls(low, high, tuple(known), _labels(known, low, high), logarithmic, name, brief)
        kept = axis._ticks_with_room()
        return cls(low, high, kept, _labels(kept, low, high), logarithmic, name, brief)

    @classmethod
    def around(cls, values: Iterable[float], most: int = 8, name: str = "") -> Axis:
        """A linear axis just wide enough, with at most `most` ticks at round numbers.

        >>> Axis.around([0.312, 0.447]).ticks
        (0.32, 0.34, 0.36, 0.38, 0.4, 0.42, 0.44)
        """
        known = list(values)
        low, high = min(known), max(known)
        margin = 0.04 * (high - low)
        if margin < 1e-9 * max(abs(high), 1.0):  # all alike
            margin = 0.01 * (abs(high) if abs(high) > 1e-6 else 1.0)
        low, high = low - margin, high + margin
        step = round_step((high - low) / most)
        places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        ticks = tuple(float(f"{place * step:.10g}") for place in places)
        return cls(low, high, ticks, _labels(ticks, low, high), name=name)

    @classmethod
    def from_zero(cls, top: float, *, in_percent: bool = False, name: str = "") -> Axis:
        """A linear axis from 0 to a round number, for values up to `top`.

        >>> Axis.from_zero(0.37, in_percent=True).labels
        ('0%', '10%', '20%', '30%', '40%')
        """
        top = top if top > 0 else 1.0
        step = round_step(top / _MOST_STEPS)
        ticks = tuple(index * step for index in range(math.ceil(top / step - 1e-9) + 1))
        digits = max(0, -math.floor(math.log10(step * 100) + 1e-9))
        labels = tuple(percent(tick, digits) if in_percent else short(tick) for tick in ticks)
        return cls(0.0, ticks[-1], ticks, labels, name=name)

    @classmethod
    def of_labels(cls, labels: Sequence[str], *, most: int = 24, name: str = "") -> Axis:
        """An axis of things that have names rather than values, at 0, 1, 2 …; at most `most` of them are written.

        >>> Axis.of_labels(["a", "b", "c", "d"], most=2).labels
        ('a', 'c')
        """
        step = max(1, math.ceil(len(labels) / max(most, 1)))
        ticks = tuple(range(0, len(labels), step))
        return cls(-0.5, max(len(labels), 1) - 0.5, ticks, tuple(labels[::step]), name=name)

    @classmethod
    def of_rows(cls, labels: Sequence[str]) -> Axis:
        """A vertical axis of names, the first at the top."""
        return cls(len(labels) - 0.5, -0.5, tuple(range(len(labels))), tuple(labels))

    def place(self, value: float) -> float:
        """Where a value is: 0 at the low end, 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def within(self, value: float) -> float:
        """A value, moved to the nearer end if it lies outside."""
        return min(max(value, self.low), self.high)

    def _ticks_with_room(self) -> tuple[float, ...]:
        """The ticks whose labels do not run into the one before."""
        kept: list[tuple[float, str]] = []
        for tick, label in zip(self.ticks, self.labels, strict=True):
            space = 0.045 + 0.011 * (len(label) + len(kept[-1][1])) if kept else 0.0
            if not kept or self.place(tick) - self.place(kept[-1][0]) >= space:
                kept.append((tick, label))
        return tuple(tick for tick, _ in kept)


def _labels(ticks: Sequence[float], low: float, high: float) -> tuple[str, ...]:
    """What is written at ticks, with as many digits as they need."""
    if max(abs(low), abs(high)) >= 1_000:
        return tuple(map(short, ticks))
    digits = max(map(_digits, ticks), default=0)
    return tuple(f"{tick:.{digits}f}" for tick in ticks)


def _digits(value: float) -> int:
    """How many digits after the point a value needs, at most four."""
    text = f"{value:.4f}".rstrip("0")
    return len(text) - text.index(".") - 1
