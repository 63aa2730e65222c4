"""The verdict of an experiment as a document."""

from __future__ import annotations

from collections.abc import Iterator

from cldrank import documents as doc
from cldrank.clicks.aggregate import REASONS
from cldrank.documents.numbers import minus, percent, short
from cldrank.evaluation.experiment_planning import say_way
from cldrank.evaluation.result_documents import SIGNS, TONES, prose, signed, worded_ends
from cldrank.online.analysis import COUNTERFACTUAL, ExperimentResult
from cldrank.online.experiment_log import PAGE_REASONS
from cldrank.wording import count, listed

_MOST_SEGMENTS = 20
_BAND = doc.Look("grey", (), "circle")
_ASSUMED = {
    "interleaving": (
        "Interleaved pages compare rankers by what people choose when they see both, not by what those do who only "
        "ever see one of them. "
    ),
    "ab": "The arms differ in nothing but the ranker, which the log cannot check. ",
}
_CREDIT = (
    "Counterfactual credit gives a click w(rank by new) − w(rank by old), whoever picked the result; ranks beyond the "
    "page are worth nothing. It decides sooner, but of level rankers only team credit is 0 on any queries."
)
_LAWS = (
    "Intervals are those of large samples. They hold at all looks at once if what is decided, and the pages at which "
    "they are shortest, were fixed before."
)


def experiment_document(result: ExperimentResult) -> doc.Document:
    """The verdict on top, then the measures, how the difference developed, and what the log was like."""
    verdict, (new, old) = result.verdict, result.names
    answer = verdict.headline(new, old, result.first.measure, evidence="pages")
    blocks: list[doc.Block] = [
        doc.Notice(TONES[verdict.decision], [answer], f"{SIGNS[verdict.decision]} {verdict.words}", large=True),
        doc.Paragraph([verdict.reason[:1].upper() + verdict.reason[1:]]),
        doc.Facts(_facts(result), large=True),
        doc.Heading("Measures"),
        _measure_table(result),
        *_days_figure(result),
        *_segment_table(result),
    ]
    if result.more is not None:
        blocks += [doc.Heading("What would settle it, with 80% power"), doc.Paragraph([say_way(result.more)])]
    blocks += [doc.Heading("Is the log sound?"), *map(prose, _sound(result)), *_aside_table(result)]
    assumed = _ASSUMED[result.kind] + (f"{_CREDIT} " if COUNTERFACTUAL in result.measures else "") + _LAWS
    blocks += [doc.Heading("When this must not be trusted"), prose(assumed)]
    what = "interleaved pages" if result.kind == "interleaving" else "an A/B test"
    about = f"{what[0].upper()}{what[1:]}, {count(sum(result.pages.values()), 'page')} of {result.data}."
    if result.experiment:
        about += f" Experiment {result.experiment}."
    return doc.Document(f"{new} against {old}, by {what}", blocks, [about])


def _facts(result: ExperimentResult) -> dict[str, str]:
    first = result.first
    share = {"of the old value": minus(f"{first.difference.estimate / first.old:+.1%}")} if first.old else {}
    return {
        f"{first.measure} per page": signed(first.difference.estimate),
        **share,
        "pages": short(sum(result.pages.values())),
        "persons": short(sum(result.persons.values())),
    }


def _measure_table(result: ExperimentResult) -> doc.Table:
    """Every measure with the interval that holds at every look, and the one of a single look beside it."""
    first = result.first
    arms = result.kind == "ab"
    confidence = f"{first.difference.confidence:.0%}"
    head = ["measure per page", *(result.names if arms else ()), "difference", f"{confidence} at every look"]
    head += [f"{confidence} at one look", *(["variance less"] if any(_reductions(result)) else [])]
    rows = []
    for estimate in result.measures.values():
        means = [f"{mean:.4f}" for mean in (estimate.new or 0.0, estimate.old)] if arms else []
        intervals = [worded_ends(estimate.difference), worded_ends(estimate.fixed)]
        less = [percent(estimate.reduction)] if any(_reductions(result)) else []
        rows.append((estimate.measure, *means, signed(estimate.difference.estimate), *intervals, *less))
    about = (
        f"The first decides. {result.names[0]} minus {result.names[1]}; what a person did counts as one. The interval "
    )
    about += "at one look holds only at a number of pages that was fixed before, whatever was seen until then."
    return doc.Table(head, rows, about=about, wide=True)


