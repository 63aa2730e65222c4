"""What only the log itself can say: pages with odd positions, surfaces, rankers, suspicious users, drift over time.

All of it comes from one table of pages (a page is what one session saw for one query), which the engine makes in one
pass over the log and keeps; the results that are brought to memory have a few rows each.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cldrank._typing import IntArray
from cldrank.clicks.audit.actors import Actors, describe_actors
from cldrank.clicks.audit.drift import Drift, describe_drift
from cldrank.clicks.candidates import Candidates, ids_of
from cldrank.clicks.counting import bit_count, bit_or, count_row, has_good_keys
from cldrank.clicks.log.schema import Log
from cldrank.clicks.log.times import TimesFound

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

_MASK_BITS = 62  # positions of a page up to this depth have one bit each
_MOST_GROUPS = 20  # surfaces and rankers to name


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
class LogFacts:
    """All that needs the log; None where the log lacks the column."""

    pages: Pages
    surfaces: tuple[PageGroup, ...] | None
    rankers: tuple[PageGroup, ...] | None
    actors: Actors
    drift: Drift | None
    propensity: bool
    has_times: bool


def describe_log(log: Log, rate: float, times: TimesFound | None = None) -> tuple[LogFacts, pa.Table]:
    """Describe the pages of a log with click-through rate `rate`, and count the pages of each query.

    times    what is known of its timestamps, if it has any
    """
    rows = log.rows.filter(has_good_keys(log.rows))
    with ExitStack() as held:
        pages = held.enter_context(_pages(rows, log.optional).cache())
        facts = LogFacts(
            pages=_odd(pages, rows),
            surfaces=_groups(pages, "surface") if "surface" in log.optional else None,
            rankers=_groups(pages, "ranker_id") if "ranker_id" in log.optional else None,
            actors=describe_actors(pages, "user_id" if "user_id" in log.optional else "session_id", rate),
            drift=describe_drift(pages, times.unit) if times else None,
            propensity="propensity" in log.optional,
            has_times="timestamp" in log.optional,
        )
        return facts, pages.group_by("query_id").aggregate(pages=pages.count()).to_pyarrow()


def pages_of(candidates: Candidates, by_query: pa.Table) -> IntArray:
    """The pages of each query, from a table of query_id and pages that may contain other queries too."""
    pages: IntArray = np.zeros(candidates.n_queries, dtype=np.int64)
    query = candidates.find_queries(ids_of(by_query["query_id"], "the query_id of the log"))
    pages[query[query >= 0]] = by_query["pages"].to_numpy()[query >= 0]
    return pages


def _pages(rows: ir.Table, optional: tuple[str, ...]) -> ir.Table:
    """One row per page. Where a page has several users, surfaces or rankers, the last by name stands for it."""
    import ibis

    first, clicked = (rows.position == 1).cast("int64"), (rows.clicks > 0).cast("int64")
    bit = ibis.literal(1, "int64") << ((rows.position - 1) % _MASK_BITS)
    wide = rows.mutate(first=first, clicked=clicked, first_clicked=first * clicked, bit=bit)
    if "timestamp" in optional:
        wide = wide.mutate(moment=rows.timestamp.truncate("s").epoch_seconds().cast("int64"))
    named = ("user_id", "surface", "ranker_id")
    extra: dict[str, ir.Value] = {name: wide[name].max() for name in named if name in optional}
    if "timestamp" in optional:
        extra["moment"] = wide.moment.min()
    pages = wide.group_by(["session_id", "query_id"]).aggregate(
        size=wide.count(),
        clicked=wide.clicked.sum().cast("int64"),
        first=wide["first"].sum().cast("int64"),
        first_clicked=wide.first_clicked.sum().cast("int64"),
        top=wide.position.min(),
        bottom=wide.position.max(),
        bits=bit_or(wide.bit),
        **extra,
    )
    # fewer bits than rows: a position twice, or a page so deep that positions share a bit
    return pages.mutate(doubtful=bit_count(pages.bits).cast("int64") < pages.size).drop("bits")


def _odd(pages: ir.Table, rows: ir.Table) -> Pages:
    clear = ~pages.doubtful
    found = count_row(
        pages.aggregate(
            pages=pages.count(),
            impressions=pages.size.sum(),
            gaps=(clear & (pages.bottom - pages.top + 1 > pages.size)).sum(),
            late=(pages.top > 1).sum(),
            doubtful=pages.doubtful.sum(),
            unclicked=(pages.clicked == 0).sum(),
        )
    )
    shared = 0
    if found.pop("doubtful"):
        named = pages.filter(pages.doubtful).select("session_id", "query_id")
        near = rows.semi_join(named, ["session_id", "query_id"])
        near = near.group_by(["session_id", "query_id", "position"]).aggregate(documents=near.doc_id.nunique())
        looked_at = near.group_by(["session_id", "query_id"]).aggregate(
            span=near.position.max() - near.position.min() + 1, positions=near.count(), most=near.documents.max()
        )
        again = count_row(
            looked_at.aggregate(gaps=(looked_at.span > looked_at.positions).sum(), shared=(looked_at.most > 1).sum())
        )
        found["gaps"] += again["gaps"]
        shared = again["shared"]
    return Pages(shared=shared, **found)


def _groups(pages: ir.Table, name: str) -> tuple[PageGroup, ...]:
    import ibis

    groups = pages.group_by(name=pages[name].cast("string")).aggregate(
        pages=pages.count(), impressions=pages.size.sum(), clicks=pages.clicked.sum(), depth=pages.bottom.max()
    )
    largest = groups.order_by([ibis.desc("impressions"), "name"]).limit(_MOST_GROUPS)
    return tuple(
        PageGroup(
            "(none)" if found["name"] is None else str(found["name"]),
            *(int(found[key]) for key in ("pages", "impressions", "clicks", "depth")),
        )
        for found in largest.to_pyarrow().to_pylist()
    )
