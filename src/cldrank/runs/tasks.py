"""`Task`: work whose result is decided by its inputs and parameters; `Store`: keeps each result under their hash.

    tasks/train-5d0f…/record.json   what decided the result, and what came of the work
    tasks/train-5d0f…/ranker/ …     the files that the work left

A folder of the store appears whole or not at all, so whatever is there is finished, however a run ended.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cldrank.errors import CldrankWarning, hearing_warnings
from cldrank.files import make_folder, recover_folder, replacing_folder, save_json, sweep
from cldrank.fingerprints import content_hash, file_fingerprint, version_of

_RECORD = "record.json"
_KEY_LENGTH = 20  # hexadecimal digits: enough for any number of results
State = Literal["not run", "running", "done", "reused", "failed"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task, whose files lie in the folder that it was given.

    decided   in a sentence
    facts     numbers and words by name, as JSON holds them
    stop      why the run must stop here, in a word or two; else empty
    error     why there is no result, if that is recorded rather than raised
    """

    decided: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    stop: str = ""
    error: str = ""


@dataclass(frozen=True)
class Task:
    """Work that is done once for the same inputs, parameters and versions.

    inputs       the content hash of everything that is read, by name
    parameters   all else that decides the result, as JSON holds it
    function     does the work: it leaves files in an empty folder, and says what came of it
    packages     those that compute the result, whose versions decide it too
    """

    name: str
    inputs: Mapping[str, str]
    parameters: Mapping[str, Any]
    function: Callable[[Path], Outcome]
    packages: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The hash of all that decides the result."""
        made_with = {package: version_of(package) for package in ("cldrank", *self.packages)}
        decides = {"parameters": self.parameters, "inputs": self.inputs, "made with": made_with}
        return content_hash({"task": self.name, **decides})[:_KEY_LENGTH]

    @property
    def folder(self) -> str:
        """The name of the folder that holds its result."""
        return f"{self.name}-{self.key}"


@dataclass(frozen=True)
class TaskRecord:
    """What a task read, decided and wrote.

    key          the hash of all that decides its result: `parameters`, and `inputs`, the hashes of what it reads
    decided …    see `Outcome`
    wrote        the hash of each file, by its path in the folder of the task
    seconds      that it took when it ran
    finished     when that was, in UTC

    >>> TaskRecord("audit", state="done", stop="blocking").stop
    'blocking'
    """

    name: str
    state: State = "not run"
    key: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    decided: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    stop: str = ""
    error: str = ""
    warnings: Sequence[str] = ()
    wrote: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    finished: str = ""

    @property
    def folder(self) -> str:
        """The name of the folder that holds its result."""
        return f"{self.name}-{self.key}"

    def hash_of(self, name: str) -> str:
        """The hash of a file that it wrote; of a folder, that of all files in it."""
        inside = {file: key for file, key in self.wrote.items() if file.startswith(f"{name}/")}
        return self.wrote[name] if name in self.wrote else content_hash(inside)


@dataclass(frozen=True)
class Store:
    """A folder of results."""

    folder: Path

    def find(self, name: str, key: str) -> TaskRecord | None:
        """The record of a result, if all of it is there as it was written."""
        folder = self.folder / f"{name}-{key}"
        recover_folder(folder)
        try:
            record = TaskRecord(**json.loads((folder / _RECORD).read_text(encoding="utf-8")))
            is_sound = record.key == key and _hashes(folder) == dict(record.wrote)
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return replace(record, state="reused" if record.state == "done" else record.state) if is_sound else None

    def carry_out(self, task: Task, check: Callable[[], None] = lambda: None) -> TaskRecord:
        """Do the work of a task, and keep its result; its warnings go into the record.

        check   called when the work is done; if it raises, the result is discarded
        """
        make_folder(self.folder)
        start = time.perf_counter()
        with replacing_folder(self.folder / task.folder) as temporary:
            with hearing_warnings() as heard, warnings.catch_warnings():
                warnings.simplefilter("ignore", CldrankWarning)  # they are in the record, which whoever runs shows
                outcome = task.function(temporary)
            check()
            record = TaskRecord(
                task.name,
                state="failed" if outcome.error else "done",
                key=task.key,
                parameters=dict(task.parameters),
                inputs=dict(task.inputs),
                decided=outcome.decided,
                facts=json.loads(json.dumps(dict(outcome.facts), allow_nan=False)),
                stop=outcome.stop,
                error=outcome.error,
                warnings=list(dict.fromkeys(map(str, heard))),
                wrote=_hashes(temporary),
                seconds=round(time.perf_counter() - start, 3),
                finished=datetime.now(UTC).isoformat(timespec="microseconds"),
            )
            save_json(temporary / _RECORD, asdict(record))
        return record

    def forget_others(self, kept: Collection[str]) -> None:
        """Remove all results but those in the folders named, and what killed processes left."""
        sweep(self.folder)
        for folder in self.folder.iterdir() if self.folder.is_dir() else ():
            if folder.name not in kept and (folder / _RECORD).is_file():
                shutil.rmtree(folder, ignore_errors=True)


def _hashes(folder: Path) -> dict[str, str]:
    """The hash of every file but the record."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file != folder / _RECORD)
    return {file.relative_to(folder).as_posix(): file_fingerprint(file) for file in files}
