"""Judgements from clicks beside what relevance tools offer: click-through rate, and clicks over expected clicks (COEC).

    CLDRANK_DATA=… python benchmarks/judgements.py [--study compare] [--data msrd] [--production good] [--seeds 3]

Production is a ranker from 1% of the labels; a good one ranks by labels with an error of standard deviation 1. A
document of label l is clicked, if examined, with a probability r from Beta(8 a, 8 (1 - a)), where
a = 0.05 + 0.75 (2^l - 1) / (2^max - 1); position k is examined with (1/k)^eta. Pages are those of production, or three
in ten of them have two neighbours swapped. All figures are of the documents that were shown, beside the true r: means
over eta and depth, then over seeds, with the 90% t-interval of the latter; ▲ marks what is better than judgements
beyond the interval of the difference, taken seed by seed.

    compare    all estimates, with the true curve and, where pages vary, with one estimated by all pairs
    trust      the same where people trust high positions, with slopes and bases: true ones, and estimated ones
    prior      the priors that judgements might have had, on logs of other seeds (and other queries of MSRD)
    ratings    with and without a machine's ratings that agree with labels to 0.83, of all documents and a tenth
    speed      time and memory of judging 10^6 and 10^7 cells, beside reading them

COEC is c / Σ n ctr_k, ctr_k the click-through rate of position k. As the Search Relevance Workbench computes it, all
impressions of a document are taken to have been at its best position. One JSON line; a table on standard error.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cldrank as cr
from cldrank import catalogue
from cldrank.clicks.ratings import Ratings
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation, TopK
from cldrank.data import synthetic
from cldrank.deconvolution import most_likely_mass, posterior_mass
from cldrank.errors import CldrankWarning, UnidentifiableError
from cldrank.judgements import judge_documents
from cldrank.judgements.relevance_posterior import ClickCounts, RelevancePosterior
from cldrank.measures import mean_interval
from cldrank.propensity import AffineClicks, AllPairs, Propensities, TrustBias

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from judgement_measures import (
    auc,
    calibration_error,
    ndcg,
    pairs_in_order,
    pairs_of_queries,
    rank_correlation,
)
from simulated_raters import RATED, machine_grades

Floats = NDArray[np.float64]
Figures = dict[str, float]
Sizes = tuple[float, ...]

QUERIES = {"web10k-like": 500, "yahoo-like": 1000, "msrd": 2000}
SHAPES = ((0.5, 10), (1.0, 5), (1.5, 10))  # eta and depth
VALIDATION = 1000  # the first seed of logs to choose by
POLICIES = {"one ranker": TopK(), "swaps": NeighbourSwaps(0.3)}
SPREAD = 8.0
MOST_CELLS = 2_000_000  # that are judged by an estimated curve, which takes twenty times as long
BETTER = dict.fromkeys(["rank correlation", "pairs", "pairs of a query", "AUC", "nDCG"], 1)
BETTER |= dict.fromkeys(["error", "rescaled error", "ECE"], -1)
PRIORS = {  # what documents share one, the documents that a common prior counts as, steps of EM
    "most frequent position": ("most frequent", 20, 100),
    "one for all": ("one for all", 20, 100),
    "highest position": ("highest", 20, 100),
    "mean position": ("mean", 20, 100),
    "mixture of positions": ("mixture", 20, 100),
    **{f"{known} documents": ("most frequent", known, 100) for known in (0, 5, 10, 30, 100)},
    **{f"{steps} steps": ("most frequent", 20, steps) for steps in (20, 50, 200, 500)},
}


@dataclass(frozen=True)
class World:
    """Queries with known relevance, and production's scores."""

    name: str
    data: cr.RankingDataset
    scores: Floats
    relevance: Floats
    seed: int

    @classmethod
    def of(cls, name: str, production: str, seed: int) -> World:
        """A data set, or a synthetic one in its shape; to choose by, half as many queries, and others of MSRD."""
        first, number = (QUERIES[name], QUERIES[name] // 2) if seed >= VALIDATION else (0, QUERIES[name])
        data = cr.load("msrd:train")[first : first + number] if name == "msrd" else synthetic.make(name, number, seed)
        labels = np.asarray(data.labels, dtype=np.float64)
        if production == "good":
            scores = labels + np.random.default_rng([seed, 0]).normal(size=len(labels))
        else:
            scores = cr.SVMRank(fraction=0.01, run=cr.Run(seed=seed)).fit(data).predict(data)
        usual = 0.05 + 0.75 * (2**labels - 1) / (2 ** labels.max() - 1)
        relevance = np.random.default_rng([seed, 1]).beta(SPREAD * usual, SPREAD * (1 - usual))
        return cls(name, data, scores, relevance, seed)

    def log(self, curve: AffineClicks, policy: Any, sessions: float) -> cr.ClickTable:
        """Pages of the simulation, clicks from the curve and the relevance."""
        shown = Simulation(self.data, self.scores, PositionBased(), policy, len(curve)).draw(sessions, seed=self.seed)
        slope, base = curve.per_cell(shown)
        random = np.random.default_rng([self.seed, 2, int(sessions)])
        clicks = random.binomial(shown.impressions, slope * self.relevance[shown.row] + base)
        return cr.ClickTable(shown.candidates, shown.row, shown.position, shown.impressions, clicks)


# -- estimates -------------------------------------------------------------------------------------------------------


def peers(log: cr.ClickTable, curve: Propensities) -> dict[str, Floats]:
    """What others say of every row; 0/0 where it was never shown."""
    n, c, rows = log.impressions, log.clicks, log.candidates.n_rows
    total, clicked = np.bincount(log.row, n, rows), np.bincount(log.row, c, rows)
    rate = np.bincount(log.position, c) / np.maximum(np.bincount(log.position, n), 1)
    best = np.full(rows, log.depth)
    np.minimum.at(best, log.row, log.position)
    expected = np.bincount(log.row, n * rate[log.position], rows)
    examined = np.bincount(log.row, n * curve.per_cell(log), rows)
    with np.errstate(all="ignore"):
        return {
            "click-through rate": clicked / total,
            "COEC": clicked / expected,
            "COEC, best position": clicked / (total * rate[best]),
            "c / nρ": clicked / examined,
        }


def estimated(estimator: Any, log: cr.ClickTable) -> Any:
    try:
        return estimator.fit(log)
    except UnidentifiableError:
        return None


# -- measures --------------------------------------------------------------------------------------------------------


def measured(estimate: Floats, world: World, shown: Any, truth: Floats, query: Any) -> Figures:
    """Of the documents that were shown: ranks, and calibration against the truth."""
    estimate, truth, query = estimate[shown], truth[shown], query[shown]
    fit = np.polyfit(estimate, truth, 1) if np.ptp(estimate) > 0 else np.array([0.0, truth.mean()])
    labels = np.asarray(world.data.labels, dtype=np.float64)
    label = labels[shown] >= max(1.0, float(labels.max()) // 2 + 1)
    return {
        "rank correlation": rank_correlation(estimate, truth),
        "pairs": pairs_in_order(estimate, truth),
        "pairs of a query": pairs_of_queries(estimate, truth, query),
        "error": float(np.sqrt(np.mean((estimate - truth) ** 2))),
        "rescaled error": float(np.sqrt(np.mean((np.polyval(fit, estimate) - truth) ** 2))),
        "slope": float(fit[0]),
        "intercept": float(fit[1]),
        "ECE": calibration_error(estimate, truth),
        "AUC": auc(estimate, label),
    }


def without_ties(estimate: Floats, truth: Floats, clicks: Any) -> Figures:
    """The rank correlation if ties are broken at random, and if all documents without a click share a rank."""
    order = np.lexsort((np.random.default_rng(0).random(len(estimate)), estimate))
    broken = np.empty(len(order))
    broken[order] = np.arange(len(order))
    return {
        "rank correlation, ties broken": rank_correlation(broken, truth),
        "rank correlation, unclicked tied": rank_correlation(np.where(clicks > 0, estimate, -1.0), truth),
    }


# -- studies ---------------------------------------------------------------------------------------------------------


def compared(world: World, sizes: Sizes) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """Every setting of a world, with the figures of every estimate."""
    for eta, depth in SHAPES:
        true = Propensities.power(eta, depth)
        for pages, policy in POLICIES.items():
            for sessions in sizes:
                log = world.log(AffineClicks.from_propensities(true), policy, sessions)
                curves = {"judgements": true}
                found = estimated(AllPairs(), log) if pages == "swaps" else None
                if found is not None:
                    curves["judgements, estimated curve"] = found
                    curves["the same, taken as certain"] = Propensities(found.values, method=found.method)
                yield {"pages": pages, "sessions": sessions}, figures(world, log, true, curves, world.relevance)


def trusted(world: World, sizes: Sizes) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """The same under trust: relevance is the probability of a click at position 1."""
    depth = 10
    k = np.arange(1, depth + 1)
    affine = AffineClicks.of(1 / k, 1 - (k + 1) / 100, 0.65 / k)
    truth = affine.slope[0] * world.relevance + affine.base[0]
    for sessions in sizes:
        log = world.log(affine, POLICIES["swaps"], sessions)
        plain = Propensities.power(1, depth)
        slope = affine.slope / affine.slope[0]  # slope 1 and base 0 at the first position, as estimates have
        at_first = AffineClicks(slope, affine.base - slope * affine.base[0])
        curves: dict[str, Any] = {"judgements, slopes alone": plain, "judgements": at_first}
        found = estimated(TrustBias(), log)
        if found is not None:
            curves["judgements, estimated trust"] = found
        yield (
            {"pages": "swaps", "sessions": sessions},
            figures(world, log, plain, curves, truth),
        )


def figures(
    world: World, log: cr.ClickTable, assumed: Propensities, curves: dict[str, Any], truth: Floats
) -> dict[str, Figures]:
    shown, query = np.flatnonzero(log.shown), log.candidates.row_queries
    estimates = peers(log, assumed)
    covered: dict[str, Figures] = defaultdict(dict)
    for name, curve in curves.items():
        found = judge_documents(log, curve, envelope="off")
        estimates[name] = found.relevance
        inside = (found.low <= truth) & (truth <= found.high)
        covered[name] = {
            "coverage": float(inside[shown].mean()),
            "width": float((found.high - found.low)[shown].mean()),
        }
    return {
        name: {
            **measured(one, world, shown, truth, query),
            "nDCG": ndcg(np.nan_to_num(one), log, world.data),
            **covered[name],
            **without_ties(one[shown], truth[shown], log.row_clicks[shown]),
        }
        for name, one in estimates.items()
    }


def tried(world: World, sizes: Sizes) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """Each prior, and what judgements have."""
    for eta, depth in SHAPES:
        true = Propensities.power(eta, depth)
        for sessions in sizes:
            log = world.log(AffineClicks.from_propensities(true), POLICIES["swaps"], sessions)
            model = RelevancePosterior(log, true)
            table = model.counts.click_probability(log, true, model.grid)
            likelihood = model.counts.likelihood(np.arange(len(model.counts.size)), table)
            rows, kind, query = model.counts.rows, model.counts.group, log.candidates.row_queries
            result = {}
            for name, (home, known, steps) in PRIORS.items():
                posterior = by_prior(likelihood, model.counts.size, shares(model.counts, home), known, steps)
                estimate = np.full(log.candidates.n_rows, np.nan)
                estimate[rows] = (posterior @ model.grid)[kind]
                low, high = (end[kind] for end in model.interval(posterior, 0.9))
                inside = (low <= world.relevance[rows]) & (world.relevance[rows] <= high)
                covered = {"coverage": float(inside.mean()), "width": float((high - low).mean())}
                result[name] = {**measured(estimate, world, rows, world.relevance, query), **covered}
            shipped = figures(world, log, true, {"judgements": true}, world.relevance)["judgements"]
            yield {"pages": "swaps", "sessions": sessions}, {**result, "judgements": shipped}


def rated(world: World, sizes: Sizes) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """Judgements without ratings, and with a machine's of all documents and of a tenth."""
    labels = np.asarray(world.data.labels, dtype=np.float64)
    relevant = labels >= max(1.0, float(labels.max()) // 2 + 1)
    for eta, depth in SHAPES:
        true = Propensities.power(eta, depth)
        for sessions in sizes:
            log = world.log(AffineClicks.from_propensities(true), POLICIES["swaps"], sessions)
            result = figures(world, log, true, {"judgements": true}, world.relevance)
            result = {"judgements": result["judgements"]}
            for share in RATED:
                grades = machine_grades(labels, relevant, share, world.seed)
                beside = log.rated(Ratings(np.full(len(grades), np.nan), grades))
                name = f"with ratings of {share}"
                result[name] = figures(world, beside, true, {name: true}, world.relevance)[name]
            yield {"pages": "swaps", "sessions": sessions}, result


def by_prior(likelihood: Floats, number: Any, home: Floats, known: float, steps: int) -> Floats:
    """(kinds, grid) posteriors; `home` (kinds, priors) is the share of each prior in that of a kind."""
    points = likelihood.shape[1]
    common = most_likely_mass(likelihood, number, known=np.full(points, known / points), steps=steps)
    priors = [
        most_likely_mass(likelihood[own > 0], (number * own)[own > 0], known=known * common, steps=steps)
        for own in home.T
    ]
    return posterior_mass(likelihood, home @ np.array(priors))


def shares(counts: ClickCounts, home: str) -> Floats:
    """(kinds, priors) how much of each prior is in that of a kind of documents."""
    shown = (counts.clicked + counts.missed).toarray()
    each, places = np.arange(shown.shape[1]), shown / shown.sum(axis=1, keepdims=True)
    if home == "mixture":
        return np.asarray(places)
    chosen = {
        "one for all": np.zeros(len(shown)),
        "most frequent": counts.main_slot,
        "highest": (shown > 0).argmax(axis=1),
        "mean": np.rint(places @ each),
    }[home]
    found = (chosen[:, None] == each).astype(np.float64)
    return np.asarray(found[:, found.any(axis=0)])


# -- speed -----------------------------------------------------------------------------------------------------------


def timed(cells: int, folder: Path) -> dict[str, Any]:
    """Seconds and the peak of memory, in a process that does nothing else."""
    path = folder / "cells.parquet"
    made_cells(cells).save(path)
    with get_context("spawn").Pool(1) as pool:
        return {"cells": cells, **pool.apply(measured_speed, (path,))}


def made_cells(cells: int, depth: int = 10) -> cr.ClickTable:
    """Ten documents a query, each at two positions; impressions of queries have a heavy tail."""
    random = np.random.default_rng(0)
    documents = cells // 2 // depth * depth
    data = cr.RankingDataset.from_arrays(np.zeros((documents, 1), dtype=np.float32), np.arange(documents) // depth)
    usual = np.arange(documents) % depth
    shown = np.repeat(np.maximum(1, 20 * random.pareto(1.2, documents // depth)).astype(np.int64), depth)
    position = np.concatenate([usual, (usual + random.choice([1, depth - 1], documents)) % depth]) + 1
    impressions = np.concatenate([shown, np.maximum(1, shown // 5)])
    clicks = random.binomial(impressions, np.tile(random.beta(0.5, 4, documents), 2) / position)
    row = np.tile(np.arange(documents), 2)
    return cr.ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)


def measured_speed(path: Path) -> dict[str, Any]:
    """Reading cells and judging them; unless they are very many, by an estimated curve too. In CPU seconds."""
    start = time.process_time()
    log = cr.ClickTable.read(path)
    read, held = time.process_time() - start, peak()
    curve = Propensities.power(1, log.depth)
    draws = curve.values ** np.random.default_rng(0).normal(1, 0.1, (20, 1))
    curves = {"judge": curve, "judge, estimated curve": Propensities(curve.values, method="AllPairs", replicates=draws)}
    result = {"documents": log.candidates.n_rows, "read, s": read}
    for name, one in curves.items():
        if one.uncertain and log.n_cells > MOST_CELLS:
            continue
        start = time.process_time()
        judge_documents(log, one)
        taken = time.process_time() - start
        result |= {f"{name}, s": taken, f"{name} / read": taken / read}
    result |= {"read, GB": held, "judge, GB": peak()}
    return {key: round(value, 2) for key, value in result.items()}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# -- the command -----------------------------------------------------------------------------------------------------

STUDIES = {"compare": compared, "trust": trusted, "prior": tried, "ratings": rated}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="compare", choices=[*STUDIES, "speed"])
    parser.add_argument("--data", default=",".join(QUERIES))
    parser.add_argument("--production", default="weak", choices=["weak", "good"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sessions", default="1e4,1e5", help="of each log")
    parser.add_argument("--cells", default="1e6,1e7", help="of the study of speed")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CldrankWarning)
    if asked.study == "speed":
        with TemporaryDirectory() as folder:
            rows = [timed(int(float(cells)), Path(folder)) for cells in asked.cells.split(",")]
    else:
        rows = studied(asked)
    print(json.dumps({"benchmark": "judgements", **vars(asked), "rows": rows}))
    as_markdown(rows)


def studied(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each estimate in each setting, with the intervals of its figures."""
    sizes = tuple(float(one) for one in asked.sessions.split(","))
    first = VALIDATION if asked.study == "prior" else 0
    found: dict[tuple[Any, ...], dict[int, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    for name in asked.data.split(","):
        if name == "msrd" and catalogue.get(name).find() is None:
            print("msrd is not here: set CLDRANK_DATA.", file=sys.stderr)
            continue
        for seed in range(first, first + asked.seeds):
            for setting, methods in STUDIES[asked.study](World.of(name, asked.production, seed), sizes):
                for method, values in methods.items():
                    found[name, setting["pages"], setting["sessions"], method][seed].append(values)
    heads = ("data", "pages", "sessions", "estimate")
    return [
        {
            **dict(zip(heads, key, strict=True)),
            "logs": sum(map(len, seeds.values())),
            **summary(seeds, found.get((*key[:3], "judgements"), {})),
        }
        for key, seeds in sorted(found.items(), key=lambda one: one[0][:3])
    ]


def summary(seeds: dict[int, list[Figures]], others: dict[int, list[Figures]]) -> dict[str, dict[str, float]]:
    """The mean of each figure over the logs of a seed, then over seeds; beside that of others, seed by seed."""
    alike = [len(logs) for logs in seeds.values()] == [len(others.get(seed, [])) for seed in seeds]
    result = {}
    for key in next(iter(seeds.values()))[0]:
        values = {seed: float(np.mean([one[key] for one in logs])) for seed, logs in seeds.items()}
        result[key] = spread("mean", list(values.values()))
        if alike:
            gaps = [value - float(np.mean([one[key] for one in others[seed]])) for seed, value in values.items()]
            result[key] |= spread("beyond", gaps)
    return result


def spread(name: str, values: list[float]) -> dict[str, float]:
    """A mean, and how far its interval reaches to either side."""
    mean = float(np.mean(values))
    half = mean_interval(values).high - mean if len(values) > 1 else float("nan")
    return {name: round(mean, 4), f"{name} ±": round(half, 4)}


def as_markdown(rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", file=sys.stderr)
    for row in rows:
        print(f"| {' | '.join(written(key, row.get(key, '')) for key in columns)} |", file=sys.stderr)


def written(key: str, value: Any) -> str:
    """A figure; ▲ where it is better than that of judgements beyond the interval of the difference."""
    if not isinstance(value, dict):
        return f"{value:g}" if isinstance(value, float) else str(value)
    ahead = value.get("beyond", 0.0) * BETTER.get(key, 0)
    return f"{value['mean']:.3f} ± {value['mean ±']:.3f}{' ▲' if ahead > value.get('beyond ±', 0.0) else ''}"


if __name__ == "__main__":
    main()
