"""`cldrank propensity`: how likely each position is looked at, from a log."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import log_options, options
from cldrank.cli.derived import Option, add_command, built, choice, option_of, options_of, owned, parsed
from cldrank.cli.option_names import as_options
from cldrank.cli.output import console, print_json, print_line, print_title, say, working
from cldrank.cli.propensity_output import as_dict, comparison_as_dict, segments_as_dict
from cldrank.errors import DataError, UnidentifiableError, UsageError
from cldrank.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.documents import Document
    from cldrank.parameters import Parameter
    from cldrank.propensity import AffineClicks, Propensities

AUTO, ALL = "auto", "all"
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


class Smoothing(StrEnum):
    """What a curve can be smoothed to."""

    monotone = "monotone"
    power = "power"


@dataclass(frozen=True, kw_only=True)
class EstimationLog(log_options.LogReading):
    """Cells, a folder of days, or a log with the usual columns."""

    log: Annotated[
        list[str],
        typer.Argument(
            help="Files of cells, a folder of days, or logs with the usual columns.",
            metavar="LOG...",
            show_default=False,
        ),
    ]

    def table(self, dataset: RankingDataset | None) -> ClickTable:
        """The cells of all files."""
        from cldrank.clicks.cells_file import load_cells
        from cldrank.clicks.table import ClickTable

        with working(f"reading {', '.join(self.log)} …"):
            if len(self.log) > 1 and not self.chosen() and self.holds_cells():
                table = load_cells(self.log, dataset)
            else:
                table = ClickTable.read(self.log[0] if len(self.log) == 1 else self.log, dataset, **self.chosen())
        if table.n_cells and not table.clicks.any():
            raise UnidentifiableError("nothing was clicked in this log, and only clicks show what was examined.")
        return table

    def holds_cells(self) -> bool:
        """Whether the files hold cells already, which do not know with which probability results were shown."""
        from cldrank.clicks.cells_file import is_cells
        from cldrank.clicks.days import DayFolder
        from cldrank.tables import named_paths

        return DayFolder.is_one(self.log[0]) or all(is_cells(path) for path in named_paths(self.log, "log"))

    def given_log(self, estimator: Any, table: ClickTable) -> Any:
        """The estimator with the probabilities of display, if it needs them and the log has them."""
        from cldrank.propensity import logged_probability

        if estimator.needs != "log" or self.holds_cells():
            return estimator
        return estimator.given_log(logged_probability(self.log, table, **self.layout()))


def _method() -> Parameter:
    """--method: one of the estimators, what suits the log, or all of them."""
    from cldrank.propensity import estimators

    known = {name: kind.sentence for name, kind in estimators().items()}
    every = {AUTO: "The most reliable that the log allows", ALL: "Every method that applies, side by side"}
    return choice("method", {**every, **known}, default=AUTO)


def _options_of_estimate() -> list[Option]:
    """The method, and the options of all estimators."""
    from cldrank.propensity import estimators

    return [option_of(_method(), metavar="METHOD"), *options_of(estimators(), panel_of_some="Options of some methods")]


def estimate(
    source: EstimationLog,
    out: Annotated[
        Path | None,
        options.spelled(
            "--out -o FILE",
            "The JSON file to write, for `--propensity`; with `--method all`, of the comparison.",
            show_default=False,
        ),
    ] = None,
    method: str | None = None,
    smooth: Annotated[
        Smoothing | None, options.spelled("--smooth", "To the nearest curve that falls, or that is a power law.")
    ] = None,
    clip: Annotated[float | None, options.spelled("--clip", "Raise smaller propensities to this.")] = None,
    plot: Chart = None,
    features: Candidates = None,
    as_json: options.Json = False,
    **settings: Any,
) -> None:
    """Estimate propensities with an interval for every position, and write them for `cldrank train`.

    Reads cells that `cldrank clicks aggregate` wrote, a folder of days, or a log with the usual columns. Cells that
    have segments are estimated segment by segment, the weak ones drawn towards the mean. Where the log cannot support
    an estimate, it says why, and what data would be needed; then the exit code is 1, and nothing is written.

    Example: `cldrank propensity estimate logs/ --out rho.json --plot rho.svg`

    With `--method all`, every method that applies is tried, side by side, and the others say why they do not.

    Example: `cldrank propensity estimate logs/ --method all --plot curves.svg`
    """
    from cldrank.propensity import estimators
    from cldrank.propensity.comparing import choose_method, fitted_curve, fitted_segments
    from cldrank.propensity.curve_document import curve_document
    from cldrank.propensity.curve_files import curve_content

    _check_chart(plot)
    options.check_outputs([out, plot], [*source.log, *(features or [])])
    wanted = AUTO if method is None else _method().parse(method)
    if out is None and wanted != ALL:
        raise UsageError("name the file to write with `out`; `method=all` needs none.")
    given = parsed({name: one.parameter for name, one in owned(estimators()).items()}, settings)
    dataset = options.load_features(features)
    _check_early(wanted, given, source, dataset, smooth)
    table = source.table(dataset)
    if wanted == ALL:
        _all(source, table, dataset, given, out, plot, as_json)
        return
    segmented = table.n_segments > 1 or source.segment is not None
    if segmented and given.get("depth") is not None:
        table = table.first(_depth(given["depth"], table))
    best = choose_method(table, given.get("depth")) if wanted == AUTO else None
    name = wanted if best is None else best.estimator
    estimator = built(estimators(), name, given).quiet()
    curve: Any
    with working(f"estimating by {name} …"):
        if segmented:
            curve = fitted_segments(estimator, table, smooth=smooth, clip=clip)
        else:
            curve = fitted_curve(source.given_log(estimator, table), table, dataset, smooth=smooth, clip=clip)
    _write(out, curve_content(curve), plot, {**curve, "mean": curve.pooled} if segmented else {name: curve})
    if as_json:
        told = {"method": name, "chosen_because": best and best.reason}
        content = segments_as_dict(curve) if segmented else as_dict(curve)
        print_json({**told, **content, "out": str(out), "plot": plot and str(plot)})
        return
    if best is not None:
        say(f"{name} was chosen: {best.reason}.")
    _print(curve_document(curve))
    print_line(f"wrote {out}{f' and {plot}' if plot else ''}")
    reach = len(curve.pooled if segmented else curve)
    _say_next(name, source, features, f"{out}", reach if reach < table.depth else None)


def _check_early(
    wanted: str,
    given: Mapping[str, Any],
    source: EstimationLog,
    dataset: RankingDataset | None,
    smooth: Smoothing | None,
) -> None:
    """Refuse what cannot work, before the log is read."""
    from cldrank.propensity import BySegment, estimators

    if wanted in (AUTO, ALL):
        return
    estimator = built(estimators(), wanted, given)
    if source.segment is not None:
        BySegment(estimator)  # which it refuses
    elif estimator.needs != "log" or source.holds_cells():
        missing = estimator.missing(dataset)
        if missing is not None:
            raise UsageError(f"{wanted}: {missing}.")
    if estimator.affine and smooth is not None:
        raise UsageError(f"{wanted} finds slopes and bases, which `smooth` is not for.")


def _depth(depth: int, table: ClickTable) -> int:
    if depth > table.depth:
        raise UsageError(f"`depth={depth}` is too deep: nothing was shown below position {table.depth}.")
    return depth


def _print(document: Document) -> None:
    """Print a document, its notices in the words of the shell."""
    from cldrank.documents import Notice, render_terminal

    blocks = [
        replace(block, text=as_options(block.text))
        if isinstance(block, Notice) and isinstance(block.text, str)
        else block
        for block in document.blocks
    ]
    render_terminal(replace(document, blocks=blocks), console)


def _write(
    out: Path | None, content: Any, plot: Path | None, curves: Mapping[str, Propensities | AffineClicks]
) -> None:
    """Write the file and the picture: both, or none of them."""
    import json

    from cldrank.documents import picture
    from cldrank.propensity.affine_clicks import curve_of
    from cldrank.propensity.curve_document import curve_figure

    texts: dict[Path, str] = {}
    if out is not None:
        texts[out] = json.dumps(content, indent=1, allow_nan=False) + "\n"
    if plot is not None:
        texts[plot] = picture([curve_figure({name: curve_of(curve) for name, curve in curves.items()})])
    with ExitStack() as both:  # all temporaries are whole before the first of them takes its name
        temporaries = {both.enter_context(replacing(path)): text for path, text in texts.items()}
        for temporary, text in temporaries.items():
            temporary.write_text(text, encoding="utf-8")


def _all(
    source: EstimationLog,
    table: ClickTable,
    dataset: RankingDataset | None,
    given: Mapping[str, Any],
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Estimate by every method that applies, and say how well they agree."""
    from cldrank.propensity import compare_estimators, estimators
    from cldrank.propensity.comparing import choose_method

    every, lost = {}, {}
    for name, kind in estimators().items():
        own = {key: value for key, value in given.items() if key in owned({name: kind})}
        try:
            every[name] = source.given_log(built({name: kind}, name, own), table)
        except DataError as error:  # a log without probabilities
            lost[name] = str(error)
    with working("estimating by every method …"):
        comparison = compare_estimators(table, every, dataset)
    comparison = replace(comparison, refusals={**comparison.refusals, **lost})
    if not comparison.estimates:
        name, reason = next(iter(comparison.refusals.items()))
        raise UnidentifiableError(f"nothing can be estimated from this log; {name}: {reason}")
    content = comparison_as_dict(comparison)
    _write(out, content, plot, comparison.estimates)
    if as_json:
        print_json({**content, "out": out and str(out), "plot": plot and str(plot)})
        return
    _print(comparison.document())
    try:
        best = choose_method(table, given.get("depth"))
        say(f"`cldrank propensity estimate` chooses {best.estimator}: {best.reason}.")
    except UnidentifiableError:
        if "click-through" in comparison.estimates and set(comparison.estimates) <= {"click-through", "envelope"}:
            say("click-through is the only curve left, and it counts relevance as examination: do not train with it.")
        if "envelope" in comparison.estimates:
            say("envelope is a lower bound; where an assumed curve lies below it, `cldrank train` raises the curve.")
    if out or plot:
        print_line(f"wrote {' and '.join(str(path) for path in (out, plot) if path)}")


