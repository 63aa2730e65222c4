"""Figures as SVG: elements of a page, or pictures that need no page around them, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from markupsafe import Markup, escape

from cldrank.documents.document import visible
from cldrank.documents.figure import COLOURS, IN_DARK, MARKERS, THEMES, Figure, Look, Point, Series, legend

TOP, RIGHT, BOTTOM = 10, 12, 46  # of a figure: the room around what is drawn
LETTER = 7.1  # about the width of a letter
_LEAST_LEFT = 46
_ROW = 25  # height of a row
_MANY = 40  # points in a series, above which they are drawn smaller
_GAP, _EDGE, _LINE, _HEAD = 18, 14, 24, 24  # of pictures: between figures, around them, a line of the legend, a title
_FONT = 'text { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }\n'


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """An element of SVG. All texts are escaped; an attribute that is None is left out.

    >>> print(element("text", "a < b", x=12.04, text_anchor="end", class_="tick", id=None))
    <text x="12" text-anchor="end" class="tick">a &lt; b</text>
    """
    known = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    named = "".join(
        f' {name}="{escape(f"{round(value, 1):g}" if isinstance(value, float) else visible(str(value)))}"'
        for name, value in known.items()
    )
    inside = Markup("").join(part if isinstance(part, Markup) else visible(part) for part in content)
    made = f"<{tag}{named}>{inside}</{tag}>" if content else f"<{tag}{named}/>"
    return Markup(made)  # noqa: S704  # all that comes from outside is escaped above


def text_at(x: float, y: float, content: str, anchor: str = "start", kind: str = "tick") -> Markup:
    """A text; `y` is its base line."""
    return element("text", content, class_=kind, x=x, y=y, text_anchor=anchor)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return element("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)


def height(figure: Figure) -> int:
    """How high a figure is drawn; rows need what they need."""
    return TOP + _ROW * len(figure.series) + BOTTOM if figure.kind == "rows" else figure.height


def draw(figure: Figure, **attributes: object) -> Markup:
    """A figure of any kind as an SVG element, with more attributes where they are given.

    >>> from cldrank.documents import Axis
    >>> points = (Point(0, 0.4, note="40%"), Point(1, 0.2, note="20%"))
    >>> figure = Figure("Clicks", (Series("", points),), Axis.of_labels("ab"), Axis.from_zero(0.4), "dots")
    >>> draw(figure).count('class="mark"')
    2
    """
    frame = _Frame(figure)
    parts = [frame.axes()]
    if figure.kind == "curves":  # all bands lie below all lines
        parts += [_group(series, frame.band(series.points)) for series in figure.series]
    parts += [_group(series, frame.drawn(series)) for series in figure.series]
    size = f"0 0 {figure.width} {height(figure)}"
    named = {"class_": f"figure {figure.kind}", "viewBox": size, "role": "img", "aria_label": figure.title}
    return element("svg", *parts, **named, **attributes)


def swatch(look: Look | None, **attributes: object) -> Markup:
    """A short piece of a series' line with its marker, or the ring of a reference, for legends."""
    size = {"viewBox": "0 0 34 12", "width": 34, "height": 12, "aria_hidden": "true"}
    if look is None:
        return element("svg", _ring(17, 6), class_="swatch", **size, **attributes)
    stroke = element("line", class_="line", x1=1, x2=33, y1=6, y2=6, stroke_dasharray=_dashes(look))
    return element("svg", stroke, _marker(look, 17, 6), class_=f"swatch {look.colour}", **size, **attributes)


def _ring(x: float, y: float, note: str = "") -> Markup:
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
        for tick in dict.fromkeys((*values.ticks, *marked)):
            place = self.x(tick) if self.sideways else self.y(tick)
            ends = (place, TOP, place, self.bottom) if self.sideways else (self.left, place, self.right, place)
            parts.append(_line("marked" if tick in marked else "grid", *ends))
        if not self.sideways:
            ticks = zip(self.up.ticks, self.up.labels, strict=True)
            parts += [text_at(self.left - 7, self.y(tick) + 4, label, "end") for tick, label in ticks]
        parts.append(_line("ground", self.left, self.bottom, self.right, self.bottom))
        for tick, label in zip(self.across.ticks, self.across.labels, strict=True):
            x = self.x(tick)
            parts.append(_line("ground", x, self.bottom, x, self.bottom + 4))
            parts.append(text_at(x, self.bottom + 17, label, "middle"))
        parts.append(text_at((self.left + self.right) / 2, self.bottom + 38, self.across.name, "middle", "name"))
        return Markup("").join(parts)

    def drawn(self, series: Series) -> Markup:
        """A series without its bands."""
        places = [self.at(point.at, point.value) for point in series.points]
        parts = []
        if not self.sideways:
            dashes = _dashes(series.look)
            parts.append(element("polyline", class_="line", points=_points(places), stroke_dasharray=dashes))
        for point, (x, y) in zip(series.points, places, strict=True):
            if self.sideways:
                parts.append(text_at(self.left - 4, y + 4, self.up.labels[int(point.at)], "end", "label"))
            if self.figure.kind != "curves":
                parts.append(self.whisker(point))
            if point.reference is not None:
                note = f"{series.name}: {point.reference:.3f} {self.figure.references}"
                parts.append(_ring(*self.at(point.at, point.reference), note))
            value, many = f"{point.value:.6g}", len(series.points) > _MANY
            notes = [element("title", point.note)] if point.note else []
            parts.append(_marker(series.look, x, y, *notes, small=many, data_value=value))
        return Markup("").join(parts)

    def whisker(self, point: Point) -> Markup:
        """An interval as a line, with ends that a point cannot hide; nothing where low and high are the same."""
        if point.low is None or point.high is None:
            return Markup("")
        low, high = (self.at(point.at, self.figure.values.within(end)) for end in (point.low, point.high))
        if self.sideways:
            return _line("whisker", *low, *high)
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
                low, high = (self.y(self.figure.values.within(end)) for end in (point.low, point.high))
                runs[-1].append((self.x(point.at), low, high))
        shapes = []
        for run in filter(None, runs):
            edge = [(x, high) for x, _, high in run] + [(x, low) for x, low, _ in reversed(run)]
            shape, kind = ("polygon", "band") if len(run) > 1 else ("polyline", "whisker")
            shapes.append(element(shape, class_=kind, points=_points(edge)))
        return Markup("").join(shapes)


