"""`cldrank train --hold-out`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.methods import methods

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")


def given(method: str) -> tuple[str, ...]:
    """What a method learns from."""
    kept = {"labels": 2, "clicks": 4}.get(methods()[method].needs, 6)
    return FROM[:kept]


class TestHoldingOut:
    """`--hold-out`: queries that are left to judge the ranker on."""

    @pytest.mark.parametrize("method", ["cld", "oracle"])
    def test_the_others_are_trained_on(
        self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable, method: str
    ) -> None:
        done = run("train", method, *given(method), "--hold-out", "0.2", "-o", "ranker")
        assert done.code == 0, done.err
        held = cr.data.held_out(data.query_ids, 0.2)
        assert f"{held.sum()} of 60 queries are held out; " in done.out
        needs = methods()[method].needs
        rho = cr.Propensities.power(1, 5) if needs == "propensities" else None
        table = None if needs == "labels" else clicks[~held]
        expected = methods()[method]().fit(data[~held], table, rho)
        ranker = cr.load_ranker("ranker")
        np.testing.assert_array_equal(ranker.predict(data), expected.predict(data))
        np.testing.assert_array_equal(ranker.saw(data.query_ids), ~held)
        assert ranker.provenance.held_out == 0.2
        card = Path("ranker/README.md").read_text()
        assert f"| queries trained on | {(~held).sum()} |" in card
        assert "| share of queries held out | 0.2 |" in card
        assert "--hold-out 0.2" in ranker.provenance.command

    def test_says_how_to_judge_the_ranker(self, run: Run) -> None:
        Path("cells.parquet").rename("my cells.parquet")
        said = run(
            "train", "ips", *FROM[:2], "-c", "my cells.parquet", "-p", "power:1.0", "--hold-out=.5", "-o", "r"
        ).out
        command = (
            "cldrank compare r production --features train.parquet --clicks 'my cells.parquet' --propensity power:1.0"
        )
        assert f"held out; judge the ranker on them with `{command}`\n" in said
        assert (
            "--propensity FILE`"
            in run("train", "naive", *FROM[:2], "-c", "my cells.parquet", "--hold-out", "0.5", "-o", "r").out
        )
        labels = run("train", "oracle", *FROM[:2], "--hold-out", "0.5", "-o", "r").out
        assert "are held out; the ranker remembers which it was trained on\n" in labels

    def test_both_sides_need_something(self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable) -> None:
        for method, share, message in (
            ("oracle", "1e-9", "--hold-out 1e-09 holds out no query"),
            ("oracle", "0.999999", "--hold-out 0.999999 leaves no query"),
            ("cld", "0.999999", "leaves no query with impressions"),
        ):
            done = run("train", method, *given(method), "--hold-out", share, "-o", "ranker")
            assert (done.code, message in " ".join(done.err.split())) == (2, True), done
        held = cr.data.held_out(data.query_ids, 0.5)[data.row_queries[clicks.row]]
        for kept, message in ((held, "leaves no query"), (~held, "holds out no query")):
            clicks.where(kept).save("cells.parquet")
            done = run("train", "cld", *FROM, "--hold-out", "0.5", "-o", "ranker")
            assert (done.code, message in " ".join(done.err.split())) == (2, True), done
        assert not Path("ranker").exists()
