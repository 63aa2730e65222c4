from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.clicks.simulate import FirstSwaps, TrustBiased
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.propensity import AffineClicks, Propensities, TrustBias


def test_relevance_is_what_clicks_were_made_of(affine_truth: Any) -> None:
    trust = affine_truth(TrustBiased(1.0))
    relevance = np.linspace(0, 1, 5)
    rate = trust.slope * relevance + trust.base
    np.testing.assert_allclose(trust.relevance(rate, np.arange(1, 6)), relevance, atol=1e-12)


@given(st.floats(0.1, 10), st.floats(-3, 3))
def test_another_scale_of_relevance_changes_nothing_once_anchored(affine_truth: Any, times: float, plus: float) -> None:
    trust = affine_truth(TrustBiased(1.0))
    other = AffineClicks(trust.slope / times, trust.base - trust.slope / times * plus)
    np.testing.assert_allclose(other.anchored().slope, trust.anchored().slope, rtol=1e-9)
    np.testing.assert_allclose(other.anchored().base, trust.anchored().base, atol=1e-9)


def test_files(world: Any, tmp_path: Path) -> None:
    found = TrustBias().fit(world.log(FirstSwaps(0.5)))
    found.save(tmp_path / "affine.json")
    again = AffineClicks.load(tmp_path / "affine.json")
    np.testing.assert_array_equal(again.slope, found.slope)
    np.testing.assert_array_equal(again.covariance, found.covariance)
    assert (again.notes, again.confidence, str(again)) == (found.notes, found.confidence, str(found))
    (tmp_path / "other.json").write_text('{"format": "else"}')
    with pytest.raises(FormatError, match="holds no list of propensities"):
        AffineClicks.load(tmp_path / "other.json")
    with pytest.raises(UsageError, match="no such file"):
        AffineClicks.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"slope": [1, 10**400]},
        {"slope": [1, True]},
        {"slope": [1, "2"]},
        {"slope": [1e-300, 1e300]},
        {"slope": {}},
        {"base": [0]},
        {"base": [0, float("nan")]},
        {"origin": None},
        {"notes": "many"},
        {"notes": ["\ud800"]},
        {"confidence": "high"},
        {"confidence": True},
        {"covariance": [[1]]},
        {"covariance": [[0, 0, 0, 1e400]] * 4},
        {"covariance": (-np.eye(4)).tolist()},
    ],
)
def test_damaged_files(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "affine.json"
    AffineClicks(np.ones(2), np.zeros(2), "given", np.eye(4), 0.9).save(path)
    AffineClicks.load(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(FormatError, match=r"affine.json: (holds damaged slopes and bases: |not JSON)"):
        AffineClicks.load(path)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(DataError, match=r"examined \(2,\), relevant \(3,\)"):
        AffineClicks.of([1, 0.5], [1, 1, 1], [0, 0, 0])


def test_propensities_are_affine_without_a_base() -> None:
    affine = AffineClicks.from_propensities(Propensities.power(1, 3))
    np.testing.assert_allclose(affine.propensities().values, [1, 1 / 2, 1 / 3])
    assert not affine.base.any()


def test_clipping_is_said() -> None:
    clipped = AffineClicks(np.array([2, 1, 0.1]), np.zeros(3)).clip(0.25)
    np.testing.assert_allclose(clipped.slope, [2, 1, 0.5])
    assert "clipped to 0.5 at position 3" in repr(clipped)
    with pytest.raises(UsageError, match="above 0"):
        clipped.clip(0)


def test_what_is_clipped_is_certain() -> None:
    trust = AffineClicks(np.array([1, 0.1]), np.zeros(2), "made", np.full((4, 4), 0.01), 0.9).clip(0.25)
    assert trust.covariance is not None
    assert (trust.covariance == np.where(np.outer([1, 0, 1, 1], [1, 0, 1, 1]), 0.01, 0)).all()


class TestDraws:
    """Slopes and bases that might have been estimated instead."""

    def test_they_have_the_covariance(self) -> None:
        factor = np.array([[0, 0], [0.05, 0], [0, 0], [0.01, 0.02]])
        trust = AffineClicks(np.array([1, 0.5]), np.array([0, 0.1]), "made", factor @ factor.T, 0.9)
        slopes, bases = trust.draws(200_000, seed=0)
        both = np.concatenate([slopes, bases], axis=1)
        np.testing.assert_allclose(np.cov(both, rowvar=False), factor @ factor.T, atol=2e-5)
        np.testing.assert_allclose(both.mean(axis=0), [1, 0.5, 0, 0.1], atol=1e-3)
        np.testing.assert_allclose(slopes[:, 0], 1, rtol=1e-12)
        assert trust.uncertain
        np.testing.assert_array_equal(trust.draws(9, seed=3), trust.draws(9, seed=3))
        assert not np.array_equal(trust.draws(9, seed=3), trust.draws(9, seed=4))

    def test_slopes_stay_above_zero(self) -> None:
        slopes, bases = AffineClicks(np.array([1, 0.1]), np.zeros(2), "made", np.eye(4), 0.9).draws(500, seed=0)
        assert slopes[:, 1].min() == pytest.approx(0.001)
        assert bases.min() < -1

    def test_without_a_covariance_all_are_the_same(self) -> None:
        trust = AffineClicks(np.array([1, 0.5]), np.array([0, 0.1]))
        slopes, bases = trust.draws(2, seed=0)
        assert (slopes.tolist(), bases.tolist()) == ([[1, 0.5]] * 2, [[0, 0.1]] * 2)
        assert not trust.uncertain

    def test_refusals(self) -> None:
        with pytest.raises(UsageError, match="`n` must be a whole number"):
            AffineClicks(np.ones(1), np.zeros(1)).draws(0, seed=0)


@pytest.mark.parametrize(
    ("slope", "base", "message"),
    [
        ([1, 0], [0, 0], "position 2 has slope 0"),
        ([1], [0, 0], "one entry for each position"),
        ([], [], "one entry"),
    ],
)
def test_wrong_numbers(slope: list[float], base: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        AffineClicks(np.array(slope), np.array(base))


def test_no_slope_for_a_position() -> None:
    with pytest.raises(DataError, match="no slope for position 3; these go from 1 to 2"):
        AffineClicks(np.ones(2), np.zeros(2)).at([1, 3])


def test_positions_are_whole() -> None:
    with pytest.raises(DataError, match="positions are whole numbers, not float64"):
        AffineClicks(np.ones(2), np.zeros(2)).at([1.0, 2.0])
