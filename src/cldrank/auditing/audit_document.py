"""The audit as a document: a page, and a summary of it for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cldrank import documents as docs
from cldrank.auditing.facts import Audit, AuditFacts, PageGroup, PositionClicks
from cldrank.documents import Block, Details, Document, Figure, Heading, Notice, Paragraph, Point, Table, left_out
from cldrank.documents.numbers import percent, span
from cldrank.documents.svg import LETTER
from cldrank.propensity.behaviour import AfterClick
from cldrank.wording import count

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
    blocks: list[Block] = [
        _verdict(audit, "Verdict"),
        Paragraph(_size(facts)),
        Heading("Findings"),
        *_findings(audit),
        Heading("Positions"),
        _position_figure(facts),
        Details("All numbers", _positions(facts, _MOST_POSITIONS)),
        Heading("Propensities"),
        _requirements(facts),
        *_behaviour(facts),
        *_plan(facts),
        Heading("Traffic"),
        *(_traffic(facts) if facts.log else [Paragraph("Cells alone say nothing of users and time.")]),
    ]
    drift = None if facts.log is None else facts.log.drift
    period = [] if drift is None else [f"{drift.first} to {drift.last} UTC"]
    unknown = ["cells only: what needs the log itself is unknown"] if facts.log is None else []
    return Document("Click log audit", blocks, [" · ".join([facts.source, *period, *unknown])], _FOOTER)


def audit_summary(audit: Audit) -> Document:
    """For a terminal or a notebook: clicks by position, the findings, and last, where a terminal stops, the verdict."""
    facts = audit.facts
    blocks: list[Block] = [
        *([_position_figure(facts)] if facts.by_position else []),
        *_positions(facts, _MOST_IN_SUMMARY),
        Paragraph("error: of the log propensity", quiet=True),
        Heading("Findings"),
        *_findings(audit),
        *_plan(facts),
        _verdict(audit),
    ]
    return Document(f"{facts.source}: {_size(facts)}", blocks)


def _size(facts: AuditFacts) -> str:
    queries, depth = count(facts.queries.searched, "query", "queries"), count(facts.depth, "position")
    events = "".join(f", {number:,} {name}" for name, number in facts.events.items())
    return f"{count(facts.impressions, 'impression')}, {count(facts.clicks, 'click')}{events}, {queries}, {depth} deep"


def _verdict(audit: Audit, title: str = "") -> Notice:
    return Notice(audit.verdict.severity, audit.verdict.sentence, title, large=True)


def _findings(audit: Audit) -> Iterator[Notice]:
    for finding in audit.verdict.findings:
        yield Notice(finding.severity, finding.found, finding.topic, finding.advice)


def _plan(facts: AuditFacts) -> Iterator[Block]:
    if facts.plan is not None:
        yield Heading("What a verdict will take")
        yield from map(Paragraph, facts.plan.sentences)


def _position_figure(facts: AuditFacts) -> Figure:
    entries = facts.by_position[:_MOST_POSITIONS]
    points = tuple(
        Point(at, e.rate, e.low, e.high, f"position {e.position}: {percent(e.rate, 2)} ({span(e.low, e.high, '.2%')})")
        for at, e in enumerate(entries)
    )
    along = _position_axis(entries)
    rates = docs.Axis.from_zero(max((entry.high for entry in entries), default=0.0), in_percent=True)
    title, about = "Click-through rate by position", "Clicks per impression, with 95% intervals."
    return Figure(title, (docs.Series(title, points),), along, rates, "dots", _WIDTH, _HEIGHT, about=about)


def _behaviour(facts: AuditFacts) -> Iterator[Block]:
    """Examination below a click; nothing where it is unknown."""
    entries = facts.behaviour.by_position
    if not entries:
        return
    points = tuple(
        Point(at, e.ratio, e.low, e.high, f"position {e.position}: {e.ratio:.2f} ({span(e.low, e.high, '.2f')})")
        for at, e in enumerate(entries)
    )
    ratios = docs.Axis.from_zero(max(entry.high for entry in entries))
    title, about = "Examination below a click", "Relative to no click above, with 90% intervals; 1: position-based."
    series = (docs.Series(title, points),)
    along = _position_axis(entries)
    yield Heading("Behaviour")
    yield Figure(title, series, along, ratios, "dots", _WIDTH, _HEIGHT, marked=(1.0,), about=about)


def _position_axis(entries: Sequence[PositionClicks | AfterClick]) -> docs.Axis:
    names = [str(entry.position) for entry in entries]
    most = max(2, min(12, int((_WIDTH - 60) / (LETTER * max(map(len, names), default=1) + 8))))
    return docs.Axis.of_labels(names, most=most, name="position")


def _positions(facts: AuditFacts, most: int) -> list[Block]:
    """Clicks by position, and how precise the propensity there would be."""
    errors = dict(enumerate(facts.chosen.errors, start=1)) if facts.chosen else {}
    rows = [
        (
            entry.position,
            f"{entry.impressions:,}",
            f"{entry.clicks:,}",
            percent(entry.rate, 2),
            span(entry.low, entry.high, ".2%"),
            f"{error:.3f}" if (error := errors.get(entry.position)) else "",
        )
        for entry in facts.by_position[:most]
    ]
    table = Table(("position", "impressions", "clicks", "rate", "95% interval", "error"), rows)
    return [table, *left_out(len(rows), len(facts.by_position), "positions")]


def _requirements(facts: AuditFacts) -> Table:
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
    return Table(head, rows, "Estimators of propensities", about, text=("here", "why"), wide=True)


def _traffic(facts: AuditFacts) -> Iterator[Block]:
    log, account = facts.log, facts.account
    if log is not None:
        kind = f"{log.bots.kind}s"
        about = f"{log.bots.suspicious:,} of {log.bots.users:,} {kind} behave unlike people; the busiest of these."
        yield _groups(f"Suspicious {kind}", about, log.bots.named)
        if log.surfaces:
            yield _groups("Surfaces", "The largest, by impressions.", log.surfaces)
    if account is not None and account.rejected:
        about = f"{account.n_rejected:,} of {account.rows:,} rows ({percent(account.share_rejected, 2)})."
        reasons = [(f"{number:,}", account.why(reason)) for reason, number in account.rejected.items()]
        yield Table(("rows", "why"), reasons, "Rows set aside", about, text=("why",), wide=True)


def _groups(title: str, about: str, groups: Sequence[PageGroup]) -> Table:
    rows = [
        (
            group.name,
            f"{group.pages:,}",
            f"{group.impressions:,}",
            percent(group.clicks / max(group.impressions, 1), 2),
            group.depth,
        )
        for group in groups
    ]
    return Table(("name", "pages", "impressions", "rate", "depth"), rows, title, about)
