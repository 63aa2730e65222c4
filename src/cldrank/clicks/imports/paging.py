"""Pages as they come in: each counted once, those without an id or a query set aside."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cldrank.clicks.counting import count_row
from cldrank.clicks.imports.fields import constant
from cldrank.clicks.imports.joining import KNOWN

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class ImportedPages:
    """Pages, of which some have no query.

    every    key, page, query, documents, timestamp, user_id, surface; each page once
    rejects  records that were set aside, where there are any
    count    how many records there were, with those that were set aside
    """

    every: ir.Table
    rejects: tuple[ir.Table, ...]
    count: int

    @property
    def asked(self) -> ir.Table:
        """The pages with a query."""
        return self.every.filter(self.every["query"].notnull())

    @property
    def known(self) -> ir.Table:
        """All pages, and whether they have a query."""
        return self.every.select("key", "page", text=self.every["query"].notnull())

    @property
    def returned(self) -> ir.Table:
        """What the pages with a query listed: their key, a document and its position, from 1."""
        rows = self.asked.select("key", "documents").unnest("documents", offset="place")
        return rows.select("key", document="documents", position=rows.place.cast("int64") + 1)


def located(events: ir.Table, known: ir.Table) -> ir.Table:
    """Events with what is known of their page; its id is left only where there is no such page.

    So the long ids of pages are compared once, while events are read, and need not be kept.
    """
    found = events.left_join(known, "page")
    own, more = ([name for name in table.columns if name != "page"] for table in (events, known))
    return found.select(*own, *more, page=found.key.isnull().ifelse(found.page, None))


def each_once(raw: ir.Table, name: str, held: ExitStack) -> ImportedPages:
    """Pages out of records; of several with one id, the earliest is kept."""
    import ibis

    good = raw.filter(raw.page.notnull() & ~raw.stray)
    counts = count_row(
        raw.aggregate(
            records=raw.count(),
            good=raw.count(where=raw.page.notnull() & ~raw.stray),
            distinct=raw.page.nunique(where=~raw.stray),
            silent=raw.count(where=raw["query"].isnull()),
        )
    )
    rejects = []
    if counts["records"] > counts["good"]:
        bad = raw.filter(raw.page.isnull() | raw.stray)
        why = bad.stray.ifelse("not a query", "no id")
        rejects.append(bad.select(record=constant(name), reason=why, session_id=bad.page, rows=constant(1)))
    columns = ["key", "page", "query", "documents", *KNOWN]
    if counts["good"] != counts["distinct"]:
        order = [*("timestamp", "query", "user_id", "surface"), good.documents.cast("string")]
        ranked = good.mutate(turn=ibis.row_number().over(group_by="page", order_by=order))
        ranked = held.enter_context(ranked.cache())
        again = ranked.filter(ranked.turn > 0)
        rejects.append(
            again.select(
                record=constant(name),
                reason=constant("repeated"),
                session_id=again.page,
                query_id=again["query"],
                rows=constant(1),
            )
        )
        good = ranked.filter(ranked.turn == 0)
    every = good.select(*columns)
    if counts["silent"]:
        silent = every.filter(every["query"].isnull())
        rejects.append(
            silent.select(record=constant(name), reason=constant("no text"), session_id=silent.page, rows=constant(1))
        )
    return ImportedPages(every, tuple(rejects), counts["records"])
