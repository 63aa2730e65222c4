from __future__ import annotations

import numpy as np
import pytest
from click_tables import Cells, some_cells, table_of
from hypothesis import given

from cldrank.auditing.drift import wilson
from cldrank.auditing.facts import by_position, describe_queries


class TestPositions:
    def test_wilson(self) -> None:
        low, high = wilson(np.array([5.0, 0.0, 20.0]), np.array([10.0, 20.0, 20.0]))
        # Newcombe (1998), and by hand: z² / (n + z²) for none of n
        assert low == pytest.approx([0.2366, 0.0, 0.8389], abs=1e-4)
        assert high == pytest.approx([0.7634, 0.1611, 1.0], abs=1e-4)

    @given(some_cells)
    def test_the_curve_has_every_impression_and_click(self, cells: Cells) -> None:
        found = by_position(table_of(cells, 12))
        assert sum(entry.impressions for entry in found) == sum(n for n, _ in cells.values())
        assert sum(entry.clicks for entry in found) == sum(c for _, c in cells.values())
        assert all(entry.low <= entry.rate <= entry.high for entry in found)

    def test_queries(self) -> None:
        cells = {(0, 1): (8, 1), (1, 2): (8, 0), (4, 1): (3, 0), (5, 1): (2, 0)}
        found = describe_queries(table_of(cells, 12), knows_candidates=True)
        assert (found.queries, found.searched, found.unclicked) == (3, 2, 1)
        assert (found.candidates, found.never_shown) == (8, 4)
        assert (found.sessions["least"], found.sessions["most"]) == (5, 8)
