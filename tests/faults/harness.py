"""Commands that die, or run out of disk, at chosen points; and what must be true afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
KILLED = -9
TOO_LARGE = -25  # by SIGXFSZ, in the middle of a write


@dataclass(frozen=True)
class Fault:
    """What goes wrong, if anything.

    call, number, after   killed at this call of a function of `os` (or "exchange"), before or after it acts
    seconds               killed after this time
    bytes                 no file can grow beyond this size: writing fails as on a full disk, or if `deadly`, kills
    two_steps             folders cannot be swapped in one step, as on some systems
    """

    call: str = ""
    number: int = 0
    after: bool = False
    seconds: float | None = None
    bytes: int | None = None
    deadly: bool = False
    two_steps: bool = False


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: a signal; None: it hung), what it printed, what it called."""

    code: int | None
    output: str
    calls: Mapping[str, int]


class Commands:
    """Runs commands, with faults, in children of one process that has imported everything."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CLDRANK_CACHE": str(scratch / "cache"), "COLUMNS": "120"}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, folder: Path, arguments: Sequence[str], fault: Fault | None = None, limit: float = 120) -> Ended:
        """Run one command in a folder."""
        calls = self._scratch / "calls.json"
        calls.unlink(missing_ok=True)
        request = {
            "folder": str(folder),
            "arguments": list(arguments),
            "calls": str(calls),
            "limit": limit,
            **asdict(fault or Fault()),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        counted = json.loads(calls.read_text()) if calls.exists() else {}
        return Ended(answer["code"], answer["output"], counted)


def junk(folder: Path) -> list[str]:
    """Hidden leftovers anywhere below a folder."""
    return sorted(str(entry.relative_to(folder)) for entry in folder.rglob(".*"))
