from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from scipy import stats

from cldrank.errors import DataError, UsageError
from cldrank.experiment.comparison import compare
from cldrank.experiment.results import SCHEMA


def seeds(method: str, values: list[float]) -> list[dict[str, Any]]:
    texts = {name: "" for name in SCHEMA.names if SCHEMA.field(name).type == pa.string()}
    known = {
        **texts, "experiment": "table1", "data": "msrd", "setting": "{}", "method": method, "measure": "AP",
        "status": "ok", "synthetic": False, "seconds": 1.0, "peak_mib": 1.0,
        "finished": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    }  # fmt: skip
    return [{**known, "seed": seed, "value": value} for seed, value in enumerate(values)]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def test_a_paired_comparison() -> None:
    first, second = [0.5, 0.6, 0.7, 0.65], [0.45, 0.5, 0.72, 0.6]
    rows = seeds("CLD", first) + seeds("IPS", second)
    (found,) = compare(table(rows), "cld", "IPS")
    test = stats.ttest_rel(first, second)
    interval = test.confidence_interval(0.9)
    assert found.p_value == pytest.approx(test.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    assert (found.wins, found.interval.n) == (3, 4)
    with pytest.raises(UsageError, match="no results of a method 'mine'; there are IPS, CLD"):
        compare(table(rows), "CLD", "mine")
    with pytest.raises(DataError, match="no two seeds of one setting in common"):
        compare(table(seeds("CLD", [0.1]) + seeds("IPS", [0.2])), "CLD", "IPS")


def test_a_comparison_without_variation() -> None:
    same = seeds("CLD", [0.5, 0.6]) + seeds("IPS", [0.5, 0.6])
    assert compare(table(same), "CLD", "IPS")[0].p_value == 1.0
