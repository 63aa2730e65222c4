"""Runs the code blocks of the README and of docs/ as tests: each page in an empty folder, its blocks in their order.

| block | what becomes of it |
|---|---|
| `sh` | given to Bash; each command must succeed |
| `console` | what stands after `$ ` is given to Bash and must print what stands below it, where `...` is anything |
| `python` | executed, or, with `>>>`, a doctest; all blocks of a page share their names |
| any, below `<!-- file: NAME -->` | written into the folder as NAME |
| `json`, `toml`, `yaml` | parsed |
| `text`, `md` | for the reader only |

A command of a `console` block may fail only if `$ echo $?` follows. Bash and its variables live as long as the page.
Two comments are for pages alone:

    <!-- invisible-code-block: sh
    given train.parquet log.parquet          # what earlier pages have made: see `given.py`
    -->

    <!-- skip: next "needs a cluster" -->    # or start … end; if(missing("msrd"), reason="needs MSRD in CLDRANK_DATA")
"""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.doctest import NUMBER, OutputChecker
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | NUMBER
LIMIT = 240  # seconds for a command
LANGUAGES = ("sh", "console", "json", "toml", "yaml", "text", "md", "python")
GIVEN = tempfile.TemporaryDirectory(prefix="given-")  # of this process, for all its pages


class Shell:
    """Bash in a folder, for as long as a page is run."""

    def __init__(self, folder: Path) -> None:
        known = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "OMP_NUM_THREADS") if name in os.environ}
        paths = [str(ROOT / "src"), str(Path(__file__).parent)]
        environment = {
            **known,
            "CLDRANK_DATA": str(Path(os.environ.get("CLDRANK_DATA", "none")).absolute()),
            "COLUMNS": "100",
            "GIVEN": GIVEN.name,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": ":".join(paths),
            "PYTHONUTF8": "1",
            "TERM": "dumb",
            "XDG_CACHE_HOME": str(folder / ".cache"),
        }
        self.process = subprocess.Popen(
            ["/bin/bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self.run('set -o pipefail\ngiven() { python -m given "$@"; }')

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints, and its exit status; where it ends Bash, that of Bash."""
        if self.process.poll() is not None:
            return "Bash has ended, at an earlier block of this page", 1
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        end = f"end-{uuid.uuid4()}"
        timer = threading.Timer(LIMIT, self.kill)
        timer.start()
        self.process.stdin.write(f"{{\n{command}\n}} < /dev/null\nprintf '\\n%s %s\\n' {end} $?\n")
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.startswith(end):
                timer.cancel()
                return "".join(lines).removesuffix("\n"), int(line.split()[1])
            lines.append(line)
        timer.cancel()
        return "".join(lines), self.process.wait()

    def close(self) -> None:
        """Kill Bash and all that it has started."""
        self.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.__exit__(None, None, None)  # closes its pipes

    def kill(self) -> None:
        """Kill Bash and all that it has started; whoever reads from it sees the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def run_sh(example: Example) -> str | None:
    """Nothing if all commands of a block succeed, else what was printed."""
    output, status = example.namespace["_shell"].run(f"set -e\n{example.parsed}\nset +e")
    return f"{example.parsed}\nexited with {status}:\n{output}" if status else None


def run_console(example: Example) -> str | None:
    """Nothing if the commands of a block print what stands below them."""
    blocks = re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)
    if blocks[0].strip():
        return f"a console block begins with `$ `, not with {blocks[0]!r}"
    parts = [_command_and_output(block) for block in blocks[1:]]
    checked = [command.startswith("echo $?") for command, _ in parts[1:]] + [False]
    status = 0
    for (command, wanted), may_fail in zip(parts, checked, strict=True):
        output, status = example.namespace["_shell"].run(f"(exit {status})\n{command}")
        if status and not may_fail:
            return f"$ {command}\nexited with {status}:\n{output}"
        if not OutputChecker().check_output(wanted + "\n", output.strip() + "\n", FLAGS):
            return f"$ {command}\nprinted:\n{output}\nand not:\n{wanted}"
    return None


def _command_and_output(block: str) -> tuple[str, str]:
    """The command, which a backslash or `> ` continues, and what it should print."""
    lines = block.split("\n")
    last = 0
    while lines[last].endswith("\\") or (last + 1 < len(lines) and lines[last + 1].startswith("> ")):
        last += 1
    command = [lines[0], *(line.removeprefix("> ") for line in lines[1 : last + 1])]
    return "\n".join(command), "\n".join(lines[last + 1 :]).strip()


class BlockParser(CodeBlockParser):
    """Every code block but Python's: written to its file, or checked by its language."""

    language = "any"

    def __call__(self, document: Document) -> Iterable[Region]:
        found = list(self._blocks(document))
        return [one for one in found if not any(other.start < one.start < other.end for other in found)]

    def _blocks(self, document: Document) -> Iterable[Region]:
        for region in self.lexers(document):
            language = str(region.lexemes["arguments"]).strip()
            comment = re.search(r"<!-- file: (\S+) -->\s*$", document.text[: region.start])
            file = comment and comment[1]
            if language.startswith("{") or (language == "python" and file is None):
                continue  # a directive of Sphinx; or PythonCodeBlockParser's
            region.parsed = region.lexemes["source"]
            region.evaluator = lambda example, language=language, file=file: evaluate(example, language, file)
            yield region
        for region in RawFencedCodeBlockLexer()(document):
            region.evaluator = lambda _: "a block must name its language"
            yield region


class PythonParser(PythonCodeBlockParser):
    """Python that is executed: all that is not written to a file."""

    def __call__(self, document: Document) -> Iterable[Region]:
        others = list(BlockParser()(document))
        return (one for one in super().__call__(document) if not any(a.start <= one.start < a.end for a in others))


def evaluate(example: Example, language: str, file: str | None) -> str | None:
    """Nothing if a block is right, else what is wrong with it."""
    if file is not None:
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(example.parsed, encoding="utf-8")
    if language == "sh" and file is None:
        return run_sh(example)
    if language == "console":
        return run_console(example)
    parsers: dict[str, Any] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    if language in parsers:
        parsers[language](example.parsed)
    return None if language in LANGUAGES or file else f"nobody knows how to check a block of {language!r}"


def missing(name: str) -> bool:
    """Whether a real data set is not at hand, which CLDRANK_REQUIRE_DATA makes an error."""
    folder = Path(os.environ.get("CLDRANK_DATA", "none")) / name
    if os.environ.get("CLDRANK_REQUIRE_DATA") and not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not there, and CLDRANK_REQUIRE_DATA is set")
    return not folder.is_dir()


def setup(namespace: dict[str, Any]) -> None:
    """An empty folder for a page, where it is run, and its Bash."""
    folder = tempfile.TemporaryDirectory(prefix="page-")
    namespace.update(_folder=folder, _before=Path.cwd(), _shell=Shell(Path(folder.name)), missing=missing)
    os.chdir(folder.name)


def teardown(namespace: dict[str, Any]) -> None:
    """Leave the folder, and delete it."""
    namespace["_shell"].close()
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


PAGES = Sybil(
    parsers=[BlockParser(), PythonParser(doctest_optionflags=FLAGS), SkipParser()],
    path=str(ROOT),
    patterns=["*.md"],
    setup=setup,
    teardown=teardown,
)
