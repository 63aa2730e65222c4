"""The work of one unit: clicks, a fit, its measures. What units share is kept from one to the next."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cldrank.decoding import canonical
from cldrank.errors import CldrankError
from cldrank.experiment.datasets import Fold
from cldrank.experiment.makers import import_what_is_needed, make_method
from cldrank.safety import UnsafeError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import Propensities


@dataclass(frozen=True)
class UnitTask:
    """What a process has to do: a unit, or the tuning that comes before some.

    tuned   the parameters that tuning chose
    tunes   whether it is the tuning
    """

    key: str
    group: str
    fold: Fold
    configuration: str
    device: str | None = None
    tuned: Mapping[str, Any] = field(default_factory=dict)
    tunes: bool = False

    @property
    def in_loop(self) -> bool:
        """Whether it is a round of a loop."""
        return "loop" in json.loads(self.configuration)

    def make(self, tuned: Mapping[str, Any]) -> Any:
        """The estimator, with parameters from tuning."""
        method = json.loads(self.configuration)["method"]
        where = {} if self.device is None else {"device": self.device}
        return make_method(method["class"], {**method["parameters"], **where, **tuned})


@dataclass(frozen=True)
class UnitOutcome:
    """The outcome: values by measure, or what tuning chose, or an error."""

    values: Mapping[str, float] = field(default_factory=dict)
    tuned: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_mib: float = float("nan")
    synthetic: bool = False


def execute(task: UnitTask) -> UnitOutcome:
    """Do a task; whatever goes wrong is part of the outcome."""
    try:
        return _tune(task) if task.tunes else _fit(task)
    except CldrankError as error:
        return UnitOutcome(error=f"{type(error).__name__}: {error}", synthetic=task.fold.made is not None)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return UnitOutcome(error=text, synthetic=task.fold.made is not None)


def _fit(task: UnitTask) -> UnitOutcome:
    from cldrank.evaluation import evaluate

    described = json.loads(task.configuration)
    train, test = _load(task.fold)
    learned = _round(task.fold, task.configuration, task.device) if "loop" in described else _learned(task, described)
    result = evaluate(learned.model, test, described["measures"], replicates=1)
    return UnitOutcome(
        values={measure: result[measure] for measure in described["measures"]},
        tuned=task.tuned,
        warnings=learned.warnings,
        seconds=learned.seconds,
        peak_mib=learned.peak_mib,
        synthetic=train.synthetic or test.synthetic,
    )


class Learned(NamedTuple):
    """A model after its fit, the clicks that it saw, if any, and what the fit took."""

    model: Any
    clicks: Any
    warnings: tuple[str, ...]
    seconds: float
    peak_mib: float


def _learned(task: UnitTask, described: Mapping[str, Any]) -> Learned:
    train, _ = _load(task.fold)
    clicks, propensities = _observed(task, described)
    method = described["method"]
    model = task.make(task.tuned)
    refused: tuple[str, ...] = ()
    import_what_is_needed(method["class"], method["parameters"])  # so that imports do not count as time of the fit
    _forget_peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(train, clicks, propensities)
        except UnsafeError as error:
            model, refused = _deployed(task, described), (f"{type(error).__name__}: {error}",)
        seconds = time.perf_counter() - start
    texts = dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught)
    return Learned(model, clicks, (*texts, *refused), seconds, _peak())


def _deployed(task: UnitTask, described: Mapping[str, Any]) -> Any:
    """The ranker whose pages people saw last, which stays where no other is safe."""
    rounds = described.get("loop", {"rounds": 1})["rounds"]
    if rounds == 1:
        return _production(task.fold, canonical(described["production"]), described["seed"])
    return _round(task.fold, canonical({**described, "loop": {"rounds": rounds - 1}}), task.device).model


def _tune(task: UnitTask) -> UnitOutcome:
    from cldrank.tuning import grid

    described = json.loads(task.configuration)
    train, _ = _load(task.fold)
    clicks, propensities = _observed(task, described)
    how = described["tuning"]
    rho = propensities or _propensities(described["simulation"]["eta"], clicks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trials = grid(task.make, how["grid"], train, clicks, rho, held_out=how["held_out"])
    return UnitOutcome(tuned=trials[0].parameters)


# -- what units share --------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _load(fold: Fold) -> tuple[RankingDataset, RankingDataset]:
    return fold.load()


@lru_cache(maxsize=2)
def _production(fold: Fold, production: str, seed: int) -> Any:
    """The production ranker."""
    train, _ = _load(fold)
    return make_method("svm-rank", {"seed": seed, **json.loads(production)}).fit(train)


@lru_cache(maxsize=2)
def _clicks(fold: Fold, production: str, simulation: str, seed: int) -> ClickTable:
    scores = _production(fold, production, seed).predict(_load(fold)[0])
    return _drawn(fold, scores, json.loads(simulation), seed)


def _drawn(fold: Fold, scores: Any, simulation: Mapping[str, Any], seed: int) -> ClickTable:
    """The clicks on the pages of a ranker that gives the training rows these scores."""
    from cldrank.clicks.simulate import PositionBased, Simulation, TopK

    train, _ = _load(fold)
    return Simulation(
        train,
        scores,
        model=PositionBased(eta=simulation["eta"], noise=simulation["noise"]),
        policy=TopK(),
        depth=simulation["depth"],
        relevant_from=simulation["relevant_from"],
    ).draw(simulation["sessions"], seed=seed)


def _observed(task: UnitTask, described: Mapping[str, Any]) -> tuple[Any, Any]:
    """The clicks and the propensities that a method sees, or None."""
    if "simulation" not in described:
        return None, None
    clicks = _log(task.fold, described, task.device)
    if "propensities" not in described:
        return clicks, None
    return clicks, _propensities(described["propensities"]["eta"], clicks)


def _log(fold: Fold, described: Mapping[str, Any], device: str | None) -> ClickTable:
    """All clicks so far: on the pages of the production ranker; in a loop, then on those of each ranker deployed."""
    rounds = described.get("loop", {"rounds": 1})["rounds"]
    simulation, seed = described["simulation"], described["seed"]
    if rounds == 1:
        return _clicks(fold, canonical(described["production"]), canonical(simulation), seed)
    from cldrank.evaluation import scores_of

    before = _round(fold, canonical({**described, "loop": {"rounds": rounds - 1}}), device)
    scores = scores_of(before.model, _load(fold)[0])
    new: ClickTable = before.clicks.merge(_drawn(fold, scores, simulation, _seed_of_round(seed, rounds)))
    return new


@lru_cache(maxsize=4)
def _round(fold: Fold, configuration: str, device: str | None) -> Learned:
    """A round of a loop. Its unit computes it, the next round begins with it; if it is not at hand, it is made anew."""
    return _learned(UnitTask("", "", fold, configuration, device), json.loads(configuration))


def _seed_of_round(seed: int, number: int) -> int:
    """The seed of the clicks of a round: the same for all methods, so that their users draw the same queries."""
    import numpy as np

    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _propensities(eta: float, clicks: ClickTable) -> Propensities:
    from cldrank.propensity import Propensities

    return Propensities.power(eta, max(clicks.depth, 1))


# -- memory ------------------------------------------------------------------------------------------------------


def _forget_peak() -> None:
    """Measure the peak of this process's memory anew from now on, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak() -> float:
    """The peak of this process's memory in MiB: since `_forget_peak` on Linux, else since it started."""
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # on Windows
        return float("nan")
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20) if sys.platform == "darwin" else most / 1024
