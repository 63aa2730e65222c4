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
from cldrank.wording import count, duration

if TYPE_CHECKING:
    from cldrank.experiment.definition import Experiment
    from cldrank.experiment.forecast import Forecast
    from cldrank.experiment.plan import Plan
    from cldrank.experiment.runner import Progress, RunReport


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
    """Find out what is missing in a folder, and how long it may take."""
    from cldrank.experiment.forecast import parallel
    from cldrank.experiment.plan import plan

    with working("planning …"):
        planned = plan(wanted, folder, retry_failed=retry_failed)
        forecast, bytes_each = _forecast(wanted, planned, folder)
    return Prepared(planned, forecast, *parallel(len(planned.todo), bytes_each, jobs=jobs, memory=memory))


def carry_out(prepared: Prepared, folder: Path) -> RunReport:
    """Compute what is missing, under a bar with the time left; whatever stops it, finished results are kept."""
    from cldrank.experiment.runner import run

    plan, forecast, processes, threads = prepared
    _say_what_is_left(plan, forecast, processes)
    try:
        with _bar(len(plan.todo)) as report:
            return run(
                plan,
                folder,
                jobs=processes,
                threads=threads,
                command=shlex.join(["cldrank", *sys.argv[1:]]),
                progress=report,
                forecast=forecast,
            )
    except KeyboardInterrupt:
        say("stopped; finished results are kept, and the same call continues from there")
        raise typer.Exit(130) from None


def _forecast(wanted: Sequence[Experiment], plan: Plan, folder: Path) -> tuple[Forecast, int]:
    """How long what is missing may take, and the memory of a process in bytes."""
    from cldrank.experiment.forecast import forecast, size
    from cldrank.experiment.records import load_results

    folds = dict.fromkeys(found[0].fold for found in plan.todo.values())
    first_of_each = {fold.data: fold for fold in reversed(folds)}.values()
    sizes = [size(fold) for fold in first_of_each] or [(0, 0)]
    recorded = load_results(folder).to_pylist() if plan.finished or plan.known else []
    made = forecast(wanted, plan.todo, max(values for values, _ in sizes), recorded)
    return made, max(taken for _, taken in sizes)


def _say_what_is_left(plan: Plan, forecast: Forecast, processes: int) -> None:
    if plan.finished or plan.known:
        say(f"{plan.finished + len(plan.known):,} of {len(plan.units):,} units are finished already")
    if plan.todo:
        at_once = f"{processes} at a time" if processes > 1 else "one after the other"
        say(f"{count(len(plan.todo), 'fit')}, {at_once}, roughly {duration(forecast.seconds(processes))}")


@contextmanager
def _bar(total: int) -> Iterator[Any]:
    """A progress bar with the time left as forecast by method: methods differ too much for a plain average."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    if not total:
        yield None
        return
    columns = (TextColumn("fits"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    with Bar(*columns, console=messages) as bar:
        task = bar.add_task("", total=total, note="")

        def update(state: Progress) -> None:
            known = not math.isnan(state.seconds_left) and state.done < state.total
            left = f"{duration(state.seconds_left)} left" if known else ""
            failed = f"{state.failed} failed" if state.failed else ""
            bar.update(task, completed=state.done, note=", ".join(filter(None, (left, failed, state.last))))

        yield update
