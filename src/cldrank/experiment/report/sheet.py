"""All figures of a block on one sheet: a picture in SVG that stands alone, on white."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cldrank.experiment.report.figures import Figure
from cldrank.experiment.report.palette import Look
from cldrank.experiment.report.svg import WIDTH, draw, height, swatch
from cldrank.pages.svg import text

_GAP, _EDGE, _LINE, _LETTER = 18, 14, 24, 7.2
_STYLE = """
text { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; font-size: 12px; }
text { fill: #626a73; }
.label, .key { fill: #1f2328; }
.title { fill: #1f2328; font-size: 14px; font-weight: 600; }
.grid { stroke: #ececea; } .ground { stroke: #b9bdc2; }
.line { fill: none; stroke-width: 1.9; stroke-linejoin: round; }
.band { fill-opacity: 0.15; } .mark { stroke: #fff; stroke-width: 0.7; } .whisker { stroke-width: 2; fill: none; }
.published { fill: none; stroke: #626a73; stroke-width: 1.4; } .cursor { display: none; }
"""


def sheet(figures: Sequence[Figure], looks: Mapping[str, Look], columns: int) -> str:
    """The figures in rows of so many, under a legend; no variables in the style, which not every viewer knows."""
    shown = [name for name in looks if any(name == series.method for figure in figures for series in figure.series)]
    across = min(columns, len(figures))
    width = 2 * _EDGE + across * WIDTH + (across - 1) * _GAP
    legend, top = _legend([(name, looks[name]) for name in shown], figures, width)
    parts = [*legend]
    for first in range(0, len(figures), across):
        row = figures[first : first + across]
        for place, figure in enumerate(row):
            x = _EDGE + place * (WIDTH + _GAP)
            parts.append(text(x + 6, top + 14, figure.title, kind="title"))
            size = f'x="{x}" y="{top + 24}" width="{WIDTH}" height="{height(figure)}"'
            parts.append(draw(figure, looks).replace("<svg ", f"<svg {size} ", 1))
        top += 24 + max(map(height, row)) + _GAP
    colours = "".join(
        f".m{look.slot} .line, .m{look.slot} .whisker {{ stroke: {look.light} }} "
        f".m{look.slot} .band, .m{look.slot} .mark {{ fill: {look.light} }}\n"
        for look in (looks[name] for name in shown)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}">'
        f"<style>{_STYLE}{colours}</style>"
        f'<rect width="{width}" height="{top}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _legend(methods: Sequence[tuple[str, Look]], figures: Sequence[Figure], width: int) -> tuple[list[str], int]:
    """The methods with their lines, in as many rows as they need, and where the legend ends."""
    parts, x, y = [], float(_EDGE), _EDGE
    entries: list[tuple[str, Look | None]] = list(methods)
    if any(dot.published is not None for figure in figures for series in figure.series for dot in series.dots):
        entries.append(("published", None))
    for name, look in entries:
        room = 34 + 6 + _LETTER * len(name) + 18
        if x > _EDGE and x + room > width:
            x, y = float(_EDGE), y + _LINE
        if look is None:
            parts.append(f'<circle class="published" cx="{x + 17:.1f}" cy="{y + 6}" r="4.4"/>')
        else:
            parts.append(swatch(look).replace("<svg ", f'<svg x="{x:.1f}" y="{y}" ', 1))
        parts.append(text(x + 40, y + 10, name, kind="key"))
        x += room
    return parts, y + _LINE + 8
