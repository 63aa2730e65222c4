"""Worlds in which the truth about rankers is known: their queries, rankers, pairs of these, and logs of one or two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from simulated_raters import PEOPLE, RATED, grades, machine_grades

import cldrank as cr
from cldrank import segments
from cldrank.clicks.ratings import Ratings
from cldrank.clicks.simulate import (
    Cascade,
    ClickModel,
    DependentClicks,
    FirstSwaps,
    Policy,
    PositionBased,
    Simulation,
    TopK,
    TrustBiased,
)
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import PRODUCTION, LoggedClicks, order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.propensity import AffineClicks, AllPairs, Pivot, Propensities, TrustBias
from cldrank.propensity.segment_propensities import Curve

Floats = NDArray[np.float64]
DEPTH, ETA, NOISE = 5, 1.0, 0.1
TRUSTED = TrustBiased(ETA, (0.98, 0.97, 0.96, 0.95, 0.94), (0.35, 0.25, 0.18, 0.13, 0.1))
BEHAVIOURS: dict[str, ClickModel] = {
    "position-based": PositionBased(ETA, NOISE),
    "trust-biased": TRUSTED,
    "cascade": Cascade(noise=NOISE),
    "dependent .6": DependentClicks(noise=NOISE, continuation=(0.6, 0.5, 0.4, 0.3, 0.2)),
    "dependent .9": DependentClicks(noise=NOISE, continuation=(0.9, 0.85, 0.8, 0.75, 0.7)),
}
FIRST = ClickMeasure("DCG", DEPTH)
SWAPPED = 0.5  # of the pages, where the log has swaps
EXPERIMENT = 0.1  # of the sessions: a swap experiment beside the log of one ranker, to estimate the curve from
_ENDLESS = 1e12  # sessions of a log that shows what any log can


@dataclass(frozen=True)
class Pair:
    """Two rankers by name; "log" is production as the log has it, with its swaps."""

    name: str
    new: str
    old: str


PAIRS = (
    Pair("better", "strong", "log"),
    Pair("worse", "noisy", "log"),
    Pair("others", "strong", "linear"),
    Pair("level", "level-new", "level-old"),
    Pair("level with production", "level-production", "production"),
    Pair("one feature", "feature", "log"),
    Pair("popular", "popular", "log"),
    Pair("reversed", "reversed", "log"),
    Pair("unlucky", "unlucky", "production"),
)


@dataclass(frozen=True, eq=False)
class KnownWorld:
    """Queries that logs are drawn from, and rankers whose every measure is known.

    data     the queries, with labels
    scores      of all rows by ranker: production and other, which may both log; others, which do not
    sample      how many queries each log draws, with replacement; None: all logs have the same, those of `data`
    behaviour   how people click, see BEHAVIOURS
    """

    data: RankingDataset
    scores: dict[str, Floats]
    sample: int | None = None
    behaviour: str = "position-based"

    @cached_property
    def relevance(self) -> Floats:
        """(rows,) P(click | shown first, and examined)."""
        if self.data.labels is None:
            raise AssertionError("a world is made of labels")
        irrelevant, relevant = NOISE, 1.0
        if self.behaviour == "trust-biased":
            irrelevant, relevant = (float(each[0]) for each in TRUSTED.attraction(DEPTH))
        return np.where(self.data.labels >= self.threshold, relevant, irrelevant)

    @cached_property
    def threshold(self) -> float:
        """The lowest label that counts as relevant."""
        return 3.0 if self.data.labels is not None and self.data.labels.max() >= 3 else 1.0

    def gain(self, new: str, old: str) -> Floats:
        """(queries,) the true difference in DCG of two orders by score."""
        values = []
        for name in (new, old):
            ranks = segments.descending_ranks(self.scores[name], self.data.offsets)
            counted = np.where(ranks <= DEPTH, self.relevance / np.log2(ranks + 1.0), 0.0)
            values.append(np.bincount(self.data.row_queries, counted, self.data.n_queries))
        return np.asarray(values[0] - values[1], dtype=np.float64)

    def with_level_pairs(self, seed: int = 0) -> KnownWorld:
        """The same with rankers of the same mean DCG as others: mixed of two, query by query.

        The queries of each part are drawn, as if by a coin; "unlucky" has the strong ranker just where it happens to
        help least, so that its unseen results are worse than features tell. No ranker can choose so without labels.
        """
        scores, of_row = dict(self.scores), self.data.row_queries
        gain = self.gain("strong", "linear")
        first = split(gain, -gain, seed)[of_row]
        scores["level-new"] = np.where(first, scores["strong"], scores["linear"])
        scores["level-old"] = np.where(first, scores["linear"], scores["strong"])
        gains = self.gain("strong", "production"), self.gain("noisy", "production")
        for name, choose in (("level-production", split), ("unlucky", balanced)):
            scores[name] = np.where(choose(*gains, seed)[of_row], scores["strong"], scores["noisy"])
        return replace(self, scores=scores)

    def drawn(self, seed: int) -> KnownWorld:
        """The queries of one log, under new names."""
        if self.sample is None:
            return self
        chosen = np.random.default_rng([seed, 7]).integers(0, self.data.n_queries, self.sample)
        rows, labels = segments.rows_of_segments(self.data.offsets, chosen), self.data.labels
        data = RankingDataset(
            features=self.data.features[rows],
            offsets=segments.from_lengths(self.data.sizes[chosen]),
            labels=None if labels is None else labels[rows],
            query_ids=np.arange(len(chosen)),
            doc_ids=np.arange(len(rows)),
            name=self.data.name,
            synthetic=self.data.synthetic,
        )
        return replace(
            self, data=data, scores={name: values[rows] for name, values in self.scores.items()}, sample=None
        )

    def ratings(self, rated: str, seed: int) -> Ratings | None:
        """Grades from 0 to 3: by machines on "all" candidates or a "tenth"; people rate a tenth beside machines that
        rate all ("people"), or production's and three rankers' top 5 ("tops"); or "none".
        """
        nobody = np.full(self.data.n_rows, np.nan)
        if rated == "none":
            return None
        if rated in RATED:
            return Ratings(nobody, self._machine(rated, seed))
        random, relevant = np.random.default_rng([seed, 12]), np.asarray(self.data.labels) >= self.threshold
        people = grades(self.data.labels, relevant, PEOPLE, random)
        if rated == "people":
            return Ratings(
                np.where(random.random(len(people)) < RATED["tenth"], people, np.nan), self._machine("all", seed)
            )
        named = ("production", "strong", "linear", "feature")
        ranks = [segments.descending_ranks(self.scores[ranker], self.data.offsets) for ranker in named]
        return Ratings(np.where(np.min(ranks, axis=0) <= DEPTH, people, np.nan), nobody)

    def _machine(self, rated: str, seed: int) -> Floats:
        return machine_grades(self.data.labels, np.asarray(self.data.labels) >= self.threshold, rated, seed)

    def searched(self, clicks: ClickTable) -> KnownWorld:
        """The queries that a log has pages of, under their old names."""
        kept = np.flatnonzero(clicks.query_impressions)
        rows = segments.rows_of_segments(self.data.offsets, kept)
        return replace(self, data=self.data[kept], scores={name: all_[rows] for name, all_ in self.scores.items()})

    # -- logs ----------------------------------------------------------------------------------------------------

    def log(self, logging: str, sessions: float, seed: int) -> ClickTable:
        """Clicks on pages of production ("one"), with swaps ("swaps"), or half of the other ranker ("two")."""
        if logging == "two":
            half = sessions // 2
            return self._simulated("production", TopK(), half, 2 * seed).merge(
                self._simulated("other", TopK(), half, 2 * seed + 1)
            )
        policy = TopK() if logging == "one" else FirstSwaps(SWAPPED)
        return self._simulated("production", policy, sessions, seed)

    def curve(self, propensities: str, logging: str, clicks: ClickTable, seed: int) -> Curve:
        """The curve that clicks are corrected by."""
        trusting = self.behaviour == "trust-biased"
        if propensities != "estimated":
            rho = Propensities.power({"steep": 1.5, "flat": 0.5}.get(propensities, ETA), DEPTH)
            irrelevant, relevant = TRUSTED.attraction(DEPTH)
            return _first_as_unit(AffineClicks.of(rho.values, relevant, irrelevant)) if trusting else rho
        if logging == "one":
            sessions = EXPERIMENT * clicks.query_impressions.sum()
            clicks = self._simulated("production", FirstSwaps(SWAPPED), max(round(sessions), 1), 10**6 + seed)
        if trusting:
            return TrustBias().fit(clicks)
        return AllPairs().fit(clicks) if logging == "two" else Pivot().fit(clicks)

    def _simulated(self, ranker: str, policy: Policy, sessions: float, seed: int) -> ClickTable:
        model = BEHAVIOURS[self.behaviour]
        simulation = Simulation(self.data, self.scores[ranker], model, policy, DEPTH, relevant_from=self.threshold)
        return simulation.draw(sessions, seed=seed, contexts=sessions < _ENDLESS / 2)

    # -- the truth -----------------------------------------------------------------------------------------------

    def given(self, name: str, logging: str) -> Any:
        """What a verdict is asked about: scores, or the log's own order."""
        if name != "log":
            return self.scores[name]
        return self.scores["production"] if logging == "two" else PRODUCTION

    def truth(self, logging: str) -> dict[str, dict[str, float]]:
        """The true difference of each pair by measure: what an endless log would say that knows each relevance."""
        clicks = replace(self, behaviour="position-based").log(logging, _ENDLESS, 0)  # whose pages are all that counts
        known = ClickEstimator(LoggedClicks(self.data, clicks, Propensities.power(ETA, DEPTH)))
        return {pair.name: {str(FIRST): self.true_difference(known, pair, FIRST, logging).value} for pair in PAIRS}

    def true_difference(self, known: ClickEstimator, pair: Pair, measure: ClickMeasure, logging: str) -> Any:
        """A true difference, weighted by the pages of a log."""
        new, old = (order_of(self.given(name, logging), known.log) for name in (pair.new, pair.old))
        return known.value(measure, new, old, self.relevance)

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save to an npz file."""
        data = self.data
        if data.labels is None:
            raise AssertionError("a world is made of labels")
        scores = {f"score {name}": values.astype(np.float32) for name, values in self.scores.items()}
        arrays = {"features": data.features, "offsets": data.offsets, "labels": data.labels, **scores}
        np.savez_compressed(path, name=np.array(data.name), synthetic=np.array(data.synthetic), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | PathLike[str], queries: str) -> KnownWorld:
        """Load one, to sample each log's queries from all ("sampled"), or to keep to the first ones ("same")."""
        with np.load(path) as found:
            arrays = {name: found[name] for name in found.files}
        data = RankingDataset(
            features=arrays["features"],
            offsets=arrays["offsets"],
            labels=arrays["labels"],
            query_ids=np.arange(len(arrays["offsets"]) - 1),
            doc_ids=np.arange(len(arrays["labels"])),
            name=str(arrays["name"]),
            synthetic=bool(arrays["synthetic"]),
        )
        prefix = "score "
        scores = {
            name.removeprefix(prefix): values.astype(np.float64)
            for name, values in arrays.items()
            if name.startswith(prefix)
        }
        if queries == "same":
            rows = data.offsets[QUERIES]
            scores = {name: values[:rows] for name, values in scores.items()}
            return cls(data[:QUERIES], scores).with_level_pairs()
        return cls(data, scores, sample=min(QUERIES, data.n_queries)).with_level_pairs()


