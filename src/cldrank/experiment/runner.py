"""Running experiments: only what is missing, in parallel processes, every result saved the moment it is there."""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.decoding import canonical, hashed
from cldrank.environment import commit, versions
from cldrank.errors import CldrankError, FormatError
from cldrank.experiment import records
from cldrank.experiment.forecast import Forecast
from cldrank.experiment.plan import Plan, Unit, tuning_of
from cldrank.experiment.work import UnitOutcome, UnitTask, execute
from cldrank.files import make_folder, save_json
from cldrank.reading import read_json
from cldrank.workers import Workers

Pool = Workers[UnitTask, UnitOutcome]


@dataclass
class Progress:
    """How far a run is: units done and failed, of all; the time left, and the method that was done last."""

    total: int
    done: int = 0
    failed: int = 0
    seconds_left: float = math.nan
    last: str = ""


@dataclass(frozen=True)
class RunReport:
    """How a run ended: the number of units computed, how many of them failed, and why."""

    computed: int
    failed: int
    errors: tuple[str, ...] = field(default=())


def run(
    planned: Plan,
    folder: str | PathLike[str],
    *,
    jobs: int,
    threads: int = 1,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    forecast: Forecast | None = None,
) -> RunReport:
    """Compute what is missing. Whatever stops it, finished results are kept; call it again to continue."""
    target = Path(folder)
    make_folder(target)
    record = _Recorder(target, command, threads)
    for unit, rows in planned.known:
        record.copy(unit, rows)
    state = Progress(len(planned.todo))
    begun, expected = time.monotonic(), forecast or Forecast({})
    errors: list[str] = []
    try:
        with closing(_computed(planned, target, jobs, threads)) as computed:
            for task, outcome in computed:
                shared = planned.todo[task.key]
                first = shared[0]
                record.add(shared, task, outcome)
                state.done += 1
                state.last = first.method
                if outcome.error:
                    state.failed += 1
                    errors.append(f"{first.method}, seed {first.seed}, {first.setting}: {outcome.error}")
                expected.observe(first.method)
                state.seconds_left = expected.seconds_left(time.monotonic() - begun)
                if progress:
                    progress(state)
    except BaseException:
        with suppress(CldrankError, OSError):  # what stopped the run is what has to be reported
            _consolidate(target)
        raise
    _consolidate(target)
    return RunReport(state.done, state.failed, tuple(errors))


def _computed(planned: Plan, folder: Path, jobs: int, threads: int) -> Generator[tuple[UnitTask, UnitOutcome]]:
    """Tune what has to be tuned, then compute the units; each as soon as it is finished."""
    with Workers(execute, jobs, threads) as pool:
        tasks = [_task(found[0]) for found in planned.todo.values()]
        choices = _tuned(pool, tasks, folder)
        for task, choice in zip(tasks, choices, strict=True):
            if choice.error:
                yield task, choice
        ready = zip(tasks, choices, strict=True)
        yield from _outcomes(pool, [replace(task, tuned=choice.tuned) for task, choice in ready if not choice.error])


def _outcomes(pool: Pool, tasks: Sequence[UnitTask]) -> Iterator[tuple[UnitTask, UnitOutcome]]:
    for done in pool.run(tasks, group=lambda task: task.group, alone=lambda task: task.in_loop):
        died = UnitOutcome(error=done.death, synthetic=done.task.fold.made is not None)
        yield done.task, done.result or died


def _task(unit: Unit) -> UnitTask:
    return UnitTask(unit.key, unit.group, unit.fold, unit.configuration, unit.device)


def _consolidate(folder: Path) -> None:
    if records.has_results(folder):
        records.consolidate(folder)


# -- tuning ------------------------------------------------------------------------------------------------------


def _tuned(pool: Pool, tasks: Sequence[UnitTask], folder: Path) -> list[UnitOutcome]:
    """What tuning chose for each task, nothing where nothing is tuned. Choices are kept, so none is made twice."""
    wanted: dict[str, UnitTask] = {}
    keys = []
    for task in tasks:
        described = tuning_of(json.loads(task.configuration))
        text = canonical(described) if described else ""
        keys.append(hashed(text) if text else "")
        if text:
            wanted[keys[-1]] = UnitTask(keys[-1], task.group, task.fold, text, task.device, tunes=True)
    chosen = {"": UnitOutcome()}
    for key in wanted:
        file = _choice_file(folder, key)
        if file.is_file():
            chosen[key] = UnitOutcome(tuned=_load_choice(file))
    for task, outcome in _outcomes(pool, [task for key, task in wanted.items() if key not in chosen]):
        chosen[task.key] = replace(outcome, error=f"tuning: {outcome.error}" if outcome.error else "")
        if not outcome.error:
            _save_choice(_choice_file(folder, task.key), task, outcome)
    return [chosen[key] for key in keys]


def _choice_file(folder: Path, key: str) -> Path:
    return folder / "tuning" / f"{key}.json"


def _save_choice(file: Path, task: UnitTask, outcome: UnitOutcome) -> None:
    file.parent.mkdir(exist_ok=True)
    save_json(file, {"tuned": dict(outcome.tuned), "configuration": json.loads(task.configuration)})


def _load_choice(file: Path) -> Mapping[str, Any]:
    found = read_json(file, "a JSON file")
    tuned = found.get("tuned") if isinstance(found, dict) else None
    if not isinstance(tuned, dict):
        raise FormatError('there is no table "tuned"; remove the file to tune again.', path=file)
    return tuned


# -- what is recorded --------------------------------------------------------------------------------------------


class _Recorder:
    """Saves the rows of finished units, with where they come from."""

    def __init__(self, folder: Path, command: str, threads: int) -> None:
        self.folder = folder
        self.origin = {
            "versions": canonical({**versions(), "threads": str(threads)}),
            "commit": commit(),
            "command": command,
        }

    def add(self, shared: Sequence[Unit], task: UnitTask, outcome: UnitOutcome) -> None:
        """The outcome of a piece of work, in every place that it has."""
        described = json.loads(task.configuration)
        configuration = canonical({**described, "tuned": dict(task.tuned)}) if task.tuned else task.configuration
        for unit in shared:
            common = {
                "configuration": configuration,
                "data_fingerprint": unit.fold.fingerprint,
                "synthetic": outcome.synthetic,
                "status": "failed" if outcome.error else "ok",
                "error": outcome.error,
                "warnings": json.dumps(outcome.warnings, ensure_ascii=False),
                "seconds": outcome.seconds if not outcome.error else math.nan,
                "peak_mib": outcome.peak_mib,
                **self.origin,
            }
            values = [
                {"measure": measure, "value": outcome.values.get(measure, math.nan)}
                for measure in described["measures"]
            ]
            records.save_unit(self.folder, [{**_columns(unit), **common, **value} for value in values])

    def copy(self, unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
        """A result that is known from another place."""
        records.save_unit(self.folder, [{**row, **_columns(unit)} for row in rows])


def _columns(unit: Unit) -> dict[str, Any]:
    """The place of a unit, by column."""
    experiment, data, fold, setting, method, seed = unit.place
    return {
        "experiment": experiment,
        "unit": unit.key,
        "data": data,
        "fold": fold,
        "setting": setting,
        "method": method,
        "seed": seed,
        "finished": datetime.datetime.now(datetime.UTC),
    }
