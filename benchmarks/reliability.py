"""Everything the harness can try: 100,000 mutated files over all readers, and kills and full disks over the commands.

    python benchmarks/reliability.py                     about half an hour on two cores
    python benchmarks/reliability.py --cases 5000 --kills 40

Prints one JSON line for each reader and each kind of fault, and ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS / "faults"), str(TESTS / "fuzz")]

from harness import Commands, Fault  # noqa: E402
from readers import READERS  # noqa: E402
from scenarios import SCENARIOS, prepare  # noqa: E402
from trials import Bench, full_disks, random_kills  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="mutated files")
    parser.add_argument("--kills", type=int, default=300, help="kills, over all commands")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for mutated files that failed")
    chosen = parser.parse_args()
    rows = list(fuzzed(chosen.cases, chosen.seed, chosen.keep)) + list(disturbed(chosen.kills, chosen.seed))
    total = {"tried": sum(row["tried"] for row in rows), "failed": sum(row["failed"] for row in rows)}
    print(json.dumps({"benchmark": "reliability", "total": True, **total}))
    sys.exit(bool(total["failed"]))


def fuzzed(cases: int, seed: int, keep: Path | None) -> Iterator[dict[str, Any]]:
    """A row for each reader; two at a time."""
    shares = sum(reader.share for reader in READERS.values())

    def run(name: str) -> dict[str, Any]:
        count = max(1, round(cases * READERS[name].share / shares))
        call = [sys.executable, str(TESTS / "fuzz" / "run.py"), name, "--cases", str(count), "--seed", str(seed)]
        ran = subprocess.run(
            call + (["--keep", str(keep)] if keep else []), capture_output=True, text=True, check=False
        )
        if ran.returncode:
            return {"reader": name, "tried": count, "failed": 1, "failures": [ran.stderr[-2000:]]}
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    with ThreadPoolExecutor(2) as pool:
        for row in pool.map(run, READERS):
            print(json.dumps({"benchmark": "reliability", "kind": "fuzz", **row}), flush=True)
            yield row


def disturbed(kills: int, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each command and kind of fault."""
    with tempfile.TemporaryDirectory() as folder:
        scene, scratch = Path(folder) / "scene", Path(folder) / "scratch"
        scene.mkdir()
        scratch.mkdir()
        with Commands(scratch) as commands:
            prepare(scene, commands)
            for name, scenario in SCENARIOS.items():
                bench = Bench(commands, scene, Path(folder), scenario)
                for kind, faults in _faults(bench, kills // len(SCENARIOS), seed).items():
                    wrong = [f"{fault}: {found}" for fault in faults if (found := bench.trial(fault))]
                    row = {"command": name, "tried": len(faults), "failed": len(wrong), "failures": wrong[:5]}
                    print(json.dumps({"benchmark": "reliability", "kind": kind, **row}), flush=True)
                    yield row


def _faults(bench: Bench, kills: int, seed: int) -> dict[str, list[Fault]]:
    """A third of the kills at random, the others at points spread evenly over all calls."""
    points, at_random = bench.points(), kills // 3
    step = max(1, -(-len(points) // max(1, kills - at_random)))
    return {
        "kill at a call": points[::step],
        "kill at random": list(random_kills(seed, at_random, longest=2 * bench.seconds)),
        "full disk": full_disks(),
    }


if __name__ == "__main__":
    main()
