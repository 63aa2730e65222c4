"""Cells on disk: a Parquet file with one row a cell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError
from cldrank.files import replacing

COLUMNS = ("query_id", "doc_id", "position", "impressions", "clicks")
_METADATA = b"cldrank.cells"


def is_cells(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> bool:
    """Whether a path is a Parquet file of cells, by its columns."""
    if not isinstance(path, str | PathLike) or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        if file.read(4) != b"PAR1":
            return False
    try:
        return set(COLUMNS) <= set(pq.read_schema(path).names)
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"not a readable Parquet file ({error}).", path=Path(path)) from None


def write_cells(table: ClickTable, path: Path) -> None:
    """Write the cells, with the ids of their candidates."""
    candidates = table.candidates
    queries = candidates.row_queries[table.row]
    content = pa.table(
        {
            "query_id": pa.array(candidates.query_ids[queries]),
            "doc_id": pa.array(candidates.doc_ids[table.row]),
            "position": pa.array(table.position),
            "impressions": pa.array(table.impressions),
            "clicks": pa.array(table.clicks),
        }
    ).replace_schema_metadata({_METADATA: json.dumps({"every_click": table.every_click}).encode()})
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd")


def read_cells(path: Any, dataset: RankingDataset | None = None) -> ClickTable:
    """Read the cells of a file, aligned to a dataset if one is given."""
    path = Path(path)
    try:
        content = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"not a readable Parquet file ({error}).", path=path) from None
    for column in COLUMNS:
        if content[column].null_count:
            raise FormatError(
                f"column {column!r} has null entries; a cell needs all of {', '.join(COLUMNS)}.", path=path
            )
    ids = [np.asarray(content[column].to_numpy()) for column in ("query_id", "doc_id")]
    counts = [content[column].to_numpy() for column in ("position", "impressions", "clicks")]
    candidates = Candidates.seen(ids[0], ids[1]) if dataset is None else Candidates.of(dataset)
    row = candidates.find(ids[0], ids[1])
    unknown = np.flatnonzero(row < 0)
    if len(unknown):
        first = int(unknown[0])
        what = (
            f"query {ids[0][first]}"
            if row[first] == UNKNOWN_QUERY
            else f"document {ids[1][first]} of query {ids[0][first]}"
        )
        raise DataError(
            f"{path}: {len(unknown):,} of {len(row):,} cells are of candidates that {dataset!r} does not have, "
            f"the first of {what}; were they made for another dataset?"
        )
    described = json.loads((content.schema.metadata or {}).get(_METADATA, b"{}"))
    return ClickTable(candidates, row, counts[0], counts[1], counts[2], bool(described.get("every_click", False)))
