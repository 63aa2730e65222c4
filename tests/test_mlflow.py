"""What `cldrank.mlflow` does without MLflow; docs/how-to/registries.md logs, registers and loads with it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import made_rankers
import pytest

import cldrank as cr
from cldrank import mlflow
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.rankers import BlendRanker


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cldrank\[mlflow\]'"):
        mlflow.log_model(made_rankers.linear())


def test_what_is_loaded_scores_as_what_was_saved(tmp_path: Path) -> None:
    made_rankers.linear().save(tmp_path / "ranker")
    scores = mlflow._load_pyfunc(str(tmp_path / "ranker")).predict(made_rankers.FEATURES)
    assert (scores == made_rankers.linear().predict(made_rankers.FEATURES)).all()


def test_a_comparison_of_several_is_refused() -> None:
    data = cr.RankingDataset.from_arrays([[1], [0]] * 2, [1, 1, 2, 2], labels=[1, 0, 0, 1])
    several = cr.compare({"a": [1, 0, 0, 1], "b": [0, 1, 1, 0]}, [1, 0, 1, 0], data, "RR")
    with pytest.raises(UsageError, match="of several rankers"):
        mlflow.log_model(made_rankers.linear(), several)


def test_names_of_measures_are_what_mlflow_takes() -> None:
    data = cr.RankingDataset.from_arrays([[1], [0]] * 2, [1, 1, 2, 2], labels=[2, 0, 0, 2])
    told: dict[str, float] = {}
    stand_in = SimpleNamespace(log_text=lambda *_: None, set_tag=lambda *_: None, log_metrics=told.update)
    mlflow._log_comparison(stand_in, cr.compare([1, 0, 0, 1], [1, 0, 1, 0], data, "AP(rel=2)@5,RR"))
    assert {"AP_rel_2__at_5.difference", "RR.low"} <= {*told}


def test_trees_need_their_extra_wherever_they_are() -> None:
    linear, trees = made_rankers.linear(), made_rankers.trees()
    blend = BlendRanker(feature_names=linear.feature_names, members=[linear, trees], weights=[1.0, 1.0])
    assert [mlflow._has_trees(one) for one in (linear, trees, blend)] == [False, True, True]
