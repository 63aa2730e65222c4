"""From an impression log to cells: every row is counted once, or set aside with the reason.

source ─► log.open_log ─► grouped into cells, corrected on pages that repeat a document ─► aligned to the candidates of
a dataset ─► ClickTable

All rows are grouped into cells once. Rows are wrong if their document repeats on its page (the rows of a session and
query), which few pages do: only the rows of those pages are judged individually, and the cells corrected by what is set
aside. Of a log with segments or days, cells and pages are those of each segment and day.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cldrank._typing import IntArray
from cldrank.arguments import check_number
from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates, ids_of
from cldrank.clicks.cells_file import added_cells, counted_columns, is_cells
from cldrank.clicks.contexts import LAST_CLICK
from cldrank.clicks.log.layout import DEEPEST, KEYS, OPTIONAL, SEGMENT, TEAM, LogLayout
from cldrank.clicks.log.log_files import LogFile, counted_before, log_files
from cldrank.clicks.log.plain_log import Log, Times, only_query, open_log, querying
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, CldrankWarning, DataError, UsageError, warn
from cldrank.tables import Engine, Relation, connect, is_frame, table_files
from cldrank.wording import count

__all__ = ["Account", "Aggregation", "TooManyRejectsError", "aggregate"]

REASONS = {
    "no day": "the timestamp is missing, or is not a time",
    "null key": "session, query, document or position is missing",
    "long id": "an id has more than 4,096 letters",
    "not a number": "position or clicks is not a whole number or out of range",
    "unequal lists": "the lists of the page differ in length",
    "position below 1": "shown at a position before the first",
    "click never shown": "clicked, but shown at no position",
    "excluded user": "of a user that is left out on request",
    "bot": "of a user or session that does not look human, left out on request",
    "repeated row": "a copy of another row, with the same clicks and, if the log has times, the same time",
    "second view": "the same result of the same page again, at another time or with other clicks",
    "document twice": "the same document further down on the same page",
    "unknown query": "no such query in the dataset",
    "unknown document": "no such candidate of the query in the dataset",
}
ON_REQUEST = ("excluded user", "bot")
_STRAY = 0.1  # rows at the top position, relative to the next, below which the top must be somewhere else
_FEW_CLICKS = 20
_FEW_REJECTED = 0.001  # a share of rows that is not worth another pass over the log, to say which columns are wrong
_MOST_ACCEPTED = 0.5  # beyond this share of rejects, the log is read wrongly
_STRAY_PAGES = 10, 0.2  # pages from position 0, number and share, up to which they are mistakes in single rows
_REJECTS = pa.schema(
    [
        *((name, pa.string()) for name in ("reason", "session_id", "query_id", "doc_id")),
        *((name, pa.int64()) for name in ("position", "clicks", "rows")),
    ]
)

MOST_SEGMENTS = 100
_REJECT = (  # ids as text: logs have them in any type
    f"SELECT reason, {', '.join(f'CAST({name} AS VARCHAR) AS {name}' for name in KEYS)}, "
    "CAST(position AS BIGINT) AS position, CAST(clicks AS BIGINT) AS clicks, CAST(1 AS BIGINT) AS rows"
)
_COUNTS = ("impressions", "clicks")  # of contexts; events are counted by cell alone
_MANY_ROWS = 1_000_000  # fewer are grouped at once
_HASHES_AT_A_TIME = 100_000_000  # 800 MB
_BATCH = 1 << 17


class WrongStart(NamedTuple):
    """Why the top position seems to have another number than the caller says, and what to do about it."""

    found: str
    advice: str


@dataclass(frozen=True)
class Account:
    """What became of the rows of a log: rows read, and rows set aside by reason.

    found         how the timestamps are written, and what events were without a click, in words
    unread_times  timestamps that could not be read
    mismatch      why no row matches a candidate of the dataset, where none does
    details       for each reason, the columns that caused it, with an example

    >>> print(Account(rows=1000, rejected={"null key": 2}))
    1,000 rows read, 2 set aside (0.200%)
                   2  null key: session, query, document or position is missing
    """

    rows: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    wrong_start: WrongStart | None = None
    found: tuple[str, ...] = ()
    unread_times: int = 0
    mismatch: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

    def why(self, reason: str) -> str:
        """Why rows were set aside: which column, if that is known, else what the reason means."""
        return self.details.get(reason, REASONS[reason])

    @property
    def n_rejected(self) -> int:
        """How many rows were set aside."""
        return sum(self.rejected.values())

    @property
    def share_rejected(self) -> float:
        """The share of rows that were set aside."""
        return self.n_rejected / self.rows if self.rows else 0.0

    @property
    def share_faulty(self) -> float:
        """The share of rows that were set aside, without those that the caller asked to leave out."""
        asked = sum(self.rejected.get(reason, 0) for reason in ON_REQUEST)
        return (self.n_rejected - asked) / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows read, {self.n_rejected:,} set aside ({self.share_rejected:.3%})"]
        lines += [f"  {count:>12,}  {reason}: {self.why(reason)}" for reason, count in self.rejected.items()]
        lines += [f"found: {fact}" for fact in self.found]
        return "\n".join(lines)


@dataclass(frozen=True)
class Aggregation:
    """The cells of a log, the account of its rows, and the rows set aside (reason, keys, position, clicks, rows).

    days       the cells of each day, if they were asked for
    left_out   files that were counted before

    >>> log = {"session_id": [1, 1], "query_id": ["a", "a"], "doc_id": [5, None], "position": [1, 2], "clicked": [1, 0]}
    >>> result = aggregate(pa.table(log), max_rejected=1.0)
    >>> result.account.rejected, result.rejects.column_names, result.clicks.n_cells
    ({'null key': 1}, ['reason', 'session_id', 'query_id', 'doc_id', 'position', 'clicks', 'rows'], 1)
    """

    clicks: ClickTable
    account: Account
    rejects: pa.Table
    days: Mapping[date, ClickTable] = field(default_factory=dict)
    left_out: tuple[LogFile, ...] = ()


class TooManyRejectsError(CldrankError):
    """More of a log was set aside than the caller accepts; nothing was aggregated. See `account` and `rejects`."""

    def __init__(self, where: str, account: Account, rejects: pa.Table, limit: float) -> None:
        faults = {reason: n for reason, n in account.rejected.items() if reason not in ON_REQUEST}
        worst = max(faults, key=lambda reason: faults[reason])
        most = "all" if faults[worst] == sum(faults.values()) else f"most of them ({faults[worst]:,})"
        text = (
            f"{where}: {account.share_faulty:.1%} of {account.rows:,} rows had to be set aside, more than the "
            f"{limit:.1%} allowed; {most}: {account.why(worst)}."
        )
        if account.mismatch:
            text = f"{text} {account.mismatch[0].upper()}{account.mismatch[1:]}."
        elif account.share_faulty <= _MOST_ACCEPTED:
            enough = f"{math.ceil(account.share_faulty * 20) / 20:g}"  # the next of 5%, 10%, …
            way = f"`cldrank clicks aggregate --max-rejected {enough}`, or in Python with max_rejected={enough}"
            text = f"{text} If the rest is enough, aggregate the log with {way}."
        super().__init__(text)
        self.account = account
        self.rejects = rejects


def aggregate(
    paths: Any,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Engine = "duckdb",
    layout: LogLayout | None = None,
    max_rejected: float = 0.05,
    counted: Iterable[LogFile] = (),
    days: bool = False,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    **reading: Any,
) -> Aggregation:
    r"""Aggregate a log to cells; with a dataset, cells are aligned to its candidates.

    paths           files, folders, patterns, or a frame: pandas, Polars, Arrow, …; a Spark DataFrame is counted where
                    it lies
    engine          "duckdb" or "spark"
    layout          how to read the log; its fields can be passed by name: columns={"doc_id": "item"},
                    first_position=0, exclude_bots=True (see `cldrank.clicks.LogLayout`)
    max_rejected    the share of rows that may be set aside, without those that `exclude_users` and `exclude_bots` ask
                    for; above it, TooManyRejectsError
    counted         files that were counted before, such as the sources of a table; they are left out
    days            also count each day by itself, by the timestamp in UTC
    memory_limit, threads, master   of the engine (see `cldrank.tables.connect`)

    Several clicks on a result in a session count once. With a column for the role "segment", which names the
    device, layout or other surface of each page, cells are counted by segment, those without a value under "(missing)".
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
    source, sources = log_source(paths)
    files = [file.path for file in source] if isinstance(source, list) else list(sources)
    known = counted_before(files, sources, tuple(counted))
    if known and len(known) == len(sources):
        none = np.zeros(0, dtype=np.int64)
        candidates = Candidates.seen(none, none) if dataset is None else Candidates.of(dataset)
        clicks = ClickTable(candidates, none, none, none, none)
        return Aggregation(clicks, Account(0), _REJECTS.empty_table(), left_out=tuple(known.values()))
    if isinstance(source, list):
        source = [file for file in source if file.path not in known]
    fresh = tuple(named for file, named in sources.items() if file not in known)
    limits: dict[str, Any] = {"memory_limit": memory_limit, "threads": threads, "master": master}
    with connect(engine, source=source, **limits) as opened:
        log, result = aggregate_any(source, dataset, opened, layout, fresh, days=days)
    account = result.account
    if account.wrong_start:
        raise DataError(f"{log.table.where}: {account.wrong_start.found}. {account.wrong_start.advice}")
    if account.share_faulty > max_rejected:
        raise TooManyRejectsError(log.table.where, account, result.rejects, max_rejected)
    return replace(result, left_out=tuple(known.values()))


