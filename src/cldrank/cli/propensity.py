"""`cldrank propensity`: how likely each position is looked at, from a log."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cldrank.cli import options
from cldrank.cli.output import console, print_json, say
from cldrank.cli.propensity_methods import WAYS, Estimation, Method, Shape, Source, best_choice, compared, load_features
from cldrank.cli.propensity_output import (
    as_dict,
    choice_as_dict,
    comparison_as_dict,
    curve_of,
    load,
    print_comparison,
    print_found,
    print_segments,
    say_choice,
)
from cldrank.errors import UnidentifiableError, UsageError
from cldrank.files import replacing

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import Comparison

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Estimate how likely each position is looked at, with intervals, or hear why a log cannot tell.",
)


Depth = Annotated[
    int | None, typer.Option("--depth", min=2, help="Estimate only so many positions from the top.", show_default=False)
]
Replicates = Annotated[
    int | None, typer.Option("--replicates", min=20, help="How often the log is resampled (400).", show_default=False)
]
Candidates = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        "-f",
        metavar="FILE",
        help="The candidates: only these are counted, and methods that model relevance see their features.",
    ),
]
Chart = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the curves into this SVG file.")]


@app.command()
def estimate(
    log: options.LogFiles,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The JSON file to write, for `--propensity`.", show_default=False
        ),
    ],
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            help="`auto`: the most reliable that the log allows. `randomised`: pages in random order. `logged`: the "
            "log tells the probability of each display. `swap-first`, `swap-neighbours`: results change places on some "
            "pages. `all-pairs`, `adjacent-chain`, `pivot`: several rankers, or one that changes; with these, "
            "`trust-bias` also tells trust in high positions. `regression-em`, `dual-learning`: one ranker; relevance "
            "is modelled by --features, and what these do not know of it counts as position. `click-through`: plain "
            "rates, biased.",
        ),
    ] = Method.auto,
    depth: Depth = None,
    confidence: options.Confidence = 0.9,
    replicates: Replicates = None,
    seed: options.Seed = 0,
    smooth: Annotated[
        Shape | None, typer.Option("--smooth", help="To the nearest curve that falls, or that is a power law.")
    ] = None,
    clip: Annotated[float | None, typer.Option("--clip", help="Raise smaller propensities to this.")] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            "--segment",
            metavar="COLUMN",
            help="Estimate each value of this column of the log by itself, such as devices, the weak ones drawn "
            "towards the mean; each gets a file beside --out, which holds the mean.",
        ),
    ] = None,
    plot: Chart = None,
    features: Candidates = None,
    column: options.LogColumns = None,
    first_position: options.FirstPosition = None,
    one_query: options.OneQuery = False,
    engine: options.EngineName = "duckdb",
    master: options.Master = "local[*]",
    memory_limit: options.MemoryLimit = "3GB",
    as_json: options.Json = False,
) -> None:
    """Estimate propensities with an interval for every position, and write them for `cldrank train`.

    Takes logs as `cldrank clicks aggregate` does, or files of cells. Where the log cannot tell, it says why, and what
    data would be needed; then the exit code is 1, and nothing is written.

    Example: `cldrank propensity estimate logs/ --out rho.json --plot rho.svg`
    """
    _check_chart(plot)
    options.check_outputs([out, plot], [*log, *(features or [])])
    source = Source(log, options.log_columns(column), first_position, one_query, engine, master, memory_limit)
    settings = {"depth": depth, "confidence": confidence, "replicates": replicates, "seed": seed}
    task = Estimation(method, settings, smooth, clip)
    dataset = load_features(features)
    if segment is not None:
        _estimate_segments(task, source, segment, dataset, out, plot, as_json)
        return
    table = source.table(dataset)
    found, choice = task.of(table, source, dataset)
    found.save(out)
    if plot:
        curve_of(found).plot(plot)
    if as_json:
        print_json({**choice_as_dict(choice), **as_dict(found), "out": str(out), "plot": plot and str(plot)})
        return
    say_choice(choice)
    print_found(found)
    console.print(f"wrote {out}{f' and {plot}' if plot else ''}", markup=False, soft_wrap=True)
    _say_next(choice.method, source, features, f"{out}", len(found) if len(found) < table.depth else None)


def _estimate_segments(
    task: Estimation,
    source: Source,
    column: str,
    dataset: RankingDataset | None,
    out: Path,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Estimate by segment; the mean goes to `out`, each segment beside it."""
    from cldrank.propensity.chart import save_chart

    found, choice = task.of_segments(source.segments(column, dataset))
    files = _segment_files(out, list(found))
    options.check_outputs([out, plot, *files.values()], source.log)
    found.pooled.save(out)
    for name, rho in found.items():
        rho.save(files[name])
    if plot:
        save_chart({**found, "mean": found.pooled}, plot)
    if as_json:
        segments = {name: {**as_dict(rho), "out": str(files[name])} for name, rho in found.items()}
        written = {"mean": as_dict(found.pooled), "out": str(out), "plot": plot and str(plot)}
        print_json({**choice_as_dict(choice), "segments": segments, "refusals": dict(found.refusals), **written})
        return
    say_choice(choice)
    print_segments(found)
    names = ", ".join(str(path) for path in files.values())
    console.print(f"wrote {names}, the mean to {out}{f', and {plot}' if plot else ''}", markup=False, soft_wrap=True)
    say("Each file is for clicks of its own segment; for a model of all clicks, estimate without --segment.")


