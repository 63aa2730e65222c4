"""Rows of a table of results."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pyarrow as pa

from cldrank.experiment.results import SCHEMA

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def row(method: str, seed: int, value: float, **changes: Any) -> dict[str, Any]:
    failed = math.isnan(value)
    return {
        "experiment": "table1",
        "unit": f"{method}-{seed}-{changes.get('fold', '')}",
        "data": "msrd",
        "synthetic": False,
        "fold": "",
        "setting": "{}",
        "method": method,
        "seed": seed,
        "measure": "nDCG@3",
        "value": value,
        "status": "failed" if failed else "ok",
        "error": "it broke" if failed else "",
        "warnings": "[]",
        "seconds": 2.0,
        "configuration": json.dumps({"method": {"class": method.lower()}}),
        "data_fingerprint": "abc",
        "versions": "{}",
        "commit": "",
        "command": "",
        "finished": NOON,
        **changes,
    }


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def seeds(method: str, values: list[float], **changes: Any) -> list[dict[str, Any]]:
    return [row(method, seed, value, **changes) for seed, value in enumerate(values)]
