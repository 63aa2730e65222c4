"""Files of weights of queries: how much each counts in training."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cldrank.data.table_rows import part_of
from cldrank.errors import FormatError
from cldrank.wording import some


def load_query_weights(source: Any) -> dict[str, float]:
    r"""The weight of each query that a Parquet or CSV file, or a frame, with columns `query_id` and `weight` names.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "weights.csv"
    ...     _ = file.write_text("query_id,weight\n7,2.5\n8,1\n")
    ...     load_query_weights(file)
    {'7': 2.5, '8': 1.0}
    """
    part = part_of(source, "weights")
    names = [] if part is None else part.schema.names
    if part is None or not {"query_id", "weight"} <= {*names}:
        where = source if part is None else part.where
        raise FormatError(f"needs columns 'query_id' and 'weight'; it has {some(names, most=8) or 'none'}.", path=where)
    part.check(["query_id"], ["weight"])
    (queries,), values = part.columns(["query_id"], "weight")
    weights = dict(zip(queries, values.tolist(), strict=True))
    if len(weights) < len(queries):
        raise FormatError(f"query {Counter(queries).most_common(1)[0][0]} has two weights.", path=part.where)
    return weights
