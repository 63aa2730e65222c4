"""Verdicts from clicks alone: how often intervals hold the truth, how often verdicts are right, who errs least.

    CLDRANK_DATA=… python benchmarks/verdict.py prepare msrd msrd.npz
    python benchmarks/verdict.py prepare yahoo-like yahoo.npz
    python benchmarks/verdict.py run msrd.npz [--logs 200] [--logging one swaps two] [--propensities true estimated]
        [--sessions 1e3 1e4] [--queries sampled same] [--pairs better …] [--jobs 2] [--out FILE]
    python benchmarks/verdict.py tables FILE …

`prepare` trains rankers and saves a world: queries, their labels and the scores of the rankers. `run` draws logs from
it and judges them, and prints one JSON line per log; the first lines hold the truth. `tables` prints what
they show, in Markdown. Pages have 5 results, clicks are position-based with eta 1 and noise 0.1.

The tables of docs/results/calibration.md:

    run="python benchmarks/verdict.py run --first 2000 --jobs 16"  # --pairs leaves some out
    $run msrd.npz --logs 200 --logging one --propensities true --out 1.jsonl
    $run msrd.npz --logs 100 --logging one two swaps --propensities estimated --sessions 1e4 1e5 --out 2.jsonl
    $run msrd.npz --logs 100 --logging two swaps --propensities true --sessions 1e3 1e6 --out 3.jsonl
    $run msrd.npz --logs 100 --logging one --propensities steep flat --sessions 1e5 --out 4.jsonl
    $run yahoo.npz --logs 200 --logging one --propensities true --sessions 1e5 --out 5.jsonl
    $run yahoo.npz --logs 100 --logging one --propensities true --sessions 1e3 1e4 1e6 --out 6.jsonl
    $run yahoo.npz --logs 100 --logging two --propensities estimated --sessions 1e5 --out 7.jsonl
    python benchmarks/verdict.py tables *.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np

HELPERS = Path(__file__).parent / "helpers"
sys.path.insert(0, str(HELPERS))

from judged_logs import LOGGING, PROPENSITIES, Setting, judged, truth_of  # noqa: E402
from known_truth import PAIRS, KnownWorld  # noqa: E402
from verdict_tables import tables  # noqa: E402

import cldrank as cr  # noqa: E402
from cldrank.data import RankingDataset, synthetic  # noqa: E402
from cldrank.methods import Oracle, SVMRank  # noqa: E402
from cldrank.models import Linear, Trees  # noqa: E402
from cldrank.rankers.trees import TreeRanker  # noqa: E402
from cldrank.runs import Processes  # noqa: E402

FEATURES = 40  # of those that rankers know, for the model of the unseen: those that the strong one uses most
NAMES = [pair.name for pair in PAIRS]
POOL = {"msrd": 3256, "yahoo-like": 3000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    preparing = commands.add_parser("prepare")
    preparing.add_argument("data", choices=list(POOL))
    preparing.add_argument("path", type=Path)
    running = commands.add_parser("run")
    running.add_argument("world", help="a file of `prepare`, or small")
    running.add_argument("--logs", type=int, default=200)
    running.add_argument("--first", type=int, default=0, help="the number, and seed, of the first log")
    running.add_argument("--logging", nargs="+", default=LOGGING, choices=LOGGING)
    running.add_argument("--propensities", nargs="+", default=PROPENSITIES, choices=PROPENSITIES)
    running.add_argument("--sessions", nargs="+", type=float, default=[1e3, 1e4, 1e5, 1e6])
    running.add_argument("--queries", nargs="+", default=["sampled"], choices=["sampled", "same"])
    running.add_argument("--pairs", nargs="+", default=NAMES, choices=NAMES)
    running.add_argument("--jobs", type=int, default=1)
    running.add_argument("--out", type=Path, help="also append the lines to this file")
    tabling = commands.add_parser("tables")
    tabling.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(sys.argv[1:] or ["run", "small", "--logs", "2", "--queries", "same"])
    if options.command == "prepare":
        prepared(options.data).save(options.path)
    elif options.command == "run":
        run(options)
    else:
        print(tables(options.files))


# -- worlds --------------------------------------------------------------------------------------------------------


def prepared(name: str, seed: int = 0) -> KnownWorld:
    """Rankers trained on some queries, and their scores of others."""
    random = np.random.default_rng(seed)
    if name == "msrd":
        train, pool = cr.load("msrd:train"), cr.load("msrd:vali")
    else:
        whole = synthetic.make(name, 3000 + POOL[name], seed)
        train, pool = whole[:3000], whole[3000:]
    rankers = {
        "production": SVMRank(fraction=0.01, run=cr.Run(seed=seed)).fit(train),
        "other": SVMRank(fraction=0.01, run=cr.Run(seed=seed + 1)).fit(train),
        "strong": Oracle(model=Trees(rounds=60)).fit(train[:3000]),
        "linear": Oracle(model=Linear()).fit(train[:1000]),
    }
    scores = {ranker: np.asarray(fitted.predict(pool), dtype=np.float64) for ranker, fitted in rankers.items()}
    spread = scores["production"].std()
    scores["noisy"] = scores["production"] + 0.5 * spread * random.normal(size=pool.n_rows)
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


# -- logs ----------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> None:
    asked = itertools.product(options.queries, options.logging, options.propensities, options.sessions)
    world = str(options.world)
    pairs = tuple(options.pairs)
    settings = [Setting(world, queries, logging, rho, int(size), pairs) for queries, logging, rho, size in asked]
    out = None if options.out is None else options.out.open("a")

    def say(line: dict[str, object]) -> None:
        text = json.dumps({"benchmark": "verdict", **line}, ensure_ascii=False)
        print(text if out is None else text[:100], flush=True)
        if out is not None:
            print(text, file=out, flush=True)

    for queries, logging in itertools.product(options.queries, options.logging):
        truth = truth_of(world, queries, logging)
        say({"world": world, "queries": queries, "logging": logging, "truth": truth})
    tasks = [(setting, options.first + log) for setting in settings for log in range(options.logs)]
    with Processes(judged, options.jobs, 1) as processes:
        for finished in processes.run(tasks):
            if finished.result is None:
                sys.exit(f"{finished.item}: {finished.death}")
            say(finished.result)


if __name__ == "__main__":
    main()
