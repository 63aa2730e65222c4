"""Candidates in tables with named columns: Parquet and CSV files, and frames.

The columns are `query_id`, `doc_id`, `label`, and a column per feature, unless others are named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from cldrank.arguments import shortened
from cldrank.data import checks
from cldrank.data.checks import BLOCK_VALUES, Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.lines import open_bytes
from cldrank.data.rows import Lend, RowBatch, RowSource, runs_of
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing
from cldrank.host import available_cores
from cldrank.reading import reading
from cldrank.tables import Role, TableFile, is_frame, resolve_columns
from cldrank.tables.frames import arrow_table, frame_name, is_lazy
from cldrank.tables.sources import Format, csv_header, known_format, refuse_own
from cldrank.tables.types import is_number, is_text
from cldrank.wording import kind_of, some
from cldrank.workers import ahead, fair_threads

ColumnNames = Mapping[str, str | Sequence[str]]

_ROLES = (Role("query_id", required=True), Role("doc_id"), Role("label"))
METADATA = b"cldrank"
_BUFFER_BYTES = 1 << 16  # of a column that is read
_TEXT_ROWS = 1 << 16  # of columns that become lists of texts
_CSV_BLOCK_BYTES = 1 << 24  # of text; a row must fit
_LARGEST = 2**63 - 1
_NO_VALUE = ("", "#N/A", "#NA", "-NaN", "-nan", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
_CHOOSE = 'choose the feature columns with `columns={"features": ["a", "b", "c"]}`'
_OF_TEXTS = f'if it names the documents, say so with `columns={{"doc_id": ...}}`, else {_CHOOSE}'


@dataclass(frozen=True, eq=False)
class TablePart:
    """A file, or a frame: its columns, and a function that reads some of them.

    read      columns of ids, columns of numbers, a number of rows → batches of at most as many rows, in order
    rows      how many rows it promises; None where only reading tells
    is_text   whether it holds text, as CSV does, which is a number or an id as the column is read
    """

    where: Path | str
    schema: pa.Schema
    read: Callable[[Sequence[str], Sequence[str], int], Iterator[pa.RecordBatch]]
    rows: int | None = None
    is_text: bool = False

    def kind(self, column: str) -> pa.DataType:
        """The type of a column's values; of the first, where two have that name."""
        kind = self.schema.types[self.schema.names.index(column)]
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def refused(self, problem: str) -> FormatError:
        """The error for a problem of this part."""
        return FormatError(problem, path=self.where)

    def check(self, ids: Collection[str], numbers: Collection[str], advice: str = "") -> None:
        """Refuse columns that are there twice, ids other than whole numbers and text, and numbers that are none."""
        for column in (*ids, *numbers):
            if self.schema.names.count(column) > 1:
                raise self.refused(f"column {column!r} appears more than once; names must be unique.")
        for column in () if self.is_text else ids:
            kind = self.kind(column)
            if not (pa.types.is_integer(kind) or is_text(kind)):
                raise self.refused(f"column {column!r} holds {kind}; ids are whole numbers or text.")
        for column in () if self.is_text else numbers:
            kind = self.schema.types[self.schema.names.index(column)]
            if not (is_number(kind) or pa.types.is_boolean(kind)):
                raise self.refused(f"column {column!r} holds {kind}, not numbers{advice}.")

    def columns(self, ids: Sequence[str], number: str | None = None) -> tuple[list[list[str]], NDArray[np.float64]]:
        """Some columns of ids as text, and the numbers of a column, if any."""
        texts: list[list[str]] = [[] for _ in ids]
        values: list[NDArray[Any]] = [np.zeros(0)]
        row = 0
        for batch in self.read(ids, [number] if number else [], _TEXT_ROWS):
            for column, own, cells in zip(ids, texts, batch.columns, strict=False):
                known = cells if self.is_text else _ids(cells, column, self, row)
                own += map(str, known.to_pylist())
            values += [numbers_of(batch.columns[-1])] if number else []
            row += len(batch)
        return texts, np.concatenate(values).astype(np.float64)


