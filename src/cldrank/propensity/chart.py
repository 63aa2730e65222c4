"""Curves of propensities as one self-contained SVG, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from os import PathLike

from cldrank.errors import UsageError
from cldrank.files import replacing
from cldrank.propensity.propensities import Propensities

WIDTH, HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 14, 44
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a")  # told apart by all eyes
_STYLE = (
    "svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#444}.grid{stroke:#e2e2e2}.one{stroke:#999}"
    "@media(prefers-color-scheme:dark){svg{background:#16181c}text{fill:#c8c8c8}.grid{stroke:#33363c}.one{stroke:#777}}"
)


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
    top = step * math.ceil(top / step - 1e-9)
    parts = [_axis(top, step), _labels(size)]
    for number, (name, curve) in enumerate(curves.items()):
        shift = (number - (len(curves) - 1) / 2) * min(7.0, 0.6 * _room(size) / len(curves))
        parts.append(_curve(name, curve, _COLOURS[number % len(_COLOURS)], shift, size, top))
    parts.append(_legend(list(curves)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"{''.join(parts)}</svg>"
    )


def write(
    curves: Mapping[str, Propensities], path: str | PathLike[str], title: str = "Examination by position"
) -> None:
    """Draw the curves into an SVG file."""
    if not str(path).lower().endswith(".svg"):
        raise UsageError(f"{path}: curves are drawn as SVG; name a file that ends in .svg.")
    with replacing(path) as temporary:
        temporary.write_text(draw(curves, title) + "\n", encoding="utf-8")


def _curve(name: str, curve: Propensities, colour: str, shift: float, size: int, top: float) -> str:
    parts, line = [], []
    for at, value in enumerate(curve.values):
        x, y = _across(at, size) + shift, _up(float(value), top)
        line.append(f"{x:.1f},{y:.1f}")
        told = f"{name}, position {at + 1}: {value:.4g}"
        if curve.low is not None and curve.high is not None:
            low, high = float(curve.low[at]), float(curve.high[at])
            told += f" ({low:.4g} to {high:.4g})"
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_up(low, top):.1f}" y2="{_up(high, top):.1f}" '
                f'stroke="{colour}" stroke-width="2" stroke-opacity="0.55"/>'
            )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"><title>{escape(told)}</title></circle>'
        )
    joined = f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" stroke-opacity="0.6"/>'
    return joined + "".join(parts)


def _axis(top: float, step: float) -> str:
    parts = []
    for index in range(round(top / step) + 1):
        value = index * step
        y = _up(value, top)
        kind = "one" if abs(value - 1) < 1e-9 else "grid"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    return "".join(parts)


def _labels(size: int) -> str:
    every = max(1, math.ceil(size / 24))
    parts = [
        f'<text x="{_across(at, size):.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{at + 1}</text>'
        for at in range(0, size, every)
    ]
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">position; examination relative to the first</text>'
    )
    return "".join(parts)


def _legend(names: list[str]) -> str:
    parts = []
    for number, name in enumerate(names):
        y = _TOP + 14 + 17 * number
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<circle cx="{WIDTH - _RIGHT - 12}" cy="{y}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - _RIGHT - 22}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
    return "".join(parts)


def _room(size: int) -> float:
    return (WIDTH - _LEFT - _RIGHT) / size


def _across(at: int, size: int) -> float:
    return _LEFT + _room(size) * (at + 0.5)


def _up(value: float, top: float) -> float:
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - max(value, 0.0) / top)


def _step(top: float) -> float:
    """A round distance between grid lines, for at most six of them.

    >>> _step(1.0), _step(1.3), _step(14)
    (0.2, 0.5, 5.0)
    """
    size = 10.0 ** math.floor(math.log10(top))
    return next(part * size for part in (0.1, 0.2, 0.5, 1.0, 2.0) if top / (part * size) <= 6)
