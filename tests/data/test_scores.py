from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from cldrank import Propensities, RankingDataset, load
from cldrank.data.letor import read_letor
from cldrank.data.scores import load_scores
from cldrank.errors import FormatError, UsageError


@pytest.fixture
def data() -> RankingDataset:
    return RankingDataset.from_arrays(np.eye(3), [1, 1, 2], doc_ids=["a", "b", "a"])


def write_parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_text_and_parquet_agree(tmp_path: Path, data: RankingDataset) -> None:
    (tmp_path / "s.txt").write_text("0.5\n\n 1e-3 \r\n-2\n")
    write_parquet(tmp_path / "s.parquet", score=[0.5, 1e-3, -2.0])
    for name in ("s.txt", "s.parquet"):
        np.testing.assert_allclose(load_scores(tmp_path / name, data), [0.5, 1e-3, -2], rtol=1e-6)


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"query_id": [2, 1, 1]}, "query_id 2 for row 0 of the dataset, which is of 1"),
        ({"doc_id": ["a", "a", "b"]}, "doc_id a for row 1 of the dataset, which is of b"),
    ],
)
def test_one_id_must_agree_with_the_order(tmp_path: Path, data: RankingDataset, columns: Any, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        load_scores(write_parquet(tmp_path / "s.parquet", score=[3.0, 2.0, 1.0], **columns), data)
    own = {"query_id": [1, 1, 2], "doc_id": ["a", "b", "a"]}
    same = {name: own[name] for name in columns}
    scores = load_scores(write_parquet(tmp_path / "s.parquet", score=[3.0, 2.0, 1.0], **same), data)
    np.testing.assert_array_equal(scores, [3, 2, 1])


def test_ids_find_the_row(tmp_path: Path, data: RankingDataset) -> None:
    path = write_parquet(
        tmp_path / "s.parquet", query_id=[2, 1, 1, 9], doc_id=["a", "b", "a", "x"], score=[3.0, 2.0, 1.0, 0.0]
    )
    assert load_scores(path, data).tolist() == [1, 2, 3]


def test_csv_as_parquet(tmp_path: Path) -> None:
    ids = ["a,b", 'say "x"', "two\nlines", "007", "", "NA"]
    data = RankingDataset.from_arrays(np.eye(6), [1, 1, 1, 2, 2, 2], doc_ids=ids)
    columns = {"query_id": [2, 2, 2, 1, 1, 1], "doc_id": ids[3:] + ids[:3], "score": [4.0, 5.5, -6, 1, 2e-300, 3]}
    csv.write_csv(pa.table({**columns, "rank": [1, 2, 3, 1, 2, 3]}), tmp_path / "s.csv")
    assert load_scores(tmp_path / "s.csv", data).tolist() == [1, 2e-300, 3, 4, 5.5, -6]
    csv.write_csv(pa.table({"query_id": [1, 1, 1, 2, 2, 2], "score": np.arange(6.0)}), tmp_path / "s.csv")
    assert load_scores(tmp_path / "s.csv", data).tolist() == [0, 1, 2, 3, 4, 5]  # in the order of the file


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.csv", "query_id,doc_id,score\n1,a,1\n2,a,2\n", "no score for query 1, document b.$"),
        ("s.csv", "query_id,doc_id,score\n1,a,x\n", "s.csv: column 'score' is 'x'"),
        ("s.csv", "query_id,doc_id,score\n1,a\n", "s.csv: not a CSV file"),
        ("s.csv", "query_id,score\n1,1\n1,\n2,1\n", "score 2 is nan"),
        ("s.csv", "query_id,doc_id,score\n1,a,1\n1,a,2\n2,a,2\n", "document a has two scores"),
        ("s.csv", "query_id,x\n1,1\n", "'score'"),
        ("s.txt", "1\n2\n", "has 2 scores for 3 rows"),
        ("s.txt", "1\nx\n3\n", r"s.txt:2: 'x' is not a number"),
        ("s.txt", "1\nnan\n3\n", "score 2 is nan"),
        ("s.txt", "1\n1_000\n3\n", "'1_000' is not a number"),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, data: RankingDataset, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=message):
        load_scores(tmp_path / name, data)


def test_scores_follow_rows_that_were_regrouped(tmp_path: Path) -> None:
    letor = tmp_path / "t.txt"
    letor.write_text("0 qid:1 1:1\n0 qid:2 1:2\n0 qid:1 1:3\n")
    (tmp_path / "s.txt").write_text("10\n20\n30\n")
    scattered = read_letor([letor])
    assert scattered.features[:, 0].tolist() == [1, 3, 2]
    assert load_scores(tmp_path / "s.txt", scattered).tolist() == [10, 30, 20]
    path = write_parquet(tmp_path / "s.parquet", query_id=[1, 2, 1], score=[10.0, 20.0, 30.0])
    assert load_scores(path, scattered).tolist() == [10, 30, 20]
    with pytest.raises(FormatError, match="query_id 2 for row 1 of the dataset, which is of 1"):
        load_scores(write_parquet(tmp_path / "s.parquet", query_id=[1, 1, 2], score=[10.0, 20.0, 30.0]), scattered)


def test_propensities_are_neither_scores_nor_features(tmp_path: Path, data: RankingDataset) -> None:
    Propensities.power(1, 3).save(tmp_path / "rho.json")
    for call in (lambda path: load_scores(path, data), load):
        with pytest.raises(UsageError, match=r"rho\.json holds propensities, not a "):
            call(tmp_path / "rho.json")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("score", [1.0] * 3), ("score", [2.0] * 3)], "appears more than once"),
        ([("score", [1.0] * 3), ("query_id", [1, 1, None]), ("doc_id", ["a"] * 3)], "'query_id' is null in row 2"),
        ([("score", [1.0] * 3), ("query_id", [1, 1, 2]), ("doc_id", [["a"]] * 3)], "'doc_id' holds list<.*; ids are"),
    ],
)
def test_odd_tables(tmp_path: Path, data: RankingDataset, columns: list[tuple[str, Any]], message: str) -> None:
    table = pa.Table.from_arrays([pa.array(values) for _, values in columns], names=[name for name, _ in columns])
    pq.write_table(table, tmp_path / "s.parquet")
    with pytest.raises(FormatError, match=message):
        load_scores(tmp_path / "s.parquet", data)
