"""The work of one unit: clicks, a fit, its measures. What units share is kept from one to the next."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.decoding import canonical, plain
from cldrank.errors import CldrankError, DataError
from cldrank.evaluation import evaluate, scores_of
from cldrank.experiment.datasets import Fold
from cldrank.experiment.makers import import_what_is_needed, make_method
from cldrank.propensity import Propensities
from cldrank.runs import Outcome
from cldrank.safety import UnsafeError


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

    @property
    def rounds(self) -> int:
        """The round of a loop that it is; 1 where there is none."""
        return int(self.described.get("loop", {"rounds": 1})["rounds"])

    @property
    def before(self) -> UnitFit:
        """The round before it."""
        earlier = {**self.described, "loop": {"rounds": self.rounds - 1}}
        return replace(self, configuration=canonical(earlier))


class Learned(NamedTuple):
    """A model after its fit, the clicks that it saw, if any, and what the fit took."""

    model: Any
    clicks: Any
    warnings: tuple[str, ...]
    seconds: float


def fit_unit(fit: UnitFit, origin: Mapping[str, str], folder: Path) -> Outcome:
    """Fit a method and measure it; whatever goes wrong is part of the outcome.

    origin   what the record says about where the result comes from
    """
    del folder  # all there is goes into the record
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
    train, test = _load(fit.fold)
    learned = _round(fit) if "loop" in fit.described else _learned(fit)
    measures = fit.described["measures"]
    result = evaluate(learned.model, test, measures)
    values = plain({measure: result[measure] for measure in measures})
    for measure, value in values.items():
        if value is None:
            raise DataError(f"{measure} is {result[measure]}, although the fit succeeded.")
    return {
        "values": values,
        "warnings": list(learned.warnings),
        "seconds": learned.seconds,
        "synthetic": train.synthetic or test.synthetic,
    }


def _learned(fit: UnitFit) -> Learned:
    clicks, propensities = None, None
    if "simulation" in fit.described:
        clicks = _log(fit)
    if clicks is not None and "propensities" in fit.described:  # trusted, as a wrong eta may be the point
        propensities = Propensities.power(fit.described["propensities"]["eta"], max(clicks.depth, 1)).trusted()
    method = fit.described["method"]
    where = {} if fit.device is None else {"device": fit.device}
    model = make_method(method["class"], {**method["parameters"], **where})
    refused: tuple[str, ...] = ()
    train, _ = _load(fit.fold)
    import_what_is_needed(model)  # so that imports do not count as time of the fit
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            model.fit(train, clicks, propensities)
        except UnsafeError as error:  # the ranker whose pages people saw last stays
            model = _production(fit) if fit.rounds == 1 else _round(fit.before).model
            refused = (f"{type(error).__name__}: {error}",)
        seconds = time.perf_counter() - start
    texts = dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught)
    return Learned(model, clicks, (*texts, *refused), seconds)


# -- what units share --------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _load(fold: Fold) -> tuple[RankingDataset, RankingDataset]:
    return fold.load()


@lru_cache(maxsize=4)
def _round(fit: UnitFit) -> Learned:
    """A round of a loop. Its unit computes it, the next round begins with it; if it is not at hand, it is made anew."""
    return _learned(fit)


def _production(fit: UnitFit) -> Any:
    return _svm_rank(fit.fold, canonical(fit.described["production"]), fit.described["seed"])


@lru_cache(maxsize=2)
def _svm_rank(fold: Fold, production: str, seed: int) -> Any:
    """The production ranker."""
    return make_method("svm-rank", {"seed": seed, **json.loads(production)}).fit(_load(fold)[0])


def _log(fit: UnitFit) -> ClickTable:
    """All clicks so far: on the pages of the production ranker; in a loop, then on those of each ranker deployed."""
    production, simulation = (canonical(fit.described[name]) for name in ("production", "simulation"))
    if fit.rounds == 1:
        return _first_clicks(fit.fold, production, simulation, fit.described["seed"])
    before = _round(fit.before)
    scores = scores_of(before.model, _load(fit.fold)[0])
    # the same for all methods, so that their users draw the same queries
    seed = int(np.random.SeedSequence([fit.described["seed"], fit.rounds]).generate_state(1)[0])
    new: ClickTable = before.clicks.merge(_drawn(fit.fold, scores, simulation, seed))
    return new


@lru_cache(maxsize=2)
def _first_clicks(fold: Fold, production: str, simulation: str, seed: int) -> ClickTable:
    return _drawn(fold, _svm_rank(fold, production, seed).predict(_load(fold)[0]), simulation, seed)


def _drawn(fold: Fold, scores: Any, simulation: str, seed: int) -> ClickTable:
    """The clicks on the pages of a ranker that gives the training rows these scores."""
    chosen = json.loads(simulation)
    return Simulation(
        _load(fold)[0],
        scores,
        model=PositionBased(eta=chosen["eta"], noise=chosen["noise"]),
        policy=TopK(),
        depth=chosen["depth"],
        relevant_from=chosen["relevant_from"],
    ).draw(chosen["sessions"], seed=seed)
