"""Propensities: how fast they are estimated, how often intervals hold the truth, and how methods fail.

    python benchmarks/propensity.py speed [--cells 1e6 4e6 1e7]
    python benchmarks/propensity.py coverage [--logs 200]
    python benchmarks/propensity.py weighting [--logs 200]
    python benchmarks/propensity.py failures
    python benchmarks/propensity.py modelled [--logs 200]
    python benchmarks/propensity.py corrections [--seeds 3]
    CLDRANK_DATA=… python benchmarks/propensity.py msrd
    CLDRANK_DATA=… python benchmarks/propensity.py single
    CLDRANK_DATA=… python benchmarks/propensity.py ranking [--seeds 3]
    CLDRANK_DATA=… python benchmarks/propensity.py ranklens [--picture docs/results/ranklens-examination.svg]

Prints one JSON line per measurement. `speed` states the time to estimate with 400 replicates over that of one lexsort
of the cells, in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

import cldrank as cr
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.simulate import (
    Cascade,
    ClickModel,
    FirstSwaps,
    NeighbourSwaps,
    Policy,
    PositionBased,
    ShuffledShare,
    Simulation,
    TopK,
    TrustBiased,
)
from cldrank.clicks.table import ClickTable
from cldrank.errors import UnidentifiableError
from cldrank.propensity import (
    AdjacentChain,
    AffineClicks,
    AllPairs,
    ClickThrough,
    DualLearning,
    Logged,
    Pivot,
    Propensities,
    Randomised,
    RegressionEM,
    TrustBias,
)
from cldrank.propensity.cells import Cells, Weighting
from cldrank.propensity.curve_document import save_chart
from cldrank.propensity.estimator import CurveEstimator, check_attraction
from cldrank.propensity.harvesting import Harvesting
from cldrank.propensity.modelled_relevance import NETWORK

DEPTH = 6
GRADES = [0.4, 0.2, 0.1, 0.2, 0.1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "study",
        nargs="?",
        default="speed",
        choices=[
            "speed",
            "coverage",
            "weighting",
            "failures",
            "modelled",
            "corrections",
            "msrd",
            "single",
            "ranking",
            "ranklens",
        ],
    )
    parser.add_argument("--cells", type=float, nargs="+", default=[1e6, 4e6, 1e7])
    parser.add_argument("--logs", type=int, default=200, help="simulated for the coverage")
    parser.add_argument("--picture", type=Path, help="where to draw the curve of RankLens")
    parser.add_argument("--seeds", type=int, default=3, help="of the studies of rankings")
    options = parser.parse_args()
    studies: dict[str, Callable[[], None]] = {
        "speed": lambda: speed([int(cells) for cells in options.cells]),
        "coverage": lambda: coverage(options.logs),
        "weighting": lambda: weighting(options.logs),
        "failures": failures,
        "modelled": lambda: modelled(options.logs),
        "corrections": lambda: corrections(options.seeds),
        "msrd": msrd,
        "single": single,
        "ranking": lambda: ranking(options.seeds),
        "ranklens": lambda: ranklens(options.picture),
    }
    studies[options.study]()


def say(**content: Any) -> None:
    print(json.dumps({"benchmark": "propensity", **content}, ensure_ascii=False), flush=True)


# -- speed ---------------------------------------------------------------------------------------------------------


def speed(sizes: list[int]) -> None:
    estimators = [ClickThrough(), Pivot(depth=4), AdjacentChain(), AllPairs()]
    for cells in sizes:
        table = large_table(cells)
        lexsort = median(lambda: np.lexsort((table.position, table.row)))  # noqa: B023
        count = median(lambda: np.bincount(table.position, table.clicks))  # noqa: B023
        for estimator in estimators:
            seconds = median(lambda: estimator.fit(table))  # noqa: B023
            say(
                study="speed",
                estimator=type(estimator).__name__,
                cells=table.n_cells,
                impressions=int(table.impressions.sum()),
                replicates=estimator.replicates,
                seconds=round(seconds, 3),
                ratio_lexsort=round(seconds / lexsort, 2),
                ratio_bincount=round(seconds / count, 1),
            )


def large_table(cells: int, places: int = 4, depth: int = 10, seed: int = 0) -> ClickTable:
    """Candidates shown at four neighbouring positions each."""
    random = np.random.default_rng(seed)
    rows = cells // places
    row = np.repeat(np.arange(rows), places)
    position = np.repeat(random.integers(1, depth - places + 2, rows), places) + np.tile(np.arange(places), rows)
    impressions = random.integers(1, 20, len(row))
    clicks = random.binomial(impressions, np.repeat(random.random(rows) * 0.5, places) / position)
    queries = max(rows // 10, 1)
    offsets = np.linspace(0, rows, queries + 1).astype(np.int64)
    return ClickTable(Candidates(offsets, np.arange(queries), np.arange(rows)), row, position, impressions, clicks)


def median(function: Callable[[], Any], repeats: int = 3) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


# -- simulated logs ------------------------------------------------------------------------------------------------


class World:
    """Queries with labels, two rankers that are alike, and logs of them by design."""

    def __init__(self, queries: int = 300, candidates: int = 20, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        labels = random.choice(len(GRADES), p=GRADES, size=queries * candidates)
        query = np.repeat(np.arange(queries), candidates)
        self.data = cr.RankingDataset.from_arrays(np.zeros((len(labels), 1)), query, labels)
        self.scores = labels + random.normal(0, 2, len(labels))
        self.other = self.scores + random.normal(0, 1, len(labels))

    def log(self, model: ClickModel, policy: Policy, sessions: float, seed: int) -> ClickTable:
        """Pages of the first ranker, varied by a policy."""
        return Simulation(self.data, self.scores, model, policy, depth=DEPTH).draw(sessions, seed=seed)

    def two_rankers(self, model: ClickModel, sessions: float, seed: int) -> ClickTable:
        """Half of the pages of each ranker."""
        logs = [
            Simulation(self.data, scores, model, TopK(), depth=DEPTH).draw(sessions / 2, seed=2 * seed + turn)
            for turn, scores in enumerate((self.scores, self.other))
        ]
        return logs[0].merge(logs[1])


SHARE = 0.3  # of shuffled pages, in the log of the policy that logs its probabilities


def designs(world: World, model: ClickModel, sessions: float, seed: int) -> dict[str, ClickTable]:
    return {
        "shuffled": world.log(model, ShuffledShare(1.0), sessions, seed),
        "30% shuffled": world.log(model, ShuffledShare(SHARE), sessions, seed),
        "first swaps": world.log(model, FirstSwaps(0.5), sessions, seed),
        "neighbour swaps": world.log(model, NeighbourSwaps(0.5), sessions, seed),
        "two rankers": world.two_rankers(model, sessions, seed),
    }


METHODS: Mapping[tuple[str, str], CurveEstimator] = {
    ("shuffled", "Randomised"): Randomised(),
    ("30% shuffled", "Logged"): Logged(),
    ("first swaps", "Pivot"): Pivot(),
    ("neighbour swaps", "Adjacent chain"): AdjacentChain(),
    ("two rankers", "Pivot"): Pivot(depth=4),
    ("two rankers", "AdjacentChain"): AdjacentChain(),
    ("two rankers", "AllPairs"): AllPairs(),
    ("two rankers", "AllPairs, candidates alike"): AllPairs(weighting="candidates"),
    ("two rankers", "ClickThrough"): ClickThrough(),
}


def fitted(world: World, estimator: CurveEstimator, log: ClickTable) -> Propensities:
    return estimator.given_log(shown_with(world, log)).fit(log)


def shown_with(world: World, log: ClickTable) -> Any:
    """P(a cell is shown): production's place in 1 - SHARE of pages, any place of the page in the others."""
    place = Simulation(world.data, world.scores, depth=DEPTH).ranking.top
    own = np.zeros(world.data.n_rows, dtype=np.int64)
    own[place[place >= 0]] = np.nonzero(place >= 0)[1] + 1
    return (1 - SHARE) * (own[log.row] == log.position) + SHARE / DEPTH


