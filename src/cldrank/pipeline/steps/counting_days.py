"""Where only the last days count: new log files are counted into a folder of days, as `--add-to` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.decoding import canonical, hashed
from cldrank.files import save_json
from cldrank.pipeline.definition import PipelineDefinition, deciding, reading_of
from cldrank.pipeline.records import StepRecord
from cldrank.pipeline.step import Step, StepOutcome, Workbench
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.days import DayFolder


class DaysStep(Step):
    """Count new log files, day by day; a file that was counted before costs nothing."""

    name = "days"
    sentence = "counts new log files into a folder of days"

    def is_needed(self, pipeline: PipelineDefinition) -> bool:
        """Whether there is a window."""
        return bool(pipeline.window.last)

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """How the log is read."""
        return deciding(_reading(bench))

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The log."""
        return {"log": bench.log_hash()}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Bring the folder of days up to date; `days.json` says what was counted."""
        from cldrank.clicks.log.paths import ChangedFileError

        days, paths = day_folder(bench), bench.log_paths()
        bench.say("counting new files by day")
        try:
            added = days.add(paths, **_reading(bench))
        except ChangedFileError:  # such as the log of today, which has grown since
            bench.say("a file has changed: rebuilding its days")
            added = days.add(paths, replace=True, **_reading(bench))
        account = added.counted.account
        there = sorted(map(str, days.files()))
        facts: dict[str, Any] = {
            "rows": account.rows,
            "set_aside": account.n_rejected,
            "counted_before": len(added.counted.left_out),
            "written": sorted(map(str, added.written)),
            "days": there,
        }
        save_json(folder / "days.json", facts)
        files = count(len(added.counted.left_out), "file")
        words = f"{count(len(added.written), 'day')} written, {files} counted before; {len(there)} days there"
        return StepOutcome(words, f"{len(there)} days", facts)

    def is_in_place(self, bench: Workbench, record: StepRecord) -> bool:
        """Whether the days are still there."""
        return set(record.facts["days"]) <= set(map(str, day_folder(bench).files()))


def day_folder(bench: Workbench) -> DayFolder:
    """The folder of days; other ways to read a log have other folders."""
    from cldrank.clicks.days import DayFolder

    return DayFolder(bench.store.parent / "days" / hashed(canonical(deciding(_reading(bench)))))


def _reading(bench: Workbench) -> dict[str, Any]:
    from cldrank.clicks.aggregate import aggregate

    segment = bench.pipeline.propensities.segment
    return reading_of(bench.pipeline, aggregate) | ({"segment": segment} if segment else {})
