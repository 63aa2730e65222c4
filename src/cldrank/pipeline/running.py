"""`run_pipeline`: one step after the other, each only if what decides its result has changed.

    runs/2026-11-16T0912-1f3a9c/    a run: the pipeline as it was, its record, its page, links to the results of steps
    runs/latest                     a link to the newest run
    runs/steps/train-5d0f…/         the result of a step, which runs share

A run that is killed leaves the results of the steps that it finished; the next one goes on from there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cldrank.decoding import hashed
from cldrank.environment import commit, versions
from cldrank.errors import CldrankError, UsageError
from cldrank.files import holding, make_folder, replacing_folder, save_text, sweep
from cldrank.pipeline.definition import PipelineDefinition
from cldrank.pipeline.fingerprints import Fingerprints
from cldrank.pipeline.records import RECORD, RunRecord, Status, StepRecord
from cldrank.pipeline.shipped import check_place, shipped_content
from cldrank.pipeline.step import UNFINISHED, Say, Step, Workbench
from cldrank.pipeline.steps import STEPS
from cldrank.pipeline.store import StepStore

LATEST = "latest"
_STEPS = "steps"
_MEMORY = "fingerprints.json"
_NEW = ".new"  # a link that is about to take its name

Report = Callable[[StepRecord], None]


def run_pipeline(
    pipeline: PipelineDefinition,
    *,
    ship_anyway: str = "",
    command: str = "",
    say: Say = lambda _: None,
    report: Report = lambda _: None,
) -> RunRecord:
    """Run all steps, up to a gate that stops; what has not changed since an earlier run is not computed again.

    ship_anyway   the reason for which a ranker is shipped whatever the verdict says; it goes into all records
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
                _mark_killed(folder, record)
        return _RunningPipeline.begun(pipeline, root, ship_anyway, command, say, report).ended()


def runs_in(root: Path) -> list[tuple[Path, RunRecord]]:
    """The runs in a folder, the oldest first; what cannot be read as one is left out."""
    found = []
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.is_dir() and not folder.is_symlink() and (folder / RECORD).is_file():
            with suppress(CldrankError):
                record = RunRecord.load(folder)
                found += [(folder, record)] if record.name == folder.name else []  # else it is a copy
    return sorted(found, key=lambda one: one[1].started)


def _mark_killed(folder: Path, record: RunRecord) -> None:
    """Note that a run was killed, and remove what it did not finish."""
    for place in (folder, folder / _STEPS):
        sweep(place)
        for link in place.glob(f".*{_NEW}"):
            link.unlink()
    steps = tuple(replace(one, state="not run") if one.state == "running" else one for one in record.steps)
    replace(record, status="interrupted", reason="the process was killed.", steps=steps).save(folder)


