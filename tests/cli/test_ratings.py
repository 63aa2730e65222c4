"""`--ratings` beside the clicks: of verdicts, judgements and training, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cldrank as cr

pytestmark = pytest.mark.filterwarnings("always:.* does not say which queries its ranker was trained on")
Run = Callable[..., Any]
LOG = ["--features", "train.parquet", "--clicks", "cells.parquet", "--propensity", "power:1"]


@pytest.fixture
def rated(folder: Path) -> pd.DataFrame:
    """ratings.csv: what labels say, by a model and, of every second candidate, by anna; and scores of a bad ranker."""
    data = cr.load(folder / "train.parquet")
    ids = {
        "query_id": data.query_ids[data.row_queries],
        "doc_id": cr.ClickTable.read("cells.parquet", data).candidates.doc_ids,
    }
    rows = pd.DataFrame({**ids, "grade": data.labels, "rater": "model"})
    both = pd.concat([rows, rows.iloc[::2].assign(rater="anna")])
    both.to_csv(folder / "ratings.csv", index=False)
    np.savetxt(folder / "noise.txt", data.features[:, 2])
    return both


BESIDE = ["--ratings", "ratings.csv", "--rating-column", "rating=grade", "--person", "anna"]


def test_a_verdict_shows_first_how_good_raters_are(run: Run, rated: pd.DataFrame) -> None:
    ran = run("compare", "noise.txt", "production", *LOG, *BESIDE)
    assert ran.out.index("Machines rated 300 shown results and 180 never shown; they agree") < ran.out.index(
        "Estimates"
    )
    assert "People rated" in ran.out
    assert f"{len(rated):,} ratings were read" in ran.out
    told = run("evaluate", "noise.txt", *LOG, *BESIDE, "--json").json["ratings"]
    assert [each["raters"] for each in told["agreements"]] == ["people", "machines"]
    assert told["by_people"] > 0


def test_judgements_are_those_of_the_library(run: Run, folder: Path, rated: pd.DataFrame) -> None:
    told = run("judgements", "cells.parquet", *LOG[:2], *LOG[4:], *BESIDE, "-o", "out.parquet", "--json").json
    assert [each["used"] for each in told["ratings"]] == [True, True]
    data = cr.load(folder / "train.parquet")
    ratings = cr.load_ratings(rated, data, columns={"rating": "grade"}, people=("anna",))
    clicks = cr.ClickTable.read(folder / "cells.parquet", data)
    expected = cr.judge_documents(clicks.rated(ratings), cr.Propensities.power(1, 5))
    assert pd.read_parquet(folder / "out.parquet").relevance.to_numpy() == pytest.approx(
        expected.relevance, nan_ok=True
    )


def test_training_says_what_was_read(run: Run, rated: pd.DataFrame) -> None:
    del rated
    ran = run("train", "ips", *LOG, *BESIDE, "-o", "ranker")
    assert ran.code == 0
    assert "ratings were read" in ran.err


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("compare", "noise.txt", "production", *LOG, "--person", "anna"), "--ratings"),
        (("compare", "noise.txt", "noise.txt", *LOG[:2], "--ratings", "ratings.csv"), "--ratings"),
        (("compare", "noise.txt", "production", *LOG, "--ratings", "ratings.csv"), "--rating-column rating="),
        (("compare", "noise.txt", "production", *LOG, *BESIDE[:4], "--person", "ben"), "--person names 'ben'"),
        (("compare", "noise.txt", "production", *LOG, "--ratings", "none.csv"), "none.csv"),
    ],
)
def test_what_does_not_fit_is_refused(run: Run, rated: pd.DataFrame, words: tuple[str, ...], names: str) -> None:
    del rated
    ran = run(*words)
    assert ran.code == 2 or ran.code == 1
    assert names in " ".join(ran.err.split())
