"""`cldrank propensity`: how likely each position is looked at, from a log."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.cli import options
from cldrank.cli.commands import (
    Option,
    argument,
    built,
    choice,
    declared,
    group_of,
    option,
    option_of,
    options_of,
    owned,
    parsed,
)
from cldrank.cli.option_names import as_options, columns_by, dashed
from cldrank.cli.output import console, print_json, print_line, say, working
from cldrank.cli.show import curve_facts
from cldrank.errors import DataError, UnidentifiableError, UsageError
from cldrank.files import replacing
from cldrank.wording import some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.documents import Document
    from cldrank.parameters import Parameter
    from cldrank.propensity import AffineClicks, Propensities
    from cldrank.propensity.comparing import EstimatorComparison

AUTO, ALL = "auto", "all"


@declared
class EstimateCommand(options.CandidateReading, options.LogReading, options.JsonOutput):
    """Estimate propensities with an interval for every position, and write them for `cldrank train`.

    Reads cells that `cldrank clicks aggregate` wrote, a folder of days, or a log with the usual columns. Cells that
    have segments are estimated segment by segment. Where the log cannot support an estimate, it says why, and what data
    would be needed; then the exit code is 1, and nothing is written.

    Example: `cldrank propensity estimate logs/ --out rho.json --plot rho.svg`

    With `--method all`, every method that applies is tried, side by side, and the others say why they do not.

    Example: `cldrank propensity estimate logs/ --method all --plot curves.svg`
    """

    log: list[str] = argument("LOG", "Files of cells, a folder of days, or logs with the usual columns.")
    out: Path | None = option(
        "-o FILE", "The JSON file to write, for `--propensity`; with `--method all`, of the comparison."
    )
    clip: float | None = option("NUMBER", "Raise smaller propensities to this.")
    plot: Path | None = option("FILE", "Draw the curves into this SVG file.")
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Estimate, write, and print."""
        from cldrank.propensity import estimators
        from cldrank.propensity.comparing import choose_method, fitted_curve, fitted_segments
        from cldrank.propensity.curve_document import curve_document
        from cldrank.propensity.curve_files import curve_content

        if self.plot is not None and self.plot.suffix.lower() != ".svg":
            raise UsageError(f"--plot {self.plot}: curves are drawn as SVG; name a file that ends in .svg.")
        options.check_outputs([self.out, self.plot], [*self.log, *(self.features or [])])
        method = self.settings.get("method")
        wanted = AUTO if method is None else _method().parse(method)
        if self.out is None and wanted != ALL:
            raise UsageError("name the file to write with `out`; `method=all` needs none.")
        given = parsed({name: known for name, (known, _) in owned(estimators()).items()}, self.settings)
        dataset = self.candidates()
        self._check_early(wanted, given, dataset)
        table = self._table(dataset)
        if wanted == ALL:
            self._estimate_all(table, dataset, given)
            return
        segmented = table.n_segments > 1 or self._by_segment
        if segmented and given.get("depth") is not None:
            table = table.first(_depth(given["depth"], table))
        best = choose_method(table, given.get("depth")) if wanted == AUTO else None
        name = wanted if best is None else best.estimator
        estimator = built(estimators(), name, given)
        curve: Any
        with working(f"estimating by {name} …"):
            if segmented:
                curve = fitted_segments(estimator, table, clip=self.clip)
            else:
                curve = fitted_curve(self._given_log(estimator, table), table, dataset, clip=self.clip)
        self._write(curve_content(curve), {**curve} if segmented else {name: curve})
        if self.as_json:
            told = {"method": name, "chosen_because": best and best.reason}
            content = (
                {"segments": {own: curve_facts(rho) for own, rho in curve.items()}} if segmented else curve_facts(curve)
            )
            print_json({**told, **content, "out": str(self.out), "plot": self.plot and str(self.plot)})
            return
        if best is not None:
            say(f"{name} was chosen: {best.reason}.")
        _print(curve_document(curve))
        print_line(f"wrote {self.out}{f' and {self.plot}' if self.plot else ''}")
        reach = max(map(len, curve.values())) if segmented else len(curve)
        self._say_next(name, reach if reach < table.depth else None)

    # -- the log ---------------------------------------------------------------------------------------------------

    @property
    def _by_segment(self) -> bool:
        """Whether a raw log is counted by segment."""
        return "segment" in (options.log_columns(self.log_column) or {})

    def _table(self, dataset: RankingDataset | None) -> ClickTable:
        """The cells of all files."""
        from cldrank.clicks.cells_file import load_cells
        from cldrank.clicks.table import ClickTable

        arguments = self.log_arguments()
        with working(f"reading {some(self.log)} …"), columns_by("--log-column"):
            if len(self.log) > 1 and not arguments and self._holds_cells():
                table = load_cells(self.log, dataset)
            else:
                table = ClickTable.read(self.log[0] if len(self.log) == 1 else self.log, dataset, **arguments)
        if table.n_cells and not table.clicks.any():
            raise UnidentifiableError("nothing was clicked in this log, and only clicks show what was examined.")
        return table

    def _holds_cells(self) -> bool:
        """Whether the files hold cells already, which do not know with which probability results were shown."""
        from cldrank.clicks.cells_file import is_cells
        from cldrank.clicks.days import DayFolder
        from cldrank.tables import named_paths

        return DayFolder.is_one(self.log[0]) or all(is_cells(path) for path in named_paths(self.log, "log"))

    def _given_log(self, estimator: Any, table: ClickTable) -> Any:
        """The estimator with the probabilities of display, if it needs them and the log has them."""
        from cldrank.propensity import logged_probability

        if estimator.needs != "log" or self._holds_cells():
            return estimator
        columns = options.log_columns(self.log_column)
        arguments: dict[str, Any] = {"columns": columns} if columns else {}
        return estimator.given_log(logged_probability(self.log, table, **arguments))

    # -- estimates -------------------------------------------------------------------------------------------------

    def _check_early(self, wanted: str, given: Mapping[str, Any], dataset: RankingDataset | None) -> None:
        """Refuse what cannot work, before the log is read."""
        from cldrank.propensity import BySegment, estimators

        if wanted in (AUTO, ALL):
            return
        estimator = built(estimators(), wanted, given)
        if self._by_segment:
            BySegment(estimator)  # which it refuses
        elif estimator.needs != "log" or self._holds_cells():
            missing = estimator.missing(dataset)
            if missing is not None:
                raise UsageError(f"{wanted}: {missing}.")

    def _estimate_all(self, table: ClickTable, dataset: RankingDataset | None, given: Mapping[str, Any]) -> None:
        """Estimate by every method that applies."""
        from cldrank.propensity import compare_estimators, estimators
        from cldrank.propensity.comparing import choose_method

        every, lost = {}, {}
        for name, kind in estimators().items():
            own = {key: value for key, value in given.items() if key in owned({name: kind})}
            try:
                every[name] = self._given_log(built({name: kind}, name, own), table)
            except DataError as error:  # a log without probabilities
                lost[name] = str(error)
        with working("estimating by every method …"):
            comparison = compare_estimators(table, every, dataset)
        comparison = replace(comparison, refusals={**comparison.refusals, **lost})
        estimates = comparison.estimates
        if not estimates:
            name, reason = next(iter(comparison.refusals.items()))
            raise UnidentifiableError(f"nothing can be estimated from this log; {name}: {reason}")
        content = _comparison_facts(comparison)
        self._write(content, estimates)
        if self.as_json:
            print_json({**content, "out": self.out and str(self.out), "plot": self.plot and str(self.plot)})
            return
        _print(comparison.document())
        try:
            best = choose_method(table, given.get("depth"))
            say(f"`cldrank propensity estimate` chooses {best.estimator}: {best.reason}.")
        except UnidentifiableError:
            if "click-through" in estimates and set(estimates) <= {"click-through", "envelope"}:
                say(
                    "click-through is the only curve left, and it counts relevance as examination: do not train with "
                    "it."
                )
            if "envelope" in estimates:
                say(
                    "envelope is a lower bound; where an assumed curve lies below it, `cldrank train` raises the curve."
                )
        if self.out or self.plot:
            print_line(f"wrote {' and '.join(str(path) for path in (self.out, self.plot) if path)}")

    def _write(self, content: Any, curves: Mapping[str, Propensities | AffineClicks]) -> None:
        """Write the file and the picture: both, or none of them."""
        import json

        from cldrank.documents import picture
        from cldrank.propensity.affine_clicks import curve_of
        from cldrank.propensity.curve_document import curve_figure

        texts: dict[Path, str] = {}
        if self.out is not None:
            texts[self.out] = json.dumps(content, indent=1, allow_nan=False) + "\n"
        if self.plot is not None:
            texts[self.plot] = picture([curve_figure({name: curve_of(curve) for name, curve in curves.items()})])
        with ExitStack() as both:  # all temporaries are whole before the first of them takes its name
            temporaries = {both.enter_context(replacing(path)): text for path, text in texts.items()}
            for temporary, text in temporaries.items():
                temporary.write_text(text, encoding="utf-8")

    def _say_next(self, method: str, depth: int | None) -> None:
        """The command that uses what was written; `depth`, if it reaches less far than the log."""
        from cldrank.propensity import estimators

        if method == "envelope":
            say("next: assume a curve (`cldrank train … --propensity power:1.0`), which is raised to this bound.")
            return
        use = "affine-ips" if estimators()[method].affine else "cld"
        named: dict[str, Any] = {"features": self.features or ["FEATURES"], "clicks": self.log}
        named["log_column"] = self.log_column or ()
        named |= {name: [value] for name, value in self.window().items()}
        named |= {"propensity": [self.out], "depth": [] if depth is None else [depth]}
        words = [f"{dashed(name)} {shlex.quote(str(value))}" for name, values in named.items() for value in values]
        say(f"next: cldrank train {use} {' '.join(words)} --hold-out 0.2 --out ranker/")
        if depth is not None:
            say(f"Positions below {depth} have no propensity; --depth {depth} treats pages as if they ended there.")


def _method() -> Parameter:
    """--method: one of the estimators, what suits the log, or all of them."""
    from cldrank.propensity import estimators

    known = {name: kind.sentence for name, kind in estimators().items()}
    every = {AUTO: "The most reliable that the log allows", ALL: "Every method that applies, side by side"}
    return choice("method", {**every, **known}, default=AUTO)


def _estimator_options() -> list[Option]:
    """The method, and the options of all estimators."""
    from cldrank.propensity import estimators

    return [option_of(_method(), metavar="METHOD"), *options_of(estimators(), panel_of_some="Options of some methods")]


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


def _comparison_facts(comparison: EstimatorComparison) -> dict[str, Any]:
    """Estimates and refusals."""
    return {
        "estimates": {name: curve_facts(rho) for name, rho in comparison.estimates.items()},
        "refusals": {name: as_options(reason) for name, reason in comparison.refusals.items()},
    }


app = group_of(
    "Estimate how likely each position is looked at, with intervals, or learn why a log does not show it.",
    EstimateCommand,
    derive=_estimator_options,
)