def log_source(
    paths: Any, cells: str = "cells already, not a log; add cells to others with ClickTable.merge"
) -> tuple[Any, dict[Path, LogFile]]:
    """The files of a log and what is known of each by its content, or its frame; what holds `cells` is refused."""
    if is_frame(paths):
        return paths, {}
    files = table_files(paths, what="log")
    for part in (file.path for file in files):
        if is_cells(part):
            raise UsageError(f"{part} holds {cells}.")
    return files, log_files(files)


def aggregate_any(
    source: Any,
    dataset: RankingDataset | None,
    engine: Engine,
    layout: LogLayout,
    sources: tuple[LogFile, ...] = (),
    *,
    days: bool = False,
) -> tuple[Log, Aggregation]:
    """Aggregate a log, however bad it is, as the audit does; the plain log stays open in the engine."""
    start = time.perf_counter()
    if layout.one_query and dataset is not None:
        layout = replace(layout, one_query=only_query(dataset.query_ids))
    log = open_log(source, engine, layout)
    if log.interleaved:
        warn(
            CldrankWarning(
                f'{log.table.where}: this log is of an experiment (column {TEAM}): "production", the order of the log, '
                "is a mixture of both rankers; name the old ranker or its scores instead."
            )
        )
    times = Times("", 0, ())
    with querying(engine, log.table.where):
        if days:
            log = _with_days(log)
            times = log.times()
        counted = _count_cells(log, by_day=days)
    if not counted.rows:
        raise DataError(f"{log.table.where}: the log is empty, it has no rows.")
    cells = counted.cells
    queries, documents = (ids_of(cells[name], f"the {name} of the log") for name in ("query_id", "doc_id"))
    candidates = Candidates.seen(queries, documents) if dataset is None else Candidates.of(dataset)
    row = candidates.find(queries, documents)
    contexts, cell = _contexts(cells, counted.after_clicks)
    weights = layout.event_weights
    clicks = ClickTable.from_cells(contexts, candidates, row[cell], sources=sources, event_weights=weights)
    by_day = _cells_by_day(contexts, clicks, row[cell]) if days else {}
    rejects = _reject_table(counted.rejects, cells, row)
    rejected = _by_reason(rejects)
    account = Account(
        rows=counted.rows,
        rejected=rejected,
        seconds=time.perf_counter() - start,
        wrong_start=_wrong_start(counted, log, layout.first_position),
        found=(*times.found, *counted.found),
        unread_times=times.unread,
        mismatch=candidates.mismatch(queries, documents, row),
        details=log.faults([why for why, n in rejected.items() if n > _FEW_REJECTED * counted.rows]),
    )
    return log, Aggregation(clicks, account, rejects, by_day)


