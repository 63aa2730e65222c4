"""Fits to features that are mapped from a file and would not fit into memory."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import CldrankWarning

CANDIDATES, SHOWN = 50, 5

FITS = {
    "ips": cr.IPS(),
    "cld": cr.CLD(model=cr.Linear(max_steps=2)),
    "mlp": cr.IPS(model=cr.MLP(hidden=(4,), epochs=1), run=cr.Run(seed=1)),
    "trees": cr.IPS(model=cr.Trees(rounds=3), run=cr.Run(seed=1)),
}


def scores(name: str, data: cr.RankingDataset, clicks: cr.ClickTable) -> Any:
    """The scores of the first queries."""
    with warnings.catch_warnings(action="ignore", category=CldrankWarning):
        method: Any = FITS[name].fit(data, clicks, cr.Propensities.power(1.0, SHOWN))
    return method.predict(data[:20])


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No array fits into memory, and blocks are as much smaller than usual as the features are."""
    for module in ("linear.row_blocks", "network.features", "trees.boosting"):
        monkeypatch.setattr(f"cldrank.models.{module}.spare_memory", lambda: 0)
    for module in ("models.linear.row_blocks", "models.trees.boosting", "feature_blocks"):
        monkeypatch.setattr(f"cldrank.{module}._BLOCK_VALUES", 1 << 16)
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path))


@pytest.mark.parametrize("name", FITS)
@pytest.mark.usefixtures("little_memory")
def test_a_fit_copies_no_more_than_blocks_of_mapped_features(name: str, tmp_path: Path) -> None:
    features, query, document = random_features(1200, CANDIDATES, 64)
    np.save(tmp_path / "features.npy", features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    data = cr.RankingDataset.from_arrays(mapped, query)
    shown = document < SHOWN
    numbers = {"position": document + 1, "impressions": 20, "clicks": 3 * document}
    cells: dict[str, Any] = {kind: np.where(shown, number, 0) for kind, number in numbers.items()}
    clicks = cr.ClickTable.from_arrays(data, **cells)
    scores(name, data, clicks)  # imports, compilers
    tracemalloc.start()
    try:
        scores(name, data, clicks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.4 * features.nbytes


def random_features(queries: int, candidates: int, width: int) -> tuple[Any, Any, Any]:
    """Features, and the query and document of each row."""
    features = np.random.default_rng(0).standard_normal((queries * candidates, width), dtype=np.float32)
    return features, np.repeat(np.arange(queries), candidates), np.tile(np.arange(candidates), queries)
