"""Microseconds a page by team draft, and requests a second of `/interleave` beside `/rank`.

    python benchmarks/online.py [--pages 50000] [--seconds 2] [--rounds 3]

Prints JSON lines. Pages of ten results from two orders of 100 candidates: drawn one by one from lists of ids, from
arrays of scores, and many at once; `ratio` is the time of a plain loop over the same lists, which keeps no ranks and
draws its coins from `random`, over the own time. All take turns; a number is the median over the rounds. Requests
need `wrk`, and are left out without it: bodies are arrays of 100 candidates with 136 features, linear rankers.
`ratio` is the processor time of a request to `/rank` over that of a request to the path (1: as cheap as to rank).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import serve

from cldrank.online import interleave
from cldrank.online.interleaving import Drafts

CANDIDATES, DEPTH, QUERIES = 100, 10, 200


def plain_loop(new: Sequence[int], old: Sequence[int], depth: int) -> tuple[list[int], list[str]]:
    """A page as one would write it down."""
    page: list[int] = []
    teams: list[str] = []
    while len(page) < depth:
        sides = [("new", new), ("old", old)]
        random.shuffle(sides)
        for team, order in sides:
            page.append(next(result for result in order if result not in page))
            teams.append(team)
    return page[:depth], teams[:depth]


def pages(count: int, rounds: int) -> None:
    draws = np.random.default_rng(0)
    new, old = draws.random((2, QUERIES, CANDIDATES))
    old += new  # as similar as two rankers are
    lists = [[np.argsort(-scores).tolist() for scores in ranker] for ranker in (new, old)]
    ids = list(range(CANDIDATES))
    queries = draws.integers(0, QUERIES, count)
    keys = [(f"person {page}", int(query), "May") for page, query in enumerate(queries)]
    drafts = Drafts(new.ravel(), old.ravel(), np.arange(QUERIES + 1) * CANDIDATES, DEPTH)
    asked = list(zip(queries.tolist(), keys, strict=True))
    ways: dict[str, Callable[[], Any]] = {
        "plain loop": lambda: [plain_loop(lists[0][query], lists[1][query], DEPTH) for query, _ in asked],
        "lists of ids": lambda: [interleave(lists[0][query], lists[1][query], DEPTH, key) for query, key in asked],
        "scores": lambda: [interleave(new[query], old[query], DEPTH, key, ids=ids) for query, key in asked],
        "many at once": lambda: drafts.pages(queries, keys),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, draw in ways.items():
            start = time.process_time()
            draw()
            times[name].append(1e6 * (time.process_time() - start) / count)
    for name, own in times.items():
        line = {"benchmark": "interleave", "way": name, "pages": count, "us": round(statistics.median(own), 2)}
        print(json.dumps({**line, "ratio": serve.ratio(times["plain loop"], own)}), flush=True)


def requests(seconds: float, rounds: int) -> None:
    body = json.loads(serve.body("arrays", CANDIDATES))
    del body["top"]
    bodies = {
        "/rank": {**body, "top": DEPTH},
        "/interleave": {**body, "depth": DEPTH, "key": "person 1"},
        "/swap": {**body, "depth": DEPTH, "key": "person 1", "share": 0.5},
    }
    headers = {"Content-Type": "application/json"}
    results: dict[str, list[dict[str, Any]]] = {path: [] for path in bodies}
    with serve.prepared() as folder:
        command = ("-m", "cldrank", "serve", folder / "linear", "--against", folder / "other", "--port", "0")
        with serve.server(*command) as (address, pid):
            for number in range(rounds + 1):
                for path, content in bodies.items():
                    file = folder / f"{Path(path).name}.lua"
                    script = serve.write_script(file, [("POST", path, headers, json.dumps(content).encode())])
                    before = serve.processor_seconds(pid)
                    result = serve.wrk(script, address, seconds if number else 1, 4)
                    result["cpu_ms"] = 1000 * (serve.processor_seconds(pid) - before) / max(result["requests"], 1)
                    if result["failed"] or result["socket_errors"] or not result["requests"]:
                        raise SystemExit(f"{path}: {result}")
                    results[path] += [result] if number else []  # the first warms up
    times = {path: [result["cpu_ms"] for result in own] for path, own in results.items()}
    for path, own in results.items():
        rate = statistics.median(result["requests"] / result["seconds"] for result in own)
        line = {"benchmark": "serve pages", "path": path, "per_second": round(rate, 1)}
        line |= {"p99_ms": round(statistics.median(result["p99"] for result in own), 2)}
        line |= {"cpu_ms": round(statistics.median(times[path]), 3)}
        print(json.dumps({**line, "ratio": serve.ratio(times["/rank"], times[path])}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    pages(arguments.pages, arguments.rounds)
    if shutil.which("wrk"):
        requests(arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    main()
