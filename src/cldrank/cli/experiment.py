"""`cldrank experiment`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.experiment_running import carry_out, prepare
from cldrank.cli.output import (
    add_row,
    console,
    fits,
    new_table,
    print_json,
    print_line,
    print_title,
    print_wide,
    say,
    working,
)
from cldrank.errors import CldrankError, UsageError
from cldrank.wording import duration

if TYPE_CHECKING:
    from cldrank.experiment.definition import Experiment
    from cldrank.experiment.forecast import Forecast
    from cldrank.experiment.plan import Plan
    from cldrank.experiment.results import Contrast, Summary

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Run the paper's experiments or your own: simulate clicks, train, measure, over and over, and report.",
)

_EVERYTHING = "all"
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Format(StrEnum):
    """What a report can be written as."""

    html = "html"
    md = "md"
    csv = "csv"
    latex = "latex"
    png = "png"


Source = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE.toml", help="A shipped experiment, `all`, or a file of your own.", show_default=False
    ),
]
Out = Annotated[Path | None, options.spelled("--out -o FOLDER", "Where results go.  [default: experiments/NAME]")]
DataName = Annotated[
    str | None,
    options.spelled(
        "--data NAME",
        "The data: a set that `cldrank data list` shows (`mq2008`, or one fold, `mq2008:fold1`), a synthetic "
        "kind (`web10k-like`, `yahoo-like`), or a folder with train and test files.",
    ),
]
Changes = Annotated[
    list[str] | None, options.spelled("--set KEY=VALUE", "Change anything in the file: `--set simulation.noise=0.2`.")
]
Seeds = Annotated[int | None, options.spelled("--seeds", "The number of seeds.", min=1)]
Methods = Annotated[
    list[str] | None,
    options.spelled(
        "--method -m METHOD", "Only these methods. `module:Class` adds a class of yours, with `fit` and `predict`."
    ),
]
Device = Annotated[str | None, options.spelled("--device", "`cuda` to train on a GPU what can be trained there.")]
Jobs = Annotated[int | None, options.spelled("--jobs -j", "Processes at a time.  [default: one per core]", min=1)]
Memory = Annotated[
    str | None,
    options.spelled("--memory SIZE", "Start no more processes than fit into this: `8GiB`.  [default: ¾ of free]"),
]
RetryFailed = Annotated[bool, options.spelled("--retry-failed", "Try failed units again.")]
DryRun = Annotated[bool, options.spelled("--dry-run", "Only show what would be run, and estimate the time.")]
Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder that `run` left its results in.", show_default=False)
]


@app.command("list")
def list_experiments(as_json: options.Json = False) -> None:
    """List the experiments that come with cldrank: what varies in each, and how many units it has.

    A unit is one fit and its evaluation: a setting, a method, a seed.
    """
    from cldrank.experiment.definition import shipped

    found = [_described(experiment) for experiment in shipped()]
    if as_json:
        print_json(found)
        return
    table = new_table("name", "varies", "settings", "methods", "seeds", "units")
    for entry in found:
        varies = "; ".join(f"{key.partition('.')[2]} {_span(values)}" for key, values in entry["varies"].items())
        counts = (entry["settings"], len(entry["methods"]), entry["seeds"], entry["units"])
        table.add_row(entry["name"], varies or "–", *map(str, counts))
    console.print(table)
    console.print("`cldrank experiment run NAME`, or `all` of them; units count for each fold.", style="dim")


@app.command()
def run(
    experiment: Source,
    out: Out = None,
    data: DataName = None,
    change: Changes = None,
    seeds: Seeds = None,
    method: Methods = None,
    device: Device = None,
    jobs: Jobs = None,
    memory: Memory = None,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment. What is finished is never run again, so the same call continues where it was stopped.

    An experiment file is a program: a `module:Class` in it is imported and run. Read a stranger's before you run it.

    Example: `cldrank experiment run table1 --data web10k-like --set data.queries=2000 --seeds 3`
    """
    from cldrank.experiment.definition import SHIPPED, read

    limit = None if memory is None else _bytes(memory)
    names = SHIPPED if experiment == _EVERYTHING else (experiment,)
    changes = [*(change or ()), *([f"device={json.dumps(device)}"] if device else [])]
    asked = dict.fromkeys(names, method or [])
    if experiment == _EVERYTHING and method:
        asked = _asked_of_each(method)
    wanted = [read(name, data=data, changes=changes, seeds=seeds, methods=own) for name, own in asked.items()]
    folder = out or Path("experiments") / Path(experiment).stem
    options.check_folder(folder)
    prepared = prepare(wanted, folder, jobs=jobs, memory=limit, retry_failed=retry_failed)
    plan = prepared.plan
    if dry_run:
        _print_plan(plan, prepared.forecast, prepared.processes, folder, as_json)
        return
    done = carry_out(prepared, folder)
    _print_results(wanted, folder, as_json)
    failed = done.failed + plan.failed
    if failed:
        reasons = "".join(f"\n  {error}" for error in done.errors[:5])
        hint = "" if done.failed else " before; --retry-failed tries them again"
        raise CldrankError(f"{failed} of {len(plan.units)} units failed{hint}.{reasons}")


