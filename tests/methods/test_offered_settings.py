"""Whatever a command offers of a method can be fitted with; whatever has no effect is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import Scene, scene
from small_models import stop_after

import cldrank as cr
from cldrank.errors import CldrankWarning, ConvergenceWarning, UsageError
from cldrank.methods import Method, methods
from cldrank.methods.evidence import needed
from cldrank.methods.registry import configured, settings_of, usable_models
from cldrank.models import MLP, Linear, Run, models

SCENE = scene(0, queries=30)
QUICK: dict[str, Any] = {"epochs": 1, "hidden": (4,), "fraction": 1.0}
EVERY = [(kind, model) for kind in methods().values() for model in usable_models(kind)]
FITTED = [(cr.CLD, "linear"), (cr.IPS, "mlp"), (cr.CLDPair, "trees"), (cr.RankAgg, "linear"), (cr.SVMRank, "linear")]


def others(folder: Path) -> dict[str, Any]:
    """Parameters of a run that are not its defaults and do no harm; `resume` needs an earlier fit: tests/models."""
    return {
        "device": "cpu",
        "checkpoint": folder / "state.safetensors",
        "resident": True,
        "on_epoch": lambda _: None,
        "block_rows": 64,
        "seed": 5,
    }


def fitted(method: Method, given: Scene = SCENE) -> Method:
    labels = np.arange(given.data.n_rows) % 3
    data = cr.RankingDataset.from_arrays(given.data.features, given.data.row_queries, labels=labels)
    return method.fit(data, *needed(method.required, given.clicks, given.propensities))


def quick(kind: type[Method], model: str, settings: dict[str, Any]) -> Method:
    own = {name: value for name, value in QUICK.items() if name in settings_of(kind, models()[model])}
    return configured(kind, {"model": model, **own, **settings})


@pytest.mark.parametrize(("kind", "model"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_what_a_run_offers_without_effect_is_refused(kind: type[Method], model: str, tmp_path: Path) -> None:
    unused = kind.unheeded(models()[model])
    for name, other in others(tmp_path).items():
        method = quick(kind, model, {name: other})
        if name in unused:
            with pytest.raises(UsageError, match=f"`{name}`"):
                method.check()
        else:
            method.check()


@pytest.mark.filterwarnings("ignore::cldrank.errors.CldrankWarning")
@pytest.mark.parametrize(("kind", "model"), FITTED, ids=lambda value: getattr(value, "name", value))
def test_what_a_run_offers_is_used(kind: type[Method], model: str, tmp_path: Path) -> None:
    settings = {name: other for name, other in others(tmp_path).items() if name not in kind.unheeded(models()[model])}
    assert fitted(quick(kind, model, settings)).status_ in ("converged", "completed", "early_stopped")


class TestWarnings:
    """A warning names the line that called cldrank, not one inside it."""

    @pytest.mark.parametrize(
        "method",
        [
            cr.CLD(model=Linear(max_steps=1)),
            cr.HeckmanRank(model=Linear(max_steps=1)),
            cr.RankAgg(model=MLP(epochs=2, hidden=(4,)), run=Run(on_epoch=stop_after(1))),
        ],
        ids=lambda method: type(method).__name__,
    )
    def test_its_place(self, method: Method) -> None:
        with pytest.warns(ConvergenceWarning) as caught:
            fitted(method)
        assert Path(caught.pop(ConvergenceWarning).filename).name == Path(__file__).name

    def test_refuted_propensities_are_warned_of_once(self) -> None:
        low, log = cr.Propensities(np.array([1.0, 0.1, 0.01]), "given"), SCENE.clicks
        many = replace(log, impressions=100 * log.impressions, clicks=100 * log.clicks)
        with pytest.warns(CldrankWarning, match="the clicks refute") as caught:
            fitted(cr.RankAgg(model=Linear()), SCENE._replace(clicks=many, propensities=low))
        assert sum("refute" in str(one.message) for one in caught) == 1
