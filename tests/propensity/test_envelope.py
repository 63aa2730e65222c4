"""The bound holds, is tight where it can be, and is refused where clicks are too few; curves are raised to it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import UnidentifiableError, UsageError
from cldrank.propensity import BySegment, ClickThrough, Envelope, Propensities
from cldrank.propensity.cells import Cells
from cldrank.propensity.envelope import _tally

TRUTH = 1 / np.arange(1, 6)


def one_ranker(relevance: Any, pages: Any, seed: int = 0, queries: int = 2000, rho: Any = TRUTH) -> ClickTable:
    """Each query shows one result at each position; `relevance(random, place, queries)` draws theirs."""
    random = np.random.default_rng([seed, 7])
    size = len(rho)
    data = cr.RankingDataset.from_arrays(np.zeros((queries * size, 1)), np.repeat(np.arange(queries), size))
    shown = np.repeat(random.poisson(pages, queries), size)
    r = np.stack([relevance(random, place, queries) for place in range(size)], axis=1).ravel()
    position = np.tile(np.arange(1, size + 1), queries)
    clicks = random.binomial(shown, np.tile(rho, queries) * r)
    position = np.where(shown > 0, position, 0)
    return ClickTable.from_arrays(data, position=position, impressions=shown, clicks=clicks)


def binary(random: Any, place: int, queries: int) -> Any:
    """60% relevant at the top, 20% at position 5; irrelevant ones are clicked with 0.1."""
    return np.where(random.random(queries) < 0.6 - 0.1 * place, 1.0, 0.1)


def graded(random: Any, place: int, queries: int) -> Any:
    return random.beta(2, 2 + place, queries)


def test_products_are_those_of_all_who_clicked_one_after_the_other() -> None:
    """c clicks in n impressions as n people: of all ways to take m + 1 of them, in how many all clicked."""
    cells = Cells.of(one_ranker(binary, 4, queries=8), None, 0)
    for others in (0, 2):
        expected = np.zeros((2, 5))
        for n, c, place in zip(cells.impressions, cells.clicks, cells.place, strict=True):
            people, most = [1] * int(c) + [0] * int(n - c), min(others + 1, 2)
            weight = n * (n - 1) ** (most - 1) / (1 + (n / 20) ** most)
            for more in (0, 1) if n > others else ():
                expected[more, place] += weight * np.mean(list(map(all, permutations(people, others + more))))
        np.testing.assert_allclose([part.sum(axis=0) for part in _tally(cells, others)], expected)


@pytest.mark.parametrize("others", [0, 2])
def test_the_estimate_is_the_ratio_of_moments_of_relevance(others: int) -> None:
    """With many impressions U is ρ E[r^(m+1)] / E[r^m], here from the distribution of relevance itself."""

    def ratio(place: int) -> float:
        share = 0.6 - 0.1 * place
        moments = [share + (1 - share) * 0.1**power for power in (others, others + 1)]
        return moments[1] / moments[0]

    rho = Envelope(others=others).fit(one_ranker(binary, 300, queries=20_000))
    expected = TRUTH * [ratio(place) / ratio(0) for place in range(5)]
    np.testing.assert_allclose(rho.values, expected, rtol=0.02)


@pytest.mark.parametrize(
    ("relevance", "pages", "queries"), [(binary, 1.0, 20_000), (graded, 10.0, 3000), (binary, 100.0, 3000)]
)
def test_it_holds_and_is_nearer_than_click_through_rates(relevance: Any, pages: float, queries: int) -> None:
    log = one_ranker(relevance, pages, queries=queries)
    rho: Any = Envelope().fit(log)
    assert (rho.low <= TRUTH).all()
    assert (rho.values[1:] > ClickThrough().fit(log).values[1:]).all()
    assert rho.bound
    assert rho.method == "Envelope"
    assert "a lower bound, not the curve itself" in rho.notes[0]


def test_few_impressions_do_not_bias_it() -> None:
    """One or two impressions per candidate: the mean of many logs is what many impressions give."""
    few = [
        Envelope(others=1, depth=2, refuse_above=2, replicates=20).fit(one_ranker(binary, 1.0, seed))
        for seed in range(40)
    ]
    many = Envelope(others=1, depth=2).fit(one_ranker(binary, 300, queries=20_000))
    values = [rho.values[1] for rho in few]
    assert np.mean(values) == pytest.approx(many.values[1], abs=4 * np.std(values) / np.sqrt(40) + 0.01)


def test_more_others_only_where_enough_clicked() -> None:
    log = one_ranker(binary, 12, queries=1500)
    mixed, one, three = Envelope().fit(log), Envelope(others=1).fit(log), Envelope(others=3, refuse_above=2).fit(log)
    assert mixed.values[1] == three.values[1]
    assert mixed.values[4] == one.values[4]


def shown_once(at_second: int) -> ClickTable:
    """200 candidates at each of two positions, shown once each: 80 clicked at the first, so many at the second."""
    data = cr.RankingDataset.from_arrays(np.zeros((400, 1)), np.arange(400) // 2)
    clicks = np.zeros((200, 2), dtype=int)
    clicks[:80, 0] = clicks[:at_second, 1] = 1
    return ClickTable.from_arrays(data, position=[1, 2] * 200, impressions=[1] * 400, clicks=clicks.ravel())


def test_one_impression_each_gives_click_through_rates() -> None:
    rho: Any = Envelope().fit(shown_once(20))
    assert rho.values == pytest.approx([1, 0.25], rel=1e-12)
    assert rho.values == pytest.approx(ClickThrough().fit(shown_once(20)).values, rel=1e-12)
    assert 0 < rho.low[1] < 0.25 < rho.high[1] < 0.5
    with pytest.raises(UnidentifiableError, match="19 candidates were clicked at position 2") as caught:
        Envelope().fit(shown_once(19))
    assert caught.value.positions == (2,)
    with pytest.raises(UnidentifiableError, match="at least 2 times"):
        Envelope(others=1).fit(shown_once(20))


def test_segments_do_not_take_bounds() -> None:
    with pytest.raises(UsageError, match="envelope does not take segments"):
        BySegment(Envelope())


# -- curves raised to it ---------------------------------------------------------------------------------------------


def bound(values: Any, low: Any) -> Propensities:
    high = np.array(values) + 0.1
    return Propensities(np.array(values), method="Envelope", bound=True, low=np.array(low), high=high, confidence=0.9)


def test_a_curve_is_raised_where_it_lies_below() -> None:
    found = Propensities.power(1, 4).raised_to(bound([1, 0.6, 0.45], [1, 0.4, 0.4]))
    np.testing.assert_allclose(found.values, [1, 0.5, 0.45, 0.25])  # 0.5 is below 0.6, but not below its interval
    assert found.raised == (3,)
    assert found.origin == "power law, eta 1; raised to the bound of Envelope at position 3"
    assert Propensities.power(1, 4).refuted_by(bound([1, 0.6, 0.45], [1, 0.4, 0.4])) == (3,)


def test_an_assumed_curve_is_raised_to_1_at_most_and_intervals_go_along() -> None:
    high = bound([1, 1.3], [1, 1.2])
    assert Propensities.power(1, 2).raised_to(high).values.tolist() == [1, 1]
    estimated = Propensities(
        np.array([1, 0.5]), method="AllPairs", low=np.array([1, 0.4]), high=np.array([1, 0.6]), confidence=0.9
    )
    raised: Any = estimated.raised_to(high)
    assert (raised.values[1], raised.low[1], raised.high[1]) == (1.3, 1.3, 1.3)


def test_only_bounds_raise() -> None:
    with pytest.raises(UsageError, match="a curve is compared with a lower bound"):
        Propensities.power(1, 2).raised_to(Propensities.power(0.5, 2))


shares = st.lists(st.floats(0.01, 1), min_size=1, max_size=6)


@settings(deadline=None)
@given(shares, shares)
def test_raising_is_the_larger_of_both_and_done_once(curve: list[float], least: list[float]) -> None:
    rho = Propensities(np.array([1, *curve]))
    envelope = bound([1, *least], [1, *least])
    found = rho.raised_to(envelope)
    both = min(len(curve), len(least)) + 1
    np.testing.assert_allclose(found.values[:both], np.maximum(rho.values[:both], envelope.values[:both]))
    np.testing.assert_array_equal(found.values[both:], rho.values[both:])
    assert found.raised_to(envelope) is found
