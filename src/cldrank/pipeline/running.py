"""`run_pipeline`: step after step, each only if what decides its result has changed.

    runs/2026-11-16T091203-482113/  a run: the pipeline as it was, its record, its page
    runs/steps/train-5d0f…/         the result of a step, which runs share

A killed run leaves the results of the steps that it finished; the next run goes on from there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from cldrank.errors import CldrankError, FormatError
from cldrank.files import holding, make_folder, replacing_folder, save_json, save_text, sweep
from cldrank.fingerprints import commit, versions
from cldrank.pipeline.pipeline_file import SECTIONS, PipelineDefinition
from cldrank.pipeline.shipped import check_place, is_shipped, ship, shipped_content
from cldrank.pipeline.steps import STEPS, UNFINISHED, Say, Workbench, steps_of
from cldrank.pipeline.toml_keys import as_keys, in_keys
from cldrank.reading import read_json
from cldrank.runs import TaskRecord

_RECORD = "record.json"
_FORMAT = "cldrank-pipeline-run"

Status = Literal["running", "shipped", "stopped", "failed", "interrupted"]
Report = Callable[[TaskRecord], None]


@dataclass(frozen=True)
class RunRecord:
    """The record of a run.

    name          of its folder
    started       in UTC
    status        how it ended; "running" until then, and after a kill until the next run begins
    reason        why it ended so, in a sentence
    stopped_by    the word of the gate that stopped it, such as "blocking" or "worse"
    inputs        the hash of every file that was read, by name, for each input
    versions      of Python and the packages
    shipped       the key of what is shipped at its end, whoever shipped it; empty where nothing is
    new           whether that differs from the last successful run
    """

    name: str
    pipeline: str
    started: str
    status: Status = "running"
    reason: str = ""
    stopped_by: str = ""
    seconds: float = 0.0
    seed: int = 0
    command: str = ""
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shipped: str = ""
    new: bool = False
    steps: tuple[TaskRecord, ...] = ()

    def with_step(self, step: TaskRecord) -> Self:
        """A copy with this step added, or replaced."""
        return replace(self, steps=tuple(step if known.name == step.name else known for known in self.steps))

    def step(self, name: str) -> TaskRecord | None:
        """The step with this name."""
        return next((step for step in self.steps if step.name == name), None)

    @property
    def states(self) -> dict[str, str]:
        """The state of each step; "stopped" for a step that gave a reason to stop, whether it ran or was reused."""
        return {step.name: "stopped" if step.stop else step.state for step in self.steps}

    @property
    def verdict(self) -> str:
        """What the verdict decided; empty where it was not asked."""
        verdict = self.step("verdict")
        return "" if verdict is None else str(verdict.facts.get("decision", ""))

    @property
    def changed(self) -> bool:
        """Whether any step had to run."""
        return any(step.state in ("running", "done", "failed") for step in self.steps)

    def save(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        save_json(folder / _RECORD, {"format": _FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The record of the run in a folder."""
        path = folder / _RECORD
        content: Any = read_json(path, "JSON")
        try:
            if content.pop("format") != _FORMAT:
                raise ValueError("another format")
            return cls(**{**content, "steps": tuple(TaskRecord(**step) for step in content["steps"])})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise FormatError("this is not the record of a pipeline's run.", path=path) from None


def run_pipeline(
    pipeline: PipelineDefinition, *, command: str = "", say: Say = lambda _: None, report: Report = lambda _: None
) -> RunRecord:
    """Run all steps, up to a gate that stops; unchanged steps reuse their results.

    command       the command that runs it, for the record
    say           told what is going on
    report        told of each step that is done

    The record says how it ended. An error is recorded, and raised.
    """
    check_place(pipeline)
    root = make_folder(pipeline.path(pipeline.runs.folder))
    with holding(root, wait=False) as held:
        if not held:
            raise CldrankError(f"{root} is in use: another run of this pipeline is going on; wait until it has ended.")
        sweep(root)
        for folder, record in runs_in(root):
            if record.status == "running":  # and nobody holds the lock
                sweep(folder)
                _ended(record, "interrupted", "the process was killed.").save(folder)
        return _RunningPipeline(Workbench(pipeline, root, say=say), report, command).run()


def runs_in(root: Path, pipeline: str | None = None) -> list[tuple[Path, RunRecord]]:
    """The runs in a folder, or those of a pipeline, the oldest first; unreadable records are left out."""
    runs = []
    for folder in root.iterdir() if root.is_dir() else ():
        with suppress(CldrankError):
            record = RunRecord.load(folder)
            is_wanted = pipeline is None or record.pipeline == pipeline
            runs += [(folder, record)] if is_wanted and record.name == folder.name else []  # else it is a copy
    return sorted(runs, key=lambda run: run[1].started)


def _ended(record: RunRecord, status: Status, reason: str) -> RunRecord:
    """The record of a run that is over; the step that was under way failed, or counts as not run."""
    state: Literal["failed", "not run"] = "failed" if status == "failed" else "not run"
    steps = tuple(replace(step, state=state) if step.state == "running" else step for step in record.steps)
    return replace(record, status=status, reason=reason, steps=steps)


