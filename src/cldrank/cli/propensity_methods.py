"""What `cldrank propensity` estimates with: the log that the options name, and the method that suits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cldrank.cli import log_options
from cldrank.cli.derived import built
from cldrank.cli.output import say, working
from cldrank.errors import CldrankError, DataError, UnidentifiableError, UsageError, setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cldrank.clicks.aggregate import Account
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity import AffineClicks, Propensities, PropensityEstimator
    from cldrank.propensity.checks.agreement import EstimatorComparison
    from cldrank.propensity.choosing import ChosenMethod
    from cldrank.propensity.segmented import EstimatedSegments

    Estimator = PropensityEstimator[Propensities | AffineClicks]

AUTO = "auto"


class Smoothing(StrEnum):
    """What a curve can be smoothed to."""

    monotone = "monotone"
    power = "power"


# -- what is read --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LogSource(log_options.Window, log_options.LogOptions):
    """A log, or cells, as the options name it."""

    def holds_days(self) -> bool:
        """Whether it is a folder of days."""
        from cldrank.clicks.days import DayFolder, refuse_window

        found = len(self.log) == 1 and DayFolder.is_one(self.log[0])
        if not found:
            refuse_window(self.log[0], self.last, self.until)
        return found

    def holds_cells(self) -> bool:
        """Whether all files hold cells already."""
        from cldrank.clicks.cell_file import is_cells
        from cldrank.clicks.log import existing
        from cldrank.clicks.log.layout import refuse_for_cells

        files = existing(self.log)
        if not self.holds_days() and not all(is_cells(file) for file in files):
            return False
        refuse_for_cells(files[0], self.layout())
        return True

    def table(self, dataset: RankingDataset | None, segment: str | None = None) -> ClickTable:
        """The cells of all files, by the segments that a column of the log names."""
        from cldrank.clicks.aggregate import TooManyRejectsError, aggregate
        from cldrank.clicks.cell_file import load_cells
        from cldrank.clicks.log import existing
        from cldrank.clicks.table import ClickTable

        with working(f"reading {', '.join(self.log)} …"):
            if self.holds_cells():
                if segment is not None:
                    raise UsageError(
                        f"--segment {segment} is for raw logs; cells know their segments, if they were aggregated with "
                        "--segment."
                    )
                if self.holds_days():
                    return _clicked(ClickTable.read(self.log[0], dataset, **self.window()))
                return _clicked(load_cells(existing(self.log), dataset))
            try:
                found = aggregate(self.log, dataset, **self.reading(), segment=segment)
            except TooManyRejectsError as error:
                say(str(error.account))
                raise
        _account(found.account)
        return _clicked(found.clicks)

    def probability(self, table: ClickTable) -> NDArray[np.float64]:
        """The probability with which each cell was shown, from the log."""
        from cldrank.propensity import logged_probability

        reading = {name: value for name, value in self.reading().items() if name != "master"}
        return logged_probability(self.log, table, **reading)


def _account(report: Account) -> None:
    if report.n_rejected or report.found:
        say(str(report))


def _clicked(table: ClickTable) -> ClickTable:
    if table.n_cells and not table.clicks.any():
        raise UnidentifiableError("nothing was clicked in this log, and only clicks show what was examined.")
    return table


# -- estimating ----------------------------------------------------------------------------------------------------


def estimator_of(chosen: ChosenMethod, settings: Mapping[str, Any]) -> Estimator:
    """The estimator that was chosen, with these settings; those that are None are left to it."""
    from cldrank.propensity import estimators

    made: Estimator = built(estimators(), chosen.name, settings)
    return made.quiet()


@dataclass(frozen=True)
class Estimation:
    """What to estimate and how, as the options say; settings that are None are left to the estimator."""

    method: str
    settings: Mapping[str, Any]
    smoothing: Smoothing | None = None
    minimum: float | None = None

    def check(self, source: LogSource, dataset: RankingDataset | None, segment: str | None) -> None:
        """Refuse what cannot work, before the log is read."""
        from cldrank.propensity import BySegment
        from cldrank.propensity.choosing import ChosenMethod

        if self.method == AUTO:
            return
        chosen = ChosenMethod(self.method)
        estimator = estimator_of(chosen, self.settings)
        if segment is not None:
            BySegment(estimator)  # type: ignore[arg-type]  # which it refuses
        elif estimator.needs != "log" or source.holds_cells():
            missing = estimator.missing(dataset)
            if missing is not None:
                raise missing
        if chosen.affine and self.smoothing is not None:
            raise UsageError(f"{chosen.name} finds slopes and bases, which --smooth is not for.")

    def of(
        self, table: ClickTable, source: LogSource, dataset: RankingDataset | None
    ) -> tuple[Propensities | AffineClicks, ChosenMethod]:
        """What a log shows, and by which method."""
        from cldrank.propensity.choosing import fitted_curve

        chosen = self._chosen(table)
        estimator = given_log(estimator_of(chosen, self.settings), table, source)
        with working(f"estimating by {chosen.name} …"):
            return fitted_curve(estimator, table, dataset, smooth=self.smoothing, clip=self.minimum), chosen

    def of_segments(self, table: ClickTable) -> tuple[EstimatedSegments, ChosenMethod]:
        """Those of each segment, drawn towards their mean, and by which method."""
        from cldrank.propensity.choosing import fitted_segments

        depth = self.settings.get("depth")
        if depth is not None and depth > table.depth:
            raise UsageError(
                "{} is too deep: no segment was shown anything below position {}.", setting("depth", depth), table.depth
            )
        cut = table if depth is None else table.first(depth)
        chosen = self._chosen(cut)
        with working(f"estimating {cut.n_segments} segments by {chosen.name} …"):
            estimator = estimator_of(chosen, self.settings)
            return fitted_segments(estimator, cut, smooth=self.smoothing, clip=self.minimum), chosen

    def _chosen(self, table: ClickTable) -> ChosenMethod:
        from cldrank.propensity.choosing import ChosenMethod, choose_method

        return choose_method(table, self.settings.get("depth")) if self.method == AUTO else ChosenMethod(self.method)


def given_log(estimator: Estimator, table: ClickTable, source: LogSource) -> Estimator:
    """The estimator with the probabilities of display, if it needs them and the log has them."""
    if estimator.needs != "log" or source.holds_cells():
        return estimator
    return estimator.given_log(source.probability(table))


def compared(
    settings: Mapping[str, Any], table: ClickTable, source: LogSource, dataset: RankingDataset | None
) -> EstimatorComparison:
    """What every method finds, or why it does not, by the names of the command line."""
    from cldrank.propensity import compare_estimators, estimators
    from cldrank.propensity.choosing import ChosenMethod

    every: dict[str, Estimator] = {}
    lost: dict[str, CldrankError] = {}
    for name, kind in estimators().items():
        if kind.compared:
            try:
                every[name] = given_log(estimator_of(ChosenMethod(name), settings), table, source)
            except DataError as error:  # a log without probabilities
                lost[name] = error
    with working("estimating by every method …"):
        found = compare_estimators(table, every, dataset)
    return replace(found, refusals={**found.refusals, **lost})