@dataclass
class _RunningPipeline:
    """A run that is going on: its folder, its record, and the workbench of its steps."""

    root: Path
    folder: Path
    record: RunRecord
    bench: Workbench
    store: StepStore
    ship_anyway: str
    report: Report

    @classmethod
    def begun(
        cls, pipeline: PipelineDefinition, root: Path, ship_anyway: str, command: str, say: Say, report: Report
    ) -> _RunningPipeline:
        now = datetime.now(UTC)
        folder = _free(root, f"{now:%Y-%m-%dT%H%M}-{hashed(pipeline.text)[:6]}")
        steps = (StepRecord(one.name, "not run" if one.is_needed(pipeline) else "not needed") for one in STEPS)
        record = RunRecord(
            name=folder.name,
            pipeline=pipeline.source.name,
            started=now.isoformat(timespec="microseconds"),
            seed=pipeline.seed,
            command=command,
            commit=commit(),
            versions=versions(),
            steps=tuple(steps),
        )
        with replacing_folder(folder) as temporary:
            save_text(temporary / "pipeline.toml", pipeline.text)
            record.save(temporary)
        _point(root / LATEST, folder.name)
        fingerprints = Fingerprints.remembered(root / _MEMORY)
        bench = Workbench(pipeline, root / _STEPS, fingerprints, say=say)
        return cls(root, folder, record, bench, StepStore(root / _STEPS, fingerprints), ship_anyway, report)

    def ended(self) -> RunRecord:
        """Run all steps; the record of how it ended."""
        start = time.perf_counter()
        with self._recorded(start):
            stopped = self._all_steps()
            if stopped is None:
                self._end("shipped", "" if self.record.changed else "nothing has changed since an earlier run.", start)
            else:
                self.record = replace(self.record, stopped_by=stopped.stop)
                self._end("stopped", f"{stopped.name}: {stopped.decided}", start)
        self._tidy()
        return self.record

    @contextmanager
    def _recorded(self, start: float) -> Iterator[None]:
        """Whatever ends the run is in its record."""
        try:
            yield
        except CldrankError as error:
            self._end("failed", str(error), start)
            raise
        except Exception as error:
            self._end("failed", f"{type(error).__name__}: {error}", start)
            raise
        except BaseException:  # Ctrl-C, or the signal to end
            self._end("interrupted", "it was stopped; the next run goes on from here.", start)
            raise
        finally:
            self.bench.fingerprints.save()

    def _all_steps(self) -> StepRecord | None:
        """Run all steps; the one that stopped, if one did."""
        for step in STEPS:
            if not step.is_needed(self.bench.pipeline):
                continue
            found = self._step(step)
            if found.stop and not (step.name == "verdict" and self.ship_anyway):
                return found
            if found.stop:
                self.bench.override = self.ship_anyway
                self.record = replace(self.record, override=self.ship_anyway)
        return None

    def _step(self, step: Step) -> StepRecord:
        bench = self.bench
        self._note(StepRecord(step.name, "running"))
        try:
            settings, read = step.settings(bench), step.reads(bench)
            planned = StepRecord(step.name, "running", step.key(bench.pipeline, settings, read), settings, read)
            self._note(planned)
            found = self.store.find(step.name, planned.key)
            if found is None or not step.is_in_place(bench, found):
                found = self.store.carry_out(step, planned, bench)
                step.settle(bench, found, bench.store / found.folder)
        except CldrankError as error:
            self._note(StepRecord(step.name, "failed", decided=str(error)))
            raise
        bench.results[step.name] = found
        self._link(found)
        self._note(replace(found, state="stopped", reused=found.state == "reused") if found.stop else found)
        self.report(found)
        return found

    def _note(self, step: StepRecord) -> None:
        self.record = replace(self.record.with_step(step), inputs=self.bench.inputs)
        self.record.save(self.folder)

    def _link(self, step: StepRecord) -> None:
        """A link from the run to the result of a step."""
        links = make_folder(self.folder / _STEPS)
        _point(links / step.name, os.path.join("..", "..", _STEPS, step.folder))  # noqa: PTH118  # a link, not a path

    def _end(self, status: Status, reason: str, start: float) -> None:
        from cldrank.pipeline.page import render_run

        seconds = round(time.perf_counter() - start, 3)
        unfinished = ("failed" if status == "failed" else "not run") if status != "shipped" else "done"
        steps = tuple(
            replace(one, state=unfinished) if one.state == "running" else one  # type: ignore[arg-type]
            for one in self.record.steps
        )
        shipped = str(shipped_content(self.bench.pipeline).get("card", ""))
        before = [record for _, record in runs_in(self.root) if record.status == "shipped"]
        new = bool(shipped) and (not before or before[-1].shipped != shipped)
        known = {"shipped": shipped, "new": new, "seconds": seconds, "steps": steps}
        self.record = replace(self.record, status=status, reason=reason, **known)  # type: ignore[arg-type]
        self.record.save(self.folder)
        save_text(self.folder / "run.html", render_run(self.record))

    def _tidy(self) -> None:
        """Remove runs beyond those to keep, and results that no run refers to."""
        every = runs_in(self.root)
        kept = every[-self.bench.pipeline.runs.keep :]
        for folder, _ in every[: -self.bench.pipeline.runs.keep]:
            shutil.rmtree(folder, ignore_errors=True)
        used = {step.folder for _, run in kept for step in run.steps if step.key}
        self.store.forget_others(used)
        for file in (self.root / UNFINISHED).glob("*"):
            if file.stem not in used:
                file.unlink(missing_ok=True)


def find_run(pipeline: PipelineDefinition, named: str | None) -> Path:
    """The folder of a run, by name or path; by default the newest."""
    root = pipeline.path(pipeline.runs.folder)
    every = [folder for folder, _ in runs_in(root)]
    if named is None:
        if not every:
            raise UsageError(f"{root} holds no runs yet; `cldrank pipeline run {pipeline.source}` makes one.")
        return every[-1]
    for folder in (Path(named), root / named):
        if (folder / RECORD).is_file():
            return folder
    names = ", ".join(folder.name for folder in every[-5:])
    raise UsageError(f"there is no run {named!r} in {root}; the newest are {names or 'none'}.")


def _free(root: Path, name: str) -> Path:
    """A folder that is not there yet; runs of the same minute are numbered."""
    number, folder = 1, root / name
    while folder.exists():
        number += 1
        folder = root / f"{name}-{number}"
    return folder


def _point(link: Path, target: str) -> None:
    """Make a link lead to a target, in one step; where there are no links, the record says where things are."""
    temporary = link.with_name(f".{link.name}{_NEW}")
    with suppress(OSError, NotImplementedError):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target, target_is_directory=True)
        try:
            temporary.replace(link)
        finally:
            temporary.unlink(missing_ok=True)


def as_line(record: RunRecord, folder: Path, code: int) -> dict[str, Any]:
    """What a scheduler wants to know of a run, as one JSON document."""
    return {
        "status": record.status,
        "exit_code": code,
        "run": str(folder),
        "new": record.new,
        "shipped": record.shipped or None,
        "changed": record.changed,
        "verdict": record.verdict or None,
        "stopped_by": record.stopped_by or None,
        "override": record.override or None,
        "reason": record.reason,
        "seconds": record.seconds,
        "steps": {step.name: step.state for step in record.steps},
        "warnings": sum(len(step.warnings) for step in record.steps),
    }
