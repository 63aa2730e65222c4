"""From the log to cells: `cldrank clicks aggregate`, or the window over a folder of days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.errors import UsageError, advising_columns
from cldrank.pipeline.definition import deciding
from cldrank.pipeline.step import Step, StepOutcome, Workbench, log_setting

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable


class AggregateStep(Step):
    """Count how often each candidate was shown at each position, and clicked."""

    name = "aggregate"
    sentence = "counts impressions and clicks of each candidate at each position"
    packages = ("numpy", "duckdb", "pyarrow")

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """The window, and how the log is read."""
        window = bench.pipeline.window
        return {"last": window.last, "depth": window.depth, **deciding(bench.counting())}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The log, or the days in the window, and the candidates."""
        source = {"days": self._days_hash(bench)} if bench.pipeline.window.last else {"log": bench.log_hash()}
        return {**source, "features": bench.features_hash()}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write `cells.parquet` and, of a log, `rejects.parquet`, the rows that were set aside."""
        dataset = bench.dataset
        bench.say("aggregating the log")
        rows: dict[str, Any] = {}
        window: list[str] = []
        if bench.pipeline.window.last:
            from cldrank.pipeline.steps.counting_days import day_folder

            days = day_folder(bench)
            table = days.read(dataset, last=bench.pipeline.window.last)
            window = [str(day) for day in days.window(bench.pipeline.window.last)]
        else:
            table, rows = self._counted(bench, folder)
        table = _cut(table, bench.pipeline.window.depth)
        table.save(folder / "cells.parquet")
        facts = {
            **rows,
            "cells": table.n_cells,
            "impressions": int(table.impressions.sum()),
            "clicks": int(table.clicks.sum()),
            "queries": int((table.query_impressions > 0).sum()),
            "candidates_shown": int(table.shown.sum()),
            "candidates": table.candidates.n_rows,
            "depth": table.depth,
            "days": window,
        }
        aside = f"; {rows['set_aside']:,} of {rows['rows']:,} rows set aside" if rows else ""
        words = f"{facts['cells']:,} cells, {facts['impressions']:,} impressions, {facts['clicks']:,} clicks{aside}"
        return StepOutcome(words, f"{facts['impressions']:,} impressions", facts)

    def _counted(self, bench: Workbench, folder: Path) -> tuple[ClickTable, dict[str, Any]]:
        import pyarrow.parquet as pq

        from cldrank.clicks.aggregate import aggregate

        with advising_columns(log_setting):
            found = aggregate(bench.log_paths(), bench.dataset, **bench.counting())
        pq.write_table(found.rejects, folder / "rejects.parquet")
        account = found.account
        facts = {"rows": account.rows, "set_aside": account.n_rejected, "reasons": dict(account.rejected)}
        return found.clicks, facts

    @staticmethod
    def _days_hash(bench: Workbench) -> str:
        from cldrank.pipeline.steps.counting_days import day_folder

        days = day_folder(bench)
        window = set(days.window(bench.pipeline.window.last))
        files = [str(file) for day, file in days.files().items() if day in window]
        return bench.input_hash("days", files)


def _cut(table: ClickTable, depth: int | None) -> ClickTable:
    if depth is None or depth == table.depth:
        return table
    if depth > table.depth:
        raise UsageError(f"window.depth = {depth} is deeper than the log, which reaches down to {table.depth}.")
    return table.first(depth)
