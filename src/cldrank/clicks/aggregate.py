"""From an impression log to cells: every row is counted once, or set aside with the reason."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates
from cldrank.clicks.counting import count
from cldrank.clicks.engines import connected, reading
from cldrank.clicks.log import ODD_POSITION, Paths, existing, only_query, open_log
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, UsageError

REASONS = {
    "null key": "session, query, document or position is missing",
    "no number": "position or clicks is not a whole number, or a senseless one",
    "position below 1": "shown at a position before the first (if the log counts from 0: first_position=0)",
    "click never shown": "clicked, but shown at no position",
    "repeated row": "the same document at the same position of the same page again",
    "document twice": "the same document further down on the same page",
    "unknown query": "no such query in the dataset",
    "unknown document": "no such candidate of the query in the dataset",
}
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
    r"""Aggregate a log to cells, aligned to a dataset if one is given.

    engine         "duckdb", "spark", or an Ibis connection
    columns, first_position, one_query    how to read the log (see `cldrank.clicks.log.open_log`)
    every_click    count several clicks on one result in one session each, instead of once
    max_rejected   the share of rows that may be set aside; above it, TooManyRejectsError
    memory_limit, threads, master         of the engine (see `cldrank.clicks.engines.connected`)

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
    >>> print(result.report)
    5 rows read, 1 set aside (20.000%)
                 1  repeated row: the same document at the same position of the same page again
    """
    if not 0 <= max_rejected <= 1:
        raise UsageError(f"max_rejected is a share between 0 and 1, not {max_rejected}.")
    start = time.perf_counter()
    query = one_query if dataset is None or not one_query else only_query(dataset.query_ids)
    with connected(engine, memory_limit=memory_limit, threads=threads, master=master) as opened:
        log = open_log(paths, opened, columns=columns, first_position=first_position, one_query=query)
        # the stack holds tables that the engine keeps until the work is done
        with reading(existing(paths)), ExitStack() as held:
            cells, rows, rejects = count(log, opened, every_click, held)
    if not rows:
        raise DataError(f"{', '.join(map(str, existing(paths)))}: the log is empty, it has no rows.")
    clicks, unknown = _aligned(cells, dataset, every_click)
    rejects = _reject_table([*rejects, unknown])
    report = Report(rows, _by_reason(rejects), time.perf_counter() - start)
    if report.share_rejected > max_rejected:
        raise TooManyRejectsError(report, rejects, max_rejected)
    return Aggregation(clicks, report, rejects)


# -- in memory ---------------------------------------------------------------------------------------------------


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
        position = _REJECTS.names.index("position")
        columns[position] = pc.if_else(
            pc.equal(columns[position], ODD_POSITION), pa.scalar(None, pa.int64()), columns[position]
        )
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
