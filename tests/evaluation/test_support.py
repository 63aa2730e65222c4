from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tiny_logs import Ranking, TinyLog, forward, page_list, reverse

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import Support
from cldrank.evaluation.estimating import ClickEstimator
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.off_policy import Affine, DirectMethod, DoublyRobust, InversePropensity
from cldrank.evaluation.orders import order_of
from cldrank.evaluation.relevance_learners import CLDRelevance
from cldrank.evaluation.support import look_at_support
from cldrank.evaluation.unseen_model import UnseenModel
from cldrank.propensity import Propensities

RHO = Propensities.power(1, 3)
DCG = ClickMeasure("DCG", 3)


def support(tiny: TinyLog, ranking: Ranking | None, k: int = 3) -> Support:
    log = tiny.log(RHO)
    new = order_of("production" if ranking is None else tiny.scores(ranking), log)
    return look_at_support(ClickEstimator(log, Affine()), ClickMeasure("DCG", k), new, order_of("production", log))


def impression_weights(tiny: TinyLog, ranking: Ranking, k: int) -> list[float]:
    """One for each impression of a result that counts: the weight of the result over its exposure."""
    weights, exposure = dict.fromkeys(tiny.candidates, 0.0), dict.fromkeys(tiny.candidates, 0.0)
    for page in tiny.pages:
        for rank, one in enumerate(page_list(page, ranking)[:k], 1):
            weights[page.query, one] += 1 / math.log2(rank + 1) / len(tiny.pages)
        for place, one in enumerate(page.shown):
            exposure[page.query, one] += RHO.values[place]
    each = [weights[page.query, one] / exposure[page.query, one] for page in tiny.pages for one in page.shown]
    return [weight for weight in each if weight]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("ragged", [False, True])
def test_effective_sample_size_and_weights_impression_by_impression(k: int, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=24, queries=8, pages=150, ragged=ragged)
    each = impression_weights(tiny, reverse, k)
    found = support(tiny, reverse, k)
    assert found.effective == pytest.approx(sum(each) ** 2 / sum(weight**2 for weight in each))
    assert found.effective <= len(each)
    assert found.largest_weight == pytest.approx(max(each) / (sum(each) / len(each)))
    one = sorted(each, reverse=True)[: math.ceil(0.01 * len(each))]
    full, rest = divmod(0.01 * len(each), 1)
    heaviest = sum(one[: int(full)]) + (rest * one[int(full)] if rest > 1e-9 else 0.0)
    assert found.top_percent == pytest.approx(heaviest / sum(each))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("ragged", [False, True])
def test_the_share_of_the_top_that_was_ever_shown(k: int, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=24, ragged=ragged)
    places = [(page.query, one) for page in tiny.pages for one in page_list(page, reverse)[:k]]
    found = support(tiny, reverse, k)
    assert found.k == k
    assert found.shown == pytest.approx(sum(one in tiny.seen for one in places) / len(places))
    assert found.shown < 1
    assert found.shown_old == pytest.approx(1)


def test_counts_are_those_of_the_log() -> None:
    tiny = TinyLog.drawn(seed=25, ragged=True)
    found = support(tiny, reverse)
    assert (found.queries, found.pages) == (5, len(tiny.pages))
    assert found.impressions == sum(len(page.shown) for page in tiny.pages)
    assert found.clicks == sum(len(page.clicked) for page in tiny.pages)


def test_twice_the_pages_are_worth_twice_as_much() -> None:
    tiny = TinyLog.drawn(seed=26)
    values = []
    for times in (1, 2):
        log = LoggedClicks(tiny.data(), tiny.table(times), RHO)
        new = order_of(tiny.scores(reverse), log)
        values.append(look_at_support(ClickEstimator(log, Affine()), DCG, new, None))
    assert values[1].effective == pytest.approx(2 * values[0].effective)
    assert values[1].largest_weight == pytest.approx(values[0].largest_weight)
    assert values[1].shown_old is None


def test_a_log_that_saw_nothing_of_the_top_says_so() -> None:
    tiny = TinyLog.drawn(seed=27)
    never = [one for one in range(5) if all((query, one) not in tiny.seen for query in range(5))]
    assert never == [4]
    found = support(tiny, lambda _: [4, 0, 1, 2, 3], k=1)
    assert (found.shown, found.effective, found.largest_weight, found.top_percent) == (0, 0, 0, 0)


@pytest.mark.parametrize("estimator", [Affine(), InversePropensity(), DoublyRobust()])
def test_how_far_clipping_moves_the_estimate(estimator: Affine | InversePropensity | DoublyRobust) -> None:
    tiny = TinyLog.drawn(seed=28)
    tiny = replace(tiny, pages=tuple(replace(page, shown=(0, 1, 2)) for page in tiny.pages))
    log = tiny.log(Propensities.power(4, 3))  # the last position is examined on one page of 81
    model = UnseenModel(CLDRelevance(), np.full(25, 0.2), np.full((5, 25), 0.2), None, 0, np.zeros(25, dtype=bool))
    new, old = order_of(tiny.scores(reverse), log), order_of(tiny.scores(forward), log)
    found = look_at_support(ClickEstimator(log, estimator, model), DCG, new, old)
    both = [ClickEstimator(log, type(estimator)(clip), model).difference(DCG, new, old).value for clip in (0.1, None)]
    assert found.clip == 0.1
    assert found.clipped == pytest.approx(both[0] - both[1])
    assert abs(found.clipped) > 0.01
    alone = look_at_support(ClickEstimator(log, estimator, model), DCG, new, None)
    single = [ClickEstimator(log, type(estimator)(clip), model).value(DCG, new).value for clip in (0.1, None)]
    assert alone.clipped == pytest.approx(single[0] - single[1])


def test_the_direct_method_divides_by_nothing_that_could_be_clipped() -> None:
    tiny = TinyLog.drawn(seed=28)
    log = tiny.log(Propensities.power(4, 3))
    model = UnseenModel(CLDRelevance(), np.full(25, 0.2), np.full((5, 25), 0.2), None, 0, np.zeros(25, dtype=bool))
    clicks = ClickEstimator(log, DirectMethod(), model)
    assert look_at_support(clicks, DCG, order_of(tiny.scores(reverse), log), None).clipped == 0
