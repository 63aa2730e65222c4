"""Verdicts from the pages of several surfaces, held against plain loops over these pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from halved_pages import halved
from simulated_clicks import simulated
from tiny_logs import Ranking, TinyLog, dcg, expected_clicks, reverse

import cldrank as cr
from cldrank.clicks.simulate import ShuffledShare
from cldrank.errors import CldrankWarning, DataError
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import LoggedClicks, order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.sensitivity import _permuted, _tilted
from cldrank.propensity import Propensities, SegmentPropensities

RHO = {"phone": [1.0, 0.3], "desktop": [1.0, 0.8, 0.6, 0.5]}
CURVES = SegmentPropensities.of({name: Propensities(np.array(rho)) for name, rho in RHO.items()})
LOGS = {
    "phone": TinyLog.drawn(seed=1, depth=2, pages=40),
    "desktop": TinyLog.drawn(seed=2, depth=4, pages=70, ragged=True),
}
TABLE = LOGS["phone"].table().as_segment("phone").merge(LOGS["desktop"].table().as_segment("desktop"))
LOG = LoggedClicks(LOGS["phone"].data(), TABLE, CURVES)


def relevance() -> dict[Any, float]:
    """Clicks of both surfaces over how often a candidate was examined on them."""
    candidates = LOGS["phone"].candidates
    above, below = dict.fromkeys(candidates, 0.0), dict.fromkeys(candidates, 0.0)
    for name, log in LOGS.items():
        for (one, position), (shown, clicked) in log.cells().items():
            above[one] += clicked
            below[one] += shown * RHO[name][position - 1]
    return {one: above[one] / below[one] if below[one] else 0.0 for one in candidates}


def test_pages_and_exposure() -> None:
    pages = [sum(page.query == query for log in LOGS.values() for page in log.pages) for query in range(5)]
    assert LOG.pages.tolist() == pages
    affine = ClickEstimator(LOG)
    np.testing.assert_allclose(affine.relevance, LOGS["phone"].array(relevance()))


@pytest.mark.parametrize("ranking", [None, reverse], ids=["production", "another"])
@pytest.mark.parametrize("k", [1, 3])
def test_measures_are_means_over_the_pages_of_all_surfaces(ranking: Ranking | None, k: int) -> None:
    true, counts = relevance(), {name: len(log.pages) for name, log in LOGS.items()}
    order = order_of("production" if ranking is None else np.array(LOGS["phone"].scores(ranking)), LOG)
    clicks = ClickEstimator(LOG)
    of_dcg = {name: dcg(log, ranking, true, k) for name, log in LOGS.items()}
    of_clicks = {name: expected_clicks(log, ranking, true, RHO[name], [0.0] * 4, k) for name, log in LOGS.items()}
    for measure, values in (("DCG", of_dcg), ("Clicks", of_clicks)):
        expected = sum(count * values[name] for name, count in counts.items()) / sum(counts.values())
        assert clicks.value(ClickMeasure(measure, k), order).value == pytest.approx(expected)


def test_clicks_are_permuted_within_their_segment() -> None:
    place = TABLE.segment_position
    dealt = _permuted(LOG, np.random.default_rng(0)).clicks
    assert (dealt.clicks != TABLE.clicks).any()
    np.testing.assert_array_equal(np.bincount(place, dealt.clicks), np.bincount(place, TABLE.clicks))


def test_other_curves_are_those_of_each_segment() -> None:
    steeper, flatter = _tilted(CURVES, -0.5), _tilted(CURVES, 0.5)
    assert isinstance(steeper, SegmentPropensities)
    assert isinstance(flatter, SegmentPropensities)
    np.testing.assert_allclose(steeper["phone"].values, [1, 0.3 * 2**-0.5])
    np.testing.assert_allclose(flatter["desktop"].values, [1, 1, 1, 1])


def test_the_mean_curve_is_by_impressions() -> None:
    shown = [sum(len(page.shown) >= 2 for page in log.pages) for log in LOGS.values()]
    expected = (shown[0] * 0.3 + shown[1] * 0.8) / sum(shown)
    assert CURVES.mean(TABLE).values[1] == pytest.approx(expected)
    assert CURVES.mean(TABLE).values[3] == pytest.approx(0.5)
    assert LOG.affine.slope[1] == pytest.approx(expected)


class TestVerdicts:
    def test_two_segments_with_one_curve_are_none(self) -> None:
        """Half of the pages of each query are in either segment: the same measures, intervals and verdict."""
        world = simulated(sessions=1e5, policy=ShuffledShare(0.5))
        whole, split = halved(world.clicks)
        curves = SegmentPropensities.of({"desktop": world.rho, "phone": world.rho})
        options: dict[str, Any] = {"measures": "DCG@4, Clicks@4", "trust_propensity": True}
        one, two = (
            cr.compare(world.good, "production", world.data, clicks=clicks, propensities=curve, **options)
            for clicks, curve in ((whole, world.rho), (split, curves))
        )
        for name, mine in one.measures.items():
            for part in ("new", "old", "difference"):
                ours, theirs = (getattr(pair, part).interval for pair in (mine, two.measures[name]))
                assert (ours.estimate, ours.low, ours.high) == pytest.approx(
                    (theirs.estimate, theirs.low, theirs.high), rel=1e-6, abs=1e-9
                )
        assert one.verdict.decision == two.verdict.decision

    def test_a_curve_of_segments_needs_segments(self) -> None:
        world = simulated()
        with pytest.raises(DataError, match="the clicks have no segments"):
            ClickJudge.of(world.data, world.clicks, SegmentPropensities.of({"phone": world.rho}))

    def test_one_curve_for_all_is_warned_of(self) -> None:
        with pytest.warns(CldrankWarning, match="one curve for all segments"):
            ClickJudge.of(LOGS["phone"].data(), TABLE, Propensities.power(0.5, 4).trusted())
