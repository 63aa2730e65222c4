from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cldrank.errors import CldrankWarning, UnidentifiableError, UsageError
from cldrank.models import Epoch, Run
from cldrank.propensity import DualLearning
from cldrank.propensity.modelled_relevance import NETWORK

DEPTH = 5
TRUTH = 1 / np.arange(1, DEPTH + 1)
NETWORK_OF_16 = replace(NETWORK, hidden=(16,), dropout=0.0, learning_rate=1e-2)
SMALL: dict[str, Any] = {"model": NETWORK_OF_16, "refits": 3}


def test_a_random_order_tells_it_the_truth_without_doubt(logistic: Any) -> None:
    data, clicks = logistic(0.0)
    rho = DualLearning(**SMALL).fit(clicks, data)
    np.testing.assert_allclose(rho.values, TRUTH, rtol=0.1)
    assert rho.low is not None
    assert rho.high is not None
    assert (rho.low <= rho.values).all()
    assert (rho.values <= rho.high).all()
    assert rho.confounding is not None
    assert not rho.confounding.doubtful


def test_a_ranker_that_follows_relevance_is_doubted(logistic: Any) -> None:
    data, clicks = logistic(1.5)
    with pytest.warns(CldrankWarning, match="dual-learning: relevance and position are confounded"):
        rho = DualLearning(**SMALL).fit(clicks, data)
    np.testing.assert_allclose(rho.values, TRUTH, rtol=0.15)
    assert rho.ranker is not None
    assert np.corrcoef(rho.ranker.predict(data), data.features @ np.array([1, -0.8, 0.6, 0]))[0, 1] > 0.95


def test_the_same_seed_gives_the_same_curve(logistic: Any) -> None:
    data, clicks = logistic(0.0, queries=80)
    short = SMALL | {"model": replace(NETWORK_OF_16, epochs=3), "refuse_above": 9, "warn": False}
    fits = [DualLearning(**short, seed=seed).fit(clicks, data) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].values, fits[1].values)
    np.testing.assert_array_equal(fits[0].low, fits[1].low)
    assert not np.array_equal(fits[0].values, fits[2].values)


def test_networks_that_disagree_are_refused(logistic: Any) -> None:
    data, clicks = logistic(0.0, queries=60, sessions=20)
    with pytest.raises(
        UnidentifiableError, match="networks trained on resampled queries differ by .* use regression-em"
    ):
        DualLearning(**SMALL | {"model": replace(NETWORK_OF_16, epochs=10)}, refuse_above=0.001).fit(clicks, data)


def test_an_interruption_leaves_no_half_trained_curve(logistic: Any) -> None:
    data, clicks = logistic(0.0, queries=60)
    seen = []

    def interrupt(epoch: Epoch) -> None:
        seen.append(epoch.number)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DualLearning(model=replace(NETWORK_OF_16, epochs=4), run=Run(on_epoch=interrupt)).fit(clicks, data)
    assert seen == [1, 2]  # nor does it go on with the next network


def test_a_checkpoint_is_of_one_network() -> None:
    for run in (Run(checkpoint="state"), Run(warm_start="earlier")):
        with pytest.raises(UsageError, match="dual-learning trains 7 networks"):
            DualLearning(run=run)
    with pytest.raises(UsageError, match="`run` must be a Run"):
        DualLearning(run={"seed": 3})  # type: ignore[arg-type]


def test_it_needs_features(logistic: Any) -> None:
    with pytest.raises(UsageError, match="dual-learning: .*`features`"):
        DualLearning().fit(logistic(0.0, queries=60)[1])
