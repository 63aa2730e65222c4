"""What is known about a log: facts from cells and from the log itself, the findings, and the audit that has both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from cldrank.auditing.drift import Drift, describe_drift, wilson
from cldrank.auditing.planning import VerdictPlan
from cldrank.clicks.aggregate import Account
from cldrank.clicks.bots import BOT_REASONS, bot_rule
from cldrank.clicks.log.plain_log import Log
from cldrank.clicks.table import ClickTable
from cldrank.documents import Severity
from cldrank.propensity.behaviour import Behaviour
from cldrank.propensity.choosing import best_requirement
from cldrank.propensity.identifiability import Order, Overlap, Requirement
from cldrank.tables import Relation

MOST_SURFACES = 20  # to name
_MASK_BITS = 62  # positions of a page up to this depth have a bit each
_MOST_NAMED = 10  # suspicious users
_SHOWN = "(reason IS NULL OR reason = 'document twice')"  # rows that take up a position of their page


@dataclass(frozen=True)
class Finding:
    """What the audit says about a topic, and its advice, a sentence each; advice is empty where nothing is to be done.

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


@dataclass(frozen=True)
class Queries:
    """Queries and their candidates.

    searched      queries with at least one impression
    most_pages    the most pages shown for any query; a lower limit, where pages have two results at the same position
    unclicked     searched queries without a click
    candidates    of searched queries, None where only displayed ones are known
    never_shown   how many of those were never shown, or None
    """

    queries: int
    searched: int
    most_pages: int
    unclicked: int
    shown: int
    candidates: int | None
    never_shown: int | None


@dataclass(frozen=True)
class PageGroup:
    """The pages of one surface or user; `depth` is the lowest position on any of them."""

    name: str
    pages: int
    impressions: int
    clicks: int
    depth: int


@dataclass(frozen=True)
class Bots:
    """Users (or sessions) that do not look like people, by the rules of `BotRule`.

    reasons       the number of users for each reason, such as "more than 50 pages"
    suspicious    users with any of these; `impressions` and `clicks` are theirs
    named         the busiest of them
    """

    kind: Literal["user", "session"]
    users: int
    reasons: Mapping[str, int]
    suspicious: int
    impressions: int
    clicks: int
    named: tuple[PageGroup, ...]


@dataclass(frozen=True)
class LogFacts:
    """What only the log can say; None where it lacks the column.

    gaps       pages that leave out a position between the first and the last
    late       pages whose first position is below 1, such as second pages
    shared     pages with two documents at the same position
    columns    the name of the column of each role that the log has
    """

    pages: int
    gaps: int
    late: int
    shared: int
    surfaces: tuple[PageGroup, ...] | None
    bots: Bots
    drift: Drift | None
    columns: Mapping[str, str]


