"""Counting a plain log: the cells of the rows that are kept, and the rows set aside.

All rows are grouped into cells once. Rows are wrong if their document repeats on its page (the rows of one session and
query), which few pages do: only the rows of those pages are judged one by one, and the cells corrected by what is set
aside. Of a log with segments or days, cells and pages are those of each segment and day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cldrank.clicks.cells_file import added_cells
from cldrank.clicks.log.layout import KEYS, OPTIONAL, SEGMENT
from cldrank.clicks.log.plain_log import Log
from cldrank.errors import DataError
from cldrank.tables import Relation

MOST_SEGMENTS = 100
_REJECT = (  # ids as text: logs have them in any type
    f"SELECT reason, {', '.join(f'CAST({name} AS VARCHAR) AS {name}' for name in KEYS)}, "
    "CAST(position AS BIGINT) AS position, CAST(clicks AS BIGINT) AS clicks, CAST(1 AS BIGINT) AS rows"
)
_MANY_ROWS = 1_000_000  # fewer are grouped at once
_HASHES_AT_A_TIME = 100_000_000  # 800 MB
_BATCH = 1 << 17


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


def count_cells(log: Log, every_click: bool = False, by_day: bool = False) -> Counted:
    """Count the rows of a log.

    every_click   count each of several clicks on one result, instead of one
    by_day        count the days of the timestamp apart
    """
    table = log.table
    clicks = "clicks" if every_click else "least(clicks, 1)"
    apart = [*([SEGMENT] if log.has(SEGMENT) else []), *(["day"] if by_day else [])]
    day = ", CAST(timestamp AS DATE) AS day" if by_day else ""
    rows = f"(SELECT * EXCLUDE (clicks), {clicks} AS clicks{day} FROM {table})"
    cell = ", ".join(["query_id", "doc_id", "position", *apart])
    grouped = log.engine.arrow(
        f"SELECT {cell}, count(*) AS logged, count(*) FILTER (WHERE reason IS NULL) AS impressions, "
        f"CAST(coalesce(sum(clicks) FILTER (WHERE reason IS NULL), 0) AS BIGINT) AS clicks FROM {rows} GROUP BY {cell}"
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
    cells = grouped.drop_columns("logged").filter(pc.greater(grouped["impressions"], 0))
    kept_rows = f"(SELECT * FROM {rows} WHERE reason IS NULL)"
    repeated = _repeated_documents(log, kept_rows, cells, apart)
    if repeated is not None:
        judged = _judged_pages(log, kept_rows, repeated, apart, every_click)
        rejects.append(log.engine.arrow(f"{_REJECT} FROM {judged} WHERE reason IS NOT NULL"))
        corrections = log.engine.arrow(
            f"SELECT {cell}, -count(*) FILTER (WHERE reason IS NOT NULL) AS impressions, CAST(sum(CASE WHEN reason IS "
            f"NULL THEN counted ELSE 0 END - clicks) AS BIGINT) AS clicks FROM {judged} GROUP BY {cell}"
        )
        cells = added_cells([cells, corrections.cast(cells.schema)])
        cells = cells.filter(pc.greater(cells["impressions"], 0))
    from_0 = 0
    if _at(grouped, 0, "logged"):
        both = f"SELECT 1 FROM {table} WHERE position IN (0, 1) GROUP BY session_id, query_id"
        from_0 = log.engine.row(f"SELECT count(*) AS n FROM ({both} HAVING count(DISTINCT position) = 2)")["n"]
    return Counted(cells, total, rejects, (top[0], top[1], top[2]), int(from_0))


# -- rows that repeat others -------------------------------------------------------------------------------------------


def _judged_pages(log: Log, rows: str, repeated: Relation, apart: list[str], every_click: bool) -> Relation:
    """The rows of pages that repeat a document, with the reason to set one aside; `counted` is what its clicks count.

    Of rows with the same document at the same position, the first clicked one is kept: `repeated row` (a copy in every
    column) and `second view` (at another time, or with other clicks) are the others. Of a document at two positions,
    the upper one is kept: `document twice`. Without times, a page with any such row counts as viewed twice.
    """
    page, document = ["session_id", "query_id", *apart], [*KEYS, *apart]
    optional = [name for name in OPTIONAL if log.has(name)]
    here = f"PARTITION BY {', '.join([*document, 'position'])}"
    ordered = f"({here} ORDER BY {', '.join(['clicks DESC', *optional])})"
    timed = log.has("timestamp")
    uppermost = f"min(position) OVER (PARTITION BY {', '.join([*document, 'timestamp'])})" if timed else "position - 1"
    other_view = "is_other" if timed else f"max(is_other) OVER (PARTITION BY {', '.join(page)})"
    counted = "CASE WHEN is_copy = 1 THEN 0 ELSE clicks END" if timed else "clicks"
    return log.engine.hold(f"""
        WITH numbered AS (
            SELECT *, row_number() OVER {ordered} AS number,
                rank() OVER {ordered} AS place,
                min(position) OVER (PARTITION BY {", ".join(document)}) AS top, {uppermost} AS uppermost
            FROM {rows} SEMI JOIN {repeated} USING ({", ".join(page)})
        ),
        compared AS (
            SELECT *, CASE WHEN number > place THEN 1 ELSE 0 END AS is_copy,
                CASE WHEN number > 1 AND number = place THEN 1 ELSE 0 END AS is_other
            FROM numbered
        ),
        viewed AS (SELECT *, {other_view} AS other_view, {counted} AS own FROM compared)
        SELECT {", ".join([*document, "position", "clicks"])}, CASE
                WHEN position > top AND position > uppermost THEN 'document twice'
                WHEN position > top THEN 'second view'
                WHEN number > 1 AND other_view = 1 THEN 'second view'
                WHEN number > 1 THEN 'repeated row' END AS reason,
            {f"sum(own) OVER ({here})" if every_click else "own"} AS counted
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
    grows = "bool_and(coalesce(s IS NULL OR session_id > s OR (session_id = s AND position > p), FALSE)) AS grows"
    for part in (f"(SELECT * FROM {rows} LIMIT {_BATCH})", rows):  # most logs that are not sorted show it at once
        if not log.engine.row(f"SELECT {grows} FROM ({steps} {part})")["grows"]:
            return False
    return True


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