class NotANumberError(FormatError):
    """A cell of a column of numbers that is none.

    row     counted from 0
    value   what stands there
    """

    def __init__(self, path: Path, column: str, row: int, value: str) -> None:
        problem = f"column {column!r} is {shortened(value)} in row {row} (counted from 0), which is not a number"
        super().__init__(f"{problem}; {_OF_TEXTS}.", path=path)
        self.row, self.value = row, value


# -- parts ---------------------------------------------------------------------------------------------------------


def table_parts(source: Sequence[TableFile] | Any) -> list[TablePart]:
    """The parts of a table: Parquet or CSV files, or a frame."""
    return [file_part(file.path, file.format) for file in source] if isinstance(source, list) else [frame_part(source)]


def file_part(path: Path, form: Format | None) -> TablePart:
    """A Parquet or CSV file."""
    return _csv_part(path) if form == "csv" else _parquet_part(path)


def frame_part(frame: Any) -> TablePart:
    """A frame; lazy frames are computed."""
    table = arrow_table(frame)

    def read(ids: Sequence[str], numbers: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from table.select([*ids, *numbers]).to_batches(max_chunksize=rows)

    return TablePart(frame_name(frame), table.schema, read, len(table))


def part_of(source: Any, what: str) -> TablePart | None:
    """A file or a frame with scores, say; None for a file that has no columns."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        if not path.exists() or path.is_dir():
            raise UsageError(f"{path}: there is no such file of {what}.")
        refuse_own(path, f"file of {what}")
        form = known_format(path)
        return file_part(path, form) if form in ("parquet", "csv") else None
    if not is_frame(source):
        raise UsageError(f"{what} are in a file or a DataFrame, not in {kind_of(source)}.")
    return frame_part(source)


def _parquet_part(path: Path) -> TablePart:
    """A Parquet file. Texts are read as codes and a dictionary, so that a long text that repeats is held once."""
    what = "a readable Parquet file"
    with reading(path, what):
        schema = pq.read_schema(path)
        texts = [field.name for field in schema if is_text(field.type)]
        file = pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=texts)
        promised = file.metadata.num_rows

    def read(ids: Sequence[str], numbers: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        with reading(path, what):
            for batch in file.iter_batches(rows, columns=[*ids, *numbers]):
                yield batch.select([*ids, *numbers])

    return TablePart(path, schema, read, promised)


def _csv_part(path: Path) -> TablePart:
    """A CSV file."""
    names, delimiter = csv_header(path)
    parsing = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    def read(ids: Sequence[str], numbers: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        kinds = {**dict.fromkeys(ids, pa.large_string()), **dict.fromkeys(numbers, pa.float64())}
        options = arrow_csv.ConvertOptions(column_types=kinds, include_columns=list(kinds), null_values=_NO_VALUE)
        with open_bytes(path) as file, reading(path, "a CSV file"):
            blocks = arrow_csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
            try:
                for batch in arrow_csv.open_csv(file, blocks, parsing, options):
                    for start in range(0, len(batch), rows):
                        yield batch.slice(start, rows)
            except pa.ArrowInvalid as error:
                wrong = re.match(r"In CSV column #(\d+): .* invalid value '(.*)'", str(error), re.DOTALL)
                if wrong is None:
                    raise
                column = names[int(wrong[1])]
                raise NotANumberError(path, column, *_first_not_a_number(path, parsing, column)) from None

    return TablePart(path, pa.schema([(name, pa.large_string()) for name in names]), read, is_text=True)


def _first_not_a_number(path: Path, parsing: arrow_csv.ParseOptions, column: str) -> tuple[int, str]:
    """The first row of a CSV file where a column is not a number, and what stands there."""
    options = arrow_csv.ConvertOptions(column_types={column: pa.large_string()}, include_columns=[column])
    with open_bytes(path) as file:
        batches = arrow_csv.open_csv(file, arrow_csv.ReadOptions(block_size=_CSV_BLOCK_BYTES), parsing, options)
        values = (value for batch in batches for value in batch[column].to_pylist())
        for row, value in enumerate(values):
            try:
                pa.scalar("nan" if value in _NO_VALUE else value.strip()).cast(pa.float64())
            except pa.ArrowInvalid:
                return row, value
    raise AssertionError(f"all values of {column!r} are numbers")


# -- columns -------------------------------------------------------------------------------------------------------


class FeatureColumns(NamedTuple):
    """Which column holds what.

    takes_all   whether every column without another role is a feature
    """

    query_id: str
    doc_id: str | None
    label: str | None
    features: tuple[str, ...]
    takes_all: bool = False

    @property
    def ids(self) -> list[str]:
        """The columns of ids."""
        return [self.query_id, *([] if self.doc_id is None else [self.doc_id])]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers: label, features."""
        return [*([] if self.label is None else [self.label]), *self.features]


def _feature_columns(part: TablePart, columns: ColumnNames | None) -> FeatureColumns:
    """The roles of the columns of a table, as `columns` says or by their names."""
    names, named = part.schema.names, dict(columns or {})
    features = named.pop("features", None)
    for role, column in named.items():
        if not isinstance(column, str):
            raise UsageError(f"`columns` takes the name of one column for {role}, not {column!r}.")
    if not columns and {"position", "impressions", "clicks"} <= set(names):
        raise part.refused("holds counts of clicks, not features; name it with `clicks`.")
    roles = resolve_columns(names, named, _ROLES, str(part.where))  # type: ignore[arg-type]
    ids = roles["query_id"], roles.get("doc_id"), roles.get("label")
    there = f"there are {some(map(repr, names), most=8)}"
    if features is not None:
        chosen = (features,) if isinstance(features, str) else tuple(features)
        for column in chosen:
            if column not in names:
                raise part.refused(f"there is no column {column!r} (for features); {there}.")
            if column in ids:
                role = next(role for role, name in roles.items() if name == column)
                raise UsageError(f"column {column!r} cannot be a feature and the {role} too; leave it out.")
        return FeatureColumns(*ids, chosen)
    rest = tuple(column for column in names if column not in ids)
    if "clicked" in rest and {"position", "session_id"}.intersection(rest):  # who learns from it knows the answer
        raise part.refused(
            f"this looks like a click log ({there}), not like features of candidates. If these are features, {_CHOOSE}."
        )
    return FeatureColumns(*ids, rest, takes_all=True)


def _check_part(part: TablePart, columns: FeatureColumns, first: TablePart) -> None:
    """Refuse a part with a column too few, a column of the wrong type, or a column that the first part lacks."""
    names, read = part.schema.names, [*columns.ids, *columns.numbers]
    for column in read:
        if column not in names:
            raise part.refused(f"there is no column {column!r}, which the first part has.")
    extra = set(names).difference(read) if columns.takes_all else ()
    if extra:
        raise part.refused(f"column {min(extra)!r} is not in the first part; {_CHOOSE}.")
    if not columns.features:
        raise part.refused("there is no feature column.")
    part.check(columns.ids, columns.numbers, advice=f"; {_OF_TEXTS}")
    for column in columns.ids:
        here, there = ("text" if is_text(other.kind(column)) else "whole numbers" for other in (part, first))
        if here != there:
            raise part.refused(f"column {column!r} holds {here} here, {there} in {first.where}.")


# -- rows ----------------------------------------------------------------------------------------------------------


class TableSource(RowSource):
    """Candidates in the parts of a table.

    wanted   the features of a ranker: columns of just these names are read in its order
    """

    def __init__(
        self,
        parts: Sequence[TablePart],
        columns: ColumnNames | None = None,
        missing: Missing = None,
        wanted: Sequence[str] = (),
    ) -> None:
        self._parts, self.where = parts, [part.where for part in parts]
        roles = _feature_columns(parts[0], columns)
        if all(part.rows == 0 for part in parts):
            raise parts[0].refused("holds no rows.")
        if wanted and sorted(roles.features) == sorted(wanted):
            roles = roles._replace(features=tuple(wanted))
        for part in parts:
            _check_part(part, roles, parts[0])
        self._columns, self.ids_as_text, self.feature_names = roles, parts[0].is_text, roles.features
        self.expected_rows = sum(part.rows or 0 for part in parts)
        notes = [file_notes(part.schema, part.where) for part in parts]
        self.name = notes[0].get("name", "")
        self.synthetic = any(note.get("synthetic", False) for note in notes)
        sets = {str(note.get("featureset", "")) for note in notes}
        self.featureset = sets.pop() if len(sets) == 1 else ""
        saved_with_missing = any(note.get("has_missing", False) for note in notes)
        self.missing = checks.KEEP if missing is None and saved_with_missing else missing

    def batches(self, lend: Lend | None = None) -> Iterator[RowBatch]:
        """All rows; columns become features in threads, while the next ones are read."""
        rows = max(1, min(1 << 14, BLOCK_VALUES // max(len(self.feature_names), 1)))
        threads = fair_threads(available_cores())
        for part in self._parts:
            row = 0
            made: Any = partial(ahead, threads=threads, most=threads) if threads > 1 else map
            for batch in made(lambda read: self._batch(*read), self._placed(part, rows, lend or self.new_rows)):
                row += len(batch)
                yield batch
            if part.rows is not None and row != part.rows:
                raise part.refused(f"ends after {row:,} of {part.rows:,} rows.")

    def _placed(
        self, part: TablePart, rows: int, lend: Lend
    ) -> Iterator[tuple[TablePart, int, pa.RecordBatch, NDArray[np.float32]]]:
        """Batches, each with the place of its first row, and where its features go."""
        row = 0
        for batch in part.read(self._columns.ids, self._columns.numbers, rows):
            if batch.num_rows:
                yield part, row, batch, lend(batch.num_rows)
            row += batch.num_rows

    def _batch(self, part: TablePart, row: int, batch: pa.RecordBatch, block: NDArray[np.float32]) -> RowBatch:
        columns, values = self._columns, batch.columns
        run_rows, run_ids = runs_of(_ids(values[0], columns.query_id, part, row))
        doc_ids = None if columns.doc_id is None else _ids(values[1], columns.doc_id, part, row)
        labels = None
        if columns.label is not None:
            label = values[len(columns.ids)]
            _refuse_null(label, columns.label, part, row)
            labels = checks.row_labels(numbers_of(label), len(batch), first_row=row)
        _write_columns(values[-len(columns.features) :], block)
        return RowBatch(part.where, row, run_rows, run_ids, doc_ids, labels, checks.filled(block, self.missing))


def _write_columns(values: Sequence[pa.Array], block: NDArray[np.float32]) -> None:
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        for place, column in enumerate(values):
            block[:, place] = numbers_of(column)


def numbers_of(values: pa.Array) -> NDArray[Any]:
    """The numbers of a column, missing ones as NaN."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())  # numpy would have objects for true, false and null
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


def _ids(values: pa.Array, column: str, part: TablePart, row: int) -> pa.Array:
    """Ids as int64, or as text with a dictionary of those that occur; missing ids are refused."""
    if part.is_text:
        values = pc.if_else(pc.equal(values, ""), None, values)
    _refuse_null(values, column, part, row)
    encoded = pa.types.is_dictionary(values.type)
    if not is_text(values.type.value_type if encoded else values.type):
        values = values.dictionary_decode() if encoded else values
        if pa.types.is_uint64(values.type) and len(values) and pc.max(values).as_py() > _LARGEST:
            at = pc.index(pc.greater(values, pa.scalar(_LARGEST, pa.uint64())), True).as_py()
            raise part.refused(
                f"column {column!r} is {values[at]} in row {row + at} (counted from 0), too large for a 64-bit number; "
                "store such ids as text."
            )
        return values.cast(pa.int64())
    with reading(part.where, "a readable file"):
        values = values if encoded else values.dictionary_encode()
        used, codes = np.unique(values.indices.to_numpy(), return_inverse=True)
        texts = values.dictionary.take(pa.array(used))
        texts.validate(full=True)
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts.cast(pa.large_string()))


def _refuse_null(values: pa.Array, column: str, part: TablePart, row: int) -> None:
    if values.null_count:
        at = row + pc.index(values.is_null(), True).as_py()
        raise part.refused(f"column {column!r} is null in row {at} (counted from 0); every row needs a value.")


# -- writing -------------------------------------------------------------------------------------------------------


def file_notes(schema: pa.Schema, where: Path | str) -> dict[str, Any]:
    """The metadata that `save_parquet` wrote; empty for other files."""
    try:
        note = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
        flags = [note.get(key, False) for key in ("synthetic", "has_missing")]
        if {*map(type, flags)} == {bool} and isinstance(note.get("name", ""), str):
            return dict(note)
    except (ValueError, RecursionError, AttributeError):
        pass
    raise FormatError(
        "the metadata 'cldrank', with the name of the data and whether it is synthetic, is damaged; write the file "
        "again.",
        path=where,
    )


def save_parquet(blocks: Iterable[RankingDataset], path: str | PathLike[str]) -> int:
    """Save datasets in their order as a Parquet file, holding one at a time; returns the number of rows.

    The file appears under its name only when it is complete.
    """
    rows, writer = 0, None
    with replacing(path) as temporary:
        try:
            for block in blocks:
                table = _table(block)
                writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd")
                writer.write_table(table)
                rows += block.n_rows
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise DataError(f"{path}: there is no dataset to save.")
    return rows


def _table(dataset: RankingDataset) -> pa.Table:
    columns: dict[str, Any] = {"query_id": pa.array(dataset.query_ids[dataset.row_queries])}
    if dataset.doc_ids is not None:
        columns["doc_id"] = pa.array(dataset.doc_ids)
    if dataset.labels is not None:
        columns["label"] = pa.array(dataset.labels)
    clash = set(columns).intersection(dataset.feature_names)
    if clash:
        raise DataError(f"a feature is called {sorted(clash)[0]!r}, as a column of ids; rename it.")
    for index, feature in enumerate(dataset.feature_names):
        columns[feature] = pa.array(np.ascontiguousarray(dataset.features[:, index]))
    note = {
        "name": dataset.name,
        "synthetic": dataset.synthetic,
        **({"featureset": dataset.featureset} if dataset.featureset else {}),
        **({"has_missing": True} if dataset.has_missing else {}),
    }
    return pa.table(columns).replace_schema_metadata({METADATA: json.dumps(note).encode()})


# -- frames that are scored row by row -----------------------------------------------------------------------------


def frame_features(source: Any, names: Sequence[str]) -> NDArray[np.float32]:
    """Some columns of a frame as a table of features, in this order; missing values are NaN."""
    if is_lazy(source):
        raise UsageError(
            f"{frame_name(source)} is yet to be computed, and its rows have no fixed order that scores could follow; "
            "collect it first."
        )
    part = frame_part(source)
    there = part.schema.names
    absent = [name for name in names if name not in there]
    if absent:
        raise part.refused(
            f"{some(map(repr, absent), most=5)} {'is' if len(absent) == 1 else 'are'} missing among its columns "
            f"({some(map(repr, there), most=5)}); the ranker finds its features by their names. To take columns by "
            "their place, pass an array."
        )
    part.check((), names)
    features, row = np.empty((part.rows or 0, len(names)), dtype=np.float32), 0
    for batch in part.read((), names, 1 << 14):
        _write_columns(batch.columns, features[row : row + len(batch)])
        row += len(batch)
    return features


def as_series(source: Any, scores: NDArray[np.float64]) -> Any:
    """Scores as a column that fits a frame: a Series of its kind, called `score`, or an Arrow array."""
    import narwhals.stable.v2 as nw

    native = nw.to_native(source, pass_through=True)
    if isinstance(native, pa.RecordBatch):
        return pa.array(scores)
    frame = nw.from_native(native, eager_only=True)
    if frame.implementation.is_pandas_like():
        series = nw.get_native_namespace(frame).Series(scores, index=native.index, name="score", copy=False)
    else:
        series = nw.new_series("score", scores, backend=frame.implementation).to_native()
    return series if source is native else nw.from_native(series, series_only=True)
