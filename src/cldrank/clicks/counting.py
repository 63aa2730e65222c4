"""Counting a log in its engine: cells of the rows that are kept, and the rows set aside.

First all rows are grouped into cells. Then pages, the rows of one session and query, are checked: rows are wrong if a
document repeats on its page. A page is suspect unless that is ruled out, and it may be suspected without cause. Counts
add up, so only the rows of suspect pages and rows with missing keys have to be looked at one by one:

    cells = cells of all rows - cells of odd rows + cells of the odd rows that are kept

Of a log with segments, cells and pages are those of each segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cldrank.clicks.log.engines import Engine
from cldrank.clicks.log.layout import mapping
from cldrank.clicks.log.roles import DAY, KEYS, SEGMENT
from cldrank.clicks.log.schema import Log
from cldrank.clicks.log.values import DEEPEST, MARKS
from cldrank.errors import DataError, Spelling, UsageError, setting

if TYPE_CHECKING:
    import ibis.expr.types as ir

_CELL = ("query_id", "doc_id", "position")
MOST_SEGMENTS = 100
_MASK_BITS = 62  # of a 64-bit integer, clear of its sign
_MASK_WORDS = 4  # with more moving documents per query, grouping by document is cheaper


@dataclass(frozen=True)
class Counted:
    """Cells of the rows that are kept, the number of all rows, and the rows set aside.

    top       rows at positions 0, 1 and 2, right or wrong; in a log where only clicks have positions, clicks at those
    from_0    pages with a result at position 0 and another at 1
    """

    cells: pa.Table
    rows: int
    rejects: list[pa.Table]
    top: tuple[int, int, int]
    from_0: int


@dataclass(frozen=True)
class _Suspects:
    """Pages to be looked at row by row, their number, and how many rows lack a session, or maybe another id."""

    pages: ir.Table
    n: int
    lacking: int


def by_view(log: Log) -> Log:
    """The log with a session per view, for logs that keep one session_id while a page is shown again."""
    if "timestamp" not in log.optional:
        raise UsageError(
            "{} separates views by time, but the log has no timestamp; map one with {}.",
            Spelling("by_time=True", "--by-time"),
            mapping("timestamp"),
        )
    rows = log.rows
    moment = rows.timestamp.cast("string").fill_null("")
    views = rows.mutate(session_id=rows.session_id.cast("string") + "@" + moment)
    return replace(log.with_times(), rows=views)


def count_cells(log: Log, engine: Engine, every_click: bool, held: ExitStack) -> Counted:
    """Count the rows of a log; `held` keeps tables in the engine until the caller is done."""
    rows = log.rows
    if not every_click and not log.once:
        rows = rows.mutate(clicks=(rows.clicks > 0).cast("int64"))
    grouped = held.enter_context(_cells(rows).cache())
    _check_segments(grouped)
    every = grouped.to_pyarrow()
    total = pc.sum(every["impressions"]).as_py() or 0
    parts = [every]
    rejects = []
    suspects = _suspect_pages(rows, grouped, engine, held)
    if suspects.lacking or _has_bad_keys(every):
        bad = _with_reason(rows.filter(~has_good_keys(rows)))
        parts.append(_negated(_cells(bad).to_pyarrow()))
        rejects.append(bad.to_pyarrow())
    if suspects.n:
        pages = rows.filter(has_good_keys(rows)).semi_join(suspects.pages, _of_page(rows))
        judged = held.enter_context(_judged(pages, log.optional, every_click).cache())
        parts.append(_negated(_cells(judged.mutate(clicks=judged.own_clicks)).to_pyarrow()))
        parts.append(_cells(judged.filter(judged.reason.isnull())).to_pyarrow())
        set_aside = judged.filter(judged.reason.notnull())
        rejects.append(set_aside.select("reason", *KEYS, "position", clicks="own_clicks").to_pyarrow())
    top = _at(every, 0), _at(every, 1), _at(every, 2)
    if log.phantoms is not None:
        phantoms = log.phantoms.to_pyarrow()
        total += len(phantoms)
        rejects.append(phantoms)
    if log.phantoms is not None and log.by_clicks:
        top = pc.sum(pc.equal(phantoms["position"], 0)).as_py() or 0, _at(every, 1, "clicks"), _at(every, 2, "clicks")
    return Counted(_added(parts), total, rejects, top, _pages_from_0(rows) if _at(every, 0) else 0)


def _pages_from_0(rows: ir.Table) -> int:
    """How many pages show a result at position 0 and another at position 1."""
    upper = rows.filter(rows.position.isin([0, 1]))
    pages = upper.group_by(_of_page(rows)).aggregate(places=upper.position.nunique())
    return int(pages.filter(pages.places == 2).count().to_pyarrow().as_py())


def _cells(rows: ir.Table) -> ir.Table:
    return rows.group_by(_apart(rows, *_CELL)).aggregate(impressions=rows.count(), clicks=rows.clicks.sum())


def _apart(rows: ir.Table, *keys: str) -> list[str]:
    """Keys, and the segment and the day where rows have them: these are counted apart."""
    return [*keys, *(name for name in (SEGMENT, DAY) if name in rows.columns)]


def _of_page(rows: ir.Table) -> list[str]:
    """What rows of one page have in common."""
    return _apart(rows, "session_id", "query_id")


def _check_segments(cells: ir.Table) -> None:
    """Refuse a column with so many values that it cannot hold segments."""
    if SEGMENT in cells.columns:
        found = cells.select(SEGMENT).distinct().limit(MOST_SEGMENTS + 1).to_pyarrow()
        if len(found) > MOST_SEGMENTS:
            raise DataError(
                "{} names a column that has more than {} values; segments are few, such as devices or surfaces.",
                setting("segment"),
                MOST_SEGMENTS,
            )


def has_good_keys(rows: ir.Table) -> ir.BooleanValue:
    """Whether a row names a session, a query, a document and a possible position."""
    return (
        rows.session_id.notnull()
        & rows.query_id.notnull()
        & rows.doc_id.notnull()
        & rows.position.fill_null(0).between(1, DEEPEST)
    )


def _has_bad_keys(cells: pa.Table) -> bool:
    nulls = any(cells[key].null_count for key in _CELL)
    extremes = pc.min_max(cells["position"]).as_py()
    return nulls or (len(cells) > 0 and not 1 <= extremes["min"] <= extremes["max"] <= DEEPEST)


def _suspect_pages(rows: ir.Table, cells: ir.Table, engine: Engine, held: ExitStack) -> _Suspects:
    """Pages that may show a document twice: first by what the engine can prove, else by grouping."""
    known = cells.aggregate(rows=cells.impressions.sum(), cells=cells.count())
    documents = cells.select(*_apart(cells, "query_id", "doc_id")).distinct().count()
    every = one_row(known.mutate(documents=documents.as_scalar()))
    if every["documents"] == every["cells"] and engine.rises(rows, "session_id", "position"):
        return _Suspects(rows, 0, 0)  # no page repeats a position, and no document has two
    found = engine.repeated(rows, _apart(rows, *KEYS), every["rows"] or 0)
    if found is None:
        return _by_grouping(rows, cells, held)
    repeated, lacking = found
    pages = held.enter_context(repeated.select(*_of_page(rows)).distinct().cache())
    return _Suspects(pages, pages.count().to_pyarrow().as_py(), lacking)


def _by_grouping(rows: ir.Table, cells: ir.Table, held: ExitStack) -> _Suspects:
    """Pages that repeat a position, or a document that the log has at several positions."""
    moving = held.enter_context(_moving_documents(cells).cache())
    most = moving.place.max().to_pyarrow().as_py()
    words = 0 if most is None else most // _MASK_BITS + 1
    suspects = _pages_with_repeated_bits(rows, moving, words if words <= _MASK_WORDS else 0)
    if words > _MASK_WORDS:
        own, keys = _apart(rows, "query_id", "doc_id"), _apart(rows, *KEYS)
        several = rows.semi_join(moving, own).group_by(keys).aggregate(size=lambda t: t.count())
        twice = several.filter(several["size"] > 1).select(*_of_page(rows), "size")
        suspects = suspects.union(twice.filter(twice.session_id.notnull()), distinct=True)
    suspects = held.enter_context(suspects.cache())
    orphan = suspects.session_id.isnull()
    counted = suspects.aggregate(orphans=suspects["size"].sum(where=orphan), pages=suspects.count(where=~orphan))
    found = count_row(counted)
    pages = suspects.filter(~orphan).select(*_of_page(rows))
    return _Suspects(pages, found["pages"], found["orphans"])


def _pages_with_repeated_bits(rows: ir.Table, moving: ir.Table, words: int) -> ir.Table:
    """Pages in which fewer bits are set than there are rows, and all rows without a session as one page.

    There is a bit for each position and, in `words` more integers, one for each moving document of the query.
    """
    import ibis

    if words:
        rows = rows.left_join(moving, _apart(rows, "query_id", "doc_id"))
        rows = rows.select(*_of_page(rows), "position", "place")
    zero, one = (ibis.literal(value, "int64") for value in (0, 1))
    position = ibis.greatest(rows.position.fill_null(0), 0).cast("int64")
    found = {"size": rows.count(), "positions": bit_or(one << (position % _MASK_BITS))}
    for word in range(words):
        mine = rows.place.fill_null(-1) // _MASK_BITS == word
        found[f"word_{word}"] = bit_or(mine.ifelse(one << (rows.place % _MASK_BITS), zero))
    if words:
        found["moving"] = rows.place.count()
    pages = rows.group_by(_of_page(rows)).aggregate(**found)
    suspect = pages.session_id.isnull() | (bit_count(pages.positions) != pages["size"])
    if words:
        suspect |= sum(bit_count(pages[f"word_{word}"]) for word in range(words)) != pages.moving
    return pages.filter(suspect).select(*_of_page(pages), "size")


def _moving_documents(cells: ir.Table) -> ir.Table:
    """Documents that the log has at several positions of a segment, numbered within their query."""
    import ibis

    counted = cells.group_by(_apart(cells, "query_id", "doc_id")).aggregate(positions=cells.count())
    moving = counted.filter((counted.positions > 1) & counted.query_id.notnull() & counted.doc_id.notnull())
    number = ibis.row_number().over(group_by=_apart(cells, "query_id"), order_by="doc_id")
    return moving.select(*_apart(cells, "query_id", "doc_id"), place=number.cast("int64"))


def _with_reason(rows: ir.Table) -> ir.Table:
    """Rows with bad keys, and what is wrong with them."""
    import ibis

    lost = rows.position.fill_null(0) < 1
    unnamed = rows.session_id.isnull() | rows.query_id.isnull() | rows.doc_id.isnull()
    reason = ibis.cases(
        (unnamed, "null key"),
        *((rows.position == mark, reason) for mark, reason in MARKS.items()),
        (rows.position > DEEPEST, "not a number"),
        (lost & (rows.clicks > 0), "click never shown"),
        (rows.position.isnull(), "null key"),
        else_="position below 1",
    )
    return rows.select(*_apart(rows, "session_id", *_CELL), "clicks", reason=reason)


def _judged(rows: ir.Table, optional: Sequence[str], every_click: bool) -> ir.Table:
    """Rows of suspect pages; `reason` is null for those kept, `clicks` is what counts, `own_clicks` was logged.

    Of rows with the same document at the same position, the first clicked one is kept; of a document shown twice, the
    upper one. A row that equals another in every column is a copy of it; one that differs in time or clicks belongs to
    a second view. Without times, a page with any such row counts as viewed twice.
    """
    import ibis

    keys = _apart(rows, *KEYS)
    comparable = [name for name in optional if not rows[name].type().is_nested()]
    same = ibis.window(group_by=[*keys, "position"], order_by=[ibis.desc("clicks"), *comparable])
    number = ibis.row_number().over(same)
    rows = rows.mutate(
        copy=number > ibis.rank().over(same),  # equal rows have the rank of the first of them
        repeated=number > 0,
        lower=rows.position > rows.position.min().over(ibis.window(group_by=keys)),
    )
    differs = rows.repeated & ~rows.copy
    first = "document twice"
    clicks = rows.clicks
    if "timestamp" in optional:
        uppermost = rows.position.min().over(ibis.window(group_by=[*keys, "timestamp"]))
        first = (rows.position > uppermost).ifelse("document twice", "second view")
        clicks = rows.copy.ifelse(0, clicks)
    else:
        differs = differs.cast("int64").max().over(ibis.window(group_by=_of_page(rows))) > 0
    if every_click:
        clicks = clicks.sum().over(ibis.window(group_by=[*keys, "position"]))
    reason = ibis.cases((rows.lower, first), (rows.repeated & differs, "second view"), (rows.repeated, "repeated row"))
    return rows.select(*keys, "position", reason=reason, own_clicks=rows.clicks, clicks=clicks)


def _elsewhere(values: int) -> int:
    raise AssertionError(f"this function runs in engines only; it was called on {values}")


def bit_or(values: ir.IntegerColumn) -> ir.IntegerScalar:
    """The bitwise or of a group: engines have it, but Ibis knows it for few of them."""
    import ibis

    return ibis.udf.agg.builtin(_elsewhere, name="bit_or", signature=(("int64",), "int64"))(values)


def bit_count(values: ir.IntegerColumn) -> ir.IntegerColumn:
    """How many bits are set."""
    import ibis

    return ibis.udf.scalar.builtin(_elsewhere, name="bit_count", signature=(("int64",), "int64"))(values)


# -- in memory ---------------------------------------------------------------------------------------------------------


def one_row(table: ir.Table) -> dict[str, Any]:
    """The values of a table with one row."""
    found: dict[str, Any] = table.to_pyarrow().to_pylist()[0]
    return found


def count_row(table: ir.Table) -> dict[str, int]:
    """The counts of a table with one row; a sum over nothing is 0."""
    return {name: int(value or 0) for name, value in one_row(table).items()}


def _negated(cells: pa.Table) -> pa.Table:
    for name in ("impressions", "clicks"):
        cells = cells.set_column(cells.column_names.index(name), name, pc.negate(cells[name].cast(pa.int64())))
    return cells


def _added(parts: list[pa.Table]) -> pa.Table:
    """One table of cells from several, with the counts of equal cells added; cells with bad keys cancel out."""
    counts = {name: pa.int64() for name in ("position", "impressions", "clicks")}
    typed = [
        part.cast(pa.schema([(name, counts.get(name, part.schema.field(name).type)) for name in part.column_names]))
        for part in parts
    ]
    cells = pa.concat_tables(typed, promote_options="permissive")
    if len(parts) > 1:
        keys = [name for name in cells.column_names if name not in ("impressions", "clicks")]
        cells = cells.group_by(keys).aggregate([("impressions", "sum"), ("clicks", "sum")])
        cells = cells.rename_columns([*keys, "impressions", "clicks"])
    return cells.filter(pc.greater(cells["impressions"], 0))


def _at(cells: pa.Table, position: int, what: str = "impressions") -> int:
    found = cells.filter(pc.equal(cells["position"], position))
    return int(pc.sum(found[what]).as_py() or 0)
