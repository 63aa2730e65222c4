"""The audit as a document: a page with charts, and a summary for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cldrank import documents as docs
from cldrank.auditing.drift import DAY, Drift
from cldrank.auditing.facts import Audit, AuditFacts, Bots
from cldrank.documents import Block, Details, Document, Figure, Heading, Notice, Paragraph, Point, Table, left_out
from cldrank.documents.numbers import percent
from cldrank.documents.svg import LETTER
from cldrank.wording import count, duration

_MOST_POSITIONS = 100  # in charts and tables; JSON has all
_MOST_IN_SUMMARY = 30
_WIDTH, _HEIGHT = 440, 250
_FOOTER = (
    "Intervals cover 95% and treat clicks as independent of each other; where a few users make most of the clicks, the "
    "true ones are somewhat wider."
)


def audit_document(audit: Audit) -> Document:
    """All of it: verdict, findings, and what they rest on."""
    facts = audit.facts
    traffic = list(_traffic(facts)) or [Paragraph("Cells alone say nothing of users and time.")]
    blocks: list[Block] = [
        _verdict(audit, "Verdict"),
        docs.Facts(_tiles(facts), large=True),
        Heading("Findings"),
        *_findings(audit),
        Heading("Positions"),
        *_position_figures(facts),
        Details("All numbers", _positions(facts, _MOST_POSITIONS)),
        Heading("Propensities"),
        *_propensities(facts),
        Heading("Traffic"),
        *traffic,
    ]
    drift = None if facts.log is None else facts.log.drift
    period = [] if drift is None else [f"{drift.first} to {drift.last} UTC"]
    unknown = ["cells only: what needs the log itself is unknown"] if facts.log is None else []
    return Document("Click log audit", blocks, [" · ".join([facts.source, *period, *unknown])], _FOOTER)


def audit_summary(audit: Audit) -> Document:
    """For a terminal or a notebook: clicks by position, the findings, and last, where a terminal stops, the verdict."""
    facts = audit.facts
    queries, depth = count(facts.queries.searched, "query", "queries"), count(facts.depth, "position")
    size = f"{count(facts.impressions, 'impression')}, {count(facts.clicks, 'click')}, {queries}, {depth} deep"
    blocks: list[Block] = [
        *([_position_figures(facts)[0]] if facts.by_position else []),
        *_positions(facts, _MOST_IN_SUMMARY),
        Paragraph("in common: candidates also shown at the position above; error: of the log propensity", quiet=True),
        Heading("Findings"),
        *_findings(audit),
        _verdict(audit),
    ]
    return Document(f"{facts.source}: {size}", blocks)


def _verdict(audit: Audit, title: str = "") -> Notice:
    return Notice(audit.verdict.severity, audit.verdict.sentence, title, large=True)


def _findings(audit: Audit) -> Iterator[Notice]:
    for finding in audit.verdict.findings:
        yield Notice(finding.severity, finding.found, finding.topic, finding.advice)


def _tiles(facts: AuditFacts) -> dict[str, str]:
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


# -- positions and propensities ------------------------------------------------------------------------------------


def _position_figures(facts: AuditFacts) -> tuple[Figure, Figure]:
    """Click-through rates and impressions by position."""
    entries = facts.by_position[:_MOST_POSITIONS]
    names = [str(entry.position) for entry in entries]
    rates = [
        Point(at, e.rate, e.low, e.high, f"position {e.position}: {percent(e.rate, 2)} ({_ends(e.low, e.high)})")
        for at, e in enumerate(entries)
    ]
    counts = [(e.impressions, f"position {e.position}: {e.impressions:,}") for e in entries]
    return (
        _figure(
            "Click-through rate by position", "Clicks per impression, with 95% intervals.", rates, names, "position"
        ),
        _bars("Impressions by position", "How often anything was shown there.", counts, names, "position"),
    )


def _positions(facts: AuditFacts, most: int) -> list[Block]:
    """Clicks by position, with what the estimator of propensities would compare and how precisely."""
    errors = dict(enumerate(facts.chosen.errors, start=1)) if facts.chosen else {}
    common = facts.overlap.common
    rows = [
        (
            entry.position,
            f"{entry.impressions:,}",
            f"{entry.clicks:,}",
            percent(entry.rate, 2),
            _ends(entry.low, entry.high),
            f"{common[at][at - 1]:,}" if 0 < at < len(common) else "",
            f"{error:.3f}" if (error := errors.get(entry.position)) else "",
        )
        for at, entry in enumerate(facts.by_position[:most])
    ]
    table = Table(("position", "impressions", "clicks", "rate", "95% interval", "in common", "error"), rows)
    return [table, *left_out(len(rows), len(facts.by_position), "positions")]


def _propensities(facts: AuditFacts) -> Iterator[Block]:
    rows = [
        (
            need.estimator,
            docs.Strong("possible") if need.met else "not here",
            "" if need.error is None else f"{need.error:.3f}",
            need.reason.replace("`", ""),
        )
        for need in facts.requirements
    ]
    about = "Error: the largest standard error of a log propensity; 0.1 means about ±18% at 90% confidence."
    head = ("estimator", "here", "error", "why")
    yield Table(head, rows, "Estimators of propensities", about, text=("here", "why"), wide=True)
    overlap = facts.overlap
    if overlap.moving:
        yield Paragraph(
            f"{overlap.moving:,} of {overlap.candidates:,} candidates were shown at several positions; "
            f"{overlap.pairs:,} of {overlap.possible_pairs:,} pairs of positions have some in common."
        )


# -- traffic -------------------------------------------------------------------------------------------------------


def _traffic(facts: AuditFacts) -> Iterator[Block]:
    log, account = facts.log, facts.account
    if log is not None:
        if log.drift is not None:
            yield from _drift(log.drift)
        yield _bots(log.bots, facts)
        for title, groups in (("Surfaces", log.surfaces), ("Rankers", log.rankers)):
            if groups:
                rows = [
                    (g.name, f"{g.pages:,}", f"{g.impressions:,}", _share(g.clicks, g.impressions, 2), g.depth)
                    for g in groups
                ]
                head = ("name", "pages", "impressions", "rate", "depth")
                yield Table(head, rows, title, "The largest, by impressions.")
    if account is not None and account.rejected:
        about = f"{account.n_rejected:,} of {account.rows:,} rows ({percent(account.share_rejected, 2)})."
        reasons = [(f"{number:,}", account.why(reason)) for reason, number in account.rejected.items()]
        yield Table(("rows", "why"), reasons, "Rows set aside", about, text=("why",), wide=True)


def _drift(drift: Drift) -> Iterator[Block]:
    has_days = drift.seconds >= DAY
    names = [entry.start[5:10] if has_days else entry.start[11:16] for entry in drift.slices]
    length = count(int(drift.seconds // DAY), "day") if has_days else duration(drift.seconds)
    across, change = f"slices of {length}, UTC", drift.top_rate
    rates = [
        Point(at, e.top_rate, e.top_low, e.top_high, f"{e.start}: {e.top_clicks:,} of {e.top_impressions:,}")
        for at, e in enumerate(drift.slices)
        if e.top_rate is not None
    ]
    about = "Too few clicks to test for change."
    if change is not None:
        about = f"Varies by ±{change.spread:.1%} beyond chance ({change.p_text})."
    yield _figure("Click-through rate at position 1 over time", about, rates, names, across)
    about = (
        f"From {drift.first} to {drift.last}, read as {drift.unit}; {drift.silent} silent slices, {drift.undated:,} "
        "pages without a time."
    )
    counts = [(e.impressions, f"{e.start}: {e.impressions:,} impressions") for e in drift.slices]
    yield _bars("Impressions over time", about, counts, names, across)


def _bots(bots: Bots, facts: AuditFacts) -> Table:
    rate = "" if bots.rate_limit is None else f", or with a click rate above {percent(bots.rate_limit)}"
    about = (
        f"A {bots.kind} is suspicious with more than {bots.page_limit:,} pages, with {bots.all_clicked_from} or more "
        f"impressions all clicked{rate}. {bots.suspicious:,} of {bots.users:,} {bots.kind}s are, with "
        f"{_share(bots.impressions, facts.impressions, 1)} of impressions and "
        f"{_share(bots.clicks, facts.clicks, 1)} of clicks."
    )
    rows = [
        (e.name, f"{e.pages:,}", f"{e.impressions:,}", f"{e.clicks:,}", _share(e.clicks, e.impressions))
        for e in bots.named
    ]
    return Table((bots.kind, "pages", "impressions", "clicks", "rate"), rows, f"Suspicious {bots.kind}s", about)


# -- pieces --------------------------------------------------------------------------------------------------------


def _bars(title: str, about: str, counts: Iterable[tuple[int, str]], names: Sequence[str], across: str) -> Figure:
    points = [Point(at, number, note=note) for at, (number, note) in enumerate(counts)]
    return _figure(title, about, points, names, across, bars=True)


def _figure(
    title: str, about: str, points: Sequence[Point], names: Sequence[str], across: str, bars: bool = False
) -> Figure:
    """Rates with intervals, or counts as bars."""
    top = max((point.value if point.high is None else point.high for point in points), default=0.0)
    most = max(2, min(12, int((_WIDTH - 60) / (LETTER * max(map(len, names), default=1) + 8))))
    along = docs.Axis.of_labels(names, most=most, name=across)
    values = docs.Axis.from_zero(top, in_percent=not bars)
    series = (docs.Series(title, tuple(points)),)
    return Figure(title, series, along, values, "bars" if bars else "dots", _WIDTH, _HEIGHT, about=about)


def _ends(low: float, high: float) -> str:
    return f"{percent(low, 2)} … {percent(high, 2)}"


def _share(part: int, whole: int, digits: int = 0) -> str:
    return percent(part / max(whole, 1), digits)
