"""Baidu-ULTR: a click log and embeddings as features, from the published files, of any size.

Rows stream into the log. Embeddings are set down in buckets of queries, each small enough for memory, and then every
bucket is sorted by query, where each document stays once: with the embedding that came first.
"""

from __future__ import annotations

import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.parquet import save_parquet
from cldrank.data.prepare.baidu_rows import SHOWN, BaiduFile, embeddings
from cldrank.errors import DataError

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
        rows = save_parquet(self._blocks(counts), path, features="list")
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
