"""Figures as values: axes, series with their looks, and the colours of pages and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cldrank.documents.numbers import minus, percent, round_step, short

_MOST_STEPS = 6  # of an axis that begins at 0

# the colours of pages and pictures by what they are for, light and dark
THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {
        "ground": "#f7f7f5", "card": "#ffffff", "ink": "#1f2328", "quiet": "#626a73", "rule": "#e3e4e1",
        "grid": "#ececea", "accent": "#2f6db5", "none": "#f1f1ef", "ok": "#2c7a4b", "ok-ground": "#e7f3eb",
        "note": "#48617d", "note-ground": "#e9eff6", "warning": "#8f5600", "warning-ground": "#fbf0dc",
        "blocking": "#a62b2b", "blocking-ground": "#fae6e4",
    },
    "dark": {
        "ground": "#15181c", "card": "#1d2126", "ink": "#e4e6e8", "quiet": "#9aa3ac", "rule": "#30363d",
        "grid": "#2a2f36", "accent": "#79aee8", "none": "#262b31", "ok": "#7fce9c", "ok-ground": "#1c3226",
        "note": "#a9c1dc", "note-ground": "#222e3b", "warning": "#f0bd6a", "warning-ground": "#392b14",
        "blocking": "#f39a92", "blocking-ground": "#401f1f",
    },
}  # fmt: skip
IN_DARK = "@media screen and (prefers-color-scheme: dark)"

# shapes of about the same size around 0, 0, as SVG paths
MARKERS = {
    "circle": "M-3.4,0a3.4,3.4 0 1,0 6.8,0a3.4,3.4 0 1,0 -6.8,0z",
    "square": "M-3.1,-3.1h6.2v6.2h-6.2z",
    "up": "M0,-4.1L3.9,2.8H-3.9z",
    "down": "M0,4.1L3.9,-2.8H-3.9z",
    "diamond": "M0,-4.4L3.6,0L0,4.4L-3.6,0z",
    "cross": "M-3.6,-2.1L-2.1,-3.6L0,-1.5L2.1,-3.6L3.6,-2.1L1.5,0L3.6,2.1L2.1,3.6L0,1.5L-2.1,3.6L-3.6,2.1L-1.5,0z",
    "plus": "M-1.2,-4H1.2V-1.2H4V1.2H1.2V4H-1.2V1.2H-4V-1.2H-1.2z",
    "left": "M-4.1,0L2.8,-3.9V3.9z",
    "right": "M4.1,0L-2.8,-3.9V3.9z",
}

# of series, light and dark; the first seven can be told apart with every kind of colour vision
COLOURS = {
    "blue": ("#2340c8", "#3f7dff"), "amber": ("#dd7901", "#dd9a24"), "green": ("#017d62", "#12bd9f"),
    "purple": ("#82107f", "#f29af2"), "red": ("#a31d08", "#e8402c"), "grey": ("#8f909c", "#777a86"),
    "ink": ("#1f2328", "#e4e6e8"), "sky": ("#3a9bd3", "#8fd3ff"), "brown": ("#8a5a3a", "#cf9a7c"),
    "violet": ("#7a5fd0", "#b7a3f5"), "olive": ("#6f7a00", "#c2cf52"),
}  # fmt: skip
_DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 2.5), (9, 3, 2, 3), (5, 2, 2, 2, 2, 2))


@dataclass(frozen=True)
class Look:
    """The look of a series: a colour of `COLOURS`, lengths of strokes and gaps, and a shape of `MARKERS`."""

    colour: str
    dash: tuple[float, ...]
    marker: str


def looks(series: Iterable[str]) -> dict[str, Look]:
    """A look for each series; several hundred differ before the first comes again."""
    colours, markers = list(COLOURS), list(MARKERS)
    chosen = {}
    for number, name in enumerate(dict.fromkeys(series)):
        turn, place = divmod(number, len(colours))
        mark = turn + place
        chosen[name] = Look(colours[place], _DASHES[mark % len(_DASHES)], markers[mark % len(markers)])
    return chosen


@dataclass(frozen=True)
class Axis:
    """A range of values on a linear scale, with labels at its ticks; `name` says what it shows."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    name: str = ""

    @classmethod
    def around(cls, values: Iterable[float], most: int = 8, name: str = "") -> Axis:
        """A linear axis just wide enough, with at most `most` ticks at round numbers."""
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
    def from_zero(cls, top: float, *, in_percent: bool = False) -> Axis:
        """A linear axis from 0 to a round number, for values up to `top`."""
        top = top if top > 0 else 1.0
        step = round_step(top / _MOST_STEPS)
        ticks = tuple(index * step for index in range(math.ceil(top / step - 1e-9) + 1))
        digits = max(0, -math.floor(math.log10(step * 100) + 1e-9))
        labels = tuple(percent(tick, digits) if in_percent else short(tick) for tick in ticks)
        return cls(0.0, ticks[-1], ticks, labels)

    @classmethod
    def of_labels(cls, labels: Sequence[str], *, most: int = 24, name: str = "") -> Axis:
        """An axis of things that have names rather than values, at 0, 1, 2 …; at most `most` of them are written."""
        step = max(1, math.ceil(len(labels) / max(most, 1)))
        ticks = tuple(range(0, len(labels), step))
        return cls(-0.5, max(len(labels), 1) - 0.5, ticks, tuple(labels[::step]), name=name)

    @classmethod
    def of_rows(cls, labels: Sequence[str]) -> Axis:
        """A vertical axis of names, the first at the top."""
        return cls(len(labels) - 0.5, -0.5, tuple(range(len(labels))), tuple(labels))

    def place(self, value: float) -> float:
        """Where a value is: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def within(self, value: float) -> float:
        """A value, moved to the nearer end if it lies outside."""
        return min(max(value, self.low), self.high)


def _labels(ticks: Sequence[float], low: float, high: float) -> tuple[str, ...]:
    """What is written at ticks, with as many digits as they need, at most four."""
    if max(abs(low), abs(high)) >= 1_000:
        return tuple(map(short, ticks))
    digits = max((len(f"{tick:.4f}".rstrip("0").partition(".")[2]) for tick in ticks), default=0)
    return tuple(minus(f"{tick:.{digits}f}") for tick in ticks)


@dataclass(frozen=True)
class Point:
    """A value with its interval, if any.

    at           its place on the axis `along`
    note         what is said when it is pointed at
    reference    a value to compare it with, drawn as a ring
    """

    at: float
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    reference: float | None = None


@dataclass(frozen=True)
class Series:
    """Points that belong together; without a look they have the page's own colour."""

    name: str
    points: tuple[Point, ...]
    look: Look | None = None


