"""Forty cases for some readers, and nightly for all; `python benchmarks/reliability.py` tries 100,000."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from letor_reference import read
from readers import READERS
from run import HERE
from sklearn.datasets import load_svmlight_file

import cldrank as cr

CASES = 40
QUICK = ("letor", "features", "log", "cells", "propensities", "scores", "toml")
_RARELY_ACCEPTED = ("checkpoint",)  # a digest protects it


_OTHERS = [pytest.param((name,), marks=pytest.mark.slow, id=name) for name in sorted({*READERS} - {*QUICK})]


@pytest.mark.parametrize("names", [pytest.param(QUICK, id="quick"), *_OTHERS])
def test_readers_refuse_what_they_cannot_read_and_read_the_rest_as_it_is(names: Sequence[str]) -> None:
    call = [sys.executable, str(HERE / "run.py"), *names, "--cases", str(CASES)]
    ran = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.stdout, ran.stderr[-2000:])  # a crash, or no end, ends the process
    outcomes = {outcome["reader"]: outcome for outcome in map(json.loads, ran.stdout.splitlines())}
    assert [*outcomes] == [*names]
    for name, outcome in outcomes.items():
        assert outcome["failures"] == [], name
        assert outcome["refused"] > CASES / 10, name  # else the mutations would be too mild
        assert outcome["accepted"] > 0 or name in _RARELY_ACCEPTED, name  # else too coarse


def test_the_independent_reader_agrees_with_a_third_one(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [
        f"{random.integers(5)} qid:{row // 7} "
        + " ".join(
            f"{name}:{random.normal():.6g}" for name in sorted(random.choice(np.arange(1, 30), 9, replace=False))
        )
        for row in range(200)
    ]
    path = tmp_path / "train.txt"
    path.write_text("\n".join(rows) + "\n")
    table, labels, queries = read(path.read_bytes())
    theirs, their_labels, their_queries = load_svmlight_file(str(path), query_id=True, zero_based=False)
    np.testing.assert_array_equal(table, theirs.toarray().astype(np.float32))
    np.testing.assert_array_equal(labels, their_labels)
    assert [int(name) for name in queries] == their_queries.tolist()
    np.testing.assert_array_equal(cr.load(path, cache=False).features, table)
