"""The comparison of several rankers with another as a document."""

from __future__ import annotations

from collections.abc import Iterator

from cldrank.documents import Axis, Block, Document, Figure, Heading, Notice, Paragraph, Point, Series, Table
from cldrank.documents.numbers import minus, percent
from cldrank.evaluation.by_labels import data_label
from cldrank.evaluation.click_results import ClickComparison
from cldrank.evaluation.experiment_planning import say_way
from cldrank.evaluation.result_documents import (
    ASSUMED,
    TONES,
    behaviour_words,
    how_to_interleave,
    ratings_blocks,
    signed,
    source,
    worded_ends,
)
from cldrank.evaluation.several import SeveralComparisons
from cldrank.wording import listed

_WIDTH = 440  # of the figure


def several_document(result: SeveralComparisons) -> Document:
    """Which to try first, all differences with their intervals, and what they rest on."""
    by_clicks = {name: pair for name, pair in result.comparisons.items() if isinstance(pair, ClickComparison)}
    title = f"Try {result.try_first} first" if result.try_first else f"Keep {result.old}"
    blocks: list[Block] = [
        Notice(TONES[result.decision], [_headline(result)], title, large=True),
        *(block for pair in list(by_clicks.values())[:1] for block in ratings_blocks(pair)),
        _table(result),
        _figure(result),
        Paragraph(
            f"All of these intervals hold the truth at once with {result.confidence:.0%} confidence, each by itself "
            f"with {result.confidence_each:.1%}."
        ),
    ]
    if by_clicks:
        blocks += [*_grounds(by_clicks), *_what_next(result, by_clicks)]
    names = listed(result.comparisons, "and")
    data = data_label(result.data, result.synthetic)
    about = [source(pair) for pair in by_clicks.values()][:1]
    return Document(f"{names} against {result.old} on {data}{', by clicks alone' * bool(by_clicks)}", blocks, about)


def _headline(result: SeveralComparisons) -> str:
    """Which ranker to try first, how it compares, and which others may be better."""
    first, old, level = result.try_first, result.old, result.not_told_apart
    if first is None:
        return f"All are worse than {old}, by {result.measure}: there is none to try."
    how = {
        "better": f"{first} is better than {old}",
        "no difference": f"{first} and {old} do not differ by more than matters",
    }.get(result.decision, f"It is open whether {first} is better than {old}")
    others = [name for name in result.comparisons if name != first and result.decisions[name] != "worse"]
    text = f"{how}, by {result.measure}"
    if level:
        return f"{text}. It has the highest estimate, but {listed(level, 'and')} cannot be told from it."
    return f"{text}, and {first} is ahead of {listed(others, 'and')}." if others else f"{text}."


def _table(result: SeveralComparisons) -> Table:
    """Each ranker with its value and difference."""
    head = ("ranker", result.measure, "difference", "interval", "verdict")
    rows, values = [], {name: pair.as_dict()["measures"][result.measure] for name, pair in result.comparisons.items()}
    for name in _by_estimate(result):
        interval, pair = result.interval(name), result.comparisons[name]
        words = pair.verdict.words if isinstance(pair, ClickComparison) else result.decisions[name]
        value = f"{values[name]['new']:.4f}"
        rows.append((name, value, signed(interval.estimate), worded_ends(interval), words))
    rows.append((result.old, f"{next(iter(values.values()))['old']:.4f}", "", "", ""))
    return Table(head, rows, about=f"Each minus {result.old}.", text=("verdict",), wide=True)


def _by_estimate(result: SeveralComparisons) -> list[str]:
    """The names, the highest estimate first."""
    return sorted(result.comparisons, key=lambda name: -result.interval(name).estimate)


def _figure(result: SeveralComparisons) -> Figure:
    names = _by_estimate(result)
    series, ends = [], [0.0]
    for at, name in enumerate(names):
        interval = result.interval(name)
        note = f"{name}: {signed(interval.estimate)} ({worded_ends(interval)})"
        series.append(Series(name, (Point(at, interval.estimate, interval.low, interval.high, note),)))
        ends += [interval.low, interval.estimate, interval.high]
    about = f"Right of 0, a ranker is better than {result.old}."
    values = Axis.around(ends, most=6, name=f"difference in {result.measure}")
    return Figure("Differences", tuple(series), Axis.of_rows(names), values, "rows", _WIDTH, marked=(0.0,), about=about)


def _grounds(by_clicks: dict[str, ClickComparison]) -> Iterator[Block]:
    """What the log can see of each ranker, and why each verdict is as it is."""
    yield Heading("What the log can see")
    head = ("ranker", "top shown", "never shown", "by queries", "curve", "model", "extrapolation")
    rows = []
    for name, pair in by_clicks.items():
        errors = pair.first.difference.errors
        parts = (errors.queries, errors.propensities, errors.model, errors.extrapolation)
        seen = (percent(pair.support.shown), f"{pair.never_shown.results:,}")
        rows.append((name, *seen, *(f"{part:.4f}" for part in parts)))
    about = "The share of the top that was ever shown, results that never were, and the parts of the error."
    yield Table(head, rows, about=about, wide=True)
    yield Paragraph(behaviour_words(next(iter(by_clicks.values())).behaviour))
    yield Heading("Why")
    for name, pair in by_clicks.items():
        yield Paragraph([minus(f"{name}: {pair.verdict.reason}")])


def _what_next(result: SeveralComparisons, by_clicks: dict[str, ClickComparison]) -> Iterator[Block]:
    """What would settle whether the ranker to try first is better, and when not to trust it."""
    if result.try_first is not None and by_clicks[result.try_first].settling:
        pair = by_clicks[result.try_first]
        verb = pair.verdict.settling
        yield Heading(f"What would {verb} it for {result.try_first}, with 80% power")
        for way in pair.settling:
            yield Paragraph([minus(say_way(way, verb))])
        yield from how_to_interleave(pair)
    yield Heading("When this must not be trusted")
    yield Paragraph(ASSUMED)
