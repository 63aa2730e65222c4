"""Rows of candidates, batch by batch: what every reader yields, and the dataset that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.new_array import NewArray, chosen_rows
from cldrank.errors import CldrankWarning, DataError, FormatError, warn
from cldrank.tables.types import is_text

Lend = Callable[[int], NDArray[np.float32]]

LONGEST_ID = 4096  # letters; a log sets longer ones aside, features refuse them where an array of them would be large
_LARGE_BYTES = 1 << 28  # of an array of ids


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Consecutive rows of a file or frame.

    where       the file, or what messages call the frame
    first_row   the place of the first row there, from 0
    run_rows    the first row of each run of rows of the same query, within the batch: 0 first
    run_ids     the query of each run, an Arrow array of int64 or text; a run may go on in the next batch
    doc_ids     an Arrow array with an id per row, null where a row has none; None if no row has an id
    labels      a label per row, or None
    features    (rows, features) float32
    """

    where: Path | str
    first_row: int
    run_rows: IntArray
    run_ids: pa.Array
    doc_ids: pa.Array | None
    labels: NDArray[np.float32] | None
    features: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.features)

    @property
    def offsets(self) -> IntArray:
        """Where each run begins, and the end of the last."""
        return np.append(self.run_rows, len(self))

    def query_of(self, row: int) -> Any:
        """The query of a row."""
        return self.run_ids[int(np.searchsorted(self.run_rows, row, side="right")) - 1].as_py()

    def rows(self, start: int, stop: int) -> RowBatch:
        """Some of the rows."""
        first = int(np.searchsorted(self.run_rows, start, side="right")) - 1
        end = int(np.searchsorted(self.run_rows, stop))
        return RowBatch(
            self.where,
            self.first_row + start,
            np.maximum(self.run_rows[first:end] - start, 0),
            self.run_ids[first:end],
            None if self.doc_ids is None else self.doc_ids[start:stop],
            None if self.labels is None else self.labels[start:stop],
            self.features[start:stop],
        )


class RowSource(ABC):
    """Files or a frame with candidates, read in order.

    where           the files or the frame, for messages
    feature_names   the features of each row, in order
    missing         what to do with missing values
    ids_as_text     whether ids come as text and are whole numbers where all of them are written as such
    user            who reads it and cannot use missing values, for messages; nobody by default
    expected_rows   about how many rows there are, where that is known beforehand
    """

    where: Sequence[Path | str]
    feature_names: tuple[str, ...]
    missing: Missing
    ids_as_text: bool = False
    name: str = ""
    synthetic: bool = False
    featureset: str = ""
    user: str = ""
    expected_rows: int = 0

    @abstractmethod
    def batches(self, lend: Lend | None = None) -> Iterator[RowBatch]:
        """All rows, in batches of bounded size; `lend` gives zeros where to write features."""

    def new_rows(self, rows: int) -> NDArray[np.float32]:
        """Zeros where to write features."""
        return np.zeros((rows, len(self.feature_names)), dtype=np.float32)

    def line_of(self, where: Path | str, row: int) -> int | None:
        """The line of a row, for messages, where rows have lines."""
        del where, row
        return None

    def checked_batches(self, lend: Lend | None = None) -> Iterator[RowBatch]:
        """All rows, with missing values filled in; what is missing or infinite against the rule is refused."""
        keep, rows = self.missing == checks.KEEP and not self.user, 0
        for batch in self.batches(lend):
            bad = checks.first_bad_value(batch.features, keep=keep)
            if bad is not None:
                row, column = bad
                place = self.feature_names[column], batch.first_row + row, f"query {batch.query_of(row)}"
                message = checks.bad_value_message(*place, batch.features[row, column], self.user)
                raise FormatError(message, path=batch.where, line=self.line_of(batch.where, batch.first_row + row))
            rows += len(batch)
            yield batch
        if not rows:
            raise FormatError("holds no rows.", path=self.where[0])


