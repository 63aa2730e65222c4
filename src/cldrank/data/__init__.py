"""Ranking data: `RankingDataset`, how to load and save it, and synthetic sets."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cldrank.data import synthetic
    from cldrank.data.dataset import RankingDataset
    from cldrank.data.loading import load
    from cldrank.data.query_hash import held_out
    from cldrank.data.query_weights import load_query_weights
    from cldrank.data.scores import load_scores

_HOMES = {
    "RankingDataset": "dataset",
    "held_out": "query_hash",
    "load": "loading",
    "load_query_weights": "query_weights",
    "load_scores": "scores",
    "synthetic": "",
}

__all__ = ["RankingDataset", "held_out", "load", "load_query_weights", "load_scores", "synthetic"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cldrank.data' has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(import_module(f"cldrank.data.{home}"), name) if home else import_module(f"cldrank.data.{name}")


def __dir__() -> list[str]:
    return list(__all__)
