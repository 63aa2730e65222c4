"""A small experiment: its data, its file, and a module of rankers of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cldrank.runs import Finished

MODULE = '''
"""Rankers of a user's own."""

import os
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
data = "small"
seeds = 2
measures = ["nDCG@3", "AP"]

[production]
fraction = 0.2

[simulation]
sessions = 2000
depth = 3
eta = 1.0

[methods]
Naive = {}
CLD = { gamma = 0.2 }
Oracle = { seed = 0 }
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


def make(folder: Path) -> None:
    """Put all of it into a folder."""
    (folder / "train.txt").write_text(letor(40, 0))
    (folder / "test.txt").write_text(letor(20, 1, first=1001))
    (folder / "small").mkdir(exist_ok=True)
    for name in ("train.txt", "test.txt"):
        (folder / "small" / name).unlink(missing_ok=True)
        (folder / "small" / name).symlink_to(folder.absolute() / name)
    (folder / "small.toml").write_text(EXPERIMENT)
    (folder / "own_rankers.py").write_text(MODULE)


class Here:
    """Stands in for `Processes`: does the tasks in this process, which need not start another and import everything."""

    def __init__(self, work: Callable[[Any], Any], *_: int) -> None:
        self.work = work

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, tasks: Sequence[Any], **_: object) -> Iterator[Finished[Any, Any]]:
        for task in tasks:
            yield Finished(task, self.work(task))
