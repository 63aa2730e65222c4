"""The audit as one HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cldrank.clicks.aggregate import REASONS
from cldrank.clicks.audit.verdict import NOTHING_TO_DO
from cldrank.drawing.axis import Axis
from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.heat import heat
from cldrank.drawing.numbers import percent, short
from cldrank.drawing.svg import LETTER, draw_figure
from cldrank.drawing.templating import render_page

if TYPE_CHECKING:
    from cldrank.clicks.audit.actors import Actors
    from cldrank.clicks.audit.drift import Drift
    from cldrank.clicks.audit.facts import Audit, Facts

_MOST_POSITIONS = 100  # in charts and tables; JSON has all
_MOST_IN_HEAT = 50
_MOST_ROWS = 12  # of the table of precision
_WIDTH, _HEIGHT = 440, 250

Card = dict[str, Any]  # title, about, and perhaps a chart, a table (head, rows, text) or wide


def render_audit(audit: Audit) -> str:
    """The whole page."""
    facts = audit.facts
    curve = facts.curve[:_MOST_POSITIONS]
    context = {
        "title": f"Click log audit: {facts.source}",
        "source": " · ".join([facts.source, *_period(facts)]),
        "verdict": audit.verdict,
        "nothing_to_do": NOTHING_TO_DO,
        "tiles": _tiles(facts),
        "positions": _positions(facts),
        "curve": [(p.position, f"{p.impressions:,}", f"{p.clicks:,}", *_rates(p.rate, p.low, p.high)) for p in curve],
        "left_out": f" (the first {_MOST_POSITIONS})" if len(facts.curve) > _MOST_POSITIONS else "",
        "methods": facts.ways,
        "overlap": _overlap(facts) if facts.overlap.moving else [],
        "traffic": list(_traffic(facts)),
    }
    return render_page("cldrank.clicks.audit", "audit.html", context)


def _period(facts: Facts) -> list[str]:
    if facts.log is None:
        return ["cells only: what needs the log itself is unknown"]
    drift = facts.log.drift
    return [] if drift is None else [f"{drift.first} to {drift.last} UTC"]


def _tiles(facts: Facts) -> dict[str, str]:
    pages = {} if facts.log is None else {"pages": f"{facts.log.pages.pages:,}"}
    return {
        **pages,
        "impressions": f"{facts.impressions:,}",
        "clicks": f"{facts.clicks:,}",
        "click-through rate": percent(facts.rate, 2),
        "queries": f"{facts.queries.searched:,}",
        "candidates shown": f"{facts.queries.shown:,}",
        "depth": f"{facts.depth}",
    }


# -- sections -----------------------------------------------------------------------------------------------------


def _positions(facts: Facts) -> list[Card]:
    curve = facts.curve[:_MOST_POSITIONS]
    names = [str(entry.position) for entry in curve]
    counts = [Point(at, p.impressions, note=f"position {p.position}: {p.impressions:,}") for at, p in enumerate(curve)]
    return [
        _card(rate_figure(facts), "Clicks per impression, with 95% intervals."),
        _chart("Impressions by position", "How often anything was shown there.", counts, names, "position", bars=True),
    ]


def rate_figure(facts: Facts) -> Figure:
    """Click-through rates by position."""
    curve = facts.curve[:_MOST_POSITIONS]
    rates = [
        Point(at, p.rate, p.low, p.high, "position {}: {} ({})".format(p.position, *_rates(p.rate, p.low, p.high)))
        for at, p in enumerate(curve)
    ]
    return _figure("Click-through rate by position", rates, [str(entry.position) for entry in curve], "position")


def _overlap(facts: Facts) -> list[Card]:
    overlap = facts.overlap
    names = [str(position) for position in overlap.positions[:_MOST_IN_HEAT]]
    about = (
        f"{overlap.moving:,} of {overlap.candidates:,} candidates were shown at several positions; "
        f"{overlap.pairs:,} of {overlap.possible_pairs:,} pairs of positions have some in common."
    )
    title = "Candidates in common by pair of positions"
    chart = heat(names, overlap.common, title=title, across="position", unit="candidates in common")
    return [{"title": "Overlap of positions", "about": about, "chart": chart}, _precision(facts)]


def _precision(facts: Facts) -> Card:
    entries = facts.precision[:_MOST_POSITIONS]
    if len(entries) > _MOST_ROWS:
        entries = tuple(entries[round(i * (len(entries) - 1) / (_MOST_ROWS - 1))] for i in range(_MOST_ROWS))
    rows = [
        (entry.position, f"{entry.candidates:,}", f"{entry.clicks:,}", _error(entry.step), _error(entry.all_pairs))
        for entry in entries
    ]
    about = (
        "Candidates in common with the position above, their clicks at the two, and the standard errors of log "
        "propensities: of that step alone, and against the top with all pairs."
    )
    if len(entries) < len(facts.precision):
        about += f" {len(entries)} of {len(facts.precision)} positions, evenly spread; --json has all."
    return _table("Expected precision", about, ("position", "in common", "clicks", "step", "all pairs"), rows)


def _traffic(facts: Facts) -> Iterable[Card]:
    queries = facts.queries
    if queries.searched > 1:
        counts = [
            Point(at, e.count, note=f"{e.low:,} … {e.high:,} pages: {e.count:,} queries")
            for at, e in enumerate(queries.histogram)
        ]
        names = [
            str(e.low) if e.low == e.high else f"{e.low:,}+" if e.low < 10_000 else f"{short(e.low)}+"
            for e in queries.histogram
        ]
        about = f"How often queries were searched; {queries.unclicked:,} of {queries.searched:,} have no click."
        yield _chart("Sessions per query", about, counts, names, "pages of a query, in powers of two", bars=True)
    if facts.log is not None:
        if facts.log.drift is not None:
            yield from _drift(facts.log.drift)
        yield _actors(facts.log.actors, facts)
        for title, groups in (("Surfaces", facts.log.surfaces), ("Rankers", facts.log.rankers)):
            if groups:
                rows = [
                    (g.name, f"{g.pages:,}", f"{g.impressions:,}", _share(g.clicks, g.impressions, 2), g.depth)
                    for g in groups
                ]
                head = ("name", "pages", "impressions", "rate", "depth")
                yield _table(title, "The largest, by impressions.", head, rows)
    if facts.rejects is not None and facts.rejects.rejected:
        rejects = facts.rejects
        about = f"{rejects.n_rejected:,} of {rejects.rows:,} rows ({percent(rejects.share_rejected, 2)})."
        reasons = [(f"{count:,}", REASONS[reason]) for reason, count in rejects.rejected.items()]
        yield _table("Rows set aside", about, ("rows", "why"), reasons, text=("why",)) | {"wide": True}


def _drift(drift: Drift) -> list[Card]:
    has_days = drift.seconds >= 86_400
    names = [entry.start[5:10] if has_days else entry.start[11:16] for entry in drift.slices]
    across = f"slices of {_length(drift.seconds)}, UTC"
    rates = [
        Point(at, e.top_rate, e.top_low, e.top_high, f"{e.start}: {e.top_clicks:,} of {e.top_impressions:,}")
        for at, e in enumerate(drift.slices)
        if e.top_rate is not None
    ]
    counts = [
        Point(at, e.impressions, note=f"{e.start}: {e.impressions:,} impressions") for at, e in enumerate(drift.slices)
    ]
    change = drift.top_rate
    rate_text = (
        "Too few clicks to test for change."
        if change is None
        else f"Varies by ±{change.spread:.1%} beyond chance ({change.p_text})."
    )
    count_text = (
        f"From {drift.first} to {drift.last}, read as {drift.unit}; {drift.silent} silent slices, "
        f"{drift.undated:,} pages without a time."
    )
    return [
        _chart("Click-through rate at position 1 over time", rate_text, rates, names, across),
        _chart("Impressions over time", count_text, counts, names, across, bars=True),
    ]


def _actors(actors: Actors, facts: Facts) -> Card:
    rate = "" if actors.rate_limit is None else f", or with a click rate above {percent(actors.rate_limit)}"
    about = (
        f"A {actors.kind} is suspicious with more than {actors.page_limit:,} pages, with {actors.all_clicked_from} or "
        f"more impressions all clicked{rate}. {actors.suspicious:,} of {actors.actors:,} {actors.kind}s are, with "
        f"{_share(actors.impressions, facts.impressions, 1)} of impressions and "
        f"{_share(actors.clicks, facts.clicks, 1)} of clicks."
    )
    rows = [
        (e.name, f"{e.pages:,}", f"{e.impressions:,}", f"{e.clicks:,}", _share(e.clicks, e.impressions))
        for e in actors.named
    ]
    return _table(f"Suspicious {actors.kind}s", about, (actors.kind, "pages", "impressions", "clicks", "rate"), rows)


# -- pieces -------------------------------------------------------------------------------------------------------


def _chart(
    title: str, about: str, points: Sequence[Point], names: Sequence[str], across: str, bars: bool = False
) -> Card:
    return _card(_figure(title, points, names, across, bars), about)


def _card(figure: Figure, about: str) -> Card:
    return {"title": figure.title, "about": about, "chart": draw_figure(figure)}


def _figure(title: str, points: Sequence[Point], names: Sequence[str], across: str, bars: bool = False) -> Figure:
    """Rates with intervals, or counts as bars."""
    top = max((point.value if point.high is None else point.high for point in points), default=0.0)
    most = max(2, min(12, int((_WIDTH - 60) / (LETTER * max(map(len, names), default=1) + 8))))
    along = Axis.of_labels(names, most=most, name=across)
    values = Axis.from_zero(top, in_percent=not bars)
    series = (Series(title, tuple(points)),)
    return Figure(title, series, along, values, "bars" if bars else "dots", _WIDTH, _HEIGHT)


def _table(
    title: str, about: str, head: Sequence[str], rows: Sequence[Sequence[object]], text: Sequence[str] = ()
) -> Card:
    return {"title": title, "about": about, "table": (head, rows, text) if rows else None}


def _rates(rate: float, low: float, high: float) -> tuple[str, str]:
    return percent(rate, 2), f"{percent(low, 2)} … {percent(high, 2)}"


def _share(part: int, whole: int, digits: int = 0) -> str:
    return percent(part / max(whole, 1), digits)


def _error(error: float | None) -> str:
    return "–" if error is None else f"{error:.3f}"


def _length(seconds: float) -> str:
    """A length of time as one number.

    >>> _length(100.5), _length(7200), _length(86_400)
    ('1.7 minutes', '2 hours', '1 day')
    """
    for name, length in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= length:
            count = f"{seconds / length:.2g}"
            return f"{count} {name}{'' if count == '1' else 's'}"
    return f"{seconds:.2g} seconds"
