"""The method and the model that `auto` chooses: each rule is reached by a small log, and labels change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import DataError, MissingDependencyError, UsageError
from cldrank.method_choice import METHOD_RULES, MODEL_RULES
from cldrank.propensity import AffineClicks, SegmentPropensities

STEEP = cr.Propensities.power(1, 3)


def log(queries: int = 40, depth: int = 3, *, moving: bool = False, labels: Any = None, **more: Any) -> Any:
    """Six candidates of each query, of which `depth` were shown, `moving` ones at all positions, and their clicks."""
    random = np.random.default_rng(0)
    features = random.normal(size=(queries * 6, 2))
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(queries), 6), labels)
    rows = (np.arange(queries)[:, None] * 6 + np.arange(depth)).ravel()
    position = np.tile(np.arange(1, depth + 1), queries)
    if moving:
        rows, position = np.repeat(rows, depth), np.tile(np.arange(1, depth + 1), queries * depth)
    chance = np.where(features[rows, 0] > 0, 0.8, 0.3) / position
    shown = {"row": rows, "position": position, "impressions": np.full(len(rows), 300)}
    return data, cr.ClickTable.from_arrays(data, **shown, clicks=random.binomial(300, chance), **more)


def auto(scene: Any, curve: Any = None, **more: Any) -> Any:
    """What is chosen for a log."""
    data, clicks = scene
    return cr.auto(data, clicks, curve, **more)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let only some packages seem installed."""

    def seem(*packages: str) -> None:
        for place in ("cldrank.method_choice.find_spec", "cldrank.models.model.find_spec"):
            monkeypatch.setattr(place, lambda name: name if name in packages else None)

    return seem


@pytest.mark.parametrize(
    ("shown", "curve", "expected"),
    [
        (3, STEEP, "cld-pair"),
        (3, cr.Propensities.power(0.1, 3), "cld-pair"),  # what was not shown is still to be corrected
        (6, cr.Propensities.power(1, 6), "ips"),
        (6, cr.Propensities.power(0.1, 6), "naive"),
        (3, AffineClicks.of(examined=STEEP.values, relevant=0.9, irrelevant=0.2), "affine-ips"),
    ],
)
def test_the_log_decides_the_method(shown: int, curve: Any, expected: str) -> None:
    choice = auto(log(depth=shown), curve)
    assert choice.method.name == expected
    assert choice.propensities is curve


@pytest.mark.parametrize(
    ("packages", "queries", "engine", "expected"),
    [
        (("xgboost", "torch"), 400, (), "trees"),
        (("torch",), 400, (), "mlp"),
        (("torch",), 399, (), "linear"),
        (("torch",), 400, ["onnx", "solr"], "linear"),
        (("torch",), 400, ["onnx", "vespa"], "mlp"),
        ((), 400, "opensearch", "linear"),
    ],
)
def test_packages_queries_and_engines_decide_the_model(
    only: Any, packages: tuple[str, ...], queries: int, engine: Any, expected: str
) -> None:
    only(*packages)
    method = auto(log(queries), STEEP, export_to=engine, run=cr.Run(seed=3)).method
    assert (method.model.name, method.run.seed) == (expected, 3)


def test_only_trees_take_gaps_and_suit_elasticsearch(only: Any) -> None:
    data, clicks = log()
    gaps = data.features.copy()
    gaps[0, 0] = np.nan
    with_gaps = cr.RankingDataset.from_arrays(gaps, np.repeat(np.arange(40), 6), missing="keep")
    assert cr.auto(with_gaps, clicks, STEEP).method.model == cr.Trees()
    only("torch")
    for dataset, engine in ((with_gaps, ()), (data, "elasticsearch")):
        with pytest.raises(MissingDependencyError, match="boosted trees needs? xgboost: pip install") as refused:
            cr.auto(dataset, clicks, STEEP, export_to=engine)
        assert "or choose" not in str(refused.value)


def test_propensities_are_estimated_where_the_log_identifies_them() -> None:
    choice = auto(log(moving=True))
    assert "the estimate of " in choice.reason
    np.testing.assert_allclose(choice.propensities.values, STEEP.values, rtol=0.1)
    assert choice.propensities.is_trusted
    curves = auto(log(moving=True, segment=np.repeat(["phone", "desktop"], 180))).propensities
    assert isinstance(curves, SegmentPropensities)
    assert sorted(curves) == ["desktop", "phone"]


@pytest.mark.parametrize(
    "scene", [log(), log(moving=True, segment=["phone", "desktop"] * 180)], ids=["fixed order", "too little by segment"]
)
def test_propensities_are_assumed_otherwise_and_held_to_the_clicks(scene: Any) -> None:
    choice = auto(scene)
    np.testing.assert_array_equal(choice.propensities.values, STEEP.values)
    assert "an assumed power:1.0, held to the clicks" in choice.reason
    assert choice.method.envelope == "raise"


@pytest.mark.parametrize("curve", [STEEP, None])
def test_the_reason_is_two_sentences_with_the_facts(curve: Any) -> None:
    data, clicks = log()
    counts = np.where(clicks.row < 6, 0, clicks.clicks)  # of the first query none
    shown = {name: getattr(clicks, name) for name in ("row", "position", "impressions")}
    reason = cr.auto(data, cr.ClickTable.from_arrays(data, **shown, clicks=counts), curve, export_to="solr").reason
    method, model = reason.removesuffix(".").split(". ")
    assert reason.endswith(".")
    assert method.startswith("CLD-pair, since less than 95% of the candidates were shown (50%; by ")
    assert method.endswith(f", 61% of the impressions are examined); {METHOD_RULES[-1].beside}")
    assert (
        model == f"Boosted trees for Solr, since XGBoost is installed (39 queries with clicks); {MODEL_RULES[0].beside}"
    )


def test_labels_change_nothing() -> None:
    plain = auto(log(moving=True))
    labelled = auto(log(moving=True, labels=np.random.default_rng(1).integers(0, 5, 240)))
    assert (labelled.reason, repr(labelled.method)) == (plain.reason, repr(plain.method))
    np.testing.assert_array_equal(labelled.propensities.values, plain.propensities.values)


def test_what_does_not_fit_is_refused() -> None:
    data, clicks = log()
    with pytest.raises(UsageError, match="`export_to` takes elasticsearch"):
        cr.auto(data, clicks, export_to="lucene")
    none = cr.ClickTable.from_arrays(data, row=[0, 1], position=[1, 2], impressions=[9, 9], clicks=[0, 0])
    with pytest.raises(DataError, match="auto cannot learn"):
        cr.auto(data, none)
    with pytest.raises(UsageError, match="auto needs `clicks`"):
        cr.auto(data, "log.parquet")  # type: ignore[arg-type]
