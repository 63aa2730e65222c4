"""What a figure shows, before anyone decides whether it becomes SVG or PNG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cldrank.drawing.axis import Axis
from cldrank.drawing.looks import Look


@dataclass(frozen=True)
class Point:
    """A value with its interval, where it has one.

    at           its place on the axis `along`
    note         what is said when it is pointed at
    reference    a value to compare it with, drawn as a ring
    """

    at: float
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    reference: float | None = None


@dataclass(frozen=True)
class Series:
    """Points that belong together; without a look they have the page's own colour."""

    name: str
    points: tuple[Point, ...]
    look: Look | None = None


@dataclass(frozen=True)
class Figure:
    """A chart: series of points, `along` one axis, with `values` on the other.

    kind          "curves": lines with bands · "dots": lines with whiskers · "bars": columns from 0 ·
                  "rows": one row per series, whose values run across
    marked        a value with a grid line that stands out
    references    what the rings are, such as "published"; empty where there are none
    """

    title: str
    series: tuple[Series, ...]
    along: Axis
    values: Axis
    kind: Literal["curves", "dots", "bars", "rows"] = "curves"
    width: int = 360
    height: int = 264
    marked: float | None = None
    references: str = ""

    def _repr_svg_(self) -> str:
        from cldrank.drawing.picture import picture

        return picture([self])

    @property
    def is_cut_off(self) -> bool:
        """Whether an interval reaches beyond the axis."""
        ends = [end for series in self.series for point in series.points for end in (point.low, point.high)]
        return any(end is not None and end != self.values.within(end) for end in ends)
