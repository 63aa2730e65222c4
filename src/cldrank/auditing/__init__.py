"""The audit of a click log: before training, what it can and cannot support."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from cldrank._typing import Floats
from cldrank.arguments import check_number
from cldrank.auditing.facts import (
    Audit,
    AuditFacts,
    Finding,
    LogFacts,
    Verdict,
    by_position,
    describe_log,
    describe_queries,
)
from cldrank.auditing.findings import judge
from cldrank.auditing.planning import VerdictPlan, plan_verdict
from cldrank.clicks.aggregate import Account, aggregate_any, log_source
from cldrank.clicks.cells_file import is_cells, load_cells
from cldrank.clicks.days import DayFolder, refuse_window
from cldrank.clicks.log.layout import LogLayout, refuse_for_cells
from cldrank.clicks.log.plain_log import querying
from cldrank.clicks.table import ClickTable
from cldrank.data.checks import n_incomplete
from cldrank.data.dataset import RankingDataset
from cldrank.propensity.behaviour import behaviour
from cldrank.propensity.choosing import all_requirements
from cldrank.propensity.identifiability import display_order, overlap
from cldrank.propensity.randomised import probability_in
from cldrank.tables import Engine, connect, is_frame, named_paths
from cldrank.tables.frames import frame_name
from cldrank.wording import some

__all__ = ["Audit", "AuditFacts", "Finding", "Verdict", "VerdictPlan", "audit", "audit_table"]


def audit(
    paths: Any,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Engine = "duckdb",
    layout: LogLayout | None = None,
    last: str | None = None,
    until: date | str | None = None,
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    plan: float | None = None,
    **reading: Any,
) -> Audit:
    r"""Find out what a log of impressions (files or a frame), cells, or a folder of days can and cannot support.

    With a dataset, also how many of its candidates were never shown; with a plan, such as 0.05, also how many held-out
    queries a verdict needs to tell a difference of 5% of production's DCG. The other arguments are those of
    `cldrank.clicks.aggregate.aggregate` and, for a folder of days, of `ClickTable.read`.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     rows = [f"{s},shoes,{d},{1 + (d + s) % 2},{int(d == s % 2)}" for s in range(200) for d in range(2)]
    ...     _ = path.write_text("session_id,query_id,doc_id,position,clicked\n" + "\n".join(rows))
    ...     result = audit(path)
    >>> [(entry.position, entry.clicks) for entry in result.facts.by_position]
    [(1, 200), (2, 0)]
    >>> result.verdict.severity
    'warning'
    """
    layout = LogLayout.of(layout, reading)
    if plan is not None:
        check_number("plan", plan, above=0, below=1)
    named = [paths] if is_frame(paths) else named_paths(paths)
    source = frame_name(paths) if is_frame(paths) else some((path.name for path in named), most=3)
    days = len(named) == 1 and DayFolder.is_one(named[0])
    if not days:
        refuse_window(source, last, until)
    if days or all(is_cells(path) for path in named):
        refuse_for_cells(source, layout != LogLayout())
        cells = DayFolder(named[0]).read(dataset, last=last, until=until) if days else load_cells(paths, dataset)
        return _judged(cells, dataset, source, dataset is not None, plan=plan)
    files, _ = log_source(paths)
    limits: dict[str, Any] = {"memory_limit": memory_limit, "threads": threads, "master": master}
    with connect(engine, source=files, **limits) as opened:
        log, counted = aggregate_any(files, dataset, opened, layout)
        with querying(opened, log.table.where):
            times = log.times()
            facts = describe_log(log, counted.clicks)
            probability = probability_in(log.table, counted.clicks) if log.has("propensity") else None
    account = replace(counted.account, found=times.found, unread_times=times.unread)
    return _judged(counted.clicks, dataset, source, dataset is not None, account, facts, probability, plan)


def audit_table(
    table: ClickTable, dataset: RankingDataset | None = None, *, source: str = "cells", plan: float | None = None
) -> Audit:
    """The audit of cells that know all candidates; what only a log can say stays unknown.

    dataset   the candidates with their features, for estimators that need these
    source    what to call it
    plan      as for `cldrank.audit`

    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[9, 9, 0], clicks=[4, 1, 0])
    >>> [(entry.position, entry.clicks) for entry in audit_table(clicks).facts.by_position]
    [(1, 4), (2, 1)]
    """
    return _judged(table, dataset, source, True, plan=plan)


def _judged(
    table: ClickTable,
    dataset: RankingDataset | None,
    source: str,
    knows_candidates: bool,
    account: Account | None = None,
    log: LogFacts | None = None,
    probability: Floats | None = None,
    plan: float | None = None,
) -> Audit:
    requirements = all_requirements(table, dataset, probability) if table.n_cells else ()
    missing = n_incomplete(dataset.features) if dataset is not None and dataset.has_missing else 0
    facts = AuditFacts(
        source=source,
        account=account,
        by_position=by_position(table),
        queries=describe_queries(table, knows_candidates),
        overlap=overlap(table),
        order=display_order(table),
        requirements=requirements,
        behaviour=behaviour(table),
        log=log,
        plan=None if plan is None else plan_verdict(table, requirements, plan),
        incomplete=None if dataset is None else (missing, dataset.n_features),
        events={name: int(counts.sum()) for name, counts in table.events.items()},
    )
    return Audit(facts, judge(facts))
