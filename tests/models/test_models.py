"""Models by name, and what they can be fitted to."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from cldrank.data.dataset import RankingDataset
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.methods import Naive, Oracle, SVMRank
from cldrank.models import MLP, Linear, Model, TorchModule, models
from cldrank.models.model import can

DATA = RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], labels=[0, 1, 0, 1])


def test_models_by_name() -> None:
    assert {name: kind for name, kind in models().items() if name in ("linear", "mlp")} == {
        "linear": Linear,
        "mlp": MLP,
    }
    assert TorchModule not in models().values()  # a module cannot be named in a file
    assert all(kind.name == name for name, kind in models().items())


@pytest.mark.parametrize("way", ["fit_targets", "fit_points", "fit_pairs"])
def test_a_kind_can_what_it_implements(way: str) -> None:
    assert [can(kind, way) for kind in (Linear, MLP, TorchModule, Model)] == [True, True, True, False]


def test_a_model_that_implements_nothing_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"Oracle cannot be fitted with Model\(\); choose another model"):
        Oracle(model=Model()).fit(DATA)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (Oracle(model=Linear(fit_intercept=False)), "fit_intercept"),
        (Oracle(model=Linear(max_steps=1)), "max_steps"),
        (Oracle(model=Linear(tolerance=0.5)), "tolerance"),
        (SVMRank(model=Linear(l2=0.5), fraction=1.0), "l2"),
        (SVMRank(model=Linear(cluster="query"), fraction=1.0), "cluster"),
    ],
)
def test_parameters_that_the_fit_has_no_use_for_are_refused(method: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"{method.label} has no use for `{name}`, as it fits a linear model"):
        method.fit(DATA)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("cldrank.models.model.find_spec", lambda name: None if name == "torch" else found(name))
    for method in (Oracle(model=MLP()), Oracle(model=TorchModule())):
        with pytest.raises(MissingDependencyError, match=r"needs torch: pip install 'cldrank\[neural\]'"):
            method.fit(DATA)
    assert Oracle().fit(DATA).status_ == "converged"
    assert Naive().model == Linear()