# -- counting ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counted:
    """Cells of the rows that are kept, the number of all rows, and the rows set aside.

    after_clicks   of the cells, the rows below a click on their page, by the position of the last click above
    top       rows at positions 0, 1 and 2, right or wrong; in a log where only clicks have positions, clicks at those
    from_0    pages with a result at position 0 and another at 1
    found     what is remarkable about events, in words
    """

    cells: pa.Table
    after_clicks: pa.Table
    rows: int
    rejects: list[pa.Table]
    top: tuple[int, int, int]
    from_0: int
    found: tuple[str, ...] = ()


def _count_cells(log: Log, by_day: bool = False) -> _Counted:
    """Count the rows of a log; `by_day`: the days of the timestamp apart."""
    table = log.table
    apart = [*([SEGMENT] if log.has(SEGMENT) else []), *(["day"] if by_day else [])]
    day = ", CAST(timestamp AS DATE) AS day" if by_day else ""
    rows = f"(SELECT * EXCLUDE (clicks), least(clicks, 1) AS clicks{day} FROM {table})"
    cell = ", ".join(["query_id", "doc_id", "position", *apart])
    happened = {name: name for name in ("clicks", *log.events)}
    happened |= {"unclicked": "CAST(unclicked AS INTEGER)"} if log.events else {}
    sums = [
        f"CAST(coalesce(sum({each}) FILTER (WHERE reason IS NULL), 0) AS BIGINT) AS {name}"
        for name, each in happened.items()
    ]
    grouped = log.engine.arrow(
        f"SELECT {cell}, count(*) AS logged, count(*) FILTER (WHERE reason IS NULL) AS impressions, {', '.join(sums)} "
        f"FROM {rows} GROUP BY {cell}"
    )
    if SEGMENT in apart and len(pc.unique(grouped[SEGMENT])) > MOST_SEGMENTS:
        raise DataError(
            f"`segment` names a column that has more than {MOST_SEGMENTS} values; segments are few, such as devices or "
            "surfaces."
        )
    total, kept = (int(pc.sum(grouped[name]).as_py() or 0) for name in ("logged", "impressions"))
    rejects = []
    if kept < total:
        rejects.append(log.engine.arrow(f"{_REJECT} FROM {rows} WHERE reason IS NOT NULL"))
    top = tuple(_at(grouped, place, "logged") for place in range(3))
    if log.by_clicks:
        never_shown = sum(pc.sum(pc.equal(part["position"], 0)).as_py() or 0 for part in rejects)
        top = never_shown, _at(grouped, 1, "clicks"), _at(grouped, 2, "clicks")
    found = []
    if log.events:
        n = int(pc.sum(grouped["unclicked"]).as_py() or 0)
        found = [f"{count(n, 'result')} with other events but no click: counted as clicked"] if n else []
        grouped = grouped.drop_columns("unclicked")
    cells = grouped.drop_columns("logged").filter(pc.greater(grouped["impressions"], 0))
    kept_rows = f"(SELECT * FROM {rows} WHERE reason IS NULL)" if kept < total else rows  # all: fewer columns are read
    repeated = _repeated_documents(log, kept_rows, cells, apart)
    after_clicks = _after_clicks(log, kept_rows, apart)
    if repeated is not None:
        judged = _judged_pages(log, kept_rows, repeated, apart)
        taken_off = [f"-CAST(sum({name}) AS BIGINT) AS {name}" for name in ("clicks", *log.events)]
        rejects.append(log.engine.arrow(f"{_REJECT} FROM {judged} WHERE reason IS NOT NULL"))
        corrections = log.engine.arrow(
            f"SELECT {cell}, -count(*) AS impressions, {', '.join(taken_off)} FROM {judged} WHERE reason IS NOT NULL "
            f"GROUP BY {cell}"
        )
        cells = added_cells([cells, corrections.cast(cells.schema)])
        cells = cells.filter(pc.greater(cells["impressions"], 0))
        kept_of_judged = f"(SELECT * FROM {judged} WHERE reason IS NULL)"
        changes = [_after_clicks(log, str(judged), apart, "-"), _after_clicks(log, kept_of_judged, apart)]
        after_clicks = added_cells([after_clicks, *(change.cast(after_clicks.schema) for change in changes)])
        after_clicks = after_clicks.filter(pc.greater(after_clicks["impressions"], 0))
    from_0 = 0
    if _at(grouped, 0, "logged"):
        both = f"SELECT 1 FROM {table} WHERE position IN (0, 1) GROUP BY session_id, query_id"
        from_0 = log.engine.row(f"SELECT count(*) AS n FROM ({both} HAVING count(DISTINCT position) = 2)")["n"]
    return _Counted(cells, after_clicks, total, rejects, (top[0], top[1], top[2]), int(from_0), tuple(found))


