"""Baidu-ULTR: a click log and embeddings as features, from the published files, of any size.

The parts are Feather files with one row per document shown: `query_no` numbers the pages of a part, and `position`
counts from 1. A copy that a program saved after loading the set by Hugging Face's `datasets` has one row per page, with
lists, of which `n` says how many entries count; the rest is padding. Arrow (both of its formats) and Parquet will do.

Rows stream into the log. Embeddings are written to buckets of queries, each small enough for memory, and then every
bucket is sorted by query, where each document stays once: with the embedding that came first.
"""

from __future__ import annotations

import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cldrank.data.dataset import RankingDataset
from cldrank.data.table_rows import save_parquet
from cldrank.errors import DataError, FormatError
from cldrank.reading import reading
from cldrank.wording import listed

EMBEDDING = "query_document_embedding"
SHOWN = ("media_type", "displayed_time", "serp_height", "slipoff_count_after_click")
_WHAT = "a Feather, Arrow or Parquet file"
_KINDS = {
    "page": pa.string(),
    "query_md5": pa.string(),
    "query_id": pa.string(),
    "url_md5": pa.string(),
    "text_md5": pa.string(),
    "position": pa.int32(),
    "click": pa.int64(),
    "label": pa.int32(),
    "media_type": pa.int32(),
    "displayed_time": pa.float32(),
    "serp_height": pa.int32(),
    "slipoff_count_after_click": pa.int32(),
}
_KNOWN = {
    "query_no",
    "query_id",
    "query_md5",
    "url_md5",
    "text_md5",
    "position",
    "click",
    "label",
    "n",
    EMBEDDING,
    *SHOWN,
}
_PAGES = 4096  # rows of a Parquet file read at once
_BUCKET = 128 << 20  # bytes of published files per bucket
_MOST_BUCKETS = 256  # files open at once
_LOG = pa.schema(
    [
        ("session_id", pa.string()),
        ("query_id", pa.string()),
        ("doc_id", pa.string()),
        ("position", pa.int32()),
        ("clicked", pa.bool_()),
        ("media_type", pa.int32()),
        ("displayed_time", pa.float32()),
        ("serp_height", pa.int32()),
        ("slipoff_count_after_click", pa.int32()),
    ]
)


def make_baidu(files: Sequence[Path], out: Path, progress: Callable[[str, int, int], None]) -> dict[str, int]:
    """Make log and features of files with clicks, annotations of a file with labels; returns what was counted."""
    opened = [BaiduFile.open(path) for path in files]
    counts: Counter[str] = Counter()
    steps = len(opened) + 2
    parts, annotated = [one for one in opened if not one.annotated], [one for one in opened if one.annotated]
    if parts:
        with EmbeddingBuckets(out / "buckets", parts) as buckets, _log_writer(out) as log:
            for step, part in enumerate(parts):
                progress(f"reading {part.path.name}", step, steps)
                for table in part.batches():
                    _take_clicks(part, table, log, buckets, counts)
        progress("writing features", len(parts), steps)
        counts["documents"] = buckets.save(out / "features.parquet", counts)
    if annotated:
        with EmbeddingBuckets(out / "buckets", annotated) as buckets:
            for step, part in enumerate(annotated, start=len(parts) + 1):
                progress(f"reading {part.path.name}", step, steps)
                for table in part.batches():
                    _take_labels(part, table, buckets, counts)
        counts["annotations"] = buckets.save(out / "annotations.parquet", counts)
    progress("writing", steps, steps)
    return dict(counts)


def _log_writer(out: Path) -> Any:
    return pq.ParquetWriter(out / "log.parquet", _LOG, compression="zstd")


