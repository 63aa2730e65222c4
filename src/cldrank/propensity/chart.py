"""Curves of propensities as one SVG picture that needs no page around it, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

from cldrank.drawing.axis import Axis
from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.looks import looks
from cldrank.drawing.picture import picture
from cldrank.errors import UsageError
from cldrank.files import save_text
from cldrank.propensity.propensities import Propensities

_TITLE = "Examination by position"
_WIDTH, _HEIGHT = 640, 340
_APART = 0.012  # between the curves at a position, where the whole axis is 1


@dataclass(frozen=True, repr=False)
class Chart:
    """Curves drawn as SVG, which notebooks show by themselves; `svg` is the text of the picture."""

    svg: str
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Chart({', '.join(self.names)})"

    def _repr_svg_(self) -> str:
        return self.svg


def chart(curves: Mapping[str, Propensities], title: str = _TITLE) -> Chart:
    """Draw curves with their intervals, by name.

    >>> chart({"assumed": Propensities.power(1, 3)}).svg.count(", position ")
    3
    """
    if not curves:
        raise UsageError("there is no curve to draw.")
    positions = [str(at + 1) for at in range(max(map(len, curves.values())))]
    along = Axis.of_labels(positions, name="position; examination relative to the first")
    top = max(float((curve.values if curve.high is None else curve.high).max()) for curve in curves.values())
    curves = {f"{name} (lower bound)" if curve.bound else name: curve for name, curve in curves.items()}
    chosen = looks(curves)
    apart = min(_APART * len(positions), 0.6 / len(curves))
    series = tuple(
        Series(name, _points(name, curve, (number - (len(curves) - 1) / 2) * apart), chosen[name])
        for number, (name, curve) in enumerate(curves.items())
    )
    figure = Figure(title, series, along, Axis.from_zero(top), "dots", _WIDTH, _HEIGHT, marked=1.0)
    return Chart(picture([figure]), tuple(curves))


def plot(curves: Mapping[str, Propensities], path: str | PathLike[str] | None) -> Chart | None:
    """Draw curves into a file, or, without one, for a notebook."""
    if path is None:
        return chart(curves)
    save_chart(curves, path)
    return None


def save_chart(curves: Mapping[str, Propensities], path: str | PathLike[str], title: str = _TITLE) -> None:
    """Draw curves into an SVG file."""
    if not str(path).lower().endswith(".svg"):
        raise UsageError(f"{path}: curves are drawn as SVG; name a file that ends in .svg.")
    save_text(path, chart(curves, title).svg)


def _points(name: str, curve: Propensities, shift: float) -> tuple[Point, ...]:
    points = []
    for at, value in enumerate(map(float, curve.values)):
        note, low, high = f"{name}, position {at + 1}: {value:.4g}", None, None
        if curve.low is not None and curve.high is not None:
            low, high = float(curve.low[at]), float(curve.high[at])
            note += f" ({low:.4g} to {high:.4g})"
        points.append(Point(at + shift, value, low, high, note))
    return tuple(points)
