"""How experiments decide: false decisions of level rankers, coverage, power, sample ratio, CUPED.

    CLDRANK_DATA=… python benchmarks/online_tests.py [level | coverage | power | ratio | cuped] [--runs 400]

One JSON line for each case. `power` takes pairs of rankers on MSRD's training queries (eta 1, noise 0.1, five results a
page), and asks the planner for its forecast, given a log of 10⁶ sessions with swaps.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import cldrank as cr
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.experiment_planning import expected_credit, pages_to_show, usual_pages
from cldrank.measures.confidence_sequences import sample_ratio_evidence
from cldrank.online import ExperimentResult, SimulatedTest, analyse

LOOKS = 20
FEWEST = 30  # persons, below which nothing is decided
Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--runs", type=int, default=400)
    options = parser.parse_args()
    for part in options.parts:
        for line in PARTS[part](options.runs):
            print(json.dumps({"benchmark": "online_tests", "part": part, **line}), flush=True)


# -- level rankers -----------------------------------------------------------------------------------------------------


def level(runs: int) -> Iterator[dict[str, Any]]:
    """Rankers that do not differ: the share of experiments that some look, of 20, finds better or worse."""
    for kind, people, measure in (
        ("interleaving", 1000, "team credit"),
        ("interleaving", 1000, "counterfactual credit"),
        ("ab", 2000, "clicks"),
    ):
        wrong = np.zeros((runs, 3), bool)
        for run in range(runs):
            result = analyse(_level_log(kind, people, run), measure=measure, margin=0.0)
            wrong[run] = _false_decisions(result, 0.0)
        yield {"kind": kind, "measure": measure, "runs": runs, **_shares(wrong)}


def _level_log(kind: Any, people: int, run: int) -> pa.Table:
    """A log of two random orders of results that are alike in each query."""
    random = np.random.default_rng([run, 1])
    queries, size = 200, 10
    labels = np.repeat(random.integers(0, 2, queries), size)
    data = cr.RankingDataset.from_arrays(
        np.zeros((queries * size, 1)), np.repeat(np.arange(queries), size), labels=labels
    )
    new, old = random.standard_normal((2, queries * size))
    simulation = Simulation(data, old, PositionBased(1.0, 0.1), depth=5, relevant_from=1)
    return SimulatedTest(simulation, new, kind, people=people, interests=5, days=LOOKS).table(5_000, seed=run)


def _false_decisions(result: ExperimentResult, truth: float) -> tuple[bool, bool, bool]:
    """Whether any look leaves the truth out: at every look, at one look each day, at one look at the end."""
    days = [each for each in result.days.values() if each.difference.n >= FEWEST]
    outside = [[not end.low <= truth <= end.high for end in (day.difference, day.fixed)] for day in days]
    return any(day for day, _ in outside), any(day for _, day in outside), outside[-1][1]


def _shares(wrong: NDArray[np.bool_]) -> dict[str, float]:
    names = ("at every look", "fixed interval, 20 looks", "fixed interval, last look")
    return dict(zip(names, map(float, wrong.mean(axis=0).round(4)), strict=True))


# -- coverage ----------------------------------------------------------------------------------------------------------


def coverage(runs: int) -> Iterator[dict[str, Any]]:
    """Heavy clickers: how often intervals leave out the truth, by person, and if each page counted as a person."""
    wrong, naive = np.zeros((runs, 3), bool), 0
    for run in range(runs):
        log = people_log(np.random.default_rng([run, 2]), gain=0.02)
        wrong[run] = _false_decisions(analyse(log, margin=0.0), 0.02)
        clicked, new = (log[name].to_numpy() == value for name, value in (("clicked", True), ("arm", "new")))
        parts = [clicked[new], clicked[~new]]
        error = np.sqrt(sum(part.var() / len(part) for part in parts))
        naive += abs(parts[0].mean() - parts[1].mean() - 0.02) > 1.96 * error
    yield {"runs": runs, **_shares(wrong), "fixed interval by page, last look": round(naive / runs, 4)}


def people_log(random: np.random.Generator, gain: float, people: int = 1000, periods: int = 1) -> Any:
    """An A/B test of people who search and click differently; of two periods both logs, with arms in the second."""
    rates = random.beta(0.5, 1.5, people) * (1 - gain)
    searches = random.lognormal(1.0, 1.2, people)
    new = random.random(people) < 0.5
    logs = []
    for period in range(periods):
        counts = random.poisson(searches) + (period == 0 and periods == 1)
        person = random.permutation(np.repeat(np.arange(people), counts))
        chance = rates[person] + (gain * new[person] if period == periods - 1 else 0.0)
        n, start = len(person), np.datetime64(f"2026-0{period + 2}-01", "us")
        log = {
            "session_id": np.arange(n), "query_id": np.zeros(n, np.int64), "doc_id": np.zeros(n, np.int64),
            "position": np.ones(n, np.int64), "clicked": random.random(n) < chance, "user_id": person,
            "timestamp": start + np.arange(n) * (LOOKS * 86_400_000_000 // max(n, 1)),
        }  # fmt: skip
        if period == periods - 1:
            log["arm"] = np.where(new[person], "new", "old")
        logs.append(pa.table(log))
    return logs[0] if periods == 1 else logs


# -- power -------------------------------------------------------------------------------------------------------------


def power(runs: int) -> Iterator[dict[str, Any]]:
    """How many pages 80% of experiments take to decide, beside the planner's forecast.

    `sized` is the planner's number where it knows the true relevance of everything; `forecast` what it says of the log.
    """
    data = cr.load("msrd:train")
    base, better = (_standard(cr.SVMRank(fraction=share).fit(data).predict(data)) for share in (0.01, 1.0))
    noise = np.random.default_rng(3).standard_normal(len(base))
    pairs = {
        "1% of the labels, all": (base, better),
        "1%, half way to all": (base, base + 0.5 * (better - base)),
        "all with noise 1, all": (better + noise, better),
        "all with noise 0.5, all": (better + 0.5 * noise, better),
    }
    for name, (old, new) in pairs.items():
        simulation = Simulation(data, old, PositionBased(1.0, 0.1), depth=5)
        log = Simulation(data, old, PositionBased(1.0, 0.1), NeighbourSwaps(0.5), depth=5).draw(1e6, seed=7)
        sized = _sized(data, log, new)
        taken = {
            measure: _pages_taken(simulation, new, kind, measure, sized[kind], min(runs, 100))
            for kind, measure in (
                ("interleaving", "team credit"),
                ("interleaving", "counterfactual credit"),
                ("ab", "clicks"),
            )
        }
        yield {"pair": name, "sized": sized, "forecast": _forecast(data, log, new), **taken}


def _standard(scores: Floats) -> Floats:
    standard: Floats = (scores - scores.mean()) / scores.std()
    return standard


def _forecast(data: cr.RankingDataset, log: cr.ClickTable, new: Floats) -> dict[str, Any]:
    rho = cr.Propensities.power(1.0, log.depth)
    result = cr.compare(new, "production", data, clicks=log, propensities=rho.trusted(), margin=0.0)
    return {
        {"interleaving test": "interleaving", "A/B test": "ab"}.get(way.name, way.name): (way.pages, way.about)
        for way in result.settling
    }


def _sized(data: cr.RankingDataset, log: cr.ClickTable, new: Floats) -> dict[str, int]:
    """The planner's formulas on the true relevance."""
    judge = ClickJudge.of(data, log, cr.Propensities.power(1.0, log.depth).trusted())
    orders = judge.order(new, "new"), judge.order("production", "production")
    relevance = np.where(np.asarray(judge.clicks.log.data.labels) >= 1, 1.0, 0.1)
    pages_of_both = usual_pages(orders[0], judge.clicks.log), usual_pages(orders[1], judge.clicks.log)
    credit, variance, _ = expected_credit(judge.clicks.log, pages_of_both, relevance)
    means, spreads = [], []
    for rows in pages_of_both:
        chances = np.where(rows >= 0, relevance[rows], 0.0) / np.arange(1, rows.shape[1] + 1)
        means.append(chances.sum(axis=1).mean())
        spreads.append(chances.sum(axis=1).var() + (chances * (1 - chances)).sum(axis=1).mean())
    pages = pages_to_show(credit, variance), pages_to_show(means[0] - means[1], 2 * sum(spreads))
    return dict(zip(("interleaving", "ab"), (page or 0 for page in pages), strict=True))


