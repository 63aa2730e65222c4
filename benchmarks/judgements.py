"""Judgements from clicks beside what relevance tools offer: click-through rate, and clicks over expected clicks (COEC).

    CLDRANK_DATA=… python benchmarks/judgements.py [--study compare] [--data msrd] [--production good] [--seeds 2]

Production is a ranker from 1% of the labels; a good one ranks by labels with an error of standard deviation 1. A
document of label l is clicked, if examined, with a probability r from Beta(8 a, 8 (1 - a)), where
a = 0.05 + 0.75 (2^l - 1) / (2^max - 1); position k is examined with (1/k)^eta. Pages are those of production, or three
in ten of them have two neighbours swapped. All figures are of the documents that were shown, beside the true r; means
over eta, depth and seeds.

    compare    all estimates, with the true curve and, where pages vary, with one estimated by all pairs
    trust      the same where people trust high positions, with slopes and bases: true ones, and estimated ones
    fill       documents that were never shown, filled in by a ranker that learned from the same clicks

COEC is c / Σ n ctr_k, ctr_k the click-through rate of position k. As the Search Relevance Workbench computes it, all
impressions of a document are taken to have been at its best position. One JSON line; a table on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

import cldrank as cr
from cldrank import segments
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation, TopK
from cldrank.data import catalogue, synthetic
from cldrank.errors import CldrankWarning, UnidentifiableError
from cldrank.judgements import judge
from cldrank.propensity import AffineClicks, AllPairs, Propensities, TrustBias

Floats = NDArray[np.float64]
Figures = dict[str, float]

QUERIES = {"web10k-like": 500, "yahoo-like": 1000, "msrd": 2000}
SHAPES = ((0.5, 10), (1.0, 5), (1.0, 10), (1.5, 10))  # eta and depth
SESSIONS = (1e4, 1e5, 1e6)
POLICIES = {"one ranker": TopK(), "swaps": NeighbourSwaps(0.3)}
SPREAD = 8.0


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
        """A data set, or a synthetic one in its shape."""
        data = cr.load("msrd:train")[: QUERIES[name]] if name == "msrd" else synthetic.make(name, QUERIES[name], seed)
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


def measured(estimate: Floats, world: World, shown: Floats, truth: Floats, query: Any) -> Figures:
    """Of the documents that were shown: ranks, and calibration against the truth."""
    estimate, truth, query = estimate[shown], truth[shown], query[shown]
    fit = np.polyfit(estimate, truth, 1) if np.ptp(estimate) > 0 else np.array([0.0, truth.mean()])
    label = np.asarray(world.data.labels)[shown] >= max(1, np.max(world.data.labels) // 2 + 1)
    return {
        "rank correlation": correlation(rankdata(estimate), rankdata(truth)),
        "within queries": within(estimate, truth, query),
        "error": float(np.sqrt(np.mean((estimate - truth) ** 2))),
        "rescaled error": float(np.sqrt(np.mean((np.polyval(fit, estimate) - truth) ** 2))),
        "slope": float(fit[0]),
        "intercept": float(fit[1]),
        "ECE": calibration_error(estimate, truth),
        "AUC": auc(estimate, label),
    }


def correlation(one: Floats, two: Floats) -> float:
    one, two = one - one.mean(), two - two.mean()
    return float(one @ two / max(np.sqrt((one @ one) * (two @ two)), 1e-300))


def within(estimate: Floats, truth: Floats, query: Any) -> float:
    """The mean rank correlation of a query; ties share their rank."""
    ends = np.flatnonzero(np.diff(query)) + 1
    sums = [grouped_ranks(one, query) for one in (estimate, truth)]
    found = []
    for a, b in zip(*(np.split(one, ends) for one in sums), strict=True):
        if len(a) > 1:
            found.append(correlation(a, b))
    return float(np.mean(found))


def grouped_ranks(values: Floats, query: Any) -> Floats:
    """Ranks in each query, with ties sharing theirs: by twos, those below and those not above."""
    order = np.lexsort((values, query))
    new = (np.diff(query[order], prepend=-1) != 0) | (np.diff(values[order], prepend=np.nan) != 0)
    tie = np.cumsum(new) - 1
    mean = np.bincount(tie, np.arange(len(order))) / np.bincount(tie)
    ranks = np.empty(len(order))
    ranks[order] = mean[tie]
    return ranks


def calibration_error(estimate: Floats, truth: Floats) -> float:
    """The mean distance of the mean estimate from the mean truth, over ten bins of the estimate."""
    order = np.argsort(estimate, kind="stable")
    bins = [part for part in np.array_split(order, 10) if len(part)]
    return float(sum(len(part) * abs(estimate[part].mean() - truth[part].mean()) for part in bins) / len(order))


def auc(estimate: Floats, label: NDArray[np.bool_]) -> float:
    """Of a relevant and another shown document, how often the relevant one has the higher estimate."""
    good, bad = int(label.sum()), int((~label).sum())
    if not good or not bad:
        return float("nan")
    return float((rankdata(estimate)[label].sum() - good * (good + 1) / 2) / (good * bad))


def ndcg(estimate: Floats, log: cr.ClickTable, data: cr.RankingDataset) -> float:
    """Of the shown documents alone, ranked by the estimate and by the labels."""
    shown = log.shown
    queries = data.row_queries[shown]
    offsets = np.searchsorted(queries, np.arange(data.n_queries + 1))
    gain = 2 ** np.asarray(data.labels, dtype=np.float64)[shown] - 1
    found, ideal = (
        segments.sums_of_segments(gain / np.log2(segments.descending_ranks(one, offsets) + 1), offsets)
        for one in (estimate[shown], gain)
    )
    return float(np.mean((found / np.where(ideal > 0, ideal, 1.0))[ideal > 0]))


# -- studies ---------------------------------------------------------------------------------------------------------


def compared(world: World) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """Every setting of a world, with the figures of every estimate."""
    for eta, depth in SHAPES:
        true = Propensities.power(eta, depth)
        for pages, policy in POLICIES.items():
            for sessions in SESSIONS:
                log = world.log(AffineClicks.from_propensities(true), policy, sessions)
                curves = {"judgements": true}
                found = estimated(AllPairs(), log) if pages == "swaps" else None
                if found is not None:
                    curves["judgements, estimated curve"] = found
                yield {"pages": pages, "sessions": sessions}, figures(world, log, true, curves, world.relevance)


def trusted(world: World) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """The same under trust: relevance is the probability of a click at position 1."""
    depth = 10
    k = np.arange(1, depth + 1)
    affine = AffineClicks.of(1 / k, 1 - (k + 1) / 100, 0.65 / k)
    truth = affine.slope[0] * world.relevance + affine.base[0]
    for sessions in SESSIONS:
        log = world.log(affine, POLICIES["swaps"], sessions)
        curves = {"judgements, slopes alone": Propensities.power(1, depth), "judgements": affine.anchored()}
        found = estimated(TrustBias(), log)
        if found is not None:
            curves["judgements, estimated trust"] = found
        yield (
            {"pages": "swaps", "sessions": sessions},
            figures(world, log, curves["judgements, slopes alone"], curves, truth),
        )


def figures(
    world: World, log: cr.ClickTable, assumed: Propensities, curves: dict[str, Any], truth: Floats
) -> dict[str, Figures]:
    shown, query = np.flatnonzero(log.shown), log.candidates.row_queries
    estimates = peers(log, assumed)
    covered: dict[str, Figures] = defaultdict(dict)
    for name, curve in curves.items():
        found = judge(log, curve, envelope="off")
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
        }
        for name, one in estimates.items()
    }


def filled(world: World) -> Iterator[tuple[dict[str, Any], dict[str, Figures]]]:
    """Documents that were never shown, by a ranker that learned from the clicks."""
    true = Propensities.power(1, 5)
    for pages, policy in POLICIES.items():
        for sessions in SESSIONS[1:]:
            log = world.log(AffineClicks.from_propensities(true), policy, sessions)
            ranker = cr.CLD().fit(world.data, log, true)
            found = judge(log, true, fill=ranker.predict(world.data), envelope="off")
            rows, query = np.flatnonzero(~log.shown), log.candidates.row_queries
            inside = (found.low <= world.relevance) & (world.relevance <= found.high)
            result = measured(found.relevance, world, rows, world.relevance, query)
            result |= {"mean": float(found.relevance[rows].mean()), "true mean": float(world.relevance[rows].mean())}
            yield {"pages": pages, "sessions": sessions}, {"CLD": {**result, "coverage": float(inside[rows].mean())}}


STUDIES = {"compare": compared, "trust": trusted, "fill": filled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="compare", choices=list(STUDIES))
    parser.add_argument("--data", default=",".join(QUERIES))
    parser.add_argument("--production", default="weak", choices=["weak", "good"])
    parser.add_argument("--seeds", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CldrankWarning)
    found: dict[tuple[Any, ...], list[Figures]] = defaultdict(list)
    for name in asked.data.split(","):
        if name == "msrd" and catalogue.get(name).find() is None:
            print("msrd is not here: set CLDRANK_DATA.", file=sys.stderr)
            continue
        for seed in range(asked.seeds):
            for setting, methods in STUDIES[asked.study](World.of(name, asked.production, seed)):
                for method, values in methods.items():
                    found[name, setting["pages"], setting["sessions"], method].append(values)
    rows = [
        {"data": key[0], "pages": key[1], "sessions": key[2], "estimate": key[3], "logs": len(values), **means(values)}
        for key, values in found.items()
    ]
    print(json.dumps({"benchmark": "judgements", **vars(asked), "rows": rows}))
    as_markdown(rows)


def means(values: list[Figures]) -> Figures:
    return {key: round(float(np.mean([one[key] for one in values])), 4) for key in values[0]}


def as_markdown(rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", file=sys.stderr)
    for row in rows:
        print(f"| {' | '.join(str(row.get(key, '')) for key in columns)} |", file=sys.stderr)


if __name__ == "__main__":
    main()
