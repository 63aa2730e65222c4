"""`cldrank train` and `cldrank score` on Spark."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from worlds import World

from cldrank import CLD, IPS, cli
from cldrank.rankers import load_ranker

pytestmark = pytest.mark.usefixtures("session")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command line, as `main` would: its exit code, standard output, and all that it prints."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cldrank", *map(str, words)])
        capfd.readouterr()
        code: Any = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capfd.readouterr()
        return code, captured.out, " ".join((captured.out + captured.err).split())

    return call


@pytest.fixture
def cells(here: World, tmp_path: Path) -> Path:
    """The clicks as a file of cells."""
    path = tmp_path / "cells.parquet"
    here.clicks.save(path)
    return path


def test_a_ranker_is_trained_where_the_features_are(run: Run, here: World, cells: Path, tmp_path: Path) -> None:
    code, out, printed = run(
        *("train", "cld", "--features", here.path, "--clicks", cells, "--propensity", "power:1.0"),
        *("--engine", "spark", "--out", tmp_path / "ranker", "--json"),
    )
    assert code == 0, printed
    assert json.loads(out)["status"] == "converged"
    expected = CLD().fit(here.data, here.clicks, here.propensities).ranker_
    ranker = load_ranker(tmp_path / "ranker")
    np.testing.assert_allclose(ranker.predict(here.data), expected.predict(here.data), rtol=1e-7, atol=1e-9)
    assert "--engine spark" in (tmp_path / "ranker" / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--master", "local[1]"], "--engine spark"),
        (["--engine", "spark", "--safe"], "--safe"),
        (["--engine", "spark", "--missing", "0"], "--missing"),
        (["--engine", "spark", "--column", "query_id=nowhere"], "'nowhere'"),
        (["--engine", "spark", "--model", "mlp"], "--engine"),
        (["--engine", "spark", "--features", "nowhere.parquet"], "nowhere.parquet"),
        (["--engine", "spark", "--features", "train.txt"], "Parquet"),
    ],
)
def test_what_cannot_be_is_refused(
    words: list[str], named: str, run: Run, here: World, cells: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("1 qid:1 1:0.5\n")
    features = [] if "--features" in words else ["--features", here.path]
    base = ["train", "ips", *features, "--clicks", cells, "--propensity", "power:1.0", "--out", tmp_path / "ranker"]
    code, _, printed = run(*base, *words)
    assert code in (1, 2)
    assert named in printed
    assert "Traceback" not in printed


def test_scores_are_a_folder_of_parquet_files(run: Run, here: World, tmp_path: Path) -> None:
    ranker = IPS().fit(here.data, here.clicks, here.propensities).ranker_
    ranker.save(tmp_path / "ranker")
    words = ["score", tmp_path / "ranker", "--features", here.path, "--engine", "spark"]
    for more in ((), ("--top", "2")):  # which replace the others
        code, _, printed = run(*words, *more, "--out", tmp_path / "scores")
        assert code == 0, printed
        scores = pq.read_table(tmp_path / "scores").to_pandas().set_index(["query_id", "doc_id"])["score"]
        assert len(scores) == (2 * here.data.n_queries if more else here.data.n_rows)
        for row in () if more else (0, 100, 700):
            key = (str(here.data.row_queries[row]), str(here.data.doc_ids[row]))  # type: ignore[index]
            assert scores[key] == pytest.approx(float(ranker.predict(here.data)[row]), rel=1e-6)
    assert run(*words, "--out", tmp_path / "scores.csv")[0] == 2
