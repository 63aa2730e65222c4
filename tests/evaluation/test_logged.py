from __future__ import annotations

import numpy as np
import pytest
from tiny_logs import TinyLog, relevance_of

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.evaluation.logged import LoggedClicks, example_log
from cldrank.propensity import AffineClicks, Propensities

TRUST = AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))


@pytest.mark.parametrize("ragged", [False, True])
def test_sums_are_those_of_loops_over_cells(ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=1, ragged=ragged)
    log = tiny.log(TRUST)
    exposure, surplus = dict.fromkeys(tiny.candidates, 0.0), dict.fromkeys(tiny.candidates, 0.0)
    for (one, position), (shown, clicked) in tiny.cells().items():
        exposure[one] += shown * TRUST.slope[position - 1]
        surplus[one] += clicked - shown * TRUST.base[position - 1]
    assert log.exposure == pytest.approx(tiny.array(exposure))
    assert log.surplus == pytest.approx(tiny.array(surplus))
    assert log.seen.tolist() == [one in tiny.seen for one in tiny.candidates]
    ratio = np.divide(log.surplus, log.exposure, out=np.zeros(len(log.seen)), where=log.seen)
    assert ratio == pytest.approx(tiny.array(relevance_of(tiny, TRUST.slope.tolist(), TRUST.base.tolist())))


def test_pages_and_how_far_they_reach() -> None:
    tiny = TinyLog.drawn(seed=2, ragged=True)
    log = tiny.log(Propensities.power(1, 3))
    for query in range(len(tiny.sizes)):
        lengths = [len(page.shown) for page in tiny.pages if page.query == query]
        assert log.pages[query] == len(lengths)
        for position in (1, 2, 3):
            share = sum(length >= position for length in lengths) / len(lengths)
            assert log.reach[query, position - 1] == pytest.approx(share)
    ranks = np.tile(np.arange(1, 6), 5)
    reached = log.reached(ranks).reshape(5, 5)
    assert reached[:, :3] == pytest.approx(log.reach)
    assert not reached[:, 3:].any()


def test_propensities_are_slopes_without_a_base() -> None:
    log = example_log()
    assert log.affine.slope.tolist() == [1, 0.5]
    assert not log.affine.base.any()
    assert log.row_pages.tolist() == [10, 10, 10]
    assert log.longest == 3


def test_another_curve_leaves_the_log_as_it_is() -> None:
    log = example_log()
    other = log.with_curve(Propensities.power(0, 2))
    assert other.exposure.tolist() == [10, 10, 0]
    assert log.exposure.tolist() == [5, 10, 0]
    assert other.clicks is log.clicks
    assert other.reach is log.reach  # hundreds of curves are drawn, of large logs


def test_expected_exposure_is_that_of_display_probabilities() -> None:
    log = example_log()
    assert log.expected_exposure is log.exposure
    chances = [[0.25, 0.5], [0.75, 0.25], [0.0, 0.25]]
    stated = LoggedClicks(log.data, log.clicks.with_display(chances), log.curve)
    assert stated.expected_exposure == pytest.approx(10 * np.array([0.25 + 0.25, 0.75 + 0.125, 0.125]))
    assert stated.exposure.tolist() == log.exposure.tolist()


def test_a_query_that_was_never_searched_has_nothing() -> None:
    data = cr.RankingDataset.from_arrays([[1], [2], [3], [4]], [1, 1, 2, 2])
    table = ClickTable.from_arrays(data, position=[1, 2, 0, 0], impressions=[4, 4, 0, 0], clicks=[1, 0, 0, 0])
    log = LoggedClicks(data, table, Propensities.power(1, 2))
    assert log.pages.tolist() == [4, 0]
    assert log.reach.tolist() == [[1, 1], [0, 0]]
    assert log.by_query(np.ones(4)).tolist() == [2, 2]
