"""Figures as SVG. Colours come from the style sheet, so that they follow light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from cldrank.experiment.report.axis import Axis
from cldrank.experiment.report.figures import Dot, Figure, Series
from cldrank.experiment.report.palette import MARKERS, Look
from cldrank.experiment.report.words import number
from cldrank.pages.svg import line, text

WIDTH, HEIGHT = 360, 264
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 46
_ROW = 25  # height of a method's row
_LETTER = 7.1  # about the width of a letter


def draw(figure: Figure, looks: Mapping[str, Look]) -> str:
    """A figure as an SVG element."""
    return _ranges(figure, looks) if figure.across is None else _curves(figure, figure.across, looks)


def height(figure: Figure) -> int:
    """How high the drawing is, at `WIDTH`."""
    return HEIGHT if figure.across is not None else _TOP + _ROW * len(figure.series) + _BOTTOM


def swatch(look: Look) -> str:
    """A short piece of a method's line with its marker, for legends."""
    return (
        f'<svg class="swatch m{look.slot}" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">'
        f'<line class="line" x1="1" x2="33" y1="6" y2="6"{_dashed(look)}/>{_marker(look, 17, 6)}</svg>'
    )


# -- curves along a numeric setting -------------------------------------------------------------------------------


def _curves(figure: Figure, across: Axis, looks: Mapping[str, Look]) -> str:
    frame = _Frame(across, figure.values)
    parts = [frame.axes(figure.name), line("cursor", 0, _TOP, 0, HEIGHT - _BOTTOM)]
    places = sorted({dot.place for series in figure.series for dot in series.dots})
    for series in figure.series:  # all bands lie below all lines
        look = looks[series.method]
        parts.append(f'<g class="series m{look.slot}" data-slot="{look.slot}">{frame.band(series)}</g>')
    for series in figure.series:
        look = looks[series.method]
        curve = " ".join(f"{frame.x(dot.place):.1f},{frame.y(dot.value):.1f}" for dot in series.dots)
        marks = "".join(
            _marker(look, frame.x(dot.place), frame.y(dot.value), dot, places.index(dot.place)) for dot in series.dots
        )
        parts.append(_series(series, look, f'<polyline class="line" points="{curve}"{_dashed(look)}/>{marks}'))
    stops = [(round(frame.x(place), 1), f"{figure.key} = {number(place)}") for place in places]
    return _svg(figure, parts, stops)


class _Frame:
    """Where values stand in a figure of curves."""

    def __init__(self, across: Axis, values: Axis) -> None:
        self.across, self.values = across, values

    def x(self, value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * self.across.place(value)

    def y(self, value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - self.values.place(value))

    def axes(self, name: str) -> str:
        parts = []
        for tick in self.values.ticks:
            y = self.y(tick)
            parts.append(line("grid", _LEFT, y, WIDTH - _RIGHT, y))
            parts.append(text(_LEFT - 7, y + 4, self.values.told(tick), "end"))
        ground = HEIGHT - _BOTTOM
        parts.append(line("ground", _LEFT, ground, WIDTH - _RIGHT, ground))
        for tick in self.across.ticks:
            x = self.x(tick)
            parts.append(line("ground", x, ground, x, ground + 4))
            parts.append(text(x, ground + 17, self.across.told(tick), "middle"))
        parts.append(text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 8, name, "middle", "name"))
        return "".join(parts)

    def band(self, series: Series) -> str:
        """The intervals as a shaded area, broken where a dot has none."""
        runs: list[list[Dot]] = [[]]
        for dot in series.dots:
            if dot.low is None:
                runs.append([])
            else:
                runs[-1].append(dot)
        shapes = []
        for run in runs:
            above = _cut_off([(self.x(dot.place), self.y(dot.high or 0.0)) for dot in run])
            below = _cut_off([(self.x(dot.place), self.y(dot.low or 0.0)) for dot in reversed(run)])
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in above + below)
            if len(run) > 1:
                shapes.append(f'<polygon class="band" points="{points}"/>')
            elif run:
                shapes.append(f'<polyline class="whisker" points="{points}"/>')
        return "".join(shapes)