def _take_clicks(
    part: BaiduFile, table: pa.Table, log: pq.ParquetWriter, buckets: EmbeddingBuckets, counts: Counter[str]
) -> None:
    """Write the sound rows of a batch to the log, and their embeddings to the buckets."""
    position, click = (pc.fill_null(table[name], -1) for name in ("position", "click"))
    reasons = {
        "rows without a query": _absent(table[part.query]),
        "rows without a document": _absent(table["url_md5"]),
        "rows without a valid position": pc.less(position, 1),
        "rows without a valid click": pc.less(click, 0),
    }
    sound = np.ones(table.num_rows, dtype=bool)
    for reason, broken in reasons.items():
        found = sound & _mask(broken)
        counts[reason] += int(found.sum())
        sound &= ~found
    kept = pa.array(sound)
    table, position, click = table.filter(kept), position.filter(kept), click.filter(kept)
    pages = pc.binary_join_element_wise(part.path.stem, table["page"], "-")
    columns = [pages, table[part.query], table["url_md5"], position, pc.greater(click, 0)]
    columns += [table[name] if name in table.column_names else pa.nulls(table.num_rows) for name in SHOWN]
    arrays = [column.cast(field.type) for column, field in zip(columns, _LOG, strict=True)]
    log.write_table(pa.table(arrays, schema=_LOG))
    counts["rows"] += table.num_rows
    counts["clicks"] += pc.sum(pc.greater(click, 0)).as_py() or 0
    buckets.add(part, table, table["url_md5"], counts)


def _take_labels(part: BaiduFile, table: pa.Table, buckets: EmbeddingBuckets, counts: Counter[str]) -> None:
    label = pc.fill_null(table["label"], -1)
    sound = ~(_mask(_absent(table[part.query])) | _mask(_absent(table["text_md5"])) | _mask(pc.less(label, 0)))
    counts["annotated rows without query, text or label"] += int((~sound).sum())
    table = table.filter(pa.array(sound))
    buckets.add(part, table, table["text_md5"], counts)


def _absent(column: Any) -> Any:
    return pc.or_kleene(pc.is_null(column), pc.fill_null(pc.equal(pc.utf8_length(column), 0), True))


def _mask(values: Any) -> Any:
    return np.asarray(values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy())


class EmbeddingBuckets:
    """Embeddings on disk, in files that each hold all rows of some queries."""

    def __init__(self, folder: Path, parts: Sequence[BaiduFile]) -> None:
        size = sum(part.path.stat().st_size for part in parts)
        self.folder, self.count = folder, min(1 + size // _BUCKET, _MOST_BUCKETS)
        self.width: int | None = None
        self._half = all(part.half for part in parts)
        self._stack = ExitStack()
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> EmbeddingBuckets:
        self.folder.mkdir()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, part: BaiduFile, table: pa.Table, documents: Any, counts: Counter[str]) -> None:
        """Set down rows that have an embedding."""
        values, there = embeddings(table, part.path, self.width, self._half)
        counts["rows without an embedding"] += int((~there).sum())
        if not there.any():
            return
        self.width = values.shape[1]
        kept = pa.array(there)
        queries = table[part.query].filter(kept).combine_chunks().dictionary_encode()
        bucket_of = np.array([zlib.crc32(text.encode()) % self.count for text in queries.dictionary.to_pylist()])
        rows = pa.table(
            {
                "query": queries.cast(pa.string()),
                "document": documents.filter(kept),
                "text": (table["text_md5"] if "text_md5" in table.column_names else documents).filter(kept),
                "label": table["label"].cast(pa.float32()).filter(kept)
                if part.annotated
                else pa.nulls(int(there.sum())),
                "embedding": pa.FixedSizeListArray.from_arrays(pa.array(values[there].ravel()), self.width),
            }
        )
        buckets = bucket_of[queries.indices.to_numpy()]
        for bucket in np.unique(buckets).tolist():
            self._writer(bucket, rows.schema).write_table(rows.filter(pa.array(buckets == bucket)))

    def save(self, path: Path, counts: Counter[str]) -> int:
        """Write all buckets as one file of features and remove them; returns the number of documents."""
        if not self._writers:
            raise DataError(f"no row has a query, a document and an embedding, so {path.name} would be empty.")
        rows = save_parquet(self._blocks(counts), path)
        shutil.rmtree(self.folder)
        return rows

    def _writer(self, bucket: int, schema: pa.Schema) -> Any:
        if bucket not in self._writers:
            file = self._stack.enter_context(pa.OSFile(str(self._path(bucket)), "wb"))
            self._writers[bucket] = self._stack.enter_context(pa.ipc.new_stream(file, schema))
        return self._writers[bucket]

    def _path(self, bucket: int) -> Path:
        return self.folder / f"{bucket}.arrow"

    def _blocks(self, counts: Counter[str]) -> Iterator[RankingDataset]:
        for bucket in sorted(self._writers):
            with pa.memory_map(str(self._path(bucket))) as source:
                yield _dataset(pa.ipc.open_stream(source).read_all(), counts)


