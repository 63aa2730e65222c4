"""What an experiment has to compute: every (setting, method, seed, fold) is a unit; missing ones run in processes.

experiments/table1/tasks/fit-5d0f…/   a fit and its measures; units that would compute the same share it
experiments/table1/results.parquet    the results of all units of the last run, as a table
"""

from __future__ import annotations

import datetime
import json
import math
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.decoding import canonical, plain
from cldrank.errors import CldrankError, DataError
from cldrank.evaluation import evaluate
from cldrank.experiment.datasets import Fold, find_folds
from cldrank.experiment.experiment_file import Experiment
from cldrank.experiment.makers import Maker, import_what_is_needed, make_method, maker
from cldrank.experiment.results import PLACE, save_results
from cldrank.files import make_folder, sweep
from cldrank.fingerprints import commit, versions
from cldrank.methods.needs import uses_clicks, uses_curve
from cldrank.propensity import Propensities
from cldrank.runs import Outcome, Processes, Store, Task

TASKS = "tasks"
Place = tuple[Any, ...]  # experiment, data, fold, setting, method, seed


@dataclass(frozen=True)
class UnitFit:
    """A fit and its evaluation.

    configuration   all that decides the result, as canonical JSON
    device          where it is done, if its method has a choice
    """

    fold: Fold
    configuration: str
    device: str | None = None

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The configuration as a table."""
        table: Mapping[str, Any] = json.loads(self.configuration)
        return table


@dataclass(frozen=True)
class Unit:
    """One fit and its evaluation, in its place among the results."""

    experiment: str
    setting: str
    method: str
    seed: int
    fit: UnitFit

    @property
    def place(self) -> Place:
        """Where its result stands in the table of results."""
        fold = self.fit.fold
        return self.experiment, fold.data, fold.fold, self.setting, self.method, self.seed

    def task(self, origin: Mapping[str, str] | None = None) -> Task:
        """The fit; units of several settings share it if the method does not see what varies, as Oracle does not."""
        inputs = {"data": self.fit.fold.fingerprint}
        return Task("fit", inputs, self.fit.described, partial(fit_unit, self.fit, origin or {}))


def units(experiments: Sequence[Experiment]) -> list[Unit]:
    """The units of some experiments; those that share most are neighbours."""
    return [unit for experiment in experiments for unit in _units(experiment)]


def _units(experiment: Experiment) -> Iterator[Unit]:
    settings, place = experiment.settings(), f"{experiment.source}: methods"
    makers = {
        (setting.varied, method.label): maker(
            method.use, method.parameters, f"{place}.{method.label}", experiment.device
        )
        for setting in settings
        for method in setting.experiment.methods
    }
    for fold in find_folds(experiment.data):
        for seed in experiment.seeds:
            for setting in settings:
                for method in setting.experiment.methods:
                    made = makers[setting.varied, method.label]
                    described = canonical(_configuration(setting.experiment, made, fold, seed))
                    fit = UnitFit(fold, described, made.parameters.get("device"))
                    yield Unit(experiment.name, setting.varied, method.label, seed, fit)


def _configuration(experiment: Experiment, made: Maker, fold: Fold, seed: int) -> dict[str, Any]:
    """All that decides the result of a unit, as JSON holds it; what the method does not see is left out."""
    described: dict[str, Any] = {
        "cldrank": __version__,
        "data": {"name": fold.data, "fold": fold.fold, "fingerprint": fold.fingerprint},
        "method": made.describe(seed),
        "measures": list(experiment.measures),
        "seed": seed if made.seeded or uses_clicks(made.needs) else None,
    }
    if fold.made:
        described["data"] |= {key: getattr(fold.made, key) for key in ("queries", "test_queries", "seed")}
    if not uses_clicks(made.needs):
        return described
    simulation = asdict(experiment.simulation)
    assumed = simulation.pop("assumed_eta")
    described |= {"production": asdict(experiment.production), "simulation": simulation}
    if uses_curve(made.needs):
        described["propensities"] = {"eta": experiment.simulation.eta if assumed is None else assumed}
    return described


# -- what is missing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    folder     where results are kept
    units      all units of the experiments, with the keys of their fits
    todo       the fits to do, by key, each with the units that share it; those that failed before are among them
    """

    folder: Path
    units: tuple[tuple[Unit, str], ...]
    todo: Mapping[str, tuple[Unit, ...]]

    @property
    def finished(self) -> int:
        """The number of units that have a result."""
        return len(self.units) - sum(map(len, self.todo.values()))

    @property
    def store(self) -> Store:
        """The results of tasks."""
        return Store(self.folder / TASKS)


def plan(experiments: Sequence[Experiment], folder: str | PathLike[str]) -> Plan:
    """What is missing in a folder."""
    wanted = [(unit, unit.task().key) for unit in units(experiments)]
    store = Store(Path(folder) / TASKS)
    records = {key: store.find("fit", key) for key in dict.fromkeys(key for _, key in wanted)}
    missing = {key for key, record in records.items() if record is None or record.error}
    todo: dict[str, tuple[Unit, ...]] = {}
    for unit, key in wanted:
        if key in missing:
            todo[key] = (*todo.get(key, ()), unit)
    return Plan(Path(folder), tuple(wanted), todo)


# -- running -------------------------------------------------------------------------------------------------------


@dataclass
class Progress:
    """The progress of a run: fits in all, done and failed; the last method; and the errors."""

    total: int
    done: int = 0
    failed: int = 0
    last: str = ""
    errors: list[str] = field(default_factory=list)


