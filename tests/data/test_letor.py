from __future__ import annotations

import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from cldrank import RankingDataset
from cldrank.data import letor as letor_reader
from cldrank.data import lines
from cldrank.data.letor import read_letor
from cldrank.errors import CldrankWarning, DataError, FormatError

Write = Callable[..., Path]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str = "train.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


def table(dataset: RankingDataset) -> list[list[float]]:
    rows: list[list[float]] = dataset.features.tolist()
    return rows


class TestWhatIsInTheWild:
    def test_dense_and_sparse_rows(self, write: Write) -> None:
        data = read_letor([write("2 qid:1 1:0.5 2:1 3:2\n0 qid:1 3:7\n-0.25 qid:2\n")])
        assert table(data) == [[0.5, 1, 2], [0, 0, 7], [0, 0, 0]]
        assert data.offsets.tolist() == [0, 2, 3]
        assert data.query_ids.tolist() == [1, 2]
        assert data.labels is not None
        assert data.labels.tolist() == [2, 0, -0.25]
        assert data.feature_names == ("f1", "f2", "f3")

    def test_a_feature_that_comes_late_counts(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=64))
        data = read_letor([write("1 qid:1 1:1 2:2\n" * 20 + "1 qid:2 9:4\n")])
        assert data.features.shape == (21, 9)
        assert data.features[-1, 8] == 4
        assert data.features[0].tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0]

    def test_comments_give_document_ids(self, write: Write) -> None:
        data = read_letor([write("0 qid:1 1:1 #docid = GX01-2 inc = 1 prob = 0.08\n1 qid:1 1:2 # docid=GX9\n")])
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ["GX01-2", "GX9"]
        with pytest.warns(CldrankWarning, match="document"):
            assert read_letor([write("0 qid:1 1:1 #docid = a\n0 qid:1 1:1 # 11\n")]).doc_ids is None

    def test_windows_line_ends_blank_lines_comment_lines_tabs_and_no_final_newline(self, write: Write) -> None:
        text = "\ufeff# made by hand\r\n\r\n 1 qid:1\t1:1  2:2 \r\n   \r\n#\r\n0 qid:1 2:3\t\r\n\r\n2 qid:1 1:4"
        assert table(read_letor([write(text)])) == [[1, 2], [0, 3], [4, 0]]

    def test_scattered_queries_are_gathered_in_order_of_appearance(self, write: Write) -> None:
        rows = [(1, 9, "a"), (2, 3, "b"), (3, 9, "c"), (4, 3, "d")]
        data = read_letor([write("".join(f"{at} qid:{query} 1:{at} #docid = {doc}\n" for at, query, doc in rows))])
        assert data.query_ids.tolist() == [9, 3]
        assert data.features[:, 0].tolist() == [1, 3, 2, 4]
        assert data.source_rows is not None
        assert data.source_rows.tolist() == [0, 2, 1, 3]
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ["a", "c", "b", "d"]
        assert data.labels is not None
        assert data.labels.tolist() == [1, 3, 2, 4]

    def test_missing_values_can_be_kept(self, write: Write) -> None:
        data = read_letor([write("0 qid:1 1:NULL 2:nan 4: 5:1\n1 qid:2 5:2\n")], missing="keep")
        nan = np.nan
        np.testing.assert_array_equal(data.features, np.array([[nan, nan, 0, nan, 1], [0, 0, 0, 0, 2]], np.float32))
        assert data.has_missing  # what a row does not list is 0
        whole = read_letor([write("0 qid:1 1:3\n")], missing="keep")
        assert not whole.has_missing
        with pytest.raises(FormatError, match="feature 'f1' of row 0 .* is inf"):
            read_letor([write("0 qid:1 1:inf\n")], missing="keep")

    @pytest.mark.parametrize("suffix", COMPRESS)
    def test_compressed_files(self, write: Write, suffix: str) -> None:
        text = "".join(f"{i % 3} qid:{i // 4} 1:{i} 2:0.5\n" for i in range(1000)).encode()
        data = read_letor([write(COMPRESS[suffix](text), f"train.txt{suffix}")])
        assert data.features[:, 0].tolist() == list(range(1000))
        assert data.n_queries == 250

    def test_query_ids_that_are_no_plain_integers_stay_text(self, write: Write) -> None:
        assert read_letor([write("0 qid:a7 1:1\n0 qid:b 1:1\n")]).query_ids.tolist() == ["a7", "b"]
        assert read_letor([write("0 qid:007 1:1\n0 qid:7 1:1\n")]).query_ids.tolist() == ["007", "7"]
        huge = "123456789012345678901234567890"
        assert read_letor([write(f"0 qid:{huge} 1:1\n")]).query_ids.tolist() == [huge]


