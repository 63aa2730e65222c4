from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import cldrank as cr
from cldrank.data.formats import letor_rows, letor_stream, lines, parquet_stream
from cldrank.data.row_blocks import FeatureStream, RowBlock, whole_queries
from cldrank.data.streaming import open_stream
from cldrank.errors import CldrankError, CldrankWarning, FormatError, UsageError

NAMES = ("f1", "f2", "f3")


def features_of(stream: FeatureStream) -> NDArray[np.float32]:
    return np.concatenate([block.features for block in stream.blocks()])


def queries_of(blocks: list[RowBlock]) -> list[str]:
    return [
        str(query)
        for block in blocks
        for query, size in zip(block.run_ids, np.diff(block.offsets), strict=True)
        for _ in range(size)
    ]


def in_file_order(data: cr.RankingDataset, values: NDArray[Any]) -> NDArray[Any]:
    """Values of the rows of a dataset, in the order of its file."""
    found = np.empty_like(values)
    found[np.arange(data.n_rows) if data.source_rows is None else data.source_rows] = values
    return found


def same_as_load(stream: FeatureStream, data: cr.RankingDataset) -> None:
    blocks = list(stream.blocks())
    np.testing.assert_array_equal(
        np.concatenate([block.features for block in blocks]), in_file_order(data, data.features)
    )
    assert queries_of(blocks) == [str(one) for one in in_file_order(data, data.query_ids[data.row_queries])]
    if data.doc_ids is not None:
        assert stream.documents() != "none"
        found = [str(one) for block in blocks if block.doc_ids is not None for one in block.doc_ids]
        assert found == [str(one) for one in in_file_order(data, data.doc_ids)]
    else:
        assert stream.documents() != "named"
    for path in {block.path for block in blocks}:
        own = [block for block in blocks if block.path == path]
        assert [block.first_row for block in own] == np.cumsum([0, *map(len, own)])[:-1].tolist()


_COMMENTS = st.sampled_from(["", "# docid = D{row}", "# W{row}", "# {row}", "# two words"])
_ROWS = st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 9), max_size=3)), min_size=1, max_size=40)


