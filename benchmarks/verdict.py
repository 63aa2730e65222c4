"""Verdicts from clicks alone: how often intervals hold the truth, how often verdicts are right, who errs least.

    CLDRANK_DATA=… python benchmarks/verdict.py prepare msrd msrd.npz     # or mq2008, yahoo-like, web10k-like
    python benchmarks/verdict.py run msrd.npz [--logs 200] [--logging one swaps two] [--propensities true estimated]
        [--behaviour position-based cascade …] [--sessions 1e3 1e4] [--queries sampled same]
        [--ratings none all tenth people tops] [--pairs better …] [--jobs 2] [--out FILE]
    python benchmarks/verdict.py tables FILE … [--before FILE …] [--save FOLDER]

`prepare` trains rankers and saves a world: queries, their labels and the scores of the rankers. `run` draws logs from
it and judges them, and prints one JSON line per log; the first lines hold the truth. `tables` prints what they show, in
Markdown, or saves it as CSV, beside what an earlier version said. Pages have 5 results; eta is 1 and noise 0.1.

The tables of docs/results/calibration.md are those of its own commands.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HELPERS = Path(__file__).parent / "helpers"
sys.path.insert(0, str(HELPERS))

from judged_logs import LOGGING, PROPENSITIES, RATINGS, Setting, judged, truth_of  # noqa: E402
from known_truth import BEHAVIOURS, DEPTH, PAIRS, KnownWorld  # noqa: E402
from verdict_tables import save_tables, tables  # noqa: E402

import cldrank as cr  # noqa: E402
from cldrank import segments  # noqa: E402
from cldrank.clicks.simulate import Simulation  # noqa: E402
from cldrank.data import RankingDataset, synthetic  # noqa: E402
from cldrank.methods import Oracle, SVMRank  # noqa: E402
from cldrank.models import Linear, Trees  # noqa: E402
from cldrank.rankers.tree_ranker import TreeRanker  # noqa: E402
from cldrank.runs import Processes  # noqa: E402

Floats = NDArray[np.float64]
FEATURES = 40  # of those that rankers know, for the model of the unseen: those that the strong one uses most
NAMES = [pair.name for pair in PAIRS]
WORLDS = ("msrd", "mq2008", "yahoo-like", "web10k-like")
TRAINING, POOL = 3000, 3000  # queries of synthetic worlds
_UNLIKE = 0.3  # the most of its top 5 that a ranker unlike production shares with it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    preparing = commands.add_parser("prepare")
    preparing.add_argument("data", choices=WORLDS)
    preparing.add_argument("path", type=Path)
    running = commands.add_parser("run")
    running.add_argument("world", help="a file of `prepare`, or small")
    running.add_argument("--logs", type=int, default=200)
    running.add_argument("--first", type=int, default=0, help="the number, and seed, of the first log")
    running.add_argument("--logging", nargs="+", default=LOGGING, choices=LOGGING)
    running.add_argument("--propensities", nargs="+", default=PROPENSITIES, choices=PROPENSITIES)
    running.add_argument("--behaviour", nargs="+", default=["position-based"], choices=list(BEHAVIOURS))
    running.add_argument("--sessions", nargs="+", type=float, default=[1e3, 1e4, 1e5, 1e6])
    running.add_argument("--queries", nargs="+", default=["sampled"], choices=["sampled", "same"])
    running.add_argument("--ratings", nargs="+", default=["none"], choices=RATINGS, help="beside clicks")
    running.add_argument("--pairs", nargs="+", default=NAMES, choices=NAMES)
    running.add_argument("--jobs", type=int, default=1)
    running.add_argument("--out", type=Path, help="also append the lines to this file")
    tabling = commands.add_parser("tables")
    tabling.add_argument("files", nargs="+", type=Path)
    tabling.add_argument("--before", nargs="+", type=Path, default=[], help="logs judged by an earlier version")
    tabling.add_argument("--save", type=Path, metavar="FOLDER", help="save the tables of the documentation there")
    options = parser.parse_args(sys.argv[1:] or ["run", "small", "--logs", "2", "--queries", "same"])
    if options.command == "prepare":
        prepared(options.data).save(options.path)
    elif options.command == "run":
        run(options)
    elif options.save is None:
        print(tables(options.files))
    else:
        save_tables(options.files, options.before, options.save)


# -- worlds --------------------------------------------------------------------------------------------------------


def prepared(name: str, seed: int = 0) -> KnownWorld:
    """Rankers trained on some queries, and their scores of others."""
    random = np.random.default_rng(seed)
    train, pool = _parts(name, seed)
    share = 0.01 if train.n_queries > 1000 else 0.05
    rankers = {
        "production": SVMRank(fraction=share, run=cr.Run(seed=seed)).fit(train),
        "other": SVMRank(fraction=share, run=cr.Run(seed=seed + 1)).fit(train),
        "strong": Oracle(model=Trees(rounds=60)).fit(train[:3000]),
        "linear": Oracle(model=Linear()).fit(train[:1000]),
    }
    scores = {ranker: np.asarray(fitted.predict(pool), dtype=np.float64) for ranker, fitted in rankers.items()}
    spread = scores["production"].std()
    scores["noisy"] = scores["production"] + 0.5 * spread * random.normal(size=pool.n_rows)
    scores["feature"] = _unlike_feature(pool, scores["production"])
    scores["popular"] = _clicks_before(pool, scores["production"], seed)
    scores["reversed"] = -scores["production"]
    strong = rankers["strong"].ranker_
    if not isinstance(strong, TreeRanker):
        raise AssertionError("the strong ranker has trees")
    used = list(strong.importance())[:FEATURES]
    columns = np.sort([pool.feature_names.index(name) for name in used])
    data = RankingDataset(
        features=np.ascontiguousarray(pool.features[:, columns]),
        offsets=pool.offsets,
        labels=pool.labels,
        query_ids=np.arange(pool.n_queries),
        name=name,
        synthetic=pool.synthetic,
    )
    return KnownWorld(data, scores)


def _parts(name: str, seed: int) -> tuple[RankingDataset, RankingDataset]:
    """Queries to train rankers on, and others to draw logs from."""
    if name == "msrd":
        return cr.load("msrd:train"), cr.load("msrd:vali")
    if name == "mq2008":
        return cr.load("mq2008:fold1/test"), cr.load("mq2008:fold1/train")
    whole = synthetic.make(name, TRAINING + POOL, seed)
    return whole[:TRAINING], whole[TRAINING:]


def _unlike_feature(pool: RankingDataset, production: Floats) -> Floats:
    """The best feature to rank by, of those whose top 5 is mostly not production's."""
    features = np.nan_to_num(np.asarray(pool.features, dtype=np.float64))
    labels = np.asarray(pool.labels, dtype=np.float64)
    top = _ranks(production, pool) <= DEPTH
    best, chosen = -np.inf, features[:, 0]
    for column in features.T:
        ranks = _ranks(column, pool)
        mine = ranks <= DEPTH
        value = float((labels[mine] / np.log2(ranks[mine] + 1.0)).sum())
        if (mine & top).sum() <= _UNLIKE * mine.sum() and value > best:
            best, chosen = value, column
    return chosen


