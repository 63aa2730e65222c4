"""A verdict as one HTML page that needs no other file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from cldrank.drawing.axis import Axis
from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.numbers import percent
from cldrank.drawing.svg import draw_figure
from cldrank.drawing.templating import render_page
from cldrank.evaluation.by_labels import data_label
from cldrank.evaluation.caveats import caveats_of
from cldrank.evaluation.click_results import ClickComparison, MeasuredPair, log_words
from cldrank.evaluation.deciding import decide
from cldrank.evaluation.settling import rounded_pages
from cldrank.evaluation.verdict_words import (
    curve_words,
    percent_range,
    sentence,
    settling_verb,
    support_words,
    unseen_words,
)
from cldrank.measures import Interval

TONES = {"better": "ok", "worse": "blocking", "no difference": "note", "cannot tell": "warning"}
_SIGNS = {"better": "▲", "worse": "▼", "no difference": "=", "cannot tell": "?"}
_WIDTH, _HEIGHT = 440, 190

Card = dict[str, Any]  # title, about, and a chart or a table (head, rows, text)
Row = tuple[str, Interval, str]  # a name, a value with its interval, what is said when it is pointed at


def render_verdict(result: ClickComparison) -> str:
    """The whole page."""
    verdict = result.verdict
    context = {
        "title": f"Verdict: {result.new} against {result.old}",
        "source": f"{result.new} against {result.old} on {data_label(result.data, result.synthetic)}, by clicks alone",
        "log": log_words(result),
        "tone": TONES[verdict.decision],
        "sign": _SIGNS[verdict.decision],
        "words": verdict.words,
        "headline": verdict_headline(result),
        "reason": _typeset(sentence(verdict.reason)),
        "settling": _settling(result),
        "settle": settling_verb(result),
        "tiles": _tiles(result),
        "estimates": list(_estimates(result)),
        "measures": measure_table(result),
        "support": map(_typeset, support_words(result)),
        "unseen": map(_typeset, unseen_words(result)),
        "unseen_cards": list(_unseen(result)),
        "checks": list(_checks(result)),
        "controls": [_typeset(text) for text in _controls(result)],
        "caveats": [replace(one, found=_typeset(one.found)) for one in caveats_of(result)],
        "how": f"{result.estimator}; propensities: {curve_words(result)}",
        "confidence": f"{_confidence(result):.0%}",
    }
    return render_page("cldrank.evaluation", "verdict.html", context)


def verdict_headline(result: ClickComparison) -> str:
    """The answer in a sentence."""
    new, old, measure = result.new, result.old, result.first.measure
    match result.verdict.decision:
        case "better":
            return f"{new} is better than {old}, by {measure}."
        case "worse":
            return f"{new} is worse than {old}, by {measure}."
        case "no difference":
            return f"{new} and {old} do not differ by more than {result.verdict.margin:.3g} in {measure}."
        case _:
            return f"These clicks cannot tell whether {new} is better than {old}, by {measure}."


def _tiles(result: ClickComparison) -> dict[str, str]:
    seen = result.support
    return {
        "queries": f"{seen.queries:,}",
        "pages": f"{seen.pages:,}",
        "clicks": f"{seen.clicks:,}",
        f"of new's top {seen.k} ever shown": percent(seen.shown, 1),
        "effective impressions": f"{seen.effective:,.0f}",
        "largest weight, over the mean": f"{seen.largest_weight:.3g}",
        "unseen results": f"{result.unseen.results:,}",
    }


def _settling(result: ClickComparison) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]] | None:
    rows = [
        (way.name, "never" if way.pages is None else rounded_pages(way.pages), sentence(way.about))
        for way in result.settling
    ]
    return (("experiment", "pages", "what it is"), rows, ("what it is",)) if rows else None


# -- sections -----------------------------------------------------------------------------------------------------


def _estimates(result: ClickComparison) -> Iterator[Card]:
    """The gain by each measure, and where its uncertainty comes from."""
    gains = gain_figure(result)
    if gains is not None:
        yield {
            "title": gains.title,
            "about": f"In percent of the value of {result.old}, with {_confidence(result):.0%} intervals. Right of 0, "
            f"{result.new} is better; for ARP that is a lower value.",
            "chart": draw_figure(gains),
        }
    parts = result.first.difference.errors
    names = ("queries", "curve", "model fit", "extrapolation")
    values = (parts.queries, parts.propensities, parts.model, parts.extrapolation)
    points = tuple(Point(at, value, note=f"{names[at]}: {value:.4f}") for at, value in enumerate(values))
    figure = Figure(
        "Where the uncertainty comes from",
        (Series("", points),),
        Axis.of_labels(names),
        Axis.from_zero(max(values)),
        "bars",
        _WIDTH,
        _HEIGHT,
    )
    yield {
        "title": figure.title,
        "about": f"Standard errors of the difference in {result.first.measure}: of queries and clicks, of an estimated "
        "curve, of the fit of the model. Extrapolation is a bound of how far the model is off.",
        "chart": draw_figure(figure),
    }


def gain_figure(result: ClickComparison) -> Figure | None:
    """The gain by each measure, on one scale: in percent of what the old ranker has, where that is not 0."""
    rows = [
        (name, _scaled(pair.gain, 100 / abs(pair.old.interval.estimate)), _said(pair))
        for name, pair in result.measures.items()
        if pair.old.interval.estimate
    ]
    return _forest_figure("Gain by measure", rows, "gain, in percent", marked=0.0, in_percent=True) if rows else None


def measure_table(result: ClickComparison) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Every measure of both rankers and their difference: the head of the table, and its rows."""
    head = ("measure", "new", "old", "difference", f"{_confidence(result):.0%} interval", "whatever the unseen are")
    rows = []
    for name, pair in result.measures.items():
        found = pair.difference
        values = (f"{one.interval.estimate:.4f}" for one in (pair.new, pair.old))
        ends = _ends(found.interval.low, found.interval.high), _ends(found.lowest.low, found.highest.high)
        rows.append((name, *values, _signed(found.interval.estimate), *ends))
    return head, rows


