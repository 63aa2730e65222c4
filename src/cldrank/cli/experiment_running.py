"""Running experiments from the command line: what is missing, under a bar with the time left."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from cldrank.cli.output import messages, say, working

if TYPE_CHECKING:
    from cldrank.experiment.definition import Experiment
    from cldrank.experiment.forecast import Forecast
    from cldrank.experiment.runner import Plan, Progress, Report


class Prepared(NamedTuple):
    """A run that can begin: what is missing, how long it may take, in how many processes of how many threads."""

    plan: Plan
    forecast: Forecast
    processes: int
    threads: int


def prepare(
    wanted: Sequence[Experiment],
    folder: Path,
    *,
    jobs: int | None = None,
    memory: int | None = None,
    retry_failed: bool = False,
) -> Prepared:
    """See what is missing in a folder."""
    from cldrank.experiment import runner

    with working("planning …"):
        plan = runner.plan(wanted, folder, retry_failed=retry_failed)
        forecast, bytes_each = _forecast(wanted, plan, folder)
    return Prepared(plan, forecast, *runner.parallel(len(plan.todo), bytes_each, jobs=jobs, memory=memory))


def carry_out(prepared: Prepared, folder: Path) -> Report:
    """Compute what is missing, under a bar with the time left; whatever stops it, what is finished is kept."""
    from cldrank.experiment import runner

    plan, forecast, processes, threads = prepared
    _say_what_is_left(plan, forecast, processes)
    try:
        with _bar(len(plan.todo)) as report:
            return runner.run(
                plan,
                folder,
                jobs=processes,
                threads=threads,
                command=shlex.join(["cldrank", *sys.argv[1:]]),
                progress=report,
                forecast=forecast,
            )
    except KeyboardInterrupt:
        say("stopped; what is finished is kept, and the same call goes on from there")
        raise typer.Exit(130) from None


def duration(seconds: float) -> str:
    """A time in the unit that fits it.

    >>> duration(40), duration(200), duration(9000)
    ('40 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _forecast(wanted: Sequence[Experiment], plan: Plan, folder: Path) -> tuple[Forecast, int]:
    """How long what is missing may take, and the bytes of a process."""
    from cldrank.experiment import results
    from cldrank.experiment.forecast import forecast, size

    folds = dict.fromkeys(found[0].fold for found in plan.todo.values())
    first_of_each = {fold.data: fold for fold in reversed(folds)}.values()
    sizes = [size(fold) for fold in first_of_each] or [(0, 0)]
    recorded = results.read(folder).to_pylist() if plan.finished or plan.known else []
    made = forecast(wanted, plan.todo, max(values for values, _ in sizes), recorded)
    return made, max(taken for _, taken in sizes)


def _say_what_is_left(plan: Plan, forecast: Forecast, processes: int) -> None:
    if plan.finished or plan.known:
        say(f"{plan.finished + len(plan.known):,} of {len(plan.units):,} units are finished already")
    if plan.todo:
        at_once = f"{processes} at a time" if processes > 1 else "one after the other"
        fits = f"{len(plan.todo):,} fit{'s' if len(plan.todo) > 1 else ''}"
        say(f"{fits}, {at_once}, roughly {duration(forecast.seconds(processes))}")


@contextmanager
def _bar(total: int) -> Iterator[Any]:
    """A progress bar with the time left, as the runner reckons it: methods differ too much for a plain average."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    if not total:
        yield None
        return
    columns = (TextColumn("fits"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    with Bar(*columns, console=messages) as bar:
        task = bar.add_task("", total=total, told="")

        def update(state: Progress) -> None:
            left = (
                ""
                if math.isnan(state.seconds_left) or state.done == state.total
                else f"{duration(state.seconds_left)} left"
            )
            failed = f"{state.failed} failed" if state.failed else ""
            bar.update(task, completed=state.done, told=", ".join(filter(None, (left, failed, state.last))))

        yield update
