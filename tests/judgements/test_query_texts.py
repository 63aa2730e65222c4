from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank.errors import CldrankError
from cldrank.judgements import read_query_texts


def test_texts_from_parquet_and_csv_are_alike(tmp_path: Path) -> None:
    table = pa.table({"other": [0, 0], "query_text": ["red, shoes", "null"], "query_id": [7, 12]})
    pq.write_table(table, tmp_path / "texts.parquet")
    (tmp_path / "texts.csv").write_text('query_id,query_text,other\n7,"red, shoes",1\n12,null,2\n')
    expected = {"7": "red, shoes", "12": "null"}
    assert read_query_texts(tmp_path / "texts.parquet") == read_query_texts(tmp_path / "texts.csv") == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("query_id,text\n1,a\n", "no column 'query_text'"),
        ("query_id,query_text\n1,a\n1,b\n", "query 1 has two texts, 'a' and 'b'"),
        ("query_id,query_text\n1,a,b\n", "query texts"),
        ("query_id,query_text\n", "there are no query texts"),  # ids would stand for texts otherwise
        ("query_id,query_text,query_text\n1,a,b\n", "there are 2 columns 'query_text'"),
    ],
)
def test_what_is_not_such_a_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "texts.csv"
    file.write_text(content)
    with pytest.raises(CldrankError, match=said):
        read_query_texts(file)
    with pytest.raises(CldrankError, match=r"none\.csv"):
        read_query_texts(tmp_path / "none.csv")


def test_the_same_text_twice_is_no_contradiction(tmp_path: Path) -> None:
    file = tmp_path / "texts.csv"
    file.write_text("query_id,query_text\n1,a\n1,a\n")
    assert read_query_texts(file) == {"1": "a"}


def test_missing_entries_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query_text": ["a", None], "query_id": [7, 12]}), tmp_path / "texts.parquet")
    with pytest.raises(CldrankError, match="'query_text' has null entries"):
        read_query_texts(tmp_path / "texts.parquet")


def test_texts_are_texts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query_text": [["a"], ["b"]], "query_id": [7, 12]}), tmp_path / "texts.parquet")
    with pytest.raises(CldrankError, match="'query_text' holds list.*, not text or whole numbers"):
        read_query_texts(tmp_path / "texts.parquet")
    (tmp_path / "texts.csv").write_bytes(b"query_id,\xff\xfe\n1,a\n")
    with pytest.raises(CldrankError, match=r"texts\.csv"):
        read_query_texts(tmp_path / "texts.csv")
