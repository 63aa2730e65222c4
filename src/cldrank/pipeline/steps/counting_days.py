"""Where only the last days count: new log files are counted into a folder of days, as `--add-to` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.decoding import canonical, hashed
from cldrank.files import save_json
from cldrank.pipeline.definition import PipelineDefinition, deciding
from cldrank.pipeline.records import StepRecord
from cldrank.pipeline.step import Step, StepOutcome, Workbench
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.days import DayFolder


class DaysStep(Step):
    """Count new log files, day by day; a file that was counted before costs nothing."""

    name = "days"
    sentence = "counts new log files into a folder of days"
    packages = ("numpy", "duckdb", "pyarrow")

    def is_needed(self, pipeline: PipelineDefinition) -> bool:
        """Whether there is a window."""
        return bool(pipeline.window.last)

    def settings(self, bench: Workbench) -> dict[str, Any]:
        """How the log is read."""
        return deciding(bench.counting())

    def reads(self, bench: Workbench) -> dict[str, str]:
        """The log."""
        return {"log": bench.log_hash()}

    def run(self, bench: Workbench, folder: Path) -> StepOutcome:
        """Bring the folder of days up to date; `days.json` says what was counted."""
        from cldrank.pipeline.day_files import FollowedLog

        days = day_folder(bench)
        bench.say("counting new files by day")
        log = FollowedLog(days, bench.log_paths(), bench.log_files(), bench.counting())
        written, there = log.count(bench.say), sorted(map(str, days.files()))
        facts: dict[str, Any] = {
            "rows": log.rows,
            "set_aside": log.set_aside,
            "counted_before": log.counted_before,
            "written": [str(day) for day in written],
            "days": there,
        }
        save_json(folder / "days.json", facts)
        files = count(log.counted_before, "file")
        words = f"{count(len(written), 'day')} written, {files} counted before; {count(len(there), 'day')} there"
        return StepOutcome(words, count(len(there), "day"), facts)

    def is_in_place(self, bench: Workbench, record: StepRecord) -> bool:
        """Whether the days are still there."""
        return set(record.facts["days"]) <= set(map(str, day_folder(bench).files()))


def day_folder(bench: Workbench) -> DayFolder:
    """The folder of days; another log has another folder, and so has another way to read it."""
    from cldrank.clicks.days import DayFolder

    log = bench.pipeline.log.get_params()
    return DayFolder(bench.store.parent / "days" / hashed(canonical([log, deciding(bench.counting())])))