@given(
    rows=_ROWS,
    comment=_COMMENTS,
    odd=st.booleans(),
    parts=st.integers(1, 3),
    block_bytes=st.integers(20, 300),
    values=st.integers(1, 60),
)
def test_a_stream_of_text_is_what_load_reads(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, list[int]]],
    comment: str,
    odd: bool,
    parts: int,
    block_bytes: int,
    values: int,
) -> None:
    folder = tmp_path_factory.mktemp("text")
    written = []
    for row, (query, numbers) in enumerate(rows):
        listed = " ".join(f"{feature}:{value}" for feature, value in enumerate(numbers, start=1))
        written.append(f"0 qid:{query} {listed} {comment.format(row=row)}\n" + ("\n# all alone\n" if odd else ""))
    size = -(-len(written) // parts)
    paths = [folder / f"part-{part}.txt" for part in range(parts)]
    for part, path in enumerate(paths):
        path.write_text("".join(written[part * size : (part + 1) * size]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_rows, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=block_bytes))
        patch.setattr(letor_stream, "_BLOCK_VALUES", values)
        stream = open_stream(paths, NAMES)
        same_as_load(stream, cr.load(paths, n_features=3))
        assert all(block.features.size <= max(values, 3) for block in stream.blocks())


@pytest.mark.parametrize("layout", ["columns", "list"])
@pytest.mark.parametrize("kind", [int, str])
def test_a_stream_of_parquet_is_what_load_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, kind: type
) -> None:
    monkeypatch.setattr(parquet_stream, "_BLOCK_VALUES", 21)
    random = np.random.default_rng(0)
    for part, rows in enumerate((50, 1, 30)):
        queries = np.array([kind(one) for one in random.integers(0, 5, rows)])
        columns: dict[str, Any] = {"q": queries, "doc_id": np.arange(rows) + 100 * part}
        features = random.normal(size=(rows, 3)).astype(np.float32)
        if layout == "list":
            columns["features"] = list(features)
        else:
            columns |= dict(zip(NAMES, features.T, strict=True))
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet", row_group_size=17)
    stream = open_stream(tmp_path, NAMES, columns={"query_id": "q"})
    assert stream.feature_names == NAMES
    same_as_load(stream, cr.load(tmp_path, query="q"))
    assert max(len(block) for block in stream.blocks()) == 7
    np.testing.assert_array_equal(stream.whole().features, cr.load(tmp_path, query="q").features)


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12), cuts=st.sets(st.integers(1, 59)))
def test_whole_queries_end_where_a_query_ends(sizes: list[int], cuts: set[int]) -> None:
    query = np.repeat(np.arange(len(sizes)), sizes)
    features = np.arange(len(query), dtype=np.float32)[:, None]
    starts = np.append(0, np.cumsum(sizes)[:-1])
    everything = RowBlock(Path("a.txt"), 0, features, starts, np.arange(len(sizes)), np.arange(len(query)))
    edges = [0, *sorted(cut for cut in cuts if cut < len(query)), len(query)]
    blocks = list(whole_queries(everything.rows(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)))
    np.testing.assert_array_equal(np.concatenate([block.features for block in blocks]), features)
    np.testing.assert_array_equal(np.concatenate([block.doc_ids for block in blocks]), np.arange(len(query)))
    assert queries_of(blocks) == [str(one) for one in query]
    assert np.concatenate([block.run_ids for block in blocks]).tolist() == list(range(len(sizes)))  # each in one block
    assert [block.first_row for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()


def test_ids_are_whole_numbers_only_where_all_of_a_query_are(tmp_path: Path) -> None:
    """Blocks of one query whose documents are numbers in the first and text in the second."""
    one = RowBlock(Path("a"), 0, np.zeros((2, 1), np.float32), np.array([0]), np.array([7]), np.array([1, 2]))
    two = RowBlock(Path("a"), 2, np.zeros((1, 1), np.float32), np.array([0]), np.array(["7"]), np.array(["x"]))
    (joined,) = whole_queries(iter([one, two]))
    assert joined.doc_ids is not None
    assert joined.doc_ids.tolist() == ["1", "2", "x"]
    assert joined.offsets.tolist() == [0, 3]


class TestNumberedFeatures:
    """The id of a feature is the number in its name, so that nothing shifts."""

    def test_rows_may_leave_out_the_last_and_the_first(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("0 qid:1 2:5\n")
        assert features_of(open_stream(path, NAMES)).tolist() == [[0, 5, 0]]
        assert features_of(open_stream(path, ("f0", "f1", "f2"), zero_based=True)).tolist() == [[0, 0, 5]]

    def test_ids_from_0(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("0 qid:1 2:5\n0 qid:1 0:1 1:2\n")
        assert features_of(open_stream(path, ("f0", "f1", "f2"))).tolist() == [[0, 0, 5], [1, 2, 0]]

    @pytest.mark.parametrize(
        ("names", "text", "message"),
        [
            (
                NAMES,
                "0 qid:1 1:1\n0 qid:1 0:1\n",
                r"a.txt:2:9: feature 0 is outside the features 1 … 3 that the ranker",
            ),
            (NAMES, "0 qid:1 4:1\n", r"a.txt:1:9: feature 4 is outside the features 1 … 3 that the ranker knows"),
            (("f0", "f1"), "0 qid:1 0:1 2:1\n", r"feature 2 is outside the features 0 … 1 that the ranker knows"),
            (("f0", "f1"), "0 qid:1 1:1\n", r"a.txt: no row lists feature 0, .* say zero_based=True"),
            (("bm25", "f2"), "0 qid:1 1:1\n", r"a.txt: a LETOR file numbers its features .* knows 'bm25', 'f2'"),
            (("f2", "f3"), "0 qid:1 2:1\n", r"a.txt: a LETOR file numbers its features"),
            (("f1", "f3"), "0 qid:1 1:1\n", r"a.txt: a LETOR file numbers its features"),
        ],
    )
    def test_what_could_be_another_feature_is_refused(
        self, tmp_path: Path, names: tuple[str, ...], text: str, message: str
    ) -> None:
        path = tmp_path / "a.txt"
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            features_of(open_stream(path, names))

    def test_options_that_do_not_fit(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("0 qid:1 1:1\n")
        assert features_of(open_stream(path, NAMES, n_features=3, zero_based=False)).shape == (1, 3)
        with pytest.raises(UsageError, match="n_features=4 does not fit the ranker, which knows 3 features"):
            open_stream(path, NAMES, n_features=4)
        with pytest.raises(
            UsageError, match="zero_based=True does not fit the ranker, whose first feature is f1"
        ) as one:
            open_stream(path, NAMES, zero_based=True)
        assert one.value.said("shell").startswith("--zero-based does not fit")
        with pytest.raises(UsageError, match="query names a column, and columns are for Parquet"):
            open_stream(path, NAMES, columns={"query_id": "q"})


def test_group_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor_stream, "_BLOCK_VALUES", 6)
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text("".join(f"0 1:{row}\n" for row in range(7)))
    for path, sizes in zip(paths, ("3\n2\n", "1\n\n8\n"), strict=True):
        (tmp_path / f"{path.name}.query").write_text(sizes)
    same_as_load(open_stream(paths, NAMES), cr.load(paths, n_features=3))
    assert open_stream(paths, NAMES).whole().sizes.tolist() == [3, 2, 1, 8]
    for sizes, total in (("4\n", 9), ("9\n9\n", 23)):
        (tmp_path / "b.txt.query").write_text(sizes)
        with pytest.raises(FormatError, match=f"a.txt.query: counts {total} rows in all, but the data has 14"):
            list(open_stream(paths, NAMES).blocks())


def test_comments_that_name_only_some_documents_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 qid:1 1:1 # docid = a\n0 qid:1 1:1\n")
    stream = open_stream(path, NAMES)
    list(stream.blocks())
    with pytest.warns(CldrankWarning, match="row 1 .*has no `docid =`, though others have one"):
        assert stream.documents() == "none"


def letor(rows: range) -> str:
    return "".join(f"0 qid:{row // 4} 1:{row} 2:1\n" for row in rows)


def broken_part(folder: Path, kind: str) -> tuple[list[Path], str]:
    """Three parts of one data set of which the second is broken, and what is said."""
    paths = [folder / f"{part}.txt" for part in range(3)]
    for part, path in enumerate(paths):
        path.write_text(letor(range(10 * part, 10 * part + 10)))
    whole = paths[1].read_text()
    match kind:
        case "a row cut off":
            paths[1].write_text(whole[: whole.index("1:17") + 2])
            return paths, r"1\.txt:8:11: the value of feature 1 is missing"
        case "a row cut off at its query":
            paths[1].write_text(whole[: whole.rindex(":19") - 6])
            return paths, r"1\.txt:10:3: this row has no `qid:`"
        case "not a number":
            paths[1].write_text(whole.replace("1:15", "1:x15"))
            return paths, r"1\.txt:6:11: the value of feature 1 is 'x15'"
        case "infinite":
            paths[1].write_text(whole.replace("1:15", "1:1e99"))
            return paths, r"1\.txt:6:11: the value of feature 1 is '1e99'; features must be finite"
        case "an archive cut off":
            paths[1].unlink()
            paths[1] = folder / "1.txt.gz"
            paths[1].write_bytes(gzip.compress(whole.encode())[:-12])
            return paths, r"1\.txt\.gz: not a complete \.gz file"
        case _:
            paths[1].write_bytes(bytes(range(256)) * 10)
            return paths, r"1\.txt:1:1: expected a label"


BROKEN = ("a row cut off", "a row cut off at its query", "not a number", "infinite", "an archive cut off", "not text")


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_broken_is_named_by_file_and_line(tmp_path: Path, kind: str) -> None:
    paths, message = broken_part(tmp_path, kind)
    with pytest.raises(FormatError, match=message):
        list(open_stream(paths, NAMES).blocks())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_id": pa.array([1] * 29 + [None])}, r"b.parquet: column 'query_id' is null in row 29"),
        (
            {"query_id": pa.array(["x"] * 30)},
            r"b.parquet: column 'query_id' holds text here, whole numbers in .*a.parq",
        ),
        ({"query_id": pa.array([2**63 + 5] * 30, pa.uint64())}, r"b.parquet: column 'query_id' is 9223372036854775813"),
        ({"f2": pa.array([0.0] * 20 + [float("inf")] * 10)}, r"b.parquet: feature 'f2' of row 20 \(query 1\) is inf"),
        ({"f2": pa.array([0.0] * 28 + [None] * 2)}, r"b.parquet: feature 'f2' of row 28 \(query 1\) is nan"),
        ({"f2": pa.array(["a"] * 30)}, r"b.parquet: column 'f2' holds string, not numbers"),
        ({"f4": pa.array([0.0] * 30)}, r"b.parquet: column 'f4' is not in the first part"),
    ],
)
def test_a_broken_second_part_of_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(parquet_stream, "_BLOCK_VALUES", 30)
    columns: dict[str, Any] = {"query_id": pa.array([1] * 30), **{name: pa.array(np.zeros(30)) for name in NAMES}}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    pq.write_table(pa.table({**columns, **changes}), tmp_path / "b.parquet", row_group_size=11)
    with pytest.raises(FormatError, match=message):
        list(open_stream(tmp_path, NAMES).blocks())


def test_lists_of_another_length_and_rows_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"query_id": [1, 1], "features": [[1.0, 2.0], [3.0, 4.0]]}), path)
    with pytest.raises(FormatError, match=r"the list of features has 2 entries in row 0 .*; the ranker knows 3"):
        list(open_stream(path, NAMES).blocks())
    cut = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: [batch.slice(1) for batch in cut(*a, **k)])
    with pytest.raises(FormatError, match="a feature column ends after 1 of 2 rows"):
        list(open_stream(path, ("f1", "f2")).blocks())


