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
from cldrank.errors import CldrankWarning, DataError, FormatError, UsageError

Write = Callable[..., Path]


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
        data = read_letor([write("2 qid:1 1:0.5 2:1 3:2\n0 qid:1 3:7\n1 qid:2\n")])
        assert table(data) == [[0.5, 1, 2], [0, 0, 7], [0, 0, 0]]
        assert data.offsets.tolist() == [0, 2, 3]
        assert data.query_ids.tolist() == [1, 2]
        assert data.labels is not None
        assert data.labels.tolist() == [2, 0, 1]
        assert data.feature_names == ("f1", "f2", "f3")

    def test_unsorted_and_zero_based_ids(self, write: Write) -> None:
        data = read_letor([write("0 qid:1 2:3 0:1 1:2\n")], zero_based=True)
        assert table(data) == [[1, 2, 3]]
        assert data.feature_names == ("f0", "f1", "f2")

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

    def test_other_comments_give_none(self, write: Write) -> None:
        assert read_letor([write("0 qid:1 1:1 # 11\n0 qid:1 1:1 # 12\n")]).doc_ids is None
        with pytest.warns(CldrankWarning, match="some rows name a document and others do not"):
            assert read_letor([write("0 qid:1 1:1 #docid = a\n0 qid:1 1:1\n")]).doc_ids is None

    def test_windows_line_ends_blank_lines_comment_lines_tabs_and_no_final_newline(self, write: Write) -> None:
        text = "# made by hand\r\n\r\n 1 qid:1\t1:1  2:2 \r\n   \r\n#\r\n0 qid:1 2:3\t\r\n\r\n2 qid:1 1:4"
        assert table(read_letor([write(text)])) == [[1, 2], [0, 3], [4, 0]]

    def test_byte_order_mark(self, write: Write) -> None:
        assert table(read_letor([write(b"\xef\xbb\xbf1 qid:1 1:1\n")])) == [[1]]

    def test_float_and_negative_labels(self, write: Write) -> None:
        data = read_letor([write("-1 qid:1 1:1\n+0.25 qid:1 1:1\n1e-1 qid:1 1:1\n")])
        assert data.labels is not None
        np.testing.assert_array_equal(data.labels, np.array([-1, 0.25, 0.1], dtype=np.float32))

    def test_scattered_queries_are_gathered_in_order_of_appearance(self, write: Write) -> None:
        rows = [(1, 9, "a"), (2, 3, "b"), (3, 9, "c"), (4, 3, "d")]
        data = read_letor(
            [write("".join(f"{at} qid:{query} 1:{at} #docid = {document}\n" for at, query, document in rows))]
        )
        assert data.query_ids.tolist() == [9, 3]
        assert data.features[:, 0].tolist() == [1, 3, 2, 4]
        assert data.source_rows is not None
        assert data.source_rows.tolist() == [0, 2, 1, 3]
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ["a", "c", "b", "d"]
        assert data.labels is not None
        assert data.labels.tolist() == [1, 3, 2, 4]

    def test_missing_values_can_be_filled(self, write: Write) -> None:
        path = write("0 qid:1 1:NULL 2:nan 3:NaN 4:na 5: 6:1\n")
        assert table(read_letor([path], missing=-1)) == [[-1, -1, -1, -1, -1, 1]]

    def test_missing_values_can_be_kept(self, write: Write) -> None:
        data = read_letor([write("0 qid:1 1:NULL 2:nan 4: 5:1\n1 qid:2 5:2\n")], missing="keep")
        nan = np.nan
        np.testing.assert_array_equal(data.features, np.array([[nan, nan, 0, nan, 1], [0, 0, 0, 0, 2]], np.float32))
        assert data.has_missing  # what a row does not list is 0
        whole = read_letor([write("0 qid:1 1:3\n")], missing="keep")
        assert not whole.has_missing
        with pytest.raises(FormatError, match="feature 'f1' of row 0 .* is inf; features must be finite"):
            read_letor([write("0 qid:1 1:inf\n")], missing="keep")

    def test_parts_are_one_data_set(self, write: Write) -> None:
        parts = [write("1 qid:1 1:1\n1 qid:2 1:2\n", "a.txt"), write("1 qid:2 1:3 2:1\n1 qid:3 1:4\n", "b.txt")]
        data = read_letor(parts)
        assert data.offsets.tolist() == [0, 1, 3, 4]
        assert table(data) == [[1, 0], [2, 0], [3, 1], [4, 0]]

    @pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
    def test_compressed_files(self, write: Write, suffix: str) -> None:
        text = "".join(f"{i % 3} qid:{i // 4} 1:{i} 2:0.5\n" for i in range(1000)).encode()
        compress: dict[str, Callable[[bytes], bytes]] = {
            ".gz": gzip.compress,
            ".xz": lzma.compress,
            ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
        }
        data = read_letor([write(compress[suffix](text), f"train.txt{suffix}")])
        assert data.features[:, 0].tolist() == list(range(1000))
        assert data.n_queries == 250

    def test_query_ids_that_are_no_plain_integers_stay_text(self, write: Write) -> None:
        assert read_letor([write("0 qid:a7 1:1\n0 qid:b 1:1\n")]).query_ids.tolist() == ["a7", "b"]
        assert read_letor([write("0 qid:007 1:1\n0 qid:7 1:1\n")]).query_ids.tolist() == ["007", "7"]
        huge = "123456789012345678901234567890"
        assert read_letor([write(f"0 qid:{huge} 1:1\n")]).query_ids.tolist() == [huge]

    def test_a_known_number_of_features(self, write: Write) -> None:
        assert read_letor([write("0 qid:1 1:1\n")], n_features=4).features.shape == (1, 4)
        assert read_letor([write("0 qid:1 1:1\n")], zero_based=True).features.tolist() == [[0, 1]]


