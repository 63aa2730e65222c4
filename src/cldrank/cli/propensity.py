"""`cldrank propensity`: how likely each position is examined, from a log."""

from __future__ import annotations

import shlex
from dataclasses import asdict, field
from importlib.util import find_spec
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
from cldrank.cli.option_names import columns_by, dashed
from cldrank.cli.output import console, print_json, print_line, say, working
from cldrank.cli.show import curve_facts
from cldrank.errors import UnidentifiableError
from cldrank.files import save_json
from cldrank.wording import some

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.parameters import Parameter

AUTO = "auto"


@declared
class EstimateCommand(options.CandidateReading, options.LogReading, options.JsonOutput):
    """Estimate propensities with an interval for every position, and write them for `cldrank train` with `--out`.

    Reads cells that `cldrank clicks aggregate` wrote, a folder of days, or a log with the usual columns. Cells that
    have segments are estimated segment by segment. Where the log cannot support an estimate, it says why, and what data
    would be needed; then the exit code is 1, and nothing is written.

    Example: `cldrank propensity estimate logs/ --out rho.json`, and `cldrank show rho.json --plot rho.svg`
    """

    log: list[str] = argument("LOG", "Files of cells, a folder of days, or logs with the usual columns.")
    out: Path | None = option("-o FILE", "The JSON file to write, for `--propensity`.")
    clip: float | None = option("NUMBER", "Raise smaller propensities to this.")
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Estimate, write, and print."""
        from cldrank.propensity import BySegment, estimators
        from cldrank.propensity.choosing import choose_method, fitted_curve
        from cldrank.propensity.curve_files import curve_content

        options.check_outputs([self.out], [*self.log, *(self.features or [])])
        method = _method().parse(self.settings.get("method") or AUTO)
        given = parsed({name: known for name, (known, _) in owned(estimators()).items()}, self.settings)
        if method != AUTO:
            built(estimators(), method, given)  # refuses options that the method lacks before the log is read
        dataset = self.candidates()
        table = self._table(dataset)
        best = choose_method(table, given.get("depth")) if method == AUTO else None
        name = method if best is None else best.estimator
        estimator = built(estimators(), name, given)
        with working(f"estimating by {name} …"):
            if table.n_segments > 1 or "segment" in (options.log_columns(self.log_column) or {}):
                estimator = BySegment(estimator)
            elif estimator.needs == "log":
                estimator = self._given_log(estimator, table)
            curve = fitted_curve(estimator, table, dataset, clip=self.clip)
        if self.out is not None:
            save_json(self.out, curve_content(curve), indent=1)
        self._tell(curve, name, table, "" if best is None else best.reason)

    def _table(self, dataset: RankingDataset | None) -> ClickTable:
        """The cells of all files."""
        from cldrank.clicks.cells_file import is_cells, load_cells
        from cldrank.clicks.table import ClickTable
        from cldrank.tables import named_paths

        arguments = self.log_arguments()
        with working(f"reading {some(self.log)} …"), columns_by("--log-column"):
            if len(self.log) > 1 and not arguments and all(is_cells(path) for path in named_paths(self.log, "log")):
                table = load_cells(self.log, dataset)
            else:
                table = ClickTable.read(self.log[0] if len(self.log) == 1 else self.log, dataset, **arguments)
        if table.n_cells and not table.clicks.any():
            raise UnidentifiableError("nothing was clicked in this log, and only clicks show what was examined.")
        return table

    def _given_log(self, estimator: Any, table: ClickTable) -> Any:
        """The estimator with the probabilities of display, which files of cells do not know."""
        from cldrank.clicks.cells_file import is_cells
        from cldrank.clicks.days import DayFolder
        from cldrank.propensity import logged_probability
        from cldrank.tables import named_paths

        if DayFolder.is_one(self.log[0]) or all(map(is_cells, named_paths(self.log, "log"))):
            return estimator
        columns = options.log_columns(self.log_column)
        return estimator.given_log(logged_probability(self.log, table, columns=columns))

    def _tell(self, curve: Any, method: str, table: ClickTable, reason: str) -> None:
        """Print the curve, whether people behave as it assumes, and the command that uses it."""
        from cldrank.documents import render_terminal
        from cldrank.propensity import SegmentPropensities
        from cldrank.propensity.behaviour import behaviour
        from cldrank.propensity.curve_document import curve_document

        curves: Mapping[str, Any] = curve if isinstance(curve, SegmentPropensities) else {method: curve}
        seen = behaviour(table)
        if self.as_json:
            facts = {name: curve_facts(own) for name, own in curves.items()}
            content = facts[method] if curve is curves.get(method) else {"segments": facts}
            told = {"method": method, "chosen_because": reason or None, **content, "behaviour": asdict(seen)}
            print_json({**told, "out": self.out and str(self.out)})
            return
        if reason:
            say(f"{method} was chosen: {reason}.")
        render_terminal(curve_document(curve), console)
        for sentence in filter(None, (str(seen), seen.consequence)) if seen.overall else ():
            print_line(f"{sentence[0].upper()}{sentence[1:]}.")
        if self.out is not None:
            print_line(f"wrote {self.out}")
        depth, reach = table.depth, max(map(len, curves.values()))
        self._say_next(method, reach if reach < depth else None)

    def _say_next(self, method: str, depth: int | None) -> None:
        """Say which command uses the curve; `depth` is that of the curve, if the log is deeper."""
        from cldrank.propensity import estimators

        if method == "envelope":
            say("next: assume a curve (`cldrank train … --propensity power:1.0`), which is raised to this bound.")
            return
        use = (
            "affine-ips" if estimators()[method].affine else "cld-pair --model trees" if find_spec("xgboost") else "cld"
        )
        named: dict[str, Any] = {"features": self.features or ["FEATURES"], "clicks": self.log}
        named["log_column"] = self.log_column or ()
        named |= {name: [value] for name, value in self.window().items()}
        named |= {"propensity": [self.out or "RHO.json"], "depth": [] if depth is None else [depth]}
        words = [f"{dashed(name)} {shlex.quote(str(value))}" for name, values in named.items() for value in values]
        say(f"next: cldrank train {use} {' '.join(words)} --hold-out 0.2 --out ranker/")
        if depth is not None:
            say(f"Positions below {depth} have no propensity; --depth {depth} treats pages as if they ended there.")


def _method() -> Parameter:
    """The parameter of --method: an estimator, or the choice that suits the log."""
    from cldrank.propensity import estimators

    known = {name: kind.sentence for name, kind in estimators().items()}
    return choice("method", {AUTO: "The most reliable that the log allows", **known}, default=AUTO)


def _estimator_options() -> list[Option]:
    """The method, and the options of all estimators."""
    from cldrank.propensity import estimators

    return [option_of(_method(), metavar="METHOD"), *options_of(estimators(), panel_of_some="Options of some methods")]


app = group_of(
    "Estimate how likely each position is examined, with intervals, or learn why a log does not show it.",
    EstimateCommand,
    derive=_estimator_options,
)
