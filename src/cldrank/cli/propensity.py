"""`cldrank propensity`: how likely each position is looked at, from a log."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.derived import Option, add_command, choice, option_of, options_of, owned, parsed
from cldrank.cli.output import console, print_json, print_line, print_title, say
from cldrank.cli.propensity_methods import AUTO, Estimation, LogSource, Smoothing, compared
from cldrank.cli.propensity_output import (
    as_dict,
    choice_as_dict,
    comparison_as_dict,
    print_comparison,
    print_found,
    print_segments,
    say_choice,
)
from cldrank.errors import UnidentifiableError, UsageError
from cldrank.files import save_json

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.parameters import Parameter
    from cldrank.propensity import AffineClicks, Propensities
    from cldrank.propensity.checks.agreement import EstimatorComparison
    from cldrank.propensity.choosing import ChosenMethod
    from cldrank.propensity.segmented import EstimatedSegments

Candidates = Annotated[
    list[str] | None,
    options.spelled(
        "--features -f FILE",
        "The candidates: only these are counted, and methods that model relevance see their features.",
    ),
]
Chart = Annotated[Path | None, options.spelled("--plot FILE", "Draw the curves into this SVG file.")]


app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Estimate how likely each position is looked at, with intervals, or learn why a log does not show it.",
)


def _method() -> Parameter:
    """--method: one of the estimators, or what suits the log."""
    from cldrank.propensity import estimators

    known = {name: one.sentence for name, one in estimators().items()}
    return choice("method", {AUTO: "The most reliable that the log allows", **known}, default=AUTO)


def _options_of_estimate() -> list[Option]:
    """The method, and the options of all estimators."""
    from cldrank.propensity import estimators

    return [option_of(_method(), metavar="METHOD"), *options_of(estimators(), panel_of_some="Options of some methods")]


def _options_of_compare() -> list[Option]:
    """The options that all estimators have."""
    from cldrank.propensity import PropensityEstimator

    return options_of({"": PropensityEstimator})


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """The parameters of estimators that were given."""
    from cldrank.propensity import estimators

    return parsed({name: one.parameter for name, one in owned(estimators()).items()}, settings)


def estimate(
    source: LogSource,
    out: Annotated[
        Path, options.spelled("--out -o FILE", "The JSON file to write, for `--propensity`.", show_default=False)
    ],
    method: str | None = None,
    smooth: Annotated[
        Smoothing | None, options.spelled("--smooth", "To the nearest curve that falls, or that is a power law.")
    ] = None,
    clip: Annotated[float | None, options.spelled("--clip", "Raise smaller propensities to this.")] = None,
    segment: Annotated[
        str | None,
        options.spelled(
            "--segment COLUMN",
            "Estimate each value of this column of the log by itself, such as devices, the weak ones drawn "
            "towards the mean. Cells that have segments are always estimated so.",
        ),
    ] = None,
    plot: Chart = None,
    features: Candidates = None,
    as_json: options.Json = False,
    **settings: Any,
) -> None:
    """Estimate propensities with an interval for every position, and write them for `cldrank train`.

    Reads logs as `cldrank clicks aggregate` does, files of cells, or a folder of days. Where the log cannot support an
    estimate, it says why, and what data would be needed; then the exit code is 1, and nothing is written.

    Example: `cldrank propensity estimate logs/ --out rho.json --plot rho.svg`
    """
    from cldrank.propensity.affine_clicks import curve_of

    _check_files([out, plot], plot, source, features)
    task = Estimation(AUTO if method is None else _method().parse(method), _given(settings), smooth, clip)
    dataset = options.load_features(features)
    task.check(source, dataset, segment)
    table = source.table(dataset, segment)
    if table.n_segments > 1 or segment is not None:
        curves, chosen = task.of_segments(table)
        _write_segments(curves, chosen, out, plot, as_json)
        if not as_json:
            depth = len(curves.pooled) if len(curves.pooled) < table.depth else None
            _say_next(chosen, source, features, f"{out}", depth, segment)
        return
    found, chosen = task.of(table, source, dataset)
    found.save(out)
    if plot:
        curve_of(found).plot(plot)
    if as_json:
        print_json({**choice_as_dict(chosen), **as_dict(found), "out": str(out), "plot": plot and str(plot)})
        return
    say_choice(chosen)
    print_found(found)
    print_line(f"wrote {out}{f' and {plot}' if plot else ''}")
    _say_next(chosen, source, features, f"{out}", len(found) if len(found) < table.depth else None)


def _write_segments(
    found: EstimatedSegments, chosen: ChosenMethod, out: Path, plot: Path | None, as_json: bool
) -> None:
    """Write the curves of all segments into one file, and say what they are."""
    from cldrank.propensity.chart import save_chart

    found.save(out)
    if plot:
        save_chart({**found, "mean": found.pooled}, plot)
    if as_json:
        segments = {name: as_dict(rho) for name, rho in found.items()}
        written = {"mean": as_dict(found.pooled), "out": str(out), "plot": plot and str(plot)}
        refusals = {name: refusal.said("shell") for name, refusal in found.refusals.items()}
        print_json({**choice_as_dict(chosen), "segments": segments, "refusals": refusals, **written})
        return
    say_choice(chosen)
    print_segments(found)
    print_line(f"wrote {out}{f' and {plot}' if plot else ''}")


def compare(
    source: LogSource,
    out: Annotated[Path | None, options.spelled("--out -o FILE", "Write the comparison to this JSON file.")] = None,
    plot: Chart = None,
    features: Candidates = None,
    as_json: options.Json = False,
    **settings: Any,
) -> None:
    """Estimate by all methods that apply, side by side, and say why the others do not.

    Example: `cldrank propensity compare logs/ --plot curves.svg`
    """
    from cldrank.propensity.checks.refusal import quoted

    _check_files([out, plot], plot, source, features)
    dataset = options.load_features(features)
    table = source.table(dataset)
    given = _given(settings)
    found = compared(given, table, source, dataset)
    if not found.estimates:
        raise UnidentifiableError(
            "nothing can be estimated from this log: {}", quoted(next(iter(found.refusals.values())))
        )
    content = comparison_as_dict(found)
    if out:
        save_json(out, content, indent=1)
    if plot:
        found.plot(plot)
    if as_json:
        print_json({**content, "out": out and str(out), "plot": plot and str(plot)})
        return
    print_comparison(found)
    _say_best(found, table, given.get("depth"))
    if out or plot:
        console.print(f"wrote {' and '.join(str(path) for path in (out, plot) if path)}", markup=False)


add_command(app, estimate, _options_of_estimate)
add_command(app, compare, _options_of_compare)


@app.command()
def show(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Files of propensities, or the truth beside a simulated log.", show_default=False
        ),
    ],
    plot: Chart = None,
    truth: Annotated[
        list[str] | None,
        options.spelled(
            "--truth [SEGMENT=]FILE",
            "With --plot: the truth beside a simulated log, drawn as rings around the curve. Repeat it for segments.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show saved propensities with their intervals; several, and all segments, go into one chart.

    Example: `cldrank propensity show rho.json cells.parquet.json --plot both.svg`

    Example: `cldrank propensity show rho.json --truth phone=phone.parquet.json --plot devices.svg`
    """
    from cldrank.propensity.affine_clicks import curve_of
    from cldrank.propensity.chart import save_chart

    _check_chart(plot)
    options.check_outputs([plot], files)
    if truth and plot is None:
        raise UsageError("--truth is drawn into the chart; name one with --plot.")
    found = {name: curve for file in files for name, curve in _named_curves(file, alone=len(files) == 1).items()}
    if plot:
        curves = {name: curve_of(entry) for name, entry in found.items()}
        save_chart(curves, plot, truth=_true_curves(truth or [], curves))
    if as_json:
        print_json({name: as_dict(entry) for name, entry in found.items()})
        return
    for name, entry in found.items():
        print_title(name)
        print_found(entry)
    if plot:
        console.print(f"wrote {plot}", markup=False)


