"""A log whose pages are labelled at random, half of them with either name of two segments."""

from __future__ import annotations

import numpy as np

from cldrank.clicks.table import ClickTable

NAMES = ("desktop", "phone")


def halved(table: ClickTable, seed: int = 0) -> tuple[ClickTable, ClickTable]:
    """The table with all counts doubled; and the same with half of the pages of each query in either segment.

    Every cell is divided in two: equal impressions, and clicks as a draw of pages deals them out.
    """
    n, clicks = table.impressions, table.clicks
    whole = ClickTable(table.candidates, table.row, table.position, 2 * n, 2 * clicks)
    dealt = np.random.default_rng(seed).hypergeometric(2 * clicks, 2 * (n - clicks), n)
    row, position, impressions = (np.concatenate([part, part]) for part in (table.row, table.position, n))
    segment, parts = np.repeat([0, 1], table.n_cells), np.concatenate([dealt, 2 * clicks - dealt])
    split = ClickTable(table.candidates, row, position, impressions, parts, segment=segment, segment_names=NAMES)
    return whole, split
