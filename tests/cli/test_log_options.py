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
    """The clicks of the scene as a log of other names that counts from 0."""
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
