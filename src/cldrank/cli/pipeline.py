"""`cldrank pipeline`: from a log to a shipped ranker, every day, with one command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cldrank.cli import options
from cldrank.cli.clicks import BLOCKED
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.compare import EXIT_CODES
from cldrank.cli.output import console, messages, print_error, print_json, print_line, print_warning, working
from cldrank.errors import CldrankError, UsageError
from cldrank.files import save_text
from cldrank.wording import duration

if TYPE_CHECKING:
    from cldrank.pipeline import PipelineDefinition, RunRecord, TaskRecord

_INTERRUPTED = 130
_WRONG_CALL = 2
_FILE = Path("pipeline.toml")


@declared
class PipelineRunCommand:
    """Audit, aggregate, estimate propensities, train, judge, export: what has changed, up to a gate that stops.

    Each step runs only if what it reads or its settings changed. Stopped or killed at any point, the same command goes
    on from there. A gate that stops leaves production as it is.

    Exit codes: 0 the ranker is shipped, or was before and nothing has changed; 3 the audit stopped, or the new ranker
    is worse; 4 no difference; 5 the clicks cannot tell, or nothing learned is shown to be safe; 1 a step failed; 2 the
    call or the pipeline file was wrong; 130 stopped by Ctrl-C, 143 by a signal to end.

    Example: `cldrank pipeline run pipeline.toml --json`
    """

    file: Path = argument("FILE", "The file of the pipeline.", _FILE)
    as_json: bool = option("--json", "Print how it ended as one line of JSON, for a scheduler.", False)

    def run(self) -> None:
        """Run the pipeline; the exit code says how it ended."""
        from cldrank.pipeline import read_pipeline, run_pipeline

        with _lined(self.as_json):
            pipeline = read_pipeline(self.file)
        with _lined(self.as_json, pipeline), working("starting …") as update:
            record = run_pipeline(
                pipeline,
                command=shlex.join(["cldrank", *sys.argv[1:]]),
                say=lambda text: update(f"{text} …"),
                report=_report,
            )
        code = _exit_code(record)
        if self.as_json:
            _print_line(pipeline, record, code)
        else:
            _print_end(pipeline, record)
        if code:
            raise click.exceptions.Exit(code)


@declared
class PipelineShowCommand(options.JsonOutput):
    """Show the newest run of a pipeline: how it ended, and what each step decided.

    Example: `cldrank pipeline show pipeline.toml`
    """

    file: Path = argument("FILE", "The file of the pipeline.", _FILE)

    def run(self) -> None:
        """Print the run, and where its page is."""
        from dataclasses import asdict

        from cldrank.documents import render_terminal
        from cldrank.pipeline.pipeline_file import read_pipeline
        from cldrank.pipeline.run_page import run_document
        from cldrank.pipeline.running import runs_in

        pipeline = read_pipeline(self.file)
        root = pipeline.path(pipeline.runs.folder)
        runs = runs_in(root, pipeline.source.name)
        if not runs:
            raise UsageError(f"{root} holds no run of {pipeline.source}.")
        folder, record = runs[-1]
        if self.as_json:
            print_json({"folder": str(folder), **asdict(record)})
        else:
            render_terminal(run_document(record), console)
            print_line(f"everything about it: {folder / 'run.html'}")


@declared
class PipelineNewCommand:
    """Write a commented pipeline file with this log, these features, and every other key at its default.

    Example: `cldrank pipeline new logs/ --features train.parquet`
    """

    log: list[str] = argument("LOG", "The log: files, folders or patterns.")
    features: list[str] = option("-f FILE", options.CANDIDATES, ...)
    out: Path = option("-o FILE", "The file to write.", _FILE)

    def run(self) -> None:
        """Write the file."""
        from cldrank.pipeline.template import pipeline_template

        if self.out.exists():
            raise UsageError(f"{self.out} is there already; name another file with `out`, or move it away.")
        options.check_outputs([self.out], [*self.log, *self.features])
        save_text(self.out, pipeline_template(self.log, self.features, self.out.parent))
        print_line(f"wrote {self.out}; look through it, then run `cldrank pipeline run {shlex.quote(str(self.out))}`")


app = group_of(
    "From a click log to a shipped ranker, every day, with one command.",
    PipelineRunCommand,
    PipelineShowCommand,
    PipelineNewCommand,
)


# -- running -------------------------------------------------------------------------------------------------------


@contextmanager
def _lined(as_json: bool, pipeline: PipelineDefinition | None = None) -> Iterator[None]:
    """If `as_json`, print a line of JSON even when the block ends early: about the run, once it has begun."""
    before = _newest(pipeline)
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        record = _newest(pipeline)
        begun = record is not None and record != before
        code = _code_of(error, in_definition=pipeline is None, begun=begun)
        was_stopped = isinstance(error, KeyboardInterrupt | SystemExit)
        if as_json and begun:
            _print_line(pipeline, record, code)  # type: ignore[arg-type]
        elif as_json:
            status, reason = ("interrupted", "it was stopped.") if was_stopped else ("failed", str(error))
            print_json({"status": status, "exit_code": code, "run": None, "reason": reason}, one_line=True)
        if was_stopped:
            print_error("stopped; finished steps are kept, and the same command goes on from there.")
            raise click.exceptions.Exit(code) from None
        if isinstance(error, CldrankError):
            raise (UsageError if code == _WRONG_CALL else CldrankError)(str(error)) from error
        raise


def _code_of(error: BaseException, *, in_definition: bool, begun: bool) -> int:
    """The exit code: what a definition or a call gets wrong is 2, whatever fails once a run has begun is 1."""
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    is_wrong_call = isinstance(error, CldrankError) and (in_definition or (isinstance(error, UsageError) and not begun))
    return _WRONG_CALL if is_wrong_call else 1


def _exit_code(record: RunRecord) -> int:
    if record.status == "shipped":
        return 0
    return {**EXIT_CODES, "unsafe": EXIT_CODES["cannot tell"]}.get(record.stopped_by, BLOCKED)


def _newest(pipeline: PipelineDefinition | None) -> RunRecord | None:
    """The record of the newest run, if any."""
    from cldrank.pipeline.running import runs_in

    every = [] if pipeline is None else runs_in(pipeline.path(pipeline.runs.folder))
    return every[-1][1] if every else None


def _report(step: TaskRecord) -> None:
    """A line about a step that is done, on standard error."""
    state = "reused" if step.state == "reused" else duration(step.seconds)
    messages.print(f"{step.name:<13} {state:>11}  {step.decided}", markup=False, style="dim" * (step.state == "reused"))
    for text in step.warnings if step.state != "reused" else ():
        print_warning(f"{step.name}: {text}")


def _print_line(pipeline: PipelineDefinition, record: RunRecord, code: int) -> None:
    from cldrank.pipeline.running import as_line

    folder = pipeline.path(pipeline.runs.folder) / record.name
    print_json(as_line(record, folder, code), one_line=True)


def _print_end(pipeline: PipelineDefinition, record: RunRecord) -> None:
    place = pipeline.path(pipeline.export.folder)
    if record.status != "shipped":
        print_line(f"stopped at {record.reason}")
        print_line("production stays as it is")
    elif record.changed:
        print_line(f"the ranker is shipped, in {place}/")
    else:
        print_line(f"nothing has changed; what is shipped, in {place}/, stays")
    page = pipeline.path(pipeline.runs.folder) / record.name / "run.html"
    print_line(f"the run, in {duration(record.seconds)}: {page}")