def _cut_off(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A line that goes along the edge of the frame as long as it would be outside."""
    top, bottom = float(_TOP), float(HEIGHT - _BOTTOM)
    kept = list(points[:1])
    for (x, y), (next_x, next_y) in pairwise(points):
        crossed = [(edge - y) / (next_y - y) for edge in (top, bottom) if (y - edge) * (next_y - edge) < 0]
        kept += [(x + part * (next_x - x), y + part * (next_y - y)) for part in sorted(crossed)]
        kept.append((next_x, next_y))
    return [(x, min(max(y, top), bottom)) for x, y in kept]


# -- one row per method ---------------------------------------------------------------------------------------------


def _ranges(figure: Figure, looks: Mapping[str, Look]) -> str:
    labels = [_shortened(series.method) for series in figure.series]
    left = 14 + _LETTER * max(map(len, labels), default=0)
    room = WIDTH - left - _RIGHT - 8
    ground = _TOP + _ROW * len(figure.series)

    def x(value: float) -> float:
        return left + 8 + room * figure.values.place(value)

    parts = []
    for tick in figure.values.ticks:
        parts.append(line("grid", x(tick), _TOP, x(tick), ground))
        parts.append(text(x(tick), ground + 16, figure.values.told(tick), "middle"))
    parts.append(line("ground", left, ground, WIDTH - _RIGHT, ground))
    parts.append(text(left + 8 + room / 2, ground + 36, figure.name, "middle", "name"))
    for row, (series, label) in enumerate(zip(figure.series, labels, strict=True)):
        look, dot = looks[series.method], series.dots[0]
        y = _TOP + _ROW * (row + 0.5)
        drawn = [text(left - 4, y + 4, label, "end", "label")]
        if dot.low is not None and dot.high is not None:
            low, high = (min(max(end, figure.values.low), figure.values.high) for end in (dot.low, dot.high))
            drawn.append(line("whisker", x(low), y, x(high), y))
        if dot.published is not None:
            told = escape(f"{series.method}: {dot.published:.3f} published")
            circle = f'<circle class="published" cx="{x(dot.published):.1f}" cy="{y:.1f}" r="4.4">'
            drawn.append(f"{circle}<title>{told}</title></circle>")
        drawn.append(_marker(look, x(dot.value), y, dot, 0))
        parts.append(_series(series, look, "".join(drawn)))
    return _svg(figure, parts)


def _shortened(label: str, most: int = 18) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


# -- pieces -------------------------------------------------------------------------------------------------------


def _series(series: Series, look: Look, content: str) -> str:
    slot = f'class="series m{look.slot}" data-slot="{look.slot}"'
    return f'<g {slot} data-method="{escape(series.method)}">{content}</g>'


def _marker(look: Look, x: float, y: float, dot: Dot | None = None, at: int = 0) -> str:
    shape = f'class="mark" d="{MARKERS[look.marker]}" transform="translate({x:.1f} {y:.1f})"'
    if dot is None:
        return f"<path {shape}/>"
    return f'<path {shape} data-at="{at}" data-value="{dot.value:.6g}"><title>{escape(dot.told)}</title></path>'


def _dashed(look: Look) -> str:
    return f' stroke-dasharray="{" ".join(f"{length:g}" for length in look.dash)}"' if look.dash else ""


def _svg(figure: Figure, parts: Sequence[str], stops: Sequence[tuple[float, str]] = ()) -> str:
    size = f'viewBox="0 0 {WIDTH} {height(figure)}"'
    title = escape(f"{figure.title} by {figure.key}" if figure.across else figure.title)
    if not stops:
        return f'<svg class="figure" {size} role="img" aria-label="{title}">{"".join(parts)}</svg>'
    told = escape(json.dumps(stops, ensure_ascii=False))
    return (
        f'<svg class="figure curves" {size} role="img" tabindex="0" data-stops="{told}" '
        f'aria-label="{title}. Left and right arrow keys read out the values.">{"".join(parts)}</svg>'
    )
