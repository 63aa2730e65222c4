"""Figures as one picture: an SVG file that needs no page around it, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from markupsafe import Markup

from cldrank.drawing.figure import Figure
from cldrank.drawing.looks import IN_DARK, THEMES, Look, style
from cldrank.drawing.svg import LETTER, draw_figure, element, height, ring, swatch, text_at

_GAP, _EDGE, _LINE, _HEAD = 18, 14, 24, 24
_FONT = 'text { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }\n'


def picture(figures: Sequence[Figure], columns: int = 1) -> str:
    """The figures, `columns` in a row, under a legend.

    >>> from cldrank.drawing.axis import Axis
    >>> picture([Figure("Clicks", (), Axis.of_labels("ab"), Axis.from_zero(1))])[:42]
    '<svg xmlns="http://www.w3.org/2000/svg" vi'
    """
    across = min(columns, len(figures))
    wide = figures[0].width
    width = 2 * _EDGE + across * wide + (across - 1) * _GAP
    known = looks_in(figures)
    parts, top = _legend(known, figures[0].references, width)
    for first in range(0, len(figures), across):
        row = figures[first : first + across]
        for place, figure in enumerate(row):
            x = _EDGE + place * (wide + _GAP)
            parts.append(text_at(x + 6, top + 14, figure.title, kind="title"))
            parts.append(draw_figure(figure, x=x, y=top + _HEAD, width=wide, height=height(figure)))
        top += _HEAD + max(map(height, row)) + _GAP
    size = {"viewBox": f"0 0 {width} {top}", "width": width, "height": top}
    ground = element("rect", class_="paper", width=width, height=top)
    name = element("title", "; ".join(dict.fromkeys(figure.title for figure in figures)))
    sheet = element("style", Markup(_style(list(known.values()))))  # noqa: S704  # of our own making
    return f"{element('svg', name, sheet, ground, *parts, xmlns='http://www.w3.org/2000/svg', **size)}\n"


def looks_in(figures: Sequence[Figure]) -> dict[str, Look]:
    """The looks of all series in the figures, in the order of their slots."""
    found = {series.name: series.look for figure in figures for series in figure.series if series.look is not None}
    return dict(sorted(found.items(), key=lambda entry: entry[1].slot))


def _legend(known: Mapping[str, Look], references: str, width: int) -> tuple[list[Markup], int]:
    """The series with their lines, in as many rows as they need, and where the legend ends."""
    parts, x, y = [], float(_EDGE), _EDGE
    entries: list[tuple[str, Look | None]] = [*known.items(), *([(references, None)] if references else [])]
    for name, look in entries:
        room = 34 + 6 + LETTER * len(name) + 18
        if x > _EDGE and x + room > width:
            x, y = float(_EDGE), y + _LINE
        parts.append(ring(x + 17, y + 6) if look is None else swatch(look, x=x, y=y))
        parts.append(text_at(x + 40, y + 10, name, kind="label"))
        x += room
    return parts, y + _LINE + 8 if entries else y


def _style(known: Sequence[Look]) -> str:
    """The style sheet of figures with every variable replaced by its colour: not every viewer knows variables."""
    sheet = files("cldrank.drawing").joinpath("templates/figure.css").read_text(encoding="utf-8")
    light, dark = (
        re.sub(r"var\(--([a-z-]+)\)", lambda found, theme=theme: theme[found[1]], sheet)  # type: ignore[misc]
        for theme in (THEMES["light"], THEMES["dark"])
    )
    return f"{_FONT}{light}{IN_DARK} {{\n{dark}}}\n{style(known)}"
