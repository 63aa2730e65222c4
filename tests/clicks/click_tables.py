"""Click tables for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from cldrank import ClickTable, RankingDataset

DATA = RankingDataset.from_arrays(np.eye(6), [1, 1, 1, 2, 2, 3], doc_ids=list("abcabx"))


def cells(table: ClickTable) -> list[tuple[Any, ...]]:
    """Query, document, position, impressions and clicks of each cell."""
    queries = table.candidates.query_ids[table.candidates.row_queries[table.row]]
    columns = (queries, table.candidates.doc_ids[table.row], table.position, table.impressions, table.clicks)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def tables(draw: st.DrawFn, dataset: RankingDataset = DATA) -> ClickTable:
    entry = st.tuples(st.integers(0, dataset.n_rows - 1), st.integers(1, 4), st.integers(1, 9))
    entries = draw(st.lists(entry, max_size=12))
    clicks = [draw(st.integers(0, shown)) for _, _, shown in entries]
    row, position, impressions = zip(*entries, strict=True) if entries else ((), (), ())
    return ClickTable.from_arrays(dataset, row=row, position=position, impressions=impressions, clicks=clicks)


Cells = dict[tuple[int, int], tuple[int, int]]


def table_of(cells: Cells, rows: int) -> ClickTable:
    data = RankingDataset.from_arrays(np.zeros((rows, 1)), np.arange(rows) // 4)
    row, position = zip(*cells, strict=True) if cells else ((), ())
    impressions, clicks = zip(*cells.values(), strict=True) if cells else ((), ())
    return ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)


some_cells = st.dictionaries(
    st.tuples(st.integers(0, 11), st.integers(1, 6)),
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    max_size=30,
)
