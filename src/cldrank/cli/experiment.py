"""`cldrank experiment`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.output import console, counting, print_json, print_line, print_table, say, working
from cldrank.errors import CldrankError
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.experiment.experiment_file import Experiment
    from cldrank.experiment.units import Plan, Progress

_EVERYTHING = "all"
_FOLDER = "The folder that `run` left its results in."


@declared
class ExperimentListCommand(options.JsonOutput):
    """List the experiments that come with cldrank: what varies in each, and how many units it has.

    A unit is a fit and its evaluation: a setting, a method, a seed.
    """

    def run(self) -> None:
        """Print a line for each experiment."""
        from cldrank.experiment.experiment_file import shipped

        entries = [_described(experiment) for experiment in shipped()]
        if self.as_json:
            print_json(entries)
            return
        rows = [(entry["name"], entry["title"], entry["settings"], entry["seeds"], entry["units"]) for entry in entries]
        print_table("", ("name", "title", "settings", "seeds", "units"), rows)
        console.print("`cldrank experiment run NAME`, or `all` of them; units count for each fold.", style="dim")


@declared
class ExperimentRunCommand(options.JsonOutput):
    """Run an experiment. Finished fits never run again, so the same call continues after a stop.

    An experiment file is a program: a `module:Class` in it is imported and run. Read a stranger's file first.

    Example: `cldrank experiment run table1 --data web10k-like --set data.queries=2000 --seeds 3`
    """

    experiment: str = argument("NAME|FILE.toml", "A shipped experiment, `all`, or a file of your own.")
    out: Path | None = option("-o FOLDER", "Where results go.  [default: experiments/NAME]")
    data: str | None = option(
        "NAME",
        "The data: a set that `cldrank data list` shows (`mq2008`, or a fold, `mq2008:fold1`), a synthetic "
        "kind (`web10k-like`, `yahoo-like`), or a folder with train and test files.",
    )
    change: list[str] | None = option("--set KEY=VALUE", "Change anything in the file: `--set simulation.noise=0.2`.")
    seeds: int | None = option("INTEGER", "The number of seeds.", min=1)
    method: list[str] | None = option("METHOD", "Only these methods, by label or name; repeatable.")
    device: str | None = option("TEXT", "`cuda` trains on a GPU where a method can.")
    jobs: int | None = option("-j INTEGER", "Processes at a time.  [default: one per core]", min=1)
    dry_run: bool = option("", "Only show what would be run.", False)

    def run(self) -> None:
        """Run what is missing, and print the results of all."""
        from cldrank.experiment.experiment_file import SHIPPED, read
        from cldrank.experiment.units import plan
        from cldrank.host import available_cores

        names = SHIPPED if self.experiment == _EVERYTHING else (self.experiment,)
        changes = [*(self.change or ()), *([f"device={json.dumps(self.device)}"] if self.device else [])]
        chosen: dict[str, Any] = {"data": self.data, "changes": changes, "seeds": self.seeds}
        wanted = [read(name, **chosen, methods=self.method or ()) for name in names]
        folder = self.out or Path("experiments") / Path(self.experiment).stem
        options.check_folder(folder)
        with working("planning …"):
            planned = plan(wanted, folder)
        cores = available_cores()
        processes, threads = max(min(self.jobs or cores, len(planned.todo)), 1), max(cores // (self.jobs or cores), 1)
        if self.dry_run:
            _print_plan(planned, processes, self.as_json)
            return
        done = _ran(planned, processes, threads)
        _print_results(folder, self.as_json)
        if done.failed:
            reasons = "".join(f"\n  {error}" for error in done.errors[:5])
            raise CldrankError(f"{count(done.failed, 'fit')} failed; the same call tries again.{reasons}")


def _ran(planned: Plan, processes: int, threads: int) -> Progress:
    """Compute missing results under a bar with the time left; finished results are kept, however it ends."""
    from cldrank.experiment.units import run as run_units

    if planned.finished:
        say(f"{planned.finished:,} of {len(planned.units):,} units are finished already")
    with counting("fits", len(planned.todo), shown=bool(planned.todo)) as update:

        def show(state: Progress) -> None:
            failed = f", {state.failed} failed" if state.failed else ""
            if update is not None:
                update(state.done, f"fits{failed}: {state.last}")

        try:
            return run_units(planned, jobs=processes, threads=threads, progress=show)
        except KeyboardInterrupt:
            say("stopped; finished results are kept, and the same call continues from there")
            raise click.exceptions.Exit(130) from None


@declared
class ExperimentReportCommand:
    """Write a report on the results of `run`: a page that needs no other file.

    Example: `cldrank experiment report experiments/table1`
    """

    folder: Path = argument("FOLDER", _FOLDER)
    out: Path | None = option("-o PATH", "Where to write it.  [default: in FOLDER]")

    def run(self) -> None:
        """Write the report, and say where."""
        from cldrank.experiment import save_report

        folder, out = self.folder, self.out
        if out is not None and not out.is_dir():
            options.check_folder(out.parent)
            if out.parent.is_dir():
                read = [folder] if folder.is_file() else [folder / "results.parquet", folder / "tasks"]
                options.check_outputs([out], read)
        with working("writing …"):
            path = save_report(folder, out or folder)
        tell = say if path.exists() and not path.is_file() else print_line  # a pipe, perhaps standard output itself
        tell(f"wrote {path}")


app = group_of(
    "Run the paper's experiments or your own: simulate clicks, train, measure, over and over, and report.",
    ExperimentListCommand,
    ExperimentRunCommand,
    ExperimentReportCommand,
)


# -- what is printed ---------------------------------------------------------------------------------------------


def _described(experiment: Experiment) -> dict[str, Any]:
    settings = len(experiment.settings())
    return {
        "name": experiment.name,
        "title": experiment.title,
        "varies": {key: list(values) for key, values in experiment.vary.items()},
        "methods": [method.label for method in experiment.methods],
        "settings": settings,
        "seeds": len(experiment.seeds),
        "units": settings * len(experiment.methods) * len(experiment.seeds),
    }


def _print_plan(plan: Plan, processes: int, as_json: bool) -> None:
    if as_json:
        counts = {"units": len(plan.units), "finished": plan.finished, "fits": len(plan.todo), "processes": processes}
        print_json({"out": str(plan.folder), **counts})
        return
    print_line(
        f"{len(plan.units):,} units, {plan.finished:,} finished; {len(plan.todo):,} fits to do in {processes} at a "
        f"time; results go to {plan.folder}"
    )


def _print_results(folder: Path, as_json: bool) -> None:
    from cldrank.documents import Document, Paragraph, render_terminal
    from cldrank.experiment.report import TABLE_NOTE, sections, tables
    from cldrank.experiment.results import load_results, summary

    results = load_results(folder)
    if as_json:
        print_json({"out": str(folder), "results": [cell.as_dict() for cell in summary(results)]})
        return
    for section in sections(results):  # where something varies, one measure stands for all
        measure = section.measures[min(1, len(section.measures) - 1)]
        shown = [table for table in tables(section) if not section.across or table.title.startswith(measure)]
        render_terminal(Document(section.title, [*shown, Paragraph(TABLE_NOTE, quiet=True)]), console)
    print_line(f"results: {folder / 'results.parquet'}")
    print_line(f"a page to look at: cldrank experiment report {folder}")
