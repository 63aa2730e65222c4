"""MSRD: 140 features from the published movies and judgements.

For each of eight fields (seven of a movie, and all of them together) the sixteen features of `matching`, then those
of `EXTRA`: the query's length, the movie's metadata, and how alike query and title are. Queries are drawn for training
(60 %), validation (20 %) and test (20 %) with a fixed seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cldrank._typing import FloatArray, IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError
from public_sets.lines import as_id, as_texts, finite_number, json_lines, text_lines
from public_sets.text_features import (
    MATCHING,
    FieldMatcher,
    FieldTerms,
    Vocabulary,
    row_products,
    terms,
    trigrams,
)

MOVIES, JUDGEMENTS = "movies-corpus.jsonl.gz", "movies-judgments.tsv.gz"
FIELDS = ("title", "overview", "tags", "genres", "director", "actors", "characters")
EXTRA = (
    "q_terms",
    "q_chars",
    "year",
    "year_match",
    "log_votes",
    "rating",
    "log_popularity",
    "log_budget",
    "title_exact",
    "title_in_query",
    "jaccard_title",
    "char3_cos_title",
)
NAMES = tuple(f"{field}.{feature}" for field in (*FIELDS, "whole") for feature in MATCHING) + EXTRA

_COLUMNS = ["query_id", "query", "doc_id", "grade"]
_NUMBERS = ("year", "votes", "rating", "popularity", "budget")
_QUERY = re.compile("qid:([0-9]{1,18})")
_SHARES = {"train": 0.6, "vali": 0.8, "test": 1.0}  # where each split ends among the queries in drawn order
_SEED = 2023
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True)
class MovieJudgements:
    """What people were shown and said: one row per query and movie, by query, in the order shown.

    query      (rows,) the place of the query in `query_ids`, which rise
    movie      (rows,) the place of the movie in the file of movies
    texts      one per query
    dropped    how many rows name a movie that the file does not hold
    """

    query: IntArray
    movie: IntArray
    label: IntArray
    query_ids: IntArray
    texts: list[str]
    dropped: int


def make_msrd(files: Sequence[Path], out: Path, progress: Callable[[str, int, int], None]) -> dict[str, int]:
    """Make train, vali and test from the published files; returns what was counted."""
    named = {path.name: path for path in files}
    steps = len(FIELDS) + 5  # movies, judgements, all fields together, metadata, writing
    progress("reading movies", 0, steps)
    movies = _read_movies(named[MOVIES])
    ids = np.array([movie["id"] for movie in movies], dtype=np.int64)
    progress("reading judgements", 1, steps)
    judged = _read_judgements(named[JUDGEMENTS], ids)
    features = np.empty((len(judged.query), len(NAMES)), dtype=np.float32)
    progress("computing features", 2, steps)
    end = 0
    for step, block in enumerate(_blocks(movies, judged), start=3):
        start, end = end, end + block.shape[1]
        features[:, start:end] = block
        progress("computing features", step, steps)
    progress("writing", steps - 1, steps)
    for split, rows in _splits(judged).items():
        RankingDataset.from_arrays(
            features[rows],
            judged.query_ids[judged.query[rows]],
            judged.label[rows],
            doc_ids=ids[judged.movie[rows]],
            feature_names=NAMES,
        ).save(out / f"{split}.parquet")
    progress("writing", steps, steps)
    return {"queries": len(judged.texts), "rows": len(features), "rows without a movie": judged.dropped}


# -- reading -----------------------------------------------------------------------------------------------------------


def _read_movies(path: Path) -> list[dict[str, Any]]:
    movies: dict[int, dict[str, Any]] = {}
    for number, movie in json_lines(path):
        try:
            one = _movie(movie)
        except ValueError as error:
            raise FormatError(f"not a movie of MSRD: its {error}.", path=path, line=number) from None
        if one["id"] in movies:
            raise FormatError(f"there is another movie with the id {one['id']}.", path=path, line=number)
        movies[one["id"]] = one
    return list(movies.values())


def _movie(given: dict[str, Any]) -> dict[str, Any]:
    """A movie with an id, texts and numbers; what it lacks is empty or 0."""
    found: dict[str, Any] = {"id": as_id(given.get("id"), "id")}
    found |= {name: " ".join(as_texts(given.get(name), name)) for name in FIELDS}
    return found | {name: finite_number(given.get(name) or 0, name) for name in _NUMBERS}


def _read_judgements(path: Path, movie_ids: IntArray) -> MovieJudgements:
    places = {str(movie): place for place, movie in enumerate(movie_ids.tolist())}
    texts: dict[int, str] = {}
    rows: list[tuple[int, int, int]] = []
    dropped = 0
    for number, line in text_lines(path):
        cells = line.split("\t")
        if number == 1:
            if cells != _COLUMNS:
                raise FormatError(f"the columns are {cells}, not {_COLUMNS}.", path=path, line=1)
            continue
        named = _QUERY.fullmatch(cells[0])
        if len(cells) != len(_COLUMNS) or not named:
            raise FormatError(f"{line!r} is not qid:NUMBER, a query, a movie and a grade.", path=path, line=number)
        if cells[3] not in ("0", "1"):
            raise FormatError(f"the grade is {cells[3]!r}, not 0 or 1.", path=path, line=number)
        if cells[2] not in places:
            dropped += 1
            continue
        query = int(named[1])
        texts.setdefault(query, cells[1])
        rows.append((query, places[cells[2]], int(cells[3])))
    if len(texts) < 5:
        raise DataError(f"{path}: {len(texts)} queries with a known movie are too few for train, vali and test.")
    query, movie, label = np.array(rows, dtype=np.int64).T
    order = np.argsort(query, kind="stable")
    query_ids, place = np.unique(query[order], return_inverse=True)
    return MovieJudgements(
        place, movie[order], label[order], query_ids, [texts[one] for one in query_ids.tolist()], dropped
    )


# -- features ----------------------------------------------------------------------------------------------------------


def _blocks(movies: list[dict[str, Any]], judged: MovieJudgements) -> Iterator[FloatArray]:
    """The features, block by block, in the order of their names."""
    asked = [terms(text) for text in judged.texts]
    vocabulary = Vocabulary(asked)
    by_width = _distinct_terms([vocabulary.numbers(dict.fromkeys(one)) for one in asked], judged)
    fields = []
    for field in FIELDS:
        fields.append(FieldTerms.of([terms(movie[field]) for movie in movies], vocabulary))
        block = _matching(fields[-1], by_width, judged)
        if field == "title":
            in_title = block[:, MATCHING.index("covered")]
        yield block
    yield _matching(FieldTerms.together(fields), by_width, judged)
    yield np.column_stack(
        [_of_query(asked, judged), _of_movie(movies, judged), _of_titles(movies, asked, in_title, judged)]
    )


def _distinct_terms(numbers: list[list[int]], judged: MovieJudgements) -> list[tuple[IntArray, IntArray]]:
    """Rows whose queries have equally many distinct terms, and the numbers of those terms, (rows, width)."""
    widths = np.array([len(one) for one in numbers])
    groups = []
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        table = np.array([numbers[query] for query in chosen], dtype=np.int64).reshape(len(chosen), width)
        rows = np.flatnonzero(widths[judged.query] == width)
        groups.append((rows, table[np.searchsorted(chosen, judged.query[rows])]))
    return groups


def _matching(field: FieldTerms, by_width: list[tuple[IntArray, IntArray]], judged: MovieJudgements) -> FloatArray:
    matcher = FieldMatcher(field)
    block = np.empty((len(judged.query), len(MATCHING)))
    for rows, numbers in by_width:
        block[rows] = matcher.features(judged.movie[rows], numbers)
    return block


def _of_query(asked: list[list[str]], judged: MovieJudgements) -> FloatArray:
    lengths = [(len(one), len(text)) for one, text in zip(asked, judged.texts, strict=True)]
    return np.array(lengths, dtype=np.float64)[judged.query]


def _of_movie(movies: list[dict[str, Any]], judged: MovieJudgements) -> FloatArray:
    def logarithm(movie: dict[str, Any], key: str) -> float:
        return math.log1p(max(movie[key], 0.0))

    years = [movie["year"] for movie in movies]
    named = [{int(year) for year in _YEAR.findall(text)} for text in judged.texts]
    matches = [years[movie] in named[query] for query, movie in zip(*_pairs(judged), strict=True)]
    table = [
        (
            logarithm(movie, "votes"),
            movie["rating"],
            logarithm(movie, "popularity"),
            logarithm(movie, "budget"),
        )
        for movie in movies
    ]
    return np.column_stack(
        [np.array(years, dtype=np.float64)[judged.movie], matches, np.array(table, dtype=np.float64)[judged.movie]]
    )


def _of_titles(
    movies: list[dict[str, Any]], asked: list[list[str]], in_title: FloatArray, judged: MovieJudgements
) -> FloatArray:
    """Title and query: the same, the one inside the other, terms in common, runs of three characters in common."""
    titles = [terms(movie["title"]) for movie in movies]
    title_text, query_text = [" ".join(one) for one in titles], [" ".join(one) for one in asked]
    pairs = list(zip(*_pairs(judged), strict=True))
    exact = [title_text[movie] == query_text[query] for query, movie in pairs]
    inside = [bool(titles[movie]) and f" {title_text[movie]} " in f" {query_text[query]} " for query, movie in pairs]
    either = _sizes(asked)[judged.query] + _sizes(titles)[judged.movie] - in_title
    return np.column_stack([exact, inside, in_title / np.maximum(either, 1), _trigram_cosine(movies, judged)])


def _sizes(texts: list[list[str]]) -> IntArray:
    return np.array([len(set(text)) for text in texts], dtype=np.int64)


def _trigram_cosine(movies: list[dict[str, Any]], judged: MovieJudgements) -> FloatArray:
    asked = [trigrams(text) for text in judged.texts]
    vocabulary = Vocabulary(asked)
    titles = [trigrams(movie["title"]) for movie in movies]
    common = row_products(vocabulary.counts(asked), vocabulary.counts(titles), (judged.query, judged.movie))
    return np.asarray(common / (_norms(titles)[judged.movie] * _norms(asked)[judged.query]))


def _norms(texts: list[list[str]]) -> FloatArray:
    """The Euclidean length of the counts of each text, 1 for one without any."""
    squares = Vocabulary(texts).counts(texts).power(2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(np.asarray(squares).ravel(), 1)))


def _pairs(judged: MovieJudgements) -> tuple[list[int], list[int]]:
    return judged.query.tolist(), judged.movie.tolist()


# -- splits ------------------------------------------------------------------------------------------------------------


def _splits(judged: MovieJudgements) -> dict[str, IntArray]:
    """The rows of each split; whole queries are drawn."""
    queries = len(judged.query_ids)
    drawn = np.random.RandomState(_SEED).permutation(queries)  # a stream of numbers that will never change
    ends = [0, *(int(share * queries) for share in _SHARES.values())]
    split_of = np.empty(queries, dtype=np.int64)
    for split, (start, end) in enumerate(zip(ends, ends[1:], strict=False)):
        split_of[drawn[start:end]] = split
    return {name: np.flatnonzero(split_of[judged.query] == split) for split, name in enumerate(_SHARES)}
