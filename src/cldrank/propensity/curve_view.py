"""What a notebook shows of propensities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cldrank.drawing.notebook import MOST_ROWS, ViewTable, left_out, notebook_view
from cldrank.propensity.chart import chart

if TYPE_CHECKING:
    from cldrank.propensity.affine_clicks import AffineClicks
    from cldrank.propensity.propensities import Propensities

_MOST_COLUMNS = 8


def curve_view(curve: Propensities) -> str:
    """The curve as a figure, and its values with what is known about them."""
    values = {"at least" if curve.bound else "examined": [f"{value:.4g}" for value in curve.values]}
    if curve.low is not None and curve.high is not None:
        ends = zip(curve.low, curve.high, strict=True)
        values[f"{100 * (curve.confidence or 0):g}% interval"] = [_ends(low, high) for low, high in ends]
    if curve.comparisons is not None:
        values["comparisons"] = [f"{number:,.0f}" for number in curve.comparisons]
    goodness = [] if curve.goodness is None else [str(curve.goodness)]
    return notebook_view(
        "Propensities",
        about=curve.origin,
        pictures={"Examination by position": chart({curve.method or curve.origin: curve}).svg},
        tables=[_by_position(values)],
        notes=[*left_out(min(len(curve), MOST_ROWS), len(curve), "positions"), *goodness, *curve.notes],
    )


def affine_view(affine: AffineClicks) -> str:
    """Slopes and bases by position."""
    values: dict[str, list[str]] = {}
    for name, part in (("slope", affine.slope), ("base", affine.base)):
        values[name] = [f"{value:.4g}" for value in part]
        if affine.confidence is not None:
            ends = zip(*affine.interval(name), strict=True)
            values[f"{100 * affine.confidence:g}% interval of the {name}"] = [_ends(low, high) for low, high in ends]
    notes = [*left_out(min(len(affine), MOST_ROWS), len(affine), "positions"), *affine.notes]
    about = f"P(click) = slope · relevance + base; {affine.origin}"
    return notebook_view("AffineClicks", about=about, tables=[_by_position(values)], notes=notes)


def segments_view(curves: Mapping[str, Propensities]) -> str:
    """The curves of all segments in one figure, and their values."""
    depth = max(map(len, curves.values()), default=0)
    shown = min(depth, _MOST_COLUMNS)
    head = ("segment", *(str(at + 1) for at in range(shown)))
    rows = [
        (name, *(f"{value:.4g}" for value in rho.values[:shown]), *[""] * (shown - len(rho)))
        for name, rho in curves.items()
    ]
    return notebook_view(
        "SegmentPropensities",
        about=f"{len(curves)} segments, examination by position",
        pictures={"Examination by position and segment": chart(curves).svg} if curves else {},
        tables=[ViewTable(head, rows, {"segment": False})],
        notes=left_out(shown, depth, "positions"),
    )


def _ends(low: float, high: float) -> str:
    return "" if low == high else f"{low:.3g} … {high:.3g}".replace("-", "−")


def _by_position(values: Mapping[str, list[str]]) -> ViewTable:
    rows = list(zip(*values.values(), strict=True))[:MOST_ROWS]
    return ViewTable(("position", *values), [(at, *row) for at, row in enumerate(rows, start=1)])