# -- clicks above ------------------------------------------------------------------------------------------------------


def _after_clicks(log: Log, rows: str, apart: list[str], sign: str = "") -> pa.Table:
    """The rows below a click on their page, counted by cell and by the position of the last click above.

    A click opens a stretch of its page, down to the next click, which is counted in the stretch above it.
    """
    page, cell = ", ".join(["session_id", "query_id", *apart]), ", ".join(["query_id", "doc_id", "position", *apart])
    return log.engine.arrow(f"""
        WITH clicked AS (SELECT DISTINCT {page}, position AS {LAST_CLICK} FROM {rows} WHERE clicks > 0),
        stretches AS (
            SELECT *, lead({LAST_CLICK}, 1, {DEEPEST}) OVER (PARTITION BY {page} ORDER BY {LAST_CLICK}) AS next_click
            FROM clicked
        )
        SELECT {cell}, {LAST_CLICK}, {sign}count(*) AS impressions, {sign}CAST(sum(clicks) AS BIGINT) AS clicks
        FROM {rows} JOIN stretches USING ({page}) WHERE position > {LAST_CLICK} AND position <= next_click
        GROUP BY {cell}, {LAST_CLICK}""")


def _contexts(cells: pa.Table, after_clicks: pa.Table) -> tuple[pa.Table, IntArray]:
    """The contexts of cells, those without a click above first, and the number of the cell of each."""
    counted = counted_columns(cells.column_names)
    keys = [name for name in cells.column_names if name not in counted]
    numbered = cells.select(keys).append_column("cell", pa.array(np.arange(len(cells))))
    below = after_clicks.join(numbered, keys, join_type="inner")
    cell = below["cell"].to_numpy()
    above = cells.append_column(LAST_CLICK, pa.array(np.zeros(len(cells), np.int64)))
    for name in _COUNTS:
        left = cells[name].to_numpy().copy()
        np.subtract.at(left, cell, below[name].to_numpy())
        above = above.set_column(above.column_names.index(name), name, pa.array(left))
    for name in counted[len(_COUNTS) :]:  # those of a cell stand with its first context
        below = below.append_column(name, pa.array(np.zeros(len(below), np.int64)))
    below = below.select(above.column_names).cast(above.schema)
    return pa.concat_tables([above, below]), np.concatenate([np.arange(len(cells)), cell])


