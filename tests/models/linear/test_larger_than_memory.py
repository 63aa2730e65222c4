"""A linear fit under a limit of memory that the features alone would break five times over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.errors import ConvergenceWarning

WIDTH, CANDIDATES, SHOWN, GROUP = 256, 50, 5, 10_000

FIT = """
import json, resource, sys, threading, time
from pathlib import Path

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
import cldrank as cr
from cldrank.data import new_array
from cldrank.models.linear import rows

new_array._KEPT_IN_MEMORY = 0
rows._KEPT_BYTES, rows._WORTH_COMPILING = 0, 1 << 62  # sizes that decide alike for few rows and for many
peak = 0

def look():
    global peak
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = max(peak, next(int(line.split()[1]) for line in lines if line.startswith("VmData:")))

def watch():
    while True:
        look()
        time.sleep(0.002)

threading.Thread(target=watch, daemon=True).start()
data = cr.load(folder / "data.parquet")
clicks = cr.ClickTable.read(folder / "cells.parquet", data)
rho = cr.Propensities.power(1.0, 5)
methods = cr.IPS(), cr.CLD(model=cr.Linear(max_steps=2))
found = [method.fit(data, clicks, rho).ranker_.coefficients.tolist() for method in methods]
look()
print(json.dumps({"peak": peak >> 10, "found": found}))
"""


def write(folder: Path, rows: int) -> Path:
    """Random features, and cells of the first candidates of each query."""
    folder.mkdir()
    random = np.random.default_rng(0)
    features = random.standard_normal((rows, WIDTH), dtype=np.float32)
    query, document = np.arange(rows) // CANDIDATES, np.arange(rows) % CANDIDATES
    columns = {f"f{at}": features[:, at] for at in range(WIDTH)}
    table = pa.table({"query_id": query, "doc_id": document, **columns})
    pq.write_table(
        table,
        folder / "data.parquet",
        row_group_size=GROUP,
        data_page_size=1 << 14,
        compression="none",
        use_dictionary=False,
    )
    shown = document < SHOWN
    rate = 1 / (1 + np.exp(-features[shown, 0])) / (document[shown] + 1)
    impressions = random.integers(100, 1000, len(rate))
    cells = {
        "query_id": query[shown],
        "doc_id": document[shown],
        "position": document[shown] + 1,
        "impressions": impressions,
        "clicks": random.binomial(impressions, rate),
    }
    pq.write_table(pa.table(cells), folder / "cells.parquet")
    return folder


def run(folder: Path, limit: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "CLDRANK_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, "-c", FIT, str(folder), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_features_five_times_larger_than_what_is_left_of_the_memory(tmp_path: Path) -> None:
    small = json.loads(run(write(tmp_path / "small", 2 * GROUP)).stdout)["peak"]  # libraries and buffers
    folder, size = write(tmp_path / "large", 10 * GROUP), 10 * GROUP * WIDTH * 4 >> 20
    limit = small + size // 5
    mapped = run(folder, limit)
    assert mapped.returncode == 0, mapped.stderr[-2000:]
    assert json.loads(mapped.stdout)["peak"] <= limit
    data = cr.load(folder / "data.parquet", cache=False)
    clicks, rho = cr.ClickTable.read(folder / "cells.parquet", data), cr.Propensities.power(1.0, SHOWN)
    methods: list[Any] = [cr.IPS(), cr.CLD(model=cr.Linear(max_steps=2))]
    for method, found in zip(methods, json.loads(mapped.stdout)["found"], strict=True):
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            ranker: Any = method.fit(data, clicks, rho).ranker_
        np.testing.assert_allclose(found, ranker.coefficients, rtol=1e-8, atol=1e-10)
