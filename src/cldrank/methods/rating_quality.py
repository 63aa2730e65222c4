"""How well ratings agree with clicks on shown results, and what relevance a rating stands for there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cldrank._typing import Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.measures import Interval
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases
from cldrank.wording import count

CHANCE = 0.5
RATED_TARGETS = ("posterior", "mixed")  # those of methods that have priors, which ratings inform
_MOST_LEVELS = 8  # of ratings, each with a prior of relevance of its own
_FEWEST_RATED = 20  # shown results, to compare ratings with clicks
_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Examined:
    """How often candidates were examined in a log, their clicks beyond what positions bring anyway, and their queries.

    exposure, clicks, query   (rows,)
    """

    exposure: Floats
    clicks: Floats
    query: IntArray

    @classmethod
    def of(cls, clicks: ClickTable, curve: Curve) -> Examined:
        """What a log shows of its candidates, given slopes and bases, or propensities."""
        slope, base = slopes_and_bases(curve, clicks)
        cells = clicks.impressions * slope, clicks.clicks - clicks.impressions * base
        n_rows = clicks.candidates.n_rows
        exposure, clicked = (np.bincount(clicks.row, values, n_rows).astype(np.float64) for values in cells)
        return cls(exposure, clicked, clicks.candidates.row_queries)

    @property
    def weight(self) -> Floats:
        """(rows,) exposure / (1 + exposure): examinations of one result say less and less."""
        return np.asarray(self.exposure / (1 + self.exposure))

    @property
    def relevance(self) -> Floats:
        """(rows,) clicks over examinations; 0 where there are none."""
        return np.divide(self.clicks, self.exposure, out=np.zeros(len(self.clicks)), where=self.exposure > 0)


@dataclass(frozen=True)
class Agreement:
    """How well ratings agree with clicks, among shown results.

    raters        "people" or "machines"
    shown         rated results that were shown
    never_shown   rated results that were not
    concordance   how often a result that was examined and clicked is rated higher than one that was examined and not
                  clicked, ties counting half: 0.5 is chance. None of fewer than 20 results, or if all have one rating

    >>> str(Agreement("machines", 40, 60, Interval(0.7, 0.65, 0.75, 0.9, 20)))
    'machines rated 40 shown results and 60 never shown; they agree with clicks: concordance 0.70 (0.65 to 0.75)'
    """

    raters: str
    shown: int
    never_shown: int
    concordance: Interval | None

    @property
    def is_used(self) -> bool:
        """Whether ratings agree with clicks beyond chance; others are not used."""
        return self.concordance is not None and self.concordance.low > CHANCE

    def __str__(self) -> str:
        rated = f"{self.raters} rated {count(self.shown, 'shown result')} and {self.never_shown:,} never shown"
        if self.concordance is None:
            return f"{rated}; that says too little to hold them against clicks, so their ratings are not used"
        measured = self.concordance
        numbers = f"concordance {measured.estimate:.2f} ({measured.low:.2f} to {measured.high:.2f})"
        if self.is_used:
            return f"{rated}; they agree with clicks: {numbers}"
        if measured.high < CHANCE:
            asked = "they disagree with clicks (is the scale reversed?)"
            return f"{rated}; {asked}: {numbers}, so their ratings are not used"
        return f"{rated}; they do not agree with clicks beyond chance: {numbers}, so their ratings are not used"

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        measured = self.concordance
        interval = None if measured is None else [measured.estimate, measured.low, measured.high]
        numbers = {"raters": self.raters, "shown": self.shown, "never_shown": self.never_shown}
        return {**numbers, "concordance": interval, "used": self.is_used}


def agreement(raters: str, values: Floats, examined: Examined) -> Agreement:
    """How well the ratings of candidates, NaN where there are none, agree with clicks on those that were examined."""
    rated, shown = ~np.isnan(values), examined.exposure > 0
    chosen = np.flatnonzero(rated & shown)
    numbers = len(chosen), int((rated & ~shown).sum())
    clicked = examined.weight[chosen] * examined.relevance[chosen]
    passed = examined.weight[chosen] - clicked
    enough = len(chosen) >= _FEWEST_RATED and np.ptp(values[chosen]) > 0 and clicked.sum() > 0 and passed.sum() > 0
    concordance = _concordance(values[chosen], clicked, passed, examined.query[chosen]) if enough else None
    return Agreement(raters, *numbers, concordance)


def usable_ratings(clicks: ClickTable, examined: Examined) -> tuple[tuple[Agreement, ...], Floats, Floats]:
    """How well people and machines agree with clicks; and both ratings of each candidate, NaN where they do not."""
    ratings, none = clicks.ratings, np.full(clicks.candidates.n_rows, np.nan)
    if ratings is None:
        return (), none, none
    given = {"people": ratings.people, "machines": ratings.machine}
    agreements = {
        raters: agreement(raters, values, examined) for raters, values in given.items() if not np.isnan(values).all()
    }
    used = (values if raters in agreements and agreements[raters].is_used else none for raters, values in given.items())
    people, machine = used
    return tuple(agreements.values()), people, machine


def rated_relevance(clicks: ClickTable, curve: Curve) -> tuple[tuple[Agreement, ...], Floats]:
    """How well ratings agree with clicks; and the relevance that each rating stands for, people's before machines'.

    NaN where there is no rating, or none that is used.
    """
    if clicks.ratings is None:
        return (), np.full(clicks.candidates.n_rows, np.nan)
    examined = Examined.of(clicks, curve)
    agreements, *both = usable_ratings(clicks, examined)
    people, machine = (values if np.isnan(values).all() else calibration(values, examined)(values) for values in both)
    return agreements, np.where(np.isnan(people), machine, people)


def rating_levels(relevance: Floats) -> IntArray:
    """Eight levels of as many candidates each, or fewer, by the relevance that ratings stand for; 0 without a rating.

    >>> rating_levels(np.array([0.2, np.nan, 0.1, 0.2]))
    array([2, 0, 1, 2])
    """
    rated = ~np.isnan(relevance)
    levels = np.zeros(len(relevance), dtype=np.int64)
    if rated.any():
        ends = np.quantile(relevance[rated], np.linspace(0, 1, _MOST_LEVELS + 1)[1:-1])
        levels[rated] = np.unique(np.searchsorted(np.unique(ends), relevance[rated]), return_inverse=True)[1] + 1
    return levels


def calibration(values: Floats, examined: Examined, learned: Any = None) -> Callable[[Floats], Floats]:
    """The relevance that a rating stands for among shown results: clicks over examinations, rising with the rating.

    learned   (rows,) which candidates it is learned from; all, by default

    >>> examined = Examined(np.full(4, 10.0), np.array([1.0, 3.0, 2.0, 8.0]), np.arange(4))
    >>> calibration(np.array([0.0, 1, 1, 2]), examined)(np.array([0, 1, 1.5, np.nan])).round(3)
    array([0.1  , 0.25 , 0.525,   nan])
    """
    from sklearn.isotonic import IsotonicRegression

    chosen = ~np.isnan(values) & (examined.exposure > 0)
    if learned is not None:
        chosen &= learned
    rising = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    rising.fit(values[chosen], examined.relevance[chosen], sample_weight=examined.weight[chosen])

    def relevance(ratings: Floats) -> Floats:
        stands_for = np.full(len(ratings), np.nan)
        known = ~np.isnan(ratings)
        if known.any():
            stands_for[known] = rising.predict(ratings[known])
        return stands_for

    return relevance


def _concordance(values: Floats, clicked: Floats, passed: Floats, query: IntArray) -> Interval:
    """Σ_ij clicked_i passed_j [i is rated higher, a tie counts half] / Σ_ij clicked_i passed_j, by query.

    The error is that of the ratio, linear in what each query adds to both sums.
    """
    from scipy.special import ndtri

    _, level = np.unique(values, return_inverse=True)

    def rank(weight: Floats) -> Floats:  # the share of the weight below each value, and half of that at it
        at = np.bincount(level, weight)
        return np.asarray(((np.cumsum(at) - at / 2) / at.sum())[level])

    estimate = float(clicked @ rank(passed) / clicked.sum())
    moved = clicked * (rank(passed) - estimate) / clicked.sum() + passed * (1 - rank(clicked) - estimate) / passed.sum()
    _, code = np.unique(query, return_inverse=True)
    by_query = np.bincount(code, moved)
    half = float(ndtri((1 + _CONFIDENCE) / 2) * np.sqrt((by_query**2).sum()))
    return Interval(estimate, max(estimate - half, 0.0), min(estimate + half, 1.0), _CONFIDENCE, len(by_query))