add_command(app, estimate, _options_of_estimate)


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
    from cldrank.propensity.curve_document import curve_document, save_chart

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
        _print(curve_document(entry))
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
    from cldrank.propensity.curve_files import load_curve

    found = load_curve(file)
    if isinstance(found, SegmentPropensities):
        return {name if alone else f"{file}, {name}": rho for name, rho in found.items()}
    return {file: found}


# -- what to do next ------------------------------------------------------------------------------------------------


def _say_next(method: str, source: EstimationLog, features: list[str] | None, out: str, depth: int | None) -> None:
    """The command that uses what was written; `depth`, if it reaches less far than the log."""
    from cldrank.propensity import estimators

    if method == "envelope":
        say("next: assume a curve (`cldrank train … --propensity power:1.0`), which is raised to this bound.")
        return
    use = "affine-ips" if estimators()[method].affine else "cld"
    words = [f"--features {shlex.quote(path)}" for path in features or ["FEATURES"]]
    words += [f"--clicks {shlex.quote(path)}" for path in source.log]
    words += [f"--log-column {shlex.quote(column)}" for column in source.log_column or ()]
    named = {"first-position": source.first_position, "segment": source.segment, **source.window()}
    words += [f"--{name} {shlex.quote(str(value))}" for name, value in named.items() if value is not None]
    words += ["--one-query"] if source.one_query else []
    words += [f"--propensity {shlex.quote(out)}"] + ([] if depth is None else [f"--depth {depth}"])
    say(f"next: cldrank train {use} {' '.join(words)} --hold-out 0.2 --out ranker/")
    if depth is not None:
        say(f"Positions below {depth} have no propensity; --depth {depth} treats pages as if they ended there.")


def _check_chart(path: Path | None) -> None:
    if path is not None and path.suffix.lower() != ".svg":
        raise UsageError(f"--plot {path}: curves are drawn as SVG; name a file that ends in .svg.")
