"""The command line: parses, calls the library, prints. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from typing import TextIO

import click

from cldrank._version import __version__

from cldrank.cli import (  # isort: skip
    clicks, compare, data, demo, distil, experiment, export, features, judgements, online,
    pipeline, propensity, score, show, simulate, train, tune,
)  # fmt: skip
from cldrank.cli.commands import Option, ShellCommand, ShellGroup
from cldrank.cli.option_names import as_options
from cldrank.cli.output import print_error, print_warning
from cldrank.errors import CldrankError, CldrankWarning, UsageError

_STOPPED = "stopped; nothing half-written is left behind."


class _Root(ShellGroup):
    """All commands; says what Ctrl-C leaves behind if the command has not."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print_error(_STOPPED)
            raise click.exceptions.Exit(130) from None


def _show_version(ctx: click.Context, _: object, value: bool) -> None:
    if value:
        click.echo(f"cldrank {__version__}")
        ctx.exit()


app = _Root(
    """Unbiased top-k learning to rank from click logs.

    Load features, train, and compare rankers. Exit codes: 0 all went well; 1 the work failed, as on damaged
    data; 2 the call was wrong, as with a path that does not exist; 3 an audit found something blocking, or a comparison
    by clicks that the new ranker is worse (4: no difference; 5: cannot tell); 130 stopped by Ctrl-C.
    """,
    {  # in the order of use
        "data": data.app,
        "clicks": clicks.app,
        "features": features.app,
        "propensity": propensity.app,
        "simulate": ShellCommand(simulate.SimulateCommand, simulate.derived_options),
        "train": train.app,
        "distil": ShellCommand(distil.DistilCommand, distil.derived_options),
        "tune": ShellCommand(tune.TuneCommand),
        "evaluate": ShellCommand(compare.EvaluateCommand),
        "compare": ShellCommand(compare.CompareCommand),
        "score": ShellCommand(score.ScoreCommand),
        "export": ShellCommand(export.ExportCommand),
        "serve": ShellCommand(score.ServeCommand),
        "online": online.app,
        "judgements": ShellCommand(judgements.JudgementsCommand),
        "pipeline": pipeline.app,
        "experiment": experiment.app,
        "show": ShellCommand(show.ShowCommand),
        "demo": ShellCommand(demo.DemoCommand),
    },
    params=[
        Option(
            ["--version"],
            "Show the version and exit.",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
        ),
        # `main` takes it out of the arguments before they are parsed
        Option(["--debug"], "Show the traceback of an error. Works anywhere in a command.", is_flag=True),
    ],
    callback=lambda **_: None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `cldrank demo`. Every command explains itself: `cldrank data make --help`.",
)


def main() -> None:
    """Run the command line; errors end in a line or two, and in the right exit code."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
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
    except (KeyboardInterrupt, click.exceptions.Abort):
        print_error(_STOPPED)
        sys.exit(130)
    except Exception as error:
        if debug and not isinstance(error, click.ClickException):
            raise
        text, code = _explained(error)
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
    """Print our warnings, a line each; those of other packages are for developers and stay silent."""
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
    if isinstance(error, click.UsageError):
        message = error.format_message()
        if "unexpected extra argument" in message and "--json" in sys.argv:
            message += "; --json takes no file here, so write `--json > FILE`."
        command = "cldrank" if error.ctx is None else error.ctx.command_path
        return f"{message}\nTry `{command} --help`.", 2
    match error:
        case UsageError():
            return as_options(str(error)), 2
        case CldrankError():
            return as_options(str(error)), 1
        case OSError():
            return f"{error.filename or _nameless(error)}: {error.strerror or error}.", 1
        case MemoryError():
            return "there is not enough memory for this.", 1
        case _:
            fault = f"{type(error).__name__}: {error}"
            return f"a fault in cldrank itself ({fault}). Please report it, with what --debug shows.", 1


def _nameless(error: OSError) -> str:
    """What an error without a file name is about."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__"))
    if module in ("cldrank.cli.output", "json") or module.startswith(("rich.", "click.")):
        _discard_output()
        return "standard output cannot be written"
    return "reading or writing failed (--debug shows where)"


def _discard_output() -> None:
    """Write nothing more to standard output, not even when Python flushes it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
