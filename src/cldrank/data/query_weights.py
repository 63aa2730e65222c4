"""Files of weights of queries: how much each counts in training."""

from __future__ import annotations

from pathlib import Path

from cldrank.data.table_rows import file_part, id_texts, numbers_of
from cldrank.errors import FormatError, UsageError
from cldrank.tables.sources import known_format, refuse_own
from cldrank.wording import some

_ID, _WEIGHT = "query_id", "weight"


def load_query_weights(path: str | Path) -> dict[str, float]:
    r"""The weight of each query that a Parquet or CSV file with columns `query_id` and `weight` names.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "weights.csv"
    ...     _ = file.write_text("query_id,weight\n7,2.5\n8,1\n")
    ...     load_query_weights(file)
    {'7': 2.5, '8': 1.0}
    """
    path = Path(path)
    refuse_own(path, "file of weights")
    form = known_format(path)
    if form not in ("parquet", "csv"):
        raise UsageError(f"{path}: weights of queries are in a Parquet or CSV file.")
    part = file_part(path, form)
    names = part.schema.names
    for column in (_ID, _WEIGHT):
        if names.count(column) != 1:
            raise FormatError(f"needs one column {column!r}; it has {some(names, most=8)}.", path=path)
    part.check([_ID], [_WEIGHT])
    weights: dict[str, float] = {}
    rows = 0
    for batch in part.read([_ID], [_WEIGHT], 1 << 16):
        for query, weight in zip(id_texts(batch.column(0), _ID, part, rows), numbers_of(batch.column(1)), strict=True):
            if query in weights:
                raise FormatError(f"query {query} has two weights.", path=path)
            weights[query] = float(weight)
        rows += len(batch)
    return weights