class _RunningPipeline:
    """A run that is going on: its folder, its record, and the workbench of its steps."""

    def __init__(self, bench: Workbench, report: Report, command: str) -> None:
        now, pipeline = datetime.now(UTC), bench.pipeline
        self.bench, self.report, self.start = bench, report, time.perf_counter()
        self.record = RunRecord(
            name=f"{now:%Y-%m-%dT%H%M%S-%f}",
            pipeline=pipeline.source.name,
            started=now.isoformat(timespec="microseconds"),
            seed=pipeline.seed,
            command=command,
            commit=commit(),
            versions=versions(),
            steps=tuple(map(TaskRecord, steps_of(pipeline))),
        )
        self.folder = bench.root / self.record.name
        with replacing_folder(self.folder) as temporary:
            save_text(temporary / "pipeline.toml", pipeline.text)
            self.record.save(temporary)

    def run(self) -> RunRecord:
        """Run all steps, up to a gate that stops; whatever ends the run is in its record."""
        try:
            stopped = self._all_steps()
        except Exception as error:
            self._end("failed", str(error) if isinstance(error, CldrankError) else f"{type(error).__name__}: {error}")
            raise
        except BaseException:  # Ctrl-C, or the signal to end
            self._end("interrupted", "it was stopped; the next run goes on from here.")
            raise
        if stopped is None:
            self._end("shipped", "" if self.record.changed else "nothing has changed since an earlier run.")
        else:
            self.record = replace(self.record, stopped_by=stopped.stop)
            self._end("stopped", f"{stopped.name}: {stopped.decided}")
        self._tidy()
        return self.record

    def _all_steps(self) -> TaskRecord | None:
        """Run all steps; the record of the step that stopped the run, if any."""
        for name in steps_of(self.bench.pipeline):
            record = self._result(name)
            if record.stop:
                return record
        return None

    def _result(self, name: str) -> TaskRecord:
        """The result of a step: of an earlier run, if nothing that decides it has changed."""
        bench, section = self.bench, name if name in SECTIONS else "log"
        self._note(TaskRecord(name, "running"))
        try:
            with in_keys(bench.pipeline, section):
                task = STEPS[name](bench)
                self._note(TaskRecord(name, "running", task.key, dict(task.parameters), dict(task.inputs)))
                record = bench.store.find(name, task.key)
                if record is None or (name in ("export", "card") and not is_shipped(bench.pipeline, record)):
                    record = bench.store.carry_out(task, check=lambda: bench.check_inputs(task.inputs))
                    if name == "card":
                        ship(bench, record)
        except CldrankError as error:
            self._note(TaskRecord(name, "failed", decided=str(error)))
            raise
        record = replace(record, warnings=[as_keys(text, bench.pipeline, section) for text in record.warnings])
        bench.results[name] = record
        self._note(record)
        self.report(record)
        return record

    def _note(self, step: TaskRecord) -> None:
        self.record = replace(self.record.with_step(step), inputs=self.bench.inputs)
        self.record.save(self.folder)

    def _end(self, status: Status, reason: str) -> None:
        from cldrank.pipeline.run_page import render_run

        shipped = str(shipped_content(self.bench.pipeline).get("card", ""))
        before = [run.shipped for _, run in runs_in(self.bench.root, self.record.pipeline) if run.status == "shipped"]
        self.record = replace(
            _ended(self.record, status, reason),
            shipped=shipped,
            new=bool(shipped) and before[-1:] != [shipped],
            seconds=round(time.perf_counter() - self.start, 3),
        )
        self.record.save(self.folder)
        save_text(self.folder / "run.html", render_run(self.record))

    def _tidy(self) -> None:
        """Remove runs beyond those to keep, and results that no run refers to."""
        every, keep = runs_in(self.bench.root), self.bench.pipeline.runs.keep
        for folder, _ in every[:-keep]:
            shutil.rmtree(folder, ignore_errors=True)
        steps = [step for _, run in every[-keep:] for step in run.steps if step.key]
        used = {step.folder for step in steps} | {name for step in steps for name in step.facts.get("counts", ())}
        self.bench.store.forget_others(used)
        for file in (self.bench.root / UNFINISHED).glob("*"):
            if file.stem not in used:
                file.unlink(missing_ok=True)


def as_line(record: RunRecord, folder: Path, code: int) -> dict[str, Any]:
    """What a scheduler wants to know of a run, as a JSON document."""
    return {
        "status": record.status,
        "exit_code": code,
        "run": str(folder),
        "new": record.new,
        "shipped": record.shipped or None,
        "changed": record.changed,
        "verdict": record.verdict or None,
        "stopped_by": record.stopped_by or None,
        "reason": record.reason,
        "seconds": record.seconds,
        "steps": record.states,
        "warnings": sum(len(step.warnings) for step in record.steps),
    }
