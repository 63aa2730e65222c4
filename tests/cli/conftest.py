from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_experiment

import cldrank as cr
from cldrank import cli


@dataclass
class Ran:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> Run:
    """Call the command line in the folder of the scene, as `main` would."""
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["cldrank", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        else:
            code = 0
        captured = capsys.readouterr()
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.parquet, 60 labelled queries, and cells.parquet, clicks on the five shown of eight."""
    random = np.random.default_rng(0)
    features = random.normal(size=(480, 4))
    labels = (features[:, 0] + 0.5 * features[:, 1] + 0.5 * random.normal(size=480) > 0.7).astype(int)
    path = tmp_path_factory.mktemp("scene")
    data = cr.RankingDataset.from_arrays(features, np.arange(480) // 8, labels)
    data.save(path / "train.parquet")
    order = np.argsort(-(features[:, 0] + random.normal(size=480)).reshape(60, 8), axis=1)[:, :5]
    rows = (np.arange(60)[:, None] * 8 + order).ravel()
    position = np.tile(np.arange(1, 6), 60)
    chance = np.where(labels[rows] > 0, 0.9, 0.1) / position
    clicks = cr.ClickTable.from_arrays(
        data, row=rows, position=position, impressions=np.full(300, 40), clicks=random.binomial(40, chance)
    )
    clicks.save(path / "cells.parquet")
    return path


@pytest.fixture
def folder(_scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own copy of the scene, and the place where commands run."""
    for source in _scene.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


@pytest.fixture
def data(folder: Path) -> cr.RankingDataset:
    """The candidates of the scene."""
    return cr.load(folder / "train.parquet")


@pytest.fixture
def clicks(folder: Path, data: cr.RankingDataset) -> cr.ClickTable:
    """The cells of the scene."""
    return cr.ClickTable.read(folder / "cells.parquet", data)


@pytest.fixture
def letor(folder: Path) -> Path:
    """Features as text: train.txt, 30 queries of 8 candidates, of whose three features the last is constant."""
    rng = np.random.default_rng(0)
    rows = [
        f"{int(x > 0.5) + int(x > 0.8)} qid:{q} 1:{x:.4f} 2:{y:.4f} 3:1"
        for q in range(30)
        for x, y in rng.random((8, 2))
    ]
    path = folder / "train.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of experiments are computed in this process."""
    monkeypatch.setattr("cldrank.experiment.units.Processes", small_experiment.Here)