def _clicks_before(pool: RankingDataset, production: Floats, seed: int) -> Floats:
    """How often each candidate was clicked in an earlier log, by which people rank what is popular."""
    earlier = Simulation(pool, production, BEHAVIOURS["position-based"], depth=DEPTH)
    return earlier.draw(10 * pool.n_queries, seed=10**7 + seed).row_clicks.astype(np.float64)


def _ranks(scores: Floats, pool: RankingDataset) -> NDArray[np.int64]:
    ranks: NDArray[np.int64] = segments.descending_ranks(scores, pool.offsets)
    return ranks


# -- logs ----------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> None:
    asked = itertools.product(
        options.queries,
        options.logging,
        options.propensities,
        map(int, options.sessions),
        options.behaviour,
        options.ratings,
    )
    world = str(options.world)
    settings = [Setting(world, *each, tuple(options.pairs)) for each in asked]
    out = None if options.out is None else options.out.open("a")

    def say(line: dict[str, object]) -> None:
        text = json.dumps({"benchmark": "verdict", **line}, ensure_ascii=False)
        print(text if out is None else text[:100], flush=True)
        if out is not None:
            print(text, file=out, flush=True)

    for each in itertools.product(options.queries, options.logging, options.behaviour):
        queries, logging, behaviour = each
        say({"world": world, **dict(zip(("queries", "logging", "behaviour"), each, strict=True)),
             "truth": truth_of(world, queries, logging, behaviour)})  # fmt: skip
    tasks = [(setting, options.first + log) for setting in settings for log in range(options.logs)]
    with Processes(judged, options.jobs, 1) as processes:
        for finished in processes.run(tasks):
            if finished.result is None:
                sys.exit(f"{finished.item}: {finished.death}")
            say(finished.result)


if __name__ == "__main__":
    main()
