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

from cldrank.decoding import canonical, plain
from cldrank.errors import CldrankError, DataError
from cldrank.experiment.datasets import Fold
from cldrank.experiment.makers import import_what_is_needed, make_method
from cldrank.runs import Outcome
from cldrank.safety import UnsafeError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import Propensities


@dataclass(frozen=True)
class FitWork:
    """What a process has to know of a unit.

    configuration   all that decides the result, as canonical JSON
    device          where it is done, if its method has a choice
    origin          what the record says about where the result comes from
    """

    fold: Fold
    configuration: str
    device: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)


class Learned(NamedTuple):
    """A model after its fit, the clicks that it saw, if any, and what the fit took."""

    model: Any
    clicks: Any
    warnings: tuple[str, ...]
    seconds: float


def fit_unit(work: FitWork, folder: Path) -> Outcome:
    """Fit a method and measure it; whatever goes wrong is part of the outcome."""
    del folder  # all there is goes into the record
    facts = {"origin": dict(work.origin), "synthetic": work.fold.made is not None}
    try:
        return Outcome(facts={**facts, **_measured(work)})
    except CldrankError as error:
        return Outcome(error=f"{type(error).__name__}: {error}", facts=facts)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return Outcome(error=text, facts=facts)


def _measured(work: FitWork) -> dict[str, Any]:
    from cldrank.evaluation import evaluate

    described = json.loads(work.configuration)
    train, test = _load(work.fold)
    learned = _round(work.fold, work.configuration, work.device) if "loop" in described else _learned(work)
    result = evaluate(learned.model, test, described["measures"], replicates=1)
    values = plain({measure: result[measure] for measure in described["measures"]})
    for measure, value in values.items():
        if value is None:
            raise DataError(f"{measure} is {result[measure]}, although the fit succeeded.")
    return {
        "values": values,
        "warnings": list(learned.warnings),
        "seconds": learned.seconds,
        "synthetic": train.synthetic or test.synthetic,
    }


def _learned(work: FitWork) -> Learned:
    described = json.loads(work.configuration)
    train, _ = _load(work.fold)
    clicks, propensities = _observed(work, described)
    method = described["method"]
    where = {} if work.device is None else {"device": work.device}
    model = make_method(method["class"], {**method["parameters"], **where})
    refused: tuple[str, ...] = ()
    import_what_is_needed(method["class"], method["parameters"])  # so that imports do not count as time of the fit
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(train, clicks, propensities)
        except UnsafeError as error:
            model, refused = _deployed(work, described), (f"{type(error).__name__}: {error}",)
        seconds = time.perf_counter() - start
    texts = dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught)
    return Learned(model, clicks, (*texts, *refused), seconds)


def _deployed(work: FitWork, described: Mapping[str, Any]) -> Any:
    """The ranker whose pages people saw last, which stays where no other is safe."""
    rounds = described.get("loop", {"rounds": 1})["rounds"]
    if rounds == 1:
        return _production(work.fold, canonical(described["production"]), described["seed"])
    return _round(work.fold, canonical({**described, "loop": {"rounds": rounds - 1}}), work.device).model


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


def _observed(work: FitWork, described: Mapping[str, Any]) -> tuple[Any, Any]:
    """The clicks and the propensities that a method sees, or None."""
    if "simulation" not in described:
        return None, None
    clicks = _log(work.fold, described, work.device)
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
    return _learned(FitWork(fold, configuration, device))


def _seed_of_round(seed: int, number: int) -> int:
    """The seed of the clicks of a round: the same for all methods, so that their users draw the same queries."""
    import numpy as np

    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _propensities(eta: float, clicks: ClickTable) -> Propensities:
    from cldrank.propensity import Propensities

    return Propensities.power(eta, max(clicks.depth, 1)).trusted()  # a wrong eta may be the point
