"""The same logs as `ultr-bias-toolkit`, the same curves, under the weighting of the paper that both follow.

Its all-pairs estimator shares one relevance between all pairs of positions with the same product, 1 x 6 and 2 x 3 for
instance, which no model asks for; so it is compared on five positions, where no two products are equal. It climbs
by Adam in float32 for a fixed number of epochs, hence the tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cldrank.clicks.table import ClickTable
from cldrank.propensity import AdjacentChain, AllPairs, Pivot

why = "pip install ultr-bias-toolkit"
pd: Any = pytest.importorskip("pandas", reason=why)
torch: Any = pytest.importorskip("torch", reason=why)
naive: Any = pytest.importorskip("ultr_bias_toolkit.bias.naive", reason=why)
harvesting: Any = pytest.importorskip("ultr_bias_toolkit.bias.intervention_harvesting", reason=why)


@pytest.fixture(scope="module")
def table(world: Any) -> ClickTable:
    return world.shuffled(2e4)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def frame(table: ClickTable) -> Any:
    """One row an impression."""
    row, position = (np.repeat(part, table.impressions) for part in (table.row, table.position))
    first = np.cumsum(table.impressions) - table.impressions
    place = np.arange(len(row)) - np.repeat(first, table.impressions)
    click = (place < np.repeat(table.clicks, table.impressions)).astype(int)
    query = table.candidates.row_queries[row]
    return pd.DataFrame({"query_id": query, "doc_id": row, "position": position, "click": click})


@pytest.mark.filterwarnings("ignore")  # it writes to slices of frames
def test_pivot(table: ClickTable, frame: Any) -> None:
    theirs = harvesting.PivotEstimator(pivot_rank=1)(frame).examination
    np.testing.assert_allclose(Pivot(weighting="candidates").fit(table).values, theirs, rtol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_adjacent_chain(table: ClickTable, frame: Any) -> None:
    theirs = harvesting.AdjacentChainEstimator()(frame).examination
    np.testing.assert_allclose(AdjacentChain(weighting="candidates").fit(table).values, theirs, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_pairs(table: ClickTable, frame: Any) -> None:
    torch.manual_seed(0)
    theirs = harvesting.AllPairsEstimator(epochs=3000)(frame).examination
    np.testing.assert_allclose(AllPairs(weighting="candidates").fit(table).values, theirs, rtol=2e-4)
