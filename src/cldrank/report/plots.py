"""The figures of a section, as `cldrank.drawing` describes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cldrank.drawing.axis import Axis
from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.looks import SOLID, Kind, Look, looks
from cldrank.drawing.png import check_matplotlib, save_png
from cldrank.experiment.makers import Identity
from cldrank.experiment.results import Summary
from cldrank.report.labels import axis_name, key_name, setting_value
from cldrank.report.published import published
from cldrank.report.sections import Panel, Section, who_took_part

_LONGEST_LABEL = 18  # of a row

_MOST_LINES = 10  # of a figure; where there are more, trees have figures of their own

# A method has its colour and its marker in every report, a model its dash.
_METHODS = {
    "naive": ("grey", "cross"),
    "ips": ("amber", "square"),
    "heckman": ("purple", "down"),
    "rankagg": ("green", "up"),
    "cld": ("blue", "circle"),
    "cld-pair": ("red", "diamond"),
    "oracle": ("ink", "plus"),
    "xgboost": ("sky", "right"),
    "lightgbm": ("olive", "left"),
}
_DASHES: dict[str, tuple[float, ...]] = {"trees": SOLID, "mlp": (7, 3), "linear": (2, 2.5)}
_MORE_DASHES = ((9, 3, 2, 3), (5, 2, 2, 2, 2, 2), (12, 3))  # for the next of one method with one model


def method_looks(methods: Iterable[Identity]) -> dict[str, Look]:
    """A look for each method, the same in all figures of a report.

    >>> from cldrank.estimators import Naive
    >>> trees, mlp = (Identity(f"Naive {model}", Naive, model) for model in ("trees", "mlp"))
    >>> chosen = method_looks([Identity("MyRanker"), trees, mlp])
    >>> list(chosen), chosen["Naive mlp"].light == chosen["Naive trees"].light, chosen["Naive trees"].dash
    (['Naive mlp', 'MyRanker', 'Naive trees'], True, ())
    """
    known = {method.label: method for method in sorted(methods, key=lambda method: method.order)}
    fixed: dict[str, Kind] = {}
    for label, method in known.items():
        colour, marker = _METHODS.get(method.name, ("", ""))
        dashes = (_DASHES.get(method.model, SOLID), *_MORE_DASHES)
        free = [look for dash in dashes if (look := (colour, dash, marker)) not in fixed.values()]
        if colour and free:
            fixed[label.lower()] = free[0]
    return looks(known, fixed)


def figures(section: Section, chosen: Mapping[str, Look]) -> tuple[Figure, ...]:
    """The figures of a section: panel by panel, one for each measure. Panels share the axis of a measure."""
    found = {
        (_titled(measure, panel.label, name), panel, measure): _series(section, methods, panel, measure, chosen)
        for panel in section.panels
        for name, methods in _groups(section)
        for measure in section.measures
    }
    axes = {}
    for measure in section.measures:
        drawn = [p for (*_, other), lines in found.items() if other == measure for line in lines for p in line.points]
        if drawn:
            most = 8 if section.across else 5
            axes[measure] = Axis.around(_ends(drawn, whole=section.across is None), most, name=measure)
    return tuple(
        _figure(section, panel, title, series, axes[measure])
        for (title, panel, measure), series in found.items()
        if series
    )


def _groups(section: Section) -> list[tuple[str, list[str]]]:
    """The methods that are drawn together, under a name if not all are: curves soon hide one another."""
    if section.across is None or len(section.methods) <= _MOST_LINES:
        return [("", list(section.methods))]
    trees = [label for label, method in section.methods.items() if method.fits_trees]
    others = [label for label in section.methods if label not in trees]
    return [(name, methods) for name, methods in (("linear and neural", others), ("trees", trees)) if methods]


def _titled(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def _figure(section: Section, panel: Panel, title: str, series: tuple[Series, ...], values: Axis) -> Figure:
    if section.across is not None:
        along = Axis.across(panel.places, _axis_name(section, section.across), key_name(section.across))
        return Figure(title, series, along, values)
    rows = tuple(
        replace(line, points=tuple(replace(point, at=row) for point in line.points)) for row, line in enumerate(series)
    )
    has_references = any(point.reference is not None for line in series for point in line.points)
    labels = [_shortened(line.name) for line in series]
    return Figure(title, rows, Axis.of_rows(labels), values, "rows", references="published" if has_references else "")


def _series(
    section: Section, methods: Iterable[str], panel: Panel, measure: str, chosen: Mapping[str, Look]
) -> tuple[Series, ...]:
    found = []
    for method in methods:
        points = []
        for index, setting in enumerate(panel.settings):
            cell = section.known(setting, method, measure)
            if cell is not None:
                beside = published(section, setting).get((method, measure)) if section.across is None else None
                points.append(_point(cell, panel.places[index] if panel.places else 0.0, beside))
        if points:
            found.append(Series(method, tuple(points), chosen[method]))
    return tuple(found)


def _ends(drawn: Sequence[Point], whole: bool) -> list[float]:
    """What an axis must reach: all means, and `whole` intervals or those of curves as far as means stay readable.

    With few seeds, intervals can be many times as wide as all that lies between methods. No measure is below 0.
    """
    means = [value for point in drawn for value in (point.value, point.reference) if value is not None]
    least, most = min(means), max(means)
    reach = math.inf if whole or least == most else most - least
    lowest, highest = max(least - reach, min(least, 0.0)), most + reach
    ends = [min(max(end, lowest), highest) for point in drawn for end in (point.low, point.high) if end is not None]
    return [*means, *ends]


def _axis_name(section: Section, across: str) -> str:
    """What is written below the axis; an assumed value beside the truth."""
    truth = section.fixed.get("simulation.eta")
    if across == "simulation.assumed_eta" and truth:
        return f"{axis_name(across)} (true η = {setting_value(truth)})"
    return axis_name(across)


def _point(cell: Summary, at: float, beside: float | None) -> Point:
    interval = cell.interval
    if interval is None:
        return Point(at, cell.mean, note=f"{cell.mean:.4f}", reference=beside)
    return Point(at, cell.mean, interval.low, interval.high, f"{interval:.4f}", beside)


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def save_pictures(sections: Sequence[Section], folder: Path) -> tuple[Path, ...]:
    """Draw the figures of each section into `<section>.png`; sections without results have none."""
    check_matplotlib()
    chosen = method_looks(who_took_part(sections))
    written = []
    for section in sections:
        drawn = figures(section, chosen)
        if drawn:
            written.append(folder / f"{section.name}.png")
            save_png(drawn, written[-1], columns=len(section.measures))
    return tuple(written)