BAD_ROWS = [
    ("x qid:1 1:1", 1, "expected a label, found 'x'"),
    ("nan qid:1 1:1", 1, "expected a label, found 'nan'"),
    ("1e99 qid:1 1:1", 1, "the label '1e99' is too large"),
    ("1,5 qid:1 1:1", 1, "expected a label, found '1,5'"),
    ("qid:1 1:1", 1, "expected a label, found 'qid:1'"),
    ("0 qid: 1:1", 7, "`qid:` has no query after it"),
    ("0 1:1", 3, "expected `qid:` and the query, found '1:1'"),
    ("0 qid:1 0:1", 9, "feature 0 is outside the features 1 … 2; ids start at 1, or at 0 with `zero_based=True`"),
    ("0 qid:1 one:1", 9, "expected `feature:value`, with a whole number as feature, found 'one:1'"),
    ("0 qid:1 -1:1", 9, "found '-1:1'"),
    ("0 qid:1 1.5:1", 9, "found '1.5:1'"),
    ("0 qid:1 1", 9, "found '1'"),
    ("0 qid:1 1 :1", 9, "found '1'"),
    ("0 qid:1 99999999999999999999:1", 9, "found '99999999999999999999:1'"),
    ("0 qid:1 2:abc", 11, "the value of feature 2 is 'abc', which is not a number"),
    ("0 qid:1 2:1.2.3", 11, "the value of feature 2 is '1.2.3'"),
    ("0 qid:1 2:0x1F", 11, "the value of feature 2 is '0x1F'"),
    ("0 qid:1 2:1e", 11, "the value of feature 2 is '1e'"),
    ("0 qid:1 2:--1", 11, "the value of feature 2 is '--1'"),
    ("0 qid:1 2:1,5", 11, "the value of feature 2 is '1,5'"),
    ("0 qid:1 1:0 2:5 1:3", 17, "feature 1 appears twice; a LETOR row lists each feature once"),
    ("0 qid:1 1:1 \x00\x01", 13, "expected `feature:value`"),
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

    @pytest.mark.parametrize("word", ["NULL", "nan", "", "inf", "-Infinity", "1e39", "-4e38"])
    def test_a_value_that_is_not_finite_is_named_by_line_and_feature(self, write: Write, word: str) -> None:
        path = write(f"1 qid:1 1:1 2:1\n \n  # text\n0 qid:7 2:{word}\n0 qid:2 1:1\n")
        with pytest.raises(FormatError, match=r"txt:4: feature 'f2' of row 1 \(query 7\) is (nan|-?inf); features"):
            read_letor([path])

    def test_the_line_is_right_in_any_block(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=50))
        path = write("1 qid:1 1:1\n" * 321 + "1 qid:1 1:one\n" + "1 qid:1 1:1\n" * 100)
        with pytest.raises(FormatError, match=r":322:11: the value of feature 1 is 'one'"):
            read_letor([path])

    def test_the_first_of_several_faults_is_reported(self, write: Write) -> None:
        with pytest.raises(FormatError, match=r":2:1: expected a label, found 'b'"):
            read_letor([write("1 qid:1 1:1\nb qid:1 1:1\nc qid:1 1:1\n")])

    @pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
    def test_no_rows(self, write: Write, text: str) -> None:
        with pytest.raises(FormatError, match="holds no rows"):
            read_letor([write(text)])

    @pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
    def test_damaged_and_truncated_files(self, write: Write, suffix: str) -> None:
        text = "".join(f"{i % 3} qid:{i // 4} 1:{i} 2:{i * 7 % 13}\n" for i in range(5000)).encode()
        whole = {
            ".gz": gzip.compress(text),
            ".xz": lzma.compress(text),
            ".zst": pa.compress(text, "zstd", asbytes=True),
        }[suffix]
        for broken in (whole[: len(whole) // 2], whole[:60] + b"\xff" * 40):
            with pytest.raises(FormatError, match=rf"train.txt{suffix}: not a complete file"):
                read_letor([write(broken, f"train.txt{suffix}")])

    def test_a_line_without_end_is_given_up(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines, "_LONGEST_LINE", 1000)
        path = write(gzip.compress(b"1 qid:1 1:1\n" + bytes(5000)), "train.txt.gz")
        with pytest.raises(FormatError, match=r"train.txt.gz:2: .*longer than 0 MiB"):
            list(lines.read_blocks(path, block_bytes=100))

    def test_no_such_file_and_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no such file"):
            read_letor([tmp_path / "absent.txt"])
        with pytest.raises(UsageError, match="is a folder"):
            read_letor([tmp_path])

    def test_features_beyond_what_was_asked_for(self, write: Write) -> None:
        with pytest.raises(FormatError, match=r":1:13: feature 3 is outside the features 1 … 2"):
            read_letor([write("1 qid:1 1:1 3:1\n")], n_features=2)
        with pytest.raises(UsageError, match="`n_features` must be a whole number .*not 0"):
            read_letor([write("1 qid:1 1:1\n")], n_features=0)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("1 qid:1 1:1 900000000000:1\n", "reach 900,000,000,000"),
            ("1 qid:1 400000000:1\n", "reach 400,000,000"),
            ("1 qid:1 1000000:1\n" * 100, r"reach 1,000,000.* 100 × 1,000,000 numbers .* bytes of text"),
            ("1 qid:1 1:1\n" * 5000 + "1 qid:1 20000:1\n", r"× 20,000 numbers .* bytes of text"),
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

    def test_a_width_that_was_asked_for_is_made(self, write: Write) -> None:
        assert read_letor([write("1 qid:1 1000001:1\n")], n_features=1_000_001).n_features == 1_000_001
        assert read_letor([write("1 qid:1 90000:1\n" * 9)]).n_features == 90_000

    def test_a_width_beyond_all_reason_is_refused_even_so(self, write: Write) -> None:
        with pytest.raises(UsageError, match="`n_features` must be a whole number"):
            read_letor([write("1 qid:1 1:1\n")], n_features=900_000_000_000)

    def test_a_query_id_as_long_as_a_book_does_not_take_its_length_for_all(self, write: Write) -> None:
        rows = "".join(f"1 qid:q{row} 1:1\n" for row in range(20_000))
        with pytest.raises(DataError, match=r"an id has 1,000,000 characters.*too long"):
            read_letor([write(rows + f"1 qid:{'x' * 1_000_000} 1:1\n")])

    def test_a_document_twice_in_a_query(self, write: Write) -> None:
        with pytest.raises(DataError, match="document 'a' appears more than once in one query"):
            read_letor([write("1 qid:1 1:1 #docid = a\n1 qid:1 1:2 #docid = a\n")])


numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-(10**20), 10**20).map(float),
)
spellings = st.sampled_from(["{}", "{:.6f}", "{:e}", "{:.25f}", "{:.17g}", "{:g}", "{:+.3f}", "{:.0f}", "{:012.4f}"])


