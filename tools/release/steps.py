"""What all checks share: what they work on, the commands they run, and the account of what came out."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SHOWN_LINES = 30  # of the output of a command that failed


class ReleaseError(Exception):
    """Something that must not be released: what, where, and what to do."""


@dataclass(frozen=True)
class Release:
    """What is checked: the checkout, where its files are built to, and a folder to work in."""

    root: Path
    scratch: Path
    tag: str = ""

    @property
    def dist(self) -> Path:
        """Where the files to publish lie."""
        return self.root / "dist"

    @property
    def version(self) -> str:
        """The version that the source states."""
        found = re.search(r'^__version__ = "(.+)"$', (self.root / "src/cldrank/_version.py").read_text(), re.MULTILINE)
        if found is None:
            raise ReleaseError('src/cldrank/_version.py: no line `__version__ = "…"`; write one.')
        return found[1]

    @property
    def wheel(self) -> Path:
        """The wheel to publish."""
        return self._built(f"cldrank-{self.version}-py3-none-any.whl")

    @property
    def sdist(self) -> Path:
        """The source distribution to publish."""
        return self._built(f"cldrank-{self.version}.tar.gz")

    def _built(self, name: str) -> Path:
        path = self.dist / name
        if not path.is_file():
            raise ReleaseError(f"dist/{name} is not there; build it first: --only build.")
        return path


def run_command(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None, timeout: float = 3600
) -> str:
    """What a command prints; a `ReleaseError` with the end of it where it fails."""
    line = " ".join(str(word) for word in command)
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=clean_environment() | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        printed = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        raise ReleaseError(f"`{line}` took longer than {timeout:.0f} s:\n{_end(printed)}") from None
    if done.returncode:
        raise ReleaseError(f"`{line}` failed with exit code {done.returncode}:\n{_end(done.stdout)}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """The environment without what would let a command see the checkout, or build other bytes."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SOURCE_DATE_EPOCH", "CLDRANK_DATA")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _end(printed: str) -> str:
    lines = printed.strip().splitlines()
    return "\n".join(f"    {line}" for line in lines[-SHOWN_LINES:])


@dataclass
class Account:
    """What was checked, what came out, and how long it took."""

    lines: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def check(self, name: str, check: Callable[[], str]) -> bool:
        """Run one check, say what came out, and whether it went well."""
        print(f"▸ {name} …", flush=True)
        begun = time.monotonic()
        try:
            note = check()
        except ReleaseError as problem:
            self.failed.append(name)
            note = str(problem)
            print(f"  ✗ {note}", flush=True)
        else:
            print(f"  ✓ {note}", flush=True)
        mark = "✗" if name in self.failed else "✓"
        self.lines.append(f"{mark} {name:<18}{time.monotonic() - begun:7.1f} s   {note.splitlines()[0]}")
        return name not in self.failed

    def leave_out(self, name: str, reason: str) -> None:
        """Say what was not checked."""
        print(f"▸ {name}: left out, {reason}", flush=True)
        self.lines.append(f"– {name:<18}{'':9}   {reason}")

    def close(self) -> int:
        """Print the summary; the exit code."""
        print("\n" + "\n".join(self.lines))
        if self.failed:
            print(f"\nNot ready: {', '.join(self.failed)} failed; the reasons stand above.")
        else:
            print("\nReady.")
        return 1 if self.failed else 0
