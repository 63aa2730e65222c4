"""The work of a unit: clicks, a fit, its measures. What units share stays in a cache."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.decoding import canonical, plain
from cldrank.errors import CldrankError, DataError
from cldrank.evaluation import evaluate
from cldrank.experiment.datasets import Fold
from cldrank.experiment.makers import import_what_is_needed, make_method
from cldrank.propensity import Propensities
from cldrank.runs import Outcome


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


# -- what units share --------------------------------------------------------------------------------------------


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