class TestNumbers:
    @example([(float(np.finfo(np.float32).max), "{}")])
    @given(st.lists(st.tuples(numbers, spellings), min_size=1, max_size=20))
    def test_values_are_what_python_reads(self, values: list[tuple[float, str]]) -> None:
        words = [spelling.format(value) for value, spelling in values]
        parsed = parse_values(words)
        with np.errstate(over="ignore"):
            expected = np.array([float(word) for word in words]).astype(np.float32)
        np.testing.assert_array_max_ulp(parsed, expected, maxulp=1)

    def test_odd_but_valid_spellings(self) -> None:
        words = [
            "1.",
            ".5",
            "-.5e1",
            "+0",
            "-0",
            "00012",
            "1E2",
            "1e+02",
            "1e-400",
            "0e999",
            "1e-46",
            "12345678901234567890123",
        ]
        np.testing.assert_array_equal(parse_values(words), np.array([float(w) for w in words], dtype=np.float32))

    def test_the_shortest_spelling_of_a_float32_reads_back_exactly(self) -> None:
        values = np.random.default_rng(0).integers(0, 2**31, 20_000, dtype=np.int64).astype(np.uint32).view(np.float32)
        values = values[np.isfinite(values)]
        np.testing.assert_array_equal(parse_values([str(value) for value in values]), values)


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
        np.testing.assert_array_equal(data.query_ids[data.row_queries], expected_qid)

    @given(st.integers(1, 200))
    def test_the_size_of_blocks_does_not_matter(self, block_bytes: int) -> None:
        text = "".join(f"{i % 3} qid:{i // 7} {1 + i % 5}:{i * 0.37:.3f} 6:{i} # d{i}\n\n" for i in range(60))
        import tempfile

        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            path = Path(folder) / "train.txt"
            path.write_text(text)
            whole = read_letor([path])
            patch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=block_bytes))
            pieces = read_letor([path])
        np.testing.assert_array_equal(whole.features, pieces.features)
        np.testing.assert_array_equal(whole.offsets, pieces.offsets)
        np.testing.assert_array_equal(whole.doc_ids, pieces.doc_ids)


