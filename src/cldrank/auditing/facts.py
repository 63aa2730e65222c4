"""What is known about a log: facts from cells and from the log itself, the findings, and the audit that has both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from cldrank._typing import Floats, IntArray
from cldrank.auditing.drift import Drift, describe_drift, wilson
from cldrank.clicks.aggregate import Account
from cldrank.clicks.bots import REASONS, bot_rule
from cldrank.clicks.candidates import ids_of
from cldrank.clicks.log.plain_log import Log
from cldrank.clicks.table import ClickTable
from cldrank.documents import Severity
from cldrank.propensity.comparing import best_requirement
from cldrank.propensity.identifiability import Order, Overlap, Requirement
from cldrank.tables import Relation

_QUANTILES = {"least": 0.0, "10%": 0.1, "25%": 0.25, "median": 0.5, "75%": 0.75, "90%": 0.9, "most": 1.0}
_MASK_BITS = 62  # positions of a page up to this depth have one bit each
_MOST_GROUPS = 20  # surfaces and rankers to name
_MOST_NAMED = 10  # suspicious users
_SHOWN = "(reason IS NULL OR reason = 'document twice')"  # rows that take up a position of their page


@dataclass(frozen=True)
class Finding:
    """What was found about a topic, in one sentence, and what to do, in another; nothing if nothing is to do.

    >>> Finding("clicks", "ok", "46,125 clicks in 235,200 impressions.").advice
    ''
    """

    topic: str
    severity: Severity
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """The overall judgement, as bad as the worst finding; findings come in order of severity.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2]], [7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2], impressions=[9, 9], clicks=[4, 1])
    >>> cr.auditing.audit_table(clicks).verdict.severity
    'blocking'
    """

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
class Pages:
    """Pages of a log, and how many of them are odd.

    gaps            a position is left out between the first and the last
    late            the first position is below 1, as on second pages
    shared          two documents stand at one position
    unclicked       nothing was clicked
    """

    pages: int
    impressions: int
    gaps: int
    late: int
    shared: int
    unclicked: int


@dataclass(frozen=True)
class PageGroup:
    """The pages of one surface, ranker or user; `depth` is the lowest position on any of them."""

    name: str
    pages: int
    impressions: int
    clicks: int
    depth: int


@dataclass(frozen=True)
class Bots:
    """Users (or sessions), and those among them whose behaviour lies far outside of the rest.

    kind            "user", or "session" where the log has no users
    unnamed         impressions without a user
    many_pages      users with more than `page_limit` pages: three quartile ranges, on a log scale and at least a
                    factor of two each, above the upper quartile
    all_clicked     users that clicked everything they saw, at least `all_clicked_from` impressions, which chance alone
                    would do less than once in a million
    high_rate       users with a click rate above `rate_limit`, three quartile ranges above the upper quartile, over
                    enough impressions that one at the upper quartile would reach it less than once in a million
    suspicious      users with any of the three; `impressions` and `clicks` are theirs
    named           the busiest of them
    """

    kind: Literal["user", "session"]
    users: int
    unnamed: int
    page_limit: int
    many_pages: int
    all_clicked_from: int
    all_clicked: int
    rate_limit: float | None
    high_rate: int
    suspicious: int
    impressions: int
    clicks: int
    named: tuple[PageGroup, ...]


@dataclass(frozen=True)
class LogFacts:
    """What only the log can say; None where it lacks the column.

    columns   the name of the column of each role that the log has
    """

    pages: Pages
    surfaces: tuple[PageGroup, ...] | None
    rankers: tuple[PageGroup, ...] | None
    bots: Bots
    drift: Drift | None
    columns: Mapping[str, str]


@dataclass(frozen=True)
class AuditFacts:
    """What was found about a log.

    source         what was audited, in words
    account        of the rows of the log; None where only cells were given
    by_position    impressions and clicks
    requirements   whether the log meets what each estimator of propensities needs, the best founded first
    log            pages, surfaces, users, drift; None where only cells were given

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[4, 1, 0])
    >>> facts = cr.auditing.audit_table(clicks).facts
    >>> facts.impressions, facts.clicks, facts.depth
    (18, 5, 2)
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


# -- from the log ---------------------------------------------------------------------------------------------------


def describe_log(log: Log, clicks: ClickTable, unit: str) -> tuple[LogFacts, IntArray]:
    """What only the log can say, and how many pages each query has; `unit` is how timestamps were read."""
    pages = page_table(log.table)
    shown = int(clicks.impressions.sum())
    rate = int(clicks.clicks.sum()) / shown if shown else 0.0
    facts = LogFacts(
        pages=describe_pages(pages, log.table),
        surfaces=describe_groups(pages, "surface"),
        rankers=describe_groups(pages, "ranker_id"),
        bots=describe_bots(pages, rate),
        drift=describe_drift(pages, unit) if "moment" in pages.columns else None,
        columns=log.columns,
    )
    by_query = pages.engine.arrow(f"SELECT query_id, count(*) AS pages FROM {pages} GROUP BY query_id")
    candidates = clicks.candidates
    query = candidates.find_queries(ids_of(by_query["query_id"], "the query_id of the log"))
    per_query: IntArray = np.zeros(candidates.n_queries, dtype=np.int64)
    per_query[query[query >= 0]] = by_query["pages"].to_numpy()[query >= 0]
    return facts, per_query


