"""Whatever a command offers of a method can be fitted with; whatever has no effect is refused by name."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import Scene, scene

import cldrank as cr
from cldrank.errors import CldrankWarning, ConvergenceWarning, UsageError
from cldrank.methods import Method, methods
from cldrank.methods.evidence import needed
from cldrank.methods.registry import configured, settings_of, usable_models
from cldrank.models import MLP, Linear, Model, Run, models
from cldrank.parameters import Parameter

SCENE = scene(0, queries=30)
QUICK: dict[str, Any] = {"epochs": 1, "hidden": (4,), "fraction": 1.0}
EVERY = [(kind, model) for kind in methods().values() for model in usable_models(kind)]


def another(one: Parameter, folder: Path) -> Any:
    """A value that is not the default and does no harm."""
    named = {
        "device": "cpu",
        "checkpoint": folder / "state.safetensors",
        "resident": True,
        "on_epoch": lambda _: None,
        "block_rows": 64,
        "seed": 5,
    }
    return named[one.name]


def fitted(method: Method, given: Scene = SCENE) -> Method:
    labels = np.arange(given.data.n_rows) % 3
    data = cr.RankingDataset.from_arrays(given.data.features, given.data.row_queries, labels=labels)
    curve = given.propensities
    return method.fit(data, *needed(method.required, given.clicks, curve))


@pytest.mark.filterwarnings("ignore::cldrank.errors.CldrankWarning")
@pytest.mark.parametrize(("kind", "model"), EVERY, ids=lambda one: getattr(one, "name", one))
def test_what_a_run_offers_is_used_or_refused(kind: type[Method], model: str, tmp_path: Path) -> None:
    from cldrank.parameters import parameters

    chosen: type[Model] = models()[model]
    quick = {name: value for name, value in QUICK.items() if name in settings_of(kind, chosen)}
    unused = kind.unheeded(chosen)
    for name, one in parameters(Run).items():
        if name == "resume":  # it needs an earlier fit: tests/models
            continue
        settings = {"model": model, **quick, name: another(one, tmp_path)}
        if name in unused:
            with pytest.raises(UsageError, match=f"`{name}`, as it fits"):
                fitted(configured(kind, settings))
        else:
            assert fitted(configured(kind, settings)).status_ in ("converged", "completed", "early_stopped")


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (cr.IPS(model=Linear(max_steps=1)), "max_steps"),
        (cr.CLD(unshown_ratio=2.0), "unshown_ratio"),
        (cr.SVMRank(model=Linear(l2=0.1)), "l2"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_a_model_does_not_heed_is_refused_and_not_offered(method: Method, name: str) -> None:
    assert name in method.unheeded(type(method.model))
    with pytest.raises(UsageError, match=f"has no use for `{name}`"):
        method.check()


class TestWarnings:
    """A warning names the line that called cldrank, not one inside it."""

    @pytest.mark.parametrize(
        "method",
        [
            cr.CLD(model=Linear(max_steps=1)),
            cr.HeckmanRank(model=Linear(max_steps=1)),
            cr.PIJD(model=Linear(max_steps=1)),
            cr.RankAgg(model=MLP(epochs=2, hidden=(4,)), run=Run(on_epoch=lambda epoch: _interrupt(epoch.number))),
        ],
        ids=lambda method: type(method).__name__,
    )
    def test_its_place(self, method: Method) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(method)
        own = [one for one in caught if issubclass(one.category, ConvergenceWarning)]
        assert own
        assert {Path(one.filename).name for one in own} == {Path(__file__).name}

    def test_refuted_propensities_are_warned_of_once(self) -> None:
        low, log = cr.Propensities(np.array([1.0, 0.1, 0.01]), "given"), SCENE.clicks
        many = replace(log, impressions=100 * log.impressions, clicks=100 * log.clicks)
        with pytest.warns(CldrankWarning, match="the clicks refute") as caught:
            fitted(cr.RankAgg(model=Linear()), SCENE._replace(clicks=many, propensities=low))
        assert sum("refute" in str(one.message) for one in caught) == 1


def _interrupt(number: int) -> None:
    if number == 1:
        raise KeyboardInterrupt
