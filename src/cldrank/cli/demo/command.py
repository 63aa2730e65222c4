"""The command: what it may be asked for, what it refuses, and the steps in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cldrank._version import __version__
from cldrank.cli import options
from cldrank.cli.output import Story, print_json
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.files import make_folder, save_text

_MARK = ".cldrank-demo"  # says that all files here are a demo's, and of which
_EXTRAS = {"torch": ("PyTorch", "neural"), "xgboost": ("XGBoost", "trees")}


def demo(
    out: Annotated[Path, options.spelled("--out -o FOLDER", "Where to leave data, logs, rankers and pages.")] = Path(
        "demo"
    ),
    queries: Annotated[
        int,
        options.spelled(
            "--n-queries -n", "How many queries to train on; half as many to test on.", min=100, max=100_000
        ),
    ] = 1000,
    seeds: Annotated[
        int, options.spelled("--seeds", "How often the methods are compared, on clicks anew.", min=1, max=10_000)
    ] = 3,
    linear: Annotated[
        bool, options.spelled("--linear", "Only linear methods: quicker, without PyTorch and XGBoost.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """A week's work in three minutes: log, audit, propensities, training, a verdict without labels, export, report.

    All data are synthetic. Every step shows the commands that do the same. Called again, a demo that was stopped does
    not repeat the fits of its experiment.
    """
    from cldrank.cli.demo.steps import Steps

    _check_installed(linear)
    options.check_folder(out)
    make_folder(out)
    _take_place(out, {"queries": queries, "linear": linear, "version": __version__})
    steps = Steps(Story(quiet=as_json), out, queries, seeds, linear)
    for step in (
        steps.log,
        steps.audit,
        steps.propensities,
        steps.methods,
        steps.training,
        steps.verdict,
        steps.export,
        steps.report,
    ):
        steps.facts |= step()
    steps.next_steps()
    if as_json:
        print_json({"out": str(out), **steps.facts})


def _check_installed(linear: bool) -> None:
    from importlib.util import find_spec

    missing = [] if linear else [named for module, named in _EXTRAS.items() if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"networks and boosted trees need {' and '.join(name for name, _ in missing)}: pip install "
            f"'cldrank[{','.join(extra for _, extra in missing)}]', or see the "
            "linear methods alone: cldrank demo --linear."
        )


def _take_place(out: Path, wanted: dict[str, Any]) -> None:
    """Mark the folder as this demo's; refuse to overwrite what others left there, or a demo of other settings."""
    mark = out / _MARK
    if mark.is_file():
        if mark.read_text(encoding="utf-8") != _marked(wanted):
            raise UsageError(f"{out} holds a demo of other settings; delete it, or name another folder with `out`.")
        return
    if taken := sorted(path.name for path in out.iterdir()):
        raise UsageError(f"{out} holds {taken[0]}, which no demo has left there; name another folder with `out`.")
    save_text(mark, _marked(wanted))


def _marked(wanted: dict[str, Any]) -> str:
    return json.dumps(wanted, indent=2) + "\n"
