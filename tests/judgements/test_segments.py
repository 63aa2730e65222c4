"""Judgements of a log of two surfaces, each with a curve of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError
from cldrank.judgements import judge_documents
from cldrank.judgements.relevance_posterior import ClickCounts
from cldrank.propensity import Propensities, SegmentPropensities

CURVES = SegmentPropensities.of({"phone": Propensities.power(2, 4), "desktop": Propensities.power(0.3, 4)})
QUERIES, DEPTH = 500, 4
ROWS = QUERIES * DEPTH


def table(cells: dict[str, Any], segment: Any = None) -> ClickTable:
    data = RankingDataset.from_arrays(np.zeros((ROWS, 1)), np.arange(ROWS) // DEPTH)
    return ClickTable.from_arrays(data, **cells, segment=segment)


@pytest.fixture(scope="module")
def drawn() -> tuple[Any, dict[str, Any], Any]:
    """Relevance, cells and their surfaces: a third of the queries come from phones, a third from desktops, a third
    from both, where production has the order of phones the other way round."""
    random = np.random.default_rng(7)
    relevance = random.beta(2, 3, ROWS)
    query, place = np.arange(ROWS) // DEPTH, np.arange(ROWS) % DEPTH
    phone, desktop = np.flatnonzero(query % 3 != 1), np.flatnonzero(query % 3 != 0)
    row, segment = np.concatenate([phone, desktop]), np.repeat(["phone", "desktop"], [len(phone), len(desktop)])
    position = np.concatenate([place[phone] + 1, DEPTH - place[desktop]])
    impressions = np.where(segment == "phone", 300, 200)
    rho = np.where(segment == "phone", CURVES["phone"].at(position), CURVES["desktop"].at(position))
    clicks = random.binomial(impressions, rho * relevance[row])
    return relevance, {"row": row, "position": position, "impressions": impressions, "clicks": clicks}, segment


def off_by_surface(found: Any, relevance: Any) -> Any:
    """The mean error over the last positions of documents on phones alone, and on desktops alone."""
    query, last = np.arange(ROWS) // DEPTH, np.arange(ROWS) % DEPTH
    error = found.relevance - relevance
    return np.array([error[(query % 3 == 0) & (last == 3)].mean(), error[(query % 3 == 1) & (last == 0)].mean()])


def test_the_curve_of_each_surface_is_calibrated_where_one_of_all_is_not(drawn: Any) -> None:
    relevance, cells, segment = drawn
    log = table(cells, segment)
    own = judge_documents(log, CURVES, envelope="off")
    one_curve, refuted = (pytest.warns(CldrankWarning, match=said) for said in ("one curve for all segments", "refute"))
    with one_curve, refuted:
        pooled = judge_documents(log, CURVES.mean(log), envelope="off")
    assert np.abs(off_by_surface(own, relevance)).max() < 0.02
    off = off_by_surface(pooled, relevance)
    assert off[0] < -0.2  # on phones, the last position is examined less than the pooled curve says
    assert off[1] > 0.2  # and on desktops more
    errors = [np.mean((one.relevance - relevance) ** 2) for one in (own, pooled)]
    assert errors[0] < 0.1 * errors[1]
    inside = [np.mean((one.low <= relevance) & (relevance <= one.high)) for one in (own, pooled)]
    assert 0.87 < inside[0] < 0.95
    assert inside[1] < 0.5


def test_examinations_are_those_of_each_surface(drawn: Any) -> None:
    _, cells, segment = drawn
    found = judge_documents(table(cells, segment), CURVES, envelope="off")
    third = 3 * DEPTH  # the first of these queries was on phones alone, the next on desktops, the next on both
    phone, desktop = 300 * CURVES["phone"].values, 200 * CURVES["desktop"].values[::-1]
    np.testing.assert_allclose(found.examinations[:third], np.concatenate([phone, desktop, phone + desktop]))


def test_home_is_a_position_of_one_surface() -> None:
    """Shown most at position 1 of phones; more often at position 2, but on no surface as often."""
    cells = {"row": [0, 0, 0], "position": [2, 1, 2], "impressions": [40, 50, 40], "clicks": [1, 1, 1]}
    log = table(cells, ["phone", "phone", "desktop"])
    counts = ClickCounts.of(log)
    assert len(counts.slot_cell) == 3
    home = counts.slot_cell[counts.main_slot[0]]
    assert (log.position[home], log.segment_names[log.segment[home]]) == (1, "phone")


def test_a_refuted_curve_is_raised_on_its_own_surface(drawn: Any) -> None:
    _, cells, segment = drawn
    log = table(cells, segment)
    steep = SegmentPropensities.of({"phone": Propensities.power(2, 4), "desktop": Propensities.power(3, 4)})
    with pytest.warns(CldrankWarning, match="desktop"):
        raised = judge_documents(log, steep)
    given = np.bincount(log.row, log.impressions * steep.per_cell(log), ROWS)
    rose = raised.examinations > 1.01 * given
    query, place = np.arange(ROWS) // DEPTH, np.arange(ROWS) % DEPTH
    assert rose[(query % 3 == 1) & (place < 3)].all()
    assert not rose[query % 3 == 0].any()


def test_surfaces_without_a_curve_are_refused(drawn: Any) -> None:
    _, cells, segment = drawn
    with pytest.raises(DataError, match="'desktop'"):
        judge_documents(table(cells, segment), SegmentPropensities.of({"phone": Propensities.power(2, 4)}))
    with pytest.raises(DataError, match="the clicks have no segments"):
        judge_documents(table({name: values[segment == "phone"] for name, values in cells.items()}), CURVES)
