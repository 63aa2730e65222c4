"""Evaluations, comparisons and verdicts as documents: the same words, tables and figures wherever they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cldrank.documents import (
    Axis,
    Block,
    Document,
    Facts,
    Figure,
    Heading,
    Notice,
    Paragraph,
    Point,
    Series,
    Severity,
    Table,
)
from cldrank.documents.numbers import percent
from cldrank.evaluation.by_labels import data_label
from cldrank.evaluation.caveats import caveats_of
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation, log_words
from cldrank.evaluation.deciding import decide
from cldrank.evaluation.settling import rounded_pages
from cldrank.evaluation.verdict_words import (
    curve_words,
    percent_range,
    placebo_words,
    sentence,
    settling_verb,
    support_words,
    unseen_words,
)
from cldrank.measures import Interval

if TYPE_CHECKING:
    from cldrank.evaluation.by_labels import Evaluation, RankerComparison

TONES: dict[str, Severity] = {"better": "ok", "worse": "blocking", "no difference": "note", "cannot tell": "warning"}
_SIGNS = {"better": "▲", "worse": "▼", "no difference": "=", "cannot tell": "?"}
_WIDTH, _HEIGHT = 440, 190

Row = tuple[str, Interval, str]  # a name, a value with its interval, what is said when it is pointed at


# -- by labels -----------------------------------------------------------------------------------------------------


def evaluation_document(found: Evaluation, ranker: str = "") -> Document:
    """The measures with their intervals."""
    known = next(iter(found.intervals.values()), None)
    head = ("measure", "mean", f"{known.confidence:.0%} interval" if known else "interval")
    rows = []
    for measure in found.per_query:
        interval = found.intervals.get(measure)
        ends = "–" if interval is None else f"{interval.low:.4f} … {interval.high:.4f}"
        rows.append((str(measure), f"{found[measure]:.4f}", ends))
    data = f"{data_label(found.data, found.synthetic)}, {found.queries:,} queries"
    return Document(f"{ranker} on {data}" if ranker else f"Evaluation by labels: {data}", [Table(head, rows)])


def comparison_document(found: RankerComparison, names: tuple[str, str] = ("first", "second")) -> Document:
    """Both rankers, their difference, and how many queries each wins."""
    interval = next(iter(found.differences.values())).interval
    head = ("measure", "first", "second", "difference", f"{interval.confidence:.0%} interval", "p", "won/tied/lost")
    rows = [
        (
            str(measure),
            f"{found.first[measure]:.4f}",
            f"{found.second[measure]:.4f}",
            _signed(pair.difference),
            _ends(pair.interval.low, pair.interval.high),
            f"{pair.p_value:.2g}",
            f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}",
        )
        for measure, pair in found.differences.items()
    ]
    data = f"{data_label(found.data, found.synthetic)}, {found.first.queries:,} queries"
    return Document(f"{names[0]} against {names[1]} on {data}", [Table(head, rows)])


# -- by clicks -----------------------------------------------------------------------------------------------------


def click_evaluation_document(result: ClickEvaluation) -> Document:
    """Estimates of one ranker, what the log can see, and the unseen."""
    confidence = next(iter(result.measures.values())).interval.confidence
    head = ("measure", "estimate", f"{confidence:.0%} interval", "whatever the unseen are")
    rows = [
        (
            name,
            f"{found.interval.estimate:.4f}",
            f"{found.interval.low:.4f} … {found.interval.high:.4f}",
            f"{found.lowest.low:.4f} … {found.highest.high:.4f}",
        )
        for name, found in result.measures.items()
    ]
    blocks: list[Block] = [Table(head, rows, about=_about_arp(result)), *_seen_and_unseen(result), *_notes(result)]
    return Document(_click_title(result.ranker, result), blocks, [_click_source(result)])


def verdict_document(result: ClickComparison) -> Document:
    """The verdict on top, then all that it rests on."""
    blocks = [*verdict_blocks(result), *detail_blocks(result), *_caveats(result)]
    footer = [f"Intervals cover {_confidence(result):.0%}; the share that lies beyond either end is half of the rest."]
    about = f"{_click_title(f'{result.new} against {result.old}', result)}. {_click_source(result)}"
    return Document("Verdict from clicks alone", blocks, [about], footer)


def brief_verdict_document(result: ClickComparison) -> Document:
    """The verdict with the gain by each measure: what a notebook shows."""
    figure = gain_figure(result)
    ways = [f"{way.name} ({way.pages:,} pages)" for way in result.settling if way.pages is not None]
    settling = [f"What would {settling_verb(result)} it: {', or '.join(ways)}."] if ways else []
    remarks = [Paragraph([text], quiet=True) for text in settling]
    shown: list[Block] = [verdict_notice(result), *([figure] if figure else [])]
    blocks = [*shown, measure_table(result), *remarks, *_notes(result)]
    return Document(_click_title(f"{result.new} against {result.old}", result), blocks, [_click_source(result)])


def terminal_verdict_document(result: ClickComparison) -> Document:
    """What the verdict rests on; a terminal shows the verdict itself below, where people look."""
    title = _click_title(f"{result.new} against {result.old}", result)
    blocks = [*detail_blocks(result), Paragraph([_typeset(placebo_words(result.placebo))])]
    return Document(title, blocks, [_click_source(result)])


def verdict_blocks(result: ClickComparison) -> Iterator[Block]:
    """The decision with its reason, and what would settle or confirm it."""
    seen = result.support
    yield verdict_notice(result)
    tiles = {
        "queries": f"{seen.queries:,}",
        "pages": f"{seen.pages:,}",
        "clicks": f"{seen.clicks:,}",
        f"of new's top {seen.k} ever shown": percent(seen.shown, 1),
        "effective impressions": f"{seen.effective:,.0f}",
        "largest weight, over the mean": f"{seen.largest_weight:.3g}",
        "unseen results": f"{result.unseen.results:,}",
    }
    yield Facts(tiles, large=True)
    if result.settling:
        rows = [
            (way.name, "never" if way.pages is None else rounded_pages(way.pages), sentence(way.about))
            for way in result.settling
        ]
        yield Heading(f"What would {settling_verb(result)} it, with 80% power")
        yield Table(("experiment", "pages", "what it is"), rows, text=("what it is",))


def detail_blocks(result: ClickComparison) -> Iterator[Block]:
    """Estimates, what the log can see, the unseen, and other assumptions."""
    yield Heading("Estimates")
    figure = gain_figure(result)
    if figure is not None:
        yield figure
    yield _errors_figure(result)
    yield measure_table(result)
    yield from _seen_and_unseen(result)
    yield from _unseen_figure(result)
    if result.checks or result.notes:
        yield Heading("Other assumptions")
    if result.checks:
        yield from _checks(result)
    yield from _notes(result)


def verdict_notice(result: ClickComparison) -> Notice:
    """The decision with its reason."""
    verdict = result.verdict
    title, reason = f"{_SIGNS[verdict.decision]} {verdict.words}", _typeset(sentence(verdict.reason))
    return Notice(TONES[verdict.decision], [verdict_headline(result)], title, reason, large=True)


def verdict_headline(result: ClickComparison) -> str:
    """The answer in a sentence."""
    new, old, measure = result.new, result.old, result.first.measure
    match result.verdict.decision:
        case "better" | "worse" as decision:
            return f"{new} is {decision} than {old}, by {measure}."
        case "no difference":
            return f"{new} and {old} do not differ by more than {result.verdict.margin:.3g} in {measure}."
        case _:
            return f"These clicks cannot tell whether {new} is better than {old}, by {measure}."


def measure_table(result: ClickComparison) -> Table:
    """Every measure of both rankers, and their difference."""
    head = ("measure", "new", "old", "difference", f"{_confidence(result):.0%} interval")
    rows = []
    for name, pair in result.measures.items():
        values = (f"{one.interval.estimate:.4f}" for one in (pair.new, pair.old))
        rows.append((name, *values, _signed(pair.interval.estimate), _ends(pair.interval.low, pair.interval.high)))
    return Table(head, rows, about=f"New minus old. {_about_arp(result)}".strip(), wide=True)


def gain_figure(result: ClickComparison) -> Figure | None:
    """The gain by each measure, on one scale: in percent of what the old ranker has, where that is not 0."""
    rows = [
        (
            name,
            _scaled(pair.gain, 100 / abs(pair.old.interval.estimate)),
            f"{name}: {_signed(pair.interval.estimate)} ({_ends(pair.interval.low, pair.interval.high)})",
        )
        for name, pair in result.measures.items()
        if pair.old.interval.estimate
    ]
    if not rows:
        return None
    about = (
        f"In percent of the value of {result.old}, with {_confidence(result):.0%} intervals. Right of 0, {result.new} "
        "is better; for ARP that is a lower value."
    )
    return _forest("Gain by measure", about, rows, "gain, in percent", marked=0.0, in_percent=True)


def _click_title(what: str, result: ClickComparison | ClickEvaluation) -> str:
    return f"{what} on {data_label(result.data, result.synthetic)}, by clicks alone"


def _click_source(result: ClickComparison | ClickEvaluation) -> str:
    return f"{log_words(result)}. {sentence(result.estimator)}; propensities: {curve_words(result)}."


def _about_arp(result: ClickComparison | ClickEvaluation) -> str:
    return "ARP is the average position of what is relevant: lower is better." if "ARP" in result.measures else ""


def _notes(result: ClickComparison | ClickEvaluation) -> list[Paragraph]:
    return [Paragraph([_typeset(f"note: {note}")], quiet=True) for note in result.notes]


def _seen_and_unseen(result: ClickComparison | ClickEvaluation) -> Iterator[Block]:
    for title, texts in (("What the log can see", support_words(result)), ("The unseen", unseen_words(result))):
        yield Heading(title)
        yield from _words(texts)


def _words(texts: Iterable[str]) -> Iterator[Paragraph]:
    for text in texts:
        yield Paragraph([_typeset(text)])


def _caveats(result: ClickComparison) -> Iterator[Block]:
    yield Heading("When this must not be trusted")
    for caveat in caveats_of(result):
        found, about = [_typeset(caveat.found)], [caveat.about]
        text, advice = (found, about) if caveat.found else (about, "")
        yield Notice(caveat.mark, text, caveat.topic, advice, label=caveat.word)


def _errors_figure(result: ClickComparison) -> Figure:
    parts = result.first.difference.errors
    names = ("queries", "curve", "model fit", "extrapolation")
    values = (parts.queries, parts.propensities, parts.model, parts.extrapolation)
    points = tuple(Point(at, value, note=f"{names[at]}: {value:.4f}") for at, value in enumerate(values))
    return Figure(
        "Where the uncertainty comes from",
        (Series("", points),),
        Axis.of_labels(names),
        Axis.from_zero(max(values)),
        "bars",
        _WIDTH,
        _HEIGHT,
        about=f"Standard errors of the difference in {result.first.measure}: of queries and clicks, of an estimated "
        "curve, of the fit of the model. Extrapolation is a bound of how far the model is off.",
    )


def _unseen_figure(result: ClickComparison) -> Iterator[Figure]:
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
    yield _forest(
        "How relevant the unseen are",
        f"From 0% (none of them is relevant) to 100% (all are). {result.new} is better where they are more relevant "
        "than the break-even, the line. The check is of results that were hidden from the model.",
        [(name, _scaled(interval, 100), note) for name, interval, note in rows],
        "relevance, in percent",
        marked=None if even is None or not 0 < even.estimate < 1 else 100 * even.estimate,
        scale=Axis(-2, 104, tuple(range(0, 101, 20)), tuple(f"{at}%" for at in range(0, 101, 20))),
    )


def _checks(result: ClickComparison) -> Iterator[Block]:
    measure, usual = result.first.measure, result.first.gain
    tried = [("as above", usual, decide(usual, result.verdict.margin), "")]
    tried += [(check.name, check.gain, check.decision, sentence(check.about)) for check in result.checks]
    rows: list[Row] = [
        (name, gain, f"{name}: {_signed(gain.estimate)} ({_ends(gain.low, gain.high)})") for name, gain, _, _ in tried
    ]
    title, about = f"Gain in {measure} under other assumptions", f"Right of 0, {result.new} is better."
    yield _forest(title, about, rows, f"gain in {measure}", marked=0.0)
    yield Table(
        ("assumption", "gain", "interval", "decision", "what is assumed"),
        [
            (name, _signed(gain.estimate), _ends(gain.low, gain.high), decision, about)
            for name, gain, decision, about in tried
        ],
        about=f"What each interval alone says; the smallest difference that matters is {result.verdict.margin:.3g}.",
        text=("decision", "what is assumed"),
        wide=True,
    )


def _forest(
    title: str,
    about: str,
    rows: Sequence[Row],
    across: str,
    *,
    marked: float | None,
    scale: Axis | None = None,
    in_percent: bool = False,
) -> Figure:
    """Values with intervals, one per row."""
    if scale is None:
        scale = Axis.around([0.0, *(end for _, one, _ in rows for end in (one.low, one.estimate, one.high))], most=6)
        unit = "%" if in_percent else ""
        scale = replace(scale, labels=tuple(f"{label}{unit}".replace("-", "−") for label in scale.labels))
    scale = replace(scale, name=across)
    series = tuple(
        Series(name, (Point(at, scale.within(interval.estimate), interval.low, interval.high, note or name),))
        for at, (name, interval, note) in enumerate(rows)
    )
    names = Axis.of_rows([name for name, _, _ in rows])
    return Figure(title, series, names, scale, "rows", _WIDTH, marked=marked, about=about)


def _scaled(interval: Interval, factor: float) -> Interval:
    ends = interval.estimate * factor, interval.low * factor, interval.high * factor
    return replace(interval, estimate=ends[0], low=ends[1], high=ends[2])


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
