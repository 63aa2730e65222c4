"""MSRD from a few movies that were made up, and from the published files where they are at hand."""

from __future__ import annotations

import gzip
import json
import os
from math import log, log1p, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare import prepare
from public_sets.msrd import JUDGEMENTS, MOVIES, NAMES, make_msrd

import cldrank as cr
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError

FILMS: list[dict[str, Any]] = [
    {
        "id": "12",
        "title": "Heat",
        "overview": "Robbers and heat in the city.",
        "tags": ["heists", "city"],
        "genres": ["Crime"],
        "director": "Michael Mann",
        "actors": ["Al Pacino"],
        "characters": None,
        "year": 1995,
        "votes": 99,
        "rating": 8.2,
        "popularity": 30.5,
        "budget": 60_000_000,
    },
    {"id": "7", "title": "City of Gods", "overview": "", "tags": [], "year": None, "votes": None, "budget": -5},
]
QUERIES = ["Heat 1995", "city of god", "the heats", "?!", "heat", "gods"]
LINES = ["query_id\tquery\tdoc_id\tgrade"] + [
    f"qid:{10 - number}\t{text}\t{movie}\t{int(movie == 12)}"
    for number, text in enumerate(QUERIES)
    for movie in (7, 12)
]


def publish(folder: Path, films: list[dict[str, Any]] = FILMS, lines: list[str] = LINES) -> list[Path]:
    """The two files, in disorder as they might be given."""
    folder.mkdir(exist_ok=True)
    (folder / MOVIES).write_bytes(gzip.compress("\n".join(map(json.dumps, films)).encode()))
    (folder / JUDGEMENTS).write_bytes(gzip.compress("\n".join(lines).encode()))
    return [folder / JUDGEMENTS, folder / MOVIES]


def quiet(*_: object) -> None:
    pass


