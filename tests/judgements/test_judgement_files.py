"""Every file read back by means that share nothing with the writer."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.judgements import Judgements, read_query_texts, write_judgements

NAN = np.nan


def made(query: Any = ("b", "a", "b", "a"), doc: Any = ("x", "y", "z", "x")) -> Judgements:
    """Three by clicks, one unknown."""
    return Judgements(
        np.array(query),
        np.array(doc),
        np.array([0.73144, 0.04, 0.3, NAN]),
        np.array([0.6, 0.01, 0.1, NAN]),
        np.array([0.8, 0.1, 0.6, NAN]),
        np.array([100, 20, 10, 0]),
        np.array([50, 1, 2, 0]),
        np.array([70.0, 18.5, 5, 0]),
        np.array([3, 0, 2, -1]),
    )


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_workbench_imports_ratings_that_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_judgements(made(), path, "workbench", name="Our clicks")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert list(content) == ["name", "description", "type", "judgmentRatings"]
    assert content["name"] == "Our clicks"
    assert content["type"] == "IMPORT_JUDGMENT"
    assert content["description"].startswith("From clicks")
    assert content["judgmentRatings"] == [
        {"query": "b", "ratings": [{"docId": "x", "rating": "0.7314"}, {"docId": "z", "rating": "0.3000"}]},
        {"query": "a", "ratings": [{"docId": "y", "rating": "0.0400"}]},
    ]
    write_judgements(made([1, 2, 1, 2], [10, 20, 30, 10]), path, "workbench")  # ids become texts, too
    assert json.loads(path.read_text())["judgmentRatings"][1] == {
        "query": "2", "ratings": [{"docId": "20", "rating": "0.0400"}]
    }  # fmt: skip


def test_quepid_reads_csv_with_grades(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_judgements(made(query=["red, shoes", "ä", "red, shoes", "ä"]), path, "quepid")
    assert rows_of(path) == [
        ["query", "docid", "rating"],
        ["red, shoes", "x", "3"],
        ["ä", "y", "0"],
        ["red, shoes", "z", "2"],
    ]


def test_qrels_are_read_by_ir_measures(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    write_judgements(made(), path, "trec")
    found = [(one.query_id, one.doc_id, one.relevance) for one in ir_measures.read_trec_qrels(str(path))]
    assert found == [("b", "x", 3), ("a", "y", 0), ("b", "z", 2)]


def test_parquet_has_everything(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write_judgements(made(), path)
    table = pq.read_table(path)
    assert table.column_names[:5] == ["query_id", "doc_id", "relevance", "low", "high"]
    assert table.column_names[5:] == ["impressions", "clicks", "examinations", "grade", "one_grade"]
    known, unknown = (list(row.values()) for row in table.to_pylist()[2:])
    assert known == ["b", "z", 0.3, 0.1, 0.6, 10, 2, 5.0, 2, False]
    assert unknown == ["a", "x", None, None, None, 0, 0, 0.0, None, None]
    described = json.loads(table.schema.metadata[b"cldrank-judgements"])
    assert described == {"confidence": 0.9, "thresholds": [0.05, 0.2, 0.5]}


def test_query_texts_stand_for_ids(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_judgements(made(), path, "quepid", query_texts={"a": "apples", "b": "pears", "c": "unused"})
    assert [row[0] for row in rows_of(path)] == ["query", "pears", "apples", "pears"]
    with pytest.raises(DataError, match="1 query of the log: b"):
        write_judgements(made(), path, "quepid", query_texts={"a": "apples"})
    with pytest.raises(DataError, match="'pears'"):
        write_judgements(made(), path, "quepid", query_texts={"a": "pears", "b": "pears"})


@pytest.mark.parametrize(
    ("to", "query", "said"),
    [
        ("trec", "red shoes", "'red shoes'"),
        ("trec", "red\tshoes", "spaces"),
        ("trec", "a\u00a0b", "spaces"),
        ("quepid", "two\nlines", "line break"),
        ("workbench", "", "''"),
    ],
)
def test_ids_that_a_format_cannot_hold_leave_no_file(tmp_path: Path, to: Any, query: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        write_judgements(made(query=["a", query, "a", query]), tmp_path / "out", to)
    assert not list(tmp_path.iterdir())


WORKBENCH = [({"to": "workbench", "name": name}, "2,000") for name in ("", "<b>", "x" * 2001)]


@pytest.mark.parametrize(
    ("given", "said"), [*WORKBENCH, ({"to": "xml"}, "`to`"), ({"to": "trec", "query_texts": {}}, "`query_texts`")]
)
def test_what_a_format_does_not_take_is_refused(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        write_judgements(made(), tmp_path / "out", **given)


def test_nothing_known_is_nothing_to_write(tmp_path: Path) -> None:
    unknown = made().where(np.array([False, False, False, True]))
    with pytest.raises(DataError, match="nothing to write"):
        write_judgements(unknown, tmp_path / "out", "trec")
    write_judgements(unknown, tmp_path / "out")
    assert pq.read_table(tmp_path / "out").num_rows == 1


# -- texts of queries -----------------------------------------------------------------------------------------------


def test_texts_from_parquet_and_csv_are_alike(tmp_path: Path) -> None:
    table = pa.table({"other": [0, 0], "query_text": ["red, shoes", "null"], "query_id": [7, 12]})
    pq.write_table(table, tmp_path / "texts.parquet")
    (tmp_path / "texts.csv").write_text('query_id,query_text,other\n7,"red, shoes",1\n12,null,2\n')
    expected = {"7": "red, shoes", "12": "null"}
    assert read_query_texts(tmp_path / "texts.parquet") == read_query_texts(tmp_path / "texts.csv") == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("query_id,text\n1,a\n", "one column 'query_text'"),
        ("query_id,query_text\n1,a\n1,b\n", "query 1 "),
        ("query_id,query_text\n1,a,b\n", "Expected 2 columns"),
        ("query_id,query_text\n", "there are no query texts"),  # ids would stand for texts otherwise
    ],
)
def test_what_is_not_such_a_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "texts.csv"
    file.write_text(content)
    with pytest.raises(CldrankError, match=said):
        read_query_texts(file)
    with pytest.raises(CldrankError, match=r"none\.csv"):
        read_query_texts(tmp_path / "none.csv")


@pytest.mark.parametrize("texts", [["a", None], [["a"], ["b"]]])
def test_texts_are_texts(tmp_path: Path, texts: list[Any]) -> None:
    pq.write_table(pa.table({"query_text": texts, "query_id": [7, 12]}), tmp_path / "texts.parquet")
    with pytest.raises(CldrankError, match="'query_text'"):
        read_query_texts(tmp_path / "texts.parquet")
