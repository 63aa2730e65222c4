"""Pages in random order, and pages drawn with known probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.propensity import ClickThrough, Randomised


def lists_of_two_lengths() -> ClickTable:
    """Short lists of good results, long lists of bad ones, in random order, exactly at their expectation.

    Position 3 is only on long lists: plain rates mistake their bad results for a position that few look at.
    """
    rho, cells = np.array([1.0, 0.5, 0.25]), []
    for query in range(60):
        length, relevance = (2, 0.8) if query % 2 else (3, 0.2)
        for place in range(length):
            for candidate in range(length):
                shown = 600 // length
                row = query * 3 + candidate
                cells.append((row, place + 1, shown, round(shown * rho[place] * relevance)))
    data = cr.RankingDataset.from_arrays(np.zeros((180, 1)), np.repeat(np.arange(60), 3))
    row, position, impressions, clicks = np.array(cells).T
    return ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)


def test_lists_of_different_lengths_do_not_bias() -> None:
    table = lists_of_two_lengths()
    np.testing.assert_allclose(Randomised().fit(table).values, [1, 0.5, 0.25])
    assert ClickThrough().fit(table).values[2] == pytest.approx(0.1)  # 0.25 * 0.2 / the mean of 0.2 and 0.8


def test_equal_lists_give_the_ratio_of_rates(world: Any) -> None:
    table = world.shuffled()
    clicks = np.bincount(table.position, table.clicks)[1:]
    shown = np.bincount(table.position, table.impressions)[1:]
    expected = (clicks / shown) / (clicks[0] / shown[0])
    np.testing.assert_allclose(Randomised().fit(table).values, expected, rtol=1e-9)


@pytest.mark.data
def test_ranklens(real_data: Path) -> None:
    columns = {"session_id": "ranking", "user_id": "user", "timestamp": "ts_ms", "doc_id": "item", "clicked": "click"}
    table = ClickTable.read(real_data / "ranklens" / "impressions.parquet", columns=columns, one_query=True)
    rho = Randomised().fit(table)
    np.testing.assert_allclose(rho.values[:3], np.array([2435, 2309, 2199]) / 2435)  # all of 9,800; by DuckDB's own SQL
    assert rho.low is not None
    assert rho.high is not None
    assert rho.low[23] > rho.high[22]  # the last of 24 is looked at more often than the one above
    assert rho.goodness is not None
    assert rho.goodness.p_value > 0.05