def _true_curves(given: list[str], curves: dict[str, Propensities]) -> dict[str, Propensities]:
    """The true curves, by the name of the curve that each belongs to."""
    from cldrank.propensity import Propensities

    found = {}
    for one in given:
        segment, _, file = one.rpartition("=")
        if not segment and len(curves) > 1:
            raise UsageError(f"--truth {one}: of which curve? Write {next(iter(curves))}={file}, say.")
        found[segment or next(iter(curves))] = Propensities.load(file)
    return found


def _named_curves(file: str, *, alone: bool) -> dict[str, Propensities | AffineClicks]:
    """The curve of a file, or those of its segments, each under a name; `alone`, segments have names of their own."""
    from cldrank.propensity import SegmentPropensities
    from cldrank.propensity.storage import load_estimate

    found = load_estimate(file)
    if isinstance(found, SegmentPropensities):
        return {name if alone else f"{file}, {name}": rho for name, rho in found.items()}
    return {file: found}


# -- what to do next, and where ------------------------------------------------------------------------------------


def _say_next(
    chosen: ChosenMethod,
    source: LogSource,
    features: list[str] | None,
    out: str,
    depth: int | None,
    segment: str | None = None,
) -> None:
    """The command that uses what was written; `depth`, if it reaches less far than the log."""
    use = "affine-ips" if chosen.affine else "cld"
    if chosen.name == "envelope":
        say("next: assume a curve (`cldrank train … --propensity power:1.0`), which is raised to this bound.")
        return
    wanted = " ".join(f"--features {shlex.quote(path)}" for path in features or ["FEATURES"])
    clicks, typed = " ".join(f"--clicks {shlex.quote(path)}" for path in source.log), source.typed()
    if typed is None:
        say("next: aggregate the log with the same options (`cldrank clicks aggregate … --out cells.parquet`), then")
        clicks = "--clicks cells.parquet"
    else:
        clicks += typed + ("" if segment is None else f" --segment {shlex.quote(segment)}")
    clicks += "".join(f" --{name} {value}" for name, value in source.window().items())
    cut = "" if depth is None else f" --depth {depth}"
    say(
        f"next: cldrank train {use} {wanted} {clicks} --propensity {shlex.quote(out)}{cut} --hold-out 0.2 --out ranker/"
    )
    if depth is not None:
        say(f"Positions below {depth} have no propensity; --depth {depth} treats pages as if they ended there.")


def _say_best(found: EstimatorComparison, table: ClickTable, depth: int | None) -> None:
    """Which of them `estimate` would choose."""
    from cldrank.propensity.choosing import choose_method

    try:
        best = choose_method(table, depth)
    except UnidentifiableError:
        if "click-through" in found.estimates and set(found.estimates) <= {"click-through", "envelope"}:
            say("click-through is the only curve left, and it counts relevance as examination: do not train with it.")
        if "envelope" in found.estimates:
            say("envelope is a lower bound; where an assumed curve lies below it, `cldrank train` raises the curve.")
        return
    if best.name in found.estimates:
        say(f"`cldrank propensity estimate` chooses {best.name}: {best.reason}.")


def _check_files(outputs: list[Path | None], plot: Path | None, source: LogSource, features: list[str] | None) -> None:
    _check_chart(plot)
    options.check_outputs(outputs, [*source.log, *(features or [])])


def _check_chart(path: Path | None) -> None:
    if path is not None and path.suffix.lower() != ".svg":
        raise UsageError(f"--plot {path}: curves are drawn as SVG; name a file that ends in .svg.")
