"""Features that only raise or lower the score, and categories, whose splits become splits by numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from small_models import stop_after

import cldrank as cr
from cldrank.errors import ConvergenceWarning, DataError, UsageError
from cldrank.models.trees.boosting import TreeEngine
from cldrank.models.trees.feature_rules import FeatureRules
from cldrank.rankers import TreeRanker

NAMES = ("colour", "shop", "up", "down")
MODEL = cr.Trees(rounds=12, learning_rate=0.3, min_weight=1, column_share=1, validation=0)


def candidates(missing: bool = False, seed: int = 0, rows: int = 600) -> cr.RankingDataset:
    """Labels that depend on codes without an order, and on a feature that rises and falls."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.integers(0, 9, rows), random.integers(0, 6, rows), random.normal(size=(rows, 2))])
    value = 2 * np.isin(x[:, 0], [2, 5]) + x[:, 2] * (1 + np.isin(x[:, 1], [0, 3])) - np.sin(3 * x[:, 3])
    if missing:
        x[random.random(x.shape) < 0.2] = np.nan
    labels = np.clip(np.round(value + 2), 0, 4)
    return cr.RankingDataset.from_arrays(x, np.arange(rows) // 10, labels, feature_names=NAMES, missing="keep")


# -- monotone ------------------------------------------------------------------------------------------------------


def steps(ranker: Any, column: int, data: cr.RankingDataset) -> Any:
    """How the scores of rows change from value to value of a feature."""
    rows = np.repeat(data.features[:100], 30, axis=0)
    rows[:, column] = np.tile(np.linspace(-3, 3, 30), 100)
    return np.diff(ranker.predict(rows).reshape(100, 30), axis=1)


@pytest.mark.parametrize("missing", [False, True])
def test_scores_only_rise_or_fall_as_they_are_told_to(missing: bool) -> None:
    data = candidates(missing)
    free = cr.Oracle(model=MODEL).fit(data)
    rules: dict[str, Any] = {"increasing": ["up"], "decreasing": ["down"], "categorical": ["colour", "shop"]}
    held = cr.Oracle(model=cr.Trees(**{**MODEL.get_params(), **rules})).fit(data)
    assert steps(free, 3, data).max() > 0.1
    for column, sign in ((2, 1), (3, -1)):
        change = sign * steps(held, column, data)
        assert change.min() > -1e-5
        assert change.max() > 0.1


# -- categories ----------------------------------------------------------------------------------------------------


def grown(model: cr.Trees, data: cr.RankingDataset) -> tuple[FeatureRules, bytes]:
    """The engine's own file of trees on the labels of some data."""
    rules = FeatureRules.of(model, data)
    engine = TreeEngine(data.features, np.arange(data.n_rows), model, rules, cr.Run(), 1, "test")
    for _ in range(model.rounds):
        engine.grow((engine.scores() - np.asarray(data.labels)).astype(np.float32), np.ones(data.n_rows, np.float32))
    return rules, engine.saved(model.rounds)


@pytest.mark.parametrize("missing", [False, True])
def test_splits_by_numbers_score_as_the_engine_does_by_codes(missing: bool) -> None:
    data = candidates(missing)
    rules, content = grown(cr.Trees(**{**MODEL.get_params(), "categorical": NAMES[:2]}), data)
    engine = xgboost.Booster()
    engine.load_model(bytearray(content))
    ranker = TreeRanker(content=rules.as_numbers(content), feature_names=NAMES)
    other = candidates(True, seed=1, rows=4000).features.copy()
    other[::7, 0], other[::5, 1] = 12, 400  # codes that nobody knows
    np.testing.assert_allclose(ranker.predict(other), engine.inplace_predict(other, predict_type="margin"), atol=1e-6)
    gain = dict.fromkeys(NAMES, 0.0)
    for tree in json.loads(content)["learner"]["gradient_booster"]["model"]["trees"]:
        for place, change in zip(tree["split_indices"], tree["loss_changes"], strict=True):
            gain[NAMES[place]] += change
    assert ranker.importance() == pytest.approx(
        {name: own / sum(gain.values()) for name, own in gain.items()}, rel=1e-3
    )


def test_any_engine_scores_them(tmp_path: Path) -> None:
    data = candidates()
    fitted = cr.Oracle(model=cr.Trees(**{**MODEL.get_params(), "categorical": NAMES[:2]})).fit(data)
    for target in ("onnx", "elasticsearch", "opensearch", "vespa", "solr"):
        parity = cr.export_ranker(fitted.ranker_, target, tmp_path / f"{target}.onnx", check=data, name="codes").parity
        assert parity is not None
        assert parity.same_order


def test_boosting_with_categories_is_resumed(tmp_path: Path) -> None:
    data, file = candidates(), tmp_path / "state"

    def fit(**run: Any) -> Any:
        model = cr.Trees(**{**MODEL.get_params(), "categorical": NAMES[:2], "column_share": 0.5})
        return cr.Oracle(model=model, run=cr.Run(**run)).fit(data).ranker_

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        fit(checkpoint=file, on_epoch=stop_after(5))
    assert fit(checkpoint=file, resume=True).content == fit().content


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"increasing": ["upp"]}, "`increasing` names 'upp', and there is no such feature. Did you mean up?"),
        ({"categorical": ["zzz"]}, "`categorical` names 'zzz', and there is no such feature."),
        (
            {"increasing": ["up"], "decreasing": ["up"]},
            "'up' is named twice in `increasing`, `decreasing` and `categorical`; once is enough.",
        ),
    ],
)
def test_other_names_are_refused(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        cr.Oracle(model=cr.Trees(**rules)).fit(candidates())
    assert str(caught.value) == message


def test_values_that_are_no_codes_are_refused() -> None:
    with pytest.raises(DataError, match=r"`categorical` names 'up', which is .* in row 0 .*; codes are whole numbers"):
        cr.Oracle(model=cr.Trees(categorical=["colour", "up"])).fit(candidates())


@pytest.mark.parametrize("change", [{"categories": [70000]}, {"categories_sizes": [2]}, {"split_type": [0]}])
def test_categories_that_the_engine_cannot_have_written_are_refused(change: dict[str, list[int]]) -> None:
    rules, content = grown(cr.Trees(**{**MODEL.get_params(), "rounds": 1, "categorical": NAMES[:2]}), candidates())
    file = json.loads(content)
    tree = file["learner"]["gradient_booster"]["model"]["trees"][0]
    for name, values in change.items():
        tree[name] = values * len(tree[name])
    with pytest.raises(DataError, match="categories of a tree"):
        rules.as_numbers(json.dumps(file).encode())