def coverage(logs: int) -> None:
    world, model = World(), PositionBased(eta=1, noise=0.1)
    truth = model.propensities(DEPTH)
    held: dict[tuple[str, str], list[Any]] = {key: [] for key in METHODS}
    widths: dict[tuple[str, str], list[Any]] = {key: [] for key in METHODS}
    fits: dict[tuple[str, str], list[float]] = {key: [] for key in METHODS}
    for seed in range(logs):
        tables = designs(world, model, 6e4, seed)
        for (design, name), estimator in METHODS.items():
            rho = fitted(world, estimator, tables[design])
            assert rho.low is not None
            assert rho.high is not None
            inside = (rho.low <= truth[: len(rho)]) & (truth[: len(rho)] <= rho.high)
            held[design, name].append(inside[1:].mean())
            widths[design, name].append(((rho.high - rho.low) / rho.values)[1:].mean())
            if rho.goodness is not None:
                fits[design, name].append(rho.goodness.p_value < 0.05)
    for key in METHODS:
        share = np.array(held[key])
        say(
            study="coverage",
            log=key[0],
            method=key[1],
            logs=logs,
            nominal=0.9,
            coverage=round(float(share.mean()), 3),
            error=round(float(share.std(ddof=1) / np.sqrt(logs)), 3),
            width=round(float(np.mean(widths[key])), 3),
            refuted=round(float(np.mean(fits[key])), 3) if fits[key] else None,
        )


