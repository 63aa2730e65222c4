"""Cells on disk: a Parquet file with one row per cell."""

from __future__ import annotations

import json
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
from cldrank.clicks.cell_kind import CellKind, joined_kind
from cldrank.clicks.log.paths import LogFile, LogSource, Paths, existing, frame_of, in_both
from cldrank.clicks.log.roles import NO_SEGMENT, SEGMENT
from cldrank.clicks.table import ClickTable
from cldrank.data.checks import LARGEST
from cldrank.data.dataset import RankingDataset
from cldrank.data.frames import FramePart, frame_columns
from cldrank.errors import CldrankWarning, DataError, FormatError, warn
from cldrank.files import replacing
from cldrank.reading import reading
from cldrank.wording import some

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
    if table.has_segments:
        names = pa.DictionaryArray.from_arrays(pa.array(table.segment), pa.array(table.segment_names))
        content = content.append_column(SEGMENT, names)
    described = {
        "every_click": table.every_click,
        "layout": dict(table.layout),
        "sources": [asdict(source) for source in table.sources],
    }
    content = content.replace_schema_metadata({_METADATA: json.dumps(described).encode()})
    with replacing(path) as temporary:
        pq.write_table(content, temporary, compression="zstd", write_page_checksum=True)


def load_cells(
    paths: Paths,
    dataset: RankingDataset | None = None,
    *,
    known_only: bool = False,
) -> ClickTable:
    """Load the cells of a file, a frame, or several files together, aligned to a dataset if one is given.

    known_only   leave out cells of candidates that the dataset does not have, with a warning, instead of refusing them
    """
    files = existing(paths)
    contents = [_content(file) for file in files]
    described = [_described(content.schema, len(content), file) for content, file in zip(contents, files, strict=True)]
    kind = joined_kind((str(file), own) for file, (own, _) in zip(files, described, strict=True))
    sources = described[0][1]
    if len(files) > 1:
        counted: list[LogFile] = []
        differ = not _can_be_added(contents, kind.every_click)
        for _, own in described:
            differ |= bool(in_both(counted, own))
            counted += own
        if differ:  # then one by one, with all checks
            return ClickTable.merged([load_cells(file, dataset, known_only=known_only) for file in files])
        contents, sources = [_added(contents)], tuple(counted)
    ids = [_ids(contents[0], column, files[0]) for column in COLUMNS[:2]]
    with reading(files[0], "a file of cells"):
        counts = [np.asarray(contents[0][column].to_numpy()) for column in COLUMNS[2:]]
        segment, names = segments_of(contents[0])
    candidates = Candidates.seen(ids[0], ids[1]) if dataset is None else Candidates.of(dataset)
    row = candidates.find(ids[0], ids[1])
    known = row >= 0
    if not known.all():
        _explain_unknown(row, ids, counts[1], dataset, files, refuse=not known_only or not known.any())
    try:
        position, impressions, clicks = (values[known] for values in counts)
        return ClickTable(
            candidates,
            row[known],
            position,
            impressions,
            clicks,
            kind.every_click,
            sources,
            segment=segment[known],
            segment_names=names,
            layout=kind.layout,
        )
    except DataError as error:
        raise FormatError(error.message, *error.words, path=some(files, 1)) from None


def _can_be_added(contents: list[pa.Table], every_click: bool) -> bool:
    """Whether files hold cells as `save_cells` writes them, all with ids of one kind, so that Arrow can add them up."""
    first = contents[0].schema
    plain = all(first.field(name).type in (pa.int64(), pa.string()) for name in COLUMNS)
    if not plain or not all(content.schema.equals(first) for content in contents):
        return False
    for content in contents:
        impressions, clicks = (content[name].to_numpy() for name in COLUMNS[3:])
        if (clicks < 0).any() or (impressions > LARGEST // len(contents)).any():
            return False
        if (impressions < clicks).any() and not every_click:
            return False
    return True


def _added(contents: list[pa.Table]) -> pa.Table:
    """The cells of all files, those of equal keys added up, before anything is done with their ids."""
    counts = COLUMNS[3:]
    keys = [name for name in contents[0].column_names if name not in counts]
    contents = [_with_plain_segments(content) for content in contents]
    found = pa.concat_tables(contents).group_by(keys).aggregate([(name, "sum") for name in counts])
    return found.rename_columns([*keys, *counts])


def _with_plain_segments(content: pa.Table) -> pa.Table:
    """The names of segments as text: codes of other days stand for other segments, and Arrow does not group by both."""
    if SEGMENT not in content.column_names:
        return content
    place = content.column_names.index(SEGMENT)
    return content.set_column(place, SEGMENT, content[SEGMENT].cast(pa.string()))


def describe_cells(path: Path) -> tuple[CellKind, tuple[LogFile, ...]]:
    """How the cells of a file were counted, and from which log files, without reading the cells."""
    with reading(path, "a readable Parquet file"):
        found = pq.read_metadata(path)
        schema = found.schema.to_arrow_schema()
    return _described(schema, found.num_rows, path)


def _explain_unknown(
    row: IntArray,
    ids: list[NDArray[Any]],
    impressions: IntArray,
    dataset: RankingDataset | None,
    files: list[LogSource],
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


def _content(source: LogSource) -> pa.Table:
    """The columns of cells, each there once and without nulls."""
    if isinstance(source, Path):
        content = _of_file(source)
    else:
        wanted = [*COLUMNS, *(name for name in frame_columns(source.frame) if name == SEGMENT)]
        content = FramePart(source.frame, wanted).whole(wanted)
    _check_nulls(content, source)
    return content


def _of_file(path: Path) -> pa.Table:
    with reading(path, "a readable Parquet file"):
        names = pq.read_schema(path).names
    for column in COLUMNS:
        if names.count(column) != 1:
            number = names.count(column)
            what = f"there are {number} columns {column!r}" if number else f"there is no column {column!r}"
            raise FormatError(f"{what}; a file of cells has one each of {', '.join(COLUMNS)}.", path=path)
    if names.count(SEGMENT) > 1:
        raise FormatError(f"there are {names.count(SEGMENT)} columns {SEGMENT!r}; cells have one segment.", path=path)
    with reading(path, "a readable Parquet file"):
        wanted = [*COLUMNS, *(name for name in names if name == SEGMENT)]
        content = pq.ParquetFile(path, page_checksum_verification=True).read(wanted)
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


def _described(schema: pa.Schema, n_cells: int, path: LogSource) -> tuple[CellKind, tuple[LogFile, ...]]:
    """How cells were counted, and their sources; cells that others made record neither."""
    metadata = schema.metadata or {}
    segments = SEGMENT in schema.names if n_cells else None
    if _METADATA not in metadata:
        return CellKind(has_segments=segments), ()
    with reading(path, "a file of cells with metadata that can be read"):
        described = json.loads(metadata[_METADATA])
        every_click, layout = described.get("every_click", False), dict(described.get("layout", {}))
        sources = tuple(LogFile(**entry) for entry in described.get("sources", ()))
    strange = [
        source
        for source in sources
        if not all(isinstance(value, str) for value in (source.name, source.sha256, source.part))
        or type(source.size) is not int
    ]
    odd_layout = [name for name, value in layout.items() if type(value) is not int]
    if not isinstance(every_click, bool) or strange or odd_layout:
        odd = f"source {strange[0]}" if strange else f"every_click is {every_click!r}"
        odd = f"{odd_layout[0]} is {layout[odd_layout[0]]!r}" if odd_layout else odd
        raise FormatError(f"the metadata of the cells is damaged ({odd[:200]}); aggregate the log again.", path=path)
    return CellKind(every_click, segments, layout), sources
