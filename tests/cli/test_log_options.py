"""The options that say how a log is read: the same wherever a command takes a log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr

Run = Callable[..., Any]
SAID = ("session_id=list", "query_id=search", "doc_id=item", "position=rank", "clicked=hit")


@pytest.fixture
def log(folder: Path) -> Path:
    """The clicks of the scene as a log of other names that counts from 0, and what a log without queries needs."""
    random = np.random.default_rng(1)
    pages, searches = np.repeat(np.arange(400), 5), np.repeat(np.arange(400) % 60, 5)
    columns = {
        "list": pages,
        "search": searches,
        "item": np.tile(np.arange(1, 6), 400),
        "rank": np.tile(np.arange(5), 400),
        "hit": np.where(random.random(2000) < 0.3, "Y", "N"),
    }
    pq.write_table(pa.table(columns), folder / "log.parquet")
    data = cr.load(folder / "train.parquet")
    cr.RankingDataset.from_arrays(data.features[:8], ["home page"] * 8).save(folder / "one.parquet")
    return folder / "log.parquet"


def options(name: str) -> list[str]:
    return [part for said in SAID for part in (name, said)]


def test_train_learns_from_a_log_with_other_names(run: Run, log: Path, folder: Path) -> None:
    table = pq.read_table(log)
    rank = pa.array(np.asarray(table["rank"]) + 1)
    pq.write_table(table.set_column(3, "rank", rank), "from-one.parquet")
    ran = run("train", "naive", "-f", "train.parquet", "-c", "from-one.parquet", *options("--log-column"), "-o", "a")
    assert ran.code == 0, ran.err
    start = ("train", "naive", "-f", "train.parquet", "-c", log, *options("--log-column"), "-o", "x")
    assert "--first-position 0 of `cldrank clicks aggregate`" in run(*start).err
    aggregated = run(
        *("clicks", "aggregate", log, "-f", "train.parquet", "-o", "log-cells.parquet"),
        *(*options("--log-column"), "--first-position", "0"),
    )
    assert aggregated.code == 0, aggregated.err
    assert run("train", "naive", "-f", "train.parquet", "-c", "log-cells.parquet", "-o", "b").code == 0
    data = cr.load(folder / "train.parquet")
    one, two = (cr.load_ranker(folder / name).predict(data) for name in ("a", "b"))
    assert np.array_equal(one, two)


def test_a_log_without_queries(run: Run, log: Path) -> None:
    said = [*options("--log-column"), "--first-position", "0", "--one-query"]
    said = [part for part in said if part != "query_id=search"]
    said.pop(said.index("doc_id=item") - 1)  # the option of what was taken out
    ran = run("clicks", "aggregate", log, "-f", "one.parquet", *said, "-o", "one-cells.parquet")
    assert ran.code == 0, ran.err
    assert run("train", "naive", "-f", "one.parquet", "-c", "one-cells.parquet", "-o", "c").code == 0
    ran = run("clicks", "aggregate", log, "-f", "train.parquet", *said, "-o", "c.parquet")
    assert ran.code == 2
    assert "--one-query treats all pages as answers to one query, but the dataset has 60 queries" in ran.err
