from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cldrank as cr
from cldrank.online import explore, interleave, swap
from cldrank.online.interleaving import rows_best_first

Run = Callable[..., Any]
PAGES = ("--features", "train.parquet", "--out", "pages.parquet", "--depth", "4", "--pages", "3")


@pytest.fixture
def online(run: Run) -> Callable[..., pd.DataFrame]:
    """`cldrank online` on the candidates of the scene: the pages that it wrote."""

    def call(*arguments: str) -> pd.DataFrame:
        ran = run("online", *arguments, *PAGES)
        assert ran.code == 0, ran.err
        assert "180 pages of 60 queries" in ran.out
        return pd.read_parquet("pages.parquet")

    return call


def records(pages: pd.DataFrame, query: int, variant: int, *names: str) -> list[dict[str, Any]]:
    page = pages[(pages["query_id"] == query) & (pages["variant"] == variant)]
    rows: list[dict[str, Any]] = page[["doc_id", "position", *names]].astype(object).to_dict("records")
    return rows


def scores_of(data: cr.RankingDataset, feature: int, query: int) -> np.ndarray[Any, Any]:
    return data.features[8 * query : 8 * query + 8, feature].astype(np.float64)


def test_interleaved_pages_are_those_of_the_library(
    online: Callable[..., pd.DataFrame], data: cr.RankingDataset
) -> None:
    pages = online("interleave", "column:f1", "column:f2", "--experiment", "May")
    assert set(pages["experiment"]) == {"May"}
    for query, variant in ((0, 1), (7, 3), (59, 2)):
        new, old = (scores_of(data, feature, query) for feature in (0, 1))
        page = interleave(new, old, 4, ("May", str(query), variant), ids=range(1, 9))
        assert records(pages, query, variant, "team", "new_rank", "old_rank") == page.records()
    assert not online("interleave", "column:f1", "column:f2").equals(pages)


def test_rankers_of_other_features_and_files_of_scores(
    online: Callable[..., pd.DataFrame], run: Run, data: cr.RankingDataset
) -> None:
    cr.Oracle().fit(data.with_features([1, 0])).ranker_.save("small")
    assert run("score", "small", "-f", "train.parquet", "--column", "features=f2,f1", "-o", "small.csv").code == 0
    by_ranker = online("interleave", "small", "column:f3")
    assert online("interleave", "small.csv", "column:f3").equals(by_ranker)


def test_swapped_pages_say_their_display_probability(
    online: Callable[..., pd.DataFrame], data: cr.RankingDataset
) -> None:
    pages = online("swap", "column:f1", "--share", "0.8")
    for query in range(0, 60, 13):
        order = [row + 1 for row in rows_best_first(scores_of(data, 0, query)).tolist()][:4]
        page = swap(order, 0.8, ("experiment", str(query), 2))
        assert records(pages, query, 2, "propensity", "ranker_id") == page.records()


def test_trials_are_of_candidates_that_were_never_shown(
    online: Callable[..., pd.DataFrame], data: cr.RankingDataset, clicks: cr.ClickTable
) -> None:
    pages = online("explore", "column:f1", "--clicks", "cells.parquet", "--share", "1")
    was_shown = np.isin(np.arange(480), clicks.row)
    for query in range(0, 60, 13):
        order = [row + 1 for row in rows_best_first(scores_of(data, 0, query)).tolist()][:4]
        never = [row + 1 for row in range(8) if not was_shown[8 * query + row] and row + 1 not in order]
        page = explore(order, never, 1.0, ("experiment", str(query), 1))
        assert records(pages, query, 1, "propensity", "ranker_id") == page.records()
    assert pages["ranker_id"].str.startswith("trial").mean() > 0.8


def test_the_result_as_json(run: Run, folder: Path) -> None:
    ran = run("online", "swap", "column:f1", *PAGES, "--json")
    assert ran.json == {"path": "pages.parquet", "queries": 60, "pages": 180, "results": 720}


def test_the_log_of_a_simulated_experiment(run: Run, data: cr.RankingDataset) -> None:
    make = ("simulate", "train.parquet", "--production", "column:f2", "--new", "column:f1", "--sessions", "5e3")
    ran = run(*make, "--log", "log.parquet", "--out", "c.parquet", "--people", "90", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["truth"]["experiment"] == {
        "kind": "interleaving", "people": 90, "new": {"kind": "column", "source": "f1"}
    }  # fmt: skip
    log = pd.read_parquet("log.parquet")
    wins = log[log["clicked"]]["team"].value_counts()
    assert wins["new"] > wins["old"]
    assert log["user_id"].nunique() <= 90
    assert cr.ClickTable.read("c.parquet", data).impressions.sum() == len(log) == 25_000
    assert run(*make, "--log", "log.parquet", "--kind", "ab").code == 0
    assert set(pd.read_parquet("log.parquet")["arm"]) == {"new", "old"}


def test_what_is_refused(run: Run, folder: Path) -> None:
    simulated = ("simulate", "train.parquet", "--production", "column:f2")
    cases = [
        (("online", "interleave", "nowhere", "column:f1", *PAGES), "nowhere"),
        (("online", "interleave", "column:f9", "column:f1", *PAGES), "'f9'"),
        (("online", "swap", "column:f1", *PAGES, "--share", "2"), "--share"),
        (("online", "interleave", "column:f1", "column:f2", *PAGES, "--depth", "1001"), "--depth"),
        (("online", "swap", "column:f1", "-f", "train.parquet", "-o", "pages.csv"), "pages.csv"),
        (("online", "swap", "column:f1", "-f", "train.parquet", "-o", "train.parquet"), "input"),
        ((*simulated, "--new", "column:f1", "--out", "c.parquet"), "--log"),
        ((*simulated, "--people", "3", "--log", "log.parquet"), "--new"),
        ((*simulated, "--new", "column:f1", "--log", "l.parquet", "--policy", "neighbour-swaps"), "NeighbourSwaps"),
    ]
    for arguments, words in cases:
        ran = run(*arguments)
        assert (ran.code, words in ran.err, ran.err.count("\n") <= 2) == (2, True, True), (arguments, ran.err)
    assert not (folder / "pages.parquet").exists()
