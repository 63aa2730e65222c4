"""What clipping and ELU bring in ranking quality, over no clipping and ReLU, which every search engine can express.

    CLDRANK_DATA=… python benchmarks/scaling.py --variants linear [--data msrd mq2008] [--seeds 5] [--jobs 2]
    CLDRANK_DATA=… python benchmarks/scaling.py --variants network --device cuda --jobs 4 --out network.jsonl

Clicks are simulated as in the experiments: production shows its top 5, noise 0.1, eta 1, 10^5 sessions; the
propensities given are true. A seed draws the production ranker's labels, the clicks, and where networks begin. Measures
are on validation queries; the test queries of a set are never read. MSRD has a validation part, MQ2008 one in each of
its five folds (the value of a seed is the mean over folds), and the sample of WEB10K is cross-validated over its
training queries. `web10k-like` is synthetic, with 2,000 queries to learn from and 1,000 to validate.

Prints one JSON line per fit, then a table in Markdown on standard error: for each set and method, the paired difference
from the first variant (clip 5, ELU), with its 90% t-interval over seeds. With --out the lines are kept in a file, and a
second call makes only those that are missing there. --variants takes patterns, such as 'CLD-pair *none'.

    beyond      share of the validation values more than 5 training deviations from the mean, which is what clip 5 moves
    farthest    the largest such distance
    spoiled     nDCG@3 after a wrong unit: in one candidate of a hundred, one feature drawn at random is 1,000 times as
                large as it should be
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

import cldrank as cr
from cldrank import catalogue, scaling
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.clicks.table import ClickTable
from cldrank.data import RankingDataset, synthetic
from cldrank.errors import CldrankWarning
from cldrank.host import available_cores
from cldrank.measures import mean_interval
from cldrank.methods import CLD, IPS, CLDPair, Oracle, SVMRank
from cldrank.methods.evidence import needed
from cldrank.models import MLP, Linear, Run
from cldrank.propensity import Propensities
from cldrank.runs import Processes

MEASURES = ("nDCG@3", "AP")
COLUMNS = (*MEASURES, "spoiled")
SPOILED_ROWS, WRONG_UNIT = 0.01, 1000
DEPTH, NOISE, ETA, SESSIONS = 5, 0.1, 1.0, 1e5
FOLDS = {"msrd": 1, "mq2008": 5, "web10k-sample": 5, "web10k-like": 1}
FRACTION = {"web10k-sample": 0.1}  # of the labels, for production; a hundredth of 35 queries is nothing
MADE = (2000, 1000)

Activation = Literal["elu", "relu"]


@dataclass(frozen=True)
class Variant:
    """A method, how it scales, and the activation if it is fitted with a network."""

    method: str
    scaling: str
    activation: Activation | None = None

    @property
    def name(self) -> str:
        """How patterns and tables call it."""
        return " ".join(part for part in (self.method, self.activation, self.scaling) if part)

    @property
    def family(self) -> str:
        """Whether it is linear or a network, in one word."""
        return "linear" if self.activation is None else "network"

    def estimator(self, run: Run) -> Any:
        """The method to fit."""
        rule = scaling.rule_of(self.scaling)
        kind = {"CLD": CLD, "IPS": IPS, "CLD-pair": CLDPair, "Oracle": Oracle}[self.method]
        if self.activation is None:
            return kind(model=Linear(scaling=rule))
        return kind(model=MLP(scaling=rule, activation=self.activation), run=run)


RULES = ("standard:clip=5", "standard:clip=none", "log:clip=5", "log:clip=none")
VARIANTS = [
    *(Variant(method, rule) for method in ("CLD", "IPS") for rule in RULES),
    *(
        Variant(method, rule, activation)
        for method in ("CLD-pair", "Oracle")
        for rule in RULES[:2]
        for activation in get_args(Activation)
    ),
]


@dataclass(frozen=True)
class ScalingFit:
    """One fit: which variant on which data."""

    data: str
    fold: int
    seed: int
    variant: Variant
    device: str | None = None

    @property
    def scene(self) -> tuple[str, int, int]:
        """What it shares with other variants."""
        return self.data, self.fold, self.seed

    @property
    def key(self) -> tuple[Any, ...]:
        """What a line of results is known by."""
        return *self.scene, self.variant.name


class Scene(NamedTuple):
    """What a fit learns from, and what it is measured on."""

    train: RankingDataset
    validation: RankingDataset
    spoiled: RankingDataset
    clicks: ClickTable
    propensities: Propensities
    beyond: float
    farthest: float


@lru_cache
def parts(data: str, fold: int) -> tuple[RankingDataset, RankingDataset]:
    """Queries to learn from, and queries to validate."""
    if data == "web10k-like":
        whole = synthetic.make(data, sum(MADE), seed=0)
        return whole[: MADE[0]], whole[MADE[0] :]
    if data == "web10k-sample":
        whole = cr.load(f"{data}:train")
        held = np.arange(len(whole)) % FOLDS[data] == fold
        return whole[~held], whole[held]
    place = f"{data}:" if FOLDS[data] == 1 else f"{data}:fold{fold + 1}/"
    return cr.load(f"{place}train"), cr.load(f"{place}vali")


@lru_cache
def distances(data: str, fold: int) -> tuple[float, float]:
    """The share of validation values beyond 5 deviations, and the largest distance."""
    train, validation = parts(data, fold)
    found = np.abs(scaling.fit("standard:clip=none", train.features).transform(validation.features))
    return float((found > 5).mean()), float(found.max())


@lru_cache(maxsize=1)
def scene(data: str, fold: int, seed: int) -> Scene:
    """Simulated clicks on the training queries."""
    train, validation = parts(data, fold)
    production = SVMRank(fraction=FRACTION.get(data, 0.01), run=Run(seed=seed)).fit(train)
    model = PositionBased(eta=ETA, noise=NOISE)
    simulation = Simulation(train, production.predict(train), model=model, policy=TopK(), depth=DEPTH)
    clicks, rho = simulation.draw(SESSIONS, seed=seed), Propensities.power(ETA, DEPTH)
    return Scene(train, validation, spoiled(validation, seed), clicks, rho, *distances(data, fold))


def spoiled(data: RankingDataset, seed: int) -> RankingDataset:
    """The queries, with a wrong unit of one feature in some candidates."""
    random = np.random.default_rng(seed)
    features = np.array(data.features)
    rows = np.flatnonzero(random.random(len(features)) < SPOILED_ROWS)
    features[rows, random.integers(features.shape[1], size=len(rows))] *= WRONG_UNIT
    return replace(data, features=features)


def fitted(task: ScalingFit) -> dict[str, Any]:
    """The measures of one fit, as a line of JSON."""
    warnings.simplefilter("ignore", CldrankWarning)
    given = scene(*task.scene)
    estimator = task.variant.estimator(Run(seed=task.seed, device=task.device))
    start = time.perf_counter()
    estimator.fit(given.train, *needed(estimator.required, given.clicks, given.propensities))
    seconds = time.perf_counter() - start
    result = cr.evaluate(estimator, given.validation, MEASURES)
    return {
        "benchmark": "scaling",
        **{name: value for name, value in asdict(task).items() if name not in ("variant", "device")},
        "variant": task.variant.name,
        **{measure: result[measure] for measure in MEASURES},
        "spoiled": cr.evaluate(estimator, given.spoiled, MEASURES[:1])[MEASURES[0]],
        "beyond": given.beyond,
        "farthest": given.farthest,
        "seconds": round(seconds, 2),
    }


# -- summary -------------------------------------------------------------------------------------------------------


def by_seed(lines: list[dict[str, Any]], data: str, variant: str, column: str) -> dict[int, float]:
    """The mean over folds of each seed that has them all."""
    found: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        if (line["data"], line["variant"]) == (data, variant):
            found[line["seed"]].append(line[column])
    return {seed: float(np.mean(values)) for seed, values in found.items() if len(values) == FOLDS[data]}


def cell(values: Mapping[int, float], base: Mapping[int, float]) -> str:
    """The paired difference over common seeds; bold where its interval does not hold 0."""
    gaps = [values[seed] - base[seed] for seed in values if seed in base]
    if len(gaps) < 2:
        return "–"
    found = mean_interval(gaps)
    return f"{found:+.4f}" if found.low <= 0 <= found.high else f"**{found:+.4f}**"


def summary(lines: list[dict[str, Any]]) -> str:
    """For each set and method the first variant, and how far the others are from it."""
    titles = ["data", "variant", "seeds", *COLUMNS, *(f"difference in {column}" for column in COLUMNS)]
    rows = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for data in FOLDS:
        for method in dict.fromkeys(variant.method for variant in VARIANTS):
            own = [variant.name for variant in VARIANTS if variant.method == method]
            base = {column: by_seed(lines, data, own[0], column) for column in COLUMNS}
            for name in own:
                values = {column: by_seed(lines, data, name, column) for column in COLUMNS}
                seeds = len(values["AP"])
                if seeds:
                    means = [f"{np.mean(list(values[column].values())):.4f}" for column in COLUMNS]
                    gaps = ["" if name == own[0] else cell(values[column], base[column]) for column in COLUMNS]
                    rows.append(f"| {' | '.join([data, name, str(seeds), *means, *gaps])} |")
    for data in FOLDS:
        known = [line for line in lines if line["data"] == data]
        if known:
            beyond, farthest = np.mean([line["beyond"] for line in known]), max(line["farthest"] for line in known)
            rows.append(f"\n{data}: {beyond:.2%} of the values beyond 5 deviations, the farthest at {farthest:.0f}")
    return "\n".join(rows)


# -- the command ---------------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(FOLDS), choices=FOLDS)
    parser.add_argument("--variants", nargs="+", default=["linear"], help="linear, network, or patterns of names")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default=None, help="for networks")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="a file of JSON lines, continued if it is there")
    return parser.parse_args()


def kept(path: Path | None) -> list[dict[str, Any]]:
    """The lines of an earlier call."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path is not None and path.exists() else []