def _pages_taken(
    simulation: Simulation, new: Floats, kind: Any, measure: str, planned: int, runs: int
) -> dict[str, int | None]:
    """The pages, at 40 looks, by which 80% and half of the experiments have decided, and how many were wrong."""
    whole = int(round(2.5 * planned, -2))
    stops = [_stop(simulation, new, kind, measure, whole, planned, run) for run in range(runs)]
    decided = sorted(stop for stop, right in stops if stop is not None and right)
    places = {"80%": int(np.ceil(0.8 * runs)) - 1, "half": runs // 2 - 1}
    pages = {name: decided[place] if place < len(decided) else None for name, place in places.items()}
    return {**pages, "wrong": sum(stop is not None and not right for stop, right in stops)}


def _stop(
    simulation: Simulation, new: Floats, kind: Any, measure: str, pages: int, planned: int, run: int
) -> tuple[int | None, bool]:
    """After how many pages an experiment decides, and whether for the better ranker."""
    log = SimulatedTest(simulation, new, kind, people=pages, days=40).table(pages, seed=run)
    days = analyse(log, measure=measure, margin=0.0, planned=planned).days.values()
    for number, day in enumerate(days, start=1):
        if day.difference.n >= FEWEST and not day.difference.low <= 0 <= day.difference.high:
            return number * pages // 40, day.difference.low > 0
    return None, False


# -- sample ratio, CUPED -----------------------------------------------------------------------------------------------


def ratio(runs: int) -> Iterator[dict[str, Any]]:
    """How often the test of the sample ratio refuses, at 20 looks, 2,000 persons in all or more."""
    random = np.random.default_rng(4)
    for share, persons in ((0.5, 20_000), (0.51, 20_000), (0.51, 100_000), (0.52, 20_000), (0.55, 5_000)):
        refused = 0
        for _ in range(runs * 25):
            steps = random.binomial(persons // LOOKS, share, LOOKS).cumsum()
            totals = np.arange(1, LOOKS + 1) * (persons // LOOKS)
            evidence = (
                sample_ratio_evidence([new, total - new], [0.5, 0.5]) for new, total in zip(steps, totals, strict=True)
            )
            refused += any(factor > 1_000 for factor in evidence)
        yield {"share": share, "persons": persons, "runs": runs * 25, "refused": refused / (runs * 25)}


def cuped(runs: int) -> Iterator[dict[str, Any]]:
    """What a period before removes of the variance, and whether intervals still hold."""
    removed, wrong, estimates = [], np.zeros((runs, 3), bool), []
    for run in range(runs):
        before, log = people_log(np.random.default_rng([run, 5]), gain=0.02, periods=2)
        result = analyse(log, before=before, margin=0.0)
        removed.append(result.first.reduction)
        estimates.append(result.first.difference.estimate)
        wrong[run] = _false_decisions(result, 0.02)
    mean, error = float(np.mean(estimates)), float(np.std(estimates) / np.sqrt(runs))
    yield {"runs": runs, "variance removed": round(float(np.mean(removed)), 3), "mean": [mean, error], **_shares(wrong)}


PARTS: dict[str, Callable[[int], Iterator[dict[str, Any]]]] = {
    "level": level,
    "coverage": coverage,
    "power": power,
    "ratio": ratio,
    "cuped": cuped,
}

if __name__ == "__main__":
    main()
