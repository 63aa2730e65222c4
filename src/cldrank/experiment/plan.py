"""What a run would do: every (setting, method, seed, fold) as one unit of work, and which of them are missing.

A unit is known by a hash of all that decides its result, so nothing that is finished is computed again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from cldrank._version import __version__
from cldrank.decoding import canonical, hashed
from cldrank.errors import DataError, UsageError
from cldrank.estimators.needs import uses_clicks, uses_curve
from cldrank.experiment import records
from cldrank.experiment.datasets import Fold, find
from cldrank.experiment.definition import Experiment, Setting
from cldrank.experiment.entries import MethodEntry
from cldrank.experiment.makers import Maker, maker

Place = tuple[Any, ...]


@dataclass(frozen=True)
class Unit:
    """One fit and its evaluation.

    configuration   all that decides the result, as canonical JSON; the work is done from it alone
    device          where it is done, if its method has a choice
    key             its hash. Units of several settings share one if the method does not see what varies, as Oracle
                    does not see clicks; such work is done once
    """

    experiment: str
    fold: Fold
    setting: str
    method: str
    seed: int
    configuration: str
    key: str
    device: str | None = None

    @property
    def place(self) -> tuple[str, str, str, str, str, int]:
        """Where its result stands in the table of results."""
        return self.experiment, self.fold.data, self.fold.fold, self.setting, self.method, self.seed

    @property
    def group(self) -> str:
        """What it shares with others: data, production ranker and clicks; one process should do them in turn.

        The rounds of a loop share what the rounds before them left.
        """
        described = json.loads(self.configuration)
        if "loop" in described:
            del described["loop"]
            return canonical(described)
        parts = [self.fold.data, self.fold.fold, self.seed, described.get("production"), described.get("simulation")]
        return json.dumps(parts, sort_keys=True)


def units(experiments: Sequence[Experiment]) -> list[Unit]:
    """The units of some experiments, those that share the most next to each other."""
    return [unit for experiment in experiments for unit in _units(experiment)]


def _units(experiment: Experiment) -> list[Unit]:
    folds = find(experiment.data)
    experiment.check_size(len(folds))
    settings = experiment.settings()
    makers = {
        (setting.varied, method.label): _maker(method, setting.experiment)
        for setting in settings
        for method in setting.experiment.methods
    }
    found = []
    for fold in folds:
        for seed in experiment.seeds:
            for setting in settings:
                for method in setting.experiment.methods:
                    made = makers[setting.varied, method.label]
                    text = canonical(_configuration(setting, method, made, fold, seed))
                    where = (experiment.name, fold, setting.varied, method.label, seed)
                    found.append(Unit(*where, text, hashed(text), made.parameters.get("device")))
    return found


def _maker(method: MethodEntry, experiment: Experiment) -> Maker:
    source = experiment.source
    made = maker(method.use, method.parameters, f"{source}: methods.{method.label}", experiment.device)
    if method.tune and not uses_clicks(made.needs):
        raise UsageError(f"{source}: methods.{method.label}.tune: it learns from labels, but tuning needs clicks.")
    if method.tune and experiment.loop is not None:
        raise UsageError(
            f"{source}: methods.{method.label}.tune: a loop retrains with the same parameters in each round."
        )
    first = {name: values[0] for name, values in method.tune.items()}
    for name, values in method.tune.items():
        for value in values:  # each beside the first of the others, not all combinations
            chosen = {**method.parameters, **first, name: value}
            maker(method.use, chosen, f"{source}: methods.{method.label}.tune")
    return made


def _configuration(setting: Setting, method: MethodEntry, made: Maker, fold: Fold, seed: int) -> dict[str, Any]:
    experiment = setting.experiment
    described: dict[str, Any] = {
        "cldrank": __version__,
        "data": {"name": fold.data, "fold": fold.fold, "fingerprint": fold.fingerprint},
        "method": made.describe(seed),
        "measures": list(experiment.measures),
        "seed": seed if made.seeded or uses_clicks(made.needs) else None,
    }
    if fold.made:
        described["data"] |= asdict(fold.made)
    if not uses_clicks(made.needs):
        return described
    simulation = asdict(experiment.simulation)
    assumed = simulation.pop("assumed_eta")
    described |= {"production": asdict(experiment.production), "simulation": simulation}
    if experiment.loop is not None:
        described["loop"] = asdict(experiment.loop)
    if uses_curve(made.needs):
        described["propensities"] = {"eta": experiment.simulation.eta if assumed is None else assumed}
    if method.tune:
        described["tuning"] = {"grid": method.tune, "seed": experiment.seeds[0], **asdict(experiment.tuning)}
    return described


def tuning_of(configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """The part of a unit's configuration that decides what tuning chooses; None if nothing is tuned.

    It is the same for all seeds of a setting, which is tuned with the first seed.
    """
    if "tuning" not in configuration:
        return None
    seed = configuration["tuning"]["seed"]
    method = configuration["method"]
    parameters = method["parameters"]
    if "seed" in parameters and parameters["seed"] == configuration["seed"]:
        parameters = {**parameters, "seed": seed}
    return {**configuration, "seed": seed, "measures": [], "method": {**method, "parameters": parameters}}


# -- what is missing ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    units      all units of the experiments
    todo       what to compute, by hash; units with the same hash are one piece of work
    known      units whose result is known from another place, with its rows
    finished   the number of units that have a result
    failed     the number of these that failed and are not tried again
    """

    units: tuple[Unit, ...]
    todo: Mapping[str, tuple[Unit, ...]]
    known: tuple[tuple[Unit, list[dict[str, Any]]], ...]
    finished: int
    failed: int


