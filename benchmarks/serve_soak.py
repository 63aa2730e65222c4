"""The service under load that lasts, with what goes wrong in the long run, by wrk on loopback.

    python benchmarks/serve_soak.py [--minutes 10] [--workers 1]

Needs `wrk`. Keeps the service under load with one malformed request in ten, of many kinds, and with clients that break
off in the middle, while SIGHUP swaps rankers. Prints JSON: how often each status was answered (goal: none of 500 and
above), resident memory and open descriptors at the start and at the end, and by how much memory grew per minute in the
second half.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from serve import FORMS, NAMES, TYPES, WIDTH, Wanted, body, prepared, server, write_script, wrk


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
        "server_errors": bad, "goal": 0, "met": bad == 0,
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
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    with prepared() as folder:
        soak(folder, arguments.minutes, arguments.workers)


if __name__ == "__main__":
    main()