def _dataset(table: pa.Table, counts: Counter[str]) -> RankingDataset:
    """The documents of some queries, in the order in which queries and documents first appear."""
    query, document = (
        table[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("query", "document")
    )
    text = table["text"].combine_chunks().dictionary_encode().indices
    pairs, first = np.unique(query.astype(np.int64) << 32 | document, return_index=True)
    texts = np.unique(np.column_stack([query, document, pc.fill_null(text, -1).to_numpy()]), axis=0)
    counts["documents with several texts, of which the first is kept"] += len(texts) - len(pairs)
    chosen = first[np.lexsort([first, query[first]])]
    kept = table.take(pa.array(chosen))
    flat = kept["embedding"].combine_chunks().flatten().to_numpy()
    features = flat.reshape(len(kept), -1).astype(np.float32)
    labels = None if pa.types.is_null(kept["label"].type) else kept["label"].to_numpy()
    return RankingDataset.from_arrays(
        features,
        np.array(kept["query"].to_pylist()),
        labels,
        doc_ids=np.array(kept["document"].to_pylist()),
        feature_names=[f"e{number}" for number in range(1, features.shape[1] + 1)],
        name="baidu-ultr",
    )


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BaiduFile:
    """One file of the set.

    annotated   whether it holds labels by experts instead of clicks
    half        whether embeddings have half precision, as they are published
    """

    path: Path
    columns: tuple[str, ...]
    annotated: bool
    half: bool

    @classmethod
    def open(cls, path: Path) -> BaiduFile:
        """Look at the columns of a file, which must be those of a part or of the annotations."""
        with reading(path, _WHAT):
            schema = _schema(path)
            there = set(schema.names)
        annotated = "label" in there and "click" not in there
        wanted = {"text_md5", "label"} if annotated else {"url_md5", "position", "click"}
        if lacking := [name for name in sorted({EMBEDDING, *wanted}) if name not in there]:
            raise FormatError(f"it has no {listed(lacking, 'nor')}; is it a part of Baidu-ULTR?", path=path)
        if not there & {"query_md5", "query_id"}:
            raise FormatError("it has neither query_md5 nor query_id; is it a part of Baidu-ULTR?", path=path)
        if twice := [name for name in sorted(_KNOWN & there) if schema.names.count(name) > 1]:
            raise FormatError(f"column {twice[0]!r} appears more than once; names must be unique.", path=path)
        half = _number(schema.field(EMBEDDING).type) == pa.float16()
        return cls(path, tuple(sorted(_KNOWN & there)), annotated, half)

    @property
    def query(self) -> str:
        """The column that names the query: the hash of its text where there is one, since ids are not unique."""
        return "query_md5" if "query_md5" in self.columns else "query_id"

    def batches(self) -> Iterator[pa.Table]:
        """The rows, one per document, with a column `page` that names the page within the file."""
        seen = 0
        batches = _batches(self.path, self.columns)
        while True:
            with reading(self.path, _WHAT):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)  # Arrow trusts offsets, and would read anywhere
            with reading(self.path, "a part of Baidu-ULTR"):
                flat = self._flat(pa.table(batch), seen)
            yield self._typed(flat)
            seen += batch.num_rows

    def _flat(self, table: pa.Table, seen: int) -> pa.Table:
        key = "text_md5" if self.annotated else "url_md5"
        if _is_list(table.schema.field(key).type):
            return _documents(table, key, seen, self.path)
        if "query_no" not in self.columns:
            raise FormatError("it has no query_no, which numbers the pages.", path=self.path)
        return table.append_column("page", table["query_no"])

    def _typed(self, table: pa.Table) -> pa.Table:
        """The columns of known kinds as these; a number that does not fit is refused."""
        for name in table.column_names:
            if name in _KINDS:
                at, kind = table.column_names.index(name), _KINDS[name]
                words = "numbers" if pa.types.is_floating(kind) else "text" if kind == pa.string() else "whole numbers"
                with reading(self.path, f"a part of Baidu-ULTR with {words} as {name}"):
                    table = table.set_column(at, name, table[name].cast(kind))
        return table