def _reductions(result: ExperimentResult) -> list[float]:
    return [estimate.reduction for estimate in result.measures.values()]


def _days_figure(result: ExperimentResult) -> Iterator[doc.Figure]:
    """The difference as one would have seen it at the end of each day."""
    days = {day: estimate for day, estimate in result.days.items() if estimate.difference.n >= 2}
    if len(days) < 2:
        return
    points = {"at every look": [], "at one look": []}  # type: dict[str, list[doc.Point]]
    for at, (day, estimate) in enumerate(days.items()):
        for name, interval in zip(points, (estimate.difference, estimate.fixed), strict=True):
            note = f"{day}: {signed(interval.estimate)} ({worded_ends(interval)})"
            points[name].append(doc.Point(at, interval.estimate, interval.low, interval.high, note))
    looks = {"at every look": None, "at one look": _BAND}
    series = tuple(doc.Series(name, tuple(each), looks[name]) for name, each in points.items())
    widest = list(days.values())[len(days) // 4 :]  # the first days would make the others flat
    ends = [end for estimate in widest for end in (estimate.difference.low, estimate.difference.high)]
    margin = result.verdict.margin
    along = doc.Axis.of_labels([f"{day:%d %b}" for day in days], most=8)
    values = doc.Axis.around([0.0, -margin, margin, *ends], most=6, name=f"{result.first.measure} per page, new − old")
    clipped = tuple(
        doc.Series(each.name, tuple(_within(point, values) for point in each.points), each.look) for each in series
    )
    about = "All pages until the end of each day. The wide band is the interval that holds at all days at once."
    yield doc.Figure("The difference, day by day", clipped, along, values, width=440, marked=(0.0,), about=about)


def _within(point: doc.Point, axis: doc.Axis) -> doc.Point:
    """A point whose band ends where the picture does."""
    low, high = (axis.within(end) for end in (point.low or 0.0, point.high or 0.0))
    return doc.Point(point.at, axis.within(point.value), low, high, point.note)


def _segment_table(result: ExperimentResult) -> Iterator[doc.Block]:
    if not result.segments:
        return
    shown = list(result.segments.items())[:_MOST_SEGMENTS]
    rows = [
        (name, signed(each.difference.estimate), worded_ends(each.difference), each.difference.n)
        for name, each in shown
    ]
    about = f"{result.first.measure} per page, each interval by itself: of many segments, some stand out by chance."
    head = (
        "segment",
        "difference",
        "interval at every look",
        "persons" if result.kind != "ab" else "persons, smaller arm",
    )
    yield doc.Heading("Segments")
    yield doc.Table(head, rows, about=about, wide=True)
    if len(shown) < len(result.segments):
        yield doc.Paragraph(f"{len(shown)} of {len(result.segments)} segments.", quiet=True)


def _sound(result: ExperimentResult) -> Iterator[str]:
    """The account of the log, in sentences."""
    shares = " : ".join(f"{share:.4f}" for share in result.sample_ratio.values())
    if result.kind == "ab":
        persons = listed([f"{count(n, 'person')} in {arm}" for arm, n in result.persons.items()])
        yield f"{persons}: {shares}. A test that refuses one in 1,000 sound experiments, at any look, has passed it."
    else:
        yield f"Who picks first, {' : '.join(result.names)}: {shares}, as the coin would have it."
    rows = result.rows
    repeated = f"{rows['repeated']:,} repeated others, which count once"
    yield f"{count(rows['read'], 'row')} read, {rows['set aside']:,} set aside; {repeated}."
    yield from result.notes


def _aside_table(result: ExperimentResult) -> Iterator[doc.Table]:
    rows = [("pages", f"{n:,}", PAGE_REASONS[reason]) for reason, n in result.aside.items()]
    rows += [("rows", f"{n:,}", REASONS[reason]) for reason, n in result.rejected.items()]
    if rows:
        yield doc.Table(("set aside", "number", "why"), rows, text=("why",), wide=True)