def plan(experiments: Sequence[Experiment], folder: str | PathLike[str], *, retry_failed: bool = False) -> Plan:
    """What is missing in a folder; results that would not fit with those of the folder are refused."""
    wanted = units(experiments)
    recorded = _recorded(Path(folder))
    rows: list[dict[str, Any]] = records.latest(recorded).to_pylist()
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


def _recorded(folder: Path) -> pa.Table:
    """All results in a folder, an empty table if it has none yet."""
    return records.load_all_results(folder) if records.has_results(folder) else records.SCHEMA.empty_table()


def _by_key(recorded: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The rows of each unit that succeeded, from one of its places."""
    places: dict[str, dict[Place, dict[str, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for row in recorded.to_pylist():
        if row["status"] == "ok":
            places[row["unit"]][_place(row)][row["measure"]] = row
    return {key: list(next(iter(found.values())).values()) for key, found in places.items()}


def _place(row: Mapping[str, Any]) -> Place:
    return row["experiment"], row["data"], row["fold"], row["setting"], row["method"], row["seed"]


# -- a folder that holds results already -------------------------------------------------------------------------


def _check_fit(wanted: Sequence[Unit], rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Refuse to mix results of one experiment and setting that were made under different conditions."""
    conditions: dict[tuple[str, ...], str] = {}
    methods: dict[tuple[str, str, str, str], str] = {}
    places = {unit.place for unit in wanted}
    for unit in wanted:
        described = json.loads(unit.configuration)
        conditions |= _conditions(unit.experiment, unit.setting, described)
        methods[unit.experiment, unit.fold.data, unit.setting, unit.method] = _method_of(described)
    for row in rows:
        described = json.loads(row["configuration"])
        try:
            held, method = _conditions(row["experiment"], row["setting"], described), _method_of(described)
        except KeyError as error:
            raise DataError(
                f"{folder} holds results whose configuration has no {error}, so it is unknown whether others fit with "
                "them; choose another folder with --out."
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
                f"{folder} holds results of {row['method']} with other parameters, for seeds that this run would not "
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


def _method_of(described: Mapping[str, Any]) -> str:
    """The method of a unit, whatever its seed."""
    method = described["method"]
    parameters = {key: value for key, value in method["parameters"].items() if key != "seed"}
    return canonical([{**method, "parameters": parameters}, described.get("tuning")])
