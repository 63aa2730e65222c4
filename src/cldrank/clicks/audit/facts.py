"""`Audit`: all that was found about a log, with the verdict; as text, as a dictionary, as a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from cldrank.clicks.aggregate import Account
from cldrank.clicks.audit.log_facts import LogFacts
from cldrank.clicks.audit.overlap import Order, Overlap, Precision
from cldrank.clicks.audit.positions import Position, Queries
from cldrank.clicks.audit.verdict import Verdict
from cldrank.clicks.audit.ways import PropensityWay
from cldrank.errors import Language


@dataclass(frozen=True)
class Facts:
    """What was found about a log.

    source     what was audited, in words
    rejects    the account of the rows of the log; None where only cells were given
    curve      clicks by position
    ways       which comparisons of positions the log supports, and whether a lower bound
    log        what only the log can say (pages, surfaces, users, drift); None where only cells were given
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
    """What a log can and cannot support: the facts, and the verdict on them."""

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
            f"{facts.source}: {facts.impressions:,} impressions, {facts.clicks:,} clicks, {facts.depth} positions deep",
            self.verdict.sentence,
            "",
        ]
        for finding in self.verdict.findings:
            lines += [f"{finding.severity:>8}  {finding.topic}: {finding.found}", f"{'':>8}  {finding.advice}"]
        lines += ["", f"{'position':>8} {'impressions':>12} {'clicks':>10} {'CTR':>8}   95% interval"]
        lines += [
            f"{entry.position:>8} {entry.impressions:>12,} {entry.clicks:>10,} {entry.rate:>8.4f}   "
            f"{entry.low:.4f} … {entry.high:.4f}"
            for entry in facts.curve
        ]
        return "\n".join(lines)
