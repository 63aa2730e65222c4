"""What the synthetic sets are good for: linear rankers learn, an MLP beats them, learning from the top 5 alone costs.

All rankers learn from true labels, of all rows or only of the five rows per query that a production ranker displays: a
linear one that knows 1% of the labels, its penalty chosen by cross-validation on those. `random5`, five rows per
query drawn at random, separates the harm of selection from that of having fewer rows. Scaling is fitted to the features
of all candidates, which are always known. Differences are paired within seeds. Prints one JSON line per kind.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cldrank import measures, scaling, segments
from cldrank.data import RankingDataset, synthetic
from cldrank.methods import Oracle
from cldrank.models import Linear

Scores = NDArray[Any]
Scorer = Callable[[RankingDataset], Scores]

MEASURES = ("nDCG@3", "nDCG@10")
CONFIDENCE = 0.9
DISPLAYED = 5
LABELLED = 0.01  # the share of rows whose labels the production ranker knows
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
QUERIES = {"web10k-like": 600, "yahoo-like": 1500}
TEST_QUERIES = {"web10k-like": 600, "yahoo-like": 1500}
CLAIMS = {  # better, worse
    "linear_learns": ("linear-all", "random"),
    "mlp_beats_linear": ("mlp-all", "linear-all"),
    "linear_loses_from_top5": ("linear-all", "linear-top5"),
    "mlp_loses_from_top5": ("mlp-all", "mlp-top5"),
    "linear_top5_worse_than_random5": ("linear-random5", "linear-top5"),
    "mlp_top5_worse_than_random5": ("mlp-random5", "mlp-top5"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(synthetic.KINDS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=100, help="the sets were designed on seeds below 100")
    options = parser.parse_args()
    first = options.first_seed
    for kind in options.kinds:
        started = time.perf_counter()
        runs = [run(kind, seed) for seed in range(first, first + options.seeds)]
        print(
            json.dumps({**report(kind, runs), **speed(kind), "seconds": round(time.perf_counter() - started)}),
            flush=True,
        )


def report(kind: str, runs: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Means with t-intervals over seeds; a claim holds where the interval of its paired difference is above 0."""
    shown = {
        measure: {name: str(interval([run[name][measure] for run in runs])) for name in runs[0]} for measure in MEASURES
    }
    differences = {
        claim: {measure: interval([run[better][measure] - run[worse][measure] for run in runs]) for measure in MEASURES}
        for claim, (better, worse) in CLAIMS.items()
    }
    return {
        "benchmark": "synthetic",
        "data": f"{kind} (synthetic)",
        "queries": QUERIES[kind],
        "test_queries": TEST_QUERIES[kind],
        "seeds": len(runs),
        "confidence": CONFIDENCE,
        **shown,
        "differences": {
            claim: {measure: f"{value:+.3f}" for measure, value in found.items()}
            for claim, found in differences.items()
        },
        "claims": {claim: all(value.low > 0 for value in found.values()) for claim, found in differences.items()},
    }


def interval(values: list[float]) -> measures.Interval:
    return measures.mean_interval(np.array(values), confidence=CONFIDENCE)


def run(kind: str, seed: int) -> dict[str, dict[str, float]]:
    """All rankers on one draw of training and test queries."""
    train = synthetic.make(kind, QUERIES[kind], seed=2 * seed)
    test = synthetic.make(kind, TEST_QUERIES[kind], seed=2 * seed + 1)
    scaled = scaling.fit("log", train.features)
    train, test = (replace(data, features=scaled.transform(data.features)) for data in (train, test))
    random = np.random.default_rng(seed)
    production = tuned(rows_of(train, random.random(train.n_rows) < LABELLED))
    sources = {
        "all": train,
        "top5": rows_of(train, first(production(train), train)),
        "random5": rows_of(train, first(random.random(train.n_rows), train)),
    }
    scores = {"random": random.random(test.n_rows), "production": production(test)}
    for name, rows in sources.items():
        scores[f"linear-{name}"] = linear(rows)(test)
        scores[f"mlp-{name}"] = mlp(rows, seed)(test)
    return {name: evaluated(values, test) for name, values in scores.items()}


def evaluated(scores: Scores, test: RankingDataset) -> dict[str, float]:
    found = measures.compute(MEASURES, scores, test.labels, test.offsets)
    return {str(measure): measures.mean(values) for measure, values in found.items()}


def rows_of(data: RankingDataset, rows: NDArray[np.bool_]) -> RankingDataset:
    """Some of the candidates only."""
    assert data.labels is not None
    queries = data.query_ids[data.row_queries]
    return RankingDataset.from_arrays(
        data.features[rows],
        queries[rows],
        data.labels[rows],
        feature_names=data.feature_names,
        name=data.name,
        synthetic=data.synthetic,
    )


def first(scores: Scores, data: RankingDataset) -> NDArray[np.bool_]:
    """Which rows are displayed when the highest scores are."""
    order = np.lexsort((-scores, data.row_queries))
    rank = np.empty(data.n_rows, dtype=np.int64)
    rank[order] = np.arange(data.n_rows) - data.offsets[segments.segment_of_rows(data.offsets)]
    return rank < DISPLAYED


def linear(data: RankingDataset, l2: float = 0.01) -> Scorer:
    """Ridge regression of the labels."""
    return Oracle(model=Linear(l2=l2, scaling=None)).fit(data).predict


def tuned(data: RankingDataset, folds: int = 5) -> Scorer:
    """Ridge regression whose penalty suits few rows: that with the least squared error on queries left out."""
    assert data.labels is not None
    fold = np.arange(data.n_queries) % folds

    def error(l2: float) -> float:
        parts = [(data[fold != left_out], data[fold == left_out]) for left_out in range(folds)]
        return float(np.mean([np.mean((linear(rest, l2)(part) - part.labels) ** 2) for rest, part in parts]))

    return linear(data, l2=min(PENALTIES, key=error))


def mlp(data: RankingDataset, seed: int, steps: int = 1000, batch: int = 512) -> Scorer:
    """Regression of the labels by a network of two hidden layers."""
    torch.manual_seed(seed)
    inputs, targets = torch.tensor(data.features), torch.tensor(data.labels)
    network = torch.nn.Sequential(
        torch.nn.Linear(data.n_features, 64),
        torch.nn.ELU(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(64, 32),
        torch.nn.ELU(),
        torch.nn.Linear(32, 1),
    )
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
    centre = targets.mean()
    for _ in range(steps):
        rows = torch.randint(len(inputs), (batch,))
        loss = torch.nn.functional.mse_loss(network(inputs[rows])[:, 0], targets[rows] - centre)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    network.eval()

    def score(other: RankingDataset) -> Scores:
        with torch.no_grad():
            return network(torch.tensor(other.features))[:, 0].double().numpy()  # type: ignore[no-any-return]

    return score


def speed(kind: str) -> dict[str, Any]:
    """Rows generated a second, and the time as a multiple of that of drawing as many plain uniform numbers."""
    data = next(synthetic.generate(kind, 16 * synthetic.CHUNK, seed=0))
    taken = fastest(lambda: next(synthetic.generate(kind, 16 * synthetic.CHUNK, seed=0)))
    plain = fastest(lambda: np.random.default_rng(0).random(data.features.shape, dtype=np.float32))
    return {"rows_per_second": round(data.n_rows / taken), "times_plain_uniform": round(taken / plain, 1)}


def fastest(work: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    main()