def _asked_of_each(methods: list[str]) -> dict[str, list[str]]:
    """By shipped experiment, those of the methods that it has, or that none has; one left without any is left out."""
    from cldrank.experiment.definition import shipped

    known = {
        one.name: {name.casefold() for entry in one.methods for name in (entry.label, entry.use)} for one in shipped()
    }
    somewhere = set().union(*known.values())
    own = {
        name: [method for method in methods if method.casefold() in has or method.casefold() not in somewhere]
        for name, has in known.items()
    }
    return {name: chosen for name, chosen in own.items() if chosen}


@app.command()
def compare(
    folder: Folder,
    first: Annotated[str, typer.Argument(metavar="A", help="A method, by its label.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="The method to compare it with.", show_default=False)],
    as_json: options.Json = False,
) -> None:
    """Compare two methods, setting by setting, with a paired t-test over seeds: first minus second.

    Example: `cldrank experiment compare experiments/table1 CLD IPS`
    """
    from dataclasses import asdict

    from cldrank.experiment.records import load_results
    from cldrank.experiment.results import contrasts

    found = contrasts(load_results(folder), first, second)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    for name, data in dict.fromkeys((one.experiment, one.data) for one in found):
        print_title(f"{first} minus {second}: {name} on {data}")
        _print_contrasts([one for one in found if (one.experiment, one.data) == (name, data)])


@app.command()
def report(
    folder: Folder,
    out: Annotated[Path | None, options.spelled("--out -o PATH", "Where to write it.  [default: in FOLDER]")] = None,
    form: Annotated[Format, options.spelled("--format -f", "As what.")] = Format.html,
) -> None:
    """Write a report on the results of `run`: one HTML page, or a table as Markdown, CSV or LaTeX, or pictures.

    Example: `cldrank experiment report experiments/table1`
    """
    from cldrank.report import save_report

    if out is not None and not out.is_dir():
        options.check_folder(out.parent)
        if out.parent.is_dir():
            read = [folder] if folder.is_file() else [folder / "results.parquet", folder / "results"]
            options.check_outputs([out], read)
    with working("writing …"):
        written = save_report(folder, out or folder, str(form))
    for path in written:
        if path.exists() and not path.is_file():  # a pipe, perhaps standard output itself
            say(f"wrote {path}")
        else:
            print_line(f"wrote {path}")


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


def _span(values: Sequence[Any]) -> str:
    texts = [f"{value:,.15g}" for value in values]
    return ", ".join(texts) if len(texts) < 4 else f"{texts[0]} … {texts[-1]}"


def _print_plan(plan: Plan, forecast: Forecast, processes: int, folder: Path, as_json: bool) -> None:
    todo = {unit.place for found in plan.todo.values() for unit in found}
    seconds = forecast.seconds(processes)
    if as_json:
        keys = ("experiment", "data", "fold", "setting", "method", "seed")
        listed = [
            {**dict(zip(keys, unit.place, strict=True)), "unit": unit.key, "to_run": unit.place in todo}
            for unit in plan.units
        ]
        pieces = {"units": listed, "fits": len(plan.todo), "processes": processes, "seconds": seconds}
        print_json({"out": str(folder), **pieces})
        return
    table = new_table("experiment", "data", "setting", "method", "units", "to run")
    rows: dict[tuple[str, ...], list[bool]] = {}
    for unit in plan.units:
        rows.setdefault((unit.experiment, unit.fold.data, unit.setting, unit.method), []).append(unit.place in todo)
    names = _named(setting for _, _, setting, _ in rows)
    for (name, data, setting, method), missing in rows.items():
        add_row(table, name, data, names[setting], method, str(len(missing)), str(sum(missing)))
    console.print(table)
    print_line(
        f"{len(plan.units):,} units, {plan.finished + len(plan.known):,} finished; {len(plan.todo):,} fits to do in "
        f"{processes} at a time, roughly {duration(seconds)}; results go to {folder}"
    )


def _print_contrasts(found: Sequence[Contrast]) -> None:
    names = _named(one.setting for one in found)
    table = new_table("setting", "measure", "first", "second", "difference,\n90% interval", "p", "won")
    for one in found:
        interval = one.interval
        add_row(
            table,
            names[one.setting],
            one.measure,
            f"{one.first:.4f}",
            f"{one.second:.4f}",
            f"{interval.estimate:+.4f} ± {interval.high - interval.estimate:.4f}",
            f"{one.p_value:.2g}",
            f"{one.wins}/{interval.n}",
        )
    console.print(table)


def _print_results(wanted: Sequence[Experiment], folder: Path, as_json: bool) -> None:
    from cldrank.experiment.records import load_results
    from cldrank.experiment.results import summary

    names = {experiment.name for experiment in wanted}
    found = [one for one in summary(load_results(folder)) if one.experiment in names]
    if as_json:
        print_json({"out": str(folder), "results": [one.as_dict() for one in found]})
        return
    for name, data in dict.fromkeys((one.experiment, one.data) for one in found):
        here = [one for one in found if (one.experiment, one.data) == (name, data)]
        described = f"{data} (synthetic)" if here[0].synthetic else data
        print_title(f"{name} on {described}")
        print_table(here)
    if any(one.seeds > 1 for one in found):
        legend = "mean over seeds ± half of its 90% interval; * best or tied of those that see no labels"
        console.print(legend, style="dim")
    else:
        console.print("one seed: no intervals, and no method is called best", style="dim")
    console.print("gap: the share of the gap between Naive and Oracle that is closed", style="dim")
    print_line(f"results: {folder / 'results.parquet'}")
    print_line(f"a page to look at: cldrank experiment report {folder}")


def print_table(found: Sequence[Summary]) -> None:
    """One setting: a row per method, a column per measure. Several: a row per setting, a column per method."""
    measures = list(dict.fromkeys(one.measure for one in found))
    methods = list(dict.fromkeys(one.method for one in found))
    settings = list(dict.fromkeys(one.setting for one in found))
    cells = {(one.setting, one.method, one.measure): one for one in found}
    if len(settings) == 1:
        rows = []
        for method in methods:
            each = [cells.get((settings[0], method, measure)) for measure in measures]
            rows.append((method, [*map(_cell, each), _gap(each[-1]), _seconds(each[0])]))
        print_wide("method", rows, [*measures, f"gap, {measures[-1]}", "seconds"])
        return
    measure = measures[min(1, len(measures) - 1)]
    names = _named(settings)
    for intervals in (True, False):
        rows = [
            (names[setting], [_cell(cells.get((setting, method, measure)), intervals) for method in methods])
            for setting in settings
        ]
        table = new_table(measure, *methods)
        for name, row in rows:
            add_row(table, name, *row)
        if fits(table):
            break
    if not intervals:
        console.print("means alone; a wider terminal shows the intervals too, as the report does", style="dim")
    print_wide(measure, rows, methods)


def _gap(one: Summary | None) -> str:
    return "–" if one is None or math.isnan(one.gap) else f"{one.gap:.0%}"


def _seconds(one: Summary | None) -> str:
    return "–" if one is None or math.isnan(one.seconds) else f"{one.seconds:.1f}"


def _cell(one: Summary | None, intervals: bool = True) -> str:
    if one is None:
        return ""
    if math.isnan(one.mean):
        return "failed"
    half = "" if math.isnan(one.low) or not intervals else f"±{one.mean - one.low:.3f}"
    return f"{one.mean:.3f}{half}{'*' if one.best or one.tied else ' '}"


def _named(settings: Iterable[str]) -> dict[str, str]:
    """Settings to read: the last part of each key and its value, or the whole key if two would look the same.

    >>> _named(['{"simulation.noise": 0.1}']), _named(['{"methods.A.l2": 1}', '{"methods.B.l2": 1}'])
    ({'{"simulation.noise": 0.1}': 'noise 0.1'},
     {'{"methods.A.l2": 1}': 'methods.A.l2 1', '{"methods.B.l2": 1}': 'methods.B.l2 1'})
    """
    varied = {text: json.loads(text) for text in settings}
    found = {text: _in_words(chosen, short=True) for text, chosen in varied.items()}
    if len(set(found.values())) < len(found) or any(_repeats(chosen) for chosen in varied.values()):
        return {text: _in_words(chosen, short=False) for text, chosen in varied.items()}
    return found


def _in_words(chosen: dict[str, Any], *, short: bool) -> str:
    return ", ".join(f"{key.rpartition('.')[2] if short else key} {value}" for key, value in chosen.items()) or "–"


def _repeats(chosen: dict[str, Any]) -> bool:
    return len({key.rpartition(".")[2] for key in chosen}) < len(chosen)


def _bytes(text: str) -> int:
    """A size in bytes.

    >>> _bytes("8GiB") == _bytes("8G") == 8 * 1024**3
    True
    """
    form = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", text.lower())
    if form is None or not float(form[1]):
        raise UsageError(f"--memory {text!r} is not a size; write 8GiB or 512MiB.")
    return int(float(form[1]) * _UNITS[form[2]])
