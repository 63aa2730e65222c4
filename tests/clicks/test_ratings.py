from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cldrank as cr
from cldrank.clicks.ratings import Ratings
from cldrank.errors import DataError, FormatError, UsageError


@pytest.fixture
def data() -> cr.RankingDataset:
    return cr.RankingDataset.from_arrays(np.zeros((4, 1)), ["a", "a", "b", "b"], doc_ids=[1, 2, 1, 7])


def frame(*rows: tuple[Any, ...], names: str = "query_id doc_id rating rater") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=names.split()[: len(rows[0])])


RATED = frame(("a", 1, 3.0), ("b", 7, 0.5), ("a", 2, 1.0))


@pytest.mark.parametrize("form", ["frame", "csv", "parquet", "quepid", "qrels"])
def test_every_form_says_the_same(data: cr.RankingDataset, form: str, tmp_path: Path) -> None:
    source: Any = RATED
    if form == "csv":
        source = tmp_path / "r.csv"
        RATED.to_csv(source, index=False)
    elif form == "parquet":
        source = tmp_path / "r.parquet"
        RATED.to_parquet(source)
    elif form == "quepid":
        source = tmp_path / "quepid.csv"
        RATED.set_axis(["query", "docid", "rating"], axis=1).to_csv(source, index=False)
    elif form == "qrels":
        source = tmp_path / "judged.qrels"
        source.write_text("a 0 1 3\n\nb 0 7 0.5\na 0 2 1\n")
    ratings = cr.load_ratings(source, data)
    np.testing.assert_array_equal(ratings.machine, [3, 1, np.nan, 0.5])
    assert np.isnan(ratings.people).all()
    assert (ratings.account.rows, dict(ratings.account.set_aside)) == (3, {})


def test_columns_of_other_names(data: cr.RankingDataset) -> None:
    named = RATED.rename(columns={"rating": "grade"})
    assert cr.load_ratings(named, data, columns={"rating": "grade"}).machine[0] == 3
    with pytest.raises(FormatError, match="rating"):
        cr.load_ratings(named, data)


def test_raters_of_a_kind_are_averaged_and_kinds_are_kept_apart(data: cr.RankingDataset) -> None:
    rows = frame(
        ("a", 1, 2, "anna"), ("a", 1, 4, "ben"), ("a", 1, 0, "model"), ("a", 2, 1, "anna"), ("b", 1, 3, "model")
    )
    ratings = cr.load_ratings(rows, data, people=("anna", "ben"))
    np.testing.assert_array_equal(ratings.people, [3, 1, np.nan, np.nan])
    np.testing.assert_array_equal(ratings.machine, [0, np.nan, 3, np.nan])
    assert ratings.account.raters == ("anna", "ben", "model")


def test_what_is_set_aside_is_counted_by_its_reason(data: cr.RankingDataset) -> None:
    rows = frame(("a", 1, 3), ("a", 1, 3), ("z", 1, 3), ("b", 2, 3), ("b", 7, 1), ("a", 2, None))
    ratings = cr.load_ratings(rows, data)
    assert ratings.account.set_aside == {
        "without a number": 1,
        "of unknown queries": 1,
        "of documents that are no candidates": 1,
        "repeated": 1,
    }
    assert "6 ratings were read, 2 of them of candidates" in str(ratings.account)


@pytest.mark.parametrize(
    ("rows", "options", "names"),
    [
        ([("a", 1, 3, "model"), ("a", 1, 2, "model")], {}, "model"),  # contradicts itself
        ([("a", 1, 3), ("a", 2, 3)], {}, "3"),  # a scale of one value
        ([("a", 1, 3, "anna"), ("a", 2, 1, "model"), ("b", 1, 2, "model")], {"people": ("anna",)}, "people"),
        ([("x", 1, 3), ("y", 2, 1)], {}, "unknown queries"),
        ([("a", 1, 3, "model"), ("a", 2, 1, "model")], {"people": ("anna",)}, "anna"),
        ([("a", 1, 3, "model"), ("a", 2, 1, "model")], {"people": "model"}, "model"),
        ([("a", 1, np.inf), ("a", 2, 1)], {}, "infinite"),
    ],
)
def test_what_says_nothing_or_contradicts_is_refused(
    data: cr.RankingDataset, rows: list[Any], options: dict[str, Any], names: str
) -> None:
    with pytest.raises((DataError, FormatError, UsageError), match=names):
        cr.load_ratings(frame(*rows), data, **options)


def test_a_bad_line_of_qrels_is_named(data: cr.RankingDataset, tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("a 0 1 3\na 0 2\n")
    with pytest.raises(FormatError, match="a 0 2"):
        cr.load_ratings(path, data)
    with pytest.raises(UsageError, match="columns"):
        cr.load_ratings(path, data, columns={"rating": "grade"})
    with pytest.raises(UsageError, match="missing"):
        cr.load_ratings(tmp_path / "missing.csv", data)


def test_a_rating_in_words_is_named_with_its_line(data: cr.RankingDataset, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text('query_id,doc_id,rating,why\na,1,3,"two\nlines"\na,2,,\n\nb,1,good,\n')
    with pytest.raises(FormatError, match="'good'.*or leave it empty") as refused:
        cr.load_ratings(path, data)
    assert (refused.value.path, refused.value.line) == (str(path), 6)
    assert "columns" not in str(refused.value)
    with pytest.raises(FormatError, match="rating"):
        cr.load_ratings(frame(("a", 1, "good"), ("a", 2, "bad")), data)


def test_ratings_stay_beside_clicks(data: cr.RankingDataset) -> None:
    shown = {"position": [1, 2, 1, 0], "impressions": [5, 5, 5, 0], "clicks": [1, 0, 1, 0]}
    clicks = cr.ClickTable.from_arrays(data, **shown).rated(RATED)
    second = clicks[[1]]
    assert second.ratings is not None
    np.testing.assert_array_equal(second.ratings.machine, [np.nan, 0.5])
    assert clicks.first(1).ratings is clicks.ratings
    assert clicks.rated(None).ratings is None
    with pytest.raises(UsageError, match="ratings"):
        clicks.merge(clicks.rated(None))
    with pytest.raises(DataError, match="2"):
        clicks.rated(Ratings(np.zeros(2), np.zeros(2)))


def test_cells_on_disk_hold_no_ratings(data: cr.RankingDataset, tmp_path: Path) -> None:
    shown = {"position": [1, 2, 1, 0], "impressions": [5, 5, 5, 0], "clicks": [1, 0, 1, 0]}
    with pytest.raises(UsageError, match="ratings"):
        cr.ClickTable.from_arrays(data, **shown).rated(RATED).save(tmp_path / "cells.parquet")
