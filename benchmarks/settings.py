"""Which method is best where: settings of data, production, sessions and people, each with all methods.

    CLDRANK_DATA=… python benchmarks/settings.py run settings.jsonl [--data …] [--seeds 5] [--jobs 2] [--device cuda]
    python benchmarks/settings.py tables settings.jsonl --save docs/results/tables

Production shows its top 5: a linear ranker from 1% of the labels (weak; at least three queries), from a tenth
(middling; at least ten), or from all labels of queries of its own (strong). People examine position k with 1/k and
click an examined irrelevant result in one case of ten, and the curve is known; or they click as in cascade or
dependent click models, where neighbours are swapped on half of the pages, and the curve is estimated by all-pairs; or
the curve that methods are given, 1/k², is too steep (`--people "too steep a curve"`). A
seed draws queries, production, clicks and what is random in training. nDCG and AP are by the labels of test queries,
which nothing was chosen on. `run` appends a JSON line per setting and seed, and goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cldrank as cr
from cldrank.clicks.simulate import Cascade, DependentClicks, NeighbourSwaps, PositionBased, Simulation, TopK
from cldrank.data import synthetic
from cldrank.errors import CldrankError, CldrankWarning
from cldrank.measures import mean_interval
from cldrank.methods import IPS, CLDPair, Naive, SVMRank
from cldrank.models import MLP, Linear, Run, Trees

DEPTH, FIRST_SEED = 5, 500  # defaults were chosen on seeds below
MEASURES = ("nDCG@1", "nDCG@3", "AP")
DATA = ("web10k-sample", "mq2008", "msrd:200", "web10k-like:106", "msrd:1500", "yahoo-like:106", "web10k-like:400")
LARGE = ("msrd:1500", "web10k-like:400")  # weak and strong production only
TIED = 0.0  # the interval of the difference to the best holds 0
STEEP = "too steep a curve"
PEOPLE: dict[str, Any] = {
    "by position": PositionBased(1.0, 0.1),
    STEEP: PositionBased(1.0, 0.1),
    "cascade": Cascade(noise=0.1),
    "dependent": DependentClicks(noise=0.1, continuation=(0.6, 0.5, 0.4, 0.3, 0.2)),
}
TREES: dict[str, Any] = {
    "Naive": partial(Naive, model=Trees()),
    "IPS": partial(IPS, model=Trees()),
    "CLD-pair": partial(CLDPair, model=Trees()),
    "CLD-pair, C = 0.05": partial(CLDPair, model=Trees(), selection_weight=0.05),
    "CLD-pair, C = 1": partial(CLDPair, model=Trees(), selection_weight=1.0),
    "CLD-pair, top": partial(CLDPair, model=Trees(loss="top")),
    "CLD-pair, softmax": partial(CLDPair, model=Trees(loss="softmax")),
    "CLD-pair, linear": partial(CLDPair, model=Linear()),
}
NETWORKS: dict[str, Any] = {
    "Naive, network": partial(Naive, model=MLP()),
    "CLD-pair, network": partial(CLDPair, model=MLP()),
}
DISTILLED = "network, distilled"
OURS = "CLD-pair"


class Setting(NamedTuple):
    """Data, the quality of production, the number of sessions, and how people behave."""

    data: str
    production: str
    sessions: float
    people: str


class World(NamedTuple):
    """Queries to train and test on, and labelled ones that strong production has learned from."""

    train: Any
    test: Any
    known: Any
    relevant_from: int


def settings(data: list[str]) -> Iterator[Setting]:
    """All, the cheapest first."""
    for name in data:
        for production in ("weak", "middling", "strong"):
            if name in LARGE and production == "middling":
                continue
            for sessions in (1e3, 1e5):
                yield Setting(name, production, sessions, "by position")
        if name in ("web10k-like:106", "yahoo-like:106", "msrd:200", "mq2008"):
            for people in ("cascade", "dependent"):
                yield Setting(name, "weak", 1e5, people)
        yield Setting(name, "weak", 1e3, STEEP)


@lru_cache(2)
def world(name: str, seed: int) -> World:
    """The queries of a data set; a number behind a colon draws so many for training."""
    kind, _, size = name.partition(":")
    if kind in synthetic.KINDS:
        made = partial(synthetic.make, kind)
        test = made(400 if kind.startswith("web") else 1000, 2 * seed + 1)
        return World(made(int(size), 2 * seed), test, made(300, 2 * seed + 10_000), 2 if kind.startswith("web") else 3)
    if kind == "mq2008":
        train, test = (cr.load(f"mq2008:fold{seed % 5 + 1}/{part}") for part in ("train", "test"))
        return World(train, test, train, 1)
    if kind == "web10k-sample":
        train, test = (cr.load(f"{kind}:{part}") for part in ("train", "test"))
        return World(train, test, train, 2)
    train, test = cr.load("msrd:train"), cr.load("msrd:test")
    drawn = np.random.default_rng(seed).permutation(train.n_queries)
    return World(train[drawn[: int(size or train.n_queries)]], test, train[drawn[-3000:]], 1)


def logged(setting: Setting, seed: int) -> tuple[World, Any, Any]:
    """The world, the clicks, and the curve that methods are given."""
    given = world(setting.data, seed)
    least = {"weak": (0.01, 3), "middling": (0.1, 10)}.get(setting.production)
    learned, fraction = (given.known, 1.0) if least is None else (given.train, least[0])
    fraction = fraction if least is None else min(1.0, max(fraction, least[1] / learned.n_queries))
    production = SVMRank(fraction=fraction, run=Run(seed=seed)).fit(learned)
    by_position = setting.people in ("by position", STEEP)
    pages = Simulation(
        given.train,
        production.predict(given.train),
        PEOPLE[setting.people],
        TopK() if by_position else NeighbourSwaps(0.5),
        DEPTH,
        relevant_from=given.relevant_from,
    )
    clicks = pages.draw(setting.sessions, seed=seed)
    if not by_position:
        return given, clicks, cr.propensity.AllPairs().fit(clicks)
    return given, clicks, cr.Propensities.power(2.0 if setting.people == STEEP else 1.0, DEPTH)


def one(setting: Setting, seed: int, device: str | None, methods: list[str] | None = None) -> dict[str, Any]:
    """The measures of all methods, and the seconds that each took."""
    warnings.simplefilter("ignore", CldrankWarning)
    given, clicks, curve = logged(setting, seed)
    values: dict[str, Any] = {}
    weight, seconds = None, {}

    def judged(name: str, make: Callable[[], Any]) -> Any:
        if methods and name not in methods:
            return None
        began = time.perf_counter()
        try:
            ranker = make()
        except CldrankError as error:
            print(f"{setting} {name}: {error}", file=sys.stderr)
            return None
        seconds[name] = round(time.perf_counter() - began, 2)
        evaluated = cr.evaluate(ranker, given.test, MEASURES)
        values[name] = [round(float(evaluated[measure]), 5) for measure in MEASURES]
        return ranker

    def fitted(method: Any, where: str | None = None) -> Any:
        made = method(run=Run(seed=seed, device=where))
        arguments = (clicks,) if made.needs == "clicks" else (clicks, curve)
        return made.fit(given.train, *arguments)

    for name, method in TREES.items():
        done = judged(name, partial(lambda own: fitted(own).ranker_, method))
        if name == OURS and done is not None:
            weight = done.provenance.diagnostics.unshown_weight
    for name, method in NETWORKS.items():
        done = judged(name, partial(lambda own: fitted(own, device).ranker_, method))
    if done is not None:
        judged(DISTILLED, lambda: cr.distil(done, given.train, run=Run(seed=seed)))
    for name, peer in _peers(seed).items():
        arguments = (clicks,) if peer.required == "clicks" else (clicks, curve)
        judged(name, partial(lambda own, rest: own.fit(given.train, *rest), peer, arguments))
    return {**setting._asdict(), "seed": seed, "unshown weight": weight, "values": values, "seconds": seconds}


def _peers(seed: int) -> dict[str, Any]:
    from peers import LightGBMRanker, XGBoostRanker

    return {
        "XGBoost": XGBoostRanker(threads=1, seed=seed),
        "XGBoost, unbiased": XGBoostRanker(debias="position", threads=1, seed=seed),
        "LightGBM": LightGBMRanker(threads=1, seed=seed),
        "LightGBM, position": LightGBMRanker(debias="position", threads=1, seed=seed),
    }


def run(asked: argparse.Namespace) -> None:
    """Append the line of each setting and seed that is not there."""
    done = {(*(line[key] for key in Setting._fields), line["seed"]) for line in _lines([asked.out])}
    waiting = [
        (setting, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + asked.seeds)
        for setting in settings(asked.data)
        if (*setting, seed) not in done and setting.people in asked.people
    ]
    began = time.monotonic()
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool, asked.out.open("a") as file:
        futures = [pool.submit(one, *task, asked.device, asked.methods) for task in waiting]
        for number, future in enumerate(as_completed(futures), 1):
            print(json.dumps(future.result()), file=file, flush=True)
            print(f"{number} of {len(waiting)}, {time.monotonic() - began:.0f} s", file=sys.stderr)


def _lines(paths: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]


# -- the tables -----------------------------------------------------------------------------------------------------


def tables(asked: argparse.Namespace) -> None:
    """Means of each setting, and what each method loses to the best."""
    by_setting = defaultdict(list)
    for line in _lines(asked.files):
        by_setting[tuple(line[key] for key in Setting._fields)].append(line["values"])
    names = [*TREES, *NETWORKS, DISTILLED, *_peers(0)]
    rows: list[list[str]] = []
    losses: dict[str, dict[str, list[float]]] = {measure: defaultdict(list) for measure in MEASURES}
    tied: dict[str, dict[str, int]] = {measure: defaultdict(int) for measure in MEASURES}
    for setting, lines in by_setting.items():
        for at, measure in enumerate(MEASURES):
            values = {name: [line[name][at] for line in lines] for name in names if all(name in line for line in lines)}
            means = {name: float(np.mean(own)) for name, own in values.items()}
            best = max(means, key=means.__getitem__)
            for name, own in values.items():
                losses[measure][name].append(means[best] - means[name])
                tied[measure][name] += name == best or _is_tied(values[best], own)
            if measure == "nDCG@3":
                label = f"{setting[0]}, {setting[1]}, {setting[2]:.0e}" + (
                    "" if setting[3] == "by position" else f", {setting[3]}"
                )
                rows.append(
                    [
                        label,
                        *(f"{means[name]:.3f}"[1:] + "*" * (name == best) if name in means else "" for name in names),
                    ]
                )
    asked.save.mkdir(parents=True, exist_ok=True)
    _write(asked.save / "settings.csv", [["setting", *names], *rows])
    heads = [
        "method",
        *(f"{what}, {measure}" for measure in MEASURES for what in ("best or tied", "mean loss", "worst")),
    ]
    summary = []
    for name in names:
        row = [name]
        for measure in MEASURES:
            own = losses[measure][name]
            row += [f"{tied[measure][name]} of {len(own)}", f"{np.mean(own):.3f}", f"{max(own):.3f}"]
        summary.append(row)
    _write(asked.save / "settings-summary.csv", [heads, *summary])
    for row in [heads, *summary]:
        print(*(f"{cell:>20}" for cell in row))


def _is_tied(best: list[float], own: list[float]) -> bool:
    """Whether the 90% interval of the paired difference over seeds holds 0."""
    differences = np.subtract(best, own)
    return not differences.any() or len(differences) < 2 or mean_interval(differences).low <= TIED


def _write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("out", type=Path)
    running.add_argument("--data", nargs="+", default=list(DATA))
    running.add_argument("--people", nargs="+", default=[name for name in PEOPLE if name != STEEP])
    running.add_argument("--methods", nargs="+", help="by default all")
    running.add_argument("--seeds", type=int, default=5)
    running.add_argument("--jobs", type=int, default=2)
    running.add_argument("--device", help="where networks are trained")
    running.set_defaults(work=run)
    showing = commands.add_parser("tables")
    showing.add_argument("files", type=Path, nargs="+")
    showing.add_argument("--save", type=Path, required=True)
    showing.set_defaults(work=tables)
    asked = parser.parse_args()
    asked.work(asked)


if __name__ == "__main__":
    main()
