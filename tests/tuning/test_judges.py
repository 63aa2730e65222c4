from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import scene

from cldrank import losses
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods import IPS
from cldrank.methods.observing import observe
from cldrank.models.network.lists import target_lists
from cldrank.propensity import AffineClicks
from cldrank.tuning import judges


@settings(max_examples=30)
@given(st.integers(0, 50), st.booleans())
def test_concordance_is_that_of_the_training_loop(seed: int, ties: bool) -> None:
    given_scene = scene(seed, queries=12, candidates=7, shown=5)
    lists = target_lists(observe(*given_scene).shown_rows())
    scores = np.random.default_rng(seed).normal(size=given_scene.data.n_rows)
    scores = np.round(scores) if ties else scores
    right, whole = judges.preference_agreement(scores, lists)
    for index in range(len(lists)):
        own = slice(lists.offsets[index], lists.offsets[index + 1])
        target, weight = (torch.from_numpy(values[own])[None].double() for values in (lists.target, lists.weight))
        preference = losses.preferences(target, weight)
        expected = losses.concordance(torch.from_numpy(scores[lists.rows[own]])[None], preference)
        np.testing.assert_allclose([right[index], whole[index]], [float(value[0]) for value in expected], rtol=1e-9)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given_scene = scene(1)
    lists = target_lists(observe(*given_scene).shown_rows())
    scores = np.random.default_rng(0).normal(size=given_scene.data.n_rows)
    whole = judges.preference_agreement(scores, lists)
    monkeypatch.setattr(judges, "_BLOCK", 20)
    np.testing.assert_array_equal(judges.preference_agreement(scores, lists), whole)


def test_any_model_is_judged_by_its_scores() -> None:
    given_scene = scene(2)
    judge = judges.HeldOutClicks(*given_scene)
    fitted = IPS().fit(*given_scene)

    class ByTable:
        def predict(self, features: Any) -> Any:
            assert isinstance(features, np.ndarray)
            assert np.shares_memory(features, given_scene.data.features)  # the table itself, not a copy
            return fitted.predict(features)

    scores = fitted.predict(given_scene.data)
    for model in (fitted.ranker_, ByTable(), scores):
        np.testing.assert_array_equal(judge.gains(model), judge.gains(fitted))
    np.testing.assert_allclose(judge.gains(scores) + judge.gains(-scores), judge.weight)


def test_trust_is_taken_off_before_judging() -> None:
    data = RankingDataset.from_arrays([[1], [2], [3], [4]], [7, 7, 8, 8])
    clicks = ClickTable.from_arrays(data, position=[1, 2, 2, 1], impressions=[10] * 4, clicks=[7, 3, 1, 9])
    trust = AffineClicks(slope=np.array([0.4, 0.4]), base=np.array([0.5, 0.0]))
    judge = judges.HeldOutClicks(data, clicks, trust)  # t = 0.5, 0.75; 0.25, 1
    np.testing.assert_allclose(judge.weight, [10 * 0.25, 10 * 0.75], rtol=1e-6)
    np.testing.assert_allclose(judge.gains(np.array([1.0, 0.0, 0.0, 1.0])), [0, 7.5], rtol=1e-6)


def test_the_standard_error_is_that_of_resampled_queries() -> None:
    random = np.random.default_rng(0)
    weight = random.gamma(2.0, size=400)
    gains = weight * random.beta(3, 1, size=400)
    found = judges.mean_of(gains, weight)
    draws = random.integers(0, 400, (4000, 400))
    resampled = gains[draws].sum(1) / weight[draws].sum(1)
    assert found.value == pytest.approx(gains.sum() / weight.sum())
    assert found.error == pytest.approx(resampled.std(), rel=0.06)
