"""Loading a WEB10K-shaped text file, against scikit-learn, XGBoost and the bare bytes, all in one run.

    python benchmarks/load.py [--megabytes 200]

Prints one JSON line. `speedup` is scikit-learn's time over ours (goal: 15); `peak_over_array` is the growth of resident
memory at its peak over the size of the resulting array (goal: 2), measured in a fresh process that has loaded one small
file before, so that neither imports nor the compiled parser count; `cached_over_page_cache` is the time to load from
the cache and touch every number, over the time to read the same bytes from a file that is in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GOALS = {"speedup": 15.0, "peak_over_array": 2.0}


def write_sample(path: Path, megabytes: int) -> None:
    """Rows as WEB10K spells them: 136 features, many zeros and whole numbers, others with six decimals."""
    rng = np.random.default_rng(0)
    distinct = []
    for row in range(5000):
        kind = rng.random(136)
        values = np.where(kind < 0.35, 0, np.where(kind < 0.6, rng.integers(1, 300, 136), rng.lognormal(1, 2, 136)))
        words = " ".join(f"{j}:{v:g}" if v == int(v) else f"{j}:{v:.6f}" for j, v in enumerate(values, start=1))
        distinct.append((row % 5, words))
    written, row = 0, 0
    with path.open("w") as file:
        while written < megabytes * 1_000_000:
            label, words = distinct[row % len(distinct)]
            written += file.write(f"{label} qid:{row // 120 + 1} {words} \n")
            row += 1


def timed(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The best time of several, and the result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        del result
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def peak_over_array(path: Path, small: Path) -> float:
    """Growth of resident memory at its peak while loading, over the bytes of the features, in a separate process."""
    script = f"""
import pathlib
from cldrank.data.letor import read_letor
def resident(what):  # not getrusage: its peak is inherited from the parent process
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) * 1024
read_letor([pathlib.Path({str(small)!r})])
before = resident("VmRSS")
data = read_letor([pathlib.Path({str(path)!r})])
print((resident("VmHWM") - before) / data.features.nbytes)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(found.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CLDRANK_CACHE"] = str(Path(folder) / "cache")
        path, small = Path(folder) / "web10k-shaped.txt", Path(folder) / "small.txt"
        write_sample(path, arguments.megabytes)
        write_sample(small, 1)
        print(json.dumps(measure(path, small)))


def measure(path: Path, small: Path) -> dict[str, Any]:
    from sklearn.datasets import load_svmlight_file

    from cldrank.data.letor import read_letor
    from cldrank.data.loading import load

    cold, _ = timed(lambda: read_letor([small]))  # compiles the parser, or loads it compiled
    bytes_alone, _ = timed(path.read_bytes, repeats=3)
    ours, data = timed(lambda: read_letor([path]), repeats=3)
    size = data.features.nbytes
    load(path)
    cached, _ = timed(lambda: float(load(path).features.sum()), repeats=3)
    raw = path.with_suffix(".raw")
    data.features.tofile(raw)
    page_cache, _ = timed(lambda: float(np.fromfile(raw, dtype=np.float32).sum()), repeats=3)
    xgboost_time = xgboost_seconds(path)
    reference, (matrix, *_) = timed(lambda: load_svmlight_file(str(path), query_id=True, dtype=np.float32))
    assert matrix.shape == data.features.shape
    np.testing.assert_array_equal(matrix[:2000].toarray(), data.features[:2000])
    memory = peak_over_array(path, small)
    return {
        "benchmark": "load",
        "megabytes": round(path.stat().st_size / 1e6),
        "rows": data.n_rows,
        "array_megabytes": round(size / 1e6),
        "seconds": {
            "scikit-learn": round(reference, 2),
            "xgboost": xgboost_time and round(xgboost_time, 3),
            "cldrank": round(ours, 3),
            "bytes alone": round(bytes_alone, 3),
            "cldrank, first small file": round(cold, 2),
            "cldrank, cached": round(cached, 4),
            "page cache": round(page_cache, 4),
        },
        "speedup": round(reference / ours, 1),
        "speedup_xgboost": xgboost_time and round(reference / xgboost_time, 1),
        "speedup_bytes_alone": round(reference / bytes_alone, 1),
        "peak_over_array": round(memory, 2),
        "cached_over_page_cache": round(cached / page_cache, 2),
        "goals": GOALS,
        "met": reference / ours >= GOALS["speedup"] and memory < GOALS["peak_over_array"],
    }


def xgboost_seconds(path: Path) -> float | None:
    """XGBoost's own text reader, where it is installed and still has one."""
    try:
        import xgboost
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return timed(lambda: xgboost.DMatrix(f"{path}?format=libsvm"), repeats=2)[0]
        except (ValueError, xgboost.core.XGBoostError):
            return None


if __name__ == "__main__":
    main()
