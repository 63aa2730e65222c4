"""A supplied curve is held against what the log's own pages show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import ShuffledShare, TrustBiased
from cldrank.errors import CldrankWarning, DataError
from cldrank.propensity import AdjacentChain, AllPairs, Pivot, Propensities, Randomised, SegmentPropensities
from cldrank.propensity.curve_checks import check_own_pages, own_curve


def test_a_foreign_curve_is_refused_by_methods_and_comparisons_with_both_numbers(world: Any) -> None:
    log, foreign = world.two_rankers(), Propensities.power(0.4, 5)  # the log has 1 / position
    data = cr.RankingDataset.from_arrays(world.scores[:, None], world.data.row_queries)
    clicks = cr.ClickTable.from_arrays(
        data, row=log.row, position=log.position, impressions=log.impressions, clicks=log.clicks
    )
    with pytest.raises(
        DataError, match=r"position 2: 0\.76 supplied, 0\.\d\d ± 0\.0\d on this log's own pages.*\(all-pairs\)"
    ):
        cr.IPS().fit(data, clicks, foreign)
    with pytest.raises(DataError, match=r"position 2: 0\.76 supplied"):
        cr.compare(world.scores, "production", data, clicks=clicks, propensities=foreign)
    cr.IPS().fit(data, clicks, foreign.trusted())
    cr.compare(world.scores, "production", data, clicks=clicks, propensities=foreign, trust_propensity=True, quick=True)


@pytest.mark.parametrize("seed", range(8))
def test_the_truth_is_never_refused(world: Any, seed: int) -> None:
    for log in (world.two_rankers(3e4, seed), world.log(ShuffledShare(0.3), 2e4, seed), world.shuffled(1e4, seed)):
        check_own_pages(Propensities.power(1, 5), log)


@pytest.mark.parametrize("estimator", [AllPairs(), Pivot(depth=3), AdjacentChain(), AllPairs(seed=5)], ids=repr)
def test_a_curve_of_this_very_log_is_not_refused(world: Any, estimator: Any) -> None:
    log = world.two_rankers()
    for rho in (estimator.fit(log), estimator.fit(log).smoothed("power"), estimator.fit(log).smoothed("monotone")):
        check_own_pages(rho, log)
    check_own_pages(Randomised().fit(world.shuffled()), world.shuffled())


def test_a_log_in_which_nothing_moves_refutes_nothing(world: Any) -> None:
    assert own_curve(world.log(), 5) is None
    check_own_pages(Propensities.power(0, 5), world.log())


def test_positions_that_can_be_compared_are_enough(world: Any) -> None:
    """Swaps of the first three positions say nothing of the others, and enough of the second."""
    from cldrank.clicks.simulate import FirstSwaps

    log = world.log(FirstSwaps(0.5, positions=(2, 3)))
    own = own_curve(log, 5)
    assert own is not None
    assert (own[0], len(own[1])) == ("all-pairs", 3)
    with pytest.raises(DataError, match="position 2"):
        check_own_pages(Propensities.power(0, 5), log)


def test_an_uncertain_curve_is_not_refused_for_its_errors(world: Any) -> None:
    rho = Propensities(np.array([1, 0.8, 0.5, 0.4, 0.3]), method="elsewhere", covariance=np.diag([0, 1, 1, 1, 1]))
    check_own_pages(rho, world.two_rankers())


def test_where_the_position_based_model_does_not_fit_it_is_a_warning(world: Any) -> None:
    log = world.two_rankers(1e6, model=TrustBiased(eta=1))
    with pytest.warns(CldrankWarning, match="this log refutes"):
        check_own_pages(Propensities.power(0, 5), log)


def test_segments_are_held_against_their_own_pages(world: Any) -> None:
    log = world.two_rankers()
    names = np.array(["phone", "desktop"])[world.data.row_queries[log.row] % 2]
    cells = {"row": log.row, "position": log.position, "impressions": log.impressions, "clicks": log.clicks}
    table = cr.ClickTable.from_arrays(world.data, **cells, segment=names)
    true = Propensities.power(1, 5)
    check_own_pages(SegmentPropensities.of({"phone": true, "desktop": true}), table)
    with pytest.raises(DataError, match="segment phone"):
        check_own_pages(SegmentPropensities.of({"phone": Propensities.power(0.3, 5), "desktop": true}), table)


def test_a_curve_of_the_whole_log_is_not_refused_on_some_of_its_queries(world: Any) -> None:
    """Not even if small propensities were clipped on purpose."""
    log = world.two_rankers(2e4)
    part = log[np.arange(60)]
    rho = AllPairs().fit(log)
    for curve in (rho, rho.clip(0.4), rho.smoothed("monotone")):
        check_own_pages(curve, part)
    assert rho.clip(0.4).clipped
