"""The audit of a click log: before training, what it can and cannot support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cldrank._typing import IntArray
from cldrank.clicks.aggregate import Account, aggregate_any, open_views
from cldrank.clicks.audit.facts import Audit, Facts
from cldrank.clicks.audit.log_facts import LogFacts, describe_log, pages_of
from cldrank.clicks.audit.overlap import display_order, overlap, precision
from cldrank.clicks.audit.positions import curve, describe_queries
from cldrank.clicks.audit.rules import judge
from cldrank.clicks.audit.verdict import Finding, Severity, Verdict
from cldrank.clicks.audit.ways import PropensityWay, ways
from cldrank.clicks.cell_file import is_cells, load_cells
from cldrank.clicks.log.engines import connected, engine_of, querying
from cldrank.clicks.log.paths import LogSource, Paths, existing, log_files
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import clicked_more_than
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.wording import some

__all__ = ["Audit", "Facts", "Finding", "PropensityWay", "Severity", "Verdict", "audit", "audit_table"]


def audit(
    paths: Paths,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    columns: Mapping[str, str] | None = None,
    first_position: int | None = None,
    one_query: bool = False,
    by_time: bool = False,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
) -> Audit:
    r"""Find out what a log of impressions (files or a frame), or a file of cells, can and cannot support.

    With a dataset, also how many of its candidates were never shown. The other arguments are those of
    `cldrank.clicks.aggregate.aggregate`; a log is not refused for too many bad rows.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     rows = [f"{s},shoes,{d},{1 + (d + s) % 2},{int(d == s % 2)}" for s in range(200) for d in range(2)]
    ...     _ = path.write_text("session_id,query_id,doc_id,position,clicked\n" + "\n".join(rows))
    ...     result = audit(path)
    >>> [(entry.position, entry.clicks) for entry in result.facts.curve]
    [(1, 200), (2, 0)]
    >>> result.verdict.severity == Severity.warning
    True
    """
    files = existing(paths)
    source = some((file.name for file in files), most=3)
    if all(is_cells(file) for file in files):
        if columns or one_query or by_time or first_position is not None:
            raise UsageError(f"{source} holds cells already; columns and options are for raw logs.")
        return audit_table(_merged(files, dataset), knows_candidates=dataset is not None, source=source)
    with connected(engine_of(files, engine), memory_limit=memory_limit, threads=threads, master=master) as opened:
        log_files(files)  # refuses files that are named twice
        options: dict[str, Any] = {"columns": columns, "first_position": first_position, "one_query": one_query}
        options["by_time"] = by_time
        found = aggregate_any(files, dataset, opened, **options)
        shown = int(found.clicks.impressions.sum())
        rate = int(found.clicks.clicks.sum()) / shown if shown else 0.0
        with querying(files):
            log, by_query = describe_log(open_views(files, opened, **options), rate)
        pages = pages_of(found.clicks.candidates, by_query)
    return _judged(found.clicks, dataset is not None, source, found.account, log, pages)


def audit_table(table: ClickTable, *, knows_candidates: bool = True, source: str = "cells") -> Audit:
    """The audit of cells alone; what only a log can say stays unknown.

    knows_candidates   whether the table is aligned to a dataset, and so knows the candidates that were never shown
    source             what to call it
    """
    return _judged(table, knows_candidates, source)


def _judged(
    table: ClickTable,
    knows_candidates: bool,
    source: str,
    rejects: Account | None = None,
    log: LogFacts | None = None,
    pages: IntArray | None = None,
) -> Audit:
    by_position = curve(table)
    common, order = overlap(table), display_order(table)
    errors = precision(table, by_position)
    clicked = (
        None if table.every_click else clicked_more_than(table.position - 1, table.clicks, table.depth, 0).tolist()
    )
    facts = Facts(
        source=source,
        rejects=rejects,
        curve=by_position,
        queries=describe_queries(table, knows_candidates, pages),
        overlap=common,
        order=order,
        precision=errors,
        ways=ways(by_position, order, common, errors, clicked, bool((table.clicks > table.impressions).any())),
        log=log,
    )
    return Audit(facts, judge(facts))


def _merged(files: list[LogSource], dataset: RankingDataset | None) -> ClickTable:
    """The cells of all files together."""
    first, *others = (load_cells(file, dataset) for file in files)
    for other in others:
        first = first.merge(other)
    return first
