"""Fits to features that are mapped from a file and would not fit into memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.errors import CldrankWarning

WIDTH, QUERIES, CANDIDATES, SHOWN, GROUP = 256, 3200, 50, 5, 10_000

FITS = {
    "ips": cr.IPS(),
    "cld": cr.CLD(model=cr.Linear(max_steps=2)),
    "mlp": cr.IPS(model=cr.MLP(hidden=(4,), epochs=1), run=cr.Run(seed=1)),
    "trees": cr.IPS(model=cr.Trees(rounds=3), run=cr.Run(seed=1)),
}


def scores(name: str, data: cr.RankingDataset, clicks: cr.ClickTable) -> Any:
    """The scores of the first queries."""
    with warnings.catch_warnings(action="ignore", category=CldrankWarning):
        method: Any = FITS[name].fit(data, clicks, cr.Propensities.power(1.0, SHOWN))
    return method.predict(data[:20])


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No array fits into memory, and blocks are as much smaller than usual as the features are."""
    for module in ("linear.row_blocks", "network.features", "trees.boosting"):
        monkeypatch.setattr(f"cldrank.models.{module}.spare_memory", lambda: 0)
    for module in ("models.linear.row_blocks", "models.trees.boosting", "feature_blocks"):
        monkeypatch.setattr(f"cldrank.{module}._BLOCK_VALUES", 1 << 16)
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path))


@pytest.mark.parametrize("name", FITS)
@pytest.mark.usefixtures("little_memory")
def test_a_fit_copies_no_more_than_blocks_of_mapped_features(name: str, tmp_path: Path) -> None:
    features, query, document = random_features(1200, CANDIDATES, 64)
    np.save(tmp_path / "features.npy", features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    data = cr.RankingDataset.from_arrays(mapped, query)
    shown = document < SHOWN
    numbers = {"position": document + 1, "impressions": 20, "clicks": 3 * document}
    cells: dict[str, Any] = {kind: np.where(shown, number, 0) for kind, number in numbers.items()}
    clicks = cr.ClickTable.from_arrays(data, **cells)
    scores(name, data, clicks)  # imports, compilers
    tracemalloc.start()
    try:
        scores(name, data, clicks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.4 * features.nbytes


LIMITED = """
import json, resource, sys, threading, time
from pathlib import Path

folder, name, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
import cldrank as cr
from cldrank.data import new_array
from cldrank.models.linear import row_blocks
from test_larger_than_memory import scores

new_array._KEPT_IN_MEMORY = 0
row_blocks._KEPT_BYTES, row_blocks._WORTH_COMPILING = 0, 1 << 62  # sizes that decide alike for few rows and for many
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
given = scores(name, data, cr.ClickTable.read(folder / "cells.parquet", data)).tolist()
look()
print(json.dumps({"peak": peak >> 10, "scores": given}))
"""


def random_features(queries: int, candidates: int, width: int) -> tuple[Any, Any, Any]:
    """Features, and the query and document of each row."""
    features = np.random.default_rng(0).standard_normal((queries * candidates, width), dtype=np.float32)
    return features, np.repeat(np.arange(queries), candidates), np.tile(np.arange(candidates), queries)


def write(folder: Path, candidates: int) -> Path:
    """Random features, and cells of the first candidates of each query."""
    folder.mkdir()
    features, query, document = random_features(QUERIES, candidates, WIDTH)
    columns = {f"f{at}": features[:, at] for at in range(WIDTH)}
    pq.write_table(
        pa.table({"query_id": query, "doc_id": document, **columns}),
        folder / "data.parquet",
        row_group_size=GROUP,
        data_page_size=1 << 14,
        compression="none",
        use_dictionary=False,
    )
    shown = document < SHOWN
    rate = 1 / (1 + np.exp(-features[shown, 0])) / (document[shown] + 1)
    random = np.random.default_rng(1)
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


def run(folder: Path, name: str, limit: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "CLDRANK_CACHE": str(folder / f"cache-{name}"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", LIMITED, str(folder), name, str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_features_five_times_larger_than_what_is_left_of_the_memory(tmp_path: Path) -> None:
    small, large = write(tmp_path / "small", SHOWN + 1), write(tmp_path / "large", CANDIDATES)
    size = QUERIES * CANDIDATES * WIDTH * 4 >> 20
    data = cr.load(large / "data.parquet", cache=False)
    clicks = cr.ClickTable.read(large / "cells.parquet", data)
    for name in FITS:
        limit = json.loads(run(small, name).stdout)["peak"] + size // 5  # libraries and buffers, then what is left
        mapped = run(large, name, limit)
        assert mapped.returncode == 0, f"{name}: {mapped.stderr[-2000:]}"
        expected = scores(name, data, clicks)
        np.testing.assert_allclose(json.loads(mapped.stdout)["scores"], expected, rtol=1e-5, atol=1e-6, err_msg=name)