def dataset_of(source: RowSource, *, name: str = "", folder: Path | None = None) -> RankingDataset:
    """The dataset that a source holds, the rows of each query brought together.

    folder   where large arrays are kept; by default in files without a name
    """
    width, expected = len(source.feature_names), source.expected_rows
    features = NewArray("features", np.float32, width=width, expected=expected, folder=folder)
    starts: list[IntArray] = []
    run_ids: list[pa.Array] = []
    doc_ids: list[pa.Array | None] = []
    labels: list[NDArray[np.float32]] = []
    has_missing = False
    for batch in source.checked_batches(features.lend):
        starts.append(batch.run_rows + features.rows)
        run_ids.append(batch.run_ids)
        doc_ids.append(batch.doc_ids)
        labels += [] if batch.labels is None else [batch.labels]
        has_missing = has_missing or (source.missing == checks.KEEP and checks.has_missing(batch.features))
        features.append(batch.features)
    table = features.finish()
    with checks.about(*source.where):
        query_ids, offsets, order = gather_queries(
            np.concatenate(starts), id_array(run_ids, narrow=source.ids_as_text), len(table)
        )
        documents = _known_documents(doc_ids)
        if documents is not None:
            documents = documents if order is None else pa.chunked_array(documents).take(pa.array(order)).chunks
            documents = id_array(documents, narrow=source.ids_as_text, folder=folder)
            checks.check_unique(documents, offsets, order)
        label = checks.row_labels(np.concatenate(labels), len(table)) if labels else None
        return RankingDataset._trusted(
            features=table if order is None else chosen_rows(table, order, folder),
            offsets=offsets,
            labels=label if order is None or label is None else label[order],
            query_ids=query_ids,
            doc_ids=documents,
            feature_names=checks.unique_names(source.feature_names, table.shape[1]),
            name=name or source.name,
            synthetic=source.synthetic,
            featureset=source.featureset,
            source_rows=order,
            has_missing=has_missing,
        )


def _known_documents(chunks: list[pa.Array | None]) -> Any:
    """The document ids of all rows; None, with a warning, if only some rows have an id."""
    known = [chunk for chunk in chunks if chunk is not None]
    if len(known) == len(chunks) and not any(chunk.null_count for chunk in known):
        return known
    if known:
        warn(CldrankWarning("some rows name a document and others do not; all document ids are left out."))
    return None


def whole_queries(batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
    """The same rows in batches that end where a query ends."""
    waiting: list[RowBatch] = []
    for batch in batches:
        if waiting and waiting[-1].run_ids[-1] != batch.run_ids[0]:
            yield _joined(waiting)
            waiting = []
        cut = int(batch.run_rows[-1])
        if cut:
            yield _joined([*waiting, batch.rows(0, cut)])
            waiting = []
        waiting.append(batch.rows(cut, len(batch)))
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[RowBatch]) -> RowBatch:
    """Batches joined; the last run of each goes on in the next."""
    if len(batches) == 1:
        return batches[0]
    first, starts = batches[0], np.cumsum([0, *map(len, batches)])
    later = list(zip(batches[1:], starts[1:], strict=False))
    has_documents = all(batch.doc_ids is not None for batch in batches)
    return RowBatch(
        first.where,
        first.first_row,
        np.concatenate([first.run_rows, *(batch.run_rows[1:] + start for batch, start in later)]),
        pa.concat_arrays([first.run_ids, *(batch.run_ids[1:] for batch, _ in later)]),
        pa.concat_arrays([batch.doc_ids for batch in batches]) if has_documents else None,
        None,  # who needs whole queries has no use for labels
        np.concatenate([batch.features for batch in batches]),
    )


# -- queries -------------------------------------------------------------------------------------------------------


