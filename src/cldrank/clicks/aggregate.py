"""From an impression log to cells: every row is counted once, or set aside with the reason.

paths ─► log.open_log ─► counting.count_cells ─► aligned to the candidates of a dataset ─► ClickTable
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cldrank._typing import IntArray
from cldrank.arguments import check_number
from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates, ids_of
from cldrank.clicks.cell_file import is_cells, segments_of
from cldrank.clicks.cell_kind import position_layout
from cldrank.clicks.counting import Counted, by_view, count_cells
from cldrank.clicks.day_cells import NO_DAYS, by_day, cells_by_day, rows_without_day
from cldrank.clicks.log.engines import Engine, connected, engine_of, querying
from cldrank.clicks.log.frame_source import frame_sources
from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.log.paths import LogFile, LogSource, Paths, counted_before, existing, log_files
from cldrank.clicks.log.roles import SEGMENT
from cldrank.clicks.log.schema import Log, only_query, open_log
from cldrank.clicks.log.values import MARKS
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, Language, Spelling, UsageError, setting, worded

__all__ = ["Account", "Aggregation", "TooManyRejectsError", "aggregate"]

REASONS = {
    "no day": "the timestamp is missing, or is not a time",
    "null key": "session, query, document or position is missing",
    "not a number": "position or clicks is not a whole number or out of range, or a dwell time is not a number",
    "unequal lists": "the lists of the page differ in length",
    "off the page": "shown beyond the last place of its page or row",
    "position below 1": "shown at a position before the first",
    "click never shown": "clicked, but shown at no position",
    "repeated row": "a copy of another row, with the same clicks and, if the log has times, the same time",
    "second view": "the same result of the same page again, at another time or with other clicks",
    "document twice": "the same document further down on the same page",
    "unknown query": "no such query in the dataset",
    "unknown document": "no such candidate of the query in the dataset",
}
_STRAY = 0.1  # rows at the top position, relative to the next, below which the top must be somewhere else
_FEW_CLICKS = 20
_MOST_ACCEPTED = 0.5  # beyond this share of rejects, the log is read wrongly
_STRAY_PAGES = 10, 0.2  # pages from position 0, number and share, up to which they are mistakes in single rows
_REJECTS = pa.schema(  # ids as text: logs have them in any type
    [
        *((name, pa.string()) for name in ("reason", "session_id", "query_id", "doc_id")),
        *((name, pa.int64()) for name in ("position", "clicks", "rows")),
    ]
)


@dataclass(frozen=True)
class WrongStart:
    """A log that does not seem to count positions from where the caller says.

    counts_from    where it seems to count from
    what           "rows", or "clicks" where only these have positions
    at_0, at_1     how many of them are at position 0 and at position 1 of the log
    """

    counts_from: Literal[0, 1]
    what: str
    at_0: int
    at_1: int

    @property
    def found(self) -> str:
        """What was found, as the start of a sentence."""
        does = "the log, or a part of it, counts" if self.counts_from == 0 else "the log does not count"
        return f"{does} positions from 0: {self.at_0:,} {self.what} are at position 0, {self.at_1:,} at position 1"

    def advice(self, language: Language = "python") -> str:
        """What to do about it."""
        from_0, from_1 = setting("first_position", 0), setting("first_position", 1)
        if self.counts_from == 0:
            return worded("Set {}; if it does count from 1, set those at 0 aside with {}.", (from_0, from_1), language)
        return worded("Leave out {}; if the top result was never logged, add 1 to the positions.", (from_0,), language)

    @property
    def error(self) -> DataError:
        """The same as an error."""
        return DataError("{}. {}", self.found, Spelling(self.advice("python"), self.advice("shell")))


@dataclass(frozen=True)
class Account:
    """What became of the rows of a log: rows read, and rows set aside by reason.

    found     how the log turned out to be laid out, in words
    layout    how it was read, as data (see `cldrank.clicks.log.Log`)
    strangers   why no row is of a candidate of the dataset, if none is

    >>> print(Account(rows=1000, rejected={"null key": 2}))
    1,000 rows read, 2 set aside (0.200%)
                   2  null key: session, query, document or position is missing
    """

    rows: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    wrong_start: WrongStart | None = None
    found: tuple[str, ...] = ()
    layout: Mapping[str, int | str] = field(default_factory=dict)
    strangers: str = ""

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
        lines += [f"found: {fact}" for fact in self.found]
        return "\n".join(lines)


@dataclass(frozen=True)
class Aggregation:
    """The cells of a log, the account of its rows, and the rows set aside (reason, keys, position, clicks, rows).

    days       the cells of each day, if they were asked for
    left_out   files that were counted before

    >>> log = {"session_id": [1, 1], "query_id": ["a", "a"], "doc_id": [5, None], "position": [1, 2], "clicked": [1, 0]}
    >>> found = aggregate(pa.table(log), max_rejected=1.0)
    >>> found.account.rejected, found.rejects.column_names, found.clicks.n_cells
    ({'null key': 1}, ['reason', 'session_id', 'query_id', 'doc_id', 'position', 'clicks', 'rows'], 1)
    """

    clicks: ClickTable
    account: Account
    rejects: pa.Table
    days: Mapping[date, ClickTable] = field(default_factory=dict)
    left_out: tuple[LogFile, ...] = ()


class TooManyRejectsError(CldrankError):
    """More of a log was set aside than the caller accepts; nothing was aggregated. See `account` and `rejects`.

    >>> log = {"session_id": [1, 1], "query_id": ["a", "a"], "doc_id": [5, None], "position": [1, 2], "clicked": [1, 0]}
    >>> aggregate(pa.table(log))
    Traceback (most recent call last):
    cldrank.clicks.aggregate.TooManyRejectsError: ...
    """

    def __init__(self, account: Account, rejects: pa.Table, limit: float) -> None:
        worst = max(account.rejected, key=lambda reason: account.rejected[reason])
        found = (
            f"{account.share_rejected:.1%} of {account.rows:,} rows had to be set aside, more than the {limit:.1%} "
            f"allowed; most of them ({account.rejected[worst]:,}): {REASONS[worst]}."
        )
        enough = f"{math.ceil(account.share_rejected * 20) / 20:g}"  # the next of 5%, 10%, …
        command = f"`cldrank clicks aggregate LOG --max-rejected {enough} --out cells.parquet`"
        more = Spelling(f"max_rejected={enough}", command)
        if account.strangers:
            super().__init__("{} {}{}.", found, account.strangers[0].upper(), account.strangers[1:])
        elif account.share_rejected > _MOST_ACCEPTED:
            super().__init__("{}", found)
        else:
            super().__init__("{} If the rest is enough, accept that with {}.", found, more)
        self.account = account
        self.rejects = rejects


def aggregate(
    paths: Paths,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    layout: LogLayout | None = None,
    every_click: bool = False,
    segment: str | None = None,
    max_rejected: float = 0.05,
    again: bool = False,
    counted: Iterable[LogFile] = (),
    days: bool | date = False,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    **reading: Any,
) -> Aggregation:
    r"""Aggregate a log to cells, aligned to a dataset if one is given.

    paths           files, folders, patterns, or a frame: pandas, Polars, Arrow, …; a Spark DataFrame or an Ibis table
                    is counted where it lies
    engine          "duckdb", "spark", or an Ibis connection
    layout          how to read the log; its fields can be given by their names: columns={"doc_id": "item"},
                    first_position=0 (see `cldrank.clicks.log.LogLayout`)
    every_click     count each of several clicks on one result in one session, instead of one
    segment         the column that names the device, layout or other surface of each page: cells are counted by
                    segment, those without a value under "(missing)"
    max_rejected    the share of rows that may be set aside; above it, TooManyRejectsError
    again           accept a file that is named twice, two with the same content, or one that was counted
    counted         files that were counted before, such as the sources of a table; they are left out
    days            True: count each day by itself, by the timestamp in UTC; a date: all rows are of that day
    memory_limit, threads, master   of the engine (see `cldrank.clicks.log.connected`)

    Without a first_position, positions count from 1, and a log that seems to count from 0 is refused.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     _ = path.write_text(
    ...         "session_id,query_id,doc_id,position,clicked\n"
    ...         "1,shoes,a,1,0\n1,shoes,b,2,1\n2,shoes,a,1,1\n2,shoes,b,2,0\n2,shoes,b,2,0\n"
    ...     )
    ...     result = aggregate(path, max_rejected=0.5)
    >>> result.clicks
    ClickTable(1 query, 2 candidates, 2 shown at positions 1…2; 2 cells, 4 impressions, 2 clicks)
    >>> print(result.account)
    5 rows read, 1 set aside (20.000%)
                 1  repeated row: a copy of another row, with the same clicks and, if the log has times, the same time
    """
    check_number("max_rejected", max_rejected, least=0, most=1)
    layout = LogLayout.of(layout, reading)
    if segment is not None:
        named = layout.columns.get(SEGMENT, segment)
        if named != segment:
            mapped = Spelling(f"columns={{{SEGMENT!r}: {named!r}}}", f"--column {SEGMENT}={named}")
            raise UsageError("{} and {} both name the segment; leave out one.", setting("segment", segment), mapped)
        layout = replace(layout, columns={**layout.columns, SEGMENT: segment})
    files = existing(paths)
    _refuse_cells(files)
    with connected(engine_of(files, engine), memory_limit=memory_limit, threads=threads, master=master) as opened:
        sources = log_files(files, again=again) | frame_sources(files, layout)
        known = {} if again else counted_before(sources, tuple(counted))
        if known and len(known) == len(sources):
            return _nothing_new(dataset, every_click, tuple(known.values()))
        opened.left_out = frozenset(file for file in known if isinstance(file, Path))
        fresh = tuple(one for file, one in sources.items() if file not in known)
        result = aggregate_any(files, dataset, opened, layout, fresh, every_click=every_click, days=days)
        result = replace(result, left_out=tuple(known.values()))
    if result.account.wrong_start:
        raise result.account.wrong_start.error
    if result.account.share_rejected > max_rejected:
        raise TooManyRejectsError(result.account, result.rejects, max_rejected)
    return result


def _nothing_new(dataset: RankingDataset | None, every_click: bool, left_out: tuple[LogFile, ...]) -> Aggregation:
    none = np.zeros(0, dtype=np.int64)
    candidates = Candidates.seen(none, none) if dataset is None else Candidates.of(dataset)
    clicks = ClickTable(candidates, none, none, none, none, every_click)
    return Aggregation(clicks, Account(0), _reject_table([]), left_out=left_out)


def _refuse_cells(files: list[LogSource]) -> None:
    for file in files:
        if is_cells(file):
            raise UsageError(
                "{} holds cells already, not a log; add cells to others with {}.",
                file,
                Spelling("ClickTable.merge", "--add-to"),
            )


def aggregate_any(
    files: list[LogSource],
    dataset: RankingDataset | None,
    engine: Engine,
    layout: LogLayout,
    sources: tuple[LogFile, ...] = (),
    *,
    every_click: bool = False,
    days: bool | date = False,
) -> Aggregation:
    """Aggregate a log, however bad it is, as the audit does."""
    start = time.perf_counter()
    if layout.one_query and dataset is not None:
        layout = replace(layout, one_query=only_query(dataset.query_ids))
    log = open_views(files, engine, layout)
    with querying(files), ExitStack() as held:
        log, span = by_day(log) if days is True else (log, NO_DAYS)
        lost = [] if span.lost is None else [rows_without_day(span.lost)]
        counted = count_cells(log, engine, every_click, held)
        rows = counted.rows + sum(map(len, lost))
        if not rows:
            raise DataError(f"{', '.join(map(str, files))}: the log is empty, it has no rows.")
        clicks, row, unknown, strangers = _aligned(counted.cells, dataset, every_click, sources)
        clicks = replace(clicks, layout=position_layout(log.layout))
        rejects = _reject_table([*lost, *counted.rejects, unknown])
    wrong_start = _wrong_start(counted, log, layout.first_position)
    seconds = time.perf_counter() - start
    account = Account(rows, _by_reason(rejects), seconds, wrong_start, log.found, log.layout, strangers)
    by_itself = cells_by_day(counted.cells, clicks, row, span, days) if days else {}
    return Aggregation(clicks, account, rejects, by_itself)


def open_views(files: list[LogSource], engine: Engine, layout: LogLayout) -> Log:
    """Open a log (see `cldrank.clicks.log.open_log`), with a session per view if views are separated by time."""
    log = open_log(files, engine, layout)
    return by_view(log) if layout.by_time else log


def _wrong_start(counted: Counted, log: Log, first_position: int | None) -> WrongStart | None:
    """Whether the top position does not seem to be what the caller says."""
    zero, one, two = counted.top
    what = "clicks" if log.by_clicks else "rows"
    if first_position is None and _counts_from_0(counted, log):
        return WrongStart(0, what, zero, one)
    if first_position == 0 and one < _STRAY * two and (not log.by_clicks or two >= _FEW_CLICKS):
        return WrongStart(1, what, one, two)
    return None


def _counts_from_0(counted: Counted, log: Log) -> bool:
    """Whether some pages begin at 0: more than mistakes in single rows explain, however small a part of the log."""
    zero, one, _ = counted.top
    if log.by_clicks:
        return zero > _STRAY * one
    most, share = _STRAY_PAGES
    return counted.from_0 >= most or counted.from_0 > share * max(zero, one) or zero > one


# -- in memory ---------------------------------------------------------------------------------------------------


def _reject_table(parts: list[pa.Table]) -> pa.Table:
    """Rows set aside, with one schema; a part may lack columns, and without `rows` each of its rows counts once."""
    typed = []
    for part in parts:
        if "rows" not in part.column_names:
            part = part.append_column("rows", pa.array(np.ones(len(part), dtype=np.int64)))
        columns = [
            _cast(part[name], kind) if name in part.column_names else pa.nulls(len(part), kind)
            for name, kind in zip(_REJECTS.names, _REJECTS.types, strict=True)
        ]
        position = _REJECTS.names.index("position")
        columns[position] = pc.if_else(
            pc.is_in(columns[position], pa.array(list(MARKS))), pa.scalar(None, pa.int64()), columns[position]
        )
        typed.append(pa.table(columns, schema=_REJECTS))
    return pa.concat_tables(typed) if typed else _REJECTS.empty_table()


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except pa.ArrowException:  # ids of a type that Arrow cannot write as text
        return pa.chunked_array([pa.array([None if v is None else str(v) for v in column.to_pylist()], kind)])


def _by_reason(rejects: pa.Table) -> dict[str, int]:
    counts = rejects.group_by("reason").aggregate([("rows", "sum")]).to_pylist()
    found = {entry["reason"]: entry["rows_sum"] for entry in counts}
    return {reason: found[reason] for reason in REASONS if reason in found}


def _aligned(
    cells: pa.Table, dataset: RankingDataset | None, every_click: bool, sources: tuple[LogFile, ...]
) -> tuple[ClickTable, IntArray, pa.Table, str]:
    """The cells of known candidates as a table, the candidate of each cell, the others as rejects, and why if all."""
    queries, documents = (ids_of(cells[name], f"the {name} of the log") for name in ("query_id", "doc_id"))
    position, impressions, clicks = (cells[name].to_numpy() for name in ("position", "impressions", "clicks"))
    candidates = Candidates.seen(queries, documents) if dataset is None else Candidates.of(dataset)
    row = candidates.find(queries, documents)
    known = row >= 0
    segment, names = segments_of(cells)
    table = ClickTable(
        candidates,
        row[known],
        position[known],
        impressions[known],
        clicks[known],
        every_click,
        sources,
        segment=segment[known],
        segment_names=names,
    )
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
    return table, row, unknown, candidates.strangers(queries, documents, row)