def _group(series: Series, content: Markup) -> Markup:
    kind, name = ("series", None) if series.look is None else (f"series {series.look.colour}", series.name)
    return element("g", content, class_=kind, data_series=name)


def _marker(look: Look | None, x: float, y: float, *notes: Markup, small: bool = False, **data: object) -> Markup:
    shape = MARKERS[look.marker if look else "circle"]
    place = f"translate({x:.1f} {y:.1f})" + (" scale(0.55)" if small else "")
    return element("path", *notes, class_="mark", d=shape, transform=place, **data)


def _dashes(look: Look | None) -> str | None:
    return " ".join(f"{length:g}" for length in look.dash) if look and look.dash else None


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


# -- pictures ------------------------------------------------------------------------------------------------------


def picture(figures: Sequence[Figure], columns: int = 1) -> str:
    """The figures as one SVG file, `columns` in a row, under a legend."""
    across = min(columns, len(figures))
    wide = max(figure.width for figure in figures)
    width = 2 * _EDGE + across * wide + (across - 1) * _GAP
    colours = [series.look.colour for figure in figures for series in figure.series if series.look is not None]
    parts, top = _legend(legend(figures), width)
    for first in range(0, len(figures), across):
        row = figures[first : first + across]
        for place, figure in enumerate(row):
            x = _EDGE + place * (wide + _GAP)
            parts.append(text_at(x + 6, top + 14, figure.title, kind="title"))
            parts.append(draw(figure, x=x, y=top + _HEAD, width=wide, height=height(figure)))
        top += _HEAD + max(map(height, row)) + _GAP
    size = {"viewBox": f"0 0 {width} {top}", "width": width, "height": top}
    ground = element("rect", class_="paper", width=width, height=top)
    name = element("title", "; ".join(dict.fromkeys(figure.title for figure in figures)))
    sheet = element("style", Markup(_style(colours)))  # noqa: S704  # our own
    return f"{element('svg', name, sheet, ground, *parts, xmlns='http://www.w3.org/2000/svg', **size)}\n"


def _legend(entries: Mapping[str, Look | None], width: int) -> tuple[list[Markup], int]:
    """The series with their lines, in as many rows as they need, and where the legend ends."""
    parts, x, y = [], float(_EDGE), _EDGE
    for name, look in entries.items():
        room = 34 + 6 + LETTER * len(name) + 18
        if x > _EDGE and x + room > width:
            x, y = float(_EDGE), y + _LINE
        parts.append(swatch(look, x=x, y=y))
        parts.append(text_at(x + 40, y + 10, name, kind="label"))
        x += room
    return parts, y + _LINE + 8 if entries else y


def _style(colours: Sequence[str]) -> str:
    """The style sheet of figures with every variable replaced by its colour: not every viewer knows variables."""
    sheet = files("cldrank.documents").joinpath("templates/figure.css").read_text(encoding="utf-8")
    light, dark = (
        re.sub(r"var\(--([a-z-]+)\)", lambda name, theme=theme: theme[name[1]], sheet)  # type: ignore[misc]
        for theme in (THEMES["light"], THEMES["dark"])
    )
    return f"{_FONT}{light}{IN_DARK} {{\n{dark}}}\n{series_style(colours)}"


def series_style(colours: Iterable[str] = COLOURS) -> str:
    """The colours of series as rules of a style sheet, for light and dark."""
    rules = ".{0} .line, .{0} .whisker {{ stroke: {1} }} .{0} .band, .{0} .mark {{ fill: {1} }}\n"
    names = sorted(set(colours))
    light, dark = ("".join(rules.format(name, COLOURS[name][theme]) for name in names) for theme in (0, 1))
    return f"{light}{IN_DARK} {{\n{dark}}}\n"
