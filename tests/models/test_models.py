"""Models by name, and what they can be fitted to."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from cldrank.data.dataset import RankingDataset
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.methods import Naive, Oracle
from cldrank.models import MLP, Linear, Model, Run, models

DATA = RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], labels=[0, 1, 0, 1])


def test_models_by_name() -> None:
    assert (models()["linear"], models()["mlp"]) == (Linear, MLP)
    assert all(kind.name == name for name, kind in models().items())


@pytest.mark.parametrize("way", ["fit_targets", "fit_points", "fit_pairs"])
def test_a_kind_knows_its_ways(way: str) -> None:
    assert [way in kind.heeds for kind in (Linear, MLP, Model)] == [True, True, False]


def test_a_model_that_implements_nothing_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"Oracle cannot be fitted with Model\(\); choose another model"):
        Oracle(model=Model()).fit(DATA)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("cldrank.models.model.find_spec", lambda name: None if name == "torch" else found(name))
    with pytest.raises(MissingDependencyError, match=r"needs torch: pip install 'cldrank\[neural\]'"):
        Oracle(model=MLP()).fit(DATA)
    assert Oracle().fit(DATA).status_ == "converged"
    assert Naive().model == Linear()


def test_resuming_needs_a_checkpoint() -> None:
    with pytest.raises(UsageError, match="`resume`.*`checkpoint`"):
        Run(resume=True)


def test_files_and_listeners_do_not_make_it_another_run() -> None:
    plain, busy = Run(seed=3), Run(seed=3, checkpoint=Path("state"), on_epoch=print)
    assert plain == busy
    assert repr(busy) == "Run(seed=3)"
    assert Run(seed=3, checkpoint="state", resume=True) == plain
    assert Run(seed=3, device="cpu") != plain
