"""The service under load, against empty endpoints of the same framework, by wrk on loopback.

    python benchmarks/serve.py [--seconds 2] [--rounds 3] [--connections 4]
    python benchmarks/serve.py soak [--minutes 10] [--workers 1]

Needs `wrk` (Debian: apt install wrk; macOS: brew install wrk). Prints JSON lines. Of each kind of ranker (linear,
network of 256, 128 and 64 units, 500 trees of 15 leaves), form of the body (JSON arrays, JSON by name, Arrow with a
column per feature) and number of candidates with 136 features: requests per second, p50 and p99 in milliseconds, and
the processor time that the server spends on a request, which other work on the machine lengthens least.
`ratio` is the rate of an endpoint of FastAPI that parses the same body with the same parser and does nothing else, over
that of the service (goal: at most 2 for linear rankers); `ratio_default` is the same for an endpoint that leaves the
parsing to FastAPI. `cpu_ratio` and `cpu_ratio_default` compare processor times. All take turns; a ratio is the median
over the rounds.

`soak` keeps the service under load with one malformed request in ten, of many kinds, and with clients that break off in
the middle, while SIGHUP swaps rankers. It prints how often each status was answered (goal: none of 500 and above),
resident memory and open descriptors at the start and at the end, and by how much memory grew per minute in the second
half.
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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import Body, FastAPI, Request, Response

WIDTH, SIZES, FORMS, KINDS = 136, (100, 1000), ("arrays", "names", "arrow"), ("linear", "network", "trees")
NAMES = tuple(f"feature_{place}" for place in range(WIDTH))
TYPES = {"arrow": "application/vnd.apache.arrow.stream"}
GOALS = {"ratio": 2.0, "server_errors": 0}


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
    import orjson
    import pyarrow as pa
    import uvicorn

    app, nothing = FastAPI(), Response(b'{"ranked":[]}', media_type="application/json")

    @app.post("/same")
    async def same(request: Request) -> Response:
        content = await request.body()
        if request.headers["content-type"] == TYPES["arrow"]:
            pa.ipc.open_stream(content).read_all()
        else:
            orjson.loads(content)
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
            line |= {"ratio": ratio(rates["same"], rates[name]), "cpu_ratio": ratio(times[name], times["same"])}
            if "default" in rates:
                line["ratio_default"] = ratio(rates["default"], rates[name])
                line["cpu_ratio_default"] = ratio(times[name], times["default"])
            if name == "linear":
                line |= {"goal": GOALS["ratio"], "met": line["ratio"] <= GOALS["ratio"]}
        print(json.dumps(line), flush=True)


def processor_seconds(pid: int) -> float:
    """What a process has spent so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ratio(base: list[float], own: list[float]) -> float:
    return round(statistics.median(one / other for one, other in zip(base, own, strict=True)), 2)


# -- soak ----------------------------------------------------------------------------------------------------------


def malformed() -> list[Wanted]:
    """Requests that must be refused, each for another reason."""
    kind = {"Content-Type": "application/json"}
    row = [0.5] * WIDTH
    by_name = dict(zip(NAMES, row, strict=True))
    wrong: list[Any] = [
        {"ids": ["a"], "features": [row[:-1]]},
        {"ids": ["a"], "features": [[True, *row[1:]]]},
        {"ids": ["a"], "features": [["0.5", *row[1:]]]},
        {"ids": ["a"], "features": [[None, *row[1:]]]},
        {"ids": ["a"], "features": [[1e39, *row[1:]]]},
        {"ids": ["a", "a"], "features": [row, row]},
        {"ids": ["a", "b"], "features": [row]},
        {"ids": [True], "features": [row]},
        {"features": [row], "feature_names": [*NAMES[:-1], "unknown"]},
        {"features": [row], "top": 0},
        {"features": [row], "limit": 3},
        {"candidates": [{"id": "a", "features": by_name | {"unknown": 1}}]},
        {"candidates": [{"id": "a", "features": {NAMES[0]: 1}}]},
        {"candidates": {"a": by_name}},
        {"features": [row] * 1001},
        [],
        None,
        "text",
    ]
    bodies = [json.dumps(one).encode() for one in wrong]
    bodies += [
        b"",
        b"{",
        b'{"features": [[NaN]]}',
        b'{"features": [], "features": []}',
        b"[" * 5000,
        b"\xff\xfe",
        b"x" * ((1 << 20) + 1),
    ]
    found: list[Wanted] = [("POST", "/rank", kind, one) for one in bodies]
    found += [
        ("POST", "/rank", {"Content-Type": "text/plain"}, b"{}"),
        ("POST", "/rank", kind | {"Content-Encoding": "gzip"}, b"{}"),
        ("POST", "/rank", kind | {"Accept": "text/html"}, b"{}"),
        ("POST", "/rank", {"Content-Type": TYPES["arrow"]}, b"ARROW1" * 10),
        ("POST", "/rank", {"Content-Type": TYPES["arrow"]}, body("arrow", 3)[:-500]),
        ("POST", "/rank?top=many", {"Content-Type": TYPES["arrow"]}, body("arrow", 3)),
        ("GET", "/rank", {}, b""),
        ("GET", "/nowhere", {}, b""),
        ("POST", "/reload", {}, b""),
    ]
    return found


