from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_clicks import NOISE

from cldrank.clicks.candidates import Candidates
from cldrank.clicks.contexts import Contexts
from cldrank.clicks.simulate import Cascade, ClickModel, DependentClicks, FirstSwaps, PositionBased, Simulation, TopK
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.evaluation.after_clicks import AfterClicks, after_clicks
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.evaluation.judge import ClickJudge
from cldrank.propensity import AffineClicks, AllPairs, Propensities
from cldrank.propensity.behaviour import Behaviour, behaviour

RHO = Propensities(np.array([1.0, 0.6, 0.4, 0.3]))
CONTINUED = (0.6, 0.5, 0.4, 0.3, 0.2)
MODELS: dict[str, ClickModel] = {
    "stop": Cascade(noise=NOISE),
    "examine less": DependentClicks(noise=NOISE, continuation=CONTINUED),
    "position-based": PositionBased(1.0, NOISE),
}


def drawn(model: ClickModel, swaps: bool = True, sessions: float = 60_000) -> tuple[RankingDataset, ClickTable]:
    random = np.random.default_rng(3)
    features = random.standard_normal((8 * 100, 2))
    labels = 3.0 * (features[:, 0] + 0.5 * random.standard_normal(800) > 0.9)
    data = RankingDataset.from_arrays(features, np.arange(800) // 8, labels)
    policy = FirstSwaps(0.5) if swaps else TopK()
    return data, Simulation(data, features[:, 1], model, policy, depth=4).draw(sessions, seed=1, contexts=True)


def relevance_of(data: RankingDataset) -> NDArray[np.float64]:
    return np.where(np.asarray(data.labels) > 0, 1.0, NOISE)


@pytest.mark.parametrize("looks", ["stop", "examine less"])
def test_relevance_is_found_where_a_click_changes_what_is_examined(looks: str) -> None:
    data, clicks = drawn(MODELS[looks])
    people = behaviour(clicks)
    assert people.looks == looks
    after = after_clicks(clicks, RHO, people)
    assert after is not None
    assert after.curve is not None
    assert after.curve.values == pytest.approx([1, 1, 1, 1], abs=0.05)
    found = LoggedClicks(data, clicks, RHO, after)
    well = found.exposure > 100
    assert well.sum() > 150
    errors = (found.excess_clicks / np.maximum(found.exposure, 1e-9) - relevance_of(data))[well]
    assert np.abs(errors).mean() < 0.06
    naive = LoggedClicks(data, clicks, after.curve)
    off = (naive.excess_clicks / np.maximum(naive.exposure, 1e-9) - relevance_of(data))[well]
    assert np.abs(off).mean() > 1.5 * np.abs(errors).mean()


def test_clicks_that_do_not_depend_on_others_are_left_as_they_are() -> None:
    data, clicks = drawn(MODELS["position-based"])
    rho = Propensities.power(1, 4)
    assert after_clicks(clicks, rho, behaviour(clicks)) is None
    assert ClickJudge.of(data, clicks, rho).clicks.log.after is None


def test_where_people_stop_what_is_below_a_click_was_not_shown() -> None:
    data, clicks = drawn(MODELS["stop"], swaps=False)
    log = LoggedClicks(data, clicks, RHO, after_clicks(clicks, RHO, behaviour(clicks)))
    contexts: Any = clicks.contexts
    alone = np.bincount(contexts.row[contexts.last_click == 0], minlength=data.n_rows) > 0
    assert log.seen.tolist() == alone.tolist()
    assert log.seen.sum() < (clicks.row_impressions > 0).sum()


def test_without_moves_the_given_curve_is_raised_up_to_the_first_position() -> None:
    _, clicks = drawn(MODELS["examine less"], swaps=False)
    after: Any = after_clicks(clicks, Propensities(np.array([1.0, 0.7, 0.5, 0.2])), behaviour(clicks))
    assert after.curve is None
    share = after.share(clicks)
    for position in range(1, 5):
        at = clicks.position == position
        mean = (clicks.impressions * share)[at].sum() / clicks.impressions[at].sum()
        given = [1.0, 0.7, 0.5, 0.2][position - 1]
        assert after.raised[position - 1] == pytest.approx(min(1 / mean, 1 / given))
    assert after.error == pytest.approx(np.log(after.raised) / 2)
    trusting = AffineClicks(np.array([0.8, 0.5, 0.3, 0.2]), np.array([0.1, 0.05, 0.04, 0.02]))
    affine: Any = after_clicks(clicks, trusting, behaviour(clicks))
    slope, base = affine.slopes_and_bases(trusting, clicks)
    assert base / slope == pytest.approx((trusting.base / trusting.slope)[clicks.position - 1])


def tiny() -> tuple[ClickTable, AfterClicks]:
    """A result at position 2, on 30 pages without a click above, and on 10 below one, of which half is examined."""
    data = RankingDataset.from_arrays([[1], [2]], [7, 7])
    known: dict[str, Any] = {
        "row": [0, 1, 1], "segment": None, "position": [1, 2, 2], "last_click": [0, 0, 1],
        "impressions": [40, 30, 10], "clicks": [10, 9, 1],
    }  # fmt: skip
    contexts = Contexts(**known)
    clicks = ClickTable(Candidates.of(data), **contexts.cells(), contexts=contexts)
    below, unsure = np.array([[1.0, 1.0], [1.0, 0.5]]), np.array([[0.0, 0.0], [0.0, 0.1]])
    return clicks, AfterClicks(contexts, below, unsure, Propensities(np.array([1.0, 0.8])), np.ones(2), np.zeros(2))


def test_impressions_below_a_click_count_by_how_much_is_examined() -> None:
    clicks, after = tiny()
    slope, base = after.slopes_and_bases(Propensities(np.array([1.0, 0.1])), clicks)
    assert slope == pytest.approx([1, 0.8 * (30 + 0.5 * 10) / 40])
    assert base.tolist() == [0, 0]
    assert after.doubt(clicks) == pytest.approx([0, 0.15 * 10 * 0.5 * 0.5 / (30 + 0.5 * 10)])


def test_draws_vary_what_is_below_a_click() -> None:
    _, after = tiny()
    ratios = np.array([each.below[1, 1] for each in after.drawn(500, seed=0)])
    assert np.log(ratios).std() == pytest.approx(0.1, rel=0.15)
    assert np.median(ratios) == pytest.approx(0.5, rel=0.03)
    assert {each.below[1, 0] for each in after.drawn(5, seed=0)} == {1.0}
    again, other = ([each.below[1, 1] for each in after.drawn(500, seed)] for seed in (0, 1))
    assert again == ratios.tolist() != other


@pytest.mark.filterwarnings("ignore::cldrank.errors.CldrankWarning")  # the envelope is one of position-based clicks
def test_doubt_widens_the_interval_and_draws_do_too() -> None:
    data, clicks = drawn(MODELS["examine less"])
    judge = ClickJudge.of(data, clicks, AllPairs().fit(clicks))
    measure, new = judge.measures("DCG@4")[0], judge.order(data.features[:, 0], "new")
    estimator, _ = judge.learned
    estimate = estimator.estimate(measure, new)
    doubt = np.abs(estimator.weights(measure, new) * estimator.relevance) @ estimator.log.doubt
    assert 0 < doubt < estimate.errors.propensities
    assert estimator.log.doubt.max() < 0.15
    old = judge.order(data.features[:, 1], "old")
    weighted = estimator.weights(measure, new, old) * estimator.relevance
    doubt = np.abs(weighted) @ estimator.log.doubt
    assert doubt > 2 * abs(weighted @ estimator.log.doubt)  # doubts of two rankers do not cancel
    errors = estimator.estimate(measure, new, old).errors
    vars(estimator.log)["doubt"] = np.zeros(data.n_rows)
    assert errors.propensities == pytest.approx(
        np.hypot(estimator.estimate(measure, new, old).errors.propensities, doubt)
    )


def test_no_contexts_no_correction() -> None:
    _, clicks = drawn(MODELS["stop"])
    bare = ClickTable(clicks.candidates, clicks.row, clicks.position, clicks.impressions, clicks.clicks)
    assert after_clicks(bare, Propensities.power(1, 4), Behaviour("stop")) is None
