"""What only a log can say: odd pages, surfaces and rankers, users that do not look like people.

A page is what one session saw for one query. The engine makes the table of pages in one pass over the plain rows and
keeps it; drift is found in it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cldrank.clicks.bots import REASONS, bot_rule
from cldrank.tables import Relation

_MASK_BITS = 62  # positions of a page up to this depth have one bit each
_MOST_GROUPS = 20  # surfaces and rankers to name
_MOST_NAMED = 10  # suspicious users
_SHOWN = "(reason IS NULL OR reason = 'document twice')"  # rows that take up a position of their page


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
    """The pages of one surface or one ranker; `depth` is the lowest position on any of them."""

    name: str
    pages: int
    impressions: int
    clicks: int
    depth: int


@dataclass(frozen=True)
class Suspect:
    """A suspicious user or session."""

    name: str
    pages: int
    impressions: int
    clicks: int


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
    named: tuple[Suspect, ...]


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
    return tuple(PageGroup(group.pop("name"), **{key: int(value) for key, value in group.items()}) for group in groups)


def describe_bots(pages: Relation, rate: float) -> Bots:
    """Find the users of a table of pages that do not look like people; `rate` is the click-through rate of the log."""
    engine, column = pages.engine, "user_id" if "user_id" in pages.columns else "session_id"
    unnamed = engine.row(f"SELECT coalesce(sum(size) FILTER (WHERE {column} IS NULL), 0) AS rows FROM {pages}")
    users = engine.hold(f"""
        SELECT {column} AS name, count(*) AS pages, CAST(sum(size) AS BIGINT) AS impressions,
            CAST(sum(clicked) AS BIGINT) AS clicks
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
        SELECT CAST(name AS VARCHAR) AS name, pages, impressions, clicks FROM {users} WHERE {odd}
        ORDER BY impressions DESC, name LIMIT {_MOST_NAMED}""")
    return Bots(
        kind="user" if column == "user_id" else "session",
        unnamed=int(unnamed["rows"]),
        page_limit=rule.page_limit,
        all_clicked_from=rule.all_clicked_from,
        rate_limit=rule.rate_limit,
        named=tuple(Suspect(**user) for user in busiest),
        **{name: int(value) for name, value in counts.items()},
    )
