"""`cldrank distil`, and the options of training that distilled and other trees share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.models.pairs import Slopes
from cldrank.models.trees.tree_fit import ScoreLoss

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")
SMALL = ("--rounds", "20", "--learning-rate", "0.3", "--column-share", "1")


@pytest.fixture
def teacher(run: Run) -> str:
    done = run("train", "cld", *FROM, "--hold-out", "0.3", "-o", "teacher")
    assert done.code == 0, done.err
    return "teacher"


class TestDistil:
    def test_the_trees_say_how_faithful_they_are(self, run: Run, teacher: str) -> None:
        done = run("distil", teacher, "-f", "train.parquet", *SMALL, "-o", "trees")
        assert done.code == 0, done.err
        assert "fidelity on 6 queries held out: rank correlation 0.9" in done.out
        assert "saved in trees" in done.out
        ranker, data = cr.load_ranker("trees"), cr.load("train.parquet")
        assert ranker.provenance.command == (
            "cldrank distil teacher --features train.parquet --rounds 20 --learning-rate 0.3 "
            "--column-share 1 --out trees"
        )
        assert ranker.provenance.held_out == 0.3
        np.testing.assert_array_equal(ranker.saw(data.query_ids), cr.load_ranker(teacher).saw(data.query_ids))

    @pytest.mark.parametrize(
        ("typed", "message"),
        [
            (["teacher", *FROM[:2], "-o", "teacher/trees"], "lies in the folder of the ranker"),
            (["teacher", *FROM[:2], "--into", "linear", "-o", "t"], "--into must be 'trees', not linear."),
            (["teacher", *FROM[:2], "--rounds", "0", "-o", "t"], "--rounds must be a whole number of at least 1 "),
            (["nowhere", *FROM[:2], "-o", "t"], "nowhere: no such file or folder"),
        ],
    )
    @pytest.mark.usefixtures("teacher")
    def test_what_cannot_be_is_refused(self, run: Run, typed: list[str], message: str) -> None:
        done = run("distil", *typed)
        assert done.code == 2
        assert message in done.err
        assert not Path("t").exists()

    def test_stopped_it_leaves_what_was_there(self, run: Run, teacher: str, monkeypatch: pytest.MonkeyPatch) -> None:
        call = ("distil", teacher, "-f", "train.parquet", *SMALL, "-o", "trees")
        assert run(*call).code == 0
        before, rounds, at = Path("trees/ranker.json").read_bytes(), iter(range(7)), ScoreLoss.at

        def stopped(loss: ScoreLoss, scores: Any) -> Slopes:
            if next(rounds) == 6:
                raise KeyboardInterrupt
            return at(loss, scores)._replace(held_loss=None)

        monkeypatch.setattr(ScoreLoss, "at", stopped)
        assert run(*call).code == 130
        assert Path("trees/ranker.json").read_bytes() == before
        assert len(cr.load_ranker("trees.interrupted").trees) == 5  # type: ignore[attr-defined]


class TestTraining:
    def test_rules_for_features_are_options(self, run: Run) -> None:
        call = ("train", "cld-pair", "--model", "trees", *FROM, "--rounds", "20", "--min-weight", "1", "-o", "r")
        done = run(*call, "--increasing", "f1,f2")
        assert done.code == 0, done.err
        scores = cr.load_ranker("r").predict(np.column_stack([np.linspace(-2, 2, 50), np.zeros((50, 3))]))
        assert (np.diff(scores) >= 0).all()
        assert scores[0] < scores[-1]
        assert "--increasing names 'f9', and there is no such feature" in run(*call, "--increasing", "f9").err

    def test_weights_of_queries_come_from_a_file(self, run: Run) -> None:
        Path("weights.csv").write_text("query_id,weight\n3,5\n4,0.5\n")
        assert run("train", "ips", "--model", "linear", *FROM, "--query-weight", "weights.csv", "-o", "r").code == 0
        data = cr.load("train.parquet")
        given = data.weighted({3: 5.0, 4: 0.5}), cr.ClickTable.read("cells.parquet", data), cr.Propensities.power(1, 5)
        expected = cr.IPS(model=cr.Linear()).fit(*given).predict(data)
        np.testing.assert_array_equal(cr.load_ranker("r").predict(data), expected)
        Path("weights.csv").write_text("query_id,weight\n999,5\n")
        done = run("train", "ips", *FROM, "--query-weight", "weights.csv", "-o", "other")
        assert done.code == 1
        assert "query 999, which the data does not have" in " ".join(done.err.split())
