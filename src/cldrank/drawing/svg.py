"""Figures as SVG. Colours come from a style sheet, so that they follow light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.looks import MARKERS, Look
from cldrank.drawing.numbers import plain_number

TOP, RIGHT, BOTTOM = 10, 12, 46  # of a figure: the room around what is drawn
LETTER = 7.1  # about the width of a letter
_LEAST_LEFT = 46
_ROW = 25  # height of a row
_MANY = 40  # points in a series, above which they are drawn smaller
_COLUMN = 48.0  # the most that a bar is wide


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """An element of SVG. All texts are escaped; an attribute that is None is left out.

    >>> print(element("text", "a < b", x=12.04, text_anchor="end", class_="tick", id=None))
    <text x="12" text-anchor="end" class="tick">a &lt; b</text>
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_written(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(content)
    made = f"<{tag}{named}>{inside}</{tag}>" if content else f"<{tag}{named}/>"
    return Markup(made)  # noqa: S704  # all that comes from outside is escaped above


def text_at(x: float, y: float, content: str, anchor: str = "start", kind: str = "tick") -> Markup:
    """A text; `y` is its base line."""
    return element("text", content, class_=kind, x=x, y=y, text_anchor=anchor)


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """A straight line from one point to another."""
    return element("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)


def height(figure: Figure) -> int:
    """How high a figure is drawn; rows need what they need."""
    return TOP + _ROW * len(figure.series) + BOTTOM if figure.kind == "rows" else figure.height


def draw_figure(figure: Figure, **attributes: object) -> Markup:
    """A figure as an SVG element, with more attributes where they are given.

    >>> from cldrank.drawing.axis import Axis
    >>> points = (Point(0, 0.4, note="40%"), Point(1, 0.2, note="20%"))
    >>> figure = Figure("Clicks", (Series("", points),), Axis.of_labels("ab"), Axis.from_zero(0.4), kind="bars")
    >>> draw_figure(figure).count('class="mark bar"')
    2
    """
    frame = _Frame(figure)
    parts = [frame.axes()]
    if figure.kind == "curves":
        parts.append(line("cursor", 0, TOP, 0, frame.bottom))
        # all bands lie below all lines
        parts += [_group(series, frame.band(series.points)) for series in figure.series]
    parts += [_group(series, frame.drawn(series), data_method=series.name) for series in figure.series]
    label, stops = figure.title, frame.stops() if figure.kind == "curves" else []
    if stops:
        label = f"{label} by {figure.along.brief}. Left and right arrow keys read out the values."
        attributes |= {"tabindex": 0, "data_stops": json.dumps(stops, ensure_ascii=False)}
    size = f"0 0 {figure.width} {height(figure)}"
    named = {"class_": f"figure {figure.kind}", "viewBox": size, "role": "img", "aria_label": label}
    return element("svg", *parts, **named, **attributes)


def swatch(look: Look, **attributes: object) -> Markup:
    """A short piece of a series' line with its marker, for legends."""
    stroke = element("line", class_="line", x1=1, x2=33, y1=6, y2=6, stroke_dasharray=_dashes(look))
    size = {"viewBox": "0 0 34 12", "width": 34, "height": 12, "aria_hidden": "true"}
    return element("svg", stroke, _marker(look, 17, 6), class_=f"swatch m{look.slot}", **size, **attributes)


def ring(x: float, y: float, note: str = "") -> Markup:
    """The mark of a value to compare another one with."""
    return element("circle", *([element("title", note)] if note else []), class_="reference", cx=x, cy=y, r=4.4)


class _Frame:
    """Where the values of a figure are on the page, and what is drawn there."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.sideways = figure.kind == "rows"
        self.across, self.up = (figure.values, figure.along) if self.sideways else (figure.along, figure.values)
        self.left = max(_LEAST_LEFT, 14 + LETTER * max(map(len, self.up.labels), default=0))
        self.right, self.bottom = figure.width - RIGHT, height(figure) - BOTTOM

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * self.across.place(value)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - TOP) * self.up.place(value)

    def at(self, along: float, value: float) -> tuple[float, float]:
        return (self.x(value), self.y(along)) if self.sideways else (self.x(along), self.y(value))

    def axes(self) -> Markup:
        """The grid, and both axes with their labels; those of rows belong to the rows."""
        parts = []
        values, marked = self.figure.values, self.figure.marked
        own = [] if marked is None or marked in values.ticks else [marked]
        for tick in (*values.ticks, *own):
            place = self.x(tick) if self.sideways else self.y(tick)
            ends = (place, TOP, place, self.bottom) if self.sideways else (self.left, place, self.right, place)
            parts.append(line("marked" if tick == marked else "grid", *ends))
        if not self.sideways:
            ticks = zip(self.up.ticks, self.up.labels, strict=True)
            parts += [text_at(self.left - 7, self.y(tick) + 4, label, "end") for tick, label in ticks]
        parts.append(line("ground", self.left, self.bottom, self.right, self.bottom))
        for tick, label in zip(self.across.ticks, self.across.labels, strict=True):
            x = self.x(tick)
            parts.append(line("ground", x, self.bottom, x, self.bottom + 4))
            parts.append(text_at(x, self.bottom + 17, label, "middle"))
        parts.append(text_at((self.left + self.right) / 2, self.bottom + 38, self.across.name, "middle", "name"))
        return Markup("").join(parts)

    def drawn(self, series: Series) -> Markup:
        """A series without its bands."""
        if self.figure.kind == "bars":
            return Markup("").join(map(self.bar, series.points))
        places = [self.at(point.at, point.value) for point in series.points]
        stops = self.places()
        parts = []
        if self.sideways:
            parts += [self.label(point) for point in series.points]
        else:
            dashes = _dashes(series.look)
            parts.append(element("polyline", class_="line", points=_points(places), stroke_dasharray=dashes))
        for point, (x, y) in zip(series.points, places, strict=True):
            if self.figure.kind != "curves":
                parts.append(self.whisker(point))
            if point.reference is not None:
                note = f"{series.name}: {point.reference:.3f} {self.figure.references}"
                parts.append(ring(*self.at(point.at, point.reference), note))
            parts.append(_marker(series.look, x, y, point, stops[point.at], len(series.points) > _MANY))
        return Markup("").join(parts)

    def places(self) -> dict[float, int]:
        """The places along the axis at which there is anything, numbered."""
        return {at: index for index, at in enumerate(sorted({p.at for s in self.figure.series for p in s.points}))}

    def stops(self) -> list[tuple[float, str]]:
        """Where those places are, and what they are called."""
        return [(round(self.x(at), 1), f"{self.across.brief} = {plain_number(at)}") for at in self.places()]

    def label(self, point: Point) -> Markup:
        """The name of a row."""
        return text_at(self.left - 4, self.y(point.at) + 4, self.up.labels[int(point.at)], "end", "label")

    def bar(self, point: Point) -> Markup:
        """A column from 0 up to the value."""
        (x, y), room = self.at(point.at, point.value), self.x(1) - self.x(0)
        wide = min(_COLUMN, 0.78 * room)
        shape = {"x": x - wide / 2, "y": y, "width": wide, "height": self.bottom - y, "rx": 1.5}
        return element("rect", *_notes(point), class_="mark bar", **shape)

    def whisker(self, point: Point) -> Markup:
        """An interval as a line, with ends that a point cannot hide; nothing where low and high are the same."""
        if point.low is None or point.high is None:
            return Markup("")
        low, high = (self.at(point.at, self.figure.values.within(end)) for end in (point.low, point.high))
        if self.sideways:
            return line("whisker", *low, *high)
        if low[1] - high[1] < 0.05:
            return Markup("")
        half = min(3.0, 0.3 * (self.x(1) - self.x(0)))
        ends = "".join(f"M{x - half:.1f},{y:.1f}h{2 * half:.1f}" for x, y in (low, high))
        return element("path", class_="whisker", d=f"M{low[0]:.1f},{low[1]:.1f}V{high[1]:.1f}{ends}")

    def band(self, points: Sequence[Point]) -> Markup:
        """The intervals as a shaded area, interrupted where a point has none."""
        runs: list[list[tuple[float, float, float]]] = [[]]
        for point in points:
            if point.low is None or point.high is None:
                runs.append([])
            else:
                runs[-1].append((self.x(point.at), self.y(point.low), self.y(point.high)))
        shapes = []
        for run in filter(None, runs):
            above = self.cut_off([(x, high) for x, _, high in run])
            below = self.cut_off([(x, low) for x, low, _ in reversed(run)])
            shape, kind = ("polygon", "band") if len(run) > 1 else ("polyline", "whisker")
            shapes.append(element(shape, class_=kind, points=_points(above + below)))
        return Markup("").join(shapes)

    def cut_off(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """A line that follows the edge of the frame as long as it would be outside."""
        top, bottom = float(TOP), float(self.bottom)
        kept = list(points[:1])
        for (x, y), (next_x, next_y) in pairwise(points):
            crossed = [(edge - y) / (next_y - y) for edge in (top, bottom) if (y - edge) * (next_y - edge) < 0]
            kept += [(x + part * (next_x - x), y + part * (next_y - y)) for part in sorted(crossed)]
            kept.append((next_x, next_y))
        return [(x, min(max(y, top), bottom)) for x, y in kept]


def _group(series: Series, content: Markup, **attributes: object) -> Markup:
    if series.look is None:
        return element("g", content, class_="series")
    slot = series.look.slot
    return element("g", content, class_=f"series m{slot}", data_slot=slot, **attributes)


def _marker(
    look: Look | None, x: float, y: float, point: Point | None = None, at: int = 0, small: bool = False
) -> Markup:
    shape = MARKERS[look.marker if look else "circle"]
    place = f"translate({x:.1f} {y:.1f})" + (" scale(0.55)" if small else "")
    if point is None:
        return element("path", class_="mark", d=shape, transform=place)
    data = {"data_at": at, "data_value": f"{point.value:.6g}"}
    return element("path", *_notes(point), class_="mark", d=shape, transform=place, **data)


def _notes(point: Point) -> list[Markup]:
    return [element("title", point.note)] if point.note else []


def _dashes(look: Look | None) -> str | None:
    return " ".join(f"{length:g}" for length in look.dash) if look and look.dash else None


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _written(value: object) -> Markup:
    return escape(f"{round(value, 1):g}" if isinstance(value, float) else value)
