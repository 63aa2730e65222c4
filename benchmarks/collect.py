"""Collecting candidates from a stand-in: rows a second, peak memory, and the same file after `kill -9` half way.

    python benchmarks/collect.py                    # 10⁴ queries with 200 candidates of 10 features
    python benchmarks/collect.py --queries 500

The stand-in is a process of its own that sends answers which it made before; `ratio` is the time of collecting over
that of fetching the same answers without looking at them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

CANDIDATES, FEATURES, ANSWERS = 200, 10, 64
NAMES = [f"feature_{number}" for number in range(FEATURES)]


def answer(number: int) -> bytes:
    """The logged features of some candidates."""
    hits = []
    for place in range(CANDIDATES):
        values = [{"name": name, "value": (number * 31 + place * at + at) % 997 / 7} for at, name in enumerate(NAMES)]
        values[number % FEATURES].pop("value")  # one that does not match
        hits.append({"_id": f"product-{number}-{place}", "_score": 1.0, "fields": {"_ltrlog": [{"features": values}]}})
    return json.dumps({"took": 3, "timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": hits}}).encode()


class Handler(BaseHTTPRequestHandler):
    """Sends an answer that depends on the text of the query alone."""

    protocol_version = "HTTP/1.1"
    answers: list[bytes] = []  # noqa: RUF012

    def do_POST(self) -> None:
        """Send it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content = self.answers[hashlib.sha256(body).digest()[0] % ANSWERS]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve() -> None:
    Handler.answers = [answer(number) for number in range(ANSWERS)]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a killed client
    print(server.server_port, flush=True)
    server.serve_forever()


def collecting(folder: Path, url: str, out: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "cldrank", "features", "collect", "--from", "opensearch", "--url", url, "--out", out]
    words += ["--queries", "queries.csv", "--featureset", "features.json", "--search", '{"match": {"title": "{{q}}"}}']
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)


def finished(process: subprocess.Popen[bytes]) -> Any:
    """The resources that a command took."""
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return used


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetched(url: str, queries: int) -> float:
    """The seconds that the answers alone take, asked for by as many threads."""
    start = time.perf_counter()
    with httpx.Client() as client, ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda number: client.post(f"{url}/_search", json={"query": number}).content, range(queries)):
            pass
    return time.perf_counter() - start


def measured(folder: Path, url: str, queries: int) -> dict[str, Any]:
    features = [{"name": name, "params": ["q"], "template": {"match": {name: "{{q}}"}}} for name in NAMES]
    (folder / "features.json").write_text(json.dumps({"featureset": {"name": "shop", "features": features}}))
    lines = ["query_id,query", *(f"q{number},words {number}" for number in range(queries))]
    (folder / "queries.csv").write_text("\n".join(lines) + "\n")
    start = time.perf_counter()
    used = finished(collecting(folder, url, "whole.parquet"))
    seconds = time.perf_counter() - start
    killed = collecting(folder, url, "resumed.parquet")
    parts = folder / "resumed.parquet.parts"
    while not parts.is_dir() or len(list(parts.glob("part-*"))) < queries // 100:  # half of them
        time.sleep(0.02)
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    kept = len(list(parts.glob("part-*")))
    finished(collecting(folder, url, "resumed.parquet"))
    return {
        "queries": queries,
        "rows": queries * CANDIDATES,
        "features": FEATURES,
        "seconds": round(seconds, 2),
        "rows_per_second": round(queries * CANDIDATES / seconds),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 2),
        "ratio": round(seconds / fetched(url, queries), 2),
        "peak_mb": round(used.ru_maxrss / 1024),
        "file_mb": round((folder / "whole.parquet").stat().st_size / 1e6, 1),
        "parts_kept_when_killed": kept,
        "same_file_after_kill": digest(folder / "whole.parquet") == digest(folder / "resumed.parquet"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    own = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert own.stdout is not None
    try:
        with tempfile.TemporaryDirectory() as folder:
            url = f"http://127.0.0.1:{int(own.stdout.readline())}/products"
            print(json.dumps({"benchmark": "collect", **measured(Path(folder), url, arguments.queries)}))
    finally:
        own.kill()


if __name__ == "__main__":
    main()
