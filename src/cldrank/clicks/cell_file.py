"""Cells on disk: a Parquet file with one row per cell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.candidates import UNKNOWN_QUERY, Candidates, ids_of
from cldrank.clicks.cell_arrays import joined_sources
from cldrank.clicks.log.paths import LogFile
from cldrank.clicks.log.roles import NO_SEGMENT, SEGMENT
from cldrank.clicks.log.values import DEEPEST
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, FormatError, setting, warn
from cldrank.files import replacing
from cldrank.reading import reading
from cldrank.wording import some

COLUMNS = ("query_id", "doc_id", "position", "impressions", "clicks")
_METADATA = b"cldrank.cells"


def is_cells(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> bool:
    """Whether a path is a Parquet file of cells, by its columns."""
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
    if table.has_segments:
        names = pa.DictionaryArray.from_arrays(pa.array(table.segment), pa.array(table.segment_names))
        content = content.append_column(SEGMENT, names)
    described = {"every_click": table.every_click, "sources": [asdict(source) for source in table.sources]}
    content = content.replace_schema_metadata({_METADATA: json.dumps(described).encode()})
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd", write_page_checksum=True)


def load_cells(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    dataset: RankingDataset | None = None,
    *,
    known_only: bool = False,
) -> ClickTable:
    """Load the cells of a file, or of several together, aligned to a dataset if one is given.

    known_only   leave out cells of candidates that the dataset does not have, with a warning, instead of refusing them
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]
    contents = [_content(file) for file in files]
    described = [_described(content.schema.metadata or {}, file) for content, file in zip(contents, files, strict=True)]
    for file, (every_click, _) in zip(files, described, strict=True):
        if every_click != described[0][0]:
            raise DataError(f"of {files[0]} and {file}, only one counts every click; they cannot be added up.")
    ids = [_joined_ids(contents, column, files) for column in COLUMNS[:2]]
    with reading(files[0], "a file of cells"):
        counts = [np.concatenate([content[column].to_numpy() for content in contents]) for column in COLUMNS[2:]]
        segment, names = segments_of(_joined_segments(contents, files))
    candidates = Candidates.seen(ids[0], ids[1]) if dataset is None else Candidates.of(dataset)
    row = candidates.find(ids[0], ids[1])
    known = row >= 0
    if not known.all():
        _explain_unknown(row, ids, counts[1], dataset, files, refuse=not known_only or not known.any())
    sources = described[0][1]
    if len(files) > 1:
        ends = np.cumsum([0, *map(len, contents)])
        keys = (row * len(names) + segment) * (DEEPEST + 1) + counts[0]
        parts = [(one[1], keys[ends[at] : ends[at + 1]]) for at, one in enumerate(described)]
        sources = joined_sources(parts)
    try:
        position, impressions, clicks = (values[known] for values in counts)
        return ClickTable(
            candidates,
            row[known],
            position,
            impressions,
            clicks,
            described[0][0],
            sources,
            segment=segment[known],
            segment_names=names,
        )
    except DataError as error:
        raise FormatError(error.message, *error.words, path=some(files, 1)) from None


def load_sources(path: Path) -> tuple[LogFile, ...]:
    """The log files that went into a file of cells, without reading the cells."""
    with reading(path, "a readable Parquet file"):
        metadata = pq.read_schema(path).metadata or {}
    return _described(metadata, path)[1]


def _explain_unknown(
    row: IntArray,
    ids: list[NDArray[Any]],
    impressions: IntArray,
    dataset: RankingDataset | None,
    files: list[Path],
    *,
    refuse: bool,
) -> None:
    """Refuse cells of candidates that a dataset does not have, or warn of them."""
    unknown = np.flatnonzero(row < 0)
    first = int(unknown[0])
    query, document = ids[0][first], ids[1][first]
    what = f"query {query}" if row[first] == UNKNOWN_QUERY else f"document {document} of query {query}"
    found = f"{len(unknown):,} of {len(row):,} cells are of candidates that {dataset!r} does not have, the first of "
    if refuse:
        raise DataError(f"{some(files, 1)}: {found}{what}; were they made for another dataset?")
    share = impressions[unknown].sum() / max(impressions.sum(), 1)
    warn(CldrankWarning(f"{some(files, 1)}: {found}{what}; they are left out, with {share:.1%} of the impressions."))


def _joined_ids(contents: list[pa.Table], column: str, files: list[Path]) -> NDArray[Any]:
    """The ids of all files, as numbers if all are."""
    found = [_ids(content, column, file) for content, file in zip(contents, files, strict=True)]
    if len({one.dtype.kind for one in found if len(one)}) > 1:
        found = [one.astype(np.str_) for one in found]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _joined_segments(contents: list[pa.Table], files: list[Path]) -> pa.Table:
    """The column of segments of all files, of which all must have one, or none."""
    named = [SEGMENT in content.column_names or not len(content) for content in contents]
    if not any(SEGMENT in content.column_names for content in contents):
        return contents[0].select([]) if len(contents) == 1 else pa.table({"rows": np.zeros(sum(map(len, contents)))})
    if not all(named):
        raise DataError(
            "{} has no segments, others of the files have; aggregate all logs with {}.",
            files[named.index(False)],
            setting(SEGMENT),
        )
    return pa.concat_tables([content.select([SEGMENT]) for content in contents if len(content)])


def segments_of(cells: pa.Table) -> tuple[IntArray, tuple[str, ...]]:
    """The codes of the segments of cells, and their names; one without a name where they have none.

    >>> segments_of(pa.table({"segment": ["phone", None, "phone"]}))
    (array([0, 1, 0]), ('phone', '(missing)'))
    """
    if SEGMENT not in cells.column_names or not len(cells):
        return np.zeros(len(cells), dtype=np.int64), ("",)
    column = pc.fill_null(cells[SEGMENT].cast(pa.string()), NO_SEGMENT)
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), tuple(encoded.dictionary.to_pylist())


def _content(path: Path) -> pa.Table:
    """The columns of cells, each there once and without nulls."""
    with reading(path, "a readable Parquet file"):
        names = pq.read_schema(path).names
    for column in COLUMNS:
        if names.count(column) != 1:
            number = names.count(column)
            what = f"there are {number} columns {column!r}" if number else f"there is no column {column!r}"
            raise FormatError(f"{what}; a file of cells has one each of {', '.join(COLUMNS)}.", path=path)
    with reading(path, "a readable Parquet file"):
        wanted = [*COLUMNS, *(name for name in names if name == SEGMENT)]
        content = pq.ParquetFile(path, page_checksum_verification=True).read(wanted)
        content.validate(full=True)
    for column in COLUMNS:
        if content[column].null_count:
            raise FormatError(
                f"column {column!r} has null entries; a cell needs all of {', '.join(COLUMNS)}.", path=path
            )
    return content


def _ids(content: pa.Table, name: str, path: Path) -> NDArray[Any]:
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


def _described(metadata: dict[bytes, bytes], path: Path) -> tuple[bool, tuple[LogFile, ...]]:
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
