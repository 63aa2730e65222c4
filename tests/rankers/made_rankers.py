"""Rankers of every kind, and folders of rankers that are damaged on purpose."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import xgboost
from numpy.typing import NDArray

from cldrank import feature_blocks, scaling
from cldrank.data.dataset import RankingDataset
from cldrank.models import MLP
from cldrank.rankers import BordaRanker, LinearRanker, NetworkRanker, Provenance, TreeRanker, tree_ranker
from cldrank.rankers.network_ranker import ranker_of
from cldrank.rankers.provenance import ClicksRecord, CurveRecord, EvaluationRecord, FitRecord, MethodRecord

NAMES = ("bm25", "pagerank", "länge", "clicks")
FEATURES = np.random.default_rng(0).lognormal(0, 2, (300, 4)).astype(np.float32)
SCALING = scaling.fit("standard", FEATURES)
ORIGIN = Provenance(
    estimator="Oracle",
    parameters={"l2": 0.1, "scaling": None},
    data="web",
    synthetic=True,
    rows=9,
    queries=2,
    fingerprint="0123456789abcdef" * 4,
    has_missing=True,
    method=MethodRecord("Oracle", "learns from labels", ("position",), "Oracle()"),
    clicks=ClicksRecord(1000, 90, 8, 7, 3, "a" * 64),
    propensities={
        "": CurveRecord(
            (1.0, 0.5, 0.25),
            "power law",
            "AllPairs",
            (),
            (1.0, 0.4, 0.1),
            (1.0, 0.6, 0.4),
            0.9,
            (2,),
            (3,),
            ("a note",),
        )
    },
    diagnostics=FitRecord("converged", 4, -12.5, rows=9, weight=9.0, constant=("bm25",), warnings=("beware",)),
    command="cldrank train oracle --features 'my data.txt' --out ranker",
    evaluations=(
        EvaluationRecord(
            "held out", False, 7, "b" * 64, "zero", {"AP": {"mean": 0.7, "low": 0.6, "high": 0.8, "confidence": 0.9}}
        ),
    ),
)
PARTS: dict[str, Any] = {"feature_names": NAMES, "scaling": SCALING, "provenance": ORIGIN}
Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def linear(method: str | scaling.ScalingRule | None = "standard", **changes: Any) -> LinearRanker:
    parts: dict[str, Any] = {
        "feature_names": NAMES,
        "scaling": scaling.fit(method, FEATURES),
        "coefficients": np.array([0.1, -2 / 3, 1e-17, 3e5]),
        "intercept": 1 / 3,
        "provenance": ORIGIN,
    }
    return LinearRanker(**parts | changes)


def network(activation: Any = "elu", hidden: tuple[int, ...] = (16, 8)) -> NetworkRanker:
    found = ranker_of(MLP(hidden=hidden, activation=activation).build(4, seed=1), **PARTS)
    assert isinstance(found, NetworkRanker)
    return found


def voter(*coefficients: float) -> LinearRanker:
    return LinearRanker(coefficients=np.array(coefficients), **PARTS)


def borda(*members: Any, weights: tuple[float, ...] = (2.0, 1.0)) -> BordaRanker:
    own = members or (network(), voter(1.0, -2.0, 0.5, 0.0))
    return BordaRanker(feature_names=NAMES, members=own, weights=weights, provenance=ORIGIN)


def trees(rounds: int = 3, seed: int = 0) -> TreeRanker:
    """Trees that fit a curve, some values missing."""
    features = np.where(np.random.default_rng(seed).random(FEATURES.shape) < 0.1, np.nan, FEATURES)
    matrix = xgboost.DMatrix(features, label=np.log(FEATURES[:, 0]) ** 2 + FEATURES[:, 1])
    booster = xgboost.Booster({"objective": "rank:ndcg", "base_score": 0.0, "max_leaves": 5}, [matrix])
    for number in range(rounds):
        gradient = booster.predict(matrix, output_margin=True) - matrix.get_label()
        booster.boost(matrix, iteration=number, grad=gradient, hess=np.ones(len(FEATURES)))
    return TreeRanker(content=bytes(booster.save_raw("json")), feature_names=NAMES, provenance=ORIGIN)


def dataset(features: NDArray[Any] = FEATURES, names: tuple[str, ...] = NAMES) -> RankingDataset:
    return RankingDataset.from_arrays(features, np.arange(len(features)) // 7, feature_names=names)


RANKERS: dict[str, Callable[[], Any]] = {"network": network, "borda": borda, "trees": trees}


def in_blocks(ranker: Any, features: Any, rows: int) -> NDArray[np.float64]:
    """The scores of a ranker that reads features in blocks of so many rows."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (feature_blocks, tree_ranker):
            patched.setattr(module, "_BLOCK_VALUES", rows * len(ranker.feature_names))
        scores: NDArray[np.float64] = ranker.predict(features)
    return scores


def rewrite(folder: Path, description: dict[str, Any], tensors: dict[str, NDArray[Any]] | bytes) -> None:
    """Write a folder whose digest is right, so that the checks behind it are reached."""
    content = tensors if isinstance(tensors, bytes) else safetensors.numpy.save(tensors)
    (folder / "weights.safetensors").write_bytes(content)
    description |= {"weights_sha256": hashlib.sha256(content).hexdigest()}
    (folder / "ranker.json").write_text(json.dumps(description))


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def weights(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, dtype=np.float32)
