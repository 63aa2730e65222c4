"""What a command says to somebody whose files do not fit: the way out must be one that this command has."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.models import model as models

Run = Callable[..., Any]


def write_log(path: Path, query: Callable[[int], object], doc: Callable[[int], object], pages: int = 60) -> Path:
    """A log of pages with three results each, the first of which is clicked."""
    rows = [(page, query(page), doc(k), k, int(k == 1)) for page in range(pages) for k in (1, 2, 3)]
    names = ("session_id", "query_id", "doc_id", "position", "clicked")
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), path)
    return path


@pytest.fixture
def log(folder: Path) -> Path:
    return write_log(folder / "log.parquet", lambda page: page, lambda k: k)


@pytest.fixture
def odd(folder: Path) -> Path:
    """The features with another name for queries."""
    table = pq.read_table(folder / "train.parquet")
    names = ["qid" if name == "query_id" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), folder / "odd.parquet")
    return folder / "odd.parquet"


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    "command",
    [
        ("clicks", "aggregate", "log.parquet", "--out", "new.parquet"),
        ("clicks", "audit", "log.parquet"),
        ("propensity", "estimate", "log.parquet", "--out", "rho.json"),
    ],
)
def test_columns_of_features_beside_a_log(run: Run, odd: Path, command: tuple[str, ...]) -> None:
    ran = run(*command, "--features", odd)
    assert (ran.code, "Name the right one with --column query_id=…." in ran.err) == (1, True), ran
    assert "no column" not in run(*command, "--features", odd, "--column", "query_id=qid").err


class TestRejects:
    def test_train_names_the_way_out(self, run: Run, folder: Path) -> None:
        log = write_log(folder / "log.parquet", lambda page: page if page % 7 else 1000 + page, lambda k: k)
        ran = run("train", "naive", "--features", "train.parquet", "--clicks", log, "--out", "ranker")
        assert ran.code == 1
        assert "15.0% of 180 rows had to be set aside, more than the 5.0% allowed" in ran.err
        assert "`cldrank clicks aggregate --max-rejected 0.15`" in ran.err
        said = ("--features", "train.parquet", "--max-rejected", "0.15", "--out", "new.parquet")
        assert run("clicks", "aggregate", log, *said).code == 0

    def test_ids_that_never_match_are_shown(self, run: Run, folder: Path) -> None:
        log = write_log(folder / "log.parquet", lambda page: page, lambda k: 100 + k)
        message = "of query 0, the log has 101, the features have 1."
        ran = run("clicks", "audit", log, "--features", "train.parquet")
        assert ran.code == 3
        assert message in ran.out
        ran = run("train", "naive", "--features", "train.parquet", "--clicks", log, "--out", "ranker")
        assert (ran.code, message in ran.err) == (1, True), ran
        ran = run("clicks", "aggregate", log, "--features", "train.parquet", "--out", "new.parquet")
        assert (ran.code, message in ran.err) == (1, True), ran


class TestNext:
    """A command that one is told to run next must run."""

    def test_the_estimate_leads_to_training_and_that_to_judging(self, run: Run, folder: Path, odd: Path) -> None:
        pages = [
            (page, page % 60, item, k, int(k == page % 3 + 1 and item % 2))
            for page in range(960)
            for k, item in ((k, (page // 60 + k - 1) % 8 + 1) for k in (1, 2, 3))
        ]
        columns = ("session_id", "query_id", "item", "position", "clicked")
        pq.write_table(pa.table(dict(zip(columns, zip(*pages, strict=True), strict=True))), folder / "log.parquet")
        said = ("log.parquet", "--log-column", "doc_id=item")
        ran = run("propensity", "estimate", *said, "--out", "rho.json")
        assert ran.code == 0, ran.err
        line = next(line for line in ran.err.splitlines() if line.startswith("next: "))
        assert "--hold-out 0.2 --out ranker/" in line
        train = shlex.split(line.removeprefix("next: cldrank "))
        train[train.index("FEATURES")] = odd.name
        ran = run(*train, "--column", "query_id=qid")
        assert ran.code == 0, ran.err
        command = next(line for line in ran.out.split("`") if line.startswith("cldrank compare"))
        for kept in ("--column query_id=qid", "--log-column doc_id=item"):
            assert kept in command
        judged = run(*shlex.split(command)[1:])
        assert "expected" not in judged.err
        assert "no column" not in judged.err
        assert judged.code in (0, 3, 4, 5), judged.err

    def test_without_torch_trees_are_offered(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(models, "find_spec", lambda name: None if name == "torch" else name)
        said = ("--features", "train.parquet", "--clicks", "cells.parquet", "--propensity", "power:1.0", "--out", "r")
        ran = run("train", "cld-pair", *said)
        offered = "needs torch: pip install 'cldrank[neural]', or choose boosted trees: --model trees."
        assert (ran.code, offered in ran.err) == (1, True), ran
        with pytest.raises(cr.errors.MissingDependencyError, match=r"boosted trees: `model='trees'`"):
            cr.CLDPair().check()
        monkeypatch.setattr(models, "find_spec", lambda _: None)
        offered = "pip install 'cldrank[neural]', or choose a linear model: --model linear."
        assert offered in run("train", "cld-pair", *said).err

    def test_production_is_spelled_out(self, run: Run) -> None:
        said = ("--features", "train.parquet", "--clicks", "cells.parquet", "--propensity", "power:1.0")
        ran = run("compare", "prod", "production", *said)
        assert (ran.code, "prod: no such file" in ran.err, "with --clicks, production" in ran.err) == (2, True, True)