@dataclass(frozen=True)
class Figure:
    """A chart: series of points, `along` one axis, with `values` on the other.

    kind          "curves": lines with bands · "dots": lines with whiskers ·
                  "rows": a row per series, whose values run across
    marked        values with grid lines that stand out
    references    what the rings are, such as "published"; empty where there are none
    about         a sentence below the title
    """

    title: str
    series: tuple[Series, ...]
    along: Axis
    values: Axis
    kind: Literal["curves", "dots", "rows"] = "curves"
    width: int = 360
    height: int = 264
    marked: tuple[float, ...] = ()
    references: str = ""
    about: str = ""

    def _repr_svg_(self) -> str:
        from cldrank.documents.svg import picture

        return picture([self])


@dataclass(frozen=True)
class Panels:
    """Figures beside each other, `columns` in a row, under a common legend."""

    figures: tuple[Figure, ...]
    columns: int = 2

    @property
    def title(self) -> str:
        """All titles, each once."""
        return "; ".join(dict.fromkeys(figure.title for figure in self.figures))


def legend(figures: Iterable[Figure]) -> dict[str, Look | None]:
    """The series that have a look of their own, then what the rings are; rows have names beside them."""
    drawn = list(figures)
    lined = [series for figure in drawn if figure.kind != "rows" for series in figure.series]
    entries: dict[str, Look | None] = {series.name: series.look for series in lined if series.look is not None}
    return entries | {figure.references: None for figure in drawn if figure.references}