# -- rows that repeat others -------------------------------------------------------------------------------------------


def _judged_pages(log: Log, rows: str, repeated: Relation, apart: list[str]) -> Relation:
    """The rows of pages that repeat a document, with a reason where they are set aside.

    Of rows with the same document at the same position, the first with a click is kept; the others are `repeated row`
    (a copy in every column) or `second view` (at another time, or with other clicks). Of a document at two positions,
    the upper is kept: `document twice`. Without times, a page with any such row counts as viewed twice.
    """
    page, document = ["session_id", "query_id", *apart], [*KEYS, *apart]
    optional = [name for name in OPTIONAL if log.has(name)]
    here = f"PARTITION BY {', '.join([*document, 'position'])}"
    acted = [f"{event} DESC" for event in log.events]
    ordered = f"({here} ORDER BY {', '.join(['clicks DESC', *acted, *optional])})"
    timed = log.has("timestamp")
    uppermost = f"min(position) OVER (PARTITION BY {', '.join([*document, 'timestamp'])})" if timed else "position - 1"
    other_view = "is_other" if timed else f"max(is_other) OVER (PARTITION BY {', '.join(page)})"
    return log.engine.hold(f"""
        WITH numbered AS (
            SELECT *, row_number() OVER {ordered} AS number,
                rank() OVER {ordered} AS place,
                min(position) OVER (PARTITION BY {", ".join(document)}) AS top, {uppermost} AS uppermost
            FROM {rows} SEMI JOIN {repeated} USING ({", ".join(page)})
        ),
        compared AS (
            SELECT *, CASE WHEN number > 1 AND number = place THEN 1 ELSE 0 END AS is_other
            FROM numbered
        ),
        viewed AS (SELECT *, {other_view} AS other_view FROM compared)
        SELECT {", ".join([*document, "position", "clicks", *log.events])}, CASE
                WHEN position > top AND position > uppermost THEN 'document twice'
                WHEN position > top THEN 'second view'
                WHEN number > 1 AND other_view = 1 THEN 'second view'
                WHEN number > 1 THEN 'repeated row' END AS reason
        FROM viewed""")


