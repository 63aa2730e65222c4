"""From cells with segments to a ranker and its verdict, at the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.propensity import Propensities, SegmentPropensities

Run = Callable[..., Any]
CURVES = SegmentPropensities.of({"phone": Propensities.power(1.2, 5), "desktop": Propensities.power(0.5, 5)})


@pytest.fixture
def clicks(folder: Path) -> cr.ClickTable:
    """The cells of the scene, those of odd queries as of phones, in split.parquet; the curves in rho.json."""
    table = cr.ClickTable.read(folder / "cells.parquet", cr.load(folder / "train.parquet"))
    query = table.candidates.row_queries[table.row]
    split = cr.ClickTable(
        table.candidates, table.row, table.position, table.impressions, table.clicks,
        segment=query % 2, segment_names=("desktop", "phone"),
    )  # fmt: skip
    split.save(folder / "split.parquet")
    CURVES.save(folder / "rho.json")
    return split


@pytest.mark.parametrize("curve", ["rho.json", "phone=power:1.2,desktop=power:0.5"])
def test_the_same_ranker_as_from_python(run: Run, folder: Path, clicks: cr.ClickTable, curve: str) -> None:
    ran = run("train", "cld", "-f", "train.parquet", "-c", "split.parquet", "-p", curve, "-o", "ranker")
    assert ran.code == 0
    data = cr.load(folder / "train.parquet")
    expected = cr.CLD().fit(data, clicks, CURVES).predict(data)
    np.testing.assert_array_equal(cr.load_ranker("ranker").predict(data), expected)


@pytest.mark.filterwarnings("always")  # of the queries that the ranker was trained on
def test_a_verdict(run: Run, clicks: cr.ClickTable) -> None:
    given = ("-f", "train.parquet", "-c", "split.parquet", "-p", "rho.json")
    assert run("train", "cld", *given, "-o", "ranker", "--hold-out", "0.4").code == 0
    ran = run("compare", "ranker", "production", *given, "--json")
    assert "segment phone, power law, eta 1.2" in ran.out
    assert {"DCG@5", "Clicks@5"} <= set(ran.json["measures"])