def gather_queries(
    run_starts: IntArray, run_ids: NDArray[Any], rows: int
) -> tuple[NDArray[Any], IntArray, IntArray | None]:
    """Query ids, offsets, and the order that brings the rows of each query together (None if they lie so already).

    Rows come in runs of equal query ids; a query keeps the place of its first run, and its rows keep their order.

    >>> gather_queries(np.array([0, 2, 3]), np.array([7, 8, 7]), 4)
    (array([7, 8]), array([0, 3, 4]), array([0, 1, 3, 2]))
    """
    begins = np.append(len(run_ids) > 0, run_ids[1:] != run_ids[:-1])[: len(run_ids)]
    starts, ids = np.asarray(run_starts, dtype=np.int64)[begins], run_ids[begins]
    unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    if len(unique) == len(ids):
        return ids, np.append(starts, rows), None
    by_appearance = np.argsort(first)
    place = np.empty_like(by_appearance)
    place[by_appearance] = np.arange(len(unique))
    query_of_rows = np.repeat(place[inverse], np.diff(np.append(starts, rows)))
    order = np.argsort(query_of_rows, kind="stable")
    return unique[by_appearance], segments.from_lengths(np.bincount(query_of_rows)), order


def runs_of(ids: pa.Array) -> tuple[IntArray, pa.Array]:
    """Where each run of equal ids begins, and its id."""
    encoded = encoded_ids(ids)
    codes = encoded.indices.to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return starts, encoded.dictionary.take(pa.array(codes[starts]))


def encoded_ids(ids: pa.Array) -> pa.DictionaryArray:
    """Ids as codes and the ids that occur."""
    return ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()


# -- ids -----------------------------------------------------------------------------------------------------------


def id_array(chunks: Sequence[pa.Array], *, narrow: bool = False, folder: Path | None = None) -> NDArray[Any]:
    """Ids as numpy has them, int64 or text; refused where it would not hold them unchanged.

    narrow   whether text becomes whole numbers where every id is written just as its number

    >>> id_array([pa.array(["7", "12"])], narrow=True), id_array([pa.array(["007", "12"])], narrow=True)
    (array([ 7, 12]), array(['007', '12'], dtype='<U3'))
    """
    chunks = (as_numbers(chunks) if narrow else None) or chunks
    kind = np.dtype(np.int64)
    if is_text(_texts(chunks[0]).type):
        kind = np.dtype(f"<U{max(_longest(chunks), 1)}")
    array = NewArray("doc_ids", kind, expected=sum(map(len, chunks)), folder=folder)
    for chunk in chunks:
        values = _texts(chunk).to_numpy(zero_copy_only=False).astype(kind)
        array.append(values[chunk.indices.to_numpy()] if pa.types.is_dictionary(chunk.type) else values)
    return array.finish()


def as_numbers(chunks: Sequence[pa.Array]) -> list[pa.Array] | None:
    """Texts as whole numbers; None if any is not written just as its number, such as 007."""
    numbers = []
    for chunk in chunks:
        texts = _texts(chunk)
        try:
            values = texts.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
        if not pc.all(pc.equal(values.cast(texts.type), texts)).as_py():
            return None
        numbers.append(values.take(chunk.indices) if pa.types.is_dictionary(chunk.type) else values)
    return numbers


def _texts(chunk: pa.Array) -> pa.Array:
    """The values of a chunk, or of its dictionary."""
    return chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk


def _longest(chunks: Sequence[pa.Array]) -> int:
    """The length of the longest id; refused where an array of all, as wide as the longest, would be too large."""
    longest = total = count = 0
    for chunk in chunks:
        texts = _texts(chunk)
        if not len(chunk) or not len(texts):
            continue
        if pc.any(pc.ends_with(texts, "\0")).as_py():
            raise DataError("an id ends in a NUL character, which cannot be kept; remove it.")
        lengths = pc.utf8_length(texts)
        longest, count = max(longest, pc.max(lengths).as_py()), count + len(chunk)
        total += pc.sum(lengths.take(chunk.indices) if pa.types.is_dictionary(chunk.type) else lengths).as_py()
    size = 4 * count * longest
    if size > _LARGE_BYTES and (longest > LONGEST_ID or size > checks.MOST_TIMES * total):
        raise DataError(
            f"an id has {longest:,} characters, where the mean is {total / count:,.0f}; that is too long for an id."
        )
    return longest
