"""What a notebook shows of evaluations and comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cldrank.drawing.notebook import ViewTable, notebook_view
from cldrank.drawing.numbers import percent
from cldrank.measures import Interval

if TYPE_CHECKING:
    from cldrank.evaluation.by_labels import Evaluation, RankerComparison
    from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation

_NAME = {"measure": False}


def evaluation_view(found: Evaluation) -> str:
    """The measures with their intervals."""
    from cldrank.evaluation.by_labels import data_label

    known = next(iter(found.intervals.values()), None)
    head = ["measure", "mean", *([] if known is None else [f"{known.confidence:.0%} interval"])]
    rows = []
    for measure in found.per_query:
        interval = found.intervals.get(measure)
        ends = [] if known is None else [_ends(interval)]
        rows.append((str(measure), f"{found[measure]:.4f}", *ends))
    about = f"{data_label(found.data, found.synthetic)}, {found.queries:,} queries"
    return notebook_view("Evaluation by labels", about=about, tables=[ViewTable(head, rows, _NAME)])


def comparison_view(found: RankerComparison) -> str:
    """Both rankers, their difference, and how many queries each wins."""
    from cldrank.evaluation.by_labels import data_label

    first = next(iter(found.differences.values()))
    head = (
        "measure",
        "first",
        "second",
        "difference",
        f"{first.interval.confidence:.0%} interval",
        "p",
        "wins",
        "ties",
        "losses",
    )
    rows = [
        (
            str(measure),
            f"{found.first[measure]:.4f}",
            f"{found.second[measure]:.4f}",
            _signed(one.difference),
            _ends(one.interval, signed=True),
            f"{one.p_value:.2g}",
            *(f"{number:,}" for number in (one.wins, one.ties, one.losses)),
        )
        for measure, one in found.differences.items()
    ]
    about = f"{data_label(found.data, found.synthetic)}, {found.first.queries:,} queries, first minus second"
    return notebook_view("Comparison by labels", about=about, tables=[ViewTable(head, rows, _NAME)])


def click_evaluation_view(found: ClickEvaluation) -> str:
    """The measures with their intervals, and how much of the order the log has seen."""
    from cldrank.evaluation.by_labels import data_label

    confidence = next(iter(found.measures.values())).interval.confidence
    head = ("measure", "estimate", f"{confidence:.0%} interval", "whatever the unseen are")
    rows = [
        (name, f"{one.interval.estimate:.4f}", _ends(one.interval), f"{one.lowest.low:.4f} … {one.highest.high:.4f}")
        for name, one in found.measures.items()
    ]
    about = (
        f"{found.ranker} on {data_label(found.data, found.synthetic)}; {found.estimator}; propensities: {found.curve}"
    )
    return notebook_view(
        "Evaluation by clicks", about=about, tables=[ViewTable(head, rows, _NAME)], notes=[_seen(found), *found.notes]
    )


def verdict_view(found: ClickComparison) -> str:
    """The verdict, the gain by each measure as a figure, and the estimates."""
    from cldrank.drawing.picture import picture
    from cldrank.evaluation.by_labels import data_label
    from cldrank.evaluation.verdict_page import TONES, gain_figure, measure_table, verdict_headline
    from cldrank.evaluation.verdict_words import sentence

    figure = gain_figure(found)
    about = f"{data_label(found.data, found.synthetic)}; {found.estimator}; propensities: {found.curve}"
    ways = [f"{way.name} ({way.pages:,} pages)" for way in found.settling if way.pages is not None]
    does = "settle" if found.verdict.decision == "cannot tell" else "confirm"
    settling = [f"What would {does} it: {', or '.join(ways)}."] if ways else []
    return notebook_view(
        f"{found.new} against {found.old}, by clicks",
        about=about,
        verdict=(verdict_headline(found), sentence(found.verdict.reason), TONES[found.verdict.decision]),
        pictures={} if figure is None else {figure.title: picture([figure])},
        tables=[ViewTable(*measure_table(found), _NAME)],
        notes=[*settling, _seen(found), *found.notes],
    )


def _seen(found: ClickEvaluation | ClickComparison) -> str:
    seen = found.support
    return (
        f"{seen.queries:,} queries, {seen.pages:,} pages, {seen.clicks:,} clicks; {percent(seen.shown, 1)} of the "
        f"first {seen.k} were ever shown."
    )


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def _ends(interval: Interval | None, *, signed: bool = False) -> str:
    if interval is None:
        return "–"
    ends = (interval.low, interval.high)
    return " … ".join(_signed(end) if signed else f"{end:.4f}" for end in ends)
