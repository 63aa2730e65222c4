"""The service under load, against empty endpoints of the same framework, by wrk on loopback.

    python benchmarks/serve.py [--seconds 2] [--rounds 3] [--connections 4]

Needs `wrk` (Debian: apt install wrk; macOS: brew install wrk). Prints JSON lines. Of each kind of ranker (linear,
network of 256, 128 and 64 units, 500 trees of 15 leaves), form of the body (JSON arrays, JSON by name, Arrow with a
column per feature) and number of candidates with 136 features: requests per second, p50 and p99 in milliseconds, and
the processor time that the server spends on a request, which other work on the machine lengthens least.
`ratio` is the processor time of the service over that of an endpoint of FastAPI that parses the same body with the same
parser and does nothing else (goal: at most 2 for linear rankers); `ratio_default` is the same for an endpoint that
leaves the parsing to FastAPI. `rate_ratio` and `rate_ratio_default` compare rates, the other's over ours. All take
turns; a ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import Body, FastAPI, Request, Response

WIDTH, SIZES, FORMS, KINDS = 136, (100, 1000), ("arrays", "names", "arrow"), ("linear", "network", "trees")
NAMES = tuple(f"feature_{place}" for place in range(WIDTH))
TYPES = {"arrow": "application/vnd.apache.arrow.stream"}
GOAL = 2.0  # of `ratio`, for linear rankers


# -- rankers and bodies --------------------------------------------------------------------------------------------


def save_rankers(folder: Path) -> None:
    """A ranker of each kind, of realistic size; the trees fit a curve."""
    import xgboost

    from cldrank import scaling
    from cldrank.rankers import Layer, LinearRanker, NetworkRanker, TreeRanker

    random = np.random.default_rng(0)
    features = random.normal(size=(4000, WIDTH)).astype(np.float32)
    parts: dict[str, Any] = {"feature_names": NAMES, "scaling": scaling.fit("standard", features)}
    for number in (1, 2):
        coefficients = random.normal(size=WIDTH)
        LinearRanker(coefficients=coefficients, **parts).save(folder / ("linear" if number == 1 else "other"))
    layers = []
    for wide, narrow in zip((WIDTH, 256, 128, 64), (256, 128, 64, 1), strict=True):
        weight = random.normal(size=(narrow, wide)).astype(np.float32) / np.float32(np.sqrt(wide))
        layers += [Layer("linear", weight, np.zeros(narrow, dtype=np.float32)), Layer("elu")]
    NetworkRanker(layers=layers[:-1], **parts).save(folder / "network")
    target = np.sin(features[:, :20]).sum(axis=1)
    matrix = xgboost.QuantileDMatrix(features, label=target)
    grown = {"objective": "rank:ndcg", "base_score": 0.0, "max_leaves": 15, "max_depth": 0, "grow_policy": "lossguide"}
    booster = xgboost.Booster(grown, [matrix])
    for number in range(500):
        gradient = 0.1 * (booster.predict(matrix, output_margin=True) - target)
        booster.boost(matrix, iteration=number, grad=gradient, hess=np.ones(len(target)))
    TreeRanker(content=bytes(booster.save_raw("json")), feature_names=NAMES).save(folder / "trees")


@contextlib.contextmanager
def prepared() -> Iterator[Path]:
    """A temporary folder with the rankers, if there is a wrk to load them with."""
    if shutil.which("wrk") is None:
        raise SystemExit("this benchmark needs wrk: apt install wrk (Debian, Ubuntu), brew install wrk (macOS).")
    with tempfile.TemporaryDirectory() as name:
        save_rankers(Path(name))
        yield Path(name)


def body(form: str, candidates: int) -> bytes:
    """A request for the best ten."""
    rows = np.random.default_rng(1).normal(size=(candidates, WIDTH)).round(6)
    ids = [f"d{place}" for place in range(candidates)]
    if form == "arrays":
        return json.dumps({"ids": ids, "features": rows.tolist(), "top": 10}, separators=(",", ":")).encode()
    if form == "names":
        named = [
            {"id": one, "features": dict(zip(NAMES, row, strict=True))}
            for one, row in zip(ids, rows.tolist(), strict=True)
        ]
        return json.dumps({"candidates": named, "top": 10}, separators=(",", ":")).encode()
    import pyarrow as pa

    columns = {name: pa.array(rows[:, place].astype(np.float32)) for place, name in enumerate(NAMES)}
    table, sink = pa.table({"id": ids, **columns}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


# -- servers -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def server(*command: str | Path) -> Iterator[tuple[str, int]]:
    """The address and the process of a server, once it answers."""
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(r"http://[\d.]+:\d+", line):
            break
    else:
        raise SystemExit("".join(lines))
    threading.Thread(target=lambda: process.stderr and process.stderr.read(), daemon=True).start()
    try:
        yield found.group(), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def serve_empty() -> None:
    """Endpoints that parse and do nothing, on the server that the service runs on."""
    import msgspec
    import pyarrow as pa
    import uvicorn

    app, nothing = FastAPI(), Response(b'{"ranked":[]}', media_type="application/json")

    @app.post("/same")
    async def same(request: Request) -> Response:
        content = await request.body()
        if request.headers["content-type"] == TYPES["arrow"]:
            pa.ipc.open_stream(content).read_all()
        else:
            msgspec.json.decode(content)
        return nothing

    @app.post("/default")
    async def default(content: Any = Body()) -> Response:  # noqa: B008  as FastAPI has it
        del content
        return nothing

    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error", access_log=False)).run([listening])


# -- load ----------------------------------------------------------------------------------------------------------

SCRIPT = """
local requests = {}
local function content(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end
FILLED
local place = 0
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(args) statuses = {} end
function request()
  place = place % #requests + 1
  return requests[place]
end
COUNTED
function done(summary, latency, _)
  local parts = {}
  for _, thread in ipairs(threads) do
    for status, number in pairs(thread:get("statuses") or {}) do
      parts[status] = (parts[status] or 0) + number
    end
  end
  local told = {}
  for status, number in pairs(parts) do table.insert(told, string.format('"%s": %d', status, number)) end
  local errors = summary.errors
  io.write(string.format('{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, "failed": %d, "socket_errors": %d, ' ..
    '"statuses": {%s}}\\n', summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    table.concat(told, ", ")))
end
"""
COUNTING = """
function response(status) statuses[status] = (statuses[status] or 0) + 1 end
"""
Wanted = tuple[str, str, dict[str, str], bytes]


def write_script(path: Path, wanted: list[Wanted], *, count: bool = False) -> Path:
    """A script for wrk that sends some requests (method, path, headers, body) in turn."""
    lines: list[str] = []
    known: dict[bytes, Path] = {}
    for method, address, headers, content in wanted:
        if content not in known:
            known[content] = path.with_suffix(f".{len(known)}.body")
            known[content].write_bytes(content)
        fields = ", ".join(f"[{json.dumps(name)}]={json.dumps(value)}" for name, value in headers.items())
        lines.append(
            f"requests[#requests + 1] = wrk.format({json.dumps(method)}, {json.dumps(address)}, {{{fields}}}, "
            f"content({json.dumps(str(known[content]))}))"
        )
    formed = "function fill()\n" + "\n".join(lines) + "\nend"
    text = SCRIPT.replace("FILLED", formed).replace("COUNTED", COUNTING if count else "")
    path.write_text(text.replace("statuses = {} end", "statuses = {}; fill() end"))
    return path


def wrk(script: Path, address: str, seconds: float, connections: int, threads: int = 1) -> dict[str, Any]:
    """What wrk found: requests, seconds, percentiles in milliseconds, errors."""
    found = subprocess.run(
        ["wrk", f"-t{threads}", f"-c{connections}", f"-d{round(seconds)}s", "--timeout", "30s", "-s", script, address],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(found.stdout.strip().splitlines()[-1]))


# -- speed ---------------------------------------------------------------------------------------------------------


def speed(folder: Path, seconds: float, rounds: int, connections: int) -> None:
    with contextlib.ExitStack() as stack:
        places = {
            kind: stack.enter_context(server("-m", "cldrank", "serve", folder / kind, "--port", "0")) for kind in KINDS
        }
        empty = stack.enter_context(server(__file__, "empty"))
        for candidates in SIZES:
            for form in FORMS:
                targets = {kind: (*place, "/rank") for kind, place in places.items()} | {"same": (*empty, "/same")}
                if form != "arrow":
                    targets["default"] = (*empty, "/default")
                content = body(form, candidates)
                headers = {"Content-Type": TYPES.get(form, "application/json")}
                found = take_turns(folder, targets, headers, content, seconds, rounds, connections)
                report(found, form, candidates, len(content), connections)


def take_turns(
    folder: Path,
    targets: dict[str, tuple[str, int, str]],
    headers: dict[str, str],
    content: bytes,
    seconds: float,
    rounds: int,
    connections: int,
) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in targets}
    for number in range(rounds + 1):
        for name, (address, pid, path) in targets.items():
            script = write_script(folder / "load.lua", [("POST", path, headers, content)])
            before = processor_seconds(pid)
            result = wrk(script, address, seconds if number else 1, connections)
            result["cpu_ms"] = 1000 * (processor_seconds(pid) - before) / max(result["requests"], 1)
            if result["failed"] or result["socket_errors"] or not result["requests"]:
                raise SystemExit(f"{name}: {result}")
            if number:  # the first warms up
                found[name].append(result)
    return found


def report(found: dict[str, list[dict[str, Any]]], form: str, candidates: int, size: int, connections: int) -> None:
    rates = {name: [one["requests"] / one["seconds"] for one in results] for name, results in found.items()}
    times = {name: [one["cpu_ms"] for one in results] for name, results in found.items()}
    for name in found:
        line: dict[str, Any] = {
            "benchmark": "serve",
            "ranker": name if name in KINDS else f"none ({name} parser)",
            "form": form,
            "candidates": candidates,
            "body_bytes": size,
            "connections": connections,
            "per_second": round(statistics.median(rates[name]), 1),
            "p50_ms": round(statistics.median(one["p50"] for one in found[name]), 2),
            "p99_ms": round(statistics.median(one["p99"] for one in found[name]), 2),
            "cpu_ms": round(statistics.median(times[name]), 3),
        }
        if name in KINDS:
            line |= {"ratio": ratio(times[name], times["same"]), "rate_ratio": ratio(rates["same"], rates[name])}
            if "default" in rates:
                line["ratio_default"] = ratio(times[name], times["default"])
                line["rate_ratio_default"] = ratio(rates["default"], rates[name])
            if name == "linear":
                line |= {"goal": GOAL, "met": line["ratio"] <= GOAL}
        print(json.dumps(line), flush=True)


def processor_seconds(pid: int) -> float:
    """What a process has spent so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ratio(base: list[float], own: list[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(base, own, strict=True)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", choices=("speed", "empty"), default="speed")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=4)
    arguments = parser.parse_args()
    if arguments.mode == "empty":
        serve_empty()
        return
    with prepared() as folder:
        speed(folder, arguments.seconds, arguments.rounds, arguments.connections)


if __name__ == "__main__":
    main()
