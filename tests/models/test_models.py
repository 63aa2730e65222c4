"""Models by name, and what they can be fitted to."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from cldrank.data.dataset import RankingDataset
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.methods import Naive, Oracle, SVMRank
from cldrank.models import MLP, Linear, Model, models

DATA = RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], labels=[0, 1, 0, 1])


def test_models_by_name() -> None:
    assert {name: kind for name, kind in models().items() if name in ("linear", "mlp")} == {
        "linear": Linear,
        "mlp": MLP,
    }
    assert all(kind.name == name for name, kind in models().items())


@pytest.mark.parametrize("way", ["fit_targets", "fit_points", "fit_pairs"])
def test_a_kind_knows_its_ways(way: str) -> None:
    assert [way in kind.heeds for kind in (Linear, MLP, Model)] == [True, True, False]


def test_a_model_that_implements_nothing_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"Oracle cannot be fitted with Model\(\); choose another model"):
        Oracle(model=Model()).fit(DATA)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (Oracle(model=Linear(max_steps=1)), "max_steps"),
        (SVMRank(model=Linear(l2=0.5), fraction=1.0), "l2"),
    ],
)
def test_parameters_that_the_fit_has_no_use_for_are_refused(method: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"{method.label} has no use for `{name}`, as it fits a linear model"):
        method.fit(DATA)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("cldrank.models.model.find_spec", lambda name: None if name == "torch" else found(name))
    with pytest.raises(MissingDependencyError, match=r"needs torch: pip install 'cldrank\[neural\]'"):
        Oracle(model=MLP()).fit(DATA)
    assert Oracle().fit(DATA).status_ == "converged"
    assert Naive().model == Linear()
