"""The p-value of the goodness of fit, by hand and by repetition."""

from __future__ import annotations

import numpy as np
import pytest

from cldrank.propensity.estimator import chance_of


def test_the_p_value_counts_the_log_itself_among_the_replicates() -> None:
    """(1 + those at least as far off) / (1 + replicates): never 0, whatever the residual."""
    spread = np.array([[1.0], [-1.0]] * 50)  # each replicate is one standard error off
    for residual, p_value in ((0.5, 1.0), (1.0, 1.0), (1.001, 1 / 101), (50.0, 1 / 101)):
        found = chance_of(np.array([residual]), spread)
        assert found is not None
        statistic, p, tested, worst = found
        assert p == pytest.approx(p_value)
        assert statistic == pytest.approx(residual**2)
        assert (tested, worst) == (1, 0)


def test_a_true_curve_is_refuted_as_often_as_it_should_be() -> None:
    random = np.random.default_rng(0)
    found = [chance_of(random.normal(size=6), random.normal(size=(39, 6))) for _ in range(4000)]
    p_values = np.array([entry[1] for entry in found if entry is not None])
    assert len(p_values) == 4000
    assert p_values.min() == 1 / 40
    # with 39 replicates p is uniform on 1/40 … 1 but for the error of 39 replicates itself, which divides each residual
    assert np.mean(p_values <= 0.05) == pytest.approx(0.05, abs=0.02)


def test_nothing_is_tested_where_nothing_is_uncertain() -> None:
    assert chance_of(np.array([0.1]), np.zeros((100, 1))) is None
    assert chance_of(np.array([0.1]), np.full((100, 1), np.nan)) is None
    assert chance_of(np.array([0.1]), np.ones((19, 1))) is None