def test_missing_values_as_load_has_them(tmp_path: Path) -> None:
    text, table = tmp_path / "a.txt", tmp_path / "a.parquet"
    text.write_text("0 qid:1 1:1\n0 qid:1 1:1 2:NULL\n")
    pq.write_table(pa.table({"query_id": [1, 1], "f1": [1.0, 1.0], "f2": [0.0, None]}), table)
    for path in (text, table):
        kept = features_of(open_stream(path, ("f1", "f2"), missing="keep"))
        assert np.isnan(kept).tolist() == [[False, False], [False, True]]
        assert features_of(open_stream(path, ("f1", "f2"), missing=7.0)).tolist() == [[1, 0], [1, 7]]
        with pytest.raises(FormatError):
            features_of(open_stream(path, ("f1", "f2")))
    with pytest.raises(UsageError, match="missing must be a number"):
        open_stream(text, NAMES, missing="drop")  # type: ignore[arg-type]
    cr.load(table, missing="keep").save(tmp_path / "saved.parquet")  # notes that it has missing values
    assert np.isnan(features_of(open_stream(tmp_path / "saved.parquet", ("f1", "f2")))).any()


def test_no_rows_and_mixed_formats(tmp_path: Path) -> None:
    empty, table = tmp_path / "a.txt", tmp_path / "b.parquet"
    empty.write_text("# nothing\n\n")
    pq.write_table(pa.table({"query_id": pa.array([], pa.int64()), "f1": pa.array([], pa.float32())}), table)
    for path in (empty, table):
        with pytest.raises(CldrankError, match="holds no rows"):
            list(open_stream(path, ("f1",)).blocks())
    with pytest.raises(UsageError, match="are of different formats"):
        open_stream([empty, table], NAMES)
    with pytest.raises(UsageError, match="no file was named"):
        open_stream([], NAMES)


def test_a_long_row_group_is_not_held(tmp_path: Path) -> None:
    """Arrow would read ahead all that is wanted: 24 MB here."""
    values = np.random.default_rng(0).random((3, 2_000_000), dtype=np.float32)
    columns: dict[str, Any] = {"query_id": np.arange(2_000_000) // 100, **dict(zip(NAMES, values, strict=True))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=2_000_000, use_dictionary=False)
    del columns
    stream, before = open_stream(tmp_path / "a.parquet", NAMES), pa.total_allocated_bytes()
    assert max(pa.total_allocated_bytes() - before for _ in stream.blocks()) < 12 << 20