def page_table(log: Relation) -> Relation:
    """One row per page. Where a page has several users, surfaces or rankers, the last by name stands for it.

    size, clicked             rows that count, and those with a click
    first, first_clicked      the same at position 1
    top, bottom               the first and the last position
    doubtful                  whether a position comes twice, or positions are too deep to tell
    moment                    when it was first shown, in seconds since 1970
    """
    named = [f"max({name}) AS {name}" for name in ("user_id", "surface", "ranker_id") if name in log.columns]
    if "timestamp" in log.columns:
        named.append("CAST(floor(epoch(min(timestamp))) AS BIGINT) AS moment")
    kept = "WHERE reason IS NULL"
    bit = f"CAST(1 AS BIGINT) << CAST((position - 1) % {_MASK_BITS} AS INTEGER)"
    columns = (
        "session_id, query_id",
        f"count(*) FILTER ({kept}) AS size",
        f"count(*) FILTER ({kept} AND clicks > 0) AS clicked",
        f"count(*) FILTER ({kept} AND position = 1) AS first",
        f"count(*) FILTER ({kept} AND position = 1 AND clicks > 0) AS first_clicked",
        "min(position) AS top, max(position) AS bottom, count(*) AS positions",
        f"bit_count(bit_or({bit})) < count(*) AS doubtful",
        *named,
    )
    return log.engine.hold(f"SELECT {', '.join(columns)} FROM {log} WHERE {_SHOWN} GROUP BY session_id, query_id")


def describe_pages(pages: Relation, log: Relation) -> Pages:
    """Count the odd pages; positions of the doubtful ones are compared one by one."""
    counts = pages.engine.row(f"""
        SELECT count(*) AS pages, coalesce(sum(size), 0) AS impressions,
            count(*) FILTER (WHERE NOT doubtful AND bottom - top + 1 > positions) AS gaps,
            count(*) FILTER (WHERE top > 1) AS late, count(*) FILTER (WHERE doubtful) AS doubtful,
            count(*) FILTER (WHERE clicked = 0) AS unclicked
        FROM {pages}""")
    shared = 0
    if counts.pop("doubtful"):
        again = pages.engine.row(f"""
            WITH places AS (
                SELECT log.session_id, log.query_id, log.position, count(DISTINCT log.doc_id) AS documents
                FROM {log} AS log JOIN {pages} AS page
                    ON log.session_id = page.session_id AND log.query_id = page.query_id
                WHERE page.doubtful AND {_SHOWN} GROUP BY log.session_id, log.query_id, log.position
            ), per_page AS (
                SELECT max(position) - min(position) + 1 AS span, count(*) AS positions, max(documents) AS documents
                FROM places GROUP BY session_id, query_id
            )
            SELECT count(*) FILTER (WHERE span > positions) AS gaps, count(*) FILTER (WHERE documents > 1) AS shared
            FROM per_page""")
        counts["gaps"] += again["gaps"]
        shared = int(again["shared"])
    return Pages(shared=shared, **{name: int(value) for name, value in counts.items()})


def describe_groups(pages: Relation, column: str) -> tuple[PageGroup, ...] | None:
    """The largest surfaces or rankers; None where the log does not name them."""
    if column not in pages.columns:
        return None
    groups = pages.engine.rows(f"""
        SELECT coalesce(CAST({column} AS VARCHAR), '(none)') AS name, count(*) AS pages, sum(size) AS impressions,
            sum(clicked) AS clicks, max(bottom) AS depth
        FROM {pages} GROUP BY 1 ORDER BY impressions DESC, name LIMIT {_MOST_GROUPS}""")
    return _page_groups(groups)


def _page_groups(rows: list[dict[str, Any]]) -> tuple[PageGroup, ...]:
    return tuple(PageGroup(row.pop("name"), **{name: int(number) for name, number in row.items()}) for row in rows)


def describe_bots(pages: Relation, rate: float) -> Bots:
    """Find the users of a table of pages that do not look like people; `rate` is the click-through rate of the log."""
    engine, column = pages.engine, "user_id" if "user_id" in pages.columns else "session_id"
    unnamed = engine.row(f"SELECT coalesce(sum(size) FILTER (WHERE {column} IS NULL), 0) AS rows FROM {pages}")
    users = engine.hold(f"""
        SELECT {column} AS name, count(*) AS pages, CAST(sum(size) AS BIGINT) AS impressions,
            CAST(sum(clicked) AS BIGINT) AS clicks, max(bottom) AS depth
        FROM {pages} WHERE {column} IS NOT NULL GROUP BY {column}""")
    rule = bot_rule(users, rate)
    reasons = rule.sql()
    odd = " OR ".join(f"({condition})" for condition in reasons.values())
    counts = engine.row(f"""
        SELECT count(*) AS users, {", ".join(f"count(*) FILTER (WHERE {reasons[name]}) AS {name}" for name in REASONS)},
            count(*) FILTER (WHERE {odd}) AS suspicious, coalesce(sum(clicks) FILTER (WHERE {odd}), 0) AS clicks,
            coalesce(sum(impressions) FILTER (WHERE {odd}), 0) AS impressions
        FROM {users}""")
    busiest = engine.rows(f"""
        SELECT CAST(name AS VARCHAR) AS name, pages, impressions, clicks, depth FROM {users} WHERE {odd}
        ORDER BY impressions DESC, name LIMIT {_MOST_NAMED}""")
    return Bots(
        kind="user" if column == "user_id" else "session",
        unnamed=int(unnamed["rows"]),
        page_limit=rule.page_limit,
        all_clicked_from=rule.all_clicked_from,
        rate_limit=rule.rate_limit,
        named=_page_groups(busiest),
        **{name: int(value) for name, value in counts.items()},
    )