def _repeated_documents(log: Log, rows: str, cells: pa.Table, apart: list[str]) -> Relation | None:
    """The documents that a page has more than once; None if there are none."""
    keys, n = [*KEYS, *apart], int(pc.sum(cells["impressions"]).as_py() or 0)
    if n == len(cells) == 0 or _rises(log, rows, cells, apart):
        return None
    among = rows
    if log.engine.name == "duckdb" and n >= _MANY_ROWS:
        doubtful = _repeated_hashes(log, rows, keys, n)
        if not len(doubtful):
            return None
        held = log.engine.open(pa.table({"hashed": doubtful}))
        among = f"(SELECT * FROM {rows} WHERE hash({', '.join(keys)}) IN (SELECT hashed FROM {held}))"
    repeated = log.engine.hold(f"SELECT {', '.join(keys)} FROM {among} GROUP BY {', '.join(keys)} HAVING count(*) > 1")
    return repeated if log.engine.row(f"SELECT count(*) AS n FROM {repeated}")["n"] else None


def _rises(log: Log, rows: str, cells: pa.Table, apart: list[str]) -> bool:
    """Whether the log is sorted by session and position, and no document has two: then no page repeats any.

    Whatever the order in which the engine reads rows, no session and position occurs twice if each step grows.
    """
    if log.engine.name != "duckdb" or len(cells.group_by(["query_id", "doc_id", *apart]).aggregate([])) < len(cells):
        return False
    steps = "SELECT session_id, position, lag(session_id) OVER () AS s, lag(position) OVER () AS p FROM"
    grows = "coalesce(s IS NULL OR session_id > s OR (session_id = s AND position > p), FALSE)"
    return not log.engine.rows(f"SELECT 1 AS falls FROM ({steps} {rows}) WHERE NOT ({grows}) LIMIT 1")