def made(folder: Path, **published: Any) -> RankingDataset:
    """All splits together, by query."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    make_msrd(publish(folder / "published", **published), out, quiet)
    return cr.load([out / f"{split}.parquet" for split in ("train", "vali", "test")])


def row(data: RankingDataset, query: int, movie: int) -> dict[str, float]:
    (place,) = np.flatnonzero((data.query_ids[data.row_queries] == query) & (data.doc_ids == movie))
    return dict(zip(data.feature_names, data.features[place].tolist(), strict=True))


def test_ids_labels_and_order_are_those_of_the_judgements(tmp_path: Path) -> None:
    data = made(tmp_path)
    assert data.feature_names == NAMES
    assert len(NAMES) == 140
    assert sorted(data.query_ids.tolist()) == [5, 6, 7, 8, 9, 10]
    assert data.doc_ids is not None
    assert data.labels is not None
    assert data.doc_ids.tolist() == [7, 12] * 6  # as shown
    assert data.labels.tolist() == [0, 1] * 6


def test_the_query_and_the_movie(tmp_path: Path) -> None:
    data = made(tmp_path)
    found = row(data, 10, 12)  # Heat 1995
    assert (found["q_terms"], found["q_chars"], found["year"], found["year_match"]) == (2, 9, 1995, 1)
    assert found["log_votes"] == np.float32(log1p(99))
    assert found["rating"] == np.float32(8.2)
    assert found["log_popularity"] == np.float32(log1p(30.5))
    assert found["log_budget"] == np.float32(log1p(60e6))
    found = row(data, 10, 7)
    assert {found[name] for name in ("year", "year_match", "log_votes", "rating", "log_budget")} == {0}


def test_the_title_and_the_query(tmp_path: Path) -> None:
    data = made(tmp_path)
    told = ("title_exact", "title_in_query", "jaccard_title")
    assert [row(data, 10, 12)[name] for name in told] == [0, 1, 0.5]
    assert [row(data, 6, 12)[name] for name in told] == [1, 1, 1]
    assert [row(data, 9, 7)[name] for name in told] == [1, 1, 1]  # City of Gods, but for the s of the plural
    assert [row(data, 8, 12)[name] for name in told] == [0, 1, 0.5]  # the heats
    assert [row(data, 5, 7)[name] for name in told] == [0, 0, np.float32(1 / 3)]
    assert [row(data, 7, 12)[name] for name in told] == [0, 0, 0]  # ?!
    # " heats " has " he", "hea", "eat", "ats", "ts ", and " the" before it "th", "the", "he ", "e h"; " heat " has four
    assert row(data, 8, 12)["char3_cos_title"] == pytest.approx(3 / sqrt(4 * 9))
    assert row(data, 6, 12)["char3_cos_title"] == 1
    assert row(data, 7, 12)["char3_cos_title"] == 0


def test_fields_and_all_of_them_together(tmp_path: Path) -> None:
    found = row(made(tmp_path), 10, 12)  # heat, 1995
    assert (found["title.covered"], found["title.covered_ratio"], found["title.length"]) == (1, 0.5, 1)
    assert (found["overview.length"], found["overview.tf_sum"]) == (6, 1)
    assert (found["tags.length"], found["characters.length"], found["characters.ntf_sum"]) == (2, 0, 0)
    assert found["whole.length"] == 1 + 6 + 2 + 1 + 2 + 2
    assert (found["whole.tf_sum"], found["whole.tf_max"]) == (2, 2)
    # of two movies one holds `heat`, none 1995; the average length is (14 + 3) / 2
    assert found["whole.idf_sum"] == pytest.approx(log(3 / 1.5))
    assert found["whole.bm25"] == pytest.approx(log(2) * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 14 / 8.5)))
    shares = 2.1 / 18, 0.1 / 18
    assert found["whole.lm_dir"] == pytest.approx(log((2 + 500 * shares[0]) / 514) + log(500 * shares[1] / 514))
    assert found["whole.lm_jm"] == pytest.approx(log(0.9 * 2 / 14 + 0.1 * shares[0]) + log(0.1 * shares[1]))


def test_queries_are_drawn_for_splits_with_a_fixed_seed(tmp_path: Path) -> None:
    lines = [LINES[0], *(f"qid:{query}\theat\t12\t0" for query in range(10))]
    counts = make_msrd(publish(tmp_path / "published", lines=lines), tmp_path, quiet)
    drawn = [cr.load(tmp_path / f"{split}.parquet").query_ids.tolist() for split in ("train", "vali", "test")]
    order = np.random.RandomState(2023).permutation(10).tolist()
    assert drawn == [sorted(order[:6]), sorted(order[6:8]), sorted(order[8:])]
    assert counts == {"queries": 10, "rows": 10, "rows without a movie": 0}


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({"lines": ["query\tgrade", *LINES[1:]]}, r"tsv\.gz:1: the columns are \['query', 'grade'\]"),
        ({"lines": [*LINES, "qid:3\tups\t12"]}, r"tsv\.gz:14: 'qid:3\\tups\\t12' is not qid:NUMBER"),
        ({"lines": [*LINES, "qid:3\tups\t12\t2"]}, r":14: the grade is '2', not 0 or 1"),
        (
            {"films": [*FILMS, {"title": "No id"}]},
            r"jsonl\.gz:3: not a movie of MSRD: its id is 'None', not a whole number",
        ),
        ({"lines": LINES[:5]}, "2 queries with a known movie are too few"),
    ],
)
def test_files_that_break_their_format(tmp_path: Path, published: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_msrd(publish(tmp_path / "published", **published), tmp_path, quiet)


@pytest.fixture
def published() -> Path:
    """The folder of published files; tests that need them are skipped where it is absent."""
    folder = Path(os.environ.get("CLDRANK_PUBLISHED", ""))
    if not (folder / "msrd" / MOVIES).is_file():
        pytest.skip(f"CLDRANK_PUBLISHED does not name a folder with msrd/{MOVIES}")
    return folder / "msrd"


@pytest.mark.data
def test_the_published_files_give_the_very_features_of_the_results(
    published: Path, real_data: Path, tmp_path: Path
) -> None:
    prepare("msrd", [published], tmp_path / "msrd")  # warns, and so fails, if a file is not the one on record
    for split, queries, rows in (("train", 9_767, 230_503), ("vali", 3_256, 76_965), ("test", 3_256, 76_913)):
        ours, theirs = (cr.load(folder / "msrd" / f"{split}.parquet", cache=False) for folder in (tmp_path, real_data))
        assert (ours.n_queries, ours.n_rows) == (queries, rows)
        np.testing.assert_array_max_ulp(ours.features, theirs.features, maxulp=1)  # equal where log rounds alike
        assert np.count_nonzero(ours.features != theirs.features) <= 10
        np.testing.assert_array_equal(ours.query_ids, theirs.query_ids)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
        np.testing.assert_array_equal(ours.doc_ids, theirs.doc_ids)
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        assert ours.feature_names == theirs.feature_names
