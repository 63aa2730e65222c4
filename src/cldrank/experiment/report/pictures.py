"""The figures as PNG, drawn by Matplotlib: one picture for each block."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cldrank.errors import MissingDependencyError
from cldrank.experiment.report.contents import Block
from cldrank.experiment.report.figures import Figure, figures
from cldrank.experiment.report.palette import Look, looks
from cldrank.experiment.results import method_order
from cldrank.files import replacing

_MARKERS = {
    "circle": "o", "square": "s", "up": "^", "down": "v", "diamond": "D", "cross": "X", "plus": "P", "left": "<",
    "right": ">",
}  # fmt: skip
_INK, _QUIET, _GRID = "#1f2328", "#626a73", "#e6e6e3"


def save(blocks: Sequence[Block], folder: Path, dpi: int = 200) -> tuple[Path, ...]:
    """Draw the figures of each block into `<block>.png`; blocks without results have none."""
    try:
        import matplotlib.style
    except ImportError:
        raise MissingDependencyError(
            "pictures as PNG need Matplotlib: pip install 'cldrank[report]'; the format md draws SVG without it."
        ) from None
    chosen = looks(sorted({method for block in blocks for method in block.methods}, key=method_order))
    written = []
    for block in blocks:
        drawn = figures(block)
        if not drawn:
            continue
        with matplotlib.style.context("default"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a label in a script the font has not
            sheet = _sheet(drawn, chosen, len(block.measures))
            with replacing(folder / f"{block.name}.png") as temporary:
                sheet.savefig(temporary, format="png", dpi=dpi)
        written.append(folder / f"{block.name}.png")
    return tuple(written)


def _sheet(drawn: Sequence[Figure], chosen: Mapping[str, Look], columns: int) -> Any:
    from matplotlib.figure import Figure as Sheet
    from matplotlib.lines import Line2D

    across = min(columns, len(drawn))
    down = -(-len(drawn) // across)
    high = 2.5 if drawn[0].across else 1.0 + 0.24 * max(len(figure.series) for figure in drawn)
    sheet = Sheet(figsize=(3.5 * across + 0.2, high * down + 0.6), layout="constrained")
    for place, figure in enumerate(drawn, start=1):
        axes = sheet.add_subplot(down, across, place)
        _curves(axes, figure, chosen) if figure.across else _ranges(axes, figure, chosen)
        _dress(axes, figure)
    shown = [name for name in chosen if any(name == series.method for figure in drawn for series in figure.series)]
    handles = [Line2D([], [], **_line(chosen[name]), label="method") for name in shown]
    if any(dot.published is not None for figure in drawn for series in figure.series for dot in series.dots):
        handles.append(Line2D([], [], **_published(), label="method"))
        shown.append("published")
    legend = sheet.legend(
        handles=handles, loc="outside upper center", ncols=min(len(shown), 3 * across), frameon=False, fontsize=8.5,
        handlelength=3.2,
    )  # fmt: skip
    for entry, name in zip(legend.get_texts(), shown, strict=True):
        _write(entry, name)
    return sheet


def _curves(axes: Any, figure: Figure, chosen: Mapping[str, Look]) -> None:
    for series in figure.series:
        look = chosen[series.method]
        places = [dot.place for dot in series.dots]
        axes.plot(places, [dot.value for dot in series.dots], **_line(look))
        low = [float("nan") if dot.low is None else dot.low for dot in series.dots]
        high = [float("nan") if dot.high is None else dot.high for dot in series.dots]
        axes.fill_between(places, low, high, color=look.light, alpha=0.15, linewidth=0)
    across = figure.across
    if across is not None:
        axes.set_xscale("log" if across.logarithmic else "linear")
        axes.set_xlim(across.low, across.high)
        axes.set_xticks(across.ticks, [across.told(tick) for tick in across.ticks], minor=False)
        axes.set_xticks([], minor=True)
    axes.set_ylim(figure.values.low, figure.values.high)
    axes.set_yticks(figure.values.ticks, [figure.values.told(tick) for tick in figure.values.ticks])
    axes.grid(axis="y", color=_GRID, linewidth=0.7)


def _ranges(axes: Any, figure: Figure, chosen: Mapping[str, Look]) -> None:
    for row, series in enumerate(figure.series):
        look, dot = chosen[series.method], series.dots[0]
        if dot.low is not None:
            axes.plot([dot.low, dot.high], [row, row], color=look.light, linewidth=1.6)
        if dot.published is not None:
            axes.plot([dot.published], [row], **_published())
        axes.plot([dot.value], [row], color=look.light, marker=_MARKERS[look.marker], markersize=5)
    axes.set_ylim(len(figure.series) - 0.4, -0.6)
    axes.set_yticks(range(len(figure.series)), [series.method for series in figure.series])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_xlim(figure.values.low, figure.values.high)
    axes.set_xticks(figure.values.ticks, [figure.values.told(tick) for tick in figure.values.ticks])
    axes.grid(axis="x", color=_GRID, linewidth=0.7)


def _dress(axes: Any, figure: Figure) -> None:
    _write(axes.set_title("", fontsize=10, fontweight="bold", loc="left", color=_INK), figure.title)
    _write(axes.set_xlabel("", fontsize=8.5, color=_QUIET), figure.name)
    axes.tick_params(labelsize=8, colors=_QUIET, length=2.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#b9bdc2")
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)


def _line(look: Look) -> dict[str, Any]:
    dash = (0, tuple(length / 2 for length in look.dash)) if look.dash else "-"
    marker = _MARKERS[look.marker]
    size = 3.6 if marker == "D" else 4.4
    return {"color": look.light, "linewidth": 1.4, "linestyle": dash, "marker": marker, "markersize": size}


def _published() -> dict[str, Any]:
    return {"color": _QUIET, "marker": "o", "markersize": 6.5, "markerfacecolor": "none", "linestyle": "none"}


def _write(text: Any, content: str) -> None:
    """Set a text as it is: a $ in a label is no formula."""
    text.set_parse_math(False)
    text.set_text(content)