@pytest.mark.data
class TestRealFiles:
    def test_mq2008(self, real_data: Path) -> None:
        data = read_letor([real_data / f"mq2008/S{part}.txt.xz" for part in range(1, 6)])
        assert (data.n_queries, data.n_rows, data.n_features) == (784, 15_211, 46)
        assert data.labels is not None
        assert set(np.unique(data.labels)) == {0, 1, 2}
        assert data.doc_ids is not None
        assert data.doc_ids[0] == "GX008-86-4444840"

    @pytest.mark.parametrize("part", ["train", "test"])
    def test_web10k_sample(self, real_data: Path, part: str) -> None:
        data = read_letor([real_data / f"web10k-sample/{part}.txt.xz"])
        assert (data.n_queries, data.n_rows, data.n_features) == (43, 5_000, 136)
        assert data.labels is not None
        assert set(np.unique(data.labels)) == {0, 1, 2, 3, 4}


def test_rows_without_any_feature_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1\n0 qid:1\n")
    with pytest.raises(FormatError, match=r"no row lists a feature; .* with `n_features`"):
        read_letor([path])
    assert read_letor([path], n_features=2).features.tolist() == [[0.0, 0.0]] * 2


def test_compression_is_known_by_the_first_bytes(tmp_path: Path) -> None:
    rows = b"1 qid:1 1:0.5\n0 qid:1 1:0.25\n"
    (tmp_path / "plain.txt.gz").write_bytes(rows)
    (tmp_path / "packed.txt").write_bytes(gzip.compress(rows))
    for name in ("plain.txt.gz", "packed.txt"):
        assert read_letor([tmp_path / name]).n_rows == 2
