"""The command line: parses, calls the library, prints. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

import typer

from cldrank._version import __version__
from cldrank.cli import (
    clicks,
    compare,
    data,
    demo,
    experiment,
    export,
    judgements,
    pipeline,
    propensity,
    score,
    show,
    simulate,
    train,
    tune,
)
from cldrank.cli.commands import ShellGroup, add_command
from cldrank.cli.option_names import as_options, remember_command
from cldrank.cli.output import print_error, print_warning
from cldrank.errors import CldrankError, CldrankWarning, UsageError

_STOPPED = "stopped; nothing half-written is left behind."
_WORDS = {  # how pydantic says what a value should be, and how we do
    "a valid number": "a number",
    "a valid integer": "a whole number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}
_ROAD: dict[str, Any] = {  # the commands, in the order in which one meets them
    "data": data.app,
    "clicks": clicks.app,
    "propensity": propensity.app,
    "simulate": simulate.SimulateCommand,
    "train": train.app,
    "tune": tune.TuneCommand,
    "evaluate": compare.EvaluateCommand,
    "compare": compare.CompareCommand,
    "score": score.ScoreCommand,
    "export": export.ExportCommand,
    "serve": score.ServeCommand,
    "judgements": judgements.JudgementsCommand,
    "pipeline": pipeline.app,
    "experiment": experiment.app,
    "show": show.ShowCommand,
    "demo": demo.DemoCommand,
}


class _Root(ShellGroup):
    """All commands, along the road; says what Ctrl-C leaves behind if the command has not."""

    def __init__(self, commands: Mapping[str, Any], **more: Any) -> None:
        super().__init__(commands={name: commands[name] for name in _ROAD}, **more)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print_error(_STOPPED)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `cldrank demo`. Every command explains itself: `cldrank data make --help`.",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"cldrank {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error. Works anywhere in a command."),
) -> None:
    """Unbiased top-k learning to rank from click logs.

    Load features, train, and compare rankers. Exit codes: 0 all went well; 1 the work failed, as on damaged
    data; 2 the call was wrong, as with a path that does not exist; 3 an audit found something blocking, or a comparison
    by clicks that the new ranker is worse (4: no difference; 5: cannot tell); 130 stopped by Ctrl-C.
    """
    del version, debug  # both act before any command runs


for name, entry in _ROAD.items():
    if isinstance(entry, typer.Typer):
        app.add_typer(entry, name=name)
    else:
        add_command(app, entry, derive=simulate.derived_options if name == "simulate" else None)


def main() -> None:
    """Run the command line; every error ends in one or two lines and the right exit code."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    remember_command(app, arguments)
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _stop_again
    warnings.showwarning = _show_warning
    try:
        code = app(args=arguments, prog_name="cldrank", standalone_mode=False)
        sys.stdout.flush()  # here, where it is explained if it fails
        sys.exit(code)
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _discard_output()
        sys.exit(1)
    except KeyboardInterrupt:
        print_error(_STOPPED)
        sys.exit(130)
    except Exception as error:
        if debug and not _is_misspelled_call(error):
            raise
        text, code = _explained(error)
        if text:
            print_error(text)
        sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our warnings in one line; those of other packages are for developers and stay silent."""
    del category, filename, lineno, file, line
    if isinstance(message, CldrankWarning):
        print_warning(as_options(str(message)))


def _terminate(number: int, frame: object) -> None:
    """End as Ctrl-C does, so that temporary files are removed."""
    del frame
    sys.exit(128 + number)


def _stop_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise Ctrl-C or a termination again that arrived inside a destructor or a weak reference's callback.

    Python drops what is raised there, so the command would go on as if nobody had stopped it. An alarm a moment later
    finds the program elsewhere, or comes back here.
    """
    stop = unraisable.exc_value
    if not isinstance(stop, (KeyboardInterrupt, SystemExit)) or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(unraisable)
        return

    def raise_stop(number: int, frame: object) -> None:
        del number, frame
        raise stop

    signal.signal(signal.SIGALRM, raise_stop)
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def _explained(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if _is_misspelled_call(error):
        message = _refused_value(error) or error.format_message().replace(": Value error, ", ": ")  # type: ignore[attr-defined]
        if "unexpected extra argument" in message and "--json" in sys.argv:
            message += "; --json takes no file here, so write `--json > FILE`."
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "cldrank"
        return f"{message}\nTry `{command} --help`." if message else "", 2  # no message: its help was printed
    match error:
        case UsageError():
            return as_options(str(error)), 2
        case CldrankError():
            return as_options(str(error)), 1
        case OSError():
            return f"{error.filename or _nameless(error)}: {error.strerror or error}.", 1
        case MemoryError():
            return "there is not enough memory for this.", 1
        case typer.Abort():
            return "stopped.", 130
        case _:
            fault = f"{type(error).__name__}: {error}"
            return f"a fault in cldrank itself ({fault}). Please report it, with what --debug shows.", 1


def _refused_value(error: Any) -> str:
    """What is wrong with a number or a word that an option was given, in words of our own; otherwise nothing."""
    faults = error.__cause__.errors() if hasattr(error.__cause__, "errors") else [{"msg": ""}]
    _, should_be, wanted = faults[0]["msg"].partition("Input should be ")
    if not should_be:
        return ""
    for theirs, ours in _WORDS.items():
        wanted = wanted.replace(theirs, ours)
    given = str(faults[0]["input"])
    shown = given if wanted.startswith("at ") else repr(given)
    share = given.removesuffix("%").strip()
    advice = f"; write {int(share) / 100:g}" if given.endswith("%") and share.isdigit() else ""
    return f"{max(error.param.opts, key=len)} must be {wanted.partition(', unable')[0]}, not {shown}{advice}."


def _nameless(error: OSError) -> str:
    """What an error without a file name is about."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__"))
    if module in ("cldrank.cli.output", "json") or module.startswith(("rich.", "click.", "typer.")):
        _discard_output()
        return "standard output cannot be written"
    return "reading or writing failed (--debug shows where)"


def _discard_output() -> None:
    """Write nothing more to standard output, not even when Python flushes it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_misspelled_call(error: Exception) -> bool:
    """Whether the parser of the command line raised it, for an unknown command or option, a missing or bad value."""
    return hasattr(error, "format_message")  # the class itself has no public name in typer