@app.command()
def compare(
    log: options.LogFiles,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the comparison to this JSON file.")
    ] = None,
    plot: Chart = None,
    depth: Depth = None,
    confidence: options.Confidence = 0.9,
    replicates: Replicates = None,
    seed: options.Seed = 0,
    features: Candidates = None,
    column: options.LogColumns = None,
    first_position: options.FirstPosition = None,
    one_query: options.OneQuery = False,
    engine: options.EngineName = "duckdb",
    master: options.Master = "local[*]",
    memory_limit: options.MemoryLimit = "3GB",
    as_json: options.Json = False,
) -> None:
    """Estimate by all methods that apply, side by side, and tell why the others do not.

    Example: `cldrank propensity compare logs/ --plot curves.svg`
    """
    _check_chart(plot)
    options.check_outputs([out, plot], [*log, *(features or [])])
    source = Source(log, options.log_columns(column), first_position, one_query, engine, master, memory_limit)
    dataset = load_features(features)
    table = source.table(dataset)
    settings = {"depth": depth, "confidence": confidence, "replicates": replicates, "seed": seed}
    found = compared(settings, table, source, dataset)
    if not found.estimates:
        raise UnidentifiableError(f"nothing can be estimated from this log: {next(iter(found.refusals.values()))}")
    content = comparison_as_dict(found)
    if out:
        with replacing(out) as temporary:
            temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if plot:
        found.plot(plot)
    if as_json:
        print_json({**content, "out": out and str(out), "plot": plot and str(plot)})
        return
    print_comparison(found)
    _say_best(found, table, depth)
    if out or plot:
        console.print(f"wrote {' and '.join(str(path) for path in (out, plot) if path)}", markup=False)


@app.command()
def show(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files of propensities; the truth beside a simulated log will do, too.",
            show_default=False,
        ),
    ],
    plot: Chart = None,
    as_json: options.Json = False,
) -> None:
    """Show saved propensities with their intervals; several go into one chart.

    Example: `cldrank propensity show rho.json cells.parquet.json --plot both.svg`
    """
    from cldrank.propensity.chart import save_chart

    _check_chart(plot)
    options.check_outputs([plot], files)
    found = {name: load(name) for name in files}
    if plot:
        save_chart({name: curve_of(entry) for name, entry in found.items()}, plot)
    if as_json:
        print_json({name: as_dict(entry) for name, entry in found.items()})
        return
    for name, entry in found.items():
        console.print(name, style="bold", markup=False)
        print_found(entry)
    if plot:
        console.print(f"wrote {plot}", markup=False)


# -- what to do next, and where ------------------------------------------------------------------------------------


def _say_next(method: Method, source: Source, features: list[str] | None, out: str, depth: int | None) -> None:
    """The command that uses what was written; `depth`, if it reaches less far than the log."""
    use = "affine-ips" if WAYS[method].affine else "cld"
    wanted = " ".join(f"--features {shlex.quote(path)}" for path in features or ["FEATURES"])
    clicks = " ".join(f"--clicks {shlex.quote(path)}" for path in source.log)
    for role, name in (source.columns or {}).items():
        clicks += f" --log-column {shlex.quote(f'{role}={name}')}"
    clicks += " --first-position 0" if source.first_position == 0 else ""
    clicks += " --one-query" if source.one_query else ""
    cut = "" if depth is None else f" --depth {depth}"
    say(f"next: cldrank train {use} {wanted} {clicks} --propensity {shlex.quote(out)}{cut} --out ranker/")
    if depth is not None:
        say(f"Positions below {depth} have no propensity; --depth {depth} takes pages as if they ended there.")


def _say_best(found: Comparison, table: ClickTable, depth: int | None) -> None:
    """Which of them `estimate` would choose."""
    try:
        best = best_choice(table, depth)
    except UnidentifiableError:
        if list(found.estimates) == [Method.click_through]:
            say("click-through alone is left, and it takes relevance for examination: do not train with it.")
        return
    if best.method in found.estimates:
        say(f"`cldrank propensity estimate` chooses {best.method}: {best.reason}.")


def _segment_files(out: Path, segments: list[str]) -> dict[str, Path]:
    """A file for each segment, with its name in its own.

    >>> [str(path) for path in _segment_files(Path("rho.json"), ["phone", "Smart TV/4k"]).values()]
    ['rho.phone.json', 'rho.smart-tv-4k.json']
    """
    files: dict[str, Path] = {}
    for number, name in enumerate(segments, start=1):
        plain = re.sub(r"\W+", "-", name.lower()).strip("-") or str(number)
        path = out.with_name(f"{out.stem}.{plain}{out.suffix}")
        files[name] = path if path not in files.values() else out.with_name(f"{out.stem}.{plain}-{number}{out.suffix}")
    return files


def _check_chart(path: Path | None) -> None:
    if path is not None and path.suffix.lower() != ".svg":
        raise UsageError(f"--plot {path}: curves are drawn as SVG; name a file that ends in .svg.")
