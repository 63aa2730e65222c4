"""The method and the model that `auto` chooses: each rule is reached by a small log, and labels change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import DataError, MissingDependencyError, UsageError
from cldrank.method_choice import METHOD_RULES, MODEL_RULES
from cldrank.propensity import AffineClicks, SegmentPropensities

FLAT = cr.Propensities([1.0, 0.9, 0.8])
STEEP = cr.Propensities.power(1, 3)


def log(queries: int = 40, size: int = 6, depth: int = 3, *, moving: bool = False, **more: Any) -> Any:
    """Candidates of which `depth` were shown, and their clicks; `moving` ones at all positions."""
    random = np.random.default_rng(0)
    features = random.normal(size=(queries * size, 2))
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(queries), size))
    rows = (np.arange(queries)[:, None] * size + np.arange(depth)).ravel()
    position = np.tile(np.arange(1, depth + 1), queries)
    if moving:
        rows, position = np.repeat(rows, depth), np.tile(np.arange(1, depth + 1), queries * depth)
    impressions = np.full(len(rows), 300)
    chance = np.where(features[rows, 0] > 0, 0.8, 0.3) / position
    clicks = cr.ClickTable.from_arrays(
        data, row=rows, position=position, impressions=impressions, clicks=random.binomial(impressions, chance), **more
    )
    return data, clicks


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let only some packages seem installed."""

    def seem(*packages: str) -> None:
        for place in ("cldrank.method_choice.find_spec", "cldrank.models.model.find_spec"):
            monkeypatch.setattr(place, lambda name: name if name in packages else None)

    return seem


class TestRules:
    @pytest.mark.parametrize(
        ("shown", "curve", "expected"),
        [
            (3, STEEP, "cld-pair"),
            (3, FLAT, "cld-pair"),  # what was not shown is still to be corrected
            (6, cr.Propensities.power(1, 6), "ips"),
            (6, cr.Propensities([1.0, *[0.85] * 5]), "naive"),
            (3, AffineClicks.of(examined=STEEP.values, relevant=0.9, irrelevant=0.2), "affine-ips"),
        ],
    )
    def test_the_log_decides_the_method(self, shown: int, curve: Any, expected: str) -> None:
        data, clicks = log(depth=shown)
        choice = cr.auto(data, clicks, curve)
        assert choice.method.name == expected
        assert choice.propensities is curve

    @pytest.mark.parametrize(
        ("packages", "queries", "engine", "expected"),
        [
            (("xgboost", "torch"), 400, (), "trees"),
            (("xgboost",), 40, "solr", "trees"),
            (("torch",), 400, (), "mlp"),
            (("torch",), 399, (), "linear"),
            (("torch",), 400, ["onnx", "solr"], "linear"),
            (("torch",), 400, ["onnx", "vespa"], "mlp"),
            ((), 400, "opensearch", "linear"),
        ],
    )
    def test_packages_queries_and_engines_decide_the_model(
        self, only: Any, packages: tuple[str, ...], queries: int, engine: Any, expected: str
    ) -> None:
        only(*packages)
        choice = cr.auto(*log(queries), STEEP, export_to=engine, run=cr.Run(seed=3))
        assert (choice.method.model.name, choice.method.run.seed) == (expected, 3)

    def test_queries_without_clicks_do_not_count(self, only: Any) -> None:
        only("torch")
        data, clicks = log(400)
        counts = np.where(clicks.row < 6, 0, clicks.clicks)
        fewer = cr.ClickTable.from_arrays(
            data, row=clicks.row, position=clicks.position, impressions=clicks.impressions, clicks=counts
        )
        assert "399 queries with clicks" in cr.auto(data, fewer, STEEP).reason

    def test_only_trees_take_gaps_and_suit_elasticsearch(self, only: Any) -> None:
        data, clicks = log()
        gaps = data.features.copy()
        gaps[0, 0] = np.nan
        with_gaps = cr.RankingDataset.from_arrays(gaps, np.repeat(np.arange(40), 6), missing="keep")
        assert cr.auto(with_gaps, clicks, STEEP).method.model == cr.Trees()
        only("torch")
        for dataset, engine in ((with_gaps, ()), (data, "elasticsearch")):
            with pytest.raises(MissingDependencyError, match=r"boosted trees needs? xgboost: pip install") as refused:
                cr.auto(dataset, clicks, STEEP, export_to=engine)
            assert "or choose" not in str(refused.value)

    @pytest.mark.parametrize("rules", [METHOD_RULES, MODEL_RULES])
    def test_one_always_applies(self, rules: Any) -> None:
        assert [rule.when == "otherwise" for rule in rules] == [False] * (len(rules) - 1) + [True]


class TestPropensities:
    def test_are_estimated_where_the_log_identifies_them(self) -> None:
        data, clicks = log(moving=True)
        choice = cr.auto(data, clicks)
        assert "the estimate of " in choice.reason
        np.testing.assert_allclose(choice.propensities.values, STEEP.values, rtol=0.1)
        assert choice.propensities.is_trusted

    def test_are_estimated_by_segment(self) -> None:
        data, clicks = log(moving=True, segment=np.repeat(["phone", "desktop"], 180))
        curves = cr.auto(data, clicks).propensities
        assert isinstance(curves, SegmentPropensities)
        assert sorted(curves) == ["desktop", "phone"]

    def test_are_assumed_otherwise(self) -> None:
        data, clicks = log()
        choice = cr.auto(data, clicks)
        np.testing.assert_array_equal(choice.propensities.values, STEEP.values)
        assert "an assumed power:1.0, held to the clicks" in choice.reason
        assert choice.method.envelope == "raise"


class TestReason:
    @pytest.mark.parametrize("curve", [STEEP, None])
    @pytest.mark.parametrize("engine", ["solr", ["vespa", "onnx"]])
    def test_two_sentences_with_the_facts(self, curve: Any, engine: Any) -> None:
        reason = cr.auto(*log(), curve, export_to=engine).reason
        method, model = reason.removesuffix(".").split(". ")
        assert reason.endswith(".")
        assert method.startswith("CLD-pair, since ")
        assert "50% of the candidates were shown, 61% of the impressions are examined" in method
        assert model.startswith("Boosted trees for ")
        assert "40 queries with clicks" in model

    def test_labels_change_nothing(self) -> None:
        data, clicks = log(moving=True)
        queries = np.repeat(np.arange(40), 6)
        labelled = cr.RankingDataset.from_arrays(data.features, queries, np.random.default_rng(1).integers(0, 5, 240))
        plain, chosen = cr.auto(data, clicks), cr.auto(labelled, clicks)
        assert chosen.reason == plain.reason
        assert repr(chosen.method) == repr(plain.method)
        np.testing.assert_array_equal(chosen.propensities.values, plain.propensities.values)

    def test_what_does_not_fit_is_refused(self) -> None:
        data, clicks = log()
        with pytest.raises(UsageError, match="`export_to` takes elasticsearch"):
            cr.auto(data, clicks, export_to="lucene")
        none = cr.ClickTable.from_arrays(data, row=[0, 1], position=[1, 2], impressions=[9, 9], clicks=[0, 0])
        with pytest.raises(DataError, match="auto cannot learn"):
            cr.auto(data, none)
        with pytest.raises(UsageError, match="auto needs `clicks`"):
            cr.auto(data, "log.parquet")  # type: ignore[arg-type]
