"""Running experiments: only what is missing, in parallel processes, every result kept the moment it is there."""

from __future__ import annotations

import datetime
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.experiment import provenance, results
from cldrank.experiment.definition import Experiment
from cldrank.experiment.forecast import Forecast
from cldrank.experiment.plan import Unit, canonical, hashed, tuning_of, units
from cldrank.experiment.pool import Pool
from cldrank.experiment.work import Outcome, Task
from cldrank.files import make_folder, replacing
from cldrank.reading import read_json

Place = tuple[Any, ...]


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    units      all of the experiments
    todo       what to compute, by hash; units with the same hash are one piece of work
    known      units whose result is known from another place, with its rows
    finished   how many have their result already
    failed     how many of these have failed, and are not tried again
    """

    units: tuple[Unit, ...]
    todo: Mapping[str, tuple[Unit, ...]]
    known: tuple[tuple[Unit, list[dict[str, Any]]], ...]
    finished: int
    failed: int


@dataclass
class Progress:
    """How far a run is: pieces of work done and failed of all, the time left, and the method that was last done."""

    total: int
    done: int = 0
    failed: int = 0
    seconds_left: float = math.nan
    last: str = ""


@dataclass(frozen=True)
class Report:
    """How a run ended: units that were computed, those of them that failed, with what they said."""

    computed: int
    failed: int
    errors: tuple[str, ...] = field(default=())


def plan(experiments: Sequence[Experiment], folder: str | PathLike[str], *, retry_failed: bool = False) -> Plan:
    """What is missing in a folder; a folder whose results would not fit with these is refused."""
    wanted = units(experiments)
    recorded = _recorded(Path(folder))
    rows: list[dict[str, Any]] = results.latest(recorded).to_pylist()
    latest: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        latest[_place(row)].append(row)
    by_key = _by_key(recorded)
    _check_fit(wanted, rows, Path(folder))
    todo: dict[str, list[Unit]] = defaultdict(list)
    known, finished, failed = [], 0, 0
    for unit in wanted:
        found = latest.get(unit.place, [])
        status = found[0]["status"] if found and found[0]["unit"] == unit.key else ""
        if status == "ok" or (status and not retry_failed):
            finished += 1
            failed += status != "ok"
        elif unit.key in by_key:
            known.append((unit, by_key[unit.key]))
        else:
            todo[unit.key].append(unit)
    return Plan(tuple(wanted), {key: tuple(found) for key, found in todo.items()}, tuple(known), finished, failed)


def run(
    planned: Plan,
    folder: str | PathLike[str],
    *,
    jobs: int,
    threads: int = 1,
    command: str = "",
    progress: Callable[[Progress], None] | None = None,
    forecast: Forecast | None = None,
) -> Report:
    """Compute what is missing. Whatever stops it, what is finished is kept; call it again to go on."""
    target = Path(folder)
    make_folder(target)
    record = _Recorder(target, command, threads)
    for unit, rows in planned.known:
        record.copy(unit, rows)
    state = Progress(len(planned.todo))
    begun, expected = time.monotonic(), forecast or Forecast({})
    errors: list[str] = []

    def done(task: Task, outcome: Outcome) -> None:
        shared = planned.todo[task.key]
        record.add(shared, task, outcome)
        state.done += 1
        state.last = shared[0].method
        if outcome.error:
            state.failed += 1
            errors.append(f"{shared[0].method}, seed {shared[0].seed}, {shared[0].setting}: {outcome.error}")
        expected.observe(shared[0].method)
        state.seconds_left = expected.seconds_left(time.monotonic() - begun)
        if progress:
            progress(state)

    try:
        with Pool(jobs, threads) as pool:
            tasks = [_task(found[0]) for found in planned.todo.values()]
            tuned = _tuned(pool, tasks, target)
            broken = [(task, outcome) for task, outcome in zip(tasks, tuned, strict=True) if outcome.error]
            for task, outcome in broken:
                done(task, outcome)
            ready = zip(tasks, tuned, strict=True)
            pool.run([replace(task, tuned=choice.tuned) for task, choice in ready if not choice.error], done)
    except BaseException:
        with suppress(CldrankError, OSError):  # what stopped the run is what has to be told
            _consolidate(target)
        raise
    _consolidate(target)
    return Report(state.done, state.failed, tuple(errors))


def _consolidate(folder: Path) -> None:
    if results.has_any(folder):
        results.consolidate(folder)


class _Recorder:
    """Writes the rows of what is done, with where they come from."""

    def __init__(self, folder: Path, command: str, threads: int) -> None:
        self.folder = folder
        self.origin = {
            "versions": canonical({**provenance.versions(), "threads": str(threads)}),
            "commit": provenance.commit(),
            "command": command,
        }

    def add(self, shared: Sequence[Unit], task: Task, outcome: Outcome) -> None:
        """The result of a piece of work, in every place where it stands."""
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
            results.append(self.folder, [{**_standing(unit), **common, **value} for value in values])

    def copy(self, unit: Unit, rows: Sequence[Mapping[str, Any]]) -> None:
        """A result that is known from another place."""
        results.append(self.folder, [{**row, **_standing(unit)} for row in rows])


def _standing(unit: Unit) -> dict[str, Any]:
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


def _task(unit: Unit) -> Task:
    return Task(unit.key, unit.group, unit.fold, unit.configuration, unit.device)


def _recorded(folder: Path) -> pa.Table:
    """All results in a folder, an empty table if it has none yet."""
    return results.read_all(folder) if results.has_any(folder) else results.SCHEMA.empty_table()


def _by_key(recorded: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The rows of each unit that went well, from one of the places where it stands or stood."""
    places: dict[str, dict[Place, dict[str, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for row in recorded.to_pylist():
        if row["status"] == "ok":
            places[row["unit"]][_place(row)][row["measure"]] = row
    return {key: list(next(iter(found.values())).values()) for key, found in places.items()}


def _place(row: Mapping[str, Any]) -> Place:
    return row["experiment"], row["data"], row["fold"], row["setting"], row["method"], row["seed"]


# -- tuning ------------------------------------------------------------------------------------------------------


def _tuned(pool: Pool, tasks: Sequence[Task], folder: Path) -> list[Outcome]:
    """What tuning chose for each task: nothing where nothing is tuned. Choices are kept, so none is made twice."""
    wanted: dict[str, Task] = {}
    keys = []
    for task in tasks:
        described = tuning_of(json.loads(task.configuration))
        text = canonical(described) if described else ""
        keys.append(hashed(text) if text else "")
        if text:
            wanted[keys[-1]] = Task(keys[-1], task.group, task.fold, text, task.device, tunes=True)
    chosen = {"": Outcome()}
    for key in wanted:
        file = folder / "tuning" / f"{key}.json"
        if file.is_file():
            chosen[key] = Outcome(tuned=_choice(file))

    def done(task: Task, outcome: Outcome) -> None:
        chosen[task.key] = replace(outcome, error=f"tuning: {outcome.error}" if outcome.error else "")
        if not outcome.error:
            (folder / "tuning").mkdir(exist_ok=True)
            with replacing(folder / "tuning" / f"{task.key}.json") as temporary:
                content = {"tuned": dict(outcome.tuned), "configuration": json.loads(task.configuration)}
                temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    pool.run([task for key, task in wanted.items() if key not in chosen], done)
    return [chosen[key] for key in keys]


def _choice(file: Path) -> Mapping[str, Any]:
    """What tuning chose before."""
    found = read_json(file, "a JSON file")
    tuned = found.get("tuned") if isinstance(found, dict) else None
    if not isinstance(tuned, dict):
        raise FormatError('there is no table "tuned"; remove the file, and the tuning is done again.', path=file)
    return tuned


# -- a folder that holds results already -------------------------------------------------------------------------


def _check_fit(wanted: Sequence[Unit], rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Refuse to put results beside others of the same experiment and setting that were made under other conditions."""
    conditions: dict[tuple[str, ...], str] = {}
    methods: dict[tuple[str, str, str, str], str] = {}
    places = {unit.place for unit in wanted}
    for unit in wanted:
        described = json.loads(unit.configuration)
        conditions |= _conditions(unit.experiment, unit.setting, described)
        methods[unit.experiment, unit.fold.data, unit.setting, unit.method] = _method(described)
    for row in rows:
        described = json.loads(row["configuration"])
        try:
            held, method = _conditions(row["experiment"], row["setting"], described), _method(described)
        except KeyError as error:
            raise DataError(
                f"{folder} holds results whose configuration has no {error}, so nobody can tell whether others fit "
                "with them; choose another folder with --out."
            ) from None
        for key, value in held.items():
            if conditions.get(key, value) != value:
                raise UsageError(
                    f"{folder} holds results of {row['experiment']} on {row['data']} with {key[-1]} {value}, not "
                    f"{conditions[key]}; choose another folder with --out."
                )
        mine = methods.get((row["experiment"], row["data"], row["setting"], row["method"]))
        if mine is not None and mine != method and _place(row) not in places:
            raise UsageError(
                f"{folder} holds results of {row['method']} with other parameters, of seeds that this run would not "
                "replace; choose another folder with --out."
            )


def _conditions(experiment: str, setting: str, described: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """What all results of an experiment and setting must agree on."""
    data = dict(described["data"])
    fingerprint, fold = data.pop("fingerprint"), data.pop("fold")
    found = {
        "cldrank": described["cldrank"],
        "measures": canonical(described["measures"]),
        "data": canonical(data),
        f"content{f' of {fold}' if fold else ''}": fingerprint,
    }
    for section in ("production", "simulation", "propensities"):
        for name, value in described.get(section, {}).items():
            found[f"{section}.{name}"] = canonical(value)
    return {(experiment, data["name"], setting, name): value for name, value in found.items()}


def _method(described: Mapping[str, Any]) -> str:
    """The method of a unit, whatever its seed."""
    method = described["method"]
    parameters = {key: value for key, value in method["parameters"].items() if key != "seed"}
    return canonical([{**method, "parameters": parameters}, described.get("tuning")])


# -- how many at once --------------------------------------------------------------------------------------------


def parallel(tasks: int, bytes_each: int, *, jobs: int | None = None, memory: int | None = None) -> tuple[int, int]:
    """How many processes, and how many threads each: as many as there are cores, work, and memory for.

    Sums may come out a little differently with another number of threads. So that follows from `jobs` alone, not from
    what is left to do or what memory is free: a run that was interrupted ends as one that was not.

    >>> parallel(tasks=1, bytes_each=1 << 30, jobs=4, memory=8 << 30)[0]
    1
    >>> parallel(tasks=100, bytes_each=3 << 30, jobs=4, memory=8 << 30)[0]
    2
    """
    cores = available_cores()
    limit = available_memory() if memory is None else memory
    processes = max(min(jobs or cores, tasks, limit // max(bytes_each, 1)), 1)
    return processes, max(cores // (jobs or cores), 1)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Three quarters of the memory that is free now, in bytes; 8 GiB where that is not known."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    except (AttributeError, ValueError, OSError):
        return 8 << 30
