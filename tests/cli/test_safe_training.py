"""`cldrank train --safe`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.safety import Safe

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")
MARGIN = ("--safe", "--safe-margin", "0.2")


RHO = cr.Propensities.power(1, 5)


class TestTraining:
    def test_is_that_of_python(self, run: Run, data: cr.RankingDataset, clicks: cr.ClickTable) -> None:
        done = run("train", "ips", *FROM, *MARGIN, "-o", "ranker")
        assert done.code == 0, done.err
        expected = Safe(cr.IPS(), margin=0.2).fit(data, clicks, RHO)
        ranker = cr.load_ranker("ranker")
        np.testing.assert_array_equal(ranker.predict(data), expected.predict(data))
        assert ranker.provenance.safety == expected.safety_
        assert str(expected.safety_) in " ".join(done.out.split())
        assert "saved in ranker" in done.out
        assert "--safe --safe-margin 0.2" in ranker.provenance.command
        assert "## Safety" in Path("ranker/README.md").read_text()

    def test_queries_held_out_stay_out_of_everything(self, run: Run, data: Any, clicks: Any) -> None:
        done = run("train", "ips", *FROM, *MARGIN, "--hold-out", "0.25", "-o", "ranker")
        assert done.code == 0, done.err
        held = cr.data.held_out(data.query_ids, 0.25)
        ranker = cr.load_ranker("ranker")
        np.testing.assert_array_equal(ranker.saw(data.query_ids), ~held)
        expected = Safe(cr.IPS(), margin=0.2).fit(data[~held], clicks[~held], RHO)
        np.testing.assert_array_equal(ranker.predict(data), expected.predict(data))
        assert f"{held.sum()} of 60 queries are held out; " in done.out

    def test_what_is_not_safe_is_not_saved(self, run: Run, clicks: cr.ClickTable) -> None:
        """The exit code lets a pipeline keep production."""
        few = cr.ClickTable(
            clicks.candidates, clicks.row, clicks.position, 0 * clicks.row + 1, (clicks.clicks > 15).astype(np.int64)
        )
        few.save("cells.parquet")
        done = run("train", "ips", *FROM, "--safe", "--safe-margin", "0", "-o", "ranker")
        assert done.code == 1
        said = " ".join(done.err.split())
        assert "Keep production; more clicks, production's score as a feature (--production-feature)" in said
        assert not Path("ranker").exists()


class TestRefused:
    @pytest.mark.parametrize(
        ("message", "call"),
        [
            ("--safe-margin is for --safe", ("ips", *FROM, "--safe-margin", "0.1")),
            ("--safe-margin must be", ("ips", *FROM, "--safe", "--safe-margin=1")),
            ("oracle learns from labels, not from clicks; leave --safe out", ("oracle", *FROM[:2], "--safe")),
            ("naive needs the propensities of positions to judge by held-out clicks", ("naive", *FROM[:4], "--safe")),
        ],
    )
    def test_options(self, run: Run, message: str, call: tuple[str, ...]) -> None:
        done = run("train", *call, "-o", "ranker")
        assert (done.code, message in " ".join(done.err.split())) == (2, True), done.err
        assert not Path("ranker").exists()