BAD_ROWS = [
    ("x qid:1 1:1", 1, "'x'"),
    ("qid:1 1:1", 1, "'qid:1'"),
    ("0 qid: 1:1", 7, "`qid:`"),
    ("0 1:1", 3, "'1:1'"),
    ("0 qid:1 0:1", 9, "feature 0 is outside the features 1 … 2"),
    ("0 qid:1 one:1", 9, "'one:1'"),
    ("0 qid:1 99999999999999999999:1", 9, "'99999999999999999999:1'"),
    ("0 qid:1 2:abc", 11, "feature 2 is 'abc'"),
    ("0 qid:1 2:1e", 11, "feature 2 is '1e'"),
    ("0 qid:1 1:0 2:5 1:3", 17, "feature 1"),
    ("0 qid:1 1:1 \x00\x01", 13, "`feature:value`"),
]


class TestBadInput:
    @pytest.mark.parametrize(("row", "column", "message"), BAD_ROWS, ids=[row for row, _, _ in BAD_ROWS])
    def test_a_malformed_row_is_named_with_its_place(self, write: Write, row: str, column: int, message: str) -> None:
        path = write(f"1 qid:1 1:1 2:1\n\n{row}\n0 qid:2 1:1\n")
        with pytest.raises(FormatError) as error:
            read_letor([path])
        assert str(error.value).startswith(f"{path}:3:{column}: ")
        assert message in str(error.value)
        assert (error.value.line, error.value.column) == (3, column)

    @pytest.mark.parametrize("word", ["NULL", "", "-Infinity", "1e39"])
    def test_a_value_that_is_not_finite_is_named_by_line_and_feature(self, write: Write, word: str) -> None:
        path = write(f"1 qid:1 1:1 2:1\n \n  # text\n0 qid:7 2:{word}\n0 qid:2 1:1\n")
        with pytest.raises(FormatError, match=r"txt:4: feature 'f2' of row 1 \(query 7\) is (nan|-?inf); features"):
            read_letor([path])

    def test_the_line_is_right_in_any_block(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=50))
        path = write("1 qid:1 1:1\n" * 321 + "1 qid:1 1:one\n" + "1 qid:1 1:1\n" * 100)
        with pytest.raises(FormatError, match=r":322:11: the value of feature 1 is 'one'"):
            read_letor([path])

    @pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
    def test_no_rows(self, write: Write, text: str) -> None:
        with pytest.raises(FormatError, match="holds no rows"):
            read_letor([write(text)])

    @pytest.mark.parametrize("suffix", COMPRESS)
    def test_damaged_and_truncated_files(self, write: Write, suffix: str) -> None:
        text = "".join(f"{i % 3} qid:{i // 4} 1:{i} 2:{i * 7 % 13}\n" for i in range(5000)).encode()
        whole = COMPRESS[suffix](text)
        for broken in (whole[: len(whole) // 2], whole[:60] + b"\xff" * 40):
            with pytest.raises(FormatError, match=f"train.txt{suffix}"):
                read_letor([write(broken, f"train.txt{suffix}")])

    def test_a_line_without_end_is_given_up(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines, "_LONGEST_LINE", 1000)
        path = write(gzip.compress(b"1 qid:1 1:1\n" + bytes(5000)), "train.txt.gz")
        with pytest.raises(FormatError, match=r"train.txt.gz:2: .*longer than 0 MiB"):
            list(lines.read_blocks(path, block_bytes=100))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("1 qid:1 1:1 900000000000:1\n", "reach 900,000,000,000"),
            ("1 qid:1 1000000:1\n" * 100, "100 × 1,000,000"),
            ("1 qid:1 1:1\n" * 5000 + "1 qid:1 20000:1\n", "× 20,000"),
        ],
    )
    def test_a_few_bytes_cannot_ask_for_a_gigantic_table(self, write: Write, text: str, message: str) -> None:
        path = write(text)
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match=f"{message}.*`n_features="):
                read_letor([path])
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()

    def test_a_query_id_as_long_as_a_book_does_not_take_its_length_for_all(self, write: Write) -> None:
        rows = "".join(f"1 qid:q{row} 1:1\n" for row in range(20_000))
        with pytest.raises(DataError, match=r"an id has 1,000,000 characters.*too long"):
            read_letor([write(rows + f"1 qid:{'x' * 1_000_000} 1:1\n")])


numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-(10**20), 10**20).map(float)
)
spellings = st.sampled_from(["{}", "{:.6f}", "{:e}", "{:.25f}", "{:.17g}", "{:g}", "{:+.3f}", "{:.0f}", "{:012.4f}"])


@example([(float(np.finfo(np.float32).max), "{}")])
@given(st.lists(st.tuples(numbers, spellings), min_size=1, max_size=20))
def test_values_are_what_python_reads(values: list[tuple[float, str]]) -> None:
    words = [spelling.format(value) for value, spelling in values]
    parsed = parse_values(words)
    with np.errstate(over="ignore"):
        expected = np.array([float(word) for word in words]).astype(np.float32)
    np.testing.assert_array_max_ulp(parsed, expected, maxulp=1)


def parse_values(words: list[str]) -> NDArray[np.float32]:
    """Each word as the value of feature 1 in a row of its own, through the compiled parser."""
    from cldrank.data import letor_kernel as kernel

    text = np.frombuffer("".join(f"0 qid:1 1:{word}\n" for word in words).encode(), dtype=np.uint8)
    rows = len(words)
    block = kernel.RowBuffer.for_rows(np.zeros((rows, 1), np.float32), np.zeros(rows, np.float32))
    problem, at, _, parsed, _ = kernel.parse_rows(text, 1, block)
    assert (problem, parsed) == (kernel.OK, rows), (problem, bytes(text[at : at + 40]))
    return block.features[:, 0]


class TestAgainstScikitLearn:
    @pytest.mark.parametrize("zero_based", [False, True])
    def test_same_matrix(self, tmp_path: Path, zero_based: bool) -> None:
        rng = np.random.default_rng(3)
        X = rng.standard_normal((400, 23)) * (rng.random((400, 23)) < 0.4)
        X[0] = 1.5  # every feature occurs
        labels, qid = rng.integers(0, 5, 400), np.repeat(np.arange(40), 10)
        path = tmp_path / "made.svm"
        dump_svmlight_file(X, labels, str(path), zero_based=zero_based, query_id=qid)
        expected, expected_labels, expected_qid = load_svmlight_file(
            str(path), query_id=True, zero_based=zero_based, dtype=np.float32
        )
        data = read_letor([path], zero_based=zero_based)
        np.testing.assert_array_equal(data.features, expected.toarray())
        np.testing.assert_array_equal(data.labels, expected_labels)
        assert data.feature_names[0] == f"f{1 - zero_based}"
        np.testing.assert_array_equal(data.query_ids[data.row_queries], expected_qid)

    @pytest.mark.parametrize("block_bytes", [1, 2, 7, 30, 64, 199])
    def test_the_size_of_blocks_does_not_matter(
        self, write: Write, block_bytes: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write("".join(f"{i % 3} qid:{i // 7} {1 + i % 5}:{i * 0.37:.3f} 6:{i} # d{i}\n\n" for i in range(60)))
        whole = read_letor([path])
        monkeypatch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=block_bytes))
        pieces = read_letor([path])
        np.testing.assert_array_equal(whole.features, pieces.features)
        np.testing.assert_array_equal(whole.offsets, pieces.offsets)
        np.testing.assert_array_equal(whole.doc_ids, pieces.doc_ids)


def test_rows_without_any_feature_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1\n0 qid:1\n")
    with pytest.raises(FormatError, match=r"no row lists a feature; .* with `n_features`"):
        read_letor([path])
    assert read_letor([path], n_features=2).features.tolist() == [[0.0, 0.0]] * 2
    path.write_text("1 qid:1 1:1 3:1\n")
    with pytest.raises(FormatError, match=":1:13: feature 3 "):
        read_letor([path], n_features=2)
