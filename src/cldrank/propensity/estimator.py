"""What estimators share; `estimators` finds them, so that a new estimator is a new file in this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

import numpy as np

from cldrank._typing import Bools, Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, MissingDependencyError, MissingValueError, UnidentifiableError, UsageError
from cldrank.parameters import Value, parameter, value
from cldrank.propensity.cells import FEWEST_GROUPS, Cells, PairSums, draw_weights
from cldrank.propensity.identifiability import Requirement, cannot_estimate, errors_of_logs, too_few
from cldrank.propensity.propensities import MISFIT, Goodness, Propensities

Result_co = TypeVar("Result_co", covariant=True)
Outcome = TypeVar("Outcome")

REFUSALS = (UnidentifiableError, MissingDependencyError, MissingValueError)
_FEWEST_REPLICATES = 20
_EXACT = 1e-9  # a pair that the estimator itself solved for has no residual to test
_ENOUGH = 500_000  # cells that are compared by attraction; more only cost time


@value
class PropensityEstimator(Value, ABC, Generic[Result_co]):
    """A way to estimate propensities from cells, with intervals from resampling.

    Each class says

    name       what the command line calls it
    sentence   what it does, without a full stop
    needs      "cells" alone; the raw "log", for the probabilities of display; or "features" of the candidates
    affine     whether it estimates a slope and a base for each position, instead of a propensity
    bound      whether it estimates a lower bound of the curve, instead of the curve
    baseline   whether it is known to be biased, and serves for comparison only
    order      its place in lists: the best founded come first
    assumes    an assumption that no log can check, for the audit
    """

    depth: int | None = parameter(
        default=None, least=2, about="How many positions from the top to estimate; by default all"
    )
    confidence: float = parameter(default=0.9, above=0, below=1, about="Confidence of the intervals")
    replicates: int = parameter(default=400, least=20, about="How often the log is resampled")
    seed: int = parameter(default=0, least=0, about="Seed of the resampling; the same seed gives the same intervals")
    refuse_above: float = parameter(
        default=0.5, above=0, about="Refuse a position whose log propensity has a larger standard error"
    )

    name: ClassVar[str]
    sentence: ClassVar[str]
    needs: ClassVar[Literal["cells", "log", "features"]] = "cells"
    affine: ClassVar[bool] = False
    bound: ClassVar[bool] = False
    baseline: ClassVar[bool] = False
    order: ClassVar[int] = 50
    assumes: ClassVar[str] = ""

    def fit(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> Result_co:
        """Estimate from a log, or raise UnidentifiableError where the log cannot support it.

        dataset   the candidates with their features, for estimators that need these
        """
        if not isinstance(clicks, ClickTable):
            raise UsageError(f"{self.name} learns from a ClickTable, not from a {type(clicks).__name__}.")
        missing = self.missing(dataset)
        if missing is not None:
            raise UsageError(f"{self.name}: {missing}.")
        return self._result(self._prepared(clicks, dataset)[0])

    def requirements(self, clicks: ClickTable, dataset: RankingDataset | None = None) -> Requirement:
        """Whether a log meets what it needs, and how precise the estimate would be, without computing it.

        Where only the upper positions can be estimated, it says how precise those would be.

        >>> import cldrank as cr
        >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
        >>> fixed = {"position": [1] * 30 + [2] * 30, "impressions": [100] * 60, "clicks": [40] * 30 + [10] * 30}
        >>> clicks = cr.ClickTable.from_arrays(data, **fixed)
        >>> [name for name, kind in estimators().items() if kind().requirements(clicks).met]
        ['envelope', 'click-through']
        """
        missing = self.missing(dataset)
        if missing is not None:
            return Requirement(self.name, False, missing)
        requirement, refusal = self._deepest(clicks, lambda upper: upper._prepared(clicks, dataset)[1])
        if refusal is None and requirement is not None:
            return requirement
        reason = getattr(refusal, "reason", "") or str(refusal).removesuffix(".")
        errors = () if requirement is None else requirement.errors
        size = clicks.depth if self.depth is None else self.depth
        return Requirement(self.name, False, reason, errors and (*errors, *[None] * (size - len(errors))))

    def fit_upper(self, clicks: ClickTable) -> Result_co | None:
        """The estimate of as many positions from the top as the log supports; None where it supports none."""
        return self._deepest(clicks, lambda upper: upper.fit(clicks))[0]

    def _deepest(
        self, clicks: ClickTable, attempt: Callable[[Self], Outcome]
    ) -> tuple[Outcome | None, CldrankError | None]:
        """The outcome of an attempt on as many positions from the top as it can do, and the refusal to do more."""
        depth = clicks.depth if self.depth is None else self.depth
        first: CldrankError | None = None
        upper = self
        while True:
            try:
                return attempt(upper), first
            except REFUSALS as refusal:
                first = first or refusal
                depth = min(getattr(refusal, "depth", 0), depth - 1)
                if depth < 2:
                    return None, first
                upper = replace(self, depth=depth)

    def missing(self, dataset: RankingDataset | None) -> str | None:
        """What it needs besides cells and was not given, as a sentence; None if nothing is missing."""
        if self.needs != "features" or dataset is not None:
            return None
        return "it needs the features of the candidates (`features`)"

    def given_log(self, probability: Floats | None) -> Self:
        """The same with the probability of display of each cell, if it needs the log."""
        del probability
        return self

    @abstractmethod
    def _prepared(self, clicks: ClickTable, dataset: RankingDataset | None) -> tuple[Any, Requirement]:
        """What `_result` needs, and the requirement that is met; a refusal where it is not."""

    @abstractmethod
    def _result(self, prepared: Any) -> Result_co:
        """The estimate."""

    def _refuse_weak(self, errors: Floats, cells: Cells) -> None:
        """Refuse places (from 0) whose log propensity has too large a standard error, or none, if there are any."""
        weak = np.flatnonzero(errors > self.refuse_above)
        if len(weak):
            raise too_few(self.name, weak + 1, int(weak[errors[weak].argmax()]) + 1, errors, cells, self.confidence)

    def _cells(self, clicks: ClickTable) -> Cells:
        return Cells.of(clicks, self.depth, self.seed)


@value
class CurveEstimator(PropensityEstimator[Propensities]):
    """Estimators of a propensity for each position."""

    caution: ClassVar[str] = ""  # the first note of every result

    def _weights(self, cells: Cells) -> Floats:
        """(replicates, groups) how often each replicate draws each group of queries."""
        return draw_weights(cells.n_groups, self.replicates, self.seed)[1:]

    def _errors(self, draws: Floats, cells: Cells) -> Floats:
        """The standard error of each log propensity; refused where it is too large to be of use."""
        errors, lost = errors_of_logs(draws)
        self._refuse_weak(np.where(lost, np.inf, errors), cells)
        return errors

    def _refuse_silent(self, silent: IntArray, cells: Cells, why: str, remedy: str = "more pages") -> None:
        """Refuse places (from 0) without the clicks that an estimate needs, if there are any."""
        if len(silent):
            lacking = (silent + 1).tolist()
            raise cannot_estimate(self.name, why, lacking, cells.rates(), self.confidence, remedy)

    def _curve(self, cells: Cells, values: Floats, draws: Floats, **parts: Any) -> Propensities:
        """The result, with the interval and the covariance of the resampled estimates unless they are given."""
        name, tail = type(self).__name__, (1 - self.confidence) / 2
        low, high = parts.pop("interval", None) or np.nanquantile(draws, [tail, 1 - tail], axis=0)
        if "covariance" not in parts:
            # replicates that lack a position say nothing of how positions err together
            parts["replicates"] = draws[(np.isfinite(draws) & (draws > 0)).all(axis=1)]
            parts["covariance"] = np.cov(np.log(parts["replicates"]), rowvar=False)
        parts |= {"low": np.minimum(low, values), "high": np.maximum(high, values), "confidence": self.confidence}
        return Propensities(values, f"{name}, {cells.n_units:,} {cells.units}", method=name, bound=self.bound, **parts)

    def _notes(self, cells: Cells, attraction: float | None) -> tuple[str, ...]:
        notes = [self.caution] if self.caution else []
        if attraction is not None and attraction < MISFIT:
            notes.append(
                "moved down, attractive results do not lose clicks as unattractive ones do, p = "
                f"{attraction:.2g}: this is not position bias alone, but trust bias or a cascade, say"
            )
        if cells.units == "candidates":
            notes.append(
                "candidates were resampled, not queries: the log has too few queries, and cells do not know pages; "
                "if some people click much more than others, the intervals are somewhat too short"
            )
        return tuple(notes)


class Sample(NamedTuple):
    """What an estimator of a curve makes of a log, and of the same log resampled.

    solved     (1 + replicates, size) the propensities of the log, then those of resampled ones; NaN where none
    grounds    why the log identifies all positions, as a sentence without a full stop
    pairs      pairs of positions, to test the fit
    """

    solved: Floats
    grounds: str
    pairs: PairSums | None = None


@value
class CellEstimator(CurveEstimator):
    """Estimators of a curve from cells alone; each says in `_sample` what cells show."""

    @abstractmethod
    def _sample(self, cells: Cells) -> Sample:
        """What cells show; a refusal where they do not identify a position."""

    def _prepared(self, clicks: ClickTable, dataset: RankingDataset | None) -> tuple[tuple[Cells, Sample], Requirement]:
        del dataset
        cells = self._cells(clicks)
        sample = self._sample(cells)
        return (cells, sample), Requirement(
            self.name, True, sample.grounds, tuple(self._errors(sample.solved[1:], cells).tolist())
        )

    def _result(self, prepared: tuple[Cells, Sample]) -> Propensities:
        cells, sample = prepared
        values, draws = sample.solved[0], sample.solved[1:]
        attraction, parts = None, {}
        if sample.pairs is not None:
            attraction = check_attraction(cells.unweighted(), values, self.replicates, self.seed)
            parts["goodness"] = goodness_of_fit(sample.pairs, values, draws, self._weights(cells))
        return self._curve(cells, values, draws, notes=self._notes(cells, attraction), **parts)

    def _solved(self, solve: Callable[[Floats], Floats], sums: Floats, cells: Cells) -> Floats:
        """(1 + replicates, size) what `solve` makes of (logs, …) sums: of all groups, and of resampled ones."""
        return solve(np.concatenate([sums.sum(axis=0)[None], self._weights(cells) @ sums]))


# -- whether the position-based model fits -------------------------------------------------------------------------


def goodness_of_fit(pairs: PairSums, rho: Floats, draws: Floats, weights: Floats) -> Goodness | None:
    """Test a curve against the pairs that it was not fitted to; None where nothing is left to test.

    draws     (replicates, k) the resampled estimates
    weights   (replicates, groups) how often each replicate drew each group of queries
    """
    rich = np.flatnonzero(pairs.clicked_enough())
    if not len(rich):
        return None
    upper, lower = pairs.upper[rich], pairs.lower[rich]
    with np.errstate(divide="ignore", invalid="ignore"):
        here = np.log(pairs.below.sum(axis=0)[rich] / pairs.above.sum(axis=0)[rich]) - np.log(rho[lower] / rho[upper])
        resampled = np.log((weights @ pairs.below[:, rich]) / (weights @ pairs.above[:, rich]))
        spread = resampled - np.log(draws[:, lower] / draws[:, upper]) - here
    tested = chance_of(here, spread)
    if tested is None:
        return None
    statistic, p_value, number, worst = tested
    return Goodness(statistic, number, p_value, (int(upper[worst]) + 1, int(lower[worst]) + 1))


def chance_of(here: Floats, spread: Floats) -> tuple[float, float, int, int] | None:
    """The mean squared residual, its p-value, how many were tested, and the worst; None if nothing can be tested.

    here     (pairs,) residuals
    spread   (replicates, pairs) what resampling adds to them
    """
    whole = np.isfinite(spread).all(axis=1)
    if whole.sum() < _FEWEST_REPLICATES:
        return None
    spread = spread[whole]
    error = np.sqrt((spread**2).mean(axis=0))
    tested = np.flatnonzero(error > _EXACT)
    if not len(tested):
        return None
    scores = (here[tested] / error[tested]) ** 2
    chance = ((spread[:, tested] / error[tested]) ** 2).mean(axis=1)
    statistic = float(scores.mean())
    p_value = (1 + int((chance >= statistic).sum())) / (1 + len(chance))
    return statistic, p_value, len(tested), int(tested[scores.argmax()])


# -- attractive and unattractive results ---------------------------------------------------------------------------


def check_attraction(cells: Cells, rho: Floats, replicates: int = 400, seed: int = 0) -> float | None:
    """The p-value of losing clicks alike, attractive or not, when moved down; None where too little can be compared.

    Where people trust high positions, or stop at the first result that they like, attractive candidates lose less. Half
    of the impressions, drawn at random, decide which candidates are attractive: clicked more than most at their
    positions; the other half is compared. Of large logs, a part of the groups is used.
    """
    several = np.bincount(cells.row)[cells.row] > 1
    if not several.any() or (cells.clicks > cells.impressions).any():
        return None
    groups = min(cells.n_groups, max(FEWEST_GROUPS, int(cells.n_groups * _ENOUGH / several.sum())))
    part = replace(cells.chosen(several & (cells.group < groups)), n_groups=groups)
    attractive, rest = _halved(part, rho, np.random.default_rng([seed, 2]))
    sides = [PairSums.of(rest.chosen(side[rest.row])) for side in (attractive, ~attractive)]
    rich = np.flatnonzero(np.logical_and(*(side.clicked_enough() for side in sides)))
    if not len(rich):
        return None
    weights = draw_weights(groups, replicates, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log((weights @ side.below[:, rich]) / (weights @ side.above[:, rich])) for side in sides]
        here, drawn = logs[0][0] - logs[1][0], logs[0][1:] - logs[1][1:]
        tested = chance_of(here, drawn - here)
    return None if tested is None else tested[1]


def _halved(cells: Cells, rho: Floats, random: np.random.Generator) -> tuple[Bools, Cells]:
    """Which rows are attractive, by half of the impressions, and the cells of the other half."""
    impressions, clicks = cells.impressions.astype(np.int64), cells.clicks.astype(np.int64)
    clicked = random.binomial(clicks, 0.5)
    taken = clicked + random.binomial(impressions - clicks, 0.5)
    rows = int(cells.row.max()) + 1
    expected = np.bincount(cells.row, taken * rho[cells.place], rows)
    rate = np.bincount(cells.row, clicked, rows) / np.where(expected > 0, expected, 1.0)
    shown = expected > 0
    left = impressions - taken
    rest = replace(cells, impressions=left.astype(np.float64), clicks=(clicks - clicked).astype(np.float64))
    return rate > np.median(rate[shown]) if shown.any() else shown, rest.chosen(left > 0)


# -- all of them --------------------------------------------------------------------------------------------------


def estimators() -> dict[str, type[PropensityEstimator[Any]]]:
    """All estimators by name, the best founded first.

    >>> list(estimators())[:3], estimators()["all-pairs"].__name__
    (['randomised', 'logged', 'all-pairs'], 'AllPairs')
    """
    from cldrank import propensity

    kinds: list[type[PropensityEstimator[Any]]] = []
    for entry in walk_packages(propensity.__path__, f"{propensity.__name__}."):
        module = import_module(entry.name)
        kinds += [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type)
            and issubclass(kind, PropensityEstimator)
            and kind.__module__ == module.__name__
            and "name" in vars(kind)  # else it is a base class
        ]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: (kind.order, kind.name))}


def comparing_estimators() -> list[type[PropensityEstimator[Any]]]:
    """Estimators of propensities that compare positions on equal terms, from cells alone, the best founded first."""
    return [
        kind
        for kind in estimators().values()
        if kind.needs == "cells" and not (kind.affine or kind.bound or kind.baseline)
    ]