@dataclass(frozen=True)
class AuditFacts:
    """The facts of a log; `account` and `log` are None where only cells were given.

    requirements   whether the log meets what each estimator of propensities needs, the best founded first
    behaviour      what people do after a click, and whether the position-based model is refuted
    plan           the queries that a verdict will take, if a plan was asked for
    incomplete     how many features have missing values, of how many; None without features
    events         how many events there are beside clicks, by name

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
    behaviour: Behaviour
    log: LogFacts | None
    plan: VerdictPlan | None = None
    incomplete: tuple[int, int] | None = None
    events: Mapping[str, int] = field(default_factory=dict)

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
            return self.log.pages
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
    ('blocking', ['account', 'behaviour', 'by_position'])
    """

    facts: AuditFacts
    verdict: Verdict

    def worded(self, words: Callable[[str], str]) -> Audit:
        """The same audit with all advice as `words` puts it, for the command line."""
        sentence, findings = self.verdict.sentence, self.verdict.findings
        told = tuple(replace(told, found=words(told.found), advice=words(told.advice)) for told in findings)
        return replace(self, verdict=replace(self.verdict, sentence=words(sentence), findings=told))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; None where something is unknown."""
        totals = {name: getattr(self.facts, name) for name in ("impressions", "clicks", "rate", "depth")}
        facts = asdict(self.facts)
        if facts["account"] is not None:
            facts["account"].pop("seconds")
        return {"source": facts.pop("source"), "verdict": asdict(self.verdict), "totals": totals, **facts}

    def to_html(self) -> str:
        """One page with a chart that needs nothing else: no network, no other files."""
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


def by_position(table: ClickTable) -> tuple[PositionClicks, ...]:
    """Impressions and clicks at every position where anything was shown."""
    impressions = np.bincount(table.position, table.impressions).astype(np.float64)
    clicks = np.bincount(table.position, table.clicks).astype(np.float64)
    low, high = wilson(clicks, impressions)
    shown = np.flatnonzero(impressions)
    counts = np.stack([shown, impressions[shown], clicks[shown]], axis=1).astype(int).tolist()
    return tuple(PositionClicks(at, n, c, c / n, float(low[at]), float(high[at])) for at, n, c in counts)


def describe_queries(table: ClickTable, knows_candidates: bool) -> Queries:
    """Queries and candidates; `knows_candidates` says whether the table is aligned to a dataset."""
    searched = table.query_impressions > 0
    clicks = np.bincount(table.candidates.row_queries, table.row_clicks, table.n_queries)[searched]
    shown, candidates = int(table.shown.sum()), int(table.candidates.sizes[searched].sum())
    return Queries(
        queries=table.n_queries,
        searched=int(searched.sum()),
        most_pages=int(table.query_impressions.max(initial=0)),
        unclicked=int((clicks == 0).sum()),
        shown=shown,
        candidates=candidates if knows_candidates else None,
        never_shown=candidates - shown if knows_candidates else None,
    )


def describe_log(log: Log, clicks: ClickTable) -> LogFacts:
    """What only the log can say."""
    pages = page_table(log.table)
    shown = int(clicks.impressions.sum())
    counts = pages.engine.row(f"""
        SELECT count(*) AS pages, count(*) FILTER (WHERE top > 1) AS late,
            count(*) FILTER (WHERE bottom - top + 1 > greatest(positions, deep)) AS gaps,
            count(*) FILTER (WHERE positions < results) AS doubtful
        FROM {pages}""")
    return LogFacts(
        pages=int(counts["pages"]),
        gaps=int(counts["gaps"]),
        late=int(counts["late"]),
        shared=_sharing(pages, log.table) if counts["doubtful"] else 0,
        surfaces=describe_surfaces(pages),
        bots=describe_bots(pages, int(clicks.clicks.sum()) / shown if shown else 0.0),
        drift=describe_drift(pages) if "moment" in pages.columns else None,
        columns=log.columns,
    )


def _sharing(pages: Relation, log: Relation) -> int:
    """How many pages have two documents at the same position; repeated rows do not count."""
    again = pages.engine.row(f"""
        SELECT count(*) AS shared FROM (
            SELECT DISTINCT log.session_id, log.query_id
            FROM {log} AS log JOIN {pages} AS page
                ON log.session_id = page.session_id AND log.query_id = page.query_id
            WHERE page.positions < page.results AND {_SHOWN}
            GROUP BY log.session_id, log.query_id, log.position HAVING count(DISTINCT log.doc_id) > 1
        )""")
    return int(again["shared"])


def page_table(log: Relation) -> Relation:
    """One row per page. Where a page has several users or surfaces, the last by name stands for it.

    size, clicked             rows that count, and those with a click
    first, first_clicked      the same at position 1
    top, bottom               the first and the last position
    results, positions        rows that take up a position, and the positions that they take up, modulo 62
    deep                      the same rows where the page spans more than 62 positions, else 0
    moment                    when it was first shown, in seconds since 1970
    """
    named = [f"max({name}) AS {name}" for name in ("user_id", "surface") if name in log.columns]
    if "timestamp" in log.columns:
        named.append("CAST(floor(epoch(min(timestamp))) AS BIGINT) AS moment")
    kept = "WHERE reason IS NULL"
    columns = (
        "session_id, query_id",
        f"count(*) FILTER ({kept}) AS size",
        f"count(*) FILTER ({kept} AND clicks > 0) AS clicked",
        f"count(*) FILTER ({kept} AND position = 1) AS first",
        f"count(*) FILTER ({kept} AND position = 1 AND clicks > 0) AS first_clicked",
        "min(position) AS top, max(position) AS bottom, count(*) AS results",
        f"bit_count(bit_or(CAST(1 AS BIGINT) << CAST((position - 1) % {_MASK_BITS} AS INTEGER))) AS positions",
        f"CASE WHEN max(position) - min(position) < {_MASK_BITS} THEN 0 ELSE count(*) END AS deep",
        *named,
    )
    return log.engine.hold(f"SELECT {', '.join(columns)} FROM {log} WHERE {_SHOWN} GROUP BY session_id, query_id")


def describe_surfaces(pages: Relation) -> tuple[PageGroup, ...] | None:
    """The largest surfaces; None where the log does not name them."""
    if "surface" not in pages.columns:
        return None
    groups = pages.engine.rows(f"""
        SELECT coalesce(CAST(surface AS VARCHAR), '(none)') AS name, count(*) AS pages, sum(size) AS impressions,
            sum(clicked) AS clicks, max(bottom) AS depth
        FROM {pages} GROUP BY 1 ORDER BY impressions DESC, name LIMIT {MOST_SURFACES}""")
    return _page_groups(groups)


def _page_groups(rows: list[dict[str, Any]]) -> tuple[PageGroup, ...]:
    return tuple(PageGroup(row.pop("name"), **{name: int(number) for name, number in row.items()}) for row in rows)


def describe_bots(pages: Relation, rate: float) -> Bots:
    """Find the users of a table of pages that do not look like people; `rate` is the click-through rate of the log."""
    engine, column = pages.engine, "user_id" if "user_id" in pages.columns else "session_id"
    users = engine.hold(f"""
        SELECT {column} AS name, count(*) AS pages, CAST(sum(size) AS BIGINT) AS impressions,
            CAST(sum(clicked) AS BIGINT) AS clicks, max(bottom) AS depth
        FROM {pages} WHERE {column} IS NOT NULL GROUP BY {column}""")
    rule = bot_rule(users, rate)
    conditions = rule.sql()
    odd = " OR ".join(f"({condition})" for condition in conditions.values())
    by_reason = ", ".join(f"count(*) FILTER (WHERE {conditions[name]}) AS {name}" for name in BOT_REASONS)
    counts = engine.row(f"""
        SELECT count(*) AS users, {by_reason},
            count(*) FILTER (WHERE {odd}) AS suspicious, coalesce(sum(clicks) FILTER (WHERE {odd}), 0) AS clicks,
            coalesce(sum(impressions) FILTER (WHERE {odd}), 0) AS impressions
        FROM {users}""")
    busiest = engine.rows(f"""
        SELECT CAST(name AS VARCHAR) AS name, pages, impressions, clicks, depth FROM {users} WHERE {odd}
        ORDER BY impressions DESC, name LIMIT {_MOST_NAMED}""")
    numbers = [int(counts.pop(name)) for name in BOT_REASONS]
    words = (
        f"more than {rule.page_limit:,} pages",
        "everything clicked",
        f"a click rate above {rule.rate_limit or 1:.0%}",
    )
    return Bots(
        kind="user" if column == "user_id" else "session",
        reasons={reason: number for reason, number in zip(words, numbers, strict=True) if number},
        named=_page_groups(busiest),
        **{name: int(value) for name, value in counts.items()},
    )
