"""What is known about a log: facts from cells and from the log itself, the findings, and the audit that has both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.auditing.drift import Drift, wilson
from cldrank.auditing.log_facts import Bots, PageGroup, Pages
from cldrank.clicks.aggregate import Account
from cldrank.clicks.table import ClickTable
from cldrank.documents import Severity
from cldrank.propensity.comparing import best_requirement
from cldrank.propensity.identifiability import Order, Overlap, Requirement

Floats = NDArray[np.float64]

_QUANTILES = {"least": 0.0, "10%": 0.1, "25%": 0.25, "median": 0.5, "75%": 0.75, "90%": 0.9, "most": 1.0}


@dataclass(frozen=True)
class Finding:
    """What was found about a topic, in one sentence, and what to do, in another; nothing if nothing is to do."""

    topic: str
    severity: Severity
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """The overall judgement, as bad as the worst finding; findings come in order of severity."""

    severity: Severity
    sentence: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class PositionClicks:
    """Impressions and clicks at one position; `low` … `high` is the 95% Wilson interval of the click-through rate."""

    position: int
    impressions: int
    clicks: int
    rate: float
    low: float
    high: float
    error: float  # the standard error of the rate


@dataclass(frozen=True)
class Queries:
    """How the traffic spreads over queries and their candidates.

    searched      queries with at least one impression
    sessions      quantiles of the pages shown for a searched query
    clicks        quantiles of the clicks of a searched query
    unclicked     searched queries without a click
    candidates    of searched queries, None where only displayed ones are known
    never_shown   of those, how many were at no position ever, or None
    """

    queries: int
    searched: int
    sessions: dict[str, float]
    clicks: dict[str, float]
    unclicked: int
    shown: int
    candidates: int | None
    never_shown: int | None


@dataclass(frozen=True)
class LogFacts:
    """What only the log can say; None where it lacks the column.

    propensity, times    whether the log has such a column
    """

    pages: Pages
    surfaces: tuple[PageGroup, ...] | None
    rankers: tuple[PageGroup, ...] | None
    bots: Bots
    drift: Drift | None
    propensity: bool
    times: bool


@dataclass(frozen=True)
class AuditFacts:
    """What was found about a log.

    source         what was audited, in words
    account        of the rows of the log; None where only cells were given
    by_position    impressions and clicks
    requirements   whether the log meets what each estimator of propensities needs, the best founded first
    log            pages, surfaces, users, drift; None where only cells were given
    """

    source: str
    account: Account | None
    by_position: tuple[PositionClicks, ...]
    queries: Queries
    overlap: Overlap
    order: Order
    requirements: tuple[Requirement, ...]
    log: LogFacts | None

    @property
    def impressions(self) -> int:
        """All impressions that count."""
        return sum(entry.impressions for entry in self.by_position)

    @property
    def clicks(self) -> int:
        """All clicks that count."""
        return sum(entry.clicks for entry in self.by_position)

    @property
    def rate(self) -> float:
        """The click-through rate."""
        return self.clicks / self.impressions if self.impressions else 0.0

    @property
    def depth(self) -> int:
        """The lowest position at which anything was shown."""
        return self.by_position[-1].position if self.by_position else 0

    @property
    def pages(self) -> int:
        """How many pages there are; from cells alone, at least how many."""
        if self.log is not None:
            return self.log.pages.pages
        return max((entry.impressions for entry in self.by_position), default=0)

    @property
    def chosen(self) -> Requirement | None:
        """The requirement of the estimator that `cldrank propensity estimate` chooses; None where it refuses."""
        return best_requirement(self.requirements)


@dataclass(frozen=True)
class Audit:
    """What a log can and cannot support: the facts, and the verdict on them.

    >>> import cldrank as cr
    >>> from cldrank.auditing import audit_table
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[4, 1, 0])
    >>> result = audit_table(clicks)
    >>> result.verdict.severity, sorted(result.as_dict())[:3]
    ('blocking', ['account', 'by_position', 'log'])
    """

    facts: AuditFacts
    verdict: Verdict

    def worded(self, words: Callable[[str], str]) -> Audit:
        """The same audit with all advice as `words` puts it, for the command line."""
        findings = tuple(
            replace(finding, found=words(finding.found), advice=words(finding.advice))
            for finding in self.verdict.findings
        )
        verdict = replace(self.verdict, sentence=words(self.verdict.sentence), findings=findings)
        return replace(self, verdict=verdict)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; None where something is unknown."""
        totals = {name: getattr(self.facts, name) for name in ("impressions", "clicks", "rate", "depth")}
        facts = asdict(self.facts)
        if facts["account"] is not None:
            facts["account"].pop("seconds")
        return {"source": facts.pop("source"), "verdict": asdict(self.verdict), "totals": totals, **facts}

    def to_html(self) -> str:
        """One page with charts that needs nothing else: no network, no other files."""
        from cldrank.auditing.audit_document import audit_document
        from cldrank.documents import render_html

        return render_html(audit_document(self))

    def _repr_html_(self) -> str:
        from cldrank.auditing.audit_document import audit_summary
        from cldrank.documents import render_notebook

        return render_notebook(audit_summary(self))

    def __str__(self) -> str:
        from cldrank.auditing.audit_document import audit_summary
        from cldrank.documents import terminal_text

        return terminal_text(audit_summary(self))


# -- from cells ----------------------------------------------------------------------------------------------------


def by_position(table: ClickTable) -> tuple[PositionClicks, ...]:
    """Impressions and clicks at every position where anything was shown."""
    impressions = np.bincount(table.position, table.impressions).astype(np.float64)
    clicks = np.bincount(table.position, table.clicks).astype(np.float64)
    places = np.flatnonzero(impressions)
    n, c = impressions[places], clicks[places]
    low, high = wilson(c, n)
    rate = c / n
    error = np.sqrt(np.maximum(rate * (1 - rate), 0.0) / n)
    return tuple(
        PositionClicks(int(place), int(shown), int(clicked), float(r), float(lo), float(hi), float(e))
        for place, shown, clicked, r, lo, hi, e in zip(places, n, c, rate, low, high, error, strict=True)
    )


def describe_queries(table: ClickTable, knows_candidates: bool, pages: IntArray | None = None) -> Queries:
    """How the traffic spreads over queries.

    knows_candidates   whether the table is aligned to a dataset
    pages              of each query; cells alone imply them only if no position of a page has two results
    """
    most = table.query_impressions
    searched = most > 0
    pages = most if pages is None else np.where(pages > 0, pages, most)
    clicks = np.bincount(table.candidates.row_queries, table.row_clicks, table.n_queries)[searched]
    shown = int(table.shown.sum())
    candidates = int(table.candidates.sizes[searched].sum())
    return Queries(
        queries=table.n_queries,
        searched=int(searched.sum()),
        sessions=_quantiles(pages[searched]),
        clicks=_quantiles(clicks),
        unclicked=int((clicks == 0).sum()),
        shown=shown,
        candidates=candidates if knows_candidates else None,
        never_shown=candidates - shown if knows_candidates else None,
    )


def _quantiles(values: Floats | IntArray) -> dict[str, float]:
    if not len(values):
        return {}
    quantiles = np.quantile(values, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, quantiles.astype(float).tolist(), strict=True))
