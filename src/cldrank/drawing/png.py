"""Figures as PNG, drawn by Matplotlib from the same description as the SVG."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from cldrank.drawing.figure import Figure, Series
from cldrank.drawing.looks import THEMES, Look
from cldrank.drawing.picture import looks_in
from cldrank.errors import MissingDependencyError
from cldrank.files import replacing

_MARKERS = {
    "circle": "o", "square": "s", "up": "^", "down": "v", "diamond": "D", "cross": "X", "plus": "P", "left": "<",
    "right": ">",
}  # fmt: skip
_COLOURS = THEMES["light"]


def save_png(figures: Sequence[Figure], path: str | PathLike[str], columns: int = 1, dpi: int = 200) -> None:
    """Draw the figures into a file, `columns` in a row, under a legend."""
    check_matplotlib()
    import matplotlib.style

    with matplotlib.style.context("default"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a label in a script that the font lacks
        sheet = _sheet(figures, columns)
        with replacing(path) as temporary:
            sheet.savefig(temporary, format="png", dpi=dpi)


def check_matplotlib() -> None:
    """Refuse where Matplotlib is missing."""
    try:
        import matplotlib.style  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "pictures as PNG need Matplotlib: pip install 'cldrank[report]'; the format md draws SVG without it."
        ) from None


def _sheet(figures: Sequence[Figure], columns: int) -> Any:
    from matplotlib.figure import Figure as Sheet
    from matplotlib.lines import Line2D

    across = min(columns, len(figures))
    down = -(-len(figures) // across)
    rows = max(len(figure.series) for figure in figures)
    high = 1.0 + 0.24 * rows if figures[0].kind == "rows" else 2.5
    sheet = Sheet(figsize=(3.5 * across + 0.2, high * down + 0.6), layout="constrained")
    for place, figure in enumerate(figures, start=1):
        axes = sheet.add_subplot(down, across, place)
        for series in figure.series:
            _draw(axes, series, figure)
        _dress(axes, figure)
    entries = {name: _line(look) for name, look in looks_in(figures).items()}
    if figures[0].references:
        entries[figures[0].references] = _ring()
    legend = sheet.legend(
        handles=[Line2D([], [], **look, label="series") for look in entries.values()], loc="outside upper center",
        ncols=_columns(entries, 3.5 * across), frameon=False, fontsize=8.5, handlelength=3.2,
    )  # fmt: skip
    for entry, name in zip(legend.get_texts(), entries, strict=True):
        _write(entry, name)
    return sheet


def _columns(names: Iterable[str], inches: float) -> int:
    """How many names fit side by side in a legend, each with its line."""
    longest = max(map(len, names), default=0)
    return max(1, int(inches / (0.6 + 0.078 * longest)))


def _draw(axes: Any, series: Series, figure: Figure) -> None:
    line = _line(series.look)
    places = [point.at for point in series.points]
    values = [point.value for point in series.points]
    low, high = (
        [math.nan if end is None else end for end in ends]
        for ends in zip(*((point.low, point.high) for point in series.points), strict=True)
    )
    if figure.kind != "rows":
        axes.plot(places, values, **line)
        axes.fill_between(places, low, high, color=line["color"], alpha=0.15, linewidth=0)
        return
    axes.hlines(places, low, high, color=line["color"], linewidth=1.6)
    references = [(point.reference, point.at) for point in series.points if point.reference is not None]
    axes.plot(*zip(*references, strict=True), **_ring()) if references else None
    axes.plot(values, places, **{**line, "linestyle": "none", "markersize": 5})


def _dress(axes: Any, figure: Figure) -> None:
    """Axes, grid and title."""
    sideways = figure.kind == "rows"
    across, up = (figure.values, figure.along) if sideways else (figure.along, figure.values)
    axes.set_xscale("log" if across.logarithmic else "linear")
    axes.set_xlim(across.low, across.high)
    axes.set_xticks(across.ticks, across.labels)
    axes.set_xticks([], minor=True)
    axes.set_ylim(up.low, up.high)
    axes.set_yticks(up.ticks, up.labels)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.grid(axis="x" if sideways else "y", color=_COLOURS["grid"], linewidth=0.7)
    _write(axes.set_title("", fontsize=10, fontweight="bold", loc="left", color=_COLOURS["ink"]), figure.title)
    _write(axes.set_xlabel("", fontsize=8.5, color=_COLOURS["quiet"]), across.name)
    axes.tick_params(labelsize=8, colors=_COLOURS["quiet"], length=2.5)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#b9bdc2")
    axes.set_axisbelow(True)


def _line(look: Look | None) -> dict[str, Any]:
    found = {"color": _COLOURS["accent"], "linewidth": 1.4, "marker": "o", "markersize": 4.4}
    if look is not None:
        found |= {"color": look.light, "marker": _MARKERS[look.marker]}
        found["linestyle"] = (0, tuple(length / 2 for length in look.dash)) if look.dash else "-"
    return found


def _ring() -> dict[str, Any]:
    return {
        "color": _COLOURS["quiet"], "marker": "o", "markersize": 6.5, "markerfacecolor": "none", "linestyle": "none",
    }  # fmt: skip


def _write(text: Any, content: str) -> None:
    """Set a text as it is: a $ in a label does not start a formula."""
    text.set_parse_math(False)
    text.set_text(content)
