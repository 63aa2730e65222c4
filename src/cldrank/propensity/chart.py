"""Curves of propensities as one SVG picture that needs no page around it, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType

from cldrank.drawing.axis import Axis
from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.looks import looks
from cldrank.drawing.picture import picture
from cldrank.errors import UsageError
from cldrank.files import save_text
from cldrank.propensity.propensities import Propensities
from cldrank.wording import some

_TITLE = "Examination by position"
_SIZE = (640, 340)  # width and height
NO_TRUTH: Mapping[str, Propensities] = MappingProxyType({})
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


def chart(
    curves: Mapping[str, Propensities], title: str = _TITLE, truth: Mapping[str, Propensities] = NO_TRUTH
) -> Chart:
    """Draw curves with their intervals, by name; where the `truth` of a name is known, it is drawn as rings.

    >>> chart({"assumed": Propensities.power(1, 3)}).svg.count(", position ")
    3
    """
    figure = curve_figure(curves, title, truth)
    return Chart(picture([figure]), tuple(series.name for series in figure.series))


def curve_figure(
    curves: Mapping[str, Propensities],
    title: str = _TITLE,
    truth: Mapping[str, Propensities] = NO_TRUTH,
    size: tuple[int, int] = _SIZE,
) -> Figure:
    """The curves as a figure, all in one, for a picture or a page."""
    if not curves:
        raise UsageError("there is no curve to draw.")
    strange = next((name for name in truth if name not in curves), None)
    if strange is not None:
        raise UsageError(f"there is no curve {strange!r} to compare with the truth, only {some(curves)}.")
    positions = [str(at + 1) for at in range(max(map(len, curves.values())))]
    along = Axis.of_labels(positions, name="position; examination relative to the first")
    top = max(_highest(curve) for curve in (*curves.values(), *truth.values()))
    named = {name: f"{name} (lower bound)" if curve.bound else name for name, curve in curves.items()}
    chosen = looks(named.values())
    apart = min(_APART * len(positions), 0.6 / len(curves))
    series = tuple(
        Series(
            label,
            _points(label, curves[name], (number - (len(curves) - 1) / 2) * apart, truth.get(name)),
            chosen[label],
        )
        for number, (name, label) in enumerate(named.items())
    )
    references = "truth" if truth else ""
    return Figure(title, series, along, Axis.from_zero(top), "dots", *size, marked=1.0, references=references)


def plot(curves: Mapping[str, Propensities], path: str | PathLike[str] | None) -> Chart | None:
    """Draw curves into a file, or, without one, for a notebook."""
    if path is None:
        return chart(curves)
    save_chart(curves, path)
    return None


def save_chart(
    curves: Mapping[str, Propensities],
    path: str | PathLike[str],
    title: str = _TITLE,
    truth: Mapping[str, Propensities] = NO_TRUTH,
) -> None:
    """Draw curves into an SVG file, as `chart` does."""
    if not str(path).lower().endswith(".svg"):
        raise UsageError(f"{path}: curves are drawn as SVG; name a file that ends in .svg.")
    save_text(path, chart(curves, title, truth).svg)


def _highest(curve: Propensities) -> float:
    return float((curve.values if curve.high is None else curve.high).max())


def _points(name: str, curve: Propensities, shift: float, truth: Propensities | None) -> tuple[Point, ...]:
    points = []
    for at, value in enumerate(map(float, curve.values)):
        note, low, high = f"{name}, position {at + 1}: {value:.4g}", None, None
        if curve.low is not None and curve.high is not None:
            low, high = float(curve.low[at]), float(curve.high[at])
            note += f" ({low:.4g} to {high:.4g})"
        true = None if truth is None or at >= len(truth) else float(truth.values[at])
        points.append(Point(at + shift, value, low, high, note, true))
    return tuple(points)
