"""Judgements as files: Search Relevance Workbench, Quepid, TREC, Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from cldrank.arguments import check_choice
from cldrank.errors import DataError, Spelling, UsageError, setting
from cldrank.files import replacing, save_text
from cldrank.judgements.judging import CLICKS, RANKER, UNKNOWN, Judgements
from cldrank.wording import count, some

JudgementFormat = Literal["workbench", "quepid", "trec", "parquet"]
Rating = Literal["relevance", "grade"]

_FORBIDDEN = re.compile(r'["\\<>]')  # in a name or description: the Workbench refuses them
_LONGEST = 2000  # characters of either
_UNNAMED = "judgements from clicks"


@dataclass(frozen=True)
class WrittenJudgements:
    """What was written.

    path      the file
    format    "workbench", "quepid", "trec" or "parquet"
    written   judgements in it
    queries   of how many queries
    filled    of those written, how many a ranker filled in
    unknown   documents without a judgement; Parquet lists them, other formats leave them out
    marks     the file that says which ones were filled in, where the format itself cannot

    >>> done = WrittenJudgements(Path("qrels.txt"), "trec", written=2, queries=1, filled=0, unknown=1)
    >>> done.written, done.unknown
    (2, 1)
    """

    path: Path
    format: str
    written: int
    queries: int
    filled: int
    unknown: int
    marks: Path | None = None

    def __str__(self) -> str:
        text = f"{count(self.written, 'judgement')} of {count(self.queries, 'query', 'queries')}"
        if self.filled:
            where = f", listed in {self.marks}" if self.marks else ""
            text += f"; {self.filled:,} of them filled in by a ranker{where}"
        if self.unknown:
            what = "listed" if self.format == "parquet" else "left out"
            text += f"; {count(self.unknown, 'document')} never shown and {what} as unknown"
        return text


@dataclass(frozen=True)
class _Lines:
    """Judgements as a format has them: one entry each."""

    query: list[str]
    doc: list[str]
    rating: list[str]


def write_judgements(
    judgements: Judgements,
    path: str | PathLike[str],
    to: JudgementFormat = "parquet",
    *,
    rating: Rating | None = None,
    query_texts: Mapping[str, str] | None = None,
    name: str = _UNNAMED,
    description: str = "",
) -> WrittenJudgements:
    """Write judgements for a tool, whole or not at all.

    to            "workbench": the body that imports them into OpenSearch's Search Relevance Workbench. "quepid": CSV
                  with query, docid, rating. "trec": qrels. "parquet": everything, unknown documents and all
    rating        what a tool gets: the relevance (the Workbench's default) or the grade (that of Quepid; of TREC the
                  only one)
    query_texts   the text of each query id; without any, ids stand for texts
    name          of the list, and its description, in the Workbench

    Unknown documents are in Parquet alone. What a ranker filled in is marked there in `source`; the Workbench's
    description says how many they are, and beside a file of Quepid or TREC, `FILE.filled.csv` lists them.

    >>> import tempfile
    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[90, 90, 0], clicks=[40, 10, 0])
    >>> found = cr.judge_documents(clicks, cr.Propensities.power(1, k=2), grades=(0.3,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = write_judgements(found, f"{folder}/qrels.txt", "trec")
    ...     print(done.path.read_text(), end="")
    7 0 1 1
    7 0 2 0
    """
    check_delivery(to, rating, query_texts)
    target = Path(path)
    if to == "parquet":
        _save_parquet(judgements, target)
        return _account(judgements, target, to)
    known = judgements.where(judgements.known)
    if not len(known):
        raise DataError("no document has a judgement; there is nothing to write.")
    usual = "relevance" if to == "workbench" else "grade"
    lines = _lines(known, query_texts, rating or usual)
    said = f"{description} " if description else ""
    text = _TEXT[to](lines, name, f"{said}{_described(known, rating or usual)}")
    marks = _save_marks(known, target, to)
    save_text(target, text)
    return _account(judgements, target, to, marks)


def check_delivery(to: str, rating: str | None = None, query_texts: Mapping[str, str] | None = None) -> None:
    """Refuse a format that there is not, and what does not go with a format.

    >>> check_delivery("trec", rating="relevance")
    Traceback (most recent call last):
    cldrank.errors.UsageError: qrels hold whole numbers; leave rating='relevance' out, or write Parquet.
    """
    check_choice("to", to, FORMATS)
    if rating is not None:
        check_choice("rating", rating, get_args(Rating))
    texts = Spelling("query_texts", "--query-text")
    if to == "parquet" and (rating is not None or query_texts is not None):
        raise UsageError(
            "Parquet has all columns, and ids; leave {} out.", texts if rating is None else setting("rating", rating)
        )
    if to == "trec" and rating == "relevance":
        raise UsageError("qrels hold whole numbers; leave {} out, or write Parquet.", setting("rating", rating))
    if to == "trec" and query_texts is not None:
        raise UsageError("qrels hold query ids; leave {} out.", texts)


def _account(judgements: Judgements, path: Path, to: str, marks: Path | None = None) -> WrittenJudgements:
    known = judgements.where(judgements.known)
    queries, unknown = len(np.unique(known.query_id)), judgements.number(UNKNOWN)
    return WrittenJudgements(path, to, len(known), queries, known.number(RANKER), unknown, marks)


def _lines(known: Judgements, texts: Mapping[str, str] | None, rating: str) -> _Lines:
    ids = known.query_id.astype(np.str_).tolist()
    if texts is not None:
        lacking = sorted(set(ids) - set(texts))
        if lacking:
            raise DataError(
                f"the query texts lack {count(len(lacking), 'query', 'queries')} of the log: {some(lacking)}."
            )
        used = {one: texts[one] for one in dict.fromkeys(ids)}
        first: dict[str, str] = {}
        for one, text in used.items():
            if first.setdefault(text, one) != one:
                raise DataError(f"queries {first[text]} and {one} have the same text, {text!r}; a tool would mix them.")
        ids = [used[one] for one in ids]
    values = known.grade.tolist() if rating == "grade" else [f"{one:.4f}" for one in known.relevance]
    found = _Lines(ids, known.doc_id.astype(np.str_).tolist(), [str(one) for one in values])
    for what, words in (("query", found.query), ("document id", found.doc)):
        if not all(words):
            raise DataError(f"a {what} is empty; tools refuse such a judgement.")
    return found


def _described(known: Judgements, rating: str) -> str:
    """What the ratings are, for the people who use them."""
    scale = "probability of a click if examined" if rating == "relevance" else f"grades from {known.thresholds}"
    text = f"From clicks, corrected for position; {scale}."
    filled = known.number(RANKER)
    return text + (
        f" {filled:,} of {len(known):,} ratings were never shown and filled in by a ranker." if filled else ""
    )


# -- formats -------------------------------------------------------------------------------------------------------


def _workbench(lines: _Lines, name: str, description: str) -> str:
    for what, text in (("name", name), ("description", description)):
        if not text or len(text) > _LONGEST or _FORBIDDEN.search(text):
            raise UsageError(
                "the Workbench takes a {} of 1 to {:,} characters without quotes, backslashes, < and >; not {!r}.",
                what,
                _LONGEST,
                text[:80],
            )
    ratings: dict[str, list[dict[str, str]]] = {}
    for query, doc, rating in zip(lines.query, lines.doc, lines.rating, strict=True):
        ratings.setdefault(query, []).append({"docId": doc, "rating": rating})
    content: dict[str, Any] = {"name": name, "description": description, "type": "IMPORT_JUDGMENT"}
    content["judgmentRatings"] = [{"query": query, "ratings": found} for query, found in ratings.items()]
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _quepid(lines: _Lines, name: str, description: str) -> str:
    del name, description
    for what, words in (("query", lines.query), ("document id", lines.doc)):
        bad = next((one for one in words if re.search(r"[\r\n]", one)), None)
        if bad is not None:
            raise DataError(f"the {what} {bad!r} has a line break, and Quepid reads line by line.")
    return _csv(("query", "docid", "rating"), zip(lines.query, lines.doc, lines.rating, strict=True))


def _trec(lines: _Lines, name: str, description: str) -> str:
    del name, description
    for what, words in (("query_id", lines.query), ("doc_id", lines.doc)):
        bad = next((one for one in words if re.search(r"\s", one)), None)
        if bad is not None:
            raise DataError(
                f"the {what} {bad!r} cannot stand in qrels, whose columns are separated by spaces; write another "
                "format, or give it an id without spaces."
            )
    rows = zip(lines.query, lines.doc, lines.rating, strict=True)
    return "".join(f"{query} 0 {doc} {rating}\n" for query, doc, rating in rows)


_TEXT: Mapping[str, Callable[[_Lines, str, str], str]] = {"workbench": _workbench, "quepid": _quepid, "trec": _trec}
FORMATS = (*_TEXT, "parquet")


def _save_parquet(judgements: Judgements, path: Path) -> None:
    import pyarrow.parquet as pq

    described = {"confidence": judgements.confidence, "thresholds": list(judgements.thresholds)}
    table = judgements.as_table().replace_schema_metadata({"cldrank-judgements": json.dumps(described)})
    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def _save_marks(known: Judgements, target: Path, to: str) -> Path | None:
    """Which judgements a ranker filled in, in a file beside one that cannot say; an older such file goes."""
    marks = Path(f"{target}.filled.csv")
    filled = known.where(known.source != CLICKS)
    if to == "workbench" or not len(filled):
        if marks.is_file():
            marks.unlink()
        return None
    rows = zip(filled.query_id.tolist(), filled.doc_id.tolist(), strict=True)
    save_text(marks, _csv(("query_id", "doc_id"), rows))
    return marks


def _csv(header: tuple[str, ...], rows: Any) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
