from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letor_rankers import NAMES, borda, letor, linear, network, trees
from numpy.typing import NDArray

import cldrank as cr
from cldrank import segments
from cldrank.data import letor as letor_reader
from cldrank.data import lines
from cldrank.errors import FormatError, UsageError
from cldrank.rankers import Ranker


def expected(ranker: Ranker, data: cr.RankingDataset) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores and ranks by `load`, `predict` and the order of the measures, in the order of the file."""
    scores = ranker.predict(data)
    ranks = segments.descending_ranks(scores, data.offsets)
    place = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    found = np.empty_like(scores), np.empty_like(ranks)
    found[0][place], found[1][place] = scores, ranks
    return found


def check(ranker: Ranker, source: Any, out: Path, **options: Any) -> pa.Table:
    """Score to Parquet, and compare with loading everything at once."""
    done = cr.score(ranker, source, out, **options)
    table = pq.read_table(out)
    loading = {key: value for key, value in options.items() if key != "top"}
    data = cr.load(source, **{"n_features": 3} | loading if _is_text(source) else loading)
    scores, ranks = expected(ranker, data)
    queries = np.empty_like(data.query_ids[data.row_queries])
    place = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    queries[place] = data.query_ids[data.row_queries]
    kept = ranks <= options.get("top", 10**9)
    np.testing.assert_array_equal(table["score"].to_numpy(), scores[kept])
    np.testing.assert_array_equal(table["rank"].to_numpy(), ranks[kept])
    np.testing.assert_array_equal(table["query_id"].to_numpy(), queries[kept])
    assert table.schema.field("query_id").type == (pa.int64() if queries.dtype.kind == "i" else pa.string())
    assert ("doc_id" in table.column_names) == (data.doc_ids is not None)
    if data.doc_ids is not None:
        documents = np.empty_like(data.doc_ids)
        documents[place] = data.doc_ids
        np.testing.assert_array_equal(table["doc_id"].to_numpy(), documents[kept])
    assert (done.rows, done.queries, done.written) == (data.n_rows, data.n_queries, int(kept.sum()))
    assert done.scattered == (data.source_rows is not None)
    return table


def _is_text(source: Any) -> bool:
    path = Path(source[0] if isinstance(source, list) else source)
    return ".txt" in path.name


@given(
    rows=st.integers(1, 120),
    seed=st.integers(0, 99),
    scattered=st.booleans(),
    comment=st.sampled_from(["", "# docid = D{row}", "# {row}", "# {odd}", "# a b"]),
    top=st.none() | st.integers(1, 9),
    block_bytes=st.integers(40, 800),
    by_row=st.booleans(),
)
@settings(max_examples=25)
def test_scores_are_those_of_load_and_predict(
    tmp_path_factory: pytest.TempPathFactory,
    rows: int,
    seed: int,
    scattered: bool,
    comment: str,
    top: int | None,
    block_bytes: int,
    by_row: bool,
) -> None:
    folder = tmp_path_factory.mktemp("scores")
    (folder / "a.txt").write_text(letor(rows, seed, scattered=scattered, comment=comment))
    options = {} if top is None else {"top": top}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=block_bytes))
        check(linear() if by_row else borda(), folder / "a.txt", folder / "out.parquet", **options)
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "out.parquet"]


@pytest.mark.parametrize(("make", "scattered"), [(linear, False), (network, True), (trees, True), (borda, False)])
def test_every_reader_and_every_kind_of_ranker(tmp_path: Path, make: Callable[[], Ranker], scattered: bool) -> None:
    ranker, text = make(), letor(200, scattered=scattered, comment="# docid = D{row}")
    (tmp_path / "a.txt").write_text(text)
    plain = check(ranker, tmp_path / "a.txt", tmp_path / "plain.parquet")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    cr.load(tmp_path / "a.txt").save(tmp_path / "grouped.parquet")
    rows = text.splitlines(keepends=True)
    (tmp_path / "parts").mkdir()
    for part, (start, stop) in enumerate([(0, 71), (71, 72), (72, 200)]):
        (tmp_path / "parts" / f"{part}.txt").write_text("".join(rows[start:stop]))
    for source in (tmp_path / "b.txt.gz", tmp_path / "parts", str(tmp_path / "parts" / "*.txt")):
        cr.score(ranker, source, tmp_path / "out.parquet")
        assert pq.read_table(tmp_path / "out.parquet").equals(plain)
    check(ranker, tmp_path / "grouped.parquet", tmp_path / "out.parquet")
    if scattered:
        return
    table = pq.read_table(tmp_path / "grouped.parquet")
    renamed = table.rename_columns({"query_id": "q", "doc_id": "d"}).drop_columns("label")
    pq.write_table(renamed.replace_schema_metadata(None), tmp_path / "renamed.parquet")
    columns = {"query_id": "q", "doc_id": "d"}
    assert check(ranker, tmp_path / "renamed.parquet", tmp_path / "out.parquet", columns=columns).equals(plain)


def test_ids_that_are_text_in_one_block_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=60))
    (tmp_path / "a.txt").write_text(
        letor(40, comment="#docid = {row}")
        + "0 qid:x 1:1 #docid = 007\n"
        + "".join(f"0 qid:99 1:1 #docid = {100 + row}\n" for row in range(9))
    )
    table = check(linear(), tmp_path / "a.txt", tmp_path / "out.parquet")
    assert table["query_id"].to_pylist()[40:42] == ["x", "99"]
    assert table["doc_id"].to_pylist()[40:42] == ["007", "100"]


@pytest.mark.parametrize("scattered", [False, True])
def test_a_document_twice_in_a_query_is_refused(tmp_path: Path, scattered: bool) -> None:
    last = "0 qid:1 1:1 # docid = b\n" if scattered else ""
    text = f"0 qid:1 1:1 # docid = a\n0 qid:2 1:1 # docid = a\n{last}0 qid:{1 if scattered else 2} 1:1 # docid = a\n"
    (tmp_path / "a.txt").write_text(text)
    rows = "0 and 3" if scattered else "1 and 2"
    message = rf"a.txt: document 'a' appears more than once in one query \(rows {rows}\)"
    with pytest.raises(FormatError, match=message):
        cr.score(linear(), tmp_path / "a.txt", tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


class TestMissingValues:
    def test_trees_take_them(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("0 qid:1 1:1 2:NULL\n0 qid:1 1:NULL\n")
        table = check(trees(), tmp_path / "a.txt", tmp_path / "out.parquet", missing="keep")
        rows = [[1, np.nan, 0], [np.nan, 0, 0]]
        assert table["score"].to_pylist() == trees().predict(rows).tolist()

    @pytest.mark.parametrize("make", [linear, borda])
    def test_others_refuse_them_by_file_row_and_feature(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Ranker]
    ) -> None:
        monkeypatch.setattr(letor_reader, "read_blocks", lambda path: lines.read_blocks(path, block_bytes=50))
        paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
        paths[0].write_text(letor(20))
        paths[1].write_text(letor(17) + "0 qid:9 1:1 2:NULL\n")
        message = r"b.txt:18: feature 'f2' of row 17 \(query 9\) is missing, and an? \w+ cannot use that"
        with pytest.raises(FormatError, match=message):
            cr.score(make(), paths, tmp_path / "out.parquet", missing="keep")
        with pytest.raises(FormatError, match=r"b.txt:18: feature 'f2' of row 17 \(query 9\) is"):
            cr.score(make(), paths, tmp_path / "out.parquet")
        assert cr.score(make(), paths, tmp_path / "out.parquet", missing=0.5).rows == 38


class TestRefused:
    def test_other_features_by_name(self, tmp_path: Path) -> None:
        columns: dict[str, Any] = {"query_id": [1, 1]}
        for names, message in [
            (("f1", "f2", "f3", "age"), "'age' is unknown to it"),
            (("f1", "f2"), r"a.parquet: 2 features instead of the ranker's 3: 'f3' is missing"),
            (("f1", "f2", "bm25"), r"a.parquet: other features than .* 'f3' is missing, 'bm25' is unknown to it"),
        ]:
            pq.write_table(pa.table({**columns, **{name: [0.0, 1.0] for name in names}}), tmp_path / "a.parquet")
            with pytest.raises(FormatError, match=message):
                cr.score(linear(), tmp_path / "a.parquet", tmp_path / "out.parquet")

    def test_what_cannot_be_written_or_asked(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text(letor(5))
        with pytest.raises(UsageError, match="score takes a ranker, .* not a str"):
            cr.score("ranker", tmp_path / "a.txt", tmp_path / "out.csv")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="b.txt: no such"):
            cr.score(linear(), tmp_path / "b.txt", tmp_path / "out.csv")

    def test_a_broken_second_file_leaves_the_old_scores(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"{part}.txt" for part in range(3)]
        for path in paths:
            path.write_text(letor(30))
        out = tmp_path / "out.csv"
        out.write_text("old")
        paths[1].write_text(letor(30)[:-3])
        with pytest.raises(FormatError, match=r"1.txt:30: feature 'f3' of row 29"):
            cr.score(linear(), paths, out)
        assert out.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(("scattered", "moment"), [(False, "reading"), (True, "ranking")])
def test_ctrl_c_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scattered: bool, moment: str) -> None:
    (tmp_path / "a.txt").write_text(letor(60, scattered=scattered))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if moment == "ranking":
        monkeypatch.setattr(segments, "descending_ranks", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cr.score(linear(), tmp_path / "a.txt", tmp_path / "out.csv", on_rows=interrupt if moment == "reading" else None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("make", [linear, borda])
def test_columns_in_another_order(tmp_path: Path, make: Callable[[], Ranker]) -> None:
    """Features are found by name, also where all rows are read at once because queries are scattered."""
    random, ranker = np.random.default_rng(3), make()
    columns: dict[str, Any] = {"query_id": [1, 2] * 6, "doc_id": np.arange(12)}
    columns |= {name: random.normal(size=12) for name in NAMES}
    for name, order in {"as_trained": NAMES, "other": ("f3", "f1", "f2")}.items():
        own = {one: columns[one] for one in (order[0], "query_id", "doc_id", *order[1:])}
        pq.write_table(pa.table(own), tmp_path / f"{name}.parquet")
        cr.score(ranker, tmp_path / f"{name}.parquet", tmp_path / f"{name}.csv")
    assert (tmp_path / "other.csv").read_bytes() == (tmp_path / "as_trained.csv").read_bytes()
    cr.score(ranker, tmp_path / "other.parquet", tmp_path / "named.csv", columns={"features": ["f2", "f3", "f1"]})
    assert (tmp_path / "named.csv").read_bytes() == (tmp_path / "as_trained.csv").read_bytes()


def test_ids_with_commas_quotes_and_line_ends_in_csv(tmp_path: Path) -> None:
    queries, documents = ['a,"b"', 'a,"b"', "c\nd"], ["1,5", "x y", "é"]
    columns = {"query_id": queries, "doc_id": documents, **{name: [0.1, 1 / 3, 1e-300] for name in NAMES}}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    cr.score(linear(), tmp_path / "a.parquet", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["query_id", "doc_id", "score", "rank"]
    assert [(row["query_id"], row["doc_id"]) for row in rows] == list(zip(queries, documents, strict=True))
    scores = linear().predict(cr.load(tmp_path / "a.parquet"))
    assert [float(row["score"]) for row in rows] == scores.tolist()
