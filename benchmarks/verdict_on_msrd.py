"""A verdict from clicks on real queries, with the labels' answer beside it.

    CLDRANK_DATA=… python benchmarks/verdict_on_msrd.py [--sessions 1e5] [--html verdict.html]

MSRD's training queries, a production ranker from 1% of the labels, clicks with eta 1, noise 0.1 and a tenth of the
pages with a swap; propensities by all pairs, CLD-pair with trees on four fifths of the queries. The others judge: by
clicks, and by labels. One JSON line.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cldrank as cr
from cldrank import segments
from cldrank.clicks.simulate import FirstSwaps, PositionBased, Simulation
from cldrank.data import held_out
from cldrank.evaluation import ClickJudge
from cldrank.propensity import AllPairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=float, default=1e5)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--html", type=Path)
    options = parser.parse_args()
    data = cr.load("msrd:train")
    scores = cr.SVMRank(fraction=0.01).fit(data).predict(data)
    clicks = Simulation(data, scores, PositionBased(1.0, 0.1), FirstSwaps(0.1), depth=5).draw(options.sessions, seed=0)
    rho = AllPairs().fit(clicks)
    held = held_out(data.query_ids, 0.2)
    new = cr.CLDPair(model=cr.Trees(rounds=options.rounds)).fit(data[~held], clicks[~held], rho)
    unlabelled = cr.RankingDataset(
        data.features,
        data.offsets,
        query_ids=data.query_ids,
        doc_ids=data.doc_ids,
        feature_names=data.feature_names,
        name="msrd, labels hidden",
    )
    found = cr.compare(
        new, "production", unlabelled, clicks=clicks, propensities=rho, names=("CLD-pair with trees", "production")
    )
    if options.html is not None:
        options.html.write_text(found.to_html())
    judged, logged = data[held], clicks[held]
    print(
        json.dumps(
            {
                "benchmark": "verdict_on_msrd",
                "sessions": options.sessions,
                "queries": found.support.queries,
                "verdict": found.verdict.words,
                "reason": found.verdict.reason,
                "clicks": {name: _rounded(pair.interval) for name, pair in found.measures.items()},
                "labels": _by_labels(new, judged, logged, rho),
                "unseen": [
                    found.never_shown.results,
                    found.never_shown.break_even and _rounded(found.never_shown.break_even),
                    found.never_shown.model and _rounded(found.never_shown.model),
                ],
                "unseen by labels": _relevance_of_unseen(new, judged, logged),
            },
            ensure_ascii=False,
        )
    )


def _rounded(interval: cr.measures.Interval) -> list[float]:
    return [round(value, 4) for value in (interval.estimate, interval.low, interval.high)]


def _by_labels(
    new: cr.CLDPair, judged: cr.RankingDataset, clicks: cr.ClickTable, rho: cr.Propensities
) -> dict[str, list[float]]:
    """The difference from the order of the log, in the units of clicks, by the true relevance of all results."""
    judge = ClickJudge.of(judged, clicks, rho, estimator="affine")
    orders = judge.order(new, "new"), judge.order("production", "production")
    found = {}
    for measure in judge.measures("DCG@5 Clicks@5"):
        true = judge.clicks.value(measure, *orders, _relevance(judge.clicks.log.data))
        found[str(measure)] = _rounded(judge.clicks.interval(true.value, true.error(judge.clicks.n_queries)))
    return found


def _relevance(judged: cr.RankingDataset) -> NDArray[np.float64]:
    """How often a result is clicked when it is examined: always if labelled relevant, else by the noise of clicks."""
    return np.where(np.asarray(judged.labels) >= 1, 1.0, 0.1)


def _relevance_of_unseen(new: cr.CLDPair, judged: cr.RankingDataset, clicks: cr.ClickTable) -> float:
    """The true mean relevance of unseen results in the new top 5."""
    places = segments.descending_ranks(new.predict(judged), judged.offsets)
    lifted = (places <= 5) & ~clicks.shown & (clicks.query_impressions[judged.row_queries] > 0)
    weight = clicks.query_impressions[judged.row_queries] / np.log2(places + 1)
    return round(float(np.average(_relevance(judged)[lifted], weights=weight[lifted])), 4)


if __name__ == "__main__":
    main()
