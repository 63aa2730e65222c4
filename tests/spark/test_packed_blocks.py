"""Blocks as executors make them; this needs no session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cldrank.spark import packed_blocks
from cldrank.spark.packed_blocks import DOCUMENT, FEATURES, LEVEL, PAGES, QUERY, TARGET, WEIGHT, Packer, unpacked


def candidates(query: str, rows: int) -> pa.Table:
    """The first candidate of a query was shown on seven pages, the others never."""
    seen: list[Any] = [[1.0], *[None] * (rows - 1)]
    lists = {name: pa.array(seen, pa.list_(pa.float64())) for name in (LEVEL, TARGET, WEIGHT)}
    features = pa.array([[float(row)] for row in range(rows)], pa.list_(pa.float32(), 1))
    documents, pages = [f"d{row}" for row in range(rows)], [7.0, *[None] * (rows - 1)]
    return pa.table({QUERY: [query] * rows, DOCUMENT: documents, FEATURES: features, PAGES: pages, **lists})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_a_query_that_goes_on_in_another_batch_stays_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr(packed_blocks, "_BLOCK_VALUES", 4)  # two rows of a feature and a number
    table = pa.concat_tables([candidates("a", 3), candidates("b", 1), candidates("c", 5)]).combine_chunks()
    blocks = list(unpacked(Packer("observations", ("x",))(table.to_batches(max_chunksize=size))))
    assert np.concatenate([features for features, _ in blocks]).ravel().tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 4]
    assert np.concatenate([observed.queries for _, observed in blocks]).tolist() == [0] * 3 + [1] + [2] * 5
    assert np.concatenate([observed.absent for _, observed in blocks]).tolist() == [0, 7, 7, 0, 0, 7, 7, 7, 7]