def _first_as_unit(curve: AffineClicks) -> AffineClicks:
    """The curve of clicks, given the probability of a click at the first position, as it is estimated."""
    slope = curve.slope / curve.slope[0]
    return AffineClicks(slope, curve.base - slope * curve.base[0])


QUERIES = 600  # of each log


def split(yes: Floats, no: Floats, seed: int) -> NDArray[np.bool_]:
    """Choose the first number in some places, drawn at random, and the second in the others; as many as add up to 0.

    >>> split(np.array([3.0, 3, 3]), np.array([-1.5, -1.5, -1.5]), seed=0).sum()
    np.int64(1)
    """
    order = np.random.default_rng([seed, 5]).permutation(len(yes))
    totals = no.sum() + np.concatenate([[0.0], np.cumsum((yes - no)[order])])
    chosen = np.zeros(len(yes), dtype=bool)
    chosen[order[: int(np.abs(totals).argmin())]] = True
    return chosen


def balanced(yes: Floats, no: Floats, seed: int) -> NDArray[np.bool_]:
    """Choose one of two numbers in each place, so that all add up to about 0; the largest choices come first.

    Then choices are changed one by one, and in the end two at once, where that comes nearer.

    >>> balanced(np.array([3.0, 1, 2]), np.array([-3.0, -1, -2]), seed=0)
    array([ True, False, False])
    """
    order = np.lexsort((np.random.default_rng(seed).random(len(yes)), -np.abs(yes - no)))
    chosen, total = np.zeros(len(yes), dtype=bool), 0.0
    for at in order:
        chosen[at] = abs(total + yes[at]) <= abs(total + no[at])
        total += yes[at] if chosen[at] else no[at]
    change = np.where(chosen, no - yes, yes - no)
    for at in order:
        if abs(total + change[at]) < abs(total):
            chosen[at], total, change[at] = not chosen[at], total + change[at], -change[at]
    both = np.abs(total + change[:, None] + change)
    both[np.diag_indices(len(both))] = np.inf
    pair = np.unravel_index(int(both.argmin()), both.shape)
    if both[pair] < abs(total):
        chosen[list(pair)] ^= True
    return chosen


def small_world(seed: int = 0, queries: int = 600) -> KnownWorld:
    """A world of twenty candidates with six features, whose relevance is a logistic function of these."""
    random = np.random.default_rng(seed)
    per_query, width = 20, 6
    features = random.normal(size=(queries * per_query, width))
    weights = np.array([1.5, -1.0, 0.8, 0.5, 0.0, 0.0])
    labels = random.random(len(features)) < 1 / (1 + np.exp(2.5 - features @ weights))
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(queries), per_query), labels.astype(float))

    def ranker(noise: float, spread: float = 0.0) -> Floats:
        found: Floats = features @ (weights + random.normal(0, noise, width)) + random.normal(0, spread, len(features))
        return found

    production = ranker(0.6)
    scores = {
        "production": production,
        "other": ranker(0.6),
        "strong": ranker(0.05),
        "linear": ranker(0.3),
        "noisy": production + random.normal(0, 1.0, len(features)),
        "feature": features[:, 3],
        "popular": production + random.normal(0, 2.0, len(features)),
        "reversed": -production,
    }
    return KnownWorld(data, scores, sample=None).with_level_pairs()
