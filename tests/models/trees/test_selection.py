"""Selection, fitted before relevance is known."""

from __future__ import annotations

import numpy as np
from scenes import scene
from sklearn.linear_model import LogisticRegression

from cldrank.estimators.observing import observe
from cldrank.models.trees.pairs import PairTable
from cldrank.models.trees.selection import fit_selection

GIVEN = scene(3, queries=40)
TABLE = PairTable.of_observations(observe(*GIVEN), 0.05, 1.0)


def test_it_is_a_ridge_logistic_regression_of_what_was_shown() -> None:
    features = GIVEN.data.features
    own = features[TABLE.rows].astype(np.float64)
    scaled = np.clip((own - own.mean(axis=0)) / own.std(axis=0), -5, 5)
    weight, shown = TABLE.selection_weights()
    found = fit_selection(TABLE, features)
    expected = LogisticRegression(C=1 / 1e-3, tol=1e-10, max_iter=10_000).fit(scaled, shown, weight / weight.sum())
    np.testing.assert_allclose(found.coefficients, expected.coef_[0], rtol=1e-4)
    np.testing.assert_allclose(found.intercept, expected.intercept_[0], rtol=1e-4)
    np.testing.assert_allclose(found.log_odds, expected.decision_function(scaled), rtol=1e-4, atol=1e-6)


def test_missing_values_count_as_the_mean_and_constants_as_nothing() -> None:
    random = np.random.default_rng(1)
    features = np.column_stack([GIVEN.data.features, np.full(GIVEN.data.n_rows, 1e6, dtype=np.float32)])
    holes = features.copy()
    holes[random.random(features.shape) < 0.2] = np.nan
    own = holes[TABLE.rows].astype(np.float64)
    filled = features.copy()
    filled[TABLE.rows] = np.where(np.isnan(own), np.nanmean(own, axis=0), own)
    found = fit_selection(TABLE, holes)
    assert np.isfinite(found.log_odds).all()
    assert found.coefficients[-1] == 0.0
    spread = np.nanstd(own, axis=0)[:3], filled[TABLE.rows].std(axis=0)[:3]
    by_value = found.coefficients[:3] / spread[0]
    expected = fit_selection(TABLE, filled).coefficients[:3] / spread[1]
    np.testing.assert_allclose(by_value, expected, rtol=0.1)  # they are clipped elsewhere


def test_where_all_were_shown_there_is_nothing_to_learn() -> None:
    given = scene(3, queries=20, candidates=3, shown=3)
    observed = observe(*given)
    assert observed.all_shown
    found = fit_selection(PairTable.of_observations(observed, 0.05, 1.0), given.data.features)
    assert not found.log_odds.any()
    assert not found.coefficients.any()