def weighting(logs: int) -> None:
    """Both weightings, where all queries are searched alike and where few make up most of the searches."""
    kinds: tuple[type[Harvesting], ...] = (AllPairs, AdjacentChain)
    ways: tuple[Weighting, ...] = ("impressions", "candidates")
    for power in (0.0, 0.8, 1.2):
        found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        apart: dict[str, list[float]] = {}
        for seed in range(logs):
            table = uneven_log(seed, power)
            truth = 1 / np.arange(1, DEPTH + 1)
            for way in ways:
                curves = [kind(weighting=way, refuse_above=2.0).fit(table) for kind in kinds]
                for rho in curves:
                    assert rho.low is not None
                    assert rho.high is not None
                    held = ((rho.low <= truth) & (truth <= rho.high))[1:].mean()
                    width = ((rho.high - rho.low) / rho.values)[1:].mean()
                    error = np.abs(np.log(rho.values / truth))[1:].mean()
                    found.setdefault((way, str(rho.method)), []).append((held, width, error))
                apart.setdefault(way, []).append(float(np.abs(np.log(curves[0].values / curves[1].values)).max()))
        for (name, method), values in found.items():
            held, width, error = np.mean(values, axis=0)
            say(
                study="weighting",
                searches=f"rank^-{power:g}",
                method=method,
                weighting=name,
                logs=logs,
                coverage=round(float(held), 3),
                coverage_error=round(float(np.std(values, axis=0, ddof=1)[0] / np.sqrt(logs)), 3),
                width=round(float(width), 3),
                error=round(float(error), 3),
                worst_difference=round(float(np.exp(np.mean(apart[name]))), 3),
            )


