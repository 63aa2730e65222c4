"""From an impression log to cells: every row is counted once, or set aside with the reason.

paths ─► log.open_log ─► counting.count_cells ─► aligned to the candidates of a dataset ─► ClickTable
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cldrank.arguments import check_number
from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates, ids_of
from cldrank.clicks.counting import Counted, by_view, count_cells
from cldrank.clicks.log.engines import Engine, OneSegment, connected, engine_of, querying
from cldrank.clicks.log.paths import LogFile, LogSource, Paths, existing, log_files
from cldrank.clicks.log.schema import ODD_POSITION, Log, columns_of, only_query, open_log
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, FormatError, Language, Spelling, UsageError, setting, worded

REASONS = {
    "null key": "session, query, document or position is missing",
    "not a number": "position or clicks is not a whole number, or out of range",
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
_STRAY_PAGES = 10, 0.2  # pages from position 0, number and share, up to which they are mistakes in single rows
MOST_SEGMENTS = 100
MISSING = "(missing)"  # the segment of rows that name none
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
    """What became of the rows of a log: rows read, and rows set aside by reason."""

    rows: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    wrong_start: WrongStart | None = None

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
    """The cells of a log, the account of its rows, and the rows set aside (reason, keys, position, clicks, rows)."""

    clicks: ClickTable
    account: Account
    rejects: pa.Table


class TooManyRejectsError(CldrankError):
    """More of a log was set aside than the caller accepts; nothing was aggregated. See `account` and `rejects`."""

    def __init__(self, account: Account, rejects: pa.Table, limit: float) -> None:
        worst = max(account.rejected, key=lambda reason: account.rejected[reason])
        super().__init__(
            f"{account.share_rejected:.1%} of {account.rows:,} rows had to be set aside, more than the {limit:.1%} "
            f"allowed; most of them ({account.rejected[worst]:,}): {REASONS[worst]}."
        )
        self.account = account
        self.rejects = rejects


def aggregate(
    paths: Paths,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    columns: Mapping[str, str] | None = None,
    first_position: int | None = None,
    one_query: bool = False,
    by_time: bool = False,
    every_click: bool = False,
    max_rejected: float = 0.05,
    again: bool = False,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
) -> Aggregation:
    r"""Aggregate a log to cells, aligned to a dataset if one is given.

    paths                files, folders, patterns, or a frame: pandas, Polars, Arrow, …; a Spark DataFrame or an Ibis
                         table is counted where it lies
    engine               "duckdb", "spark", or an Ibis connection
    columns, one_query   how to read the log (see `cldrank.clicks.log.open_log`)
    first_position       the number of the top position; None: 1, and a log that seems to count from 0 is refused
    by_time              count what a session saw of a query at different times as different pages
    every_click          count each of several clicks on one result in one session, instead of one
    max_rejected         the share of rows that may be set aside; above it, TooManyRejectsError
    again                accept a file that is named twice, or two with the same content
    memory_limit, threads, master   of the engine (see `cldrank.clicks.log.connected`)

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
    files = existing(paths)
    _refuse_cells(files)
    with connected(engine_of(files, engine), memory_limit=memory_limit, threads=threads, master=master) as opened:
        sources = log_files(files, part=getattr(opened, "part", ""), again=again)
        options: dict[str, Any] = {"columns": columns, "first_position": first_position, "by_time": by_time}
        result = aggregate_any(files, dataset, opened, sources, one_query=one_query, every_click=every_click, **options)
    if result.account.wrong_start:
        raise result.account.wrong_start.error
    if result.account.share_rejected > max_rejected:
        raise TooManyRejectsError(result.account, result.rejects, max_rejected)
    return result


def aggregate_segments(
    paths: Paths,
    column: str,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    **options: Any,
) -> dict[str, Aggregation]:
    r"""Aggregate the rows of each value of a column separately, such as the pages of phones and of desktops.

    `options` are those of `aggregate`, for each segment alike. Each segment costs a pass over the log.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     _ = path.write_text(
    ...         "device,session_id,query_id,doc_id,position,clicked\n"
    ...         "phone,1,shoes,a,1,0\nphone,1,shoes,b,2,1\ndesktop,2,shoes,a,1,1\n"
    ...     )
    ...     found = aggregate_segments(path, "device")
    >>> {name: int(part.clicks.impressions.sum()) for name, part in found.items()}
    {'desktop': 1, 'phone': 2}
    """
    files = existing(paths)
    with connected(engine_of(files, engine), memory_limit=memory_limit, threads=threads, master=master) as opened:
        names = {value: MISSING if value is None else str(value) for value in _segments(opened, files, column)}
        return {
            name: aggregate(files, dataset, engine=OneSegment(opened, column, value, name), **options)
            for value, name in names.items()
        }


