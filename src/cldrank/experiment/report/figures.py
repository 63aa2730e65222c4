"""What the figures of a block show; `svg` and `pictures` draw them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cldrank.experiment.report.axis import Axis
from cldrank.experiment.report.contents import Block
from cldrank.experiment.report.published import published
from cldrank.experiment.report.words import axis_name, key_name, number
from cldrank.experiment.results import Summary


@dataclass(frozen=True)
class Dot:
    """A mean with its interval, where there is one.

    place       its value on the horizontal axis of `Curves`; 0 in `Ranges`
    told        the mean and interval in words
    published   what the paper reports, where it does
    """

    place: float
    value: float
    low: float | None
    high: float | None
    told: str
    published: float | None = None


@dataclass(frozen=True)
class Series:
    """What one method contributes to a figure."""

    method: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Figure:
    """One measure in one panel.

    Curves run along `across`; where that is None, each method has one dot in a row of its own, and `values` is the
    horizontal axis.

    name, key    what stands below the horizontal axis, and the same in one or two words
    """

    measure: str
    panel: str
    series: tuple[Series, ...]
    values: Axis
    across: Axis | None = None
    name: str = ""
    key: str = ""

    @property
    def cut_off(self) -> bool:
        """Whether an interval reaches beyond the axis."""
        ends = [end for line in self.series for dot in line.dots for end in (dot.low, dot.high) if end is not None]
        return bool(ends) and (min(ends) < self.values.low or max(ends) > self.values.high)

    @property
    def title(self) -> str:
        """The measure, and the panel if there are several."""
        return f"{self.measure} · {self.panel}" if self.panel else self.measure


def figures(block: Block) -> tuple[Figure, ...]:
    """The figures of a block: panel by panel, a figure for each measure. Panels share the axis of a measure."""
    found = []
    for panel in block.panels:
        for measure in block.measures:
            series = []
            for method in block.methods:
                dots = []
                for index, setting in enumerate(panel.settings):
                    cell = block.known(setting, method, measure)
                    if cell is not None:
                        beside = published(block, setting).get((method, measure)) if block.across is None else None
                        place = panel.places[index] if panel.places else 0.0
                        dots.append(_dot(cell, place, beside))
                if dots:
                    series.append(Series(method, tuple(dots)))
            found.append((panel, measure, tuple(series)))
    axes = {}
    for measure in block.measures:
        drawn = [dot for _, other, series in found if other == measure for line in series for dot in line.dots]
        if drawn:
            axes[measure] = Axis.around(_ends(drawn, block.across is None), marks=8 if block.across else 5)
    return tuple(
        Figure(
            measure,
            panel.label,
            series,
            axes[measure],
            Axis.across(panel.places) if block.across else None,
            _name(block) if block.across else measure,
            key_name(block.across) if block.across else "",
        )
        for panel, measure, series in found
        if series
    )


def _ends(drawn: Sequence[Dot], whole: bool) -> list[float]:
    """What an axis must reach: all means, and `whole` intervals or those of curves as far as means stay readable.

    With few seeds, intervals can be many times as wide as all that lies between methods. No measure is below 0.
    """
    means = [value for dot in drawn for value in (dot.value, dot.published) if value is not None]
    least, most = min(means), max(means)
    reach = math.inf if whole or least == most else most - least
    lowest, highest = max(least - reach, min(least, 0.0)), most + reach
    ends = [min(max(end, lowest), highest) for dot in drawn for end in (dot.low, dot.high) if end is not None]
    return [*means, *ends]


def _name(block: Block) -> str:
    """What stands below the axis; an assumed value beside the truth."""
    name = axis_name(block.across or "")
    truth = block.fixed.get("simulation.eta")
    return f"{name} (true η = {number(truth)})" if block.across == "simulation.assumed_eta" and truth else name


def _dot(cell: Summary, place: float, beside: float | None) -> Dot:
    interval = cell.interval
    told = f"{cell.mean:.4f}" if interval is None else f"{interval:.4f}"
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return Dot(place, cell.mean, low, high, told, beside)
