"""Cells on disk: a Parquet file with a row per cell or, with a column `last_click`, per context."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates, ids_of
from cldrank.clicks.contexts import LAST_CLICK
from cldrank.clicks.events import checked_weights, event_column, events_among
from cldrank.clicks.log.layout import SEGMENT
from cldrank.clicks.log.log_files import LogFile, in_both
from cldrank.clicks.table import ClickTable, check_segments
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, FormatError, warn
from cldrank.files import replacing
from cldrank.reading import reading
from cldrank.tables import named_paths
from cldrank.tables.types import is_text
from cldrank.wording import some

_COLUMNS = ("query_id", "doc_id", "position", "impressions", "clicks")
_METADATA = b"cldrank.cells"


def is_cells(path: Any) -> bool:
    """Whether a path is a Parquet file of cells, by its columns."""
    if not isinstance(path, str | PathLike) or not Path(path).is_file():
        return False
    with reading(path, "a readable Parquet file"):
        with Path(path).open("rb") as file:
            if file.read(4) != b"PAR1":
                return False
        return set(_COLUMNS) <= set(pq.read_schema(path).names)


def save_cells(table: ClickTable, path: Path) -> None:
    """Save the cells, with the ids of their candidates."""
    cells = table if table.contexts is None else table.contexts
    query_ids, doc_ids = table.candidates.ids_at(cells.row)
    counts = {name: pa.array(getattr(cells, name)) for name in _COLUMNS[2:]}
    content = pa.table({"query_id": pa.array(query_ids), "doc_id": pa.array(doc_ids), **counts})
    if table.contexts is not None:
        content = content.append_column(LAST_CLICK, pa.array(table.contexts.last_click))
    if table.has_segments:
        names = pa.DictionaryArray.from_arrays(pa.array(cells.segment), pa.array(table.segment_names))
        content = content.append_column(SEGMENT, names)
    for name, happened in table.events.items():
        if table.contexts is not None:  # those of a cell stand with its first context
            happened = np.where(np.diff(table.contexts.cell, prepend=-1) > 0, happened[table.contexts.cell], 0)
        content = content.append_column(event_column(name), pa.array(happened))
    described: dict[str, Any] = {"sources": [asdict(source) for source in table.sources]}
    if table.event_weights:
        described["event_weights"] = table.event_weights
    content = content.replace_schema_metadata({_METADATA: json.dumps(described).encode()})
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd", write_page_checksum=True)


def load_cells(
    paths: Any,
    dataset: RankingDataset | None = None,
    *,
    known_only: bool = False,
    event_weights: Mapping[str, float] | None = None,
) -> ClickTable:
    """Load the cells of a file, or of several together; with a dataset, aligned to its candidates.

    known_only      leave out cells of candidates that the dataset does not have, with a warning, in place of an error
    event_weights   in place of those that the files have; see `ClickTable.weighted`
    """
    files = named_paths(paths, "cells")
    names = list(map(str, files))
    contents = [_content(file) for file in files]
    described = [_described(content.schema, len(content), name) for content, name in zip(contents, names, strict=True)]
    check_segments((name, has_segments) for name, (has_segments, _, _) in zip(names, described, strict=True))
    sources = tuple(source for _, own, _ in described for source in own)
    weights = described[0][2] if event_weights is None else event_weights
    if len(contents) > 1:
        shared, counted = False, list[LogFile]()
        for _, own, _ in described:
            shared |= bool(in_both(counted, own))
            counted += own
        differ = event_weights is None and any(own != weights for _, _, own in described)
        if shared or differ or not _are_alike(contents):  # then file by file, with all checks
            options: Any = {"known_only": known_only, "event_weights": event_weights}
            return ClickTable.merged([load_cells(file, dataset, **options) for file in files])
        contents = [added_cells(contents)]
    (cells,) = contents
    query_ids, doc_ids = (_ids(cells, column, names[0]) for column in _COLUMNS[:2])
    candidates = Candidates.seen(query_ids, doc_ids) if dataset is None else Candidates.of(dataset)
    row = candidates.find(query_ids, doc_ids)
    if (row < 0).any():
        unknown = np.flatnonzero(row < 0)
        what = f"query {query_ids[unknown[0]]}"
        if row[unknown[0]] != UNKNOWN_QUERY:
            what = f"document {doc_ids[unknown[0]]} of {what}"
        text = (
            f"{some(names, 1)}: {len(unknown):,} of {len(row):,} cells are of candidates that {dataset!r} does not "
            f"have, the first of {what}"
        )
        if not known_only or len(unknown) == len(row):
            raise DataError(f"{text}; were they made for another dataset?")
        impressions = cells["impressions"].to_numpy()
        share = impressions[unknown].sum() / max(impressions.sum(), 1)
        warn(CldrankWarning(f"{text}; they are left out, with {share:.1%} of the impressions."))
    try:
        return ClickTable.from_cells(cells, candidates, row, sources=sources, event_weights=weights)
    except (DataError, pa.ArrowException) as error:
        raise FormatError(str(error), path=some(names, 1)) from None


def describe_cells(path: Path) -> tuple[bool | None, tuple[LogFile, ...]]:
    """Whether the cells of a file have segments, None if there are none, and its log files; cells are not read."""
    with reading(path, "a readable Parquet file"):
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    has_segments, sources, _ = _described(schema, metadata.num_rows, str(path))
    return has_segments, sources


# -- several files together --------------------------------------------------------------------------------------------


def _are_alike(contents: list[pa.Table]) -> bool:
    """Whether files hold cells as `save_cells` writes them and ids of the same kind: then Arrow can add them up."""
    first = contents[0].schema
    wanted = [name for name in first.names if name not in (LAST_CLICK, SEGMENT)]
    plain = all(first.field(name).type in (pa.int64(), pa.string()) for name in wanted)
    return plain and all(content.schema.equals(first) for content in contents)


def added_cells(parts: list[pa.Table]) -> pa.Table:
    """Cells of the same kind, those with equal keys added up, before anything is done with their ids."""
    counts = counted_columns(parts[0].column_names)
    keys = [name for name in parts[0].column_names if name not in counts]
    sums = pa.concat_tables(parts).group_by(keys).aggregate([(name, "sum") for name in counts])
    return sums.rename_columns([*keys, *counts])


def counted_columns(names: Sequence[str]) -> list[str]:
    """Of the columns of cells, those that count: impressions, clicks and events."""
    return [*_COLUMNS[3:], *map(event_column, events_among(names))]


# -- each file ---------------------------------------------------------------------------------------------------------


def _content(path: Path) -> pa.Table:
    """The columns of cells, each exactly once and without nulls."""
    with reading(path, "a readable Parquet file"):
        names = pq.read_schema(path).names
    events = map(event_column, events_among(names))
    wanted = [*_COLUMNS, *(name for name in (LAST_CLICK, SEGMENT) if name in names), *events]
    for column in wanted:
        if names.count(column) != 1:
            raise FormatError(
                f"there are {names.count(column)} columns {column!r}; a file of cells has one each of "
                f"{', '.join(_COLUMNS)}.",
                path=path,
            )
    with reading(path, "a readable Parquet file"):
        content = pq.ParquetFile(path, page_checksum_verification=True).read(wanted)
        content.validate(full=True)
    for column in {*wanted} - {SEGMENT}:
        if content[column].null_count:
            needed = ", ".join(_COLUMNS)
            raise FormatError(f"column {column!r} has null entries; a cell needs all of {needed}.", path=path)
    if SEGMENT in wanted:  # as text: codes of other days stand for other segments
        with reading(path, "a file of cells whose segments are text"):
            content = content.set_column(wanted.index(SEGMENT), SEGMENT, content[SEGMENT].cast(pa.string()))
    return content


def _ids(content: pa.Table, name: str, path: str) -> NDArray[Any]:
    column = content[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    ids = ids_of(column, f"{path}: column {name!r}")
    if not (is_text(kind) or pa.types.is_integer(kind) or (pa.types.is_floating(kind) and ids.dtype.kind == "i")):
        raise FormatError(f"column {name!r} holds {kind}; ids are whole numbers or text.", path=path)
    return ids


def _described(
    schema: pa.Schema, n_cells: int, path: str
) -> tuple[bool | None, tuple[LogFile, ...], Mapping[str, float]]:
    """Whether cells have segments; their sources and weights of events, which cells that others made do not record."""
    described: Mapping[str, Any] = {}
    with reading(path, "a file of cells with metadata that can be read"):
        if _METADATA in (schema.metadata or {}):
            described = json.loads(schema.metadata[_METADATA])
        sources = tuple(LogFile(**entry) for entry in described.get("sources", ()))
        if not all(source.is_valid for source in sources):
            raise ValueError("the metadata of the cells is damaged; aggregate the log again")
        weights = checked_weights(described.get("event_weights", {}), events_among(schema.names))
    return SEGMENT in schema.names if n_cells else None, sources, weights
