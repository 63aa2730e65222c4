from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

MODULE = '''
"""Rankers of a user's own."""

import os
import pathlib
import time
import warnings

import numpy as np


class ByFirst:
    """Ranks by the first feature; says what it was given."""

    def __init__(self, sign=1.0):
        self.sign = sign

    def fit(self, dataset, clicks, propensities):
        self.seen = (dataset.n_rows, clicks.clicks.sum(), propensities.values.tolist())
        return self

    def predict(self, X):
        return self.sign * np.asarray(X)[:, 0]


class Slow(ByFirst):
    """Takes a while, and keeps a diary of its fits."""

    def __init__(self, seconds=0.3, seed=0):
        super().__init__()
        self.seconds, self.seed = seconds, seed

    def fit(self, dataset, clicks, propensities):
        time.sleep(self.seconds)
        with pathlib.Path("diary.txt").open("a") as diary:
            diary.write(f"{self.seed}\\n")
        return self


class Broken(ByFirst):
    def fit(self, dataset, clicks, propensities):
        raise RuntimeError("it does not work")


class Dying(ByFirst):
    def fit(self, dataset, clicks, propensities):
        os._exit(7)


class Warning_(ByFirst):
    def fit(self, dataset, clicks, propensities):
        warnings.warn("mind the step")
        warnings.warn("mind the step")
        return self


class Unfit:
    def fit(self, dataset, clicks, propensities):
        return self
'''

EXPERIMENT = """
title = "Small"
data = { train = "train.txt", test = "test.txt", name = "small" }
seeds = 2
measures = ["nDCG@3", "AP"]

[production]
fraction = 0.2

[simulation]
sessions = 2000
cutoff = 3
eta = 1.0

[methods]
Naive = { use = "cldrank:Naive" }
CLD = { gamma = 0.2 }
Oracle = { use = "cldrank:Oracle", seed = 0 }
"""


def letor(queries: int, seed: int, first: int = 1) -> str:
    random = np.random.default_rng(seed)
    rows = []
    for query in range(first, first + queries):
        features = random.random((8, 3))
        labels = np.clip((3 * features[:, 0] + features[:, 1] + random.normal(0, 0.8, 8)).astype(int), 0, 4)
        for label, values in zip(labels, features, strict=True):
            listed = " ".join(f"{place}:{value:.4f}" for place, value in enumerate(values, 1))
            rows.append(f"{label} qid:{query} {listed}")
    return "\n".join(rows) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, an experiment and a module of rankers; it is the current one."""
    (tmp_path / "train.txt").write_text(letor(40, 0))
    (tmp_path / "test.txt").write_text(letor(20, 1, first=1001))
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    (tmp_path / "own_rankers.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_rankers", raising=False)
    return tmp_path
