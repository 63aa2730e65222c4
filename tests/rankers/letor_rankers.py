"""Rankers of three numbered features, and LETOR text for them to score."""

from __future__ import annotations

from typing import Any

import numpy as np

import cldrank as cr
from cldrank import scaling
from cldrank.models import MLP
from cldrank.rankers import BordaRanker, LinearRanker, NetworkRanker, Ranker
from cldrank.rankers.network_ranker import ranker_of

NAMES = ("f1", "f2", "f3")
SCALING = scaling.fit(None, np.ones((1, 3)))
PARTS: dict[str, Any] = {"feature_names": NAMES, "scaling": SCALING}


def linear(*coefficients: float) -> LinearRanker:
    return LinearRanker(coefficients=np.array(coefficients or (1.0, -0.5, 0.25)), **PARTS)


def borda() -> BordaRanker:
    return BordaRanker(feature_names=NAMES, members=(linear(), linear(0, 1, -1)), weights=(2.0, 1.0))


def network(*hidden: int) -> NetworkRanker:
    made = ranker_of(MLP(hidden=hidden or (8,)).build(3, seed=0), **PARTS)
    assert isinstance(made, NetworkRanker)
    return made


def trees() -> Ranker:
    random = np.random.default_rng(0)
    features = np.where(random.random((400, 3)) < 0.1, np.nan, random.normal(size=(400, 3)))
    data = cr.RankingDataset.from_arrays(
        features, np.arange(400) // 8, labels=np.nansum(features, axis=1) > 0, missing="keep"
    )
    return cr.Oracle(model=cr.Trees(rounds=4, min_weight=0.1)).fit(data).ranker_


def letor(rows: int, seed: int = 0, *, scattered: bool = False, comment: str = "", queries: int = 6) -> str:
    random = np.random.default_rng(seed)
    query = random.integers(0, queries, rows) if scattered else np.sort(random.integers(0, queries, rows))
    numbers = random.integers(0, 3, (rows, 3))  # few values, so many ties
    return "".join(
        f"0 qid:{query[row]} 1:{a} 2:{b} 3:{c} {comment.format(row=row, odd=row % 3)}\n"
        for row, (a, b, c) in enumerate(numbers.tolist())
    )
