"""The audit of a click log: before training, what it can and cannot support."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
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
from cldrank.clicks.days import DayFolder, refuse_window
from cldrank.clicks.log.engines import connected, engine_of, querying
from cldrank.clicks.log.layout import LogLayout, refuse_for_cells
from cldrank.clicks.log.paths import Paths, existing, log_files
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import clicked_more_than
from cldrank.data.dataset import RankingDataset
from cldrank.wording import some

__all__ = ["Audit", "Facts", "Finding", "PropensityWay", "Severity", "Verdict", "audit", "audit_table"]


def audit(
    paths: Paths,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    layout: LogLayout | None = None,
    last: str | None = None,
    until: date | str | None = None,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    **reading: Any,
) -> Audit:
    r"""Find out what a log of impressions (files or a frame), cells, or a folder of days can and cannot support.

    With a dataset, also how many of its candidates were never shown. The other arguments are those of
    `cldrank.clicks.aggregate.aggregate`; a log is not refused for too many bad rows. `last` and `until` are the window
    of a folder of days, as for `ClickTable.read`.

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
    layout = LogLayout.of(layout, reading)
    files = existing(paths)
    source = some((file.name for file in files), most=3)
    days = len(files) == 1 and DayFolder.is_one(files[0])
    if not days:
        refuse_window(source, last, until)
    if days or all(is_cells(file) for file in files):
        refuse_for_cells(source, layout != LogLayout())
        cells = DayFolder(files[0]).read(dataset, last=last, until=until) if days else load_cells(files, dataset)
        return audit_table(cells, knows_candidates=dataset is not None, source=source)
    with connected(engine_of(files, engine), memory_limit=memory_limit, threads=threads, master=master) as opened:
        log_files(files)  # refuses files that are named twice
        found = aggregate_any(files, dataset, opened, layout)
        shown = int(found.clicks.impressions.sum())
        rate = int(found.clicks.clicks.sum()) / shown if shown else 0.0
        with querying(files):
            opened_log = open_views(files, opened, layout)
            times = opened_log.clock.found() if opened_log.clock else None
            log, by_query = describe_log(opened_log, rate, times)
        pages = pages_of(found.clicks.candidates, by_query)
    facts = (*found.account.found, *(times.sentences if times else ()))
    account = replace(found.account, found=tuple(dict.fromkeys(facts)))
    return _judged(found.clicks, dataset is not None, source, account, log, pages)


def audit_table(table: ClickTable, *, knows_candidates: bool = True, source: str = "cells") -> Audit:
    """The audit of cells alone; what only a log can say stays unknown.

    knows_candidates   whether the table is aligned to a dataset, and so knows the candidates that were never shown
    source             what to call it

    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[4, 1, 0])
    >>> result = audit_table(clicks)
    >>> [(entry.position, entry.clicks) for entry in result.facts.curve]
    [(1, 4), (2, 1)]
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