def _unseen(result: ClickComparison) -> Iterator[Card]:
    """The relevance that the unseen need, and what is known about it."""
    unseen = result.unseen
    rows: list[Row] = []
    if unseen.break_even is not None:
        rows.append(("needed (break-even)", unseen.break_even, f"break-even: {percent_range(unseen.break_even)}"))
    if unseen.model is not None:
        rows.append(("predicted by the model", unseen.model, f"model: {percent_range(unseen.model)}"))
    if not rows:
        return
    if unseen.hidden_predicted is not None and unseen.hidden_observed is not None:
        exact = unseen.hidden_predicted
        rows.append(("check: predicted", replace(unseen.hidden_observed, estimate=exact, low=exact, high=exact), ""))
        rows.append(("check: clicked", unseen.hidden_observed, f"clicks: {percent_range(unseen.hidden_observed)}"))
    even = unseen.break_even
    marked = None if even is None or not 0 < even.estimate < 1 else 100 * even.estimate
    yield {
        "title": "How relevant the unseen are",
        "about": f"From 0% (none of them is relevant) to 100% (all are). {result.new} is better where they are more "
        "relevant than the break-even, the line. The check is of results that were hidden from the model.",
        "chart": _forest(
            "How relevant the unseen are",
            [(name, _scaled(interval, 100), note) for name, interval, note in rows],
            "relevance, in percent",
            marked=marked,
            scale=Axis(-2, 104, tuple(range(0, 101, 20)), tuple(f"{at}%" for at in range(0, 101, 20))),
        ),
    }


def _checks(result: ClickComparison) -> Iterator[Card]:
    if not result.checks:
        return
    measure, usual = result.first.measure, result.first.gain
    tried = [("as above", usual, decide(usual, result.verdict.margin), "")]
    tried += [(one.name, one.gain, one.decision, sentence(one.about)) for one in result.checks]
    rows: list[Row] = [
        (name, gain, f"{name}: {_signed(gain.estimate)} ({_ends(gain.low, gain.high)})") for name, gain, _, _ in tried
    ]
    yield {
        "title": f"Gain in {measure} under other assumptions",
        "about": f"Right of 0, {result.new} is better.",
        "chart": _forest("Other assumptions", rows, f"gain in {measure}", marked=0.0),
    }
    head = ("assumption", "gain", "interval", "decision", "what is assumed")
    table = [
        (name, _signed(gain.estimate), _ends(gain.low, gain.high), decision, about)
        for name, gain, decision, about in tried
    ]
    yield {
        "title": "In numbers",
        "about": f"What each interval alone says; the smallest difference that matters is {result.verdict.margin:.3g}.",
        "table": (head, table, ("decision", "what is assumed")),
        "wide": True,
    }


def _controls(result: ClickComparison) -> Iterator[str]:
    for one in result.checks:
        if one.kind == "control":
            yield f"{one.name}, {one.about}: gain {_signed(one.gain.estimate)} ({_ends(one.gain.low, one.gain.high)})."
    yield from result.notes


# -- pieces -------------------------------------------------------------------------------------------------------


def _forest(title: str, rows: Sequence[Row], across: str, *, marked: float | None, scale: Axis | None = None) -> Markup:
    return draw_figure(_forest_figure(title, rows, across, marked=marked, scale=scale))


def _forest_figure(
    title: str,
    rows: Sequence[Row],
    across: str,
    *,
    marked: float | None,
    in_percent: bool = False,
    scale: Axis | None = None,
) -> Figure:
    """Values with intervals, one per row."""
    if scale is None:
        scale = Axis.around([0.0, *(end for _, one, _ in rows for end in (one.low, one.estimate, one.high))], most=6)
        unit = "%" if in_percent else ""
        scale = replace(scale, labels=tuple(f"{label}{unit}".replace("-", "−") for label in scale.labels))
    scale = replace(scale, name=across)
    series = tuple(
        Series(name, (Point(at, scale.within(one.estimate), one.low, one.high, note or name),))
        for at, (name, one, note) in enumerate(rows)
    )
    names = Axis.of_rows([name for name, _, _ in rows])
    return Figure(title, series, names, scale, "rows", _WIDTH, marked=marked)


def _scaled(interval: Interval, factor: float) -> Interval:
    return replace(
        interval, estimate=interval.estimate * factor, low=interval.low * factor, high=interval.high * factor
    )


def _said(pair: MeasuredPair) -> str:
    found = pair.interval
    return f"{pair.measure}: {_signed(found.estimate)} ({_ends(found.low, found.high)})"


def _typeset(text: str) -> str:
    """A text whose negative numbers have a true minus.

    >>> _typeset("by -0.1 to +0.2, doubly-robust")
    'by −0.1 to +0.2, doubly-robust'
    """
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def _signed(value: float) -> str:
    """A number with its sign, a true minus.

    >>> _signed(-0.01)
    '−0.0100'
    """
    return f"{value:+.4f}".replace("-", "−")


def _ends(low: float, high: float) -> str:
    return f"{_signed(low)} … {_signed(high)}"


def _confidence(result: ClickComparison) -> float:
    return result.first.interval.confidence
