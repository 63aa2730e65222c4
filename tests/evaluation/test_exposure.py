from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_logs import TinyLog, forward, page_list, relevance_of, reverse

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UsageError
from cldrank.evaluation.exposure import LoggedClicks, LoggedOrder, ScoreOrder, example_log, order_of
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
    assert log.excess_clicks == pytest.approx(tiny.array(surplus))
    assert log.seen.tolist() == [one in tiny.seen for one in tiny.candidates]
    ratio = np.divide(log.excess_clicks, log.exposure, out=np.zeros(len(log.seen)), where=log.seen)
    assert ratio == pytest.approx(tiny.array(relevance_of(tiny, TRUST.slope.tolist(), TRUST.base.tolist())))


def test_a_query_that_was_never_searched_has_nothing() -> None:
    data = cr.RankingDataset.from_arrays([[1], [2], [3], [4]], [1, 1, 2, 2])
    table = ClickTable.from_arrays(data, position=[1, 2, 0, 0], impressions=[4, 4, 0, 0], clicks=[1, 0, 0, 0])
    log = LoggedClicks(data, table, Propensities.power(1, 2))
    assert log.pages.tolist() == [4, 0]
    assert log.reach.tolist() == [[1, 1], [0, 0]]
    assert log.by_query(np.ones(4)).tolist() == [2, 2]


RHO = Propensities.power(1, 3)
VALUES = np.array([1.0, 0.6, 0.3, 0.1, 0.05])


def ranks_on(tiny: TinyLog, ranking: Any, values: np.ndarray[Any, Any]) -> list[float]:
    """Of each candidate, the mean value of its rank over the pages of its query, 0 where a page does not show it."""
    found = dict.fromkeys(tiny.candidates, 0.0)
    pages = [sum(page.query == query for page in tiny.pages) for query in range(len(tiny.sizes))]
    for page in tiny.pages:
        for place, one in enumerate(page_list(page, ranking)):
            found[page.query, one] += values[place] / pages[page.query]
    return [found[one] for one in tiny.candidates]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("ranking", [reverse, forward, None])
def test_orders_on_pages_are_those_of_loops_over_pages(ranking: Any, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=3, ragged=ragged)
    log = tiny.log(RHO)
    order = order_of("production" if ranking is None else tiny.scores(ranking), log)
    assert order.on_pages(VALUES, log) == pytest.approx(ranks_on(tiny, ranking, VALUES))


def test_scores_rank_from_the_highest_and_ties_stay_fixed() -> None:
    log = example_log()
    order = ScoreOrder.of("new", [0.5, 2.0, -1.0], log)
    assert order.ranks.tolist() == [2, 1, 3]
    assert order.on_pages(VALUES, log).tolist() == [0.6, 1.0, 0.0]
    tied = [ScoreOrder.of("new", np.full(3, level), log).ranks.tolist() for level in (0.0, 7.0)]
    assert tied[0] == tied[1]
    assert sorted(tied[0]) == [1, 2, 3]
    assert ScoreOrder.of("new", [-np.inf, np.inf, 0], log).ranks.tolist() == [3, 1, 2]


def test_among_the_seen_the_unseen_move_behind() -> None:
    log = example_log()
    order = ScoreOrder.of("new", [1, 2, 3], log)  # the third was never shown
    assert order.ranks.tolist() == [3, 2, 1]
    assert order.among_seen(log).ranks.tolist() == [2, 1, 3]
    assert order.among_seen(log).name == "new"


class Constant:
    """A model of another library."""

    def predict(self, features: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return -features[:, 0]


def test_what_an_order_can_be_made_of() -> None:
    log = example_log()
    assert isinstance(order_of("production", log), LoggedOrder)
    assert order_of("production", log, "ignored").name == "production"
    assert order_of([1, 2, 3], log, "new").name == "new"
    assert order_of(Constant(), log).on_pages(VALUES, log).tolist() == [1.0, 0.6, 0.0]


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        ("prodcution", UsageError, "'prodcution'"),
        ([1, 2], DataError, r"new has scores of shape \(2,\) for 3 candidates"),
        ([1, np.nan, 3], DataError, "new scores a candidate of query 7 as NaN"),
        (object(), UsageError, "object cannot score"),
    ],
)
def test_refusals(model: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        order_of(model, example_log(), "new")
