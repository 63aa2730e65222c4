"""Judgements as files: Search Relevance Workbench, Quepid, TREC, Parquet; and the texts of queries."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from cldrank.arguments import check_choice
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing, save_text
from cldrank.judgements.document_judgements import Judgements
from cldrank.reading import reading
from cldrank.tables.sources import known_format
from cldrank.wording import count, some

JudgementFormat = Literal["workbench", "quepid", "trec", "parquet"]
FORMATS = get_args(JudgementFormat)
Line = tuple[str, str, str]  # query, document, rating

_FORBIDDEN = re.compile(r'["\\<>]')  # in a name: the Workbench refuses them
_LONGEST = 2000  # characters of it
_DESCRIPTION = "From clicks, corrected for position; probability of a click if examined."
_TEXT_COLUMNS = ("query_id", "query_text")


def write_judgements(
    judgements: Judgements,
    path: str | PathLike[str],
    to: JudgementFormat = "parquet",
    *,
    query_texts: Mapping[str, str] | None = None,
    name: str = "judgements from clicks",
) -> None:
    """Write judgements for a tool, whole or not at all.

    to            "workbench": the body that imports relevance into OpenSearch's Search Relevance Workbench. "quepid":
                  CSV with query, docid and the grade as rating. "trec": qrels of grades. "parquet": everything
    query_texts   the text of each query id; without any, ids stand for texts
    name          of the list, in the Workbench

    Unknown documents are in Parquet alone.

    >>> import tempfile
    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[90, 90, 0], clicks=[40, 10, 0])
    >>> judged = cr.judge_documents(clicks, cr.Propensities.power(1, k=2), grades=(0.3,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_judgements(judged, f"{folder}/qrels.txt", "trec")
    ...     print(Path(f"{folder}/qrels.txt").read_text(), end="")
    7 0 1 1
    7 0 2 0
    """
    check_delivery(to, query_texts)
    if to == "parquet":
        _save_parquet(judgements, Path(path))
        return
    known = judgements.where(judgements.known)
    ratings = [f"{value:.4f}" for value in known.relevance] if to == "workbench" else map(str, known.grade.tolist())
    lines = _lines(known, query_texts, ratings)
    save_text(Path(path), _workbench(lines, name) if to == "workbench" else _TEXT[to](lines))


def check_delivery(to: str, query_texts: Mapping[str, str] | None = None) -> None:
    """Refuse unknown formats, and query texts for formats that hold ids."""
    check_choice("to", to, FORMATS)
    if to in ("parquet", "trec") and query_texts is not None:
        raise UsageError("Parquet and qrels hold query ids; leave `query_texts` out.")


def read_query_texts(path: str | PathLike[str]) -> dict[str, str]:
    r"""The text of each query id, from a CSV file with a header, or from Parquet: columns query_id and query_text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "queries.csv"
    ...     _ = file.write_text('query_id,query_text\n7,"red shoes, size 39"\n')
    ...     read_query_texts(file)
    {'7': 'red shoes, size 39'}
    """
    from cldrank.data.table_rows import file_part

    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file of query texts.")
    with reading(file, "a readable file of query texts"):
        part = file_part(file, "parquet" if known_format(file) == "parquet" else "csv")
    names = part.schema.names
    for name in _TEXT_COLUMNS:
        if names.count(name) != 1:
            raise FormatError(f"there must be one column {name!r}, and there are {some(names)}.", path=file)
    part.check(_TEXT_COLUMNS, ())
    texts: dict[str, str] = {}
    for query, text in zip(*part.columns(_TEXT_COLUMNS)[0], strict=True):
        if texts.setdefault(query, text) != text:
            raise FormatError(f"query {query} has two texts, {texts[query]!r} and {text!r}.", path=file)
    if not texts:
        raise FormatError("there are no query texts.", path=file)
    return texts


def _lines(known: Judgements, texts: Mapping[str, str] | None, ratings: Iterable[str]) -> list[Line]:
    if not len(known):
        raise DataError("no document has a judgement; there is nothing to write.")
    queries = known.query_id.astype(np.str_).tolist()
    if texts is not None:
        lacking = sorted(set(queries) - set(texts))
        if lacking:
            which = f"{count(len(lacking), 'query', 'queries')} of the log: {some(lacking)}"
            raise DataError(f"the query texts lack {which}.")
        first: dict[str, str] = {}
        for query in dict.fromkeys(queries):
            other = first.setdefault(texts[query], query)
            if other != query:
                raise DataError(f"queries {other} and {query} have the same text, {texts[query]!r}; tools mix them.")
        queries = [texts[query] for query in queries]
    lines = list(zip(queries, known.doc_id.astype(np.str_).tolist(), ratings, strict=True))
    _refuse(lines, r"^$", "is empty; tools refuse such a judgement.")
    return lines


def _refuse(lines: Sequence[Line], pattern: str, why: str) -> None:
    """Refuse a query or document that matches a pattern."""
    for what, column in (("query", 0), ("document", 1)):
        bad = next((line[column] for line in lines if re.search(pattern, line[column])), None)
        if bad is not None:
            raise DataError(f"a {what}, {bad!r}, {why}")


def _workbench(lines: Sequence[Line], name: str) -> str:
    if not name or len(name) > _LONGEST or _FORBIDDEN.search(name):
        raise UsageError(
            f"the Workbench takes a name of 1 to {_LONGEST:,} characters without quotes, backslashes, < and >; "
            f"not {name[:80]!r}."
        )
    ratings: dict[str, list[dict[str, str]]] = {}
    for query, doc, rating in lines:
        ratings.setdefault(query, []).append({"docId": doc, "rating": rating})
    content: dict[str, Any] = {"name": name, "description": _DESCRIPTION, "type": "IMPORT_JUDGMENT"}
    content["judgmentRatings"] = [{"query": query, "ratings": own} for query, own in ratings.items()]
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _quepid(lines: Sequence[Line]) -> str:
    _refuse(lines, r"[\r\n]", "has a line break, and Quepid reads line by line.")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("query", "docid", "rating"), *lines])
    return text.getvalue()


def _trec(lines: Sequence[Line]) -> str:
    _refuse(lines, r"\s", "cannot stand in qrels, whose columns are separated by spaces; write another format.")
    return "".join(f"{query} 0 {doc} {rating}\n" for query, doc, rating in lines)


_TEXT: Mapping[str, Callable[[Sequence[Line]], str]] = {"quepid": _quepid, "trec": _trec}


def _save_parquet(judgements: Judgements, path: Path) -> None:
    import pyarrow.parquet as pq

    described = {"confidence": judgements.confidence, "thresholds": list(judgements.thresholds)}
    table = judgements.as_table().replace_schema_metadata({"cldrank-judgements": json.dumps(described)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary)