def main() -> None:
    chosen = arguments()
    wanted = [
        variant
        for variant in VARIANTS
        if any(pattern == variant.family or fnmatch(variant.name, pattern) for pattern in chosen.variants)
    ]
    here = [data for data in chosen.data if data == "web10k-like" or catalogue.get(data).find() is not None]
    for data in set(chosen.data) - set(here):
        print(json.dumps({"benchmark": "scaling", "data": data, "skipped": "the data set is not here"}))
    lines = kept(chosen.out)
    done = {(line["data"], line["fold"], line["seed"], line["variant"]) for line in lines}
    every = [
        ScalingFit(data, fold, seed, variant, chosen.device if variant.family == "network" else None)
        for seed in range(chosen.seeds)
        for data in here
        for fold in range(FOLDS[data])
        for variant in wanted
    ]
    tasks = [task for task in every if task.key not in done]
    threads = max(1, available_cores() // chosen.jobs)
    with Processes(fitted, chosen.jobs, threads) as processes:
        for finished in processes.run(tasks, group=lambda task: task.scene):
            if finished.result is None:
                sys.exit(f"{finished.item.key}: {finished.death}")
            lines.append(finished.result)
            text = json.dumps(finished.result)
            print(text, flush=True)
            if chosen.out is not None:
                with chosen.out.open("a") as file:
                    file.write(text + "\n")
    print(f"\n{summary(lines)}", file=sys.stderr)


if __name__ == "__main__":
    main()
