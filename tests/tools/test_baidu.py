"""Baidu-ULTR from files of its exact form: columns, types and format as its publisher's code writes them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prepare import prepare
from public_sets import baidu
from public_sets.baidu import make_baidu

import cldrank as cr
from cldrank.errors import DataError, FormatError

pd = pytest.importorskip("pandas")

Row = dict[str, Any]
LEXICAL = ("bm25", "bm25_title", "bm25_abstract", "tf_idf", "tf", "idf")


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def embedding(query: int, document: int, width: int = 768) -> Any:
    return np.random.default_rng([query, document]).normal(size=width).astype(np.float16)


def shown(page: int, query: int, document: int, position: int, click: int, **other: Any) -> Row:
    """One row of a part: a document on a page. Numbers are NumPy's, as they come out of a tensor."""
    row = {
        "query_no": np.int64(page),
        "query_id": str(query % 3),  # not unique
        "query_md5": md5(f"query {query}"),
        "url_md5": md5(f"url {document}"),
        "text_md5": md5(f"text {document}"),
        "query": [11 + query, 12],
        "title": [13, 14 + document],
        "abstract": [15],
        "position": np.int64(position),
        "media_type": np.int64(2),
        "displayed_time": np.float64(1.25 * position),
        "serp_height": np.int64(180),
        "slipoff_count_after_click": np.int64(0),
        "click": np.int64(click),
        **dict.fromkeys(LEXICAL, 0.5),
        "query_length": 2,
        "document_length": 3,
        "query_document_embedding": embedding(query, document),
    }
    return {**row, **other}


def pages(seed: int, count: int = 40) -> list[Row]:
    """Pages of some queries, which share documents; some positions are left out, as the publisher does."""
    rng = np.random.default_rng(seed)
    rows = []
    for page in range(count):
        query = int(rng.integers(6))
        for place, document in enumerate(rng.permutation(9)[:5].tolist()):
            position = place + 1 + (place > 1)
            rows.append(shown(page + 65_536, query, document, position, int(rng.random() < 0.3)))
    return rows


def save(path: Path, rows: list[Row]) -> Path:
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_feather(path)
    return path


def make(out: Path, *files: Path) -> dict[str, int]:
    out.mkdir(exist_ok=True)
    return make_baidu(files, out, lambda *_: None)


@pytest.fixture
def parts(tmp_path: Path) -> dict[Path, list[Row]]:
    rows = {f"part-1_split-{number}.feather": pages(number) for number in range(2)}
    return {save(tmp_path / "parts" / name, one): one for name, one in rows.items()}


def test_the_log_holds_every_row(parts: dict[Path, list[Row]], tmp_path: Path) -> None:
    counts = make(tmp_path / "out", *parts)
    log = pq.read_table(tmp_path / "out" / "log.parquet").to_pylist()
    expected = [
        {
            "session_id": f"{path.stem}-{row['query_no']}",
            "query_id": row["query_md5"],
            "doc_id": row["url_md5"],
            "position": row["position"],
            "clicked": row["click"] == 1,
            "media_type": 2,
            "displayed_time": row["displayed_time"],
            "serp_height": 180,
            "slipoff_count_after_click": 0,
        }
        for path, rows in parts.items()
        for row in rows
    ]
    assert log == expected
    assert {row["position"] for row in log} == {1, 2, 4, 5, 6}  # counted from 1; what was left out leaves a gap
    assert counts["rows"] == 400
    assert counts["clicks"] == sum(row["clicked"] for row in log)