def run(
    planned: Plan,
    *,
    jobs: int,
    threads: int = 1,
    command: str = "",
    progress: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Do what is missing. Whatever stops it, finished results are kept; call it again to continue.

    The number of threads can change the rounding of sums: with the same number, an interrupted run ends with the
    same values as any other.
    """
    make_folder(planned.folder)
    origin = {
        "versions": canonical({**versions(), "threads": str(threads)}),
        "commit": commit(),
        "command": command or shlex.join(["cldrank", *sys.argv[1:]]),
    }
    state = Progress(len(planned.todo))
    tasks = [units[0].task(origin) for units in planned.todo.values()]
    try:
        with Processes(planned.store.carry_out, jobs, threads) as pool:
            for done in pool.run(tasks, group=_group):
                died = partial(lambda outcome, _: outcome, Outcome(error=done.death, facts={"origin": origin}))
                record = done.result or planned.store.carry_out(replace(done.item, function=died))
                unit = planned.todo[record.key][0]
                state.done += 1
                state.last = unit.method
                if record.error:
                    state.failed += 1
                    state.errors.append(f"{unit.method}, seed {unit.seed}, {unit.setting}: {record.error}")
                progress(state)
    finally:
        sweep(planned.store.folder)
        save_results(planned.folder, list(_rows(planned)))
    return state


def _group(task: Task) -> str:
    """What it shares with others, which the same process should do in turn: data, production ranker and clicks."""
    return canonical([task.parameters.get(name) for name in ("data", "seed", "production", "simulation")])


def _rows(planned: Plan) -> Iterator[dict[str, Any]]:
    """The rows of all units that are finished, by place; the measures of a unit stay in their order."""
    find = cache(partial(planned.store.find, "fit"))
    for place, key in sorted((unit.place, key) for unit, key in planned.units):
        record = find(key)
        if record is None:
            continue
        facts = record.facts
        common = {
            **dict(zip(PLACE, place, strict=True)),
            "unit": record.key,
            "synthetic": facts.get("synthetic", False),
            "status": "failed" if record.error else "ok",
            "error": record.error,
            "warnings": json.dumps(facts.get("warnings", []), ensure_ascii=False),
            "seconds": facts.get("seconds", math.nan),
            "configuration": canonical(record.parameters),
            "data_fingerprint": record.inputs["data"],
            "finished": datetime.datetime.fromisoformat(record.finished),
            **facts["origin"],
        }
        for measure in record.parameters["measures"]:
            yield {**common, "measure": measure, "value": facts.get("values", {}).get(measure, math.nan)}


# -- the work of a unit --------------------------------------------------------------------------------------------


def fit_unit(fit: UnitFit, origin: Mapping[str, str], folder: Path) -> Outcome:
    """Fit a method and measure it; whatever goes wrong is part of the outcome.

    origin   what the record says about where the result comes from
    """
    del folder  # everything goes into the record
    facts = {"origin": dict(origin), "synthetic": fit.fold.made is not None}
    try:
        return Outcome(facts={**facts, **_measured(fit)})
    except CldrankError as error:
        return Outcome(error=f"{type(error).__name__}: {error}", facts=facts)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return Outcome(error=text, facts=facts)


def _measured(fit: UnitFit) -> dict[str, Any]:
    described = fit.described
    train, test = _load(fit.fold)
    clicks, propensities = None, None
    if "simulation" in described:
        production, simulation = (canonical(described[name]) for name in ("production", "simulation"))
        clicks = _clicks(fit.fold, production, simulation, described["seed"])
        if "propensities" in described:  # trusted, as a wrong eta may be the point
            propensities = Propensities.power(described["propensities"]["eta"], max(clicks.depth, 1)).trusted()
    method = described["method"]
    where = {} if fit.device is None else {"device": fit.device}
    model = make_method(method["class"], {**method["parameters"], **where})
    import_what_is_needed(model)  # so that imports do not count as time of the fit
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model.fit(train, clicks, propensities)
        seconds = time.perf_counter() - start
    measures = described["measures"]
    result = evaluate(model, test, measures)
    values = plain({measure: result[measure] for measure in measures})
    for measure, value in values.items():
        if value is None:
            raise DataError(f"{measure} is {result[measure]}, although the fit succeeded.")
    return {
        "values": values,
        "warnings": list(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught)),
        "seconds": seconds,
        "synthetic": train.synthetic or test.synthetic,
    }


# -- what units share ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _load(fold: Fold) -> tuple[RankingDataset, RankingDataset]:
    return fold.load()


@lru_cache(maxsize=2)
def _production_scores(fold: Fold, production: str, seed: int) -> Any:
    """The scores that the production ranker gives the training rows."""
    train, _ = _load(fold)
    return make_method("svm-rank", {"seed": seed, **json.loads(production)}).fit(train).predict(train)


@lru_cache(maxsize=2)
def _clicks(fold: Fold, production: str, simulation: str, seed: int) -> ClickTable:
    """Clicks on the pages of the production ranker."""
    chosen = json.loads(simulation)
    return Simulation(
        _load(fold)[0],
        _production_scores(fold, production, seed),
        model=PositionBased(eta=chosen["eta"], noise=chosen["noise"]),
        policy=TopK(),
        depth=chosen["depth"],
        relevant_from=chosen["relevant_from"],
    ).draw(chosen["sessions"], seed=seed)
