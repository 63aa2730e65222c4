"""From an impression log to cells: every row is counted once, or set aside with the reason.

The work on the log itself is a few Ibis expressions. First all rows are grouped into cells. Then pages, the rows of one
session and query, are checked: where positions repeat, or a document that has several positions repeats, the page is
suspect. Counts add up, so only the rows of suspect pages and rows with missing keys are looked at one by one:

    cells = cells of all rows - cells of odd rows + cells of the odd rows that are kept
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates
from cldrank.clicks.engines import connected
from cldrank.clicks.log import KEYS, Log, Paths, open_log
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, UsageError

if TYPE_CHECKING:
    import ibis.expr.types as ir

REASONS = {
    "null key": "session, query, document or position is missing",
    "position below 1": "shown at a position before the first",
    "click never shown": "clicked, but shown at no position",
    "repeated row": "the same document at the same position of the same page again",
    "document twice": "the same document further down on the same page",
    "unknown query": "no such query in the dataset",
    "unknown document": "no such candidate of the query in the dataset",
}
_CELL = ("query_id", "doc_id", "position")
_MASK_BITS = 40  # positions of a page up to this depth are told apart by one bit each
_REJECTS = pa.schema(  # ids as text: logs have them in any type
    [
        *((name, pa.string()) for name in ("reason", "session_id", "query_id", "doc_id")),
        *((name, pa.int64()) for name in ("position", "clicks", "rows")),
    ]
)


@dataclass(frozen=True)
class Report:
    """What became of the rows of a log: rows read, kept, and set aside by reason."""

    rows: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def n_rejected(self) -> int:
        """How many rows were set aside."""
        return sum(self.rejected.values())

    @property
    def share_rejected(self) -> float:
        """The share of rows that were set aside."""
        return self.n_rejected / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows read, {self.n_rejected:,} set aside ({self.share_rejected:.3%})"]
        lines += [f"  {count:>12,}  {reason}: {REASONS[reason]}" for reason, count in self.rejected.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Aggregation:
    """The cells of a log, what became of its rows, and the rows set aside (reason, keys, position, clicks, rows)."""

    clicks: ClickTable
    report: Report
    rejects: pa.Table


class TooManyRejectsError(CldrankError):
    """More of a log was set aside than the caller accepts; nothing was aggregated. `report` and `rejects` tell what."""

    def __init__(self, report: Report, rejects: pa.Table, limit: float) -> None:
        worst = max(report.rejected, key=lambda reason: report.rejected[reason])
        super().__init__(
            f"{report.share_rejected:.1%} of {report.rows:,} rows had to be set aside, more than the {limit:.1%} "
            f"allowed; most of them ({report.rejected[worst]:,}): {REASONS[worst]}."
        )
        self.report = report
        self.rejects = rejects


def aggregate(
    paths: Paths,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    columns: Mapping[str, str] | None = None,
    first_position: int = 1,
    one_query: bool = False,
    every_click: bool = False,
    max_rejected: float = 0.05,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
) -> Aggregation:
    """Aggregate a log to cells, aligned to a dataset if one is given.

    engine         "duckdb", "spark", or an Ibis connection
    columns, first_position, one_query    how to read the log (see `cldrank.clicks.log.open_log`)
    every_click    count several clicks on one result in one session each, instead of once
    max_rejected   the share of rows that may be set aside; above it, TooManyRejectsError
    memory_limit, threads, master         of the engine (see `cldrank.clicks.engines.connected`)

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     _ = path.write_text(
    ...         "session_id,query_id,doc_id,position,clicked\\n"
    ...         "1,shoes,a,1,0\\n1,shoes,b,2,1\\n2,shoes,a,1,1\\n2,shoes,b,2,0\\n2,shoes,b,2,0\\n"
    ...     )
    ...     result = aggregate(path, max_rejected=0.5)
    >>> result.clicks
    ClickTable(1 query, 2 candidates, 2 shown at positions 1…2; 2 cells, 4 impressions, 2 clicks)
    >>> print(result.report)
    5 rows read, 1 set aside (20.000%)
                 1  repeated row: the same document at the same position of the same page again
    """
    if not 0 <= max_rejected <= 1:
        raise UsageError(f"max_rejected is a share between 0 and 1, not {max_rejected}.")
    start = time.perf_counter()
    with connected(engine, memory_limit=memory_limit, threads=threads, master=master) as opened:
        log = open_log(paths, opened, columns=columns, first_position=first_position, one_query=one_query)
        with ExitStack() as held:  # tables that the engine keeps until the work is done
            cells, rows, rejects = _counted(log, every_click, held)
    clicks, unknown = _aligned(cells, dataset, every_click)
    rejects = _reject_table([*rejects, unknown])
    report = Report(rows, _by_reason(rejects), time.perf_counter() - start)
    if report.share_rejected > max_rejected:
        raise TooManyRejectsError(report, rejects, max_rejected)
    return Aggregation(clicks, report, rejects)


# -- in the engine -----------------------------------------------------------------------------------------------


def _counted(log: Log, every_click: bool, held: ExitStack) -> tuple[pa.Table, int, list[pa.Table]]:
    """Cells of the rows that are kept, the number of all rows, and the rows set aside."""
    rows = log.rows
    if not every_click:
        rows = rows.mutate(clicks=(rows.clicks > 0).cast("int64"))
    grouped = held.enter_context(_cells(rows).cache())
    every = grouped.to_pyarrow()
    total = pc.sum(every["impressions"]).as_py() or 0
    parts = [every]
    rejects = []
    suspects = held.enter_context(_suspect_pages(rows, grouped).cache())
    pages = suspects.aggregate(pages=suspects.count(), orphans=suspects.orphans.sum()).to_pyarrow().to_pylist()[0]
    if pages["orphans"] or _has_bad_keys(every):
        bad = _with_reason(rows.filter(~_has_good_keys(rows)))
        parts.append(_negated(_cells(bad).to_pyarrow()))
        rejects.append(bad.to_pyarrow())
    if pages["pages"]:
        named = suspects.filter(suspects.session_id.notnull()).select("session_id", "query_id")
        doubtful = rows.filter(_has_good_keys(rows)).semi_join(named, ["session_id", "query_id"])
        judged = held.enter_context(_judged(doubtful, every_click).cache())
        parts.append(_negated(_cells(judged.mutate(clicks=judged.own_clicks)).to_pyarrow()))
        parts.append(_cells(judged.filter(judged.reason.isnull())).to_pyarrow())
        set_aside = judged.filter(judged.reason.notnull())
        rejects.append(set_aside.select("reason", *KEYS, "position", clicks="own_clicks").to_pyarrow())
    if log.phantoms is not None:
        phantoms = log.phantoms.to_pyarrow()
        total += len(phantoms)
        rejects.append(_constant(phantoms, "reason", "click never shown"))
    cells = _added(parts)
    return cells, total, rejects


def _cells(rows: ir.Table) -> ir.Table:
    return rows.group_by(_CELL).aggregate(impressions=rows.count(), clicks=rows.clicks.sum())


def _has_good_keys(rows: ir.Table) -> ir.BooleanValue:
    return (
        rows.session_id.notnull() & rows.query_id.notnull() & rows.doc_id.notnull() & (rows.position.fill_null(0) >= 1)
    )


def _has_bad_keys(cells: pa.Table) -> bool:
    nulls = any(cells[key].null_count for key in _CELL)
    return nulls or bool(pc.any(pc.less(cells["position"], 1)).as_py())


def _suspect_pages(rows: ir.Table, cells: ir.Table) -> ir.Table:
    """Pages that may show a document or a position twice, and all rows without a session as one."""
    import ibis

    @ibis.udf.agg.builtin
    def bit_or(values: int) -> int:  # Ibis has it for fewer engines than have it themselves
        raise AssertionError

    bit = ibis.literal(1, "int64") << (ibis.greatest(rows.position.fill_null(0), 0) % _MASK_BITS)
    pages = rows.mutate(bit=bit).group_by(["session_id", "query_id"])
    pages = pages.aggregate(size=lambda t: t.count(), bits=lambda t: bit_or(t.bit), total=lambda t: t.bit.sum())
    # bits differ from their sum where a bit is set twice
    suspects = pages.filter((pages.total.cast("int64") != pages.bits) | pages.session_id.isnull())
    suspects = suspects.select("session_id", "query_id", orphans=suspects.session_id.isnull().ifelse(suspects.size, 0))
    moving = cells.group_by(["query_id", "doc_id"]).aggregate(positions=cells.count())
    moving = moving.filter(moving.positions > 1)
    if not moving.count().to_pyarrow().as_py():
        return suspects
    several = rows.semi_join(moving, ["query_id", "doc_id"]).group_by(list(KEYS)).aggregate(n=lambda t: t.count())
    twice = several.filter((several.n > 1) & several.session_id.notnull())
    return suspects.union(twice.select("session_id", "query_id", orphans=ibis.literal(0, "int64")), distinct=True)


def _with_reason(rows: ir.Table) -> ir.Table:
    """Rows with bad keys, with what is wrong with them."""
    import ibis

    lost = rows.position.fill_null(0) < 1
    unnamed = rows.session_id.isnull() | rows.query_id.isnull() | rows.doc_id.isnull()
    reason = ibis.cases(
        (unnamed, "null key"),
        (lost & (rows.clicks > 0), "click never shown"),
        (rows.position.isnull(), "null key"),
        else_="position below 1",
    )
    return rows.select(reason=reason, session_id="session_id", **{name: name for name in _CELL}, clicks="clicks")


def _judged(rows: ir.Table, every_click: bool) -> ir.Table:
    """Rows of suspect pages: `reason` is null for those that are kept; `clicks` is what counts, `own_clicks` was logged.

    Of repeated rows the first clicked one is kept, of a document shown twice the upper one.
    """
    import ibis

    same = ibis.window(group_by=[*KEYS, "position"], order_by=ibis.desc("clicks"))
    page = ibis.window(group_by=list(KEYS))
    repeated = ibis.row_number().over(same) > 0
    lower = rows.position > rows.position.min().over(page)
    clicks = rows.clicks
    if every_click:
        clicks = rows.clicks.sum().over(ibis.window(group_by=[*KEYS, "position"]))
    reason = ibis.cases((lower, "document twice"), (repeated, "repeated row"))
    return rows.select(*KEYS, "position", reason=reason, own_clicks=rows.clicks, clicks=clicks)


# -- in memory ---------------------------------------------------------------------------------------------------


def _negated(cells: pa.Table) -> pa.Table:
    for name in ("impressions", "clicks"):
        cells = cells.set_column(cells.column_names.index(name), name, pc.negate(cells[name].cast(pa.int64())))
    return cells


def _added(parts: list[pa.Table]) -> pa.Table:
    """One table of cells from several, with the counts of equal cells added; cells with bad keys are gone by then."""
    counts = {name: pa.int64() for name in ("position", "impressions", "clicks")}
    typed = [
        part.cast(pa.schema([(name, counts.get(name, part.schema.field(name).type)) for name in part.column_names]))
        for part in parts
    ]
    cells = pa.concat_tables(typed, promote_options="permissive")
    if len(parts) > 1:
        cells = cells.group_by(list(_CELL)).aggregate([("impressions", "sum"), ("clicks", "sum")])
        cells = cells.rename_columns([*_CELL, "impressions", "clicks"])
    return cells.filter(pc.greater(cells["impressions"], 0))


def _constant(table: pa.Table, name: str, value: Any) -> pa.Table:
    return table.append_column(name, pa.array([value] * len(table), type=pa.string()))


def _reject_table(parts: list[pa.Table]) -> pa.Table:
    """Rows set aside, of one schema; a part may lack columns, and without `rows` each of its rows stands for one."""
    typed = []
    for part in parts:
        if "rows" not in part.column_names:
            part = part.append_column("rows", pa.array(np.ones(len(part), dtype=np.int64)))
        columns = [
            part[name].cast(kind) if name in part.column_names else pa.nulls(len(part), kind)
            for name, kind in zip(_REJECTS.names, _REJECTS.types, strict=True)
        ]
        typed.append(pa.table(columns, schema=_REJECTS))
    return pa.concat_tables(typed) if typed else _REJECTS.empty_table()


def _by_reason(rejects: pa.Table) -> dict[str, int]:
    counts = rejects.group_by("reason").aggregate([("rows", "sum")]).to_pylist()
    found = {entry["reason"]: entry["rows_sum"] for entry in counts}
    return {reason: found[reason] for reason in REASONS if reason in found}


def _aligned(cells: pa.Table, dataset: RankingDataset | None, every_click: bool) -> tuple[ClickTable, pa.Table]:
    """The cells of known candidates as a table, and the others as rejects, one row a cell."""
    queries, documents = (_ids(cells[name]) for name in ("query_id", "doc_id"))
    position, impressions, clicks = (cells[name].to_numpy() for name in ("position", "impressions", "clicks"))
    candidates = Candidates.seen(queries, documents) if dataset is None else Candidates.of(dataset)
    row = candidates.find(queries, documents)
    known = row >= 0
    table = ClickTable(candidates, row[known], position[known], impressions[known], clicks[known], every_click)
    strange = cells.filter(pa.array(~known))
    reasons = np.where(row[~known] == UNKNOWN_QUERY, "unknown query", "unknown document")
    unknown = pa.table(
        {
            "reason": pa.array(reasons.astype(object), pa.string()),
            "query_id": strange["query_id"],
            "doc_id": strange["doc_id"],
            "position": strange["position"],
            "clicks": strange["clicks"],
            "rows": strange["impressions"],
        }
    )
    return table, unknown


def _ids(column: pa.ChunkedArray) -> Any:
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).to_numpy()
    if not len(column):
        return np.empty(0, dtype=np.int64)
    return column.cast(pa.string()).to_numpy(zero_copy_only=False).astype(np.str_)
