"""Fuzz readers in this process, within limits of memory and time, and print a line of JSON for each.

python tests/fuzz/run.py letor --cases 20000 --seed 0 --keep failures/
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
MEMORY = 3 << 30  # bytes beyond what the process has when it begins
SECONDS = 10  # of processor time for one case
HANGS = 120  # of the clock; then the process ends


class TooSlow(BaseException):
    """A case took longer than any small file should."""


def main() -> None:
    """Parse the call, fuzz, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="+")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the cases that failed")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    _limit_memory()
    for name in chosen.readers:
        with tempfile.TemporaryDirectory() as folder:
            outcome = fuzz(name, chosen.cases, chosen.seed, Path(folder), chosen.keep)
        sys.stdout.write(json.dumps(outcome) + "\n")


def fuzz(name: str, cases: int, seed: int, folder: Path, keep: Path | None) -> dict[str, Any]:
    """What came of the cases: how many were accepted, refused, failed; and of each kind of failure an example."""
    from readers import READERS

    reader = READERS[name]
    seeds, place = folder / "seeds", folder / "case"
    seeds.mkdir()
    place.mkdir()
    reader.seed(seeds)
    signal.signal(signal.SIGPROF, _too_slow)
    counts: Counter[str] = Counter()
    failures: dict[str, dict[str, Any]] = {}
    slowest, begin = 0.0, time.perf_counter()
    for number in range(cases):
        path = reader.case(seeds, place, np.random.default_rng([seed, number]))
        faulthandler.dump_traceback_later(HANGS, exit=True)
        start = time.process_time()
        outcome, failure = _outcome(reader.read, path)
        slowest = max(slowest, time.process_time() - start)
        counts[outcome] += 1
        if failure is not None:
            entry = failures.setdefault(_kind(failure["error"]), {**failure, "case": number, "times": 0})
            entry["times"] += 1
            if keep is not None and entry["times"] == 1:
                _keep(path, keep / f"{name}-{number}")
    faulthandler.cancel_dump_traceback_later()
    return {
        "reader": name, "tried": cases, "accepted": counts["accepted"], "refused": counts["refused"],
        "failed": counts["failed"], "slowest_s": round(slowest, 2), "seconds": round(time.perf_counter() - begin, 1),
        "failures": list(failures.values()),
    }  # fmt: skip


def _outcome(read: Any, path: Path) -> tuple[str, dict[str, Any] | None]:
    from cldrank.errors import CldrankError

    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        read(path)
    except CldrankError:
        return "refused", None
    except (Exception, TooSlow) as error:
        where = traceback.extract_tb(error.__traceback__)
        inside = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in where if "cldrank" in frame.filename]
        return "failed", {"error": f"{type(error).__name__}: {str(error)[:300]}", "at": inside[-3:]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "accepted", None


def _kind(error: str) -> str:
    """Failures that differ in their numbers alone are of one kind."""
    return re.sub(r"\d+", "0", error)[:80]


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _too_slow(*_: Any) -> None:
    raise TooSlow(f"more than {SECONDS} s of processor time")


def _keep(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True)
    else:
        shutil.copy(path, target.with_suffix(path.suffix))


if __name__ == "__main__":
    main()
