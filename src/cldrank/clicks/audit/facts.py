"""`Audit`: all that was found about a log, with the verdict; as text, as a dictionary, as a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from cldrank.clicks.aggregate import Account
from cldrank.clicks.audit.log_facts import LogFacts
from cldrank.clicks.audit.overlap import Order, Overlap, Precision
from cldrank.clicks.audit.positions import Position, Queries
from cldrank.clicks.audit.verdict import Severity, Verdict
from cldrank.clicks.audit.ways import PropensityWay
from cldrank.errors import Language
from cldrank.wording import count


@dataclass(frozen=True)
class Facts:
    """What was found about a log.

    source     what was audited, in words
    rejects    the account of the rows of the log; None where only cells were given
    curve      clicks by position
    ways       which comparisons of positions the log supports, and whether a lower bound
    log        what only the log can say (pages, surfaces, users, drift); None where only cells were given

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[4, 1, 0])
    >>> facts = cr.clicks.audit.audit_table(clicks).facts
    >>> facts.impressions, facts.clicks, facts.depth, [way.name for way in facts.ways if way.possible]
    (18, 5, 2, [])
    """

    source: str
    rejects: Account | None
    curve: tuple[Position, ...]
    queries: Queries
    overlap: Overlap
    order: Order
    precision: tuple[Precision, ...]
    ways: tuple[PropensityWay, ...]
    log: LogFacts | None

    @property
    def impressions(self) -> int:
        """All impressions that count."""
        return sum(entry.impressions for entry in self.curve)

    @property
    def clicks(self) -> int:
        """All clicks that count."""
        return sum(entry.clicks for entry in self.curve)

    @property
    def rate(self) -> float:
        """The click-through rate."""
        return self.clicks / self.impressions if self.impressions else 0.0

    @property
    def depth(self) -> int:
        """The lowest position at which anything was shown."""
        return self.curve[-1].position if self.curve else 0


@dataclass(frozen=True)
class Audit:
    """What a log can and cannot support: the facts, and the verdict on them.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[4, 1, 0])
    >>> result = cr.clicks.audit.audit_table(clicks)
    >>> result.verdict.severity.value, sorted(result.as_dict())[:3]
    ('warning', ['curve', 'log', 'order'])
    """

    facts: Facts
    verdict: Verdict

    def said(self, language: Language) -> Audit:
        """The same with advice in the words of Python or of the command line."""
        from cldrank.clicks.audit.rules import judge

        return replace(self, verdict=judge(self.facts, language))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; None where something is unknown."""
        facts = self.facts
        totals = {name: getattr(facts, name) for name in ("impressions", "clicks", "rate", "depth")}
        found = asdict(facts)
        if found["rejects"] is not None:
            found["rejects"].pop("seconds")
        source = found.pop("source")
        return {"source": source, "verdict": asdict(self.verdict), "totals": totals, **found}

    def to_html(self) -> str:
        """One page with charts that needs nothing else: no network, no other files."""
        from cldrank.clicks.audit.audit_page import render_audit

        return render_audit(self)

    def _repr_html_(self) -> str:
        from cldrank.clicks.clicks_view import audit_view

        return audit_view(self)

    def __str__(self) -> str:
        facts = self.facts
        lines = [
            f"{facts.source}: {count(facts.impressions, 'impression')}, {count(facts.clicks, 'click')}, "
            f"{count(facts.depth, 'position')} deep",
            self.verdict.sentence,
            "",
        ]
        for finding in self.verdict.findings:
            lines.append(f"{finding.severity:>8}  {finding.topic}: {finding.found}")
            if finding.severity != Severity.ok:
                lines.append(f"{'':>8}  {finding.advice}")
        lines += ["", f"{'position':>8} {'impressions':>12} {'clicks':>10} {'CTR':>8}   95% interval"]
        lines += [
            f"{entry.position:>8} {entry.impressions:>12,} {entry.clicks:>10,} {entry.rate:>8.4f}   "
            f"{entry.low:.4f} … {entry.high:.4f}"
            for entry in facts.curve
        ]
        return "\n".join(lines)
