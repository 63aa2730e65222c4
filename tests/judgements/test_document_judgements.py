"""Judgements: what clicks say about relevance, how sure that is, and what they cannot say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cldrank.clicks.ratings import Ratings
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.judgements import judge_documents
from cldrank.propensity import AffineClicks, Propensities


def documents(rows: int, per_query: int = 10) -> RankingDataset:
    return RankingDataset.from_arrays(np.zeros((rows, 1)), np.arange(rows) // per_query)


def one_ranker(relevance: Any, impressions: Any, curve: Propensities, seed: int = 0) -> ClickTable:
    """Each document at one position, as deep as the curve."""
    rows, depth = len(relevance), len(curve)
    position, n = np.arange(rows) % depth + 1, np.broadcast_to(impressions, rows)
    clicks = np.random.default_rng(seed).binomial(n, curve.at(position) * relevance)
    return ClickTable.from_arrays(documents(rows, depth), position=position, impressions=n, clicks=clicks)


@pytest.fixture(scope="module")
def drawn() -> tuple[Any, Propensities, ClickTable]:
    """Two thousand documents of known relevance, the better ones nearer to the top."""
    curve = Propensities.power(1, 5)
    relevance = np.random.default_rng(1).beta(np.tile([4, 3, 2, 1, 1], 400), 4)
    return relevance, curve, one_ranker(relevance, 60, curve)


# -- what is estimated -----------------------------------------------------------------------------------------------


def test_relevance_is_the_click_through_rate_where_everything_is_examined_often() -> None:
    data = documents(40)
    clicks = np.linspace(0, 1e6, 40).astype(int)
    table = ClickTable.from_arrays(data, position=np.arange(40) % 4 + 1, impressions=np.full(40, 10**6), clicks=clicks)
    found = judge_documents(table, Propensities.power(0, 4))
    np.testing.assert_allclose(found.relevance, clicks / 1e6, atol=0.004)  # half a step of the grid
    assert ((found.low <= clicks / 1e6) & (clicks / 1e6 <= found.high)).all()
    assert (found.high - found.low).max() < 0.02


def test_relevance_is_calibrated_and_intervals_cover_it(drawn: Any) -> None:
    relevance, curve, table = drawn
    for confidence in (0.5, 0.9):
        found = judge_documents(table, curve, confidence=confidence)
        inside = (found.low <= relevance) & (relevance <= found.high)
        assert confidence - 0.04 < inside.mean() < confidence + 0.06
    order = np.argsort(found.relevance)
    for part in np.array_split(order, 5):
        assert found.relevance[part].mean() == pytest.approx(relevance[part].mean(), abs=0.03)


def test_trust_is_taken_out_where_slopes_and_bases_say_so() -> None:
    curve = AffineClicks.of(examined=[1, 0.5, 0.3], relevant=[0.95] * 3, irrelevant=[0.6, 0.3, 0.1])
    relevance = np.random.default_rng(0).beta(1, 3, 1500)
    position = np.arange(1500) % 3 + 1
    slope, base = curve.at(position)
    clicks = np.random.default_rng(1).binomial(400, slope * relevance + base)
    data = documents(1500, 3)
    table = ClickTable.from_arrays(data, position=position, impressions=np.full(1500, 400), clicks=clicks)
    found = judge_documents(table, curve)
    assert np.abs(found.relevance - relevance).mean() < 0.06
    assert np.mean((found.low <= relevance) & (relevance <= found.high)) > 0.86
    naive = judge_documents(table, Propensities.power(1, 3), envelope="off")
    assert np.abs(naive.relevance - relevance).mean() > 0.2
    np.testing.assert_allclose(found.examinations, 400 * slope)


def test_an_uncertain_curve_widens_intervals_and_nothing_else(drawn: Any) -> None:
    _, curve, table = drawn
    draws = curve.values ** np.random.default_rng(0).normal(1, 0.3, (50, 1))
    known = judge_documents(table, Propensities(curve.values, method="AllPairs"))
    unsure = judge_documents(table, Propensities(curve.values, method="AllPairs", replicates=draws))
    np.testing.assert_array_equal(known.relevance, unsure.relevance)
    width, wider = (one.high - one.low for one in (known, unsure))
    top = table.position == 1
    assert wider[~top].mean() > 1.1 * width[~top].mean()
    assert wider[top].mean() == pytest.approx(width[top].mean(), rel=0.05)
    assert ((unsure.low <= unsure.relevance) & (unsure.relevance <= unsure.high)).all()
    again = judge_documents(table, Propensities(curve.values, method="AllPairs", replicates=draws))
    np.testing.assert_array_equal(unsure.low, again.low)


def test_an_interval_holds_its_relevance_whatever_the_drawn_curves_say(drawn: Any) -> None:
    _, curve, table = drawn
    steeper = curve.values ** np.array([[2.0], [2.1]])
    found = judge_documents(table, Propensities(curve.values, method="AllPairs", replicates=steeper))
    assert (found.low <= found.relevance).all()
    assert (found.low == found.relevance).any()


def test_few_documents_at_a_position_lean_on_all_others(drawn: Any) -> None:
    """One document at position 5, clicked at its only impression, is not certain to be relevant."""
    _, curve, table = drawn
    alone = np.flatnonzero(table.position == 5)[0]
    impressions, clicks = np.array(table.impressions), np.array(table.clicks)
    impressions[alone] = clicks[alone] = 1
    kept = (table.position < 5) | (np.arange(table.n_cells) == alone)
    cells = (table.row, table.position, impressions, clicks)
    few = ClickTable(table.candidates, *(one[kept] for one in cells))
    found = judge_documents(few, curve)
    assert 0.4 < found.relevance[table.row[alone]] < 0.75
    assert found.low[table.row[alone]] < 0.3


def test_a_refuted_curve_is_raised_or_left_alone(drawn: Any) -> None:
    _, _, table = drawn
    with pytest.warns(CldrankWarning, match="refute"):
        raised = judge_documents(table, Propensities.power(3, 5))
    with pytest.warns(CldrankWarning, match="refute"):
        kept = judge_documents(table, Propensities.power(3, 5), envelope="warn")
    assert raised.examinations.sum() > kept.examinations.sum()


# -- what is unknown -------------------------------------------------------------------------------------------------


@pytest.fixture
def partly_shown(drawn: Any) -> tuple[ClickTable, Propensities, Any]:
    """Only the first three positions of each query; the others were never shown."""
    _, curve, table = drawn
    return table.first(3), curve, table.first(3).shown


def test_what_was_never_shown_gets_no_number(partly_shown: Any) -> None:
    table, curve, shown = partly_shown
    found = judge_documents(table, curve)
    for values in (found.relevance, found.low, found.high):
        assert np.isnan(values[~shown]).all()
        assert np.isfinite(values[shown]).all()
    assert (found.grade[~shown] == -1).all()
    assert not found.one_grade[~shown].any()
    content = found.as_table()
    for column in ("relevance", "low", "high", "grade", "one_grade"):
        assert content[column].null_count == (~shown).sum()
    assert content["impressions"].null_count == 0
    assert "800 documents never shown" in repr(found)


# -- grades ----------------------------------------------------------------------------------------------------------


def test_a_threshold_belongs_to_the_grade_above(drawn: Any) -> None:
    _, curve, table = drawn
    kept = np.arange(len(table.row_clicks)) < 3
    low, high = np.array([0.2, 0.2, 0.1]), np.array([0.5, 0.6, 0.2])
    found = replace(judge_documents(table, curve, grades=(0.2, 0.6)).where(kept), low=low, high=high)
    assert found.one_grade.tolist() == [True, False, False]


def test_grades_count_the_thresholds_that_are_reached(drawn: Any) -> None:
    _, curve, table = drawn
    found = judge_documents(table, curve, grades=(0.2, 0.6))
    expected = (found.relevance >= 0.2).astype(int) + (found.relevance >= 0.6)
    np.testing.assert_array_equal(found.grade, expected)
    alone = ((found.low >= 0.2) == (found.high >= 0.2)) & ((found.low >= 0.6) == (found.high >= 0.6))
    np.testing.assert_array_equal(found.one_grade, alone)
    assert 0 < alone.mean() < 1


@pytest.mark.parametrize("grades", [(), (0.2, 0.2), (0, 0.5), ("a",)])
def test_grades_must_rise_between_0_and_1(drawn: Any, grades: Any) -> None:
    with pytest.raises(UsageError, match="grades"):
        judge_documents(drawn[2], drawn[1], grades=grades)


# -- what is refused -------------------------------------------------------------------------------------------------


def test_curves_that_do_not_fit_are_refused(drawn: Any) -> None:
    _, curve, table = drawn
    with pytest.raises(DataError, match="no impressions"):
        judge_documents(table.where(np.zeros(table.n_cells, dtype=bool)), curve)
    with pytest.raises(DataError, match="position 5"):
        judge_documents(table, Propensities.power(1, 4))
    with pytest.raises(DataError, match="position 5"):
        judge_documents(table, AffineClicks.from_propensities(Propensities.power(1, 4)))
    with pytest.raises(UsageError, match="lower bound"):
        judge_documents(table, Propensities(curve.values, method="Envelope", bound=True))
    for wrong in ({"confidence": 1}, {"seed": -1}, {"envelope": "no"}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            judge_documents(table, curve, **wrong)


# -- ratings -----------------------------------------------------------------------------------------------------------


def test_ratings_that_agree_with_clicks_are_better_priors() -> None:
    curve = Propensities.power(1, 5)
    relevance = np.random.default_rng(1).choice([0.1, 0.7], 1000)
    clicks = one_ranker(relevance, 8, curve)
    machine = relevance + np.random.default_rng(2).normal(0, 0.2, 1000)
    nobody = np.full(1000, np.nan)
    without, beside = (judge_documents(each, curve) for each in (clicks, clicks.rated(Ratings(nobody, machine))))
    errors = [np.sqrt(np.mean((judged.relevance - relevance) ** 2)) for judged in (without, beside)]
    assert errors[1] < 0.9 * errors[0]
    assert np.mean((beside.low <= relevance) & (relevance <= beside.high)) > 0.85
    assert (without.agreements, [each.is_used for each in beside.agreements]) == ((), [True])
    reverse = judge_documents(clicks.rated(Ratings(nobody, -machine)), curve)
    np.testing.assert_array_equal(reverse.relevance, without.relevance)


def test_what_was_never_shown_stays_unknown_whatever_its_rating() -> None:
    curve = Propensities.power(1, 5)
    relevance = np.tile([0.7, 0.1, 0.7, 0.1, 0.1], 40)
    clicks = one_ranker(relevance, 8, curve).first(4).rated(Ratings(np.full(200, np.nan), relevance))
    judged = judge_documents(clicks, Propensities.power(1, 4))
    assert np.isnan(judged.relevance[4::5]).all()
    assert judged.known.sum() == 160