def requests_to_soak() -> list[Wanted]:
    """Nine good requests in three forms, then a malformed one, until each of these has had its turn."""
    good: list[Wanted] = [
        ("POST", "/rank", {"Content-Type": TYPES.get(form, "application/json")}, body(form, 100)) for form in FORMS
    ]
    return [one for wrong in malformed() for one in (*good, *good, *good, wrong)]


def break_off(address: str, stop: threading.Event) -> None:
    """Clients that promise a body and hang up, that send chunks without end, or what is not HTTP."""
    host, port = address.removeprefix("http://").split(":")
    head = b"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    rude = (
        head + b'Content-Length: 5000\r\n\r\n{"ids"',
        head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n[[[[[\r\n",
        head + b"Transfer-Encoding: chunked\r\n\r\nnot a length\r\n",
        b"\x16\x03\x01 this is not HTTP\r\n\r\n",
        b"POST /rank HT",
    )
    while not stop.wait(0.05):
        for content in rude:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as client:
                client.sendall(content)


def soak(folder: Path, minutes: float, workers: int) -> None:
    script = write_script(folder / "soak.lua", requests_to_soak(), count=True)
    served = folder / "served"
    shutil.copytree(folder / "linear", served)
    command = (
        "-m",
        "cldrank",
        "serve",
        served,
        "--port",
        "0",
        "--workers",
        workers,
        "--max-candidates",
        1000,
        "--max-body",
        1,
    )
    with server(*map(str, command)) as (address, pid):
        wrk(script, address, 10, 8)
        stop = threading.Event()
        rude = threading.Thread(target=break_off, args=(address, stop))
        rude.start()
        samples: list[tuple[float, float, int]] = []
        result: list[dict[str, Any]] = []
        load = threading.Thread(target=lambda: result.append(wrk(script, address, 60 * minutes, 8)))
        start, swaps = time.monotonic(), 0
        load.start()
        while load.is_alive():
            samples.append((time.monotonic() - start, *usage(pid)))
            time.sleep(2)
            if len(samples) % 5 == 0:
                swap(folder, served, swaps := swaps + 1)
                os.kill(pid, signal.SIGHUP)
        stop.set()
        rude.join()
        time.sleep(2)
        samples.append((time.monotonic() - start, *usage(pid)))
    later = np.array(samples[len(samples) // 2 :])
    slope = float(np.polyfit(later[:, 0] / 60, later[:, 1], 1)[0]) if len(later) > 2 else float("nan")
    bad = sum(number for status, number in result[0]["statuses"].items() if int(status) >= 500)
    print(json.dumps({
        "benchmark": "serve soak", "minutes": minutes, "workers": workers, "swaps": swaps, **result[0],
        "rss_mib": {"start": samples[0][1], "end": samples[-1][1], "most": max(one[1] for one in samples)},
        "rss_mib_per_minute": round(slope, 3), "descriptors": {"start": samples[0][2], "end": samples[-1][2]},
        "server_errors": bad, "goal": GOALS["server_errors"], "met": bad == 0,
    }), flush=True)  # fmt: skip


def swap(folder: Path, served: Path, number: int) -> None:
    """Put another ranker into the folder, now and then a broken one."""
    from cldrank.rankers import load_ranker

    load_ranker(folder / ("linear", "other")[number % 2]).save(served)
    if number % 5 == 0:
        (served / "weights.safetensors").write_bytes(b"broken")


def usage(pid: int) -> tuple[float, int]:
    """Resident memory in MiB and open descriptors, of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    memory, handles = 0.0, 0
    for one in (str(pid), *children):
        status = Path(f"/proc/{one}/status").read_text()
        memory += int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
        handles += len(list(Path(f"/proc/{one}/fd").iterdir()))
    return round(memory, 1), handles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", choices=("speed", "soak", "empty"), default="speed")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.mode == "empty":
        serve_empty()
        return
    if shutil.which("wrk") is None:
        raise SystemExit("this benchmark needs wrk: apt install wrk (Debian, Ubuntu), brew install wrk (macOS).")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_rankers(folder)
        if arguments.mode == "soak":
            soak(folder, arguments.minutes, arguments.workers)
        else:
            speed(folder, arguments.seconds, arguments.rounds, arguments.connections)


if __name__ == "__main__":
    main()