def _segments(engine: Engine, files: list[LogSource], column: str) -> list[Any]:
    """The values of the column, in order; a column with many of them does not hold segments."""

    def choose(columns: Sequence[str]) -> list[str]:
        if column not in columns:
            raise FormatError(f"there is no column {column!r} of segments; {columns_of(columns)}.", path=files[0])
        return [column]

    table = engine.open(files, choose)
    with querying(files):
        found = table.select(column).distinct().limit(MOST_SEGMENTS + 1).to_pyarrow()[column].to_pylist()
    if len(found) > MOST_SEGMENTS:
        raise DataError(
            f"column {column!r} has more than {MOST_SEGMENTS} values; segments are few, such as devices or surfaces."
        )
    return sorted(found, key=lambda value: (value is None, str(value)))


def _refuse_cells(files: list[LogSource]) -> None:
    from cldrank.clicks.cell_file import is_cells

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
    sources: tuple[LogFile, ...] = (),
    *,
    one_query: bool = False,
    every_click: bool = False,
    **options: Any,
) -> Aggregation:
    """Aggregate a log, however bad it is, as the audit does; the options are those of `open_views`."""
    start = time.perf_counter()
    query = one_query if dataset is None or not one_query else only_query(dataset.query_ids)
    log = open_views(files, engine, one_query=query, **options)
    with querying(files), ExitStack() as held:
        counted = count_cells(log, engine, every_click, held)
        if not counted.rows:
            raise DataError(f"{', '.join(map(str, files))}: the log is empty, it has no rows.")
        clicks, unknown = _aligned(counted.cells, dataset, every_click, sources)
        rejects = _reject_table([*counted.rejects, unknown])
    wrong_start = _wrong_start(counted, log, options.get("first_position"))
    account = Account(counted.rows, _by_reason(rejects), time.perf_counter() - start, wrong_start)
    return Aggregation(clicks, account, rejects)


def open_views(files: list[LogSource], engine: Engine, *, by_time: bool = False, **options: Any) -> Log:
    """Open a log (see `cldrank.clicks.log.open_log`), with a session per view if views are separated by time."""
    log = open_log(files, engine, **options)
    return by_view(log) if by_time else log


def _wrong_start(counted: Counted, log: Log, first_position: int | None) -> WrongStart | None:
    """Whether the top position does not seem to be what the caller says."""
    zero, one, two = counted.top
    what = "clicks" if log.phantoms is not None else "rows"
    if first_position is None and _counts_from_0(counted, log):
        return WrongStart(0, what, zero, one)
    if first_position == 0 and one < _STRAY * two and (log.phantoms is None or two >= _FEW_CLICKS):
        return WrongStart(1, what, one, two)
    return None


def _counts_from_0(counted: Counted, log: Log) -> bool:
    """Whether some pages begin at 0: more than mistakes in single rows explain, however small a part of the log."""
    zero, one, _ = counted.top
    if log.phantoms is not None:  # only clicks have positions there
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
            pc.equal(columns[position], ODD_POSITION), pa.scalar(None, pa.int64()), columns[position]
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
) -> tuple[ClickTable, pa.Table]:
    """The cells of known candidates as a table, and the others as rejects, one row per cell."""
    queries, documents = (ids_of(cells[name], f"the {name} of the log") for name in ("query_id", "doc_id"))
    position, impressions, clicks = (cells[name].to_numpy() for name in ("position", "impressions", "clicks"))
    candidates = Candidates.seen(queries, documents) if dataset is None else Candidates.of(dataset)
    row = candidates.find(queries, documents)
    known = row >= 0
    table = ClickTable(candidates, row[known], position[known], impressions[known], clicks[known], every_click, sources)
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
