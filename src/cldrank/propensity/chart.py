"""Curves of propensities as one self-contained SVG, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from os import PathLike

from cldrank.errors import UsageError
from cldrank.files import replacing
from cldrank.propensity.propensities import Propensities

WIDTH, HEIGHT = 640, 340
_LEFT, _RIGHT, _BOTTOM = 48, 14, 44
_LINE, _LETTER = 18.0, 6.8  # of the text: the height of a line, and about the width of a letter
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a")  # told apart by all eyes
_STYLE = (
    "svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#444}.grid{stroke:#e2e2e2}.one{stroke:#999}"
    "@media(prefers-color-scheme:dark){svg{background:#16181c}text{fill:#c8c8c8}.grid{stroke:#33363c}.one{stroke:#777}}"
)


@dataclass(frozen=True)
class Frame:
    """Where things are drawn: positions across, propensities up to `top`, below a head of so many lines."""

    size: int
    top: float
    step: float
    lines: int

    @property
    def room(self) -> float:
        """The width that a position has."""
        return (WIDTH - _LEFT - _RIGHT) / self.size

    @property
    def head(self) -> float:
        """How far down the curves begin."""
        return 16 + _LINE * self.lines

    def across(self, at: int) -> float:
        """Where a position is, counted from 0."""
        return _LEFT + self.room * (at + 0.5)

    def up(self, value: float) -> float:
        """Where a propensity is."""
        return self.head + (HEIGHT - self.head - _BOTTOM) * (1 - max(value, 0.0) / self.top)


def draw(curves: Mapping[str, Propensities], title: str = "Examination by position") -> str:
    """The curves with their intervals, by name.

    >>> draw({"assumed": Propensities.power(1, 3)}).count(", position ")
    3
    """
    if not curves:
        raise UsageError("there is no curve to draw.")
    size = max(len(curve) for curve in curves.values())
    top = max(float((curve.values if curve.high is None else curve.high).max()) for curve in curves.values())
    step = _step(top)
    rows = _rows(list(curves))
    frame = Frame(size, step * math.ceil(top / step - 1e-9), step, len(rows))
    parts = [_legend(rows), _axis(frame), _labels(frame)]
    for number, (name, curve) in enumerate(curves.items()):
        shift = (number - (len(curves) - 1) / 2) * min(7.0, 0.6 * frame.room / len(curves))
        parts.append(_curve(name, curve, _COLOURS[number % len(_COLOURS)], shift, frame))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"{''.join(parts)}</svg>"
    )


@dataclass(frozen=True, repr=False)
class Chart:
    """Curves drawn as SVG, which notebooks show by themselves; `svg` is the text of the picture."""

    svg: str
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Chart({', '.join(self.names)})"

    def _repr_svg_(self) -> str:
        return self.svg


def plot(curves: Mapping[str, Propensities], path: str | PathLike[str] | None) -> Chart | None:
    """Draw the curves into a file, or, without one, for a notebook."""
    if path is None:
        return Chart(draw(curves), tuple(curves))
    write(curves, path)
    return None


def write(
    curves: Mapping[str, Propensities], path: str | PathLike[str], title: str = "Examination by position"
) -> None:
    """Draw the curves into an SVG file."""
    if not str(path).lower().endswith(".svg"):
        raise UsageError(f"{path}: curves are drawn as SVG; name a file that ends in .svg.")
    with replacing(path) as temporary:
        temporary.write_text(draw(curves, title) + "\n", encoding="utf-8")


def _curve(name: str, curve: Propensities, colour: str, shift: float, frame: Frame) -> str:
    parts, line = [], []
    for at, value in enumerate(curve.values):
        x, y = frame.across(at) + shift, frame.up(float(value))
        line.append(f"{x:.1f},{y:.1f}")
        told = f"{name}, position {at + 1}: {value:.4g}"
        if curve.low is not None and curve.high is not None:
            low, high = float(curve.low[at]), float(curve.high[at])
            told += f" ({low:.4g} to {high:.4g})"
            parts.append(_interval(x, frame.up(low), frame.up(high), colour))
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"><title>{escape(told)}</title></circle>'
        )
    joined = f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" stroke-opacity="0.6"/>'
    return joined + "".join(parts)


def _interval(x: float, low: float, high: float, colour: str) -> str:
    """A bar with ends, which a point cannot hide; none where there is nothing to be uncertain of."""
    if low - high < 0.05:
        return ""
    ends = "".join(f"M{x - 3:.1f},{y:.1f}h6" for y in (low, high))
    return f'<path d="M{x:.1f},{low:.1f}V{high:.1f}{ends}" fill="none" stroke="{colour}" stroke-opacity="0.7"/>'


def _axis(frame: Frame) -> str:
    parts = []
    for index in range(round(frame.top / frame.step) + 1):
        value = index * frame.step
        y = frame.up(value)
        kind = "one" if abs(value - 1) < 1e-9 else "grid"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    return "".join(parts)


def _labels(frame: Frame) -> str:
    every = max(1, math.ceil(frame.size / 24))
    parts = [
        f'<text x="{frame.across(at):.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{at + 1}</text>'
        for at in range(0, frame.size, every)
    ]
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">position; examination relative to the first</text>'
    )
    return "".join(parts)


def _rows(names: list[str]) -> list[list[tuple[str, str, float]]]:
    """Names with their colours and where they begin, in as many rows as they need."""
    rows: list[list[tuple[str, str, float]]] = [[]]
    x = float(_LEFT)
    for number, name in enumerate(names):
        width = 30 + _LETTER * len(name)
        if rows[-1] and x + width > WIDTH - _RIGHT:
            rows.append([])
            x = float(_LEFT)
        rows[-1].append((name, _COLOURS[number % len(_COLOURS)], x))
        x += width
    return rows


def _legend(rows: list[list[tuple[str, str, float]]]) -> str:
    parts = []
    for number, row in enumerate(rows):
        y = 12 + _LINE * number
        for name, colour, x in row:
            parts.append(f'<circle cx="{x + 4:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            parts.append(f'<text x="{x + 13:.1f}" y="{y + 4:.1f}">{escape(name)}</text>')
    return "".join(parts)


def _step(top: float) -> float:
    """A round distance between grid lines, for at most six of them.

    >>> _step(1.0), _step(1.3), _step(14)
    (0.2, 0.5, 5.0)
    """
    size = 10.0 ** math.floor(math.log10(top))
    return next(part * size for part in (0.1, 0.2, 0.5, 1.0, 2.0) if top / (part * size) <= 6)
