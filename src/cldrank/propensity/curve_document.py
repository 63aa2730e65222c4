"""Curves as documents and figures: for a terminal, a notebook, a page, or an SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

from cldrank import documents as docs
from cldrank.documents import Block, Document, Figure, Heading, Notice, Point, Series, Table
from cldrank.documents.numbers import span
from cldrank.errors import UsageError
from cldrank.files import save_text
from cldrank.propensity.affine_clicks import AffineClicks, curve_of
from cldrank.propensity.propensities import MISFIT, Propensities
from cldrank.propensity.segment_propensities import SegmentPropensities
from cldrank.wording import some

_APART = 0.012  # between the curves at a position, where the whole axis is 1
_MOST_POSITIONS = 50  # in a table; files and JSON have all


def curve_document(curve: Any) -> Document:
    """A curve, slopes and bases, or the curves of segments: a figure, values with intervals, and notes."""
    figure = curve_figure(named_curves(curve))
    if isinstance(curve, SegmentPropensities):
        blocks = [block for name, rho in curve.items() for block in (Heading(name), *_blocks(rho))]
        return Document(f"{len(curve)} segments", [figure, *blocks])
    return Document(curve.origin, [figure, *_blocks(curve)])


def _blocks(curve: Propensities | AffineClicks) -> Iterator[Block]:
    """The values of a curve, whether it fits the clicks, and its notes."""
    columns = dict(_columns(curve))
    rows = list(zip(*columns.values(), strict=True))
    shown = [(at, *row) for at, row in enumerate(rows[:_MOST_POSITIONS], start=1)]
    yield Table(("position", *columns), shown)
    yield from docs.left_out(len(shown), len(rows), "positions")
    goodness = curve.goodness if isinstance(curve, Propensities) else None
    if goodness is not None:
        refuted = goodness.p_value < MISFIT
        yield Notice("warning" if refuted else "note", [str(goodness)], label="" if refuted else "fit")
    for note in curve.notes:
        yield Notice("note", [note])


def _columns(curve: Propensities | AffineClicks) -> Iterator[tuple[str, list[str]]]:
    interval = f"{100 * (curve.confidence or 0):g}% interval"
    if isinstance(curve, AffineClicks):
        for name, values, ends in (
            ("slope", curve.slope, curve.interval("slope")),
            ("base", curve.base, curve.interval("base")),
        ):
            yield name, [f"{value:.4g}" for value in values]
            if curve.confidence is not None:
                yield f"{name}, {interval}", [span(low, high, ".4g") for low, high in zip(*ends, strict=True)]
        return
    yield "at least" if curve.bound else "examined", [f"{value:.4g}" for value in curve.values]
    if curve.low is not None and curve.high is not None:
        yield interval, [span(low, high, ".4g") for low, high in zip(curve.low, curve.high, strict=True)]


def named_curves(curve: Any) -> dict[str, Propensities]:
    """The curves to draw, by name."""
    if isinstance(curve, SegmentPropensities):
        return dict(curve.segments)
    return {getattr(curve, "method", None) or curve.origin: curve_of(curve)}


def curve_figure(
    curves: Mapping[str, Propensities],
    title: str = "Examination by position",
    truth: Mapping[str, Propensities] | None = None,
    size: tuple[int, int] = (640, 340),
) -> Figure:
    """Curves with their intervals, by name, in a figure; a known `truth` is drawn as rings."""
    truth = truth or {}
    strange = next((name for name in truth if name not in curves), None)
    if strange is not None:
        raise UsageError(f"there is no curve {strange!r} to compare with the truth, only {some(curves)}.")
    positions = [str(at + 1) for at in range(max(map(len, curves.values())))]
    along = docs.Axis.of_labels(positions, name="position; examination relative to the first")
    top = max((rho.values if rho.high is None else rho.high).max() for rho in (*curves.values(), *truth.values()))
    named = {name: f"{name} (lower bound)" if curve.bound else name for name, curve in curves.items()}
    chosen = docs.looks(named.values())
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
    axis = docs.Axis.from_zero(float(top))
    return Figure(title, series, along, axis, "dots", *size, marked=(1.0,), references=references)


def save_chart(curves: Mapping[str, Propensities], path: str | PathLike[str]) -> None:
    """Draw curves into an SVG file, see `curve_figure`."""
    if not str(path).lower().endswith(".svg"):
        raise UsageError(f"{path}: curves are drawn as SVG; name a file that ends in .svg.")
    save_text(path, docs.picture([curve_figure(curves)]))


def _points(name: str, curve: Propensities, shift: float, truth: Propensities | None) -> tuple[Point, ...]:
    points = []
    for at, value in enumerate(map(float, curve.values)):
        note, low, high = f"{name}, position {at + 1}: {value:.4g}", None, None
        if curve.low is not None and curve.high is not None:
            low, high = float(curve.low[at]), float(curve.high[at])
            note += f" ({span(low, high, '.4g')})"
        true = None if truth is None or at >= len(truth) else float(truth.values[at])
        points.append(Point(at + shift, value, low, high, note, true))
    return tuple(points)
