"""Forty cases for each reader; `python benchmarks/reliability.py` tries 100,000."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from letor_reference import read
from readers import READERS
from run import HERE
from sklearn.datasets import load_svmlight_file

import cldrank as cr

CASES = 250
_RARELY_ACCEPTED = ("checkpoint",)  # a digest protects it


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_reader_refuses_what_it_cannot_read_and_reads_the_rest_as_it_is(name: str) -> None:
    cases = max(40, CASES * READERS[name].share // sum(reader.share for reader in READERS.values()))
    ran = subprocess.run(
        [sys.executable, str(HERE / "run.py"), name, "--cases", str(cases)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]  # a crash, or no end, ends the process
    found = json.loads(ran.stdout)
    assert found["failures"] == []
    assert found["refused"] > cases / 10  # else the mutations would be too mild
    assert found["accepted"] > 0 or name in _RARELY_ACCEPTED  # else too coarse


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
