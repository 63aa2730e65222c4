"""The first gate: what the log can and cannot support, as `cldrank clicks audit` finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cldrank.decoding import plain
from cldrank.files import save_json, save_text
from cldrank.pipeline.definition import deciding, reading_of
from cldrank.pipeline.step import Step, StepOutcome, Workbench

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
        found = audit(bench.log_paths(), dataset, **self._reading(bench)).said("shell")
        save_json(folder / "audit.json", plain(found.as_dict()))
        save_text(folder / "audit.html", found.to_html())
        severity, facts = str(found.verdict.severity), found.facts
        findings = [
            f"{one.topic}: {one.found}" for one in found.verdict.findings if one.severity in ("warning", "blocking")
        ]
        known = {
            "severity": severity,
            "impressions": facts.impressions,
            "clicks": facts.clicks,
            "queries": facts.queries.searched,
            "depth": facts.depth,
            "findings": findings,
        }
        return StepOutcome(found.verdict.sentence, severity, known, self._stop(bench.pipeline.audit.stop_at, severity))

    @staticmethod
    def _stop(stop_at: str, severity: str) -> str:
        if stop_at == "never" or _FROM_MILD_TO_BAD.index(severity) < _FROM_MILD_TO_BAD.index(stop_at):
            return ""
        return severity

    @staticmethod
    def _reading(bench: Workbench) -> dict[str, Any]:
        from cldrank.clicks.audit import audit

        return reading_of(bench.pipeline, audit)
