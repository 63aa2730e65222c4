from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cldrank.clicks.simulate import PositionBased
from cldrank.errors import CldrankError, UnidentifiableError
from cldrank.propensity import AllPairs, BySegment


@pytest.fixture(scope="module")
def tables(world: Any) -> dict[str, Any]:
    """Two devices whose users look down differently far, and one with little traffic."""
    return {
        "desktop": world.two_rankers(1e5, 0, PositionBased(0.6, 0.1)),
        "mobile": world.two_rankers(1e5, 1, PositionBased(1.4, 0.1)),
        "watch": world.two_rankers(4e3, 2, PositionBased(1.4, 0.1)),
    }


def test_rich_segments_keep_their_curve_and_poor_ones_are_drawn_to_the_mean(tables: dict[str, Any]) -> None:
    found = BySegment(AllPairs()).fit(tables)
    assert set(found) == set(tables)
    assert len(found) == 3
    positions = np.arange(1, 6)
    np.testing.assert_allclose(found["desktop"].values, positions**-0.6, rtol=0.1)
    np.testing.assert_allclose(found["mobile"].values, positions**-1.4, rtol=0.15)
    assert (found.pooling["watch"][1:] > found.pooling["mobile"][1:]).all()
    assert found.pooling["desktop"].max() < 0.1
    assert (found.spread[1:] > 0.1).all()
    assert "pooled" in found["watch"].notes[-1]
    alone = AllPairs().fit(tables["watch"])
    mean, own, drawn = (np.log(rho.values[1:]) for rho in (found.pooled, alone, found["watch"]))
    between = (np.minimum(mean, own) - 1e-9 <= drawn) & (drawn <= np.maximum(mean, own) + 1e-9)
    assert between.all()


def test_equal_segments_are_pooled_wholly(world: Any) -> None:
    tables = {str(seed): world.two_rankers(2e4, seed) for seed in range(6)}
    found = BySegment(AllPairs()).fit(tables)
    alone = AllPairs().fit(tables["0"])
    assert alone.errors is not None
    assert found["0"].errors is not None
    assert np.mean([share[1:].mean() for share in found.pooling.values()]) > 0.6
    assert (found["0"].errors[1:] < alone.errors[1:]).all()
    np.testing.assert_allclose(found.pooled.values, 1 / np.arange(1, 6), rtol=0.1)


def test_positions_err_together(world: Any) -> None:
    """All are relative to the first: a power law through them is no surer than that of both logs in one."""
    tables = {str(seed): world.two_rankers(1e5, seed) for seed in range(2)}
    found = BySegment(AllPairs()).fit(tables)
    own = [_correlation(AllPairs().fit(table).covariance) for table in tables.values()]
    np.testing.assert_allclose(_correlation(found["0"].covariance), own[0], atol=1e-9)
    np.testing.assert_allclose(_correlation(found.pooled.covariance), np.mean(own, axis=0), atol=1e-9)
    assert own[0][-1, -2] > 0.2
    pooled, together = (
        rho.smoothed("power").errors for rho in (found.pooled, AllPairs().fit(tables["0"].merge(tables["1"])))
    )
    assert pooled is not None
    assert together is not None
    assert pooled[-1] > 0.95 * together[-1]


def _correlation(covariance: Any) -> Any:
    errors = np.sqrt(np.diag(covariance)[1:])
    return covariance[1:, 1:] / np.outer(errors, errors)


def test_a_segment_that_tells_nothing_gets_the_mean(world: Any, tables: dict[str, Any]) -> None:
    found = BySegment(AllPairs()).fit({**tables, "kiosk": world.log()})
    np.testing.assert_allclose(found["kiosk"].values, found.pooled.values)
    assert "one position only" in str(found.refusals["kiosk"])
    assert found["kiosk"].high is not None
    assert found.pooled.high is not None
    assert (found["kiosk"].high[1:] > found.pooled.high[1:]).all()


def test_the_curve_of_one_segment_says_nothing_of_another(world: Any, tables: dict[str, Any]) -> None:
    with pytest.raises(UnidentifiableError, match=r"only segment 'desktop' .* segments differ, .*; 'kiosk': all-pairs"):
        BySegment(AllPairs()).fit({"desktop": tables["desktop"], "kiosk": world.log()})
    found = BySegment(AllPairs()).fit({"desktop": tables["desktop"], "watch": world.log().first(1)})
    assert found["watch"].values.tolist() == [1]  # of a single position, there is nothing to know


@pytest.fixture(scope="module")
def ragged(world: Any, tables: dict[str, Any]) -> dict[str, Any]:
    """Phones show three results, all others five."""
    return {"phone": tables["mobile"].first(3), "desktop": tables["desktop"], "kiosk": world.log()}


class TestDepth:
    def test_a_curve_ends_where_the_pages_of_its_segment_do(self, ragged: dict[str, Any]) -> None:
        found = BySegment(AllPairs()).fit({**ragged, "watch": ragged["kiosk"].first(2)})
        assert {name: len(rho) for name, rho in found.items()} == {"phone": 3, "desktop": 5, "kiosk": 5, "watch": 2}
        assert {name: len(share) for name, share in found.pooling.items()} == {name: len(found[name]) for name in found}
        assert found["phone"].comparisons is not None
        fourth = ragged["desktop"].first(4).as_segment("phone")
        with pytest.raises(CldrankError, match="of segment 'phone' for position 4; these go from 1 to 3"):
            found.per_cell(fourth)

    def test_what_one_segment_alone_has_is_its_own(self, ragged: dict[str, Any]) -> None:
        found = BySegment(AllPairs()).fit(ragged)
        alone = AllPairs().fit(ragged["desktop"])
        np.testing.assert_allclose(found["desktop"].values[3:], alone.values[3:])
        np.testing.assert_allclose(found["desktop"].errors[3:], alone.errors[3:])  # type: ignore[index]
        assert found.pooling["desktop"][3:].tolist() == [0, 0]

    def test_the_mean_goes_on_by_the_steps_of_those_that_are_left(self, ragged: dict[str, Any]) -> None:
        """Desktops are examined more often at 3 than phones, yet the mean does not rise to theirs at 4."""
        found = BySegment(AllPairs()).fit(ragged)
        alone, mean = AllPairs().fit(ragged["desktop"]), found.pooled
        assert found["phone"].values[2] < mean.values[2] < mean.values[2] * 1.2 < alone.values[2]
        np.testing.assert_allclose(mean.values[3:] / mean.values[2], alone.values[3:] / alone.values[2])
        np.testing.assert_allclose(found["kiosk"].values, mean.values)

    def test_what_few_know_is_not_sure(self, ragged: dict[str, Any]) -> None:
        """At 4 there is no telling how far segments differ, so the interval is at least as wide as at 3."""
        found = BySegment(AllPairs()).fit(ragged)
        assert found.spread[3] == found.spread[4] == found.spread[2] > 0
        for rho in (found.pooled, found["kiosk"]):
            assert rho.errors is not None
            assert (rho.errors[3:] >= rho.errors[2]).all()


def test_refusals(world: Any) -> None:
    table = world.log()
    estimator = BySegment(AllPairs())
    with pytest.raises(UnidentifiableError, match="no segment can be estimated; 'a': all-pairs cannot"):
        estimator.fit({"a": table, "b": table})
    with pytest.raises(CldrankError, match="two segments .* only 'a'"):
        estimator.fit({"a": table})
    with pytest.raises(CldrankError, match="have none"):
        estimator.fit({})
    with pytest.raises(CldrankError, match="have none"):
        estimator.fit(table)