def _repeated_hashes(log: Log, rows: str, keys: list[str], n: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Hashes of keys that occur more than once: to sort numbers takes a fraction of grouping 10^8 keys."""
    parts = -(-n // _HASHES_AT_A_TIME)
    repeated = []
    for part in range(parts):
        query = f"SELECT hash({', '.join(keys)}) AS hashed FROM {rows}"
        if parts > 1:
            query = f"SELECT hashed FROM ({query}) WHERE hashed % {parts} = {part}"
        batches = [batch.column(0).to_numpy() for batch in log.engine.batches(query, _BATCH)]
        hashes = np.concatenate([np.empty(0, np.uint64), *batches])
        hashes.sort()
        repeated.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
    return np.concatenate(repeated)


def _at(cells: pa.Table, position: int, what: str) -> int:
    return int(pc.sum(cells.filter(pc.equal(cells["position"], position))[what]).as_py() or 0)


# -- days --------------------------------------------------------------------------------------------------------------


def _with_days(log: Log) -> Log:
    """The log with rows without a day set aside."""
    if not log.has("timestamp"):
        raise UsageError(
            'the days of a log are those of its timestamp, which it lacks; name one with `columns={"timestamp": ...}`.'
        )
    return log.set_aside("timestamp IS NULL", "no day", first=True)


def _cells_by_day(cells: pa.Table, whole: ClickTable, row: IntArray) -> dict[date, ClickTable]:
    """The cells of each day, each with the part of its sources that it holds; `row` is below 0 for unknown ones.

    A session that sees a page on two days has two pages: so days give the same cells together and separately.
    """
    number = cells["day"].cast(pa.date32()).cast(pa.int32()).to_numpy()
    tables = {}
    for at in np.unique(number).tolist():
        day = date.fromordinal(date(1970, 1, 1).toordinal() + at)
        parts = (replace(file, part=", ".join(filter(None, (file.part, f"day={day}")))) for file in whole.sources)
        mine = np.where(number == at, row, -1)
        facts: dict[str, Any] = {"sources": tuple(parts), "event_weights": whole.event_weights}
        tables[day] = ClickTable.from_cells(cells, whole.candidates, mine, **facts)
    return tables


# -- positions that count from somewhere else --------------------------------------------------------------------------


def _wrong_start(counted: _Counted, log: Log, first_position: int | None) -> WrongStart | None:
    """Whether the top position does not seem to be what the caller says."""
    at_0, at_1, at_2 = counted.top
    what = "clicks" if log.by_clicks else "rows"
    if first_position is None and _counts_from_0(counted, log):
        return WrongStart(
            f"the log, or a part of it, counts positions from 0: {at_0:,} {what} are at position 0, {at_1:,} at "
            "position 1",
            "Set `first_position=0`; if it does count from 1, set those at 0 aside with `first_position=1`.",
        )
    if first_position == 0 and at_1 < _STRAY * at_2 and (not log.by_clicks or at_2 >= _FEW_CLICKS):
        return WrongStart(
            f"the log does not count positions from 0: {at_1:,} {what} are at position 0, {at_2:,} at position 1",
            "Leave out `first_position=0`; if the top result was never logged, add 1 to the positions.",
        )
    return None


def _counts_from_0(counted: _Counted, log: Log) -> bool:
    """Whether some pages begin at 0: more than mistakes in single rows explain, however small a part of the log."""
    at_0, at_1, _ = counted.top
    if log.by_clicks:
        return at_0 > _STRAY * at_1
    most, share = _STRAY_PAGES
    return counted.from_0 >= most or counted.from_0 > share * max(at_0, at_1) or at_0 > at_1


# -- rejects -----------------------------------------------------------------------------------------------------------


def _reject_table(rejects: Sequence[pa.Table], cells: pa.Table, row: IntArray) -> pa.Table:
    """Rows set aside, with the cells of candidates that the dataset does not have, where `row` is below 0."""
    unknown = cells.filter(pa.array(row < 0))
    reasons = np.where(row[row < 0] == UNKNOWN_QUERY, "unknown query", "unknown document")
    columns = {
        "reason": pa.array(reasons.astype(object), pa.string()),
        "session_id": pa.nulls(len(unknown), pa.string()),
        **{name: unknown[name] for name in ("query_id", "doc_id", "position", "clicks")},
        "rows": unknown["impressions"],
    }
    return pa.concat_tables([part.cast(_REJECTS) for part in (*rejects, pa.table(columns))])


def _by_reason(rejects: pa.Table) -> dict[str, int]:
    counts = rejects.group_by("reason").aggregate([("rows", "sum")])
    numbers = dict(zip(counts["reason"].to_pylist(), counts["rows_sum"].to_pylist(), strict=True))
    return {reason: numbers[reason] for reason in REASONS if reason in numbers}
