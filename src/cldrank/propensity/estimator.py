"""What estimators share: their description, one `fit`, resampling, refusals and the result.

An estimator is described once, on its class; the command line and `compare_estimators` derive from it. `estimators`
finds all of them, so a new one is one new file in this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import draw_weights
from cldrank.data.dataset import RankingDataset
from cldrank.errors import Spelling, UsageError
from cldrank.parameters import Value, parameter, value
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.checks.attraction import AttractionCheck, compared_by_attraction
from cldrank.propensity.checks.goodness import goodness_of_fit
from cldrank.propensity.checks.refusal import ALL_PAIRS, cannot_estimate, too_few
from cldrank.propensity.counts import Cells, PairSums, Resample
from cldrank.propensity.propensities import Propensities

Floats = NDArray[np.float64]
Needs = Literal["cells", "log", "features"]
Result_co = TypeVar("Result_co", bound=Propensities | AffineClicks, covariant=True)

_LOST = 0.05  # the share of replicates that may be without an estimate of a position
_FEW_UNITS = 20
_REFUTED = 0.01  # a p-value below refutes a model


@value
class PropensityEstimator(Value, ABC, Generic[Result_co]):
    """A way to estimate propensities from cells, with intervals from resampling.

    Each class says

    name       what the command line calls it
    label      what a table calls it
    sentence   what it does, without a full stop
    needs      "cells" alone; the raw "log", for the probabilities of display; or "features" of the candidates
    affine     whether it finds a slope and a base for each position, instead of one propensity
    bound      whether it finds a lower bound of the curve, instead of the curve
    compared   whether `compare_estimators` includes it
    order      its place in lists: the better founded, the earlier
    """

    depth: int | None = parameter(
        default=None, least=2, about="How many positions from the top to estimate; by default all"
    )
    confidence: float = parameter(default=0.9, above=0, below=1, about="Confidence of the intervals")
    replicates: int = parameter(default=400, least=20, about="How often the log is resampled")
    seed: int = parameter(default=0, least=0, about="Seed of the resampling; the same seed gives the same intervals")
    resample: Resample = parameter(
        default="auto", about="What is drawn when the log is resampled; `auto`: queries where there are at least 50"
    )
    refuse_above: float = parameter(
        default=0.5, above=0, about="Refuse a position whose log propensity has a larger standard error"
    )

    name: ClassVar[str]
    label: ClassVar[str]
    sentence: ClassVar[str]
    needs: ClassVar[Needs] = "cells"
    affine: ClassVar[bool] = False
    bound: ClassVar[bool] = False
    compared: ClassVar[bool] = True
    order: ClassVar[int] = 50

    @property
    def spelling(self) -> Spelling:
        """Its name in messages: the class in Python, the method in the shell."""
        return Spelling(type(self).__name__, self.name)

    def fit(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> Result_co:
        """Estimate from a log, or raise UnidentifiableError where the log cannot support it.

        dataset   the candidates with their features, for estimators that need these; the others refuse it
        """
        self._check_given(clicks, dataset)
        return self._fit(clicks, dataset)

    def check(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> None:
        """Raise UnidentifiableError if the log cannot support an estimate at all; fits and resamples nothing."""
        self._check_given(clicks, dataset)
        self._check(clicks, dataset)

    def missing(self, dataset: RankingDataset | None) -> UsageError | None:
        """The error that says what it needs beside cells and was not given; None where nothing is missing."""
        if self.needs != "features" or dataset is not None:
            return None
        return UsageError(
            "{} needs the features of the candidates: {}. Where candidates were shown at several positions, {} does "
            "without.",
            self.spelling,
            Spelling("fit(clicks, dataset)", "name them with --features"),
            ALL_PAIRS,
        )

    def used(self, dataset: RankingDataset | None) -> RankingDataset | None:
        """The dataset if it needs one, else None: what `fit` accepts."""
        return dataset if self.needs == "features" else None

    def quiet(self) -> Self:
        """The same without warnings that repeat the notes of the result."""
        return self

    def given_log(self, probability: Floats) -> Self:
        """The same with the probability of display of each cell, for estimators that need the log."""
        del probability
        return self

    def _check_given(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        if not isinstance(clicks, ClickTable):
            raise UsageError("{} learns from a ClickTable, not from a {}.", self.spelling, type(clicks).__name__)
        missing = self.missing(dataset)
        if missing is not None:
            raise missing
        if dataset is not self.used(dataset):
            raise UsageError(
                "{} does not use features; leave {} out.", self.spelling, Spelling("the dataset", "--features")
            )

    @abstractmethod
    def _fit(self, clicks: ClickTable, dataset: RankingDataset | None) -> Result_co:
        """Estimate, given what it needs."""

    @abstractmethod
    def _check(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        """Refuse what cannot be estimated."""

    def _cells(self, clicks: ClickTable) -> Cells:
        return Cells.of(clicks, self.depth, self.resample, self.seed)


@value
class CurveEstimator(PropensityEstimator[Propensities]):
    """Estimators of one propensity for each position."""

    caution: ClassVar[str] = ""  # what holds for every result

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
            error = None if lost[worst] else float(errors[worst])
            raise too_few(self.spelling, weak + 1, worst + 1, error, cells, self.confidence)
        return errors

    def _refuse_silent(self, silent: IntArray, cells: Cells, why: str, remedy: str = "more pages") -> None:
        """Refuse places (from 0) without the clicks that an estimate needs, if there are any."""
        if len(silent):
            lacking = (silent + 1).tolist()
            raise cannot_estimate(self.spelling, why, lacking, cells.rates(), self.confidence, remedy)

    def _curve(self, cells: Cells, values: Floats, interval: tuple[Floats, Floats], **parts: Any) -> Propensities:
        """The result, with an interval that holds the estimate."""
        name = type(self).__name__
        return Propensities(
            values,
            f"{name}, {cells.n_units:,} {cells.units}",
            method=name,
            low=np.minimum(interval[0], values),
            high=np.maximum(interval[1], values),
            confidence=self.confidence,
            **parts,
        )

    def _notes(
        self, values: Floats, errors: Floats, cells: Cells, attraction: AttractionCheck | None
    ) -> tuple[str, ...]:
        notes = [self.caution] if self.caution else []
        if attraction is not None and attraction.p_value < _REFUTED:
            notes.append(str(attraction))
        above = np.flatnonzero(values > 1 + 1e-9)
        for at in above[:3]:
            far = (np.log(values[at]) / errors[at]) if errors[at] > 0 else np.inf
            verdict = "within chance" if far < 2 else "beyond chance"
            notes.append(f"position {at + 1} is examined more often than the first ({values[at]:.3g} times), {verdict}")
        if cells.units == "candidates":
            notes.append(
                "candidates were resampled, not queries: the log has too few queries, and cells do not know pages; "
                "if some people click much more than others, the intervals are somewhat too short"
            )
        if cells.n_units < _FEW_UNITS:
            notes.append(f"the intervals rest on {cells.n_units} {cells.units} only: take them as rough")
        return tuple(notes)


@dataclass(frozen=True, eq=False)
class Tally:
    """What an estimator keeps of a log: sums that add up over groups of queries, and pairs of positions.

    sums          (groups, …) all that the estimate is computed from
    comparisons   (size,) the effective number of impressions behind each position
    pairs         pairs of positions, to test the fit
    """

    sums: Floats
    comparisons: Floats
    pairs: PairSums


@value
class SumEstimator(CurveEstimator):
    """Estimators that need sums by query only, so that a replicate is one product of matrices."""

    def _fit(self, clicks: ClickTable, dataset: RankingDataset | None) -> Propensities:
        del dataset
        return self._estimate(self._cells(clicks))

    def _check(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        del dataset
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
        whole = complete(draws)
        return self._curve(
            cells,
            values,
            (low, high),
            covariance=np.cov(np.log(whole), rowvar=False),
            comparisons=tally.comparisons,
            goodness=goodness_of_fit(tally.pairs, values, draws, weights),
            notes=self._notes(values, errors, cells, attraction),
            replicates=whole,
        )


def complete(draws: Floats) -> Floats:
    """The resampled estimates that have all positions; the others say nothing of how positions err together.

    >>> complete(np.array([[1, 0.5], [1, np.nan], [1, 0]]))
    array([[1. , 0.5]])
    """
    whole: Floats = draws[(np.isfinite(draws) & (draws > 0)).all(axis=1)]
    return whole


def estimators() -> dict[str, type[PropensityEstimator[Any]]]:
    """All estimators by name, the best founded first.

    >>> list(estimators())[:3], estimators()["all-pairs"].__name__
    (['randomised', 'logged', 'swap'], 'AllPairs')
    """
    from cldrank import propensity

    found: list[type[PropensityEstimator[Any]]] = []
    for entry in walk_packages(propensity.__path__, f"{propensity.__name__}."):
        module = import_module(entry.name)
        found += [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type)
            and issubclass(kind, PropensityEstimator)
            and kind.__module__ == module.__name__
            and "name" in vars(kind)  # else it is what several share
        ]
    return {kind.name: kind for kind in sorted(found, key=lambda kind: (kind.order, kind.name))}