@pytest.mark.parametrize("buckets", [1, 3])
def test_each_document_once_per_query_with_its_embedding(
    parts: dict[Path, list[Row]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    size = sum(path.stat().st_size for path in parts)
    monkeypatch.setattr(baidu, "_BUCKET", size // buckets + (buckets == 1))
    counts = make(tmp_path / "out", *parts)
    data = cr.load(tmp_path / "out" / "features.parquet")
    wanted = {
        (row["query_md5"], row["url_md5"]): row["query_document_embedding"] for rows in parts.values() for row in rows
    }
    assert data.doc_ids is not None
    keys = list(zip(data.query_ids[data.row_queries].tolist(), data.doc_ids.tolist(), strict=True))
    assert sorted(keys) == sorted(wanted)
    assert data.source_rows is None  # the rows of a query lie together
    np.testing.assert_array_equal(data.features, np.stack([wanted[key] for key in keys]).astype(np.float32))
    assert (data.n_features, data.feature_names[0], data.feature_names[-1]) == (768, "e1", "e768")
    assert data.labels is None
    assert counts["documents"] == data.n_rows
    assert (pq.read_metadata(tmp_path / "out" / "features.parquet").num_row_groups > 1) == (buckets > 1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["features.parquet", "log.parquet"]


# -- one row per page --------------------------------------------------------------------------------------------------


def nested(rows: list[Row], padding: int = 0) -> pa.Table:
    """The same pages as Hugging Face's loader gives them: lists, maybe padded, and `n`."""
    grouped: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[int(row["query_no"])].append(row)
    columns: dict[str, list[Any]] = defaultdict(list)
    blank = {"url_md5": "", "text_md5": "", "displayed_time": 0.0, "query_document_embedding": [np.float16(0)] * 768}
    for page in grouped.values():
        columns["query_id"].append(page[0]["query_id"])
        columns["query_md5"].append(page[0]["query_md5"])
        columns["n"].append(len(page))
        for name in ("url_md5", "text_md5", "click", "position", "displayed_time", "query_document_embedding"):
            values = [list(row[name]) if name.endswith("embedding") else row[name] for row in page]
            columns[name].append(values + [blank.get(name, 0)] * padding)
    kinds = {
        "url_md5": pa.list_(pa.string()),
        "text_md5": pa.list_(pa.string()),
        "click": pa.list_(pa.int32()),
        "position": pa.list_(pa.int32()),
        "displayed_time": pa.list_(pa.float32()),
        "query_document_embedding": pa.list_(pa.list_(pa.float16())),
    }
    return pa.table({name: pa.array(values, kinds.get(name)) for name, values in columns.items()})


@pytest.mark.parametrize("form", ["stream", "padded"])
def test_one_row_per_page_means_the_same(tmp_path: Path, form: str) -> None:
    rows = pages(3)
    make(tmp_path / "flat", save(tmp_path / "part-0_split-0.feather", rows))
    table = nested(rows, padding=4 if form == "padded" else 0)
    path, new = tmp_path / "pages.arrow", pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    counts = make(tmp_path / "pages", path)
    assert counts["rows without a document"] == 0  # padding is no row
    flat, paged = (pq.read_table(tmp_path / out / "log.parquet") for out in ("flat", "pages"))
    wanted = ["query_id", "doc_id", "position", "clicked", "displayed_time"]
    assert paged.select(wanted).equals(flat.select(wanted))
    assert paged["session_id"].to_pylist() == [f"pages-{row // 5}" for row in range(200)]
    assert paged["media_type"].null_count == 200  # not in this copy
    both = [cr.load(tmp_path / out / "features.parquet") for out in ("flat", "pages")]
    assert both[0].fingerprint == both[1].fingerprint


# -- what is broken ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"query_md5": None}, "rows without a query"),
        ({"url_md5": None}, "rows without a document"),
        ({"position": 0}, "rows without a valid position"),
        ({"click": -1}, "rows without a valid click"),
    ],
)
def test_broken_rows_are_set_aside_and_counted(tmp_path: Path, other: Row, reason: str) -> None:
    rows = [shown(0, 1, 1, 1, 1), shown(0, 1, 2, 2, 0) | other, shown(0, 1, 3, 3, 0)]
    counts = make(tmp_path / "out", save(tmp_path / "part.feather", rows))
    assert {name: number for name, number in counts.items() if name.startswith("rows without") and number} == {
        reason: 1
    }
    assert counts["rows"] == 2
    assert pq.read_table(tmp_path / "out" / "log.parquet")["position"].to_pylist() == [1, 3]
    assert cr.load(tmp_path / "out" / "features.parquet").n_rows == 2


def test_files_of_another_form(tmp_path: Path) -> None:
    rows = [shown(0, 1, 1, 1, 1)]
    without = save(tmp_path / "a.feather", [{name: row[name] for name in row if name != "url_md5"} for row in rows])
    with pytest.raises(FormatError, match=r"a\.feather: .*url_md5"):
        make(tmp_path / "out", without)
    uneven = save(tmp_path / "c.feather", [*rows, shown(0, 1, 2, 2, 0, query_document_embedding=embedding(1, 2, 700))])
    with pytest.raises(FormatError, match="an embedding has 700 numbers, others have 768"):
        make(tmp_path / "out1", uneven)
    halves = save(tmp_path / "halves.feather", [rows[0] | {"position": 1.5}])
    with pytest.raises(FormatError, match=r"halves\.feather: .*position"):
        make(tmp_path / "out3", halves)

    hollow = save(
        tmp_path / "e.feather", [shown(0, 1, 1, 1, 1, query_document_embedding=np.full(768, np.nan, np.float16))]
    )
    with pytest.raises(DataError, match=r"features\.parquet would be empty"):
        make(tmp_path / "out2", hollow)


def test_a_damaged_file_leaves_nothing(parts: dict[Path, list[Row]], tmp_path: Path) -> None:
    path = next(iter(parts))
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(FormatError, match=r"part-1_split-0\.feather: not a Feather"):
        prepare("baidu-ultr", [path.parent], tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["parts"]


# -- labels ------------------------------------------------------------------------------------------------------------


def test_annotations(parts: dict[Path, list[Row]], tmp_path: Path) -> None:
    rows = [
        {
            "query_no": query,
            "query_id": "0",  # not unique
            "query_md5": md5(f"query {query}"),
            "text_md5": md5(f"text {document}"),
            "label": label,
            "frequency_bucket": 3,
            "query_document_embedding": embedding(query, document),
        }
        for query, document, label in [(0, 1, 4), (0, 2, 0), (7, 1, 1), (7, 5, None)]
    ]
    save(tmp_path / "parts" / "validation.feather", rows)
    made = prepare("baidu-ultr", [tmp_path / "parts"], tmp_path / "out")
    data = cr.load(tmp_path / "out" / "annotations.parquet")
    assert data.labels is not None
    assert dict(zip(data.query_ids.tolist(), np.diff(data.offsets).tolist(), strict=True)) == {
        md5("query 0"): 2,
        md5("query 7"): 1,
    }
    assert sorted(data.labels.tolist()) == [0, 1, 4]
    assert made.counts["annotations"] == 3
    assert made.counts["annotated rows without query, text or label"] == 1
    assert cr.load(tmp_path / "out" / "features.parquet").n_rows == made.counts["documents"]