def _documents(table: pa.Table, key: str, seen: int, path: Path) -> pa.Table:
    """One row per document from one row per page."""
    lists = {name: _array(table, name) for name in table.column_names if _is_list(table.schema.field(name).type)}
    sizes = _sizes(lists[key])
    for name, values in lists.items():
        if len(odd := np.flatnonzero(_sizes(values) != sizes)):
            row, found = odd[0], _sizes(values)[odd[0]]
            where = f"row {seen + row} (counted from 0)"
            raise FormatError(f"{where} has {found} entries of {name}, but {sizes[row]} of {key}.", path=path)
    page = np.repeat(np.arange(table.num_rows), sizes)
    within = np.arange(len(page)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = {name: pc.list_flatten(values) for name, values in lists.items()}
    for name in set(table.column_names) - set(lists):
        columns[name] = _array(table, name).take(pa.array(page))
    flat = pa.table(columns).append_column("page", pa.array(page + seen))
    if "n" not in table.column_names:
        return flat
    counted = pc.fill_null(table["n"].cast(pa.int64()), 0).to_numpy()
    if len(odd := np.flatnonzero(counted > sizes)):
        row = odd[0]
        raise FormatError(f"row {seen + row} (counted from 0) has {sizes[row]} documents of {counted[row]}.", path=path)
    return flat.filter(pa.array(within < counted[page]))


def _array(table: pa.Table, name: str) -> Any:
    found = table[name].combine_chunks()
    return found.storage if isinstance(found, pa.ExtensionArray) else found


def _sizes(values: Any) -> Any:
    return pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or isinstance(kind, pa.ExtensionType)


def _number(kind: pa.DataType) -> pa.DataType:
    """The type of the numbers in lists, or lists of lists."""
    kind = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
    return _number(kind.value_type) if _is_list(kind) or pa.types.is_fixed_size_list(kind) else kind


def embeddings(table: pa.Table, path: Path, width: int | None, half: bool) -> tuple[Any, Any]:
    """(rows, width) the embeddings as they are, zero where there is none; and which rows have one, all finite."""
    with reading(path, f"a part of Baidu-ULTR with lists of numbers as {EMBEDDING}"):
        return _embeddings(_array(table, EMBEDDING), path, width, np.float16 if half else np.float32)


def _embeddings(column: Any, path: Path, width: int | None, kind: type[np.floating[Any]]) -> tuple[Any, Any]:
    there = column.is_valid().to_numpy(zero_copy_only=False)
    sizes = _sizes(column)
    width = int(sizes[there][0]) if width is None and there.any() else width or 1
    if (sizes[there] != width).any():
        odd = int(sizes[there][sizes[there] != width][0])
        raise FormatError(f"an embedding has {odd} numbers, others have {width}.", path=path)
    if not width:
        raise FormatError("an embedding is empty.", path=path)
    found = np.zeros((len(column), width), dtype=kind)
    values = pc.list_flatten(column.filter(pa.array(there)))
    numbers = values.to_numpy(zero_copy_only=False) if values.type == pa.float16() else values.cast(pa.float32())
    with np.errstate(over="ignore"):  # a number beyond the largest is not finite, and its row is counted as without
        found[there] = np.asarray(numbers).reshape(-1, width)
    return found, there & np.isfinite(found).all(axis=1)


# -- files -------------------------------------------------------------------------------------------------------------


def _schema(path: Path) -> pa.Schema:
    return pq.read_schema(path) if path.suffix == ".parquet" else _open_arrow(path).schema


def _batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        yield from pq.ParquetFile(path).iter_batches(batch_size=_PAGES, columns=list(columns))
        return
    names = _open_arrow(path).schema.names
    reader = _open_arrow(path, pa.ipc.IpcReadOptions(included_fields=[names.index(column) for column in columns]))
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


def _open_arrow(path: Path, options: Any = None) -> Any:
    """A reader of Arrow's file format, which Feather is, or of its stream format."""
    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_file(source, options=options)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source, options=options)
