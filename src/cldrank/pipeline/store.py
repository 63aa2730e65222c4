"""`StepStore`: the results of steps, each in a folder named by the hash of all that decides it.

A folder appears whole, with its record, or not at all; so whatever is there is finished, however a run ended.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cldrank.errors import CldrankWarning, hearing_warnings
from cldrank.files import make_folder, recover_folder, replacing_folder, save_json, sweep
from cldrank.pipeline.fingerprints import Fingerprints
from cldrank.pipeline.records import RECORD, StepRecord
from cldrank.pipeline.step import Step, Workbench


@dataclass(frozen=True)
class StepStore:
    """A folder of results."""

    folder: Path
    fingerprints: Fingerprints

    def find(self, name: str, key: str) -> StepRecord | None:
        """What a step left, if all of it is there as it was written."""
        folder = self.folder / f"{name}-{key}"
        recover_folder(folder)
        try:
            record = StepRecord.from_json(json.loads((folder / RECORD).read_text(encoding="utf-8")))
            sound = record.key == key and self._files(folder) == dict(record.wrote)
        except (OSError, ValueError, TypeError):
            return None
        return replace(record, state="reused") if sound else None

    def carry_out(self, step: Step, record: StepRecord, bench: Workbench) -> StepRecord:
        """Run a step, and keep its result; its warnings go into the record."""
        make_folder(self.folder)
        start = time.perf_counter()
        folder = self.folder / record.folder
        with replacing_folder(folder) as temporary:
            with hearing_warnings() as heard, warnings.catch_warnings():
                warnings.simplefilter("ignore", CldrankWarning)  # they are in the record, which whoever runs shows
                outcome = step.run(bench, temporary)
            bench.check_inputs(record.read)
            found = replace(
                record,
                state="done",
                decided=outcome.decided,
                brief=outcome.brief,
                facts=json.loads(json.dumps(dict(outcome.facts), allow_nan=False)),
                stop=outcome.stop,
                warnings=list(dict.fromkeys(str(one) for one in heard)),
                wrote=self._files(temporary),
                seconds=round(time.perf_counter() - start, 3),
            )
            save_json(temporary / RECORD, asdict(found))
        return found

    def forget_others(self, kept: Collection[str]) -> None:
        """Remove all results but those named, and what killed processes left."""
        sweep(self.folder)
        for folder in self.folder.iterdir() if self.folder.is_dir() else ():
            if folder.name not in kept and (folder / RECORD).is_file():
                shutil.rmtree(folder, ignore_errors=True)

    def _files(self, folder: Path) -> dict[str, str]:
        """The hash of every file but the record."""
        files = sorted(file for file in folder.rglob("*") if file.is_file() and file != folder / RECORD)
        return {file.relative_to(folder).as_posix(): self.fingerprints.of(file) for file in files}