def uneven_log(seed: int, power: float, queries: int = 400, candidates: int = 12, sessions: int = 40_000) -> ClickTable:
    """Two rankers, half of the sessions each; the r-th most frequent query has a share r^-power of the searches."""
    random = np.random.default_rng(seed)
    rows = np.arange(queries * candidates)
    data = cr.RankingDataset.from_arrays(np.zeros((len(rows), 1)), rows // candidates)
    relevance = random.beta(0.6, 2, (queries, candidates))
    share = np.arange(1, queries + 1) ** -power
    searched = random.multinomial(sessions, share / share.sum())
    first = random.binomial(searched, 0.5)
    one = 2 * relevance + random.normal(size=relevance.shape)
    two = one + random.normal(0, 0.7, relevance.shape)
    shown = np.zeros((len(rows), DEPTH), dtype=np.int64)
    for scores, pages in ((one, first), (two, searched - first)):
        top = np.argsort(-scores, axis=1)[:, :DEPTH] + candidates * np.arange(queries)[:, None]
        shown[top, np.arange(DEPTH)] += pages[:, None]
    row, place = np.nonzero(shown)
    impressions = shown[row, place]
    clicks = random.binomial(impressions, relevance.ravel()[row] / (place + 1))
    return ClickTable.from_arrays(data, row=row, position=place + 1, impressions=impressions, clicks=clicks)


def mean_examination(simulation: Simulation) -> NDArray[np.float64]:
    """P(examined | shown at the position) over all sessions of a policy that draws no pages."""
    ranking, layouts = simulation.ranking, simulation.layouts
    examined, shown = np.zeros(simulation.longest_page), np.zeros(simulation.longest_page)
    for layout, places in enumerate(layouts.places):
        rows = ranking.pages(np.arange(ranking.n_queries), places)
        weight = layouts.shares[ranking.lengths, layout][:, None] * (rows >= 0)
        examined += (weight * simulation.model.examination(simulation.relevant_on(rows))).sum(axis=0)
        shown += weight.sum(axis=0)
    return examined / shown


def failures() -> None:
    world = World()
    models: dict[str, ClickModel] = {
        "position-based": PositionBased(eta=1, noise=0.1),
        "trust bias": TrustBiased(eta=1),
        "cascade": Cascade(noise=0.1),
    }
    for name, model in models.items():
        tables = designs(world, model, 1e6, 1)
        true = mean_examination(Simulation(world.data, world.scores, model, NeighbourSwaps(0.5), depth=DEPTH))
        for (design, method), estimator in METHODS.items():
            told: dict[str, Any] = {}
            try:
                rho = fitted(world, estimator, tables[design])
                told = {"found": [round(value, 3) for value in rho.values.tolist()]}
                told["fit_p"] = None if rho.goodness is None else round(rho.goodness.p_value, 4)
                attraction = check_attraction(Cells.of(tables[design], None, 0), rho.values)
                told["attraction_p"] = None if attraction is None else round(attraction, 4)
            except UnidentifiableError as refusal:
                told = {"refusal": str(refusal)}
            say(study="failures", model=name, log=design, method=method, examined=np.round(true, 3).tolist(), **told)


# -- relevance modelled, and trust ----------------------------------------------------------------------------------


def anchored(trust: AffineClicks) -> AffineClicks:
    """The same with slope 1 and base 0 at the first position, as estimates are."""
    slope = trust.slope / trust.slope[0]
    return AffineClicks(slope, trust.base - slope * trust.base[0])


def logistic_log(seed: int, follows: float, queries: int = 400, candidates: int = 12) -> tuple[Any, ClickTable]:
    """Relevance that is logistic in the features, and a ranker that follows it more or less."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(queries * candidates, 6))
    score = features @ np.array([1, -0.8, 0.6, 0.4, 0, 0])
    data = cr.RankingDataset.from_arrays(features, np.arange(len(features)) // candidates)
    order = (-(follows * score + random.normal(size=len(score)))).reshape(queries, -1).argsort(axis=1).argsort(axis=1)
    rank = order.ravel() + 1
    shown = rank <= DEPTH
    impressions = np.where(shown, 100, 0)
    clicks = random.binomial(impressions, np.where(shown, 1 / (1 + np.exp(1 - score)) / rank, 0.0))
    position = np.where(shown, rank, 0)
    return data, ClickTable.from_arrays(data, position=position, impressions=impressions, clicks=clicks)


def modelled(logs: int) -> None:
    """Coverage of RegressionEM under its own model, and of TrustBias on the designs."""
    truth = 1 / np.arange(1, DEPTH + 1)
    for follows in (0.0, 1.0, 5.0):
        held = []
        for seed in range(logs):
            data, clicks = logistic_log(seed, follows)
            rho = RegressionEM().fit(clicks, data)
            assert rho.low is not None
            assert rho.high is not None
            held.append(((rho.low <= truth) & (truth <= rho.high))[1:].mean())
        tell(held, study="modelled", method="RegressionEM", follows=follows)
    world = World()
    for name, model in {"trust bias": TrustBiased(eta=1), "position-based": PositionBased(eta=1, noise=0.1)}.items():
        irrelevant, relevant = model.attraction(DEPTH)
        true = anchored(AffineClicks.of(model.propensities(DEPTH), relevant, irrelevant))
        for design in ("shuffled", "30% shuffled", "first swaps", "neighbour swaps", "two rankers"):
            held, refuted = [], []
            for seed in range(logs):
                found = TrustBias().fit(designs(world, model, 6e4, seed)[design])
                inside = []
                for part in ("slope", "base"):
                    low, high = found.interval(part)
                    inside.append(((low <= getattr(true, part)) & (getattr(true, part) <= high))[1:])
                held.append(np.mean(inside))
                refuted.append("not refuted" not in found.notes[0])
            tell(held, study="modelled", method="TrustBias", model=name, log=design, refuted=float(np.mean(refuted)))


def tell(held: list[Any], **content: Any) -> None:
    share = np.array(held)
    error = share.std(ddof=1) / np.sqrt(len(share))
    say(**content, logs=len(share), coverage=round(float(share.mean()), 3), error=round(float(error), 3))


METHOD_MODELS = {"linear": cr.Linear(), "mlp": cr.MLP()}


def corrections(seeds: int) -> None:
    """Rankings by AffineIPS and PolicyAwareIPS, each beside IPS where its own bias is at work."""
    rho = Propensities.power(1, 5)
    for seed in range(seeds):
        (train, labels), (test, _) = (linear_world(2 * seed + turn) for turn in (0, 1))
        other = train.features @ np.array([0.2, 1, 0.3, 0.5, 1])
        clicks = Simulation(train, other, TrustBiased(eta=1), NeighbourSwaps(0.5), 5, relevant_from=1).draw(
            1e5, seed=seed
        )
        curve, trust = AllPairs().fit(clicks), TrustBias().fit(clicks)
        for name, model in METHOD_MODELS.items():
            fitted = {
                "IPS, true examination": cr.IPS(model=model).fit(train, clicks, rho),
                "IPS, AllPairs": cr.IPS(model=model).fit(train, clicks, curve),
                "AffineIPS, TrustBias": cr.AffineIPS(model=model).fit(train, clicks, trust),
            }
            found = {title: round(cr.evaluate(ranker, test, ["AP"])["AP"], 3) for title, ranker in fitted.items()}
            say(study="corrections", bias="trust", seed=seed, model=name, ap=found)
        knows = 3 * labels + train.features @ np.array([-0.5, -0.4, 0.3, 0, 1])
        noisy = (
            knows + np.random.default_rng([seed, page]).gumbel(scale=0.5, size=train.n_rows) for page in range(300)
        )
        pages = [Simulation(train, scores, PositionBased(1, 0.1), depth=5, relevant_from=1) for scores in noisy]
        clicks = ClickTable.merged([page.draw(1000, seed=number) for number, page in enumerate(pages)])
        for name, model in METHOD_MODELS.items():
            fitted = {
                "IPS": cr.IPS(model=model).fit(train, clicks, rho),
                "PolicyAwareIPS": cr.PolicyAwareIPS(model=model).fit(train, clicks, rho),
                "Oracle": cr.Oracle(model=model).fit(train),
            }
            found = {title: round(cr.evaluate(ranker, test, ["AP"])["AP"], 3) for title, ranker in fitted.items()}
            say(study="corrections", bias="selection", seed=seed, model=name, ap=found)


def linear_world(seed: int) -> tuple[cr.RankingDataset, Any]:
    """300 queries of 15 candidates; relevant are those above a threshold of a noisy linear score."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(300 * 15, 5))
    labels = (features @ np.array([1, 0.8, -0.6, 0.4, 0]) + 0.7 * random.normal(size=len(features)) > 1).astype(int)
    return cr.RankingDataset.from_arrays(features, np.arange(len(features)) // 15, labels), labels


# -- real data -----------------------------------------------------------------------------------------------------


def data_folder() -> Path:
    folder = os.environ.get("CLDRANK_DATA")
    if not folder:
        raise SystemExit("name the folder of real data sets in CLDRANK_DATA")
    return Path(folder)


def msrd() -> None:
    """Two rankers of real queries: all-pairs against adjacent chain; and one of them alone."""
    data = cr.load(data_folder() / "msrd" / "train.parquet")
    rankers = [cr.SVMRank(fraction=0.01, run=cr.Run(seed=seed)).fit(data).predict(data) for seed in (0, 1)]
    model = PositionBased(eta=1, noise=0.1)
    tables = [Simulation(data, scores, model, depth=10).draw(1e5, seed=seed) for seed, scores in enumerate(rankers)]
    both = tables[0].merge(tables[1])
    alike: Weighting = "candidates"
    estimators: list[CurveEstimator] = [AllPairs(), AdjacentChain(), Pivot()]
    for estimator in (*estimators, AllPairs(weighting=alike), AdjacentChain(weighting=alike)):
        rho = estimator.fit(both)
        assert rho.low is not None
        assert rho.high is not None
        say(
            study="msrd",
            method=repr(estimator),
            sessions=200_000,
            values=np.round(rho.values, 4).tolist(),
            low=np.round(rho.low, 4).tolist(),
            high=np.round(rho.high, 4).tolist(),
            width=np.round((rho.high - rho.low) / rho.values, 3).tolist(),
        )
    try:
        AllPairs().fit(tables[0])
    except UnidentifiableError as refusal:
        say(study="msrd", log="one ranker", method="AllPairs", refusal=str(refusal))


def one_ranker(data: cr.RankingDataset, seed: int, cutoff: int) -> ClickTable:
    """100,000 sessions of one SVM-ranker trained on 1% of the labels."""
    scores = cr.SVMRank(fraction=0.01, run=cr.Run(seed=seed)).fit(data).predict(data)
    return Simulation(data, scores, PositionBased(eta=1, noise=0.1), depth=cutoff).draw(1e5, seed=seed)


def single() -> None:
    """One ranker of real queries: harvesting refuses; what do those say that model relevance?"""
    data = cr.load(data_folder() / "msrd" / "train.parquet")
    clicks = one_ranker(data, 0, 10)
    truth = PositionBased(eta=1).propensities(10)
    try:
        AllPairs().fit(clicks)
    except UnidentifiableError as refusal:
        say(study="single", method="AllPairs", refusal=str(refusal))
    methods: list[RegressionEM | DualLearning] = [RegressionEM(), RegressionEM(model=cr.Linear(l2=1e-3))]
    network = replace(NETWORK, epochs=12)
    methods += [DualLearning(model=network, refits=3)]
    fits: dict[str, Callable[[], Propensities]] = {"ClickThrough()": lambda: ClickThrough().fit(clicks)}
    for method in methods:
        fits[repr(method)] = partial(replace(method, refuse_above=2.0).fit, clicks, data)
    for name, fit in fits.items():
        start = time.perf_counter()
        rho = fit()
        say(
            study="single",
            method=name,
            values=np.round(rho.values, 4).tolist(),
            low=None if rho.low is None else np.round(rho.low, 4).tolist(),
            high=None if rho.high is None else np.round(rho.high, 4).tolist(),
            relative_error=np.round(rho.values / truth - 1, 3).tolist(),
            seconds=round(time.perf_counter() - start, 1),
        )


def ranking(seeds: int, cutoff: int = 5) -> None:
    """How much ranking quality estimated propensities cost, on logs of one and of two rankers."""
    folder = data_folder() / "msrd"
    data, test = (cr.load(folder / f"{part}.parquet") for part in ("train", "test"))
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        first, second = (one_ranker(data, 2 * seed + turn, cutoff) for turn in (0, 1))
        both = first.merge(second)
        curves = {
            ("one ranker", "true"): (first, Propensities.power(1, cutoff)),
            ("one ranker", "RegressionEM"): (first, RegressionEM().fit(first, data)),
            ("one ranker", "ClickThrough"): (first, ClickThrough().fit(first)),
            ("two rankers", "true"): (both, Propensities.power(1, cutoff)),
            ("two rankers", "AllPairs"): (both, AllPairs().fit(both)),
        }
        for (log, name), (clicks, rho) in curves.items():
            for model in (cr.CLD(gamma=0.05), cr.CLDPair(run=cr.Run(seed=seed))):
                model.fit(data, clicks, rho)
                scores = cr.evaluate(model, test, ["nDCG@3", "AP"])
                entry = (scores["nDCG@3"], scores["AP"])
                found.setdefault((log, name, type(model).__name__), []).append(entry)
    half = float(stdtrit(seeds - 1, 0.95)) / np.sqrt(seeds)
    for (log, name, method), values in found.items():
        table = np.array(values)
        lost = np.array(found[log, "true", method]) - table
        say(
            study="ranking",
            log=log,
            propensities=name,
            method=method,
            seeds=seeds,
            ndcg_3=round(float(table[:, 0].mean()), 4),
            ap=round(float(table[:, 1].mean()), 4),
            lost_ndcg_3=np.round([lost[:, 0].mean(), half * lost[:, 0].std(ddof=1)], 4).tolist(),
            lost_ap=np.round([lost[:, 1].mean(), half * lost[:, 1].std(ddof=1)], 4).tolist(),
        )


def ranklens(picture: Path | None) -> None:
    columns = {"session_id": "ranking", "user_id": "user", "timestamp": "ts_ms", "doc_id": "item", "clicked": "click"}
    path = data_folder() / "ranklens" / "impressions.parquet"
    clicks = ClickTable.read(path, columns=columns, one_query=True)
    start = time.perf_counter()
    estimates = {"Randomised": Randomised().fit(clicks), "AllPairs": AllPairs().fit(clicks)}
    seconds = time.perf_counter() - start
    true = estimates["Randomised"].values
    alike = {"AllPairs, candidates alike": AllPairs(weighting="candidates").fit(clicks)}
    for name, rho in {**estimates, **alike}.items():
        assert rho.low is not None
        assert rho.high is not None
        say(
            study="ranklens",
            method=name,
            values=np.round(rho.values, 3).tolist(),
            low=np.round(rho.low, 3).tolist(),
            high=np.round(rho.high, 3).tolist(),
            mean_width=round(float(((rho.high - rho.low) / rho.values)[1:].mean()), 3),
            mean_difference_from_randomised=round(float(np.abs(np.log(rho.values / true))[1:].mean()), 4),
            goodness=str(rho.goodness),
            seconds_of_all=round(seconds, 2),
        )
    if picture:
        save_chart(estimates, picture)


if __name__ == "__main__":
    main()
