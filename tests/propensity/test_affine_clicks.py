"""Slopes and bases: given, saved, and estimated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import FirstSwaps, NeighbourSwaps, PositionBased, TrustBiased
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, FormatError, UnidentifiableError, UsageError
from cldrank.propensity import AffineClicks, TrustBias


def anchored(trust: AffineClicks) -> AffineClicks:
    """The same with slope 1 and base 0 at the first position, as estimates are."""
    slope = trust.slope / trust.slope[0]
    return AffineClicks(slope, trust.base - slope * trust.base[0])


def test_files(world: Any, tmp_path: Path) -> None:
    found = TrustBias().fit(world.log(FirstSwaps(0.5)))
    found.save(tmp_path / "affine.json")
    again = AffineClicks.load(tmp_path / "affine.json")
    np.testing.assert_array_equal(again.slope, found.slope)
    np.testing.assert_array_equal(again.covariance, found.covariance)
    assert (again.notes, again.confidence, str(again)) == (found.notes, found.confidence, str(found))


@pytest.mark.parametrize(
    "changed",
    [
        {"slope": [1, "2"]},
        {"slope": [1e-300, 1e300]},
        {"base": [0, float("nan")]},
        {"covariance": (-np.eye(4)).tolist()},
    ],
)
def test_damaged_files(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "affine.json"
    AffineClicks(np.ones(2), np.zeros(2), "given", np.eye(4), 0.9).save(path)
    AffineClicks.load(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(FormatError, match=r"affine\.json"):
        AffineClicks.load(path)


def test_clipping_is_said() -> None:
    clipped = AffineClicks(np.array([2, 1, 0.1]), np.zeros(3)).clip(0.25)
    np.testing.assert_allclose(clipped.slope, [2, 1, 0.5])
    assert "clipped to 0.5 at position 3" in repr(clipped)
    with pytest.raises(UsageError, match="above 0"):
        clipped.clip(0)


def test_what_is_clipped_is_certain() -> None:
    trust: Any = AffineClicks(np.array([1, 0.1]), np.zeros(2), "made", np.full((4, 4), 0.01), 0.9).clip(0.25)
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


def test_refusals() -> None:
    with pytest.raises(DataError, match="position 2 has slope 0"):
        AffineClicks(np.array([1, 0]), np.zeros(2))
    with pytest.raises(DataError, match=r"\(1,\), \(2,\)"):
        AffineClicks(np.ones(1), np.zeros(2))
    with pytest.raises(DataError, match="entry for each position"):
        AffineClicks.of([1, 0.5], [1, 1, 1], [0, 0, 0])
    with pytest.raises(DataError, match="position 3"):
        AffineClicks(np.ones(2), np.zeros(2)).at([1, 3])


# -- estimated --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "model", "sessions"),
    [
        (FirstSwaps(0.5), TrustBiased(1.0), 2e4),
        (NeighbourSwaps(0.5), PositionBased(1, 0.1), 2e5),
        ("two rankers", TrustBiased(1.0), 2e5),
    ],
    ids=repr,
)
def test_it_finds_slopes_and_bases(world: Any, affine_truth: Any, design: Any, model: Any, sessions: float) -> None:
    log = world.two_rankers(sessions, model=model) if design == "two rankers" else world.log(design, sessions, 0, model)
    found, true = TrustBias(refuse_above=2).fit(log), anchored(affine_truth(model))
    assert found.covariance is not None
    errors = np.sqrt(np.diag(found.covariance))
    for part, error in zip(("slope", "base"), np.split(errors, 2), strict=True):
        away = (getattr(found, part) - getattr(true, part))[1:] / error[1:]
        assert np.abs(away).max() < 4
    assert (found.slope[0], found.base[0]) == (1, 0)
    if sessions == 2e5:
        assert errors[:5].max() < 0.08
        assert ("not refuted" in found.notes[0]) == isinstance(model, PositionBased)


def test_slopes_are_propensities_where_nobody_trusts_positions(world: Any) -> None:
    rho: Any = TrustBias().fit(world.log(FirstSwaps(0.5))).propensities()
    assert np.abs(np.log(rho.values * np.arange(1, 6))[1:] / rho.errors[1:]).max() < 4
    assert rho.method == "TrustBias"


class TestRefusals:
    def test_a_single_ranker(self, world: Any) -> None:
        with pytest.raises(UnidentifiableError, match="trust-bias .* any position"):
            TrustBias().fit(world.log())

    def test_candidates_that_are_all_alike(self) -> None:
        data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.zeros(60))
        shown: dict[str, Any] = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
        random = np.random.default_rng(0)
        for clicks in ([40] * 60 + [20] * 60, random.binomial(100, [0.4] * 60 + [0.2] * 60)):
            table = ClickTable.from_arrays(data, **shown, clicks=clicks)
            with pytest.raises(UnidentifiableError, match="slopes from bases"):
                TrustBias().fit(table)
