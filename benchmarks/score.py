"""Scoring files of candidates: pace against a bare read of the same file, and memory for a file eight times as long.

    python benchmarks/score.py [--megabytes 100] [--trees 100] [--device cuda]

Prints a JSON line for each kind of file and ranker: rows and megabytes (of the file) per second, the same for a bare
read in the same run (LETOR: lines parsed and dropped; Parquet: all columns decoded and dropped), `over_read` the time
of scoring over that of the read, and the resident memory at its peak for a file and for one eight times as long, each
in a fresh process (goal: `growth` at most 1.1; scattered queries take up to 256 MB more, with which they are sorted).

With --device, instead: a million rows in Parquet, scored by a network and by trees on that device and on the CPU in
turn; `over_cpu` is how many times as quick the device was, `equal` whether both wrote the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cldrank import scaling
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, TreeRanker

WIDTH, TIMES = 136, 8
NAMES = tuple(f"f{index}" for index in range(1, WIDTH + 1))


def sample(rows: int) -> np.ndarray:
    """Features as WEB10K has them: many zeros and whole numbers, heavy tails."""
    random = np.random.default_rng(0)
    kind = random.random((rows, WIDTH))
    values = np.where(
        kind < 0.6, random.integers(1, 300, (rows, WIDTH)), random.lognormal(1, 2, (rows, WIDTH)).round(6)
    )
    return np.where(kind < 0.35, 0, values).astype(np.float32)


def write_letor(path: Path, rows: int, *, scattered: bool) -> None:
    """Queries of 120 rows, or rows of all queries in turn."""
    words = [" ".join(f"{j}:{v:g}" for j, v in enumerate(one, start=1)) for one in sample(2000)]
    queries = max(rows // 120, 1)
    with path.open("w") as file:
        for row in range(rows):
            query = row % queries if scattered else row // 120
            file.write(f"{row % 5} qid:{query + 1} {words[row % 2000]} # docid = D{row}\n")


def write_parquet(path: Path, rows: int) -> None:
    """The same as columns, in row groups of a million rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features = sample(1 << 16)
    writer = None
    for start in range(0, rows, 1 << 20):
        count = min(1 << 20, rows - start)
        place = (start + np.arange(count)) % len(features)
        row = start + np.arange(count)
        columns = {"query_id": row // 120, "doc_id": [f"D{one}" for one in row]}
        table = pa.table({**columns, **{name: features[place, j] for j, name in enumerate(NAMES)}})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def rankers(trees: int) -> dict[str, Ranker]:
    """A linear ranker, the default network, and trees."""
    import xgboost

    from cldrank.models import MLP
    from cldrank.rankers.network_ranker import ranker_of

    features = sample(4000)
    parts: dict[str, Any] = {"feature_names": NAMES, "scaling": scaling.fit("log", features)}
    network = ranker_of(MLP().build(WIDTH, seed=0), **parts)
    assert isinstance(network, NetworkRanker)
    target = np.log1p(features[:, 0]) + np.sqrt(features[:, 1])
    matrix = xgboost.DMatrix(features)
    booster = xgboost.Booster({"objective": "rank:ndcg", "base_score": 0.0, "max_leaves": 31, "max_depth": 0}, [matrix])
    for number in range(trees):
        error = booster.predict(matrix, output_margin=True) - target
        booster.boost(matrix, iteration=number, grad=error, hess=np.ones(len(error)))
    return {
        "linear": LinearRanker(coefficients=np.linspace(-1, 1, WIDTH), **parts),
        "network": network,
        "trees": TreeRanker(content=bytes(booster.save_raw("json")), feature_names=NAMES),
    }


SCRIPT = """
import json, pathlib, sys, time
from cldrank import load_ranker, score
ranker, source, out = sys.argv[1:4]
begun = time.perf_counter()
done = score(load_ranker(ranker), source, out)
status = pathlib.Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps({"rows": done.rows, "seconds": done.seconds, "peak_mb": peak, "scattered": done.scattered}))
"""


def scored(ranker: Path, source: Path, out: Path) -> dict[str, Any]:
    """How long scoring took in a fresh process, and its memory."""
    command = [sys.executable, "-c", SCRIPT, str(ranker), str(source), str(out)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def bare_read(path: Path) -> float:
    """The seconds that it takes to read a file, and do nothing with it."""
    from cldrank.data.letor import letor_for_ranker

    begun = time.perf_counter()
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        for _ in pq.ParquetFile(path).iter_batches(batch_size=1 << 14):
            pass
    else:
        for _ in letor_for_ranker([path], NAMES).batches():
            pass
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100, help="of the shorter LETOR file")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--device", default=None)
    arguments = parser.parse_args()
    if arguments.device is not None:
        compare_devices(arguments.device, arguments.trees)
        return
    rows = arguments.megabytes * 1_000_000 // 900
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, ranker in rankers(arguments.trees).items():
            ranker.save(folder / kind)
        files: dict[str, Callable[[Path, int], None]] = {
            "letor.txt": lambda path, count: write_letor(path, count, scattered=False),
            "scattered.txt": lambda path, count: write_letor(path, count, scattered=True),
            "columns.parquet": write_parquet,
        }
        for file, write in files.items():
            small, large = folder / f"small-{file}", folder / f"large-{file}"
            write(small, rows)
            write(large, TIMES * rows)
            bare_read(small)  # compiles the parser
            for kind in ("linear", "network", "trees") if file != "scattered.txt" else ("linear",):
                scored(folder / kind, small, folder / "scores.parquet")
                print(json.dumps({"file": file, "ranker": kind, **measure(folder / kind, small, large)}), flush=True)
            large.unlink()


def compare_devices(device: str, trees: int) -> None:
    """Scoring on a device against the CPU, whole files in and out."""
    import pyarrow.parquet as pq

    from cldrank.scoring import score

    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "rows.parquet"
        write_parquet(source, 1_000_000)
        for kind in ("network", "trees"):
            ranker, seconds = rankers(trees)[kind], {}
            for place in (None, device, None, device):  # the second time counts
                done = score(ranker, source, source.with_name(f"{place}.parquet"), device=place)
                seconds[place] = done.seconds
            cpu, other = (pq.read_table(source.with_name(f"{place}.parquet")) for place in (None, device))
            line = {"ranker": kind, "device": device, "rows": len(cpu), "seconds": seconds[device]}
            print(json.dumps({**line, "over_cpu": seconds[None] / seconds[device], "equal": cpu.equals(other)}))


def measure(ranker: Path, small: Path, large: Path) -> dict[str, Any]:
    """The figures of one ranker on one kind of file."""
    out = ranker.with_name("scores.parquet")
    read = min(bare_read(large) for _ in range(2))
    few, many = scored(ranker, small, out), scored(ranker, large, out)
    megabytes = large.stat().st_size / 1e6
    return {
        "rows": many["rows"],
        "megabytes": round(megabytes),
        "rows_per_s": round(many["rows"] / many["seconds"]),
        "mb_per_s": round(megabytes / many["seconds"], 1),
        "read_rows_per_s": round(many["rows"] / read),
        "read_mb_per_s": round(megabytes / read, 1),
        "over_read": round(many["seconds"] / read, 2),
        "peak_mb": round(few["peak_mb"]),
        "peak_mb_8x": round(many["peak_mb"]),
        "growth": round(many["peak_mb"] / few["peak_mb"], 3),
    }


if __name__ == "__main__":
    main()
