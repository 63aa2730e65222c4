"""`ClickMeasure`: measures that clicks can estimate, as sums over ranks; and the best order, which nDCG needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_choice, check_whole, shortened
from cldrank.deconvolution import RateDistribution, drawn_places, tilted_mass
from cldrank.errors import UsageError
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.measures import ARP, DCG, NDCG, Measure, parse
from cldrank.propensity import AffineClicks
from cldrank.propensity.cells import PooledCells

Floats = NDArray[np.float64]
_CLICKS = re.compile(r"(?i)\s*clicks\s*(?:@\s*(\d+))?\s*")
_KINDS: dict[type[Measure], str] = {DCG: "DCG", NDCG: "nDCG", ARP: "ARP"}
_ALL = (*_KINDS.values(), "Clicks")
_KNOWN = "DCG@k, nDCG@k, ARP and Clicks@k"
_DRAWS = 20  # of relevance, for the best order
_DIGITS = 3  # of predicted relevance
_LEAST = 0.05  # of the mean: the ideal of a query in which nothing seems relevant
_LOW = 0.1  # the quantile of relevance at the top that an irrelevant result has


@dataclass(frozen=True)
class ClickMeasure:
    """A measure of an order, given the relevance of candidates; the mean is taken over pages.

        DCG@k      Σ_i relevance_i / log2(rank_i + 1)   over the first k
        nDCG@k     the same, over that of the best order
        Clicks@k   Σ_i slope(rank_i) relevance_i + base(rank_i): expected clicks per page with k results
        ARP        Σ_i relevance_i rank_i / Σ_i relevance_i, over all pages together; lower is better. Only candidates
                   that the log has shown count, ranked among themselves: nobody knows production's order of the others

    Pages are as long as those of the log: rank 4 counts on the pages of a query that have a position 4, in any order.

    >>> ClickMeasure("DCG", 3).discounts(4, AffineClicks.of([1, 0.5], 1, 0))
    array([1.    , 0.6309, 0.5   , 0.    ])
    """

    kind: str
    cutoff: int | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _ALL)
        if self.cutoff is not None:
            check_whole("cutoff", self.cutoff, least=1)

    def __str__(self) -> str:
        return self.kind if self.cutoff is None else f"{self.kind}@{self.cutoff}"

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value is better."""
        return self.kind != "ARP"

    def discounts(self, longest: int, affine: AffineClicks) -> Floats:
        """(longest,) what relevance at each rank counts."""
        ranks = np.arange(1, longest + 1, dtype=np.float64)
        if self.kind == "ARP":
            return ranks
        top = min(self.cutoff or longest, longest)
        if self.kind == "Clicks":
            return _padded(affine.slope[:top], longest)
        return _padded(1 / np.log2(ranks[:top] + 1), longest)

    def bases(self, longest: int, affine: AffineClicks) -> Floats:
        """(longest,) the clicks that each rank brings without any relevance."""
        top = min(self.cutoff or longest, longest)
        return _padded(affine.base[:top], longest) if self.kind == "Clicks" else np.zeros(longest)


def default_measures(k: int) -> list[ClickMeasure]:
    """All of them, for pages of k results.

    >>> [str(measure) for measure in default_measures(5)]
    ['DCG@5', 'nDCG@5', 'ARP', 'Clicks@5']
    """
    return [ClickMeasure("DCG", k), ClickMeasure("nDCG", k), ClickMeasure("ARP"), ClickMeasure("Clicks", k)]


def parse_click_measures(measures: Any, k: int) -> list[ClickMeasure]:
    """The measures that texts name, each once; a missing cutoff is k, the length of a page.

    >>> [str(measure) for measure in parse_click_measures("ndcg@3, clicks", k=5)]
    ['nDCG@3', 'Clicks@5']
    """
    if isinstance(measures, Measure | ClickMeasure):
        measures = [measures]
    if not isinstance(measures, Iterable):
        raise UsageError(f"{shortened(measures)} is not a measure; clicks estimate {_KNOWN}.")
    named: Iterable[Any] = [measures] if isinstance(measures, str) else measures
    texts = [part for name in named for part in (re.split(r"[,;\s]+", name) if isinstance(name, str) else [name])]
    parsed = list(dict.fromkeys(_parsed(text, k) for text in texts if text != ""))
    if not parsed:
        raise UsageError(f"no measure is named; clicks estimate {_KNOWN}.")
    for measure in parsed:
        if measure.cutoff is not None and measure.cutoff > k:
            raise UsageError(f"{measure}: the log says nothing of positions beyond {k}; choose a cutoff from 1 to {k}.")
    return parsed


def _parsed(text: Any, k: int) -> ClickMeasure:
    if isinstance(text, ClickMeasure):
        return text
    clicks = _CLICKS.fullmatch(text) if isinstance(text, str) else None
    if clicks is not None:
        return ClickMeasure("Clicks", k if clicks[1] is None else int(clicks[1]))
    measure = parse(text)
    kind = _KINDS.get(type(measure))
    if kind is None or str(measure) not in (kind, f"{kind}@{measure.cutoff}"):
        raise UsageError(f"{measure} cannot be estimated from clicks; {_KNOWN} can. For {measure}, labels are needed.")
    return ClickMeasure(kind, None if kind == "ARP" else (measure.cutoff or k))


