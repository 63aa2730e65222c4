"""Charts as inline SVG. Colours come from the style sheet of the page, so that they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cldrank.pages.numbers import round_step, short
from cldrank.pages.svg import line, text

WIDTH, HEIGHT = 440, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 10, 12, 40
_MOST_LABELS = 9
_MOST_LINES = 6  # of the grid above the ground


@dataclass(frozen=True)
class Mark:
    """A value to draw, with an interval where there is one, and what to say when pointed at."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    told: str = ""


def points(marks: Sequence[Mark], *, title: str, across: str, percent: bool = True) -> str:
    """Values with intervals, joined by a line."""
    known = [mark for mark in marks if mark.value is not None]
    top = max((mark.high if mark.high is not None else mark.value or 0.0 for mark in known), default=1.0)
    scale = _Scale(top, percent)
    parts = [scale.axis()]
    places = _places(len(marks))
    joined = []
    for x, mark in zip(places, marks, strict=True):
        if mark.value is None:
            continue
        y = scale.at(mark.value)
        joined.append(f"{x:.1f},{y:.1f}")
        if mark.low is not None and mark.high is not None:
            low, high = scale.at(mark.low), scale.at(mark.high)
            parts.append(line("whisker", x, low, x, high))
        radius = 3.2 if len(marks) <= 40 else 1.8
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{_title(mark)}</circle>')
    parts.insert(1, f'<polyline class="line" points="{" ".join(joined)}"/>')
    return _figure(title, [*parts, _labels([mark.label for mark in marks], places, across)])


def bars(marks: Sequence[Mark], *, title: str, across: str, percent: bool = False) -> str:
    """Values as columns."""
    scale = _Scale(max((mark.value or 0.0 for mark in marks), default=1.0), percent)
    places = _places(len(marks))
    width = min(48.0, 0.78 * (WIDTH - _LEFT - _RIGHT) / max(len(marks), 1))
    parts = [scale.axis()]
    for x, mark in zip(places, marks, strict=True):
        y = scale.at(mark.value or 0.0)
        parts.append(
            f'<rect class="bar" x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{HEIGHT - _BOTTOM - y:.1f}" rx="1.5">{_title(mark)}</rect>'
        )
    return _figure(title, [*parts, _labels([mark.label for mark in marks], places, across)])


def heat(names: Sequence[str], values: Sequence[Sequence[int]], *, title: str, across: str, unit: str) -> str:
    """A square table of counts, darker where they are larger, on a log scale; the diagonal is left out."""
    size = len(names)
    side = 330.0 / max(size, 1)
    left, top = 50.0, 12.0
    most = max((values[i][j] for i in range(size) for j in range(size) if i != j), default=0)
    gap = min(1.0, side * 0.06)
    parts = []
    for i in range(size):
        for j in range(size):
            x, y = left + j * side, top + i * side
            shape = f'x="{x:.1f}" y="{y:.1f}" width="{side - gap:.2f}" height="{side - gap:.2f}"'
            if i == j:
                parts.append(f'<rect class="self" {shape}/>')
                continue
            count = values[i][j]
            told = f"<title>{escape(names[i])} and {escape(names[j])}: {count:,} candidates</title>"
            parts.append(f"<rect {_shade(count, most)} {shape}>{told}</rect>")
    step = max(1, math.ceil(size / _MOST_LABELS))
    for index in range(0, size, step):
        middle = (index + 0.5) * side
        parts.append(text(left - 6, top + middle + 4, names[index], "end"))
        parts.append(text(left + middle, top + 330 + 15, names[index], "middle"))
    parts.append(text(left + 165, top + 330 + 32, across, "middle", "name"))
    return _figure(title, [*parts, _shades(most, left, top + 330 + 44, unit)], height=430)


def _shade(count: int, most: int) -> str:
    if not count:
        return 'class="none"'
    return f'class="heat" fill-opacity="{0.12 + 0.88 * math.log1p(count) / math.log1p(most):.2f}"'


def _shades(most: int, left: float, top: float, unit: str) -> str:
    """What the shades of a heat map mean: none, and counts evenly spread on the scale up to the largest."""
    steps = sorted({0, most, *(round(math.expm1(math.log1p(most) * part / 4)) for part in range(1, 4))})
    width = 330.0 / len(steps)
    parts = []
    for index, count in enumerate(steps):
        x = left + index * width
        shape = f'x="{x:.1f}" y="{top:.1f}" width="{width - 1:.2f}" height="10"'
        parts.append(f"<rect {_shade(count, most)} {shape}/>")
        parts.append(text(x + width / 2, top + 24, short(count), "middle"))
    return "".join([*parts, text(left + 165, top + 39, unit, "middle", "name")])


# -- what charts are made of --------------------------------------------------------------------------------------


class _Scale:
    """The vertical axis from 0 to a round number."""

    def __init__(self, top: float, percent: bool) -> None:
        self.step = round_step((top if top > 0 else 1.0) / _MOST_LINES)
        self.top = self.step * max(1, math.ceil((top if top > 0 else 1.0) / self.step - 1e-9))
        self.percent = percent

    def at(self, value: float) -> float:
        """The height of a value on the page."""
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - value / self.top)

    def axis(self) -> str:
        """Grid lines with their numbers."""
        parts = []
        for index in range(round(self.top / self.step) + 1):
            value = index * self.step
            y = self.at(value)
            parts.append(line("grid", _LEFT, y, WIDTH - _RIGHT, y))
            parts.append(text(_LEFT - 6, y + 4, self._told(value), "end"))
        return "".join(parts)

    def _told(self, value: float) -> str:
        if self.percent:
            digits = max(0, -math.floor(math.log10(self.step * 100) + 1e-9))
            return f"{100 * value:.{digits}f}%"
        return short(value)


def _places(count: int) -> list[float]:
    room = WIDTH - _LEFT - _RIGHT
    return [_LEFT + room * (index + 0.5) / max(count, 1) for index in range(count)]


def _labels(labels: Sequence[str], places: Sequence[float], across: str) -> str:
    longest = max(map(len, labels), default=1)
    fitting = max(2, min(12, int((WIDTH - _LEFT - _RIGHT) / (7 * longest + 8))))
    step = max(1, math.ceil(len(labels) / fitting))
    parts = [
        text(place, HEIGHT - _BOTTOM + 16, label, "middle")
        for label, place in list(zip(labels, places, strict=True))[::step]
    ]
    parts.append(text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, across, "middle", "name"))
    return "".join(parts)


def _title(mark: Mark) -> str:
    return f"<title>{escape(mark.told)}</title>" if mark.told else ""


def _figure(title: str, parts: Sequence[str], height: int = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
