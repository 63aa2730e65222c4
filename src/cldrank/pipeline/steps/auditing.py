"""The first gate: what the log can and cannot support, as `cldrank clicks audit` finds it; and its window by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.decoding import plain
from cldrank.errors import advising_columns
from cldrank.files import save_json, save_text
from cldrank.pipeline.definition import PipelineDefinition, deciding, reading_of
from cldrank.pipeline.step import Step, StepOutcome, Workbench, log_setting
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.audit import Audit

_FROM_MILD_TO_BAD = ("ok", "note", "warning", "blocking")


class AuditStep(Step):
    """Audit the log; a verdict as bad as `stop_at` ends the run."""

    name = "audit"
    sentence = "finds out whether the log is fit to be learned from"
    gate = True
    packages = ("numpy", "duckdb", "pyarrow")

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """How the log is read, and what stops."""
        return {"stop_at": bench.pipeline.audit.stop_at, **deciding(self._reading(bench))}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The log and the candidates."""
        return {"log": bench.log_hash(), "features": bench.features_hash()}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write the audit as JSON and as a page."""
        from cldrank.clicks.audit import audit

        dataset = bench.dataset
        bench.say("auditing the log")
        with advising_columns(log_setting):
            found = audit(bench.log_paths(), dataset, **self._reading(bench))
        rows, files = 0 if found.facts.rejects is None else found.facts.rejects.rows, len(bench.log_files())
        seen = f"all of the log that is there, {count(rows, 'row')} in {count(files, 'file')}"
        return audited(bench, found, folder, {"seen": seen, "rows": rows, "files": files})

    @staticmethod
    def _reading(bench: Workbench) -> dict[str, Any]:
        from cldrank.clicks.audit import audit

        return reading_of(bench.pipeline, audit)


class WindowAuditStep(Step):
    """Audit the days that are learned from, which are not all that the log holds, or more than it still holds."""

    name = "window-audit"
    sentence = "finds out whether the days of the window are fit to be learned from"
    gate = True

    def is_needed(self, pipeline: PipelineDefinition) -> bool:
        """Whether there is a window."""
        return bool(pipeline.window.last)

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """What stops."""
        return {"stop_at": bench.pipeline.audit.stop_at}

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The cells and the candidates."""
        return {"cells": bench.result_hash("aggregate", "cells.parquet"), "features": bench.features_hash()}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Write the audit of the cells as JSON and as a page."""
        from cldrank.clicks.audit import audit_table

        bench.say("auditing the window")
        days = bench.results["aggregate"].facts["days"]
        seen = f"{count(len(days), 'day')} from {days[0]} to {days[-1]}"
        return audited(bench, audit_table(bench.clicks, source=seen), folder, {"seen": seen, "days": days})


def audited(bench: Workbench, found: Audit, folder: Path, seen: Mapping[str, Any]) -> StepOutcome:
    """What an audit leads to; its files are written.

    seen   what was audited, for the facts, and in words under that name
    """
    found = found.said("shell")
    save_json(folder / "audit.json", plain({**found.as_dict(), "seen": dict(seen)}))
    save_text(folder / "audit.html", found.to_html())
    severity, facts = str(found.verdict.severity), found.facts
    findings = [
        f"{one.topic}: {one.found}" for one in found.verdict.findings if one.severity in ("warning", "blocking")
    ]
    known = {
        **seen,
        "severity": severity,
        "impressions": facts.impressions,
        "clicks": facts.clicks,
        "queries": facts.queries.searched,
        "depth": facts.depth,
        "findings": findings,
    }
    words = found.verdict.sentence + (f" ({seen['seen']})" if bench.pipeline.window.last else "")
    return StepOutcome(words, severity, known, stopping(bench.pipeline.audit.stop_at, severity))


def stopping(stop_at: str, severity: str) -> str:
    """The severity, if it is as bad as what stops a run; otherwise nothing.

    >>> stopping("blocking", "warning"), stopping("warning", "blocking")
    ('', 'blocking')
    """
    if stop_at == "never" or _FROM_MILD_TO_BAD.index(severity) < _FROM_MILD_TO_BAD.index(stop_at):
        return ""
    return severity