def _padded(values: Floats, longest: int) -> Floats:
    """The values with zeros behind, `longest` in all."""
    return np.append(values, np.zeros(longest - len(values)))


# -- the best order ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IdealOrder:
    """The DCG that the best order of each query would have, estimated by drawing relevance.

    Relevance of candidates that were shown is drawn from its posterior, given the clicks on them and the distribution
    of relevance at their position; that of the others from the distribution at the top, tilted to the predicted mean:
    few results may be relevant, and it is these that the best order begins with. Expected relevance itself would do too
    little: the best of draws is better than the best of means.

    log         the clicks
    predicted   (rows,) the relevance that a model predicts; None counts what was not shown as irrelevant
    cutoff      how many results count
    """

    log: LoggedClicks
    predicted: Floats | None
    cutoff: int
    seed: int = 0

    @cached_property
    def expected(self) -> Floats:
        """(queries,) the mean of the ideal DCG over draws, at least a little."""
        return self._floored(np.mean([ideal for _, ideal in self._draws()], axis=0))

    def correction(self, weights: Floats) -> float:
        """What the mean of DCG / ideal is, over that of DCG / expected ideal, for an order.

        weights   (rows,) what relevance counts in the mean DCG of the order

        A query with more relevant results than expected has a higher DCG, and a higher ideal: dividing by the expected
        one counts such queries too much.
        """
        above = below = 0.0
        for relevance, ideal in self._draws():
            sums = self.log.by_query(weights * relevance)
            above += float((sums / self._floored(ideal)).sum())
            below += float((sums / self.expected).sum())
        return above / below if below else 1.0

    def _draws(self) -> Iterator[tuple[Floats, Floats]]:
        """Relevance of all candidates, and the ideal DCG of each query with it; the same ones each time."""
        random = np.random.default_rng([self.seed, 2])
        places = segments.places_in_segments(self.log.data.offsets)
        discounts = np.where(places <= self.cutoff, self.log.reached(places) / np.log2(places + 1.0), 0.0)
        posteriors, others = self._posteriors, np.flatnonzero(~self.log.seen)
        top = posteriors[0]
        levels, mass = top.prior
        if self.predicted is None:
            mass, group = (levels == top.quantile(_LOW))[None].astype(float), np.zeros(len(others), dtype=np.int64)
        else:
            means, group = np.unique(self.predicted[others].round(_DIGITS), return_inverse=True)
            mass = tilted_mass(mass, levels, means)
        for _ in range(_DRAWS):
            drawn = np.zeros(self.log.data.n_rows)
            for posterior in posteriors:
                drawn[posterior.rows] = posterior.drawn(random)
            drawn[others] = levels[drawn_places(mass, group, random)]
            best = segments.descending_values(drawn, self.log.data.offsets)
            yield drawn, self.log.by_query(discounts * best)

    def _floored(self, ideal: Floats) -> Floats:
        searched = self.log.pages > 0
        return np.maximum(ideal, _LEAST * float(ideal[searched].mean()) or 1.0)

    @cached_property
    def _posteriors(self) -> list[_Posterior]:
        """One for each position, from the top, of the rows that were shown there more often than elsewhere."""
        pooled = PooledCells.by(self.log.clicks, *self.log.by_cell)
        order = np.lexsort((pooled.impressions, pooled.row))
        usual = order[np.append(np.diff(pooled.row[order]) > 0, True)]  # where each row has the most impressions
        posteriors = []
        for position in np.unique(pooled.position[usual]):
            chosen = usual[pooled.position[usual] == position]
            slope, base = (float(part[chosen[0]]) for part in (pooled.slope, pooled.base))
            posteriors.append(_Posterior(pooled.row[chosen], pooled.rates(chosen), slope, base))
        return posteriors


@dataclass(frozen=True, eq=False)
class _Posterior:
    """What the relevance of some rows may be, all shown at one position with this slope and base.

    rates   of clicks where pages are examined most; where they are less, that is known to them
    """

    rows: IntArray
    rates: RateDistribution
    slope: float
    base: float

    def drawn(self, random: np.random.Generator) -> Floats:
        return self._relevance(self.rates.drawn(random))

    @property
    def prior(self) -> tuple[Floats, Floats]:
        """Levels of relevance and their masses, as if there were one more row, of any level."""
        rows, grid = len(self.rows), len(self.rates.mass)
        return self._relevance(self.rates.rates), (rows * self.rates.mass + 1 / grid) / (rows + 1)

    def quantile(self, share: float) -> float:
        at = min(int(np.searchsorted(np.cumsum(self.rates.mass), share)), len(self.rates.rates) - 1)
        return float(self._relevance(self.rates.rates[at : at + 1])[0])

    def _relevance(self, rates: Floats) -> Floats:
        return np.clip((rates - self.base) / self.slope, 0.0, 1.0)
