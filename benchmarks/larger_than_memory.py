"""Fits to a data set whose features are five times larger than the memory that the process may take.

    python benchmarks/larger_than_memory.py [--limit 1024] [--times 5] [--width 136] [--model linear|trees|mlp]

Writes a data set of random float32 features, which no codec makes smaller, and cells of clicks on it; then fits IPS and
(linear) CLD to the cells in a process of its own under `RLIMIT_DATA`, which counts all private writable memory (heap,
stacks and anonymous mappings, `VmData` in /proc), touched or not. Features that are mapped from a file do not count.
The same fits with the features in memory, in another process without a limit, say how far the rankers are apart.

Prints one JSON line a process and one that compares them: `times` is the decoded features over the limit, `peak_*` in
MiB (`data`: VmData, which is what the limit counts; `anonymous`: RssAnon; `resident`: VmHWM, with files), `difference`
the largest of coefficients (for other models: of the scores of the first queries), relative to the largest one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

CANDIDATES, SHOWN = 100, 10
COMPARED = 50  # queries whose scores are compared


def write(folder: Path, queries: int, width: int, parts: int, group: int, seed: int = 0) -> None:
    """Parquet parts with the features of queries of 100 candidates, and cells of clicks on ten of each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(seed)
    names = [f"f{index}" for index in range(1, width + 1)]
    cells: dict[str, list[Any]] = {name: [] for name in ("query_id", "doc_id", "position", "impressions", "clicks")}
    step = max(1, min(1 << 15, group) // CANDIDATES)
    for part in range(parts):
        first, last = part * queries // parts, (part + 1) * queries // parts
        writer: Any = None
        for start in range(first, last, step):
            query = np.repeat(np.arange(start, min(start + step, last)), CANDIDATES)
            features = random.standard_normal((len(query), width), dtype=np.float32)
            document = np.tile(np.arange(CANDIDATES), len(query) // CANDIDATES)
            table = pa.table({"query_id": query, "doc_id": document, **dict(zip(names, features.T, strict=True))})
            writer = writer or pq.ParquetWriter(
                folder / f"part-{part:03d}.parquet", table.schema, compression="none", use_dictionary=False
            )
            writer.write_table(table, row_group_size=group)
            shown = document < SHOWN
            worth = features[shown, :5].sum(axis=1)
            rate = 1 / (1 + np.exp(-worth)) / (document[shown] + 1)
            impressions = random.integers(50, 500, len(rate))
            found = query[shown], document[shown], document[shown] + 1, impressions, random.binomial(impressions, rate)
            for column, values in zip(cells.values(), found, strict=True):
                column.append(values)
        writer.close()
    pq.write_table(pa.table({name: np.concatenate(column) for name, column in cells.items()}), folder / "cells.pq")


def fit(folder: Path, model: str, limit: int | None, out: Path) -> dict[str, Any]:
    """Fit both methods, as the process that this runs in may."""
    if limit is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
    peak = Peak()
    import numpy as np

    import cldrank as cr

    started = {"start": peak.so_far()}
    begun = time.perf_counter()
    data = cr.load(str(folder / "part-*.parquet"), cache=False)
    started["load"] = peak.so_far()
    clicks = cr.ClickTable.read(folder / "cells.pq", data)
    seconds = {"load": time.perf_counter() - begun}
    started["clicks"] = peak.so_far()
    rho = cr.Propensities.power(1.0, SHOWN)
    chosen: Any = {"linear": cr.Linear(), "trees": cr.Trees(rounds=5), "mlp": cr.MLP(epochs=2)}[model]
    methods: list[Any] = [cr.IPS, cr.CLD] if model == "linear" else [cr.IPS]
    found: dict[str, Any] = {}
    for method in methods:
        begun = time.perf_counter()
        ranker = method(model=chosen, run=cr.Run(seed=1)).fit(data, clicks, rho).ranker_
        seconds[method.name] = time.perf_counter() - begun
        started[method.name] = peak.so_far()
        found[method.name] = ranker.coefficients if model == "linear" else ranker.predict(data[:COMPARED])
    np.savez(out, **found)
    return {
        "rows": data.n_rows,
        "features": data.n_features,
        "gib": round(data.features.nbytes / 2**30, 2),
        "limit_mib": limit,
        "times": None if limit is None else round(data.features.nbytes / (limit << 20), 2),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        **{f"peak_{kind}": size for kind, size in peak.so_far().items()},
        "peak_data_after": {name: sizes["data"] for name, sizes in started.items()},
    }


class Peak:
    """The most memory that this process has taken, watched by a thread."""

    def __init__(self) -> None:
        self._sizes = {"data": 0, "anonymous": 0}
        self._look()
        threading.Thread(target=self._watch, daemon=True).start()

    def so_far(self) -> dict[str, int]:
        """In MiB."""
        status = self._look()
        return {**{kind: size >> 10 for kind, size in self._sizes.items()}, "resident": status["VmHWM"] >> 10}

    def _look(self) -> dict[str, int]:
        lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
        status = {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}
        for kind, name in (("data", "VmData"), ("anonymous", "RssAnon")):
            self._sizes[kind] = max(self._sizes[kind], status[name])
        return status

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.01)


def in_process(*arguments: str) -> dict[str, Any]:
    """What a process of its own prints, as JSON."""
    own = {
        **os.environ,
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }  # others reserve 1 GiB at once, and the limit counts that
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False, env=own)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    """Both processes, and how far their rankers are apart."""
    queries = int(arguments.times * (arguments.limit << 20) / (4 * arguments.width * CANDIDATES)) + 1
    if not (folder / "cells.pq").exists():
        write(folder, queries, arguments.width, arguments.parts, arguments.group)
    given = ["--folder", str(folder), "--model", arguments.model]
    files = [folder / "mapped.npz", folder / "whole.npz"]
    mapped = in_process(*given, "--out", str(files[0]), "--limit", str(arguments.limit))
    print(json.dumps(mapped), flush=True)
    if arguments.alone:
        return
    print(json.dumps(in_process(*given, "--out", str(files[1]))), flush=True)
    import numpy as np

    one, two = (np.load(file) for file in files)
    apart = {name: float(np.abs(one[name] - two[name]).max() / np.abs(two[name]).max()) for name in one.files}
    print(json.dumps({"model": arguments.model, "times": mapped["times"], "difference": apart}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="MiB", default=None)
    parser.add_argument("--times", type=float, default=5.0)
    parser.add_argument("--width", type=int, default=136)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--group", type=int, default=1 << 17, help="rows of a row group")
    parser.add_argument("--model", choices=("linear", "trees", "mlp"), default="linear")
    parser.add_argument("--folder", type=Path, help="where the data are, or are written; by default temporary")
    parser.add_argument("--alone", action="store_true", help="leave out the fit in memory")
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.out is not None:  # a process of its own
        print(json.dumps(fit(arguments.folder, arguments.model, arguments.limit, arguments.out)))
        return
    arguments.limit = arguments.limit or 1024
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        compare(arguments, arguments.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments, Path(folder))


if __name__ == "__main__":
    main()
