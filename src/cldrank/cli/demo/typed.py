"""Commands that the demo types itself: what it shows is what it does."""

from __future__ import annotations

import io
import json
import shlex
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any

import typer

from cldrank.cli.output import say

_STOPPED = 130


def typed(command: str, *, doing: str = "") -> Any:
    """What a command of cldrank answers with `--json`, run in this process as if it had been typed.

    doing   what is said while it runs, in place of all that the command says beside its answer, but for warnings
    """
    from rich.console import Console

    from cldrank.cli import app

    answer, remarks = io.StringIO(), io.StringIO()
    with ExitStack() as stack:
        if doing:  # on the terminal as it is, before the command's own remarks go elsewhere
            stack.enter_context(Console(file=sys.stderr).status(f"{doing} …"))
            stack.enter_context(redirect_stderr(remarks))
        stack.enter_context(redirect_stdout(answer))
        code = app(args=[*shlex.split(command), "--json"], prog_name="cldrank", standalone_mode=False)
    for line in remarks.getvalue().splitlines():
        if line.startswith("warning: "):
            say(line)
    if code == _STOPPED:
        say("stopped; the same call continues from there")
        raise typer.Exit(code)
    return json.loads(answer.getvalue())
