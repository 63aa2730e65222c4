"""`cldrank train` and `cldrank score` on Spark."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from worlds import World

from cldrank import CLD, IPS, cli
from cldrank.rankers import load_ranker

pytestmark = pytest.mark.usefixtures("session")

Run = Callable[..., Any]


class Done(NamedTuple):
    """What a command did."""

    exit_code: int
    stdout: str
    output: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Call the command line, as `main` would."""

    def call(*words: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["cldrank", *map(str, words)])
        capfd.readouterr()
        code: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        captured = capfd.readouterr()
        return Done(code if isinstance(code, int) else 0, captured.out, captured.out + captured.err)

    return call


@pytest.fixture
def cells(here: World, tmp_path: Path) -> Path:
    """The clicks as a file of cells."""
    path = tmp_path / "cells.parquet"
    here.clicks.save(path)
    return path


def test_a_ranker_is_trained_where_the_features_are(run: Run, here: World, cells: Path, tmp_path: Path) -> None:
    done = run(
        *("train", "cld", "--features", here.path, "--clicks", cells, "--propensity", "power:1.0"),
        *("--engine", "spark", "--out", tmp_path / "ranker", "--json"),
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["status"] == "converged"
    expected = CLD().fit(here.data, here.clicks, here.propensities).ranker_
    found = load_ranker(tmp_path / "ranker")
    np.testing.assert_allclose(found.predict(here.data), expected.predict(here.data), rtol=1e-7, atol=1e-9)
    card = (tmp_path / "ranker" / "README.md").read_text()
    assert "--engine spark" in card


def test_scores_are_a_folder_of_parquet_files(run: Run, here: World, tmp_path: Path) -> None:
    ranker = IPS().fit(here.data, here.clicks, here.propensities).ranker_
    ranker.save(tmp_path / "ranker")
    done = run("score", tmp_path / "ranker", "--features", here.path, "--engine", "spark", "--out", tmp_path / "scores")
    assert done.exit_code == 0, done.output
    found = pq.read_table(tmp_path / "scores").to_pandas().set_index(["query_id", "doc_id"])["score"]
    assert len(found) == here.data.n_rows
    data = here.data
    for row in (0, 100, 700):
        key = (str(data.row_queries[row]), str(data.doc_ids[row]))  # type: ignore[index]
        assert found[key] == pytest.approx(float(ranker.predict(data)[row]), rel=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--master", "local[1]"], "--master says where Spark runs; say --engine spark, too"),
        (["--engine", "flink"], "engine"),
        (["--engine", "spark", "--safe"], "--safe judges blends by features on this machine"),
        (["--engine", "spark", "--missing", "0"], "--missing is for files that are read here, not by Spark"),
        (["--engine", "spark", "--column", "query_id=nowhere"], "there is no column 'nowhere'"),
        (["--engine", "spark", "--model", "mlp"], "ips has no use for --engine; leave it out"),
    ],
)
def test_what_cannot_be_is_said(
    words: list[str], message: str, run: Run, here: World, cells: Path, tmp_path: Path
) -> None:
    base: list[str | Path] = ["train", "ips", "--features", here.path, "--clicks", cells, "--propensity", "power:1.0"]
    done = run(*base, "--out", tmp_path / "ranker", *words)
    assert done.exit_code in (1, 2)
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_files_that_are_not_there_are_named(run: Run, cells: Path, tmp_path: Path) -> None:
    base: list[str | Path] = [
        "train",
        "ips",
        "--features",
        tmp_path / "nowhere.parquet",
        "--clicks",
        cells,
        "--propensity",
        "power:1.0",
    ]
    done = run(*base, "--engine", "spark", "--out", tmp_path / "ranker")
    assert done.exit_code != 0
    assert "nowhere.parquet" in done.output
    assert "Traceback" not in done.output


def test_files_that_are_not_parquet_are_named(run: Run, cells: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 qid:1 1:0.5\n")
    words = ["train", "ips", "--features", tmp_path / "train.txt", "--clicks", cells, "--propensity", "power:1.0"]
    done = run(*words, "--engine", "spark", "--out", tmp_path / "ranker")
    assert done.exit_code != 0
    assert "expected Parquet files that Spark can read" in " ".join(done.output.split())


def test_scores_replace_a_folder_but_are_no_csv_file(run: Run, here: World, tmp_path: Path) -> None:
    IPS().fit(here.data, here.clicks, here.propensities).ranker_.save(tmp_path / "ranker")
    words = ["score", tmp_path / "ranker", "--features", here.path, "--engine", "spark", "--top", "2"]
    for _ in range(2):
        assert run(*words, "--out", tmp_path / "scores").exit_code == 0
    assert pq.read_table(tmp_path / "scores").num_rows == 2 * here.data.n_queries
    done = run(*words, "--out", tmp_path / "scores.csv")
    assert done.exit_code == 2
    assert "scores are a folder of Parquet files" in " ".join(done.output.split())
    assert run(*words, "--device", "cpu", "--out", tmp_path / "scores").exit_code == 2
