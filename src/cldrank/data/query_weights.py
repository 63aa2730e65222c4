"""Files of weights of queries: how much each counts in training."""

from __future__ import annotations

from pathlib import Path

from cldrank.data.table_rows import file_part, id_texts, numbers_of
from cldrank.errors import FormatError
from cldrank.tables.sources import format_of, refuse_own
from cldrank.wording import some

_COLUMNS = ("query_id", "weight")


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
    part = file_part(path, format_of(path, ("parquet", "csv")))
    names = part.schema.names
    for column in _COLUMNS:
        if names.count(column) != 1:
            raise FormatError(f"needs one column {column!r}; it has {some(names, most=8)}.", path=path)
    part.check(_COLUMNS[:1], _COLUMNS[1:])
    weights: dict[str, float] = {}
    for batch in part.read(_COLUMNS[:1], _COLUMNS[1:], 1 << 16):
        ids, values = id_texts(batch.column(0), _COLUMNS[0], part, len(weights)), numbers_of(batch.column(1))
        for query, weight in zip(ids, values, strict=True):
            if query in weights:
                raise FormatError(f"query {query} has two weights.", path=path)
            weights[query] = float(weight)
    return weights
