"""What estimators share: parameters and resampling; refusal and the result; and sums by group, where they suffice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import draw_weights
from cldrank.errors import UsageError
from cldrank.propensity.attraction import AttractionCheck, compared_by_attraction
from cldrank.propensity.cells import Cells, Resample
from cldrank.propensity.goodness import goodness_of_fit
from cldrank.propensity.pairs import PairSums
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.refusal import too_few

Floats = NDArray[np.float64]

_LOST = 0.05  # the share of replicates that may be without an estimate of a position
_FEW_UNITS = 20
_REFUTED = 0.01  # a p-value below refutes a model


@dataclass(frozen=True, eq=False)
class Tally:
    """What an estimator keeps of a log: sums that add up over groups of queries, and pairs of positions.

    sums          (groups, …) all that the estimate is computed of
    comparisons   (size,) the effective number of impressions behind each position
    pairs         pairs of positions, to test the fit
    """

    sums: Floats
    comparisons: Floats
    pairs: PairSums


@dataclass(frozen=True, kw_only=True, repr=False)
class CellEstimator:
    """A way to estimate something of positions from cells, with intervals from resampling.

    depth          estimate only so many positions from the top; None: all
    confidence     of the intervals
    replicates     how often the log is resampled
    seed           of the resampling; the same seed gives the same intervals
    resample       what is drawn: "queries", "candidates", or "auto": queries where there are at least 50
    refuse_above   the standard error of a log propensity above which there is a refusal instead of an estimate
    """

    depth: int | None = None
    confidence: float = 0.9
    replicates: int = 400
    seed: int = 0
    resample: Resample = "auto"
    refuse_above: float = 0.5

    caution: ClassVar[str] = ""  # what to know of every result

    def __post_init__(self) -> None:
        if self.depth is not None:
            check_whole("depth", self.depth, 2)
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence must be between 0 and 1, not {self.confidence}.")
        check_whole("replicates", self.replicates, 20)
        check_whole("seed", self.seed, 0)
        if self.resample not in ("auto", "queries", "candidates"):
            raise UsageError(f"resample must be 'auto', 'queries' or 'candidates', not {self.resample!r}.")
        if not self.refuse_above > 0:
            raise UsageError(f"refuse_above must be above 0, not {self.refuse_above}.")

    @property
    def name(self) -> str:
        """What it is called in results and refusals."""
        return type(self).__name__

    def __repr__(self) -> str:
        changed = (f"{field.name}={getattr(self, field.name)!r}" for field in _changed(self))
        return f"{type(self).__name__}({', '.join(changed)})"

    def _cells(self, clicks: ClickTable) -> Cells:
        return Cells.of(clicks, self.depth, self.resample, self.seed)


@dataclass(frozen=True, kw_only=True, repr=False)
class PropensityEstimator(CellEstimator, ABC):
    """A way to estimate propensities; `fit(clicks)` gives `Propensities`, or says why that is impossible."""

    @abstractmethod
    def fit(self, clicks: ClickTable) -> Propensities:
        """Estimate the propensities of a log, or raise UnidentifiableError."""

    @abstractmethod
    def check(self, clicks: ClickTable) -> None:
        """Raise UnidentifiableError if the log cannot support an estimate at all; resamples nothing."""

    def _errors(self, draws: Floats, cells: Cells) -> Floats:
        """The standard error of each log propensity; a refusal where one is too large to be of use."""
        usable = np.isfinite(draws) & (draws > 0)
        logs = np.log(np.where(usable, draws, 1.0))
        count = np.maximum(usable.sum(axis=0), 1)
        mean = np.where(usable, logs, 0.0).sum(axis=0) / count
        errors: Floats = np.sqrt(np.where(usable, (logs - mean) ** 2, 0.0).sum(axis=0) / count)
        lost = usable.mean(axis=0) < 1 - _LOST
        weak = np.flatnonzero((errors > self.refuse_above) | lost)
        if len(weak):
            worst = int(weak[np.argmax(np.where(lost, np.inf, errors)[weak])])
            raise too_few(
                self.name, weak + 1, worst + 1, None if lost[worst] else float(errors[worst]), cells, self.confidence
            )
        return errors

    def _notes(
        self, values: Floats, errors: Floats, cells: Cells, attraction: AttractionCheck | None
    ) -> tuple[str, ...]:
        notes = [self.caution] if self.caution else []
        if attraction is not None and attraction.p_value < _REFUTED:
            notes.append(str(attraction))
        above = np.flatnonzero(values > 1 + 1e-9)
        for at in above[:3]:
            far = (np.log(values[at]) / errors[at]) if errors[at] > 0 else np.inf
            told = "within chance" if far < 2 else "beyond chance"
            notes.append(f"position {at + 1} is examined more often than the first ({values[at]:.3g} times), {told}")
        if cells.units == "candidates":
            notes.append(
                "candidates were resampled, not queries: the log has too few queries, and cells do not know pages; "
                "if some people click much more than others, the intervals are somewhat too short"
            )
        if cells.n_units < _FEW_UNITS:
            notes.append(f"the intervals rest on {cells.n_units} {cells.units} only: take them as rough")
        return tuple(notes)


@dataclass(frozen=True, kw_only=True, repr=False)
class SumEstimator(PropensityEstimator):
    """Estimators that need sums by query only, so that a replicate is one product of matrices."""

    def fit(self, clicks: ClickTable) -> Propensities:
        """Estimate the propensities of a log, or raise UnidentifiableError."""
        return self._estimate(self._cells(clicks))

    def check(self, clicks: ClickTable) -> None:
        """Raise UnidentifiableError if the log cannot support an estimate at all; resamples nothing."""
        cells = self._cells(clicks)
        self._require(self._tally(cells), cells)

    @abstractmethod
    def _tally(self, cells: Cells) -> Tally:
        """The sums of a log."""

    @abstractmethod
    def _solve(self, sums: Floats) -> Floats:
        """(logs, size) the propensities of several logs at once, given (logs, …) sums; NaN where there is none."""

    @abstractmethod
    def _require(self, tally: Tally, cells: Cells) -> None:
        """Raise UnidentifiableError where the sums cannot identify a position."""

    def _estimate(self, cells: Cells, raw: Cells | None = None) -> Propensities:
        """Estimate from cells; `raw` are the same without weights, where they have some."""
        tally = self._tally(cells)
        self._require(tally, cells)
        weights = draw_weights(cells.n_groups, self.replicates, self.seed)
        everything = np.concatenate([tally.sums.sum(axis=0)[None], weights @ tally.sums])
        found = self._solve(everything)
        values, draws = found[0], found[1:]
        errors = self._errors(draws, cells)
        attraction = compared_by_attraction(raw or cells, values, self.replicates, self.seed)
        tail = (1 - self.confidence) / 2
        low, high = np.nanquantile(draws, [tail, 1 - tail], axis=0)
        logs = np.log(draws[np.isfinite(draws).all(axis=1) & (draws > 0).all(axis=1)])
        covariance = np.cov(logs, rowvar=False)
        return Propensities(
            values,
            f"{self.name}, {cells.n_units:,} {cells.units}",
            method=self.name,
            low=np.minimum(low, values),
            high=np.maximum(high, values),
            confidence=self.confidence,
            covariance=covariance,
            comparisons=tally.comparisons,
            goodness=goodness_of_fit(tally.pairs, values, draws, weights),
            notes=self._notes(values, errors, cells, attraction),
            replicates=draws,
        )


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number of at least `least`.

    >>> check_whole("depth", 1, 2)
    Traceback (most recent call last):
    cldrank.errors.UsageError: depth must be a whole number of at least 2, not 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def _changed(estimator: CellEstimator) -> list[Any]:
    return [field for field in fields(estimator) if getattr(estimator, field.name) != field.default]
