from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import FirstSwaps, NeighbourSwaps, PositionBased, TrustBiased
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UnidentifiableError
from cldrank.propensity import TrustBias


@pytest.mark.parametrize("sessions", [2e4, 2e5])
@pytest.mark.parametrize("design", [FirstSwaps(0.5), NeighbourSwaps(0.5), "two rankers"], ids=repr)
@pytest.mark.parametrize("model", [TrustBiased(1.0), PositionBased(1, 0.1)], ids=repr)
def test_it_finds_slopes_and_bases(world: Any, affine_truth: Any, design: Any, model: Any, sessions: float) -> None:
    log = world.two_rankers(sessions, model=model) if design == "two rankers" else world.log(design, sessions, 0, model)
    found, true = TrustBias(refuse_above=2).fit(log), affine_truth(model).anchored()
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
    rho = TrustBias().fit(world.log(FirstSwaps(0.5))).propensities()
    assert rho.errors is not None
    assert np.abs(np.log(rho.values * np.arange(1, 6))[1:] / rho.errors[1:]).max() < 4
    assert rho.method == "TrustBias"


class TestRefusals:
    def test_a_single_ranker(self, world: Any) -> None:
        with pytest.raises(
            UnidentifiableError, match="trust-bias cannot estimate any position: each candidate was shown"
        ):
            TrustBias().fit(world.log())

    def test_candidates_that_are_all_alike(self) -> None:
        data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.zeros(60))
        shown: dict[str, Any] = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
        random = np.random.default_rng(0)
        for clicks in ([40] * 60 + [20] * 60, random.binomial(100, [0.4] * 60 + [0.2] * 60)):
            table = ClickTable.from_arrays(data, **shown, clicks=clicks)
            with pytest.raises(UnidentifiableError, match="cannot separate slopes from bases.*all-pairs"):
                TrustBias().fit(table)

    def test_too_few_clicks(self, world: Any) -> None:
        with pytest.raises(UnidentifiableError, match="trust-bias cannot"):
            TrustBias(refuse_above=0.01).fit(world.two_rankers(3e4))

    def test_every_click(self) -> None:
        data = cr.RankingDataset.from_arrays(np.zeros((2, 1)), np.zeros(2))
        table = ClickTable.from_arrays(
            data, row=[0, 0], position=[1, 2], impressions=[1, 1], clicks=[2, 2], every_click=True
        )
        with pytest.raises(DataError, match="counts every click"):
            TrustBias().fit(table)
