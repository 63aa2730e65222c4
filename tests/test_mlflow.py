"""What `cldrank.mlflow` does without MLflow; docs/how-to/registries.md logs, registers and loads with it."""

from __future__ import annotations

import sys
from pathlib import Path

import made_rankers
import pytest

from cldrank import mlflow
from cldrank.errors import MissingDependencyError
from cldrank.rankers import BlendRanker


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cldrank\[mlflow\]'"):
        mlflow.log_model(made_rankers.linear())


def test_what_is_loaded_scores_as_what_was_saved(tmp_path: Path) -> None:
    made_rankers.linear().save(tmp_path / "ranker")
    scores = mlflow._load_pyfunc(str(tmp_path / "ranker")).predict(made_rankers.FEATURES)
    assert (scores == made_rankers.linear().predict(made_rankers.FEATURES)).all()


def test_trees_need_their_extra_wherever_they_are() -> None:
    linear, trees = made_rankers.linear(), made_rankers.trees()
    blend = BlendRanker(feature_names=linear.feature_names, members=[linear, trees], weights=[1.0, 1.0])
    assert [mlflow._has_trees(one) for one in (linear, trees, blend)] == [False, True, True]
