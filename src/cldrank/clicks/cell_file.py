"""Cells on disk: a Parquet file with one row per cell."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates, ids_of
from cldrank.clicks.log.paths import LogFile, LogSource, frame_of
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.frames import FramePart, frame_columns
from cldrank.errors import DataError, FormatError
from cldrank.files import replacing
from cldrank.reading import reading

COLUMNS = ("query_id", "doc_id", "position", "impressions", "clicks")
_METADATA = b"cldrank.cells"


def is_cells(path: Any) -> bool:
    """Whether a path is a Parquet file of cells, or a frame one of them, by its columns."""
    frame = frame_of(path)
    if frame is not None:
        return set(COLUMNS) <= set(frame_columns(frame.frame))
    if not isinstance(path, str | PathLike) or not Path(path).is_file():
        return False
    with reading(path, "a readable Parquet file"):
        with Path(path).open("rb") as file:
            if file.read(4) != b"PAR1":
                return False
        return set(COLUMNS) <= set(pq.read_schema(path).names)


def save_cells(table: ClickTable, path: Path) -> None:
    """Save the cells, with the ids of their candidates."""
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
    )
    described = {"every_click": table.every_click, "sources": [asdict(source) for source in table.sources]}
    content = content.replace_schema_metadata({_METADATA: json.dumps(described).encode()})
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd", write_page_checksum=True)


def load_cells(path: Any, dataset: RankingDataset | None = None) -> ClickTable:
    """Load the cells of a file or a frame, aligned to a dataset if one is given."""
    frame = frame_of(path)
    path = Path(path) if frame is None else frame
    content = _content(path) if frame is None else FramePart(frame.frame, COLUMNS).whole(COLUMNS)
    _check_nulls(content, path)
    every_click, sources = _described(content.schema.metadata or {}, path)
    ids = [_ids(content, column, path) for column in COLUMNS[:2]]
    with reading(path, "a file of cells"):
        counts = [np.asarray(content[column].to_numpy()) for column in COLUMNS[2:]]
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
    try:
        return ClickTable(candidates, row, counts[0], counts[1], counts[2], every_click, sources)
    except DataError as error:
        raise FormatError(error.message, *error.words, path=path) from None


def _content(path: Path) -> pa.Table:
    """The columns of cells, each there once."""
    with reading(path, "a readable Parquet file"):
        names = pq.read_schema(path).names
    for column in COLUMNS:
        if names.count(column) != 1:
            number = names.count(column)
            what = f"there are {number} columns {column!r}" if number else f"there is no column {column!r}"
            raise FormatError(f"{what}; a file of cells has one each of {', '.join(COLUMNS)}.", path=path)
    with reading(path, "a readable Parquet file"):
        content = pq.ParquetFile(path, page_checksum_verification=True).read(list(COLUMNS))
        content.validate(full=True)
    return content


def _check_nulls(content: pa.Table, path: LogSource) -> None:
    for column in COLUMNS:
        if content[column].null_count:
            raise FormatError(
                f"column {column!r} has null entries; a cell needs all of {', '.join(COLUMNS)}.", path=path
            )


def _ids(content: pa.Table, name: str, path: LogSource) -> NDArray[Any]:
    column = content[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise FormatError(f"column {name!r} holds {kind}; ids are whole numbers or text.", path=path)
    ids = ids_of(column, f"{path}: column {name!r}")
    if pa.types.is_floating(kind) and ids.dtype.kind != "i":
        raise FormatError(
            f"column {name!r} has an id that is not a whole number; ids are whole numbers or text.", path=path
        )
    return ids


def _described(metadata: dict[bytes, bytes], path: LogSource) -> tuple[bool, tuple[LogFile, ...]]:
    """Whether every click was counted, and the sources; cells that others made record neither."""
    if _METADATA not in metadata:
        return False, ()
    with reading(path, "a file of cells with metadata that can be read"):
        described = json.loads(metadata[_METADATA])
        every_click = described.get("every_click", False)
        sources = tuple(LogFile(**entry) for entry in described.get("sources", ()))
    strange = [
        source
        for source in sources
        if not all(isinstance(value, str) for value in (source.name, source.sha256, source.part))
        or type(source.size) is not int
    ]
    if not isinstance(every_click, bool) or strange:
        odd = f"source {strange[0]}" if strange else f"every_click is {every_click!r}"
        raise FormatError(f"the metadata of the cells is damaged ({odd[:200]}); aggregate the log again.", path=path)
    return every_click, sources
