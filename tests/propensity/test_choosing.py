from __future__ import annotations

import warnings

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning
from cldrank.propensity import AllPairs
from cldrank.propensity.comparing import fitted_segments


def on_every_position(rho: list[float], name: str, seed: int = 0) -> ClickTable:
    """The log of a segment that showed each of 60 results as often at every position."""
    random, size = np.random.default_rng(seed), len(rho)
    data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.arange(60) // 6)
    relevance = np.tile(random.choice([0.5, 0.95], 60), size)
    position = np.repeat(np.arange(1, size + 1), 60)
    return ClickTable.from_arrays(
        data,
        row=np.tile(np.arange(60), size),
        position=position,
        impressions=np.full(60 * size, 2000),
        clicks=random.binomial(2000, relevance * np.array(rho)[position - 1]),
        segment=[name] * 60 * size,
    )


def test_a_curve_that_the_clicks_of_its_segment_refute_is_warned_of() -> None:
    """A power law is far from how phones are examined, and near to how desktops are."""
    phone, desktop = (
        on_every_position([1, 0.9, 0.3, 0.25, 0.2], "phone"),
        on_every_position([1, 0.5, 0.33], "desktop", 1),
    )
    with pytest.warns(CldrankWarning) as caught:
        fitted_segments(AllPairs(), phone.merge(desktop), smooth="power")
    (said,) = (str(one.message) for one in caught if "refute" in str(one.message))
    assert "segment phone" in said
    assert "at position 2" in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted_segments(AllPairs(), phone.merge(desktop))


def test_a_segment_with_one_position_is_not_smoothed() -> None:
    table = on_every_position([1, 0.5, 0.33], "desktop").merge(on_every_position([1], "watch", 1))
    for smooth in ("power", "monotone"):
        found = fitted_segments(AllPairs(), table, smooth=smooth, clip=0.4)
        assert found["watch"].values.tolist() == [1]
        assert found["desktop"].values[2] == pytest.approx(0.4)
