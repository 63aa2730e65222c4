"""Units: every (setting, method, seed, fold) as one piece of work, known by a hash of all that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cldrank._version import __version__
from cldrank.errors import UsageError
from cldrank.experiment.datasets import Fold, find
from cldrank.experiment.definition import Experiment, Method, Setting
from cldrank.experiment.methods import Maker, maker


@dataclass(frozen=True)
class Unit:
    """One fit and its evaluation.

    configuration   all that decides the result, as canonical JSON; the work is done from it alone
    device          where it is done, if its method has a choice
    key             its hash. Units of several settings have the same one where the method does not see what varies,
                    as Oracle sees no clicks; such work is done once
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
        """What it shares with others: data, production ranker and clicks, so one process should do them in turn."""
        described = json.loads(self.configuration)
        parts = [self.fold.data, self.fold.fold, self.seed, described.get("production"), described.get("simulation")]
        return json.dumps(parts, sort_keys=True)


def canonical(value: Any) -> str:
    """JSON that is the same for the same content.

    >>> canonical({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hashed(configuration: str) -> str:
    """The hash of a configuration.

    >>> hashed(canonical({"seed": 0}))
    'bd0488843468e63c62bb'
    """
    return hashlib.sha256(configuration.encode()).hexdigest()[:20]


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


def _maker(method: Method, experiment: Experiment) -> Maker:
    source = experiment.source
    made = maker(method.use, method.parameters, f"{source}: methods.{method.label}", experiment.device)
    if method.tune and made.needs == "labels":
        raise UsageError(f"{source}: methods.{method.label}.tune: it learns from labels, and tuning goes by clicks.")
    if method.tune:
        maker(method.use, {**method.parameters, **method.tune}, f"{source}: methods.{method.label}.tune")
    return made


def _configuration(setting: Setting, method: Method, made: Maker, fold: Fold, seed: int) -> dict[str, Any]:
    experiment = setting.experiment
    described: dict[str, Any] = {
        "cldrank": __version__,
        "data": {"name": fold.data, "fold": fold.fold, "fingerprint": fold.fingerprint},
        "method": made.describe(seed),
        "measures": list(experiment.measures),
        "seed": seed if made.seeded or made.needs != "labels" else None,
    }
    if fold.made:
        described["data"] |= asdict(fold.made)
    if made.needs == "labels":
        return described
    simulation = asdict(experiment.simulation)
    assumed = simulation.pop("assumed_eta")
    described |= {"production": asdict(experiment.production), "simulation": simulation}
    if made.needs == "propensities":
        described["propensities"] = {"eta": experiment.simulation.eta if assumed is None else assumed}
    if method.tune:
        described["tuning"] = {"grid": method.tune, "seed": experiment.seeds[0], **asdict(experiment.tuning)}
    return described


def tuning_of(configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """The part of a unit's configuration that decides what tuning chooses; None if nothing is tuned.

    The same for all seeds of a setting: it is tuned with the first seed.
    """
    if "tuning" not in configuration:
        return None
    seed = configuration["tuning"]["seed"]
    method = configuration["method"]
    parameters = method["parameters"]
    if "seed" in parameters and parameters["seed"] == configuration["seed"]:
        parameters = {**parameters, "seed": seed}
    return {**configuration, "seed": seed, "measures": [], "method": {**method, "parameters": parameters}}
